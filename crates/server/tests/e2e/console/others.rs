//! Tenants, mirrors and read targets in the console, with contents: a tenant with a client, a mirror that lags and one whose data differ, a target that answers and is gone, and names and keys that are markup.

use std::fs;

use serde_json::json;
use testkit::ports::Port;
use testkit::{RedisServer, Respool, wait};

use super::browser::Browser;
use super::pages::{DESKTOP, PHONE, row};
use crate::setup::{RESPOOL, SOON, direct, info_field};

/// What would be an element of the page, and run, if it were put in as anything but text.
const MARKUP: &str = "<img/src=x/onerror=document.title=1>";

/// Which part of the page has this heading.
fn part(title: &str) -> String {
    format!(
        "[...document.querySelectorAll('h2')].find((head) => head.textContent === {title:?})?.parentElement"
    )
}

/// Whether that part is shown, and has a row in which all of these stand.
fn has(title: &str, words: &[&str]) -> String {
    let words = json!(words);
    format!(
        "[...({}?.querySelectorAll('tbody tr') ?? [])].some((row) => !row.closest('[hidden]') && \
         {words}.every((word) => row.innerText.includes(word)))",
        part(title)
    )
}

/// The text of one cell of the row that begins so.
fn cell(title: &str, first: &str, column: &str) -> String {
    format!(
        "(() => {{ const part = {}; \
         const at = [...part.querySelectorAll('thead th')].findIndex((head) => head.innerText.trim() === {column:?}); \
         const row = [...part.querySelectorAll('tbody tr')].find((row) => row.cells[0].innerText === {first:?}); \
         return row?.cells[at]?.innerText; }})()",
        part(title)
    )
}

/// A proxy with a tenant, a mirror whose data differ, one that will not answer, and the first of them as a read target; with its admin listener.
fn start(servers: [&RedisServer; 4], folder: &std::path::Path) -> (Respool, String) {
    let [main, blue, differs, hangs] = servers.map(|server| server.endpoint().url());
    let admin = Port::v4().release().to_string();
    let text = format!(
        "[admin]\nlisten = \"{admin}\"\n\
         [mirrors]\ntargets = [\"{differs} name=differs shadow_reads=100\", \"{hangs} name=hangs\"]\nshadow_samples = true\n\
         [read_targets]\ntargets = [\"{differs} name=near\"]\nkeys = [\"near:*\"]\n\
         [tenants.blue]\nclient_names = [\"blue*\"]\nupstream = \"{blue}\"\n"
    );
    let file = folder.join("respool.toml");
    fs::write(&file, text).expect("the file");
    let file = file.display().to_string();
    let proxy = Respool::to_url(RESPOOL, &main).workers(1).args(&["--config", &file]).start();
    (proxy, format!("http://{admin}"))
}

#[test]
fn tenants_and_mirrors_are_shown_with_what_they_have_and_markup_stays_text() {
    if direct() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let [main, blue, differs, hangs] = [(); 4].map(|()| RedisServer::start());
    let folder = tempfile::tempdir().expect("a folder");
    let (proxy, base) = start([&main, &blue, &differs, &hangs], folder.path());
    let (key, value) = (format!("{MARKUP}:1"), format!("{MARKUP}-of-the-mirror"));
    main.connect().ask(&format!("SET {key} v"));
    differs.connect().ask(&format!("SET {key} {value}"));
    differs.connect().ask("SET near:1 his");

    // A client of the tenant, one that is called as a tenant never may be, and reads that differ.
    let mut of_blue = proxy.connect();
    assert_eq!(of_blue.ask(&format!("CLIENT SETNAME blue{MARKUP}")), "+OK\r\n");
    wait::until_true("the tenant's server", SOON, || of_blue.ask("SET k v") == "+OK\r\n");
    let mut reads = proxy.connect();
    assert_eq!(reads.ask(&format!("CLIENT SETNAME {MARKUP}")), "+OK\r\n");
    let different = |reads: &mut testkit::Conn| {
        let line = info_field(reads, "mirrors", "mirror_0_shadow_reads").unwrap_or_default();
        line.split(',').any(|field| {
            field
                .strip_prefix("different=")
                .is_some_and(|count| count.parse::<u64>().unwrap_or(0) > 0)
        })
    };
    wait::until_true("a difference to be seen", SOON, || {
        reads.ask(&format!("GET {key}"));
        different(&mut reads)
    });
    // The other mirror says nothing from here on; what is written waits for it.
    hangs.pause();
    for n in 0..20 {
        assert_eq!(reads.ask(&format!("SET waits:{n} v")), "+OK\r\n");
    }

    browser.look(DESKTOP, false);
    browser.open(&format!("{base}/"));
    browser.until("document.body?.dataset.turns > 3");
    browser.until(&has("Tenants", &["blue"]));
    assert_eq!(browser.eval(&cell("Tenants", "blue", "clients")), "1");
    browser.until(&has("Mirrors", &["differs"]));
    browser.until(&format!("Number({}) >= 20", cell("Mirrors", "hangs", "queued")));
    browser.until(&format!("Number({}) >= 1", cell("Mirrors", "differs", "reads")));
    assert_ne!(browser.eval(&cell("Mirrors", "differs", "mismatch")), "0 %");
    browser.until(&has("Read targets", &["near", "ready"]));
    assert_eq!(browser.eval(&cell("Read targets", "near", "answered")), "0");
    assert_eq!(reads.ask("GET near:1"), "$3\r\nhis\r\n");
    browser.until(&format!("{} === '1'", cell("Read targets", "near", "answered")));
    // The lag of one that says nothing grows.
    let lag = cell("Mirrors", "hangs", "lag");
    let before = browser.eval(&lag);
    browser.until(&format!("{lag} !== {before}"));
    browser.until(&has("Reads compared with mirrors, by prefix", &["differs", MARKUP]));
    browser.until(&has("Reads compared with mirrors, by command", &["differs", "get"]));
    browser.until(&has("The last differences", &["get", &key, &value]));
    let elements = "document.querySelectorAll('main img, [onerror]').length";
    assert_eq!(browser.eval(elements), 0, "markup is an element");
    for (size, dark) in [(DESKTOP, true), (PHONE, false)] {
        browser.look(size, dark);
        let width = browser.eval("document.documentElement.scrollWidth");
        assert_eq!(width, json!(size.0), "it is wider than its window");
    }
    browser.look(DESKTOP, false);
    browser.eval("location.hash = 'clients'");
    browser.until(&row(&format!("blue{MARKUP}")));
    browser.until(&row("blue"));
    assert_eq!(browser.eval(elements), 0, "markup is an element");
    assert_ne!(browser.eval("document.title"), "1");
    hangs.resume();
    browser.eval("location.hash = 'overview'");
    browser.until(&format!("Number({}) === 0", cell("Mirrors", "hangs", "queued")));
    assert_eq!(browser.complaints(), [""; 0]);
}
