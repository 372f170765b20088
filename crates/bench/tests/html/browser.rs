//! Chromium without a window: screenshots, and a page that reports on its own layout.
//!
//! Each call is a process of its own with a profile in a temporary folder, may resolve no name of the network, has 60
//! seconds, and is killed by its id when it does not end by itself.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use png::{Decoder, Transformations};

/// How long a browser may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// What the browser drew.
pub(crate) struct Picture {
    /// Width and height.
    pub(crate) size: (u32, u32),
    /// Red, green, blue; row by row.
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// The colour of a pixel.
    pub(crate) fn at(&self, x: u32, y: u32) -> [u8; 3] {
        self.pixels[(y * self.size.0 + x) as usize]
    }

    /// Pixels of exactly this colour.
    pub(crate) fn area(&self, colour: [u8; 3]) -> usize {
        self.pixels.iter().filter(|pixel| **pixel == colour).count()
    }

    fn read(file: &Path) -> Self {
        let file = File::open(file).expect("the browser made a screenshot");
        let mut decoder = Decoder::new(BufReader::new(file));
        decoder.set_transformations(Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut bytes).unwrap();
        // Three of them, or four with an alpha that a whole window has no use for.
        let samples = frame.color_type.samples();
        assert!(samples >= 3, "{:?}", frame.color_type);
        let pixels = bytes[..frame.buffer_size()].chunks_exact(samples);
        let pixels = pixels.map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Self { size: (frame.width, frame.height), pixels }
    }
}

/// Draws a document of this kind (`html`, `svg`) in a window of `size` pixels.
pub(crate) fn screenshot(document: &str, kind: &str, size: (u32, u32), dark: bool) -> Picture {
    let folder = tempfile::tempdir().unwrap();
    let png = folder.path().join("screen.png");
    run(folder.path(), document, kind, size, dark, &format!("--screenshot={}", png.display()));
    Picture::read(&png)
}

/// What is wrong with the layout of a page in a window of that width: a sentence for each problem.
///
/// The page's policy forbids scripts, so the copy that is measured is one without the policy. It stands in a frame,
/// because the browser makes no window narrower than 500 pixels.
pub(crate) fn problems_of_layout(page: &str, width: u32) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (before, policy) = page.split_once("<meta http-equiv=").expect("a policy");
    let (_, after) = policy.split_once('>').unwrap();
    let script = format!("<script>{}</script></body>", include_str!("layout.js"));
    let copy = format!("{before}{}", after.replace("</body>", &script));
    let copy = copy.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!DOCTYPE html><body><iframe width=\"{width}\" height=\"900\" style=\"border:0\" srcdoc=\"{copy}\"></iframe></body>"
    );
    let dom = run(folder.path(), &frame, "html", (1700, 1000), false, "--dump-dom");
    let report = dom.rsplit_once("<pre id=\"report\">").expect("the script ran").1;
    let report = report.split("</pre>").next().unwrap();
    let (facts, problems) = report.split_once('\n').unwrap();
    let (texts, seen) = facts.split_once(' ').unwrap();
    assert_eq!(seen, width.to_string(), "the width that the page had");
    let texts: u32 = texts.parse().unwrap();
    assert!(texts > 50, "only {texts} texts were looked at");
    problems.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Variables of a theme in a document, as red, green, blue: `t1`, `page`.
pub(crate) fn theme(document: &str, dark: bool) -> HashMap<String, [u8; 3]> {
    let from = if dark { "@media (prefers-color-scheme:dark){:root{" } else { ":root{" };
    let theme = document.split(from).nth(1).expect("a theme").split('}').next().unwrap();
    let colour = |value: &str| {
        let number = u32::from_str_radix(value.strip_prefix('#')?, 16).ok()?.to_be_bytes();
        Some([number[1], number[2], number[3]])
    };
    theme
        .split(';')
        .filter_map(|pair| pair.strip_prefix("--")?.split_once(':'))
        .filter_map(|(name, value)| Some((name.to_owned(), colour(value)?)))
        .collect()
}

/// Runs the browser on a document and gives what it printed.
fn run(
    folder: &Path,
    document: &str,
    kind: &str,
    size: (u32, u32),
    dark: bool,
    task: &str,
) -> String {
    let file = folder.join(format!("document.{kind}"));
    fs::write(&file, document).unwrap();
    let (printed, complaints) = (folder.join("stdout"), folder.join("stderr"));
    let mut child = Command::new(program())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg("--force-device-scale-factor=1")
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--window-size={},{}", size.0, size.1))
        .arg(task)
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(File::create(&printed).unwrap())
        .stderr(File::create(&complaints).unwrap())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if began.elapsed() > DEADLINE => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let complaints = fs::read_to_string(complaints).unwrap_or_default();
    assert!(status.is_some_and(|s| s.success()), "the browser gave {status:?}:\n{complaints}");
    fs::read_to_string(printed).unwrap()
}

fn program() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
        .expect("chromium is missing: run `scripts/install test` (Debian: apt-get install --no-install-recommends chromium)")
}
