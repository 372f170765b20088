//! The floor as people use it: the real program over each driver, pipelines that are cut at odd places, redis-benchmark,
//! and a scenario whose report shows a proxy's cost as a multiple of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::floor::unfit;
use bench::plan::NetDriver;
use bench::report::json;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running floor.
struct Floor {
    child: Child,
    address: SocketAddr,
}

impl Floor {
    fn start(driver: NetDriver, value_bytes: &str) -> Self {
        let mut child = program(&["floor", "--driver", driver.name(), "-d", value_bytes])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let expected = format!(" ({}, values of {value_bytes})\n", driver.name());
        let address = line.strip_prefix("listening on ").and_then(|it| it.strip_suffix(&expected));
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Ends it by this signal; it must say that it ended well.
    fn end(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return assert_eq!(status.code(), Some(0));
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_respool-bench"));
    command.args(args);
    command
}

/// The drivers that this system allows.
fn drivers() -> Vec<NetDriver> {
    let all = [NetDriver::Epoll, NetDriver::Uring];
    all.into_iter().filter(|&driver| unfit(driver).is_none()).collect()
}

/// A pipeline of many commands, and the replies to it.
fn pipeline() -> (Vec<u8>, Vec<u8>) {
    let long = "v".repeat(70_000);
    let parts: [(&[&str], &str); 8] = [
        (&["SET", "key", "value"], "+OK\r\n"),
        (&["get", "key"], "$3\r\nxxx\r\n"),
        (&["MGET", "a", "b", "c"], "*3\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n"),
        (&["SETEX", "key", "10000", &long], "+OK\r\n"),
        (&["PING"], "+PONG\r\n"),
        (&["INCR", "n"], ":1\r\n"),
        (&["CONFIG", "GET", "save"], "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        (&["FROBNICATE", "x"], "-ERR the floor has no reply for 'FROBNICATE'\r\n"),
    ];
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for (words, reply) in parts.into_iter().cycle().take(40) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        resp::encode::request(&mut requests, &words);
        replies.extend_from_slice(reply.as_bytes());
    }
    requests.extend_from_slice(b"PING\r\n");
    replies.extend_from_slice(b"+PONG\r\n");
    (requests, replies)
}

#[track_caller]
fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got == expected, "{:?}", String::from_utf8_lossy(&got));
}

#[test]
fn every_reply_comes_whatever_the_cuts_and_the_driver() {
    let (requests, replies) = pipeline();
    for driver in drivers() {
        let floor = Floor::start(driver, "3B");
        // Two clients in turn, with pieces of odd and changing sizes, so that each begins where the other is in between.
        let mut clients = [floor.connect(), floor.connect()];
        let sizes = [1, 7, 2, 13, 64, 5, 4096, 31, 1021, 70_001];
        let mut at = 0;
        for size in sizes.into_iter().cycle() {
            let end = (at + size).min(requests.len());
            for client in &mut clients {
                client.write_all(&requests[at..end]).unwrap();
            }
            // Now and then a rest, so that pieces arrive by themselves.
            if size == 13 {
                thread::sleep(Duration::from_millis(1));
            }
            at = end;
            if at == requests.len() {
                break;
            }
        }
        for client in &mut clients {
            expect(client, &replies);
            // Nothing follows.
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "{driver:?}");
        }
        floor.end(Signal::TERM);
    }
}

#[test]
fn a_client_that_reads_late_gets_all_of_it_and_holds_up_nobody() {
    for driver in drivers() {
        let floor = Floor::start(driver, "100KiB");
        let (mut slow, mut other) = (floor.connect(), floor.connect());
        let count = 300;
        let mut requests = Vec::new();
        (0..count).for_each(|_| resp::encode::request(&mut requests, &[b"GET", b"key"]));
        slow.write_all(&requests).unwrap();
        for _ in 0..20 {
            other.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
            expect(&mut other, b"+PONG\r\n");
        }
        let mut value = Vec::new();
        resp::encode::bulk(&mut value, &vec![b'x'; 100 << 10]);
        (0..count).for_each(|_| expect(&mut slow, &value));
        slow.write_all(b"PING\r\n").unwrap();
        expect(&mut slow, b"+PONG\r\n");
        floor.end(Signal::INT);
    }
}

#[test]
fn what_is_no_request_is_answered_and_closed() {
    for driver in drivers() {
        let floor = Floor::start(driver, "3B");
        let mut client = floor.connect();
        client.write_all(b"*1\r\n!4\r\n").unwrap();
        let mut all = String::new();
        client.read_to_string(&mut all).unwrap();
        assert_eq!(all, "-ERR Protocol error: expected '$', got '!'\r\n", "{driver:?}");
        // Clients come and go, and their places are used again.
        for _ in 0..50 {
            let mut next = floor.connect();
            next.write_all(b"PING\r\n").unwrap();
            expect(&mut next, b"+PONG\r\n");
        }
        floor.end(Signal::TERM);
    }
}

#[test]
fn redis_benchmark_is_content_with_it() {
    for driver in drivers() {
        let floor = Floor::start(driver, "3B");
        let port = floor.address.port().to_string();
        let args = ["-p", &port, "-n", "300", "-c", "5", "-P", "4", "-q"];
        let output = Command::new("redis-benchmark").args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        for test in ["PING_INLINE", "SET", "GET", "LPUSH", "ZPOPMIN", "LRANGE_600", "MSET"] {
            assert!(said.contains(test), "{test}: {said}");
        }
        assert!(!said.contains("rror"), "{said}");
        floor.end(Signal::TERM);
    }
}

#[test]
fn a_port_that_is_taken_and_a_driver_that_is_not_there_are_said() {
    let floor = Floor::start(NetDriver::Epoll, "3B");
    let port = floor.address.port().to_string();
    let output = program(&["floor", "--port", &port]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(&format!("error: cannot listen on 127.0.0.1:{port}: ")), "{said}");
    let output = program(&["floor", "--driver", "kqueue"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("allowed: epoll, uring"), "{said}");
}

const SCENARIO: &str = r#"
about = "A floor, its twin and the server."
rounds = 2
duration_s = 0.2
warmup_s = 0.05
pause_s = 0.01
[load]
clients = 4
keys = 100
value_bytes = 30
[[target]]
name = "floor"
[[target]]
name = "direct"
[[target]]
name = "twin"
kind = "floor"
driver = "epoll"
[[target]]
name = "floor uring"
kind = "floor"
driver = "uring"
optional = true
[[test]]
request = ["SET {key} {value}", "GET {key}", "MGET {keys:5}"]
pipeline = 4
[[limit]]
figure = "proxy_cpu"
target = "twin"
of = "floor"
tests = ["SET", "GET"]
at_most = LEAST
"#;

/// Runs the scenario with this limit, in `folder`.
fn run(folder: &std::path::Path, limit: &str) -> Output {
    let path = folder.join("floors.toml");
    std::fs::write(&path, SCENARIO.replace("LEAST", limit)).unwrap();
    let out = folder.join("out");
    let args =
        ["run", path.to_str().unwrap(), "--spawn", "--check", "--out", out.to_str().unwrap()];
    program(&args).output().unwrap()
}

#[test]
fn a_report_shows_each_target_as_a_multiple_of_the_floor() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "1000");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for judged in ["SET: proxy CPU of twin is ", "GET: proxy CPU of twin is "] {
        assert!(said.contains(&format!("ok    {judged}")), "{said}");
    }
    assert!(said.contains(" × floor's (at most 1000)"), "{said}");
    assert!(said.contains("× floor "), "{said}");

    let run = json::read(&folder.path().join("out/run.json")).unwrap();
    assert!(run.targets[0].floor && run.targets[2].floor && !run.targets[1].floor);
    assert!(
        run.targets[0].what.starts_with("floor over epoll, of respool-bench "),
        "{:?}",
        run.targets
    );
    for test in &run.tests {
        for visit in &test.visits {
            let floor = visit.target != "direct";
            assert!(visit.requests > 0 && visit.nulls == 0, "{visit:?}");
            assert_eq!((visit.proxy.cpu_s > 0.0, visit.server.cpu_s > 0.0), (floor, !floor));
        }
    }
    let uring = unfit(NetDriver::Uring).is_none();
    let multiples: Vec<_> =
        run.times_floor.iter().map(|it| (it.test.as_str(), it.target.as_str())).collect();
    let expected: Vec<_> = ["SET", "GET", "MGET"]
        .into_iter()
        .flat_map(|test| [(test, "twin"), (test, "floor uring")])
        .filter(|(_, target)| uring || *target == "twin")
        .collect();
    assert_eq!(multiples, expected);
    assert!(run.times_floor.iter().all(|it| it.floor == "floor" && it.cpu > 0.0));
    let left_out = run.left_out.iter().any(|text| text.starts_with("`floor uring` was left out: "));
    assert_eq!(left_out, !uring, "{:?}", run.left_out);
    let unknown = |text: &String| text.contains("servers' CPU is not known");
    assert!(!run.warnings.iter().any(unknown), "there is no server behind a floor");

    let markdown = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    assert!(markdown.contains("| proxy µs/req | × floor | proxy cores |"), "{markdown}");
    let row = |target: &str| {
        // The second table's, which is the one of CPU.
        let begin = format!("| GET | {target} |");
        let cells = markdown.lines().filter(|line| line.starts_with(&begin)).nth(1);
        cells.unwrap().split('|').nth(4).unwrap().trim().to_owned()
    };
    assert_eq!((row("floor").as_str(), row("direct").as_str()), ("1", "—"));
    let twin: f64 = row("twin").split([' ', '~']).next().unwrap().parse().unwrap();
    assert!(twin > 0.0, "{twin}");
    let html = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(html.contains("proxy CPU, × floor"));
}

#[test]
fn a_limit_against_the_floor_can_be_missed() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "0.001");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("FAIL  SET: proxy CPU of twin is "), "{said}");
}
