//! Programs of the operator's own (`policies.own`), in front of a real server: the guide's configuration, other programs under traffic, and those
//! that run away.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct};

/// A server, a proxy in front of it, and a folder with their files.
struct Stack {
    // The order matters: the proxy goes before its server and its files.
    proxy: Respool,
    server: RedisServer,
    folder: tempfile::TempDir,
}

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides")
}

/// A program that answers every request with this line.
fn answers(text: &str) -> String {
    let said: String =
        format!("A+{text}\r\n").bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let len = text.len() + 4;
    format!(
        "(module (memory (export \"memory\") 1) (data (i32.const 16) \"{said}\")
           (func (export \"respool_buffer\") (param i32) (result i32) (i32.const 1024))
           (func (export \"respool_request\") (param i32 i32) (result i64)
             (i64.or (i64.shl (i64.const 16) (i64.const 32)) (i64.const {len}))))"
    )
}

/// A program whose requests never end.
const ENDLESS: &str = "(module (memory (export \"memory\") 1)
    (func (export \"respool_buffer\") (param i32) (result i32) (i32.const 1024))
    (func (export \"respool_request\") (param i32 i32) (result i64) (loop (br 0)) (unreachable)))";

impl Stack {
    /// `rules` are the lines of `policies.own`; `FOLDER` stands for where the programs are.
    fn with(programs: &[(&str, &str)], rules: &str) -> Self {
        let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
        for (name, text) in programs {
            fs::write(folder.path().join(name), text).expect("a program");
        }
        let file = folder.path().join("respool.toml");
        fs::write(&file, Self::text(&server, folder.path(), rules)).expect("the file");
        let proxy = Respool::with_config(RESPOOL, &file).start();
        Self { proxy, server, folder }
    }

    fn text(server: &RedisServer, folder: &Path, rules: &str) -> String {
        let (url, folder) = (server.endpoint().url(), folder.display().to_string());
        let rules = rules.replace("FOLDER", &folder);
        format!("upstream = \"{url}\"\nwatch_config = true\n[policies]\nown = [{rules}]\n")
    }

    fn write(&self, name: &str, text: &str) {
        // As editors do it: whole, in the place of the old one.
        let (new, file) = (self.folder.path().join("new"), self.folder.path().join(name));
        fs::write(&new, text).and_then(|()| fs::rename(&new, &file)).expect("a program");
    }

    fn logs(&self, words: &str) -> String {
        let log = || Some(self.proxy.process().log()).filter(|log| log.contains(words));
        wait::until(&format!("`{words}` in the log"), SOON, log)
    }

    /// A number of the program's line in INFO.
    fn count(&self, name: &str, field: &str) -> u64 {
        let info = self.proxy.connect().ask("INFO policies");
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("extension_{name}:")));
        let value = line.and_then(|line| {
            line.split(',').find_map(|pair| pair.strip_prefix(&format!("{field}=")))
        });
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

/// The whole configuration that the guide shows, with its program.
#[test]
fn the_guides_extension_refuses_answers_and_rewrites() {
    if direct() {
        return;
    }
    let text = fs::read_to_string(guide().join("own-policies.md")).expect("the guide");
    let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let server = RedisServer::start();
    let folder = tempfile::tempdir().expect("a folder");
    let block = block
        .expect("a configuration")
        .replace("redis://127.0.0.1:6379", &server.endpoint().url())
        .replace("/etc/respool/extensions", &guide().join("own-policies").display().to_string());
    let file = folder.path().join("respool.toml");
    fs::write(&file, block).expect("the file");
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k 1"), "+OK\r\n");
    assert_eq!(conn.ask("GET motd"), "$18\r\nback at 12 o'clock\r\n");
    let refused = "-NOPERM only the vault writes keys of secret:\r\n";
    assert_eq!(conn.ask("SET secret:1 x"), refused);
    assert_eq!(conn.ask("MSET secret:1 x"), "+OK\r\n", "it is about SET alone");
    assert_eq!(conn.ask("DEL k secret:1 zz"), ":2\r\n");
    let stats = server.connect().ask("INFO commandstats");
    assert!(stats.contains("cmdstat_unlink:calls=1") && !stats.contains("cmdstat_del:"), "{stats}");
    assert!(!stats.contains("cmdstat_get:"), "{stats}");
    // The same in a transaction.
    assert_eq!(conn.ask("MULTI"), "+OK\r\n");
    for request in ["SET k 2", "GET motd", "DEL k"] {
        assert_eq!(conn.ask(request), "+QUEUED\r\n");
    }
    assert_eq!(conn.ask("EXEC"), "*3\r\n+OK\r\n$18\r\nback at 12 o'clock\r\n:1\r\n");
    assert_eq!(conn.ask("MULTI"), "+OK\r\n");
    assert_eq!(conn.ask("SET secret:1 x"), refused);
    assert!(conn.ask("EXEC").starts_with("-EXECABORT"));
    let info = conn.ask("INFO policies");
    assert!(
        info.contains("extension_guard:passed=2,answered=2,refused=2,rewritten=2,failed=0,"),
        "{info}"
    );
}

/// The second configuration of the guide: the program says which of two targets is asked, and what is not there is asked of others.
#[test]
fn the_guides_other_extension_says_who_is_asked() {
    if direct() {
        return;
    }
    let text = fs::read_to_string(guide().join("own-policies.md")).expect("the guide");
    let block = text.split("```toml\n").nth(2).and_then(|rest| rest.split("```").next());
    let [upstream, near, copy] = [(); 3].map(|()| RedisServer::start());
    for (server, name) in [(&upstream, "up"), (&near, "near"), (&copy, "copy")] {
        let keys = "copy:1 {0} fresh:1 {0} other {0}".replace("{0}", name);
        assert_eq!(server.connect().ask(&format!("MSET {keys}")), "+OK\r\n");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let block = block
        .expect("a configuration")
        .replace("redis://127.0.0.1:6379", &upstream.endpoint().url())
        .replace("redis://127.0.0.1:6390", &near.endpoint().url())
        .replace("redis://127.0.0.1:6391", &copy.endpoint().url())
        .replace("/etc/respool/extensions", &guide().join("own-policies").display().to_string());
    let file = folder.path().join("respool.toml");
    fs::write(&file, block).expect("the file");
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let mut conn = proxy.connect();
    let say = |name: &str| format!("${}\r\n{name}\r\n", name.len());
    // A target has to be reached before it is asked.
    wait::until_true("the copy answers", SOON, || conn.ask("GET copy:1") == say("copy"));
    assert_eq!(conn.ask("GET fresh:1"), say("up"));
    assert_eq!(conn.ask("GET other"), say("up"));
    assert_eq!(conn.ask("MGET copy:1 copy:1"), format!("*2\r\n{0}{0}", say("up")));
    // In a pipeline each comes at its place.
    let keys = ["copy:1", "other", "fresh:1", "copy:1"];
    let requests: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).into_bytes())
        .collect();
    let expected = ["copy", "up", "up", "copy"].map(|name| say(name).into_bytes());
    let others = ["copy", "near", "up"].map(|name| say(name).into_bytes());
    let mut as_expected = 0;
    wait::until_true("the copy answers fifty pipelines", SOON, || {
        let replies = conn.pipeline(&requests).expect("replies");
        assert_eq!(replies[1..3], expected[1..3]);
        // On a busy machine the copy may be late, and then another one is asked.
        assert!([&replies[0], &replies[3]].iter().all(|reply| others.contains(reply)));
        as_expected += usize::from(replies == expected);
        as_expected == 50
    });
    let info = conn.ask("INFO policies");
    assert!(info.contains("failed=0,rested=0,routed="), "{info}");
    // Without the copy the others are asked, and no client sees an error.
    drop(copy);
    for _ in 0..20 {
        let reply = conn.ask("GET copy:1");
        assert!(reply == say("near") || reply == say("up"), "{reply}");
    }
    assert_eq!(conn.ask("GET fresh:1"), say("up"));
}

#[test]
fn another_program_takes_over_under_traffic_and_a_wrong_one_does_not() {
    if direct() {
        return;
    }
    let stack = Stack::with(&[("say.wat", &answers("one"))], "\"file=FOLDER/say.wat get\"");
    let done = AtomicBool::new(false);
    // All of them have had what the first program says before there is another.
    let begun = Barrier::new(5);
    let ask = |conn: &mut Conn| {
        let replies = conn.pipeline(&vec![b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec(); 50]);
        replies.expect("replies")
    };
    std::thread::scope(|scope| {
        // Whoever asks gets one of both, and all of the second once one was told.
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut conn = stack.proxy.connect();
                    let mut seen = ask(&mut conn);
                    begun.wait();
                    loop {
                        let is_last = done.load(Ordering::Relaxed);
                        seen.extend(ask(&mut conn));
                        if is_last {
                            return seen;
                        }
                    }
                })
            })
            .collect();
        begun.wait();
        wait::until_true("traffic", SOON, || stack.count("say", "answered") > 500);
        stack.write("say.wat", "(module (func");
        let log = stack.logs("the configuration stays as it was");
        assert!(
            log.contains("policies.own") && log.contains("is no module of WebAssembly"),
            "{log}"
        );
        assert_eq!(stack.proxy.connect().ask("GET k"), "+one\r\n");
        stack.write("say.wat", &answers("two"));
        stack.logs("extensions have changed");
        // One worker may have it before another: the last request of each client comes after all.
        stack.logs("every worker works by what was read");
        assert_eq!(stack.proxy.connect().ask("GET k"), "+two\r\n");
        done.store(true, Ordering::Relaxed);
        for worker in workers {
            let mut seen: Vec<Vec<u8>> = worker.join().expect("a client that stayed");
            seen.dedup();
            assert_eq!(seen, [b"+one\r\n".to_vec(), b"+two\r\n".to_vec()]);
        }
    });
    assert!(!stack.proxy.process().log().contains("client closed"));
    // A file that is gone changes nothing either.
    fs::remove_file(stack.folder.path().join("say.wat")).expect("it was there");
    stack.proxy.process().signal(Signal::HUP);
    stack.logs("cannot be read");
    assert_eq!(stack.proxy.connect().ask("GET k"), "+two\r\n");
    // Nor may clients say which file is run.
    let set = stack.proxy.connect().ask("CONFIG SET respool.policies.own file=/tmp/x.wasm");
    assert!(set.contains("can't set protected config"), "{set}");
}

#[test]
fn what_runs_away_is_cut_off_counted_and_harms_nobody_else() {
    if direct() {
        return;
    }
    let stack = Stack::with(
        &[("loop.wat", ENDLESS), ("say.wat", &answers("one"))],
        "\"file=FOLDER/loop.wat get name=away\", \"file=FOLDER/loop.wat name=pass on_failure=pass set fuel=5000\", \
         \"file=FOLDER/say.wat incr\"",
    );
    let mut conn = stack.proxy.connect();
    let failed = "-ERR respool: an extension could not look at this request (policies.own)\r\n";
    assert_eq!(conn.ask("GET k"), failed);
    assert_eq!(conn.ask("SET k 1"), "+OK\r\n");
    assert_eq!(conn.ask("INCR k"), "+one\r\n");
    assert_eq!(conn.ask("STRLEN k"), ":1\r\n");
    // Far more than what is borne in a row: it rests, and respool works on.
    let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec();
    let replies = conn.pipeline(&vec![get; 500]).expect("replies");
    assert!(replies.iter().all(|reply| reply == failed.as_bytes()));
    assert_eq!(conn.ask("STRLEN k"), ":1\r\n");
    let (fuel, rested) = (stack.count("away", "failed_fuel"), stack.count("away", "rested"));
    assert!(fuel >= 16 && rested >= 400 && fuel + rested == 501, "{fuel} {rested}");
    assert_eq!((stack.count("pass", "failed_fuel"), stack.count("say", "answered")), (1, 1));
    let log = stack.logs("an extension failed");
    assert!(log.contains("extension=away") && log.contains("fuel"), "{log}");
    assert_eq!(stack.server.connect().ask("GET k"), "$1\r\n1\r\n");
}

#[test]
fn a_program_that_cannot_be_run_is_an_error_of_the_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    let check = |program: &str, rule: &str| {
        fs::write(folder.path().join("p.wat"), program).expect("a program");
        let rule = rule.replace("FOLDER", &folder.path().display().to_string());
        let text =
            format!("upstream = \"redis://127.0.0.1:6379\"\n\n[policies]\nown = [\"{rule}\"]\n");
        fs::write(&file, text).expect("the file");
        let done = std::process::Command::new(RESPOOL).arg("check").arg(&file).output();
        let done = done.expect("respool");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success(), "{said}");
        assert!(said.contains("respool.toml:4") && said.contains("policies.own"), "{said}");
        said
    };
    let good = answers("x");
    assert!(check(&good, "file=FOLDER/none.wasm").contains("none.wasm cannot be read"));
    assert!(check("(module)", "file=FOLDER/p.wat").contains("does not export its memory"));
    assert!(
        check(&good.replace(" 1)", " 90)"), "file=FOLDER/p.wat").contains("cannot begin (memory)")
    );
    assert!(check(&good, "file=FOLDER/p.wat auth").contains("names `auth`"));
    assert!(
        check(&good, "file=FOLDER/p.wat fuel=7").contains("has `fuel`, which is no whole number")
    );
}

/// One worker's program keeps what it counted; a failure takes that away with everything else.
#[test]
fn what_a_program_remembers_is_gone_after_a_failure() {
    if direct() {
        return;
    }
    // It refuses with the number of requests before, up to the fifth, at which it ends itself.
    let counting = "(module (memory (export \"memory\") 1) (global $n (mut i32) (i32.const 0))
        (data (i32.const 16) \"ECOUNT 0\")
        (func (export \"respool_buffer\") (param i32) (result i32) (i32.const 1024))
        (func (export \"respool_request\") (param i32 i32) (result i64)
          (if (i32.eq (global.get $n) (i32.const 3)) (then (unreachable)))
          (i32.store8 (i32.const 23) (i32.add (i32.const 48) (global.get $n)))
          (global.set $n (i32.add (global.get $n) (i32.const 1)))
          (i64.or (i64.shl (i64.const 16) (i64.const 32)) (i64.const 8))))";
    let stack = Stack::with(&[("count.wat", counting)], "\"file=FOLDER/count.wat get\"");
    let mut conn: Conn = stack.proxy.connect();
    let replies: Vec<String> = (0..6).map(|_| conn.ask("GET k")).collect();
    let failed = "-ERR respool: an extension could not look at this request (policies.own)\r\n";
    let expected =
        ["-COUNT 0\r\n", "-COUNT 1\r\n", "-COUNT 2\r\n", failed, "-COUNT 0\r\n", "-COUNT 1\r\n"];
    assert_eq!(replies, expected);
    assert_eq!(stack.count("count", "failed_trap"), 1);
}
