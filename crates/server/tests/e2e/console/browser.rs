//! Chromium without a window, driven by its DevTools protocol over two pipes.
//!
//! The browser reads commands from descriptor 3 and writes answers to 4, JSON with a zero byte behind each. The pipes are named ones in a temporary
//! folder, opened by the shell that becomes the browser, so that nothing here has to hand over descriptors. It may resolve no name of the network.
//!
//! Invariant: it is killed by its id, also when a test fails; its helpers end with its pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use png::{Decoder, Transformations};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the browser may take for one answer, on a machine that is busy with something else.
const DEADLINE: Duration = Duration::from_secs(60);

/// What the shell does before it becomes the browser.
const SCRIPT: &str = r#"exec "$0" "$@" 3<commands 4>answers"#;

const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    commands: File,
    answers: Receiver<Value>,
    page: Option<String>,
    last: u64,
    /// What the page complained of: exceptions, refused loads.
    complaints: Vec<String>,
    _folder: TempDir,
}

impl Browser {
    /// None if there is no Chromium, which is said.
    pub(super) fn start() -> Option<Self> {
        let Some(program) = program() else {
            println!("skipped: chromium is missing (scripts/install test gets it)");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = |name: &str| {
            let path = folder.path().join(name);
            let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
            assert!(made.success());
            // Both ways, so that opening does not wait for the other side.
            OpenOptions::new().read(true).write(true).open(path).expect("the pipe")
        };
        let (commands, answers) = (pipe("commands"), pipe("answers"));
        let child = Command::new("sh")
            .args(["-c", SCRIPT])
            .arg(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg("about:blank")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser");
        let answers = listen(answers);
        let complaints = Vec::new();
        let mut browser =
            Self { child, commands, answers, page: None, last: 0, complaints, _folder: folder };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let page = browser.call("Target.attachToTarget", &attach)["sessionId"].clone();
        browser.page = page.as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Goes to an address.
    pub(super) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
    }

    /// How the page is looked at: width and height of the window, and whether the system is dark.
    pub(super) fn look(&mut self, (width, height): (u32, u32), dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(super) fn eval(&mut self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", &ask);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub(super) fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.eval(&format!("Boolean({expression})")) != true {
            let text = "document.body.innerText.slice(0, 1500)";
            assert!(began.elapsed() < DEADLINE, "never: {expression}\n{}", self.eval(text));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key, wherever the focus is: a letter, or `Escape`.
    pub(super) fn press(&mut self, key: &str) {
        // Escape closes a window only where it comes with the number that keyboards give it.
        let (text, code) = if key == "Escape" { ("", 27) } else { (key, 0) };
        let mut event =
            json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", &event);
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", &event);
    }

    /// What the window shows: its colours, each with how many pixels have it, the most frequent first.
    pub(super) fn colours(&mut self) -> Vec<([u8; 3], usize)> {
        let shot = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let bytes = from_base64(shot["data"].as_str().expect("a picture"));
        if let Some(folder) = std::env::var_os("CONSOLE_PICTURES") {
            let path = Path::new(&folder).join(format!("{}.png", self.last));
            std::fs::write(path, &bytes).expect("the picture");
        }
        let mut decoder = Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().expect("a picture");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let frame = reader.next_frame(&mut pixels).expect("pixels");
        let mut counts = std::collections::BTreeMap::new();
        for pixel in pixels.chunks_exact(frame.color_type.samples()) {
            *counts.entry([pixel[0], pixel[1], pixel[2]]).or_insert(0) += 1;
        }
        let mut colours: Vec<_> = counts.into_iter().collect();
        colours.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        colours
    }

    /// What the page complained of so far: exceptions, and what its policy refused.
    pub(super) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": params});
        if let Some(page) = &self.page {
            command["sessionId"] = json!(page);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the command");
        loop {
            let answer = self.answers.recv_timeout(DEADLINE).expect("an answer of the browser");
            if answer["id"] == self.last {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let entry = &event["params"]["entry"];
        let wrong = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            // That an answer was 401 or 503 is told to the person by the page.
            Some("Log.entryAdded") => entry["level"] == "error" && entry["source"] != "network",
            _ => false,
        };
        if wrong {
            self.complaints.push(event["params"].to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = b"{\"id\":0,\"method\":\"Browser.close\"}\0";
        let _ = self.commands.write_all(close);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads answers on a thread of its own, as a pipe has no deadline.
fn listen(answers: File) -> Receiver<Value> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(answers);
        loop {
            let mut bytes = Vec::new();
            let read = reader.read_until(0, &mut bytes);
            bytes.pop();
            let value = serde_json::from_slice(&bytes);
            let (Ok(_), Ok(value)) = (read, value) else { return };
            if send.send(value).is_err() {
                return;
            }
        }
    });
    receive
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(value(*letter)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|program| program.is_file())
}
