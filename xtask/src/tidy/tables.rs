//! Tables of Markdown: each row has as many cells as the head.
//!
//! A bar in code is the end of a cell like any other, unless a backslash stands before it; and a row that was merged into another table
//! mostly has another number of cells.
//!
//! Invariant: what stands between fences is no table.

use super::Problems;

/// Looks at the tables of a page.
pub(super) fn check(path: &str, text: &str, problems: &mut Problems) {
    let mut head = None;
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced || !line.starts_with('|') {
            head = None;
            continue;
        }
        let (cells, wanted) = (cells(line), *head.get_or_insert(cells(line)));
        if cells != wanted {
            let text = format!("a row of {cells} cells in a table of {wanted}");
            problems.add(path, index + 1, text);
        }
    }
}

/// How many cells a row has.
fn cells(row: &str) -> usize {
    let mut count: usize = 0;
    let mut is_escaped = false;
    for byte in row.bytes() {
        count += usize::from(byte == b'|' && !is_escaped);
        is_escaped = byte == b'\\' && !is_escaped;
    }
    // One more bar than cells.
    count.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_another_number_of_cells_is_found() {
        let table = "| a | b |\n|---|---|\n| `x\\|y` | 1 |\n";
        for (text, found) in [
            (table.to_owned(), 0),
            (format!("{table}| `x|y` | 1 |\n"), 1),
            (format!("{table}| 1 |\n"), 1),
            (format!("{table}\n| another |\n|---|\n"), 0),
            (format!("```\n| a |\n{table}```\n"), 0),
        ] {
            let mut problems = Problems::default();
            check("a.md", &text, &mut problems);
            assert_eq!(problems.count(), found, "{text}");
        }
    }
}
