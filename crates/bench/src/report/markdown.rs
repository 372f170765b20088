//! A run as Markdown: to be read as it is, pasted into an issue, or kept between two markers of a document.
//!
//! Two tables over all tests, how fast and at what cost; the second has the columns of the field's published tables:
//! cores used, user and system, of proxy and of server. No colours and no HTML, so that every viewer shows the same.
//!
//! Invariant: nothing of the run's text can end a table's cell or start a new line in it.

use super::rows::{self, Column, NONE, SPEED};
use crate::record::Run;
use crate::stats;
use crate::stats::noise::Verdict;

/// The whole report as a document of its own.
#[must_use]
pub fn markdown(run: &Run) -> String {
    let mut text = format!("# {}\n\n{}\n\n", line(&run.scenario), line(&run.about));
    if let Some(source) = &run.source {
        text.push_str(&format!("Reproduces: {}\n\n", line(source)));
    }
    text.push_str(&tables(run));
    text.push_str(&format!("\n## What ran\n\n{}", loads(run)));
    text.push_str(&format!("\n## How to read it\n\n{}", how_to_read(run)));
    text
}

/// The tables, and what must stand beside them: machine, versions, command, warnings, what was left out. This is what
/// [`replace_between`] puts into a document.
#[must_use]
pub fn tables(run: &Run) -> String {
    let mut text = table(run, &SPEED);
    text.push('\n');
    text.push_str(&table(run, &rows::cost(run)));
    let rounds =
        if run.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", run.rounds) };
    text.push_str(&format!(
            "\nMedians of {rounds}; × {base} is the median of the ratios within each round, and {mark} marks a \
             difference within the noise.\n\n",
            base = cell(&run.base),
            mark = rows::WITHIN_NOISE,
    ));
    text.push_str(&format!(
        "- Measured {} by `{}` in {}.\n",
        run.began,
        line(&run.command),
        rows::duration(run.seconds)
    ));
    text.push_str(&format!("- Machine: {}.\n", machine(run)));
    let versions: Vec<String> =
        run.targets.iter().map(|target| format!("{}: {}", target.name, target.what)).collect();
    text.push_str(&format!(
        "- Targets: {}; respool-bench {}.\n",
        line(&versions.join("; ")),
        run.bench_version
    ));
    for warning in stats::all_warnings(run) {
        text.push_str(&format!("- **Warning:** {}\n", line(&warning)));
    }
    for left_out in &run.left_out {
        text.push_str(&format!("- Left out: {}\n", line(left_out)));
    }
    text
}

/// Replaces what stands between the lines `<!-- NAME begin -->` and `<!-- NAME end -->` of a document; the markers stay.
///
/// # Errors
/// In words when a marker is missing, stands twice, or they are in the wrong order: then nothing may be replaced.
pub fn replace_between(document: &str, name: &str, text: &str) -> Result<String, String> {
    let place = |which: &str| {
        let marker = format!("<!-- {name} {which} -->");
        let mut found = document.match_indices(&marker);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok((at, at + marker.len())),
            (None, _) => Err(format!("the document has no line {marker}")),
            (Some(_), Some(_)) => Err(format!("the document has {marker} more than once")),
        }
    };
    let ((_, from), (to, _)) = (place("begin")?, place("end")?);
    if from > to {
        return Err(format!("the markers of {name} stand in the wrong order"));
    }
    Ok(format!("{}\n{}\n{}", &document[..from], text.trim_end(), &document[to..]))
}

/// One table over all tests.
fn table(run: &Run, columns: &[Column]) -> String {
    let headers: Vec<String> = columns.iter().map(|column| cell(&column.header(run))).collect();
    let mut text = format!("| test | {} |\n", headers.join(" | "));
    // The first column, the target, is text; numbers end at the right.
    text.push_str(&format!("|---|---|{}\n", "---:|".repeat(columns.len() - 1)));
    for test in &run.tests {
        for target in rows::targets(run, test) {
            let cells: Vec<String> =
                columns.iter().map(|column| shown(column.cell(run, test, target))).collect();
            text.push_str(&format!("| {} | {} |\n", cell(&test.name), cells.join(" | ")));
        }
    }
    text
}

/// A ratio that is better beyond the noise stands out; a worse one is as plain as it is.
fn shown(content: rows::Cell) -> String {
    let text = cell(&content.text);
    if content.verdict == Some(Verdict::Better) { format!("**{text}**") } else { text }
}

fn machine(run: &Run) -> String {
    let machine = &run.machine;
    let mut parts = vec![
        if machine.cpu.is_empty() { "unknown CPU".to_owned() } else { line(&machine.cpu) },
        format!("{} cores", machine.cores),
        format!("{:.0} GiB", machine.memory_bytes as f64 / f64::from(1 << 30)),
        format!("Linux {}", line(&machine.kernel)),
    ];
    parts.push(if machine.pinned.is_empty() {
        "nothing pinned".to_owned()
    } else {
        line(&machine.pinned)
    });
    parts.join(", ")
}

/// What each test did.
fn loads(run: &Run) -> String {
    let mut text = String::new();
    for test in &run.tests {
        text.push_str(&format!("- {}: {}\n", line(&test.name), line(&rows::load_in_words(test))));
    }
    text
}

fn how_to_read(run: &Run) -> String {
    let general = format!(
        "- Compare within one table only: machines change their speed from one minute to the next. All targets were \
         visited in turn, so the ratios to {base} are of visits of the same minute, and the safest figures here.\n\
         - CPU per request is what the scheduler charged to a process, divided by the requests answered meanwhile: in \
         brackets its user and its system part. Cores are the same CPU per second: 0.986 is all but one whole core.\n\
         - A proxy can raise the throughput of a server: it hands the requests of many clients over in one read and \
         takes the answers in one write, so the server's *system* part falls. Its user part does not.\n\
         - Spread is the distance from the least to the greatest round, relative to the median: of the throughput, and \
         of the CPU per request of the proxy (of the server where there is none).\n\
         - A ratio with {mark} is within the noise: its 95 % interval (Student's t on the logarithms of the rounds' \
         ratios) contains 1, or it is less than two percent away from it.\n\
         - {NONE} stands for what was not measured.\n",
        base = cell(&run.base),
        mark = rows::WITHIN_NOISE,
    );
    let Some(floor) = stats::floor(run) else { return general };
    format!(
        "{general}- {floor} only receives and answers, which every proxy does towards its clients and more besides: × \
         {floor} is the proxy's CPU per request as a multiple of its, in brackets that of the user and of the system \
         part. The floor's own user part is tiny, so a multiple of that is large and coarse.\n",
        floor = cell(floor),
    )
}

/// Text within a line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text within a table's cell.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}
