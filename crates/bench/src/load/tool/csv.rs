//! Reads what redis-benchmark and valkey-benchmark print with `--csv`.
//!
//! ```text
//!   "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
//!   "GET key:__rand_int__","52631.58","0.148","0.008","0.039","0.135","3.031","7.927"
//! ```
//!
//! Columns are found by their names, so another order or more of them does no harm. What is printed before the header
//! (warnings) is skipped, what looks like an error is not.
//!
//! Invariant: an outcome is made of exactly one row of figures that are all finite and above zero where they must be.

use std::process::ExitStatus;

use super::super::{LoadError, Outcome};
use crate::record::Latency;

/// What a tool left behind.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// How the tools begin a line about an error, over their versions.
const ERROR_WORDS: [&str; 6] = [
    "Error from server",
    "replied with error",
    "Error: ",
    "Could not connect",
    "Unexpected error",
    "MOVED ",
];

/// Makes an outcome of it. The tools count neither nulls nor anything below the 99th percentile.
pub(super) fn read(name: &str, output: &Output, requests: u64) -> Result<Outcome, LoadError> {
    let said = [output.stderr.trim(), output.stdout.trim()].join("\n");
    let is_error = |line: &&str| ERROR_WORDS.iter().any(|word| line.contains(word));
    let mut lines = said.lines();
    if let Some(line) = lines.find(is_error) {
        // The reason often stands on the line below.
        let more = lines.next().filter(|_| line.ends_with(':')).unwrap_or("");
        return Err(LoadError::Tool(
            format!("{name} met an error: {} {}", line.trim(), more.trim()).trim_end().to_owned(),
        ));
    }
    if !output.status.success() {
        let last = said.trim().lines().last().unwrap_or("it said nothing");
        return Err(LoadError::Tool(format!("{name} failed ({}): {last}", output.status)));
    }
    row(&output.stdout, requests).ok_or_else(|| {
        LoadError::Tool(format!(
            "the output of {name} was not understood: {}",
            output.stdout.trim()
        ))
    })
}

/// The figures of the only row; `None` when there is no such row.
fn row(stdout: &str, requests: u64) -> Option<Outcome> {
    let mut rows = stdout
        .lines()
        .map(fields)
        .skip_while(|row| row.first().is_none_or(|first| first != "test"));
    let names = rows.next()?;
    let mut rows = rows.filter(|row| row.len() == names.len());
    let (row, None) = (rows.next()?, rows.next()) else { return None };
    let figure = |name: &str| {
        let at = names.iter().position(|column| column == name)?;
        row.get(at)?.parse::<f64>().ok().filter(|figure| figure.is_finite() && *figure >= 0.0)
    };
    let us = |name: &str| figure(name).map(|ms| ms * 1e3);
    let rps = figure("rps").filter(|rps| *rps > 0.0)?;
    Some(Outcome {
        seconds: requests as f64 / rps,
        requests,
        nulls: 0,
        unanswered: 0,
        latency: Latency {
            mean_us: us("avg_latency_ms")?,
            min_us: us("min_latency_ms")?,
            max_us: us("max_latency_ms")?,
            percentiles: vec![
                (50.0, us("p50_latency_ms")?),
                (95.0, us("p95_latency_ms")?),
                (99.0, us("p99_latency_ms")?),
                (100.0, us("max_latency_ms")?),
            ],
        },
    })
}

/// Fields of a line. A request's words may hold commas and quotes; the tools put quotes around every field and do not
/// escape those within, so only `","` parts two of them.
fn fields(line: &str) -> Vec<String> {
    let inner = line.trim().strip_prefix('"').and_then(|line| line.strip_suffix('"'));
    inner.map(|inner| inner.split("\",\"").map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                          \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n";
    const ROW: &str = "\"GET a,\"b\"\",\"50000.00\",\"0.148\",\"0.008\",\"0.039\",\"0.135\",\"3.031\",\"7.927\"\n";

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        let status = ExitStatus::from_raw(code << 8);
        Output { status, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[test]
    fn a_row_becomes_an_outcome() {
        let stdout = format!("WARNING: Could not fetch server CONFIG\n{HEADER}{ROW}");
        let outcome = read("tool", &output(0, &stdout, ""), 100_000).expect("figures");
        assert_eq!((outcome.seconds, outcome.requests), (2.0, 100_000));
        assert_eq!((outcome.latency.mean_us, outcome.latency.min_us), (148.0, 8.0));
        assert_eq!(outcome.latency.at(99.0), Some(3031.0));
        assert_eq!(outcome.latency.at(99.9), None, "what the tool does not tell is not made up");
    }

    #[test]
    fn no_figure_is_made_of_errors_or_of_what_is_not_understood() {
        let good = format!("{HEADER}{ROW}");
        for (code, stdout, stderr, said) in [
            (1, HEADER, "Error from server: WRONGTYPE Operation\n", "WRONGTYPE"),
            // Older ones go on and print figures.
            (0, good.as_str(), "Error from server: ERR unknown command\n", "unknown command"),
            (
                1,
                HEADER,
                "Node 127.0.0.1:1 replied with error:\nNOAUTH Authentication required.\n",
                "NOAUTH",
            ),
            (1, "", "Could not connect to Redis at 127.0.0.1:1: Connection refused\n", "refused"),
            (3, &good, "odd\n", "failed"),
            (0, HEADER, "", "not understood"),
            (0, "PING: 50000.00 requests per second", "", "not understood"),
            (0, &format!("{HEADER}{}", ROW.replace("50000.00", "0.00")), "", "not understood"),
            (0, &format!("{HEADER}{}", ROW.replace("50000.00", "nan")), "", "not understood"),
            (0, &format!("{HEADER}{ROW}{ROW}"), "", "not understood"),
        ] {
            match read("tool", &output(code, stdout, stderr), 1000) {
                Err(LoadError::Tool(text)) => assert!(text.contains(said), "{said}: {text}"),
                other => panic!("{said}: {other:?}"),
            }
        }
    }
}
