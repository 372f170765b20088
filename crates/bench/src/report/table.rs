//! Tables for a terminal: one per test, and the comparison of two runs.
//!
//! A table that is too wide for the terminal is cut, how fast and at what cost, and that into proxy and server, before
//! any cell is wrapped.
//! Colour (green better, red worse than the base, beyond the noise) is only for a terminal, and only says again what the
//! text says.
//!
//! Invariant: without colour the text holds no escape sequence.

use std::fmt::Write as _;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, TableComponent, presets,
};

use super::rows::{self, Column, SERVER_COST, SPEED};
use crate::compare::{Comparison, Row};
use crate::record::{Run, Test};
use crate::stats;
use crate::stats::noise::{Change, Verdict};

/// How a table may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal.
    pub width: u16,
    /// Whether colours are wanted.
    pub colour: bool,
}

impl Look {
    /// As standard output wants it. Where that is no terminal nothing is cut in two: a file has room. `NO_COLOR`
    /// (no-color.org) is obeyed.
    #[must_use]
    pub fn of_stdout() -> Self {
        let table = Table::new();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        match table.width().filter(|_| table.is_tty()) {
            Some(width) => Self { width: width.max(WIDTH_MIN), colour: wanted },
            None => Self { width: u16::MAX, colour: false },
        }
    }
}

/// All tests of a run, with its warnings and what was left out.
#[must_use]
pub fn run(run: &Run, look: Look) -> String {
    let mut text = String::new();
    for test in &run.tests {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{}", heading(&test.name, &rows::load_in_words(test), look));
        let _ = writeln!(text, "{}", self::test(run, test, look));
    }
    let _ = writeln!(text, "CPU in brackets is user + system. {LEGEND}");
    list(&mut text, "warning: ", &stats::all_warnings(run));
    list(&mut text, "left out: ", &run.left_out);
    text
}

/// The table of one test, ending in a newline.
#[must_use]
pub fn test(run: &Run, test: &Test, look: Look) -> String {
    let (cost, proxy_cost) = (rows::cost(run), rows::proxy_cost(run));
    let all: Vec<Column> = SPEED.iter().chain(&cost[1..]).copied().collect();
    let ways: [&[&[Column]]; 3] = [&[&all], &[&SPEED, &cost], &[&SPEED, &proxy_cost, &SERVER_COST]];
    let tables = |way: &[&[Column]]| -> Vec<Table> {
        way.iter().map(|part| columns(run, test, part, look)).collect()
    };
    let fits = |tables: &Vec<Table>| {
        tables.iter().all(|table| natural_width(table) <= usize::from(look.width))
    };
    let fitting = ways.iter().map(|way| tables(way)).find(fits);
    let shown = fitting.unwrap_or_else(|| tables(ways[2]));
    shown.into_iter().map(|table| format!("{}\n", fitted(table, look))).collect()
}

/// What two runs have to say to each other: every figure, and below, where a terminal stands still, what changed.
#[must_use]
pub fn comparison(comparison: &Comparison, look: Look) -> String {
    let mut text = format!("before  {}\nafter   {}\n", comparison.runs[0], comparison.runs[1]);
    let against = match &comparison.base {
        Some(base) => format!("against {base}"),
        None => "relative".to_owned(),
    };
    for rows in comparison.rows.chunk_by(|a, b| a.test == b.test) {
        let _ = writeln!(text, "\n{}", heading(&rows[0].test, "", look));
        let _ = writeln!(text, "{}", fitted(compared(rows, &against, look), look));
    }
    text.push('\n');
    list(&mut text, "warning: ", &comparison.warnings);
    list(&mut text, "note: ", &comparison.notes);
    list(&mut text, "note: ", &comparison.only_in_one);
    let _ = writeln!(text, "\n{}", verdicts(comparison, &against, look));
    text
}

/// The table of one test. A target is named in its first row only.
fn compared(rows: &[Row], against: &str, look: Look) -> Table {
    let mut table = empty(look);
    let header = ["target", "figure", "before", "after", "change", against, ""];
    table.set_header(header.map(bold(look)));
    let mut named = "";
    for row in rows {
        let target = if row.target == named { "" } else { &row.target };
        named = &row.target;
        table.add_row([
            Cell::new(target),
            Cell::new(stats::label(row.figure)),
            Cell::new(rows::digits(row.before.median)),
            Cell::new(rows::digits(row.after.median)),
            Cell::new(change(&row.absolute)),
            Cell::new(row.relative.as_ref().map_or_else(|| rows::NONE.to_owned(), change)),
            coloured(Cell::new(row.verdict), Some(row.verdict), look),
        ]);
    }
    align(&mut table, 2);
    table
}

/// What differs beyond the noise, the worse first, one line per target and test; and how the verdicts were reached.
fn verdicts(comparison: &Comparison, against: &str, look: Look) -> String {
    let mut table = empty(look);
    for verdict in [Verdict::Worse, Verdict::Better] {
        for rows in comparison.rows.chunk_by(|a, b| (&a.test, &a.target) == (&b.test, &b.target)) {
            let changes: Vec<String> =
                rows.iter().filter(|row| row.verdict == verdict).map(in_words).collect();
            if !changes.is_empty() {
                table.add_row([
                    coloured(Cell::new(verdict), Some(verdict), look),
                    Cell::new(format!("{}, {}:", rows[0].test, rows[0].target)),
                    Cell::new(changes.join(", ")),
                ]);
            }
        }
    }
    align(&mut table, usize::MAX);
    let lead =
        if table.is_empty() { String::new() } else { format!("{}\n\n", fitted(table, look)) };
    let [worse, better, same] =
        [Verdict::Worse, Verdict::Better, Verdict::Same].map(|verdict| comparison.count(verdict));
    format!(
        "{lead}{worse} worse, {better} better, {same} the same within the noise. In brackets: 95 % \
         intervals. The verdict\nfollows the change {against} where there is one, as machines \
         change their speed between runs."
    )
}

/// `throughput +20.0 %`, by the change that the verdict follows.
fn in_words(row: &Row) -> String {
    let factor = row.relative.unwrap_or(row.absolute).factor;
    format!("{} {:+.1} %", stats::name(row.figure), (factor - 1.0) * 100.0)
}

/// `+5.1 % [+2, +8]`.
fn change(change: &Change) -> String {
    let percent = |factor: f64| (factor - 1.0) * 100.0;
    let factor = percent(change.factor);
    if change.high.is_finite() {
        format!("{factor:+.1} % [{:+.0}, {:+.0}]", percent(change.low), percent(change.high))
    } else {
        format!("{factor:+.1} % [too few rounds]")
    }
}

fn columns(run: &Run, test: &Test, columns: &[Column], look: Look) -> Table {
    let mut table = empty(look);
    table.set_header(columns.iter().map(|column| bold(look)(&column.header(run))));
    for target in rows::targets(run, test) {
        table.add_row(columns.iter().map(|column| {
            let cell = column.cell(run, test, target);
            coloured(Cell::new(cell.text), cell.verdict, look)
        }));
    }
    align(&mut table, 1);
    table
}

/// Lines only below the header: numbers are read down the column, and a grid is noise.
fn empty(look: Look) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─');
    table.set_content_arrangement(ContentArrangement::Disabled);
    // The crate asks the terminal itself otherwise, and then a test would depend on where it runs.
    table.force_no_tty();
    if look.colour {
        table.enforce_styling();
    }
    table
}

/// Numbers, from this column on, end at the right. Two spaces between columns are enough: one is the border's.
fn align(table: &mut Table, from: usize) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The text of a table, without spaces at the lines' ends. Cells of one that is still too wide are wrapped.
fn fitted(mut table: Table, look: Look) -> String {
    if natural_width(&table) > usize::from(look.width) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(look.width);
    }
    table.trim_fmt()
}

fn natural_width(table: &Table) -> usize {
    table.lines().map(|line| plain_len(&line)).max().unwrap_or(0)
}

/// Characters of a line, escape sequences (`ESC [ … m`) not counted.
fn plain_len(line: &str) -> usize {
    let mut inside = false;
    line.chars()
        .filter(|&c| {
            let counts = !inside && c != '\u{1b}';
            inside = c == '\u{1b}' || (inside && c != 'm');
            counts
        })
        .count()
}

fn coloured(cell: Cell, verdict: Option<Verdict>, look: Look) -> Cell {
    match verdict {
        Some(Verdict::Better) if look.colour => cell.fg(Color::Green),
        Some(Verdict::Worse) if look.colour => cell.fg(Color::Red),
        _ => cell,
    }
}

fn bold(look: Look) -> impl Fn(&str) -> Cell {
    move |text| {
        let cell = Cell::new(text);
        if look.colour { cell.add_attribute(Attribute::Bold) } else { cell }
    }
}

fn heading(name: &str, words: &str, look: Look) -> String {
    let name = if look.colour { format!("\u{1b}[1m{name}\u{1b}[0m") } else { name.to_owned() };
    if words.is_empty() { name } else { format!("{name}  {words}") }
}

fn list(text: &mut String, lead: &str, lines: &[String]) {
    for line in lines {
        let _ = writeln!(text, "{lead}{line}");
    }
}

/// Explains the mark of `rows::WITHIN_NOISE`.
const LEGEND: &str =
    "× is the median of the ratios within each round; ~ marks a difference within the noise.";
/// Narrower than this nothing is readable, and the terminal wraps by itself.
const WIDTH_MIN: u16 = 40;
