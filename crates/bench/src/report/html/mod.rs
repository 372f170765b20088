//! The report as one HTML file, and its pictures as SVG files.
//!
//! ```text
//!   Run ─► view (colours) ─┬─ headline  numbers at the top        ─┐
//!                          ├─ timeline  the whole run              ├─► page ─► render()
//!                          ├─ plots     bars and curves per test   │
//!                          ├─ ladders   against a varied number    │     └───► pictures(), for documents
//!                          └─ table     every figure              ─┘
//! ```
//!
//! The file is complete in itself: style and pictures are inside, scripts there are none, and a Content-Security-Policy
//! forbids the browser to fetch anything. It can be mailed, and opened in ten years.
//!
//! What it is not: arithmetic. Every number comes from `stats`; here it is only written and drawn.
//!
//! Invariant: every text of the run is escaped (`maud`), and no number is `NaN` or infinite, whatever the run holds.

mod bars;
mod headline;
mod ladders;
mod lines;
mod page;
mod picture;
mod plots;
mod scale;
mod table;
mod text;
mod theme;
mod timeline;
mod view;

use self::picture::{Key, Picture};
use self::view::View;
use crate::record::{Run, Test};

/// The report of a run: a whole HTML document in UTF-8, with everything inside.
#[must_use]
pub fn render(run: &Run) -> String {
    page::draw(&View::new(run)).into_string()
}

/// The pictures of a run for documents: (file name, SVG). Each is complete in itself and follows the reader's light or
/// dark theme. File names begin with the scenario's name: `predixy-8-cpu.svg`. A picture without data is left out.
#[must_use]
pub fn pictures(run: &Run) -> Vec<(String, String)> {
    let view = &View::new(run);
    let plain = Key::default();
    let tones = Key { tones: true, ..Key::default() };
    let each = |draw: fn(&View, &Test) -> Option<Picture>| -> Vec<Picture> {
        run.tests.iter().filter_map(|test| draw(view, test)).collect()
    };
    let timeline: Vec<Picture> = timeline::draw(view, page::TIMELINE_WIDTH).into_iter().collect();
    let mut files = vec![
        ("timeline".to_owned(), "CPU and throughput over the run", view.key(true), timeline),
        ("cpu".to_owned(), "CPU per request", tones, each(plots::cpu)),
        ("throughput".to_owned(), "Throughput", plain.clone(), each(plots::throughput)),
        ("latency".to_owned(), "Latency by percentile", plain.clone(), each(plots::latency)),
    ];
    for ladder in ladders::all(view) {
        let name = format!("by-{}", ladder.axis);
        files.push((name, "Figures by", plain.clone(), ladder.groups.concat()));
    }
    files
        .into_iter()
        .filter(|(.., pictures)| !pictures.is_empty())
        .map(|(name, heading, key, pictures)| {
            let heading = match name.strip_prefix("by-") {
                Some(axis) => format!("{heading} {} · {}", ladders::words(axis), run.scenario),
                None => format!("{heading} · {}", run.scenario),
            };
            let file = format!("{}.svg", file_name(&format!("{}-{name}", run.scenario)));
            (file, picture::file(&heading, &key, &pictures, 2))
        })
        .collect()
}

/// Small letters, digits and dashes only, so that a name works as a file and in a URL.
fn file_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => name.push(c),
            _ if !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    name.trim_matches('-').to_owned()
}
