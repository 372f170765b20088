//! A tree of stacks as a flame graph: a picture that stands by itself.
//!
//! ```text
//!   │ inner  │ │     │      A frame is as wide as the part of all samples that it or what it called was seen in,
//!   │ outer       │ other │  and stands on what called it. The lowest row has the threads.
//!   │ thread        │ thread │
//! ```
//! There is no script in it, and nothing that a browser would load; who points at a frame reads all of its name. Its colour tells which part of the
//! program it is of.
//!
//! Invariant: well-formed XML, whatever the names are, and at most [`FRAMES_MAX`] frames.

use super::fold::{Placed, Tree};
use std::fmt::{Display, Formatter, Write};

/// Draws it, with a line of text above.
pub(super) fn write(tree: &Tree, caption: &str) -> String {
    let total = tree.samples();
    let mut frames = tree.placed();
    let least = least_samples(&frames, total);
    frames.retain(|frame| frame.samples >= least);
    let rows = frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(1);
    let height = HEAD + rows * ROW + MARGIN as usize;
    let mut out = head(height, caption);
    for frame in &frames {
        let y = HEAD + (rows - 1 - frame.depth) * ROW;
        draw(&mut out, frame, y, total);
    }
    if frames.is_empty() {
        let y = HEAD + ROW - 5;
        put(
            &mut out,
            format_args!(
                "<text x=\"{MARGIN}\" y=\"{y}\">No samples: the process used no processor time.</text>\n"
            ),
        );
    }
    out.push_str("</svg>\n");
    out
}

/// How many samples a frame must have to be drawn. No frame has more than the one that it stands on, so none is left in the air.
fn least_samples(frames: &[Placed<'_>], total: u64) -> u64 {
    let narrow = (total as f64 * WIDTH_MIN / (WIDTH - 2.0 * MARGIN)).ceil() as u64;
    let mut samples: Vec<u64> = frames.iter().map(|frame| frame.samples).collect();
    samples.sort_unstable_by(|a, b| b.cmp(a));
    let too_many = samples.get(FRAMES_MAX).map_or(0, |first| first + 1);
    narrow.max(too_many).max(1)
}

fn head(height: usize, caption: &str) -> String {
    let (caption, text_y) = (Escaped(caption), HEAD - 10);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" preserveAspectRatio=\"xMinYMin\" \
         font-family=\"ui-monospace, monospace\" font-size=\"12\">\n<title>CPU profile of respool</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"caption\" x=\"{MARGIN}\" y=\"{text_y}\">respool, {caption}</text>\n"
    )
}

fn draw(out: &mut String, frame: &Placed<'_>, y: usize, total: u64) {
    let scale = (WIDTH - 2.0 * MARGIN) / total as f64;
    let (x, width) = (MARGIN + frame.before as f64 * scale, frame.samples as f64 * scale);
    let (samples, percent) = (frame.samples, frame.samples as f64 * 100.0 / total as f64);
    let (name, kind) = (Escaped(frame.name), kind(frame));
    put(
        out,
        format_args!(
            "<g class=\"{kind}\"><title>{name} ({samples} samples, {percent:.2} %)</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\"/>",
            ROW - 1
        ),
    );
    if let Some(label) = label(frame.name, width) {
        let (x, y) = (x + 3.0, y + ROW - 5);
        put(out, format_args!("<text x=\"{x:.2}\" y=\"{y}\">{}</text>", Escaped(&label)));
    }
    out.push_str("</g>\n");
}

/// As much of a name as has room: its end says most.
fn label(name: &str, width: f64) -> Option<String> {
    let room = ((width - 6.0) / CHAR_WIDTH).max(0.0) as usize;
    let chars = name.chars().count();
    if chars <= room {
        return Some(name.to_owned());
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    if last.chars().count() <= room && !last.is_empty() {
        return Some(last.to_owned());
    }
    (room >= LABEL_CHARS_MIN)
        .then(|| last.chars().take(room - 1).chain(std::iter::once('…')).collect())
}

/// Which part of the program a frame is of: the name of its colour.
fn kind(frame: &Placed<'_>) -> &'static str {
    if frame.depth == 0 {
        return "thread";
    }
    let name = frame.name.trim_start_matches(['<', '&']).trim_start_matches("mut ");
    let krate = name.split([':', ' ', '>']).next().unwrap_or_default();
    match krate {
        "engine" => "engine",
        "resp" => "resp",
        "netio" | "rustix" | "linux_raw_sys" => "netio",
        "server" | "respool" | "config" => "server",
        "[kernel]" => "kernel",
        "std" | "core" | "alloc" | "hashbrown" => "std",
        _ => "other",
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

/// Text that cannot be markup.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                // No character of XML 1.0, not even as a number.
                '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' => {
                    formatter.write_char('?')?;
                }
                '\u{fffe}' | '\u{ffff}' => formatter.write_char('?')?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Of the picture, in its own units; a browser fits it into the window.
const WIDTH: f64 = 1200.0;

/// Left, right and below.
const MARGIN: f64 = 10.0;

/// Above the frames.
const HEAD: usize = 34;

/// From one row to the next.
const ROW: usize = 18;

/// Of a character of the label, at most.
const CHAR_WIDTH: f64 = 7.25;

/// A label of fewer says nothing.
const LABEL_CHARS_MIN: usize = 4;

/// What is narrower is not drawn.
const WIDTH_MIN: f64 = 0.5;

/// Frames that are drawn, the widest ones: some 250 bytes each.
const FRAMES_MAX: usize = 10_000;

const STYLE: &str = "
svg{background:#fff} .page{fill:#fff} text{fill:#1a1a1a} g text{pointer-events:none} g:hover rect{stroke:#000}
.thread rect{fill:#c8ccd4} .engine rect{fill:#f2a65a} .resp rect{fill:#f6d55c} .netio rect{fill:#8fc1e3}
.server rect{fill:#b5d99c} .std rect{fill:#e3d5ec} .other rect{fill:#dcdcdc} .kernel rect{fill:#ee8f80}
@media (prefers-color-scheme:dark){
svg{background:#16181d} .page{fill:#16181d} text{fill:#f0f0f0} g:hover rect{stroke:#fff}
.thread rect{fill:#3d4452} .engine rect{fill:#9c5a17} .resp rect{fill:#7d6a10} .netio rect{fill:#2c5f85}
.server rect{fill:#46702a} .std rect{fill:#5f4a6e} .other rect{fill:#4a4a4a} .kernel rect{fill:#913b2f}}
";

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::xml;

    fn tree(stacks: &[(&[&str], u64)]) -> Tree {
        let mut tree = Tree::default();
        for (names, samples) in stacks {
            tree.add(names[0], names[1..].iter().copied(), *samples);
        }
        tree
    }

    /// x, y, width of the frame with this title.
    fn rect(svg: &str, title: &str) -> (f64, f64, f64) {
        let line = svg.lines().find(|line| line.contains(&format!("<title>{title} (")));
        let line = line.unwrap_or_else(|| panic!("{title} is not in {svg}"));
        let number = |name: &str| -> f64 {
            let rest = line.split_once("<rect").expect("a rectangle").1;
            let rest = rest.split_once(&format!(" {name}=\"")).expect("it").1;
            rest.split('"').next().expect("a value").parse().expect("a number")
        };
        (number("x"), number("y"), number("width"))
    }

    #[test]
    fn frames_are_as_wide_as_their_part_and_stand_on_who_called_them() {
        let tree = tree(&[(&["t", "a"], 1), (&["t", "b", "c"], 3), (&["t", "b"], 2), (&["u"], 4)]);
        let svg = write(&tree, "a caption");
        xml::check(&svg).unwrap();
        // 1180 units for ten samples; three rows of 18 below 34.
        assert_eq!(rect(&svg, "t"), (10.0, 70.0, 708.0));
        assert_eq!(rect(&svg, "u"), (718.0, 70.0, 472.0));
        assert_eq!(rect(&svg, "a"), (10.0, 52.0, 118.0));
        assert_eq!(rect(&svg, "b"), (128.0, 52.0, 590.0));
        assert_eq!(rect(&svg, "c"), (128.0, 34.0, 354.0));
        assert!(svg.contains("viewBox=\"0 0 1200 98\""), "{svg}");
        assert!(svg.contains("<title>b (5 samples, 50.00 %)</title>"), "{svg}");
        assert!(svg.contains(">respool, a caption</text>"));
    }

    #[test]
    fn hostile_names_are_text() {
        let hostile = "</title><script>alert('&\"\u{1}\u{ffff}]]>";
        let svg = write(&tree(&[(&[hostile, hostile], 1)]), hostile);
        xml::check(&svg).unwrap();
        assert!(!svg.contains("<script") && !svg.contains('\u{1}'), "{svg}");
        assert!(svg.contains("&lt;script&gt;alert(&#39;&amp;&quot;??]]&gt;"), "{svg}");
    }

    #[test]
    fn it_names_nothing_that_would_be_loaded() {
        let svg = write(&tree(&[(&["t", "a"], 1)]), "");
        let without = svg.replace("http://www.w3.org/2000/svg", "");
        for wrong in ["http", "href", "url(", "@import", "<script", "<foreignObject", " on"] {
            assert!(!without.contains(wrong), "{wrong}: {svg}");
        }
    }

    #[test]
    fn what_is_too_narrow_is_left_out() {
        let svg = write(&tree(&[(&["t", "wide"], 10_000), (&["t", "narrow"], 1)]), "");
        assert!(svg.contains(">wide (") && !svg.contains(">narrow ("), "{svg}");
        // The middle of a narrow branch is not drawn without its begin.
        assert!(svg.contains("viewBox=\"0 0 1200 80\""), "{svg}");
    }

    #[test]
    fn the_picture_has_a_bound() {
        let mut tree = Tree::default();
        // Forty branches, each 500 deep: 20 000 frames, all wide enough.
        for branch in 0..40u64 {
            let names: Vec<String> = (0..500).map(|depth| format!("{branch}-{depth}")).collect();
            tree.add("t", names.iter().map(String::as_str), 100 + branch);
        }
        let svg = write(&tree, "");
        xml::check(&svg).unwrap();
        let drawn = svg.matches("<g ").count();
        assert!(drawn <= FRAMES_MAX && drawn > FRAMES_MAX / 2, "{drawn}");
        assert!(svg.contains(">39-499 (") && !svg.contains(">0-0 ("), "the widest stay");
    }

    #[test]
    fn nothing_seen_is_said() {
        let svg = write(&Tree::default(), "");
        xml::check(&svg).unwrap();
        assert!(svg.contains("No samples"), "{svg}");
    }

    #[test]
    fn a_label_is_what_has_room() {
        let label = |name, width| label(name, width).unwrap_or_default();
        assert_eq!(label("engine::Engine::process", 200.0), "engine::Engine::process");
        assert_eq!(label("engine::Engine::process", 60.0), "process");
        assert_eq!(label("engine::Engine::process", 40.0), "pro…");
        assert_eq!(label("engine::Engine::process", 20.0), "");
        assert_eq!(label("a", 1.0), "");
    }

    #[test]
    fn colours_tell_the_part_of_the_program() {
        let kind = |name| kind(&Placed { name, depth: 1, before: 0, samples: 1, in_children: 0 });
        assert_eq!(kind("engine::Engine::process"), "engine");
        assert_eq!(kind("<&mut netio::epoll::EpollDriver as x>::y"), "netio");
        assert_eq!(kind("<resp::Scan>::y"), "resp");
        assert_eq!(kind("memcpy"), "other");
        assert_eq!(kind("[kernel]"), "kernel");
    }
}
