//! The page in a browser: what it shows of a proxy under load, what its buttons do, and how it looks.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::Signal;
use serde_json::json;
use testkit::ports::Port;
use testkit::{Conn, RedisServer, Respool, wait};

use super::browser::Browser;
use crate::admin::{Looked, TOKEN};
use crate::setup::{RESPOOL, SOON, direct};

pub(super) const DESKTOP: (u32, u32) = (1280, 800);
pub(super) const PHONE: (u32, u32) = (360, 740);

/// A client that asks all the time.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(mut conn: Conn) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let large = format!("SET big {}", "v".repeat(20_000));
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                for command in ["SET hot 1", "GET hot", "LPUSH hot 1", &large] {
                    conn.ask(command);
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A proxy with everything that the console shows.
fn busy(args: &[&str]) -> (Looked, Load) {
    let all = [
        &["--hotkeys-enabled", "true", "--hotkeys-sample", "1", "--bigkeys-bytes-min", "16KiB"],
        &["--slowlog-slower-than-us", "0"][..],
        args,
    ];
    let looked = Looked::with(&all.concat());
    let load = Load::start(looked.proxy.connect());
    (looked, load)
}

/// Whether a view's table has a row with these words.
pub(super) fn row(words: &str) -> String {
    format!(
        "[...document.querySelectorAll('tbody tr')].some((row) => row.innerText.includes({words:?}))"
    )
}

/// Opens a view of a proxy that asks for [`TOKEN`].
fn enter(browser: &mut Browser, looked: &Looked, view: &str) {
    browser.open(&format!("{}/{view}", looked.base));
    browser.until("document.getElementById('token')");
    browser.eval(&sign_in(TOKEN));
}

fn sign_in(token: &str) -> String {
    format!(
        "(() => {{ document.getElementById('token').value = {token:?}; \
         document.querySelector('dialog form').requestSubmit(); }})()"
    )
}

fn show(browser: &mut Browser, view: &str) {
    browser.eval(&format!("location.hash = {view:?}"));
    browser.until(&format!("document.querySelector('[aria-current]')?.hash === '#{view}'"));
}

#[test]
fn every_view_is_filled_and_fits_a_phone_and_a_desktop_in_both_themes() {
    if direct() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let (looked, _load) = busy(&[]);
    let mut named = looked.proxy.connect();
    assert_eq!(named.ask("CLIENT SETNAME <b>me</b>"), "+OK\r\n");
    browser.look(DESKTOP, false);
    enter(&mut browser, &looked, "");
    // Two intervals make a line.
    browser.until("document.body?.dataset.turns > 3");
    browser.until("document.querySelector('.charts .line')?.getAttribute('points')?.includes(' ')");
    let address = looked.server.endpoint().url().replace("redis://", "");
    let filled = [
        ("overview", format!("document.querySelector('.pool')?.innerText.includes({address:?})")),
        ("servers", row(&address)),
        ("commands", row("lpush")),
        ("clients", row("<b>me</b>")),
        ("keys", format!("{} && {}", row("hot"), row("big"))),
        ("slow", row("GET hot")),
        ("errors", row("WRONGTYPE")),
        ("config", "document.querySelectorAll('.option').length > 50".to_owned()),
    ];
    for (view, expected) in filled {
        show(&mut browser, view);
        browser.until(&expected);
        for (size, dark) in [(DESKTOP, false), (DESKTOP, true), (PHONE, false), (PHONE, true)] {
            browser.look(size, dark);
            let width = browser.eval("document.documentElement.scrollWidth");
            assert_eq!(width, json!(size.0), "{view} is wider than its window");
            let colours = browser.colours();
            let most: usize = colours[0].0.iter().map(|part| usize::from(*part)).sum();
            assert_eq!(most < 3 * 64, dark, "{view}: the page is {:?}", colours[0].0);
            let few = colours.len() < 30;
            assert!(!few, "{view}: {size:?}, dark: {dark}: only {} colours", colours.len());
        }
        browser.look(DESKTOP, false);
    }
    assert_eq!(browser.eval("document.querySelectorAll('nav a').length"), 8, "no view is left out");
    show(&mut browser, "overview");
    // From the rate of errors to the error, its command, client and text.
    browser.eval(
        "[...document.querySelectorAll('h3 a')].find((a) => a.innerText === 'Errors/s').click()",
    );
    browser.until(&row("lpush"));
    browser.until(&row("Operation against a key holding the wrong kind of value"));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn an_option_of_the_file_that_waits_for_a_restart_is_shown_with_its_value_then() {
    if direct() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let (server, admin) = (RedisServer::start(), Port::v4().release());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    let text = format!("[admin]\nlisten = \"{admin}\"\n");
    fs::write(&file, &text).expect("the file");
    let config = file.display().to_string();
    let proxy = Respool::to_url(RESPOOL, &server.endpoint().url());
    let proxy = proxy.args(&["--config", &config]).start();
    fs::write(&file, format!("unix_mode = \"0777\"\n{text}")).expect("the file");
    proxy.process().signal(Signal::HUP);
    let mut conn = proxy.connect();
    let told = || conn.ask("INFO proxy").contains("proxy_config_pending:unix_mode");
    wait::until_true("what waits", SOON, told);
    browser.look(DESKTOP, false);
    browser.open(&format!("http://{admin}/#config"));
    let option = "document.getElementById('option-unix_mode')?.closest('.option')";
    browser.until(&format!("{option}?.innerText.includes('after a restart: 0777')"));
    assert_eq!(browser.eval("document.getElementById('option-unix_mode').value"), "0700");
    assert_eq!(
        browser.eval("document.body.innerText.split('after a restart').length"),
        2,
        "no other option waits"
    );
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn options_are_changed_and_clients_closed_after_a_question() {
    if direct() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let (looked, _load) = busy(&[]);
    let mut victim = looked.proxy.connect();
    assert_eq!(victim.ask("CLIENT SETNAME victim"), "+OK\r\n");
    browser.look(DESKTOP, false);
    enter(&mut browser, &looked, "#config");
    browser.until("document.getElementById('option-timeouts.request_ms')");
    let write = |value: &str| {
        format!(
            "(() => {{ const field = document.getElementById('option-timeouts.request_ms'); \
             field.value = {value:?}; field.dispatchEvent(new Event('input')); \
             document.querySelector('.pending button.main').click(); }})()"
        )
    };
    browser.eval(&write("soon"));
    browser.until("document.querySelector('dialog pre')?.innerText.includes('found `soon`')");
    browser.eval("document.querySelector('dialog').close()");
    browser.eval(&write("1234"));
    browser.until("document.querySelector('dialog ins')?.innerText.includes('1234')");
    assert_eq!(looked.option("timeouts.request_ms")["value"], 10_000, "only asked so far");
    browser.eval("document.querySelector('dialog button.main').click()");
    browser.until("document.querySelector('.origin.change')");
    assert_eq!(looked.option("timeouts.request_ms")["value"], 1234);
    assert_eq!(browser.eval("document.getElementById('option-workers').disabled"), true);

    browser.eval("location.hash = 'clients'");
    browser.until(&row("victim"));
    let filter = "(() => { const field = document.querySelector('main input[type=search]'); \
                  field.value = 'victim'; field.dispatchEvent(new Event('input')); })()";
    browser.eval(filter);
    browser.until("document.querySelectorAll('tbody tr').length === 1");
    browser.eval("document.querySelector('td button').click()");
    browser.until("document.querySelector('dialog button.danger')");
    assert_eq!(victim.ask("PING"), "+PONG\r\n", "only asked so far");
    browser.eval("document.querySelector('dialog button.danger').click()");
    assert_eq!(victim.read_to_close().expect("the end"), b"");

    browser.eval("location.hash = 'keys'");
    browser.until("document.querySelector('[role=switch]')?.checked");
    browser.eval("document.querySelector('[role=switch]').click()");
    browser.until("document.querySelector('main').innerText.includes('Keys are not counted')");
    assert_eq!(looked.option("hotkeys.enabled")["value"], false);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_profile_is_made_and_saved() {
    if direct() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let (looked, _load) = busy(&[]);
    enter(&mut browser, &looked, "");
    browser.until("document.getElementById('profile')");
    // What would be saved is kept for the test.
    browser.eval(
        "(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((it) => { window.saved = it; }); \
         return make(blob); }; document.getElementById('profile').click(); })()",
    );
    browser.until("document.getElementById('profile').disabled");
    browser.until("window.saved?.includes('<title>respool-') && window.saved.includes('</svg>')");
    browser.until("document.getElementById('notice').innerText.includes('is saved')");
    browser.until("!document.getElementById('profile').disabled");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn it_asks_for_the_token_and_obeys_the_keyboard() {
    if direct() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let (looked, _load) = busy(&["--admin-token", "of-admins"]);
    browser.look(PHONE, true);
    browser.open(&format!("{}/", looked.base));
    browser.until("document.getElementById('token')");
    browser.eval(&sign_in("wrong"));
    browser.until("document.querySelector('dialog')?.innerText.includes('not the right one')");
    browser.eval(&sign_in("of-admins"));
    browser.until("document.body.dataset.turns > 1");
    browser.until("document.getElementById('state').innerText === 'ready'");
    assert_eq!(browser.eval("document.querySelector('dialog')"), json!(null));

    browser.press("3");
    browser.until("location.hash === '#commands'");
    browser.press("?");
    browser.until("document.querySelector('dialog[open]')?.innerText.includes('the views')");
    browser.press("Escape");
    browser.until("!document.querySelector('dialog')");
    browser.press("4");
    browser.until("document.querySelector('main input[type=search]')");
    browser.press("/");
    browser.until("document.activeElement.type === 'search'");
    browser.press("3");
    assert_eq!(browser.eval("location.hash"), "#clients", "it was written, not obeyed");
    browser.press("Escape");
    browser.press("t");
    browser.until("document.documentElement.dataset.theme === 'light'");
    browser.press("p");
    browser.until("document.getElementById('pause').getAttribute('aria-pressed') === 'true'");
    let drain = looked.agent.post(format!("{}/drain", looked.base));
    drain.header("Authorization", "Bearer of-admins").send_empty().expect("an answer");
    browser.press("p");
    browser.until("document.getElementById('why').innerText.includes('drained')");
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), PHONE.0, "it has room");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn rates_and_quantiles_are_of_the_interval_between_two_answers() {
    if direct() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let looked = Looked::open();
    browser.open(&format!("{}/", looked.base));
    browser.until("document.body?.dataset.turns > 0");
    let stats = |uptime_us: u64, requests: u64, buckets: serde_json::Value| {
        json!({"pid": 1, "uptime_us": uptime_us, "cpu_user_us": uptime_us / 4, "cpu_system_us": 0, "rss_bytes": 7,
            "latency": {"buckets": buckets},
            "total": {"requests": requests, "errors": 0, "redirects": 0, "client_in_bytes": 0, "client_out_bytes": 0,
                "upstream_requests": requests, "upstream_writes": requests / 4, "clients": 3, "inflight": 2, "buffered_bytes": 1}})
    };
    let before = stats(1_000_000, 400, json!([[10, 400]]));
    let after = stats(3_000_000, 600, json!([[10, 500], [20, 98], [40, 2]]));
    let mut interval = |before: &serde_json::Value, after: &serde_json::Value| {
        browser.eval(&format!(
            "import('/console/history.js').then((it) => it.interval({before}, {after}))"
        ))
    };
    let point = interval(&before, &after);
    let expected = [
        ("seconds", 2.0),
        ("requests", 100.0),
        ("batch", 4.0),
        ("user", 0.25),
        ("p50", 9.0),
        ("p99", 19.0),
        ("p999", 39.0),
        ("clients", 3.0),
    ];
    for (name, value) in expected {
        assert_eq!(point[name].as_f64(), Some(value), "{name}: {point}");
    }
    assert_eq!(interval(&after, &before), json!(null), "a restart, or counters that began again");
    let idle = interval(&after, &stats(4_000_000, 600, after["latency"]["buckets"].clone()));
    assert_eq!((&idle["p99"], &idle["batch"]), (&json!(null), &json!(null)), "{idle}");
    assert_eq!(idle["requests"].as_f64(), Some(0.0));
}
