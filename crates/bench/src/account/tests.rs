//! Parsers with literal texts, differences with made-up readings, and the real `/proc` of this process and of children.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::parse::{cores_online, cpu_model, machine_ticks, schedstat_ns, stat, status_number};
use super::*;

const STAT: &str =
    "4711 (redis (srv) x) S 1 4711 4711 0 -1 4194560 2305 7 0 0 123 456 78 9 20 0 5 0 777 64 1 2\n";

#[test]
fn stat_with_parentheses_and_spaces_in_the_name() {
    let stat = stat(STAT).unwrap();
    assert_eq!(stat.name, "redis (srv) x");
    assert_eq!(stat.state, 'S');
    assert_eq!((stat.user_ticks, stat.system_ticks), (123, 456));
    assert_eq!((stat.children_user_ticks, stat.children_system_ticks), (78, 9));
    assert_eq!(stat.started, 777);
}

#[test]
fn texts_that_are_cut_give_nothing() {
    assert_eq!(stat(""), None);
    assert_eq!(stat("4711 (redis) S 1 2 3"), None);
    assert_eq!(schedstat_ns(""), None);
    assert_eq!(machine_ticks("cpu  1 2 3\n"), None);
    assert_eq!(cpu_model("processor : 0\n"), None);
    assert_eq!(status_number("VmRSS:\n", "VmRSS"), None);
}

#[test]
fn schedstat_and_status() {
    assert_eq!(schedstat_ns("488434 113263 2\n"), Some(488_434));
    let text = "Name:\tx\nVmRSS:\t    1784 kB\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
    assert_eq!(status_number(text, "VmRSS"), Some(1784));
    assert_eq!(status_number(text, "voluntary_ctxt_switches"), Some(12));
    assert_eq!(status_number(text, "nonvoluntary_ctxt_switches"), Some(3));
    assert_eq!(status_number(text, "VmR"), None, "a key is a whole word");
}

#[test]
fn machine_texts() {
    let text = "cpu  100 20 30 9999 50 6 7 8 40 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n";
    // user + nice + system + irq + softirq; idle, iowait and the guest (in user already) are not busy.
    assert_eq!(machine_ticks(text), Some((163, 8)));
    assert_eq!(cores_online(text), 2);
    let text =
        "processor\t: 0\nmodel name\t: AMD  EPYC 7B13\nprocessor\t: 1\nmodel name\t: other\n";
    assert_eq!(cpu_model(text).unwrap(), "AMD EPYC 7B13");
}

fn process(threads: &[(u32, u64)], user_ticks: u64, system_ticks: u64) -> Reading {
    let threads = threads.iter().map(|&(tid, on_cpu_ns)| ThreadReading {
        tid,
        on_cpu_ns,
        voluntary: on_cpu_ns / 1_000_000,
        involuntary: 1,
    });
    let process =
        ProcessReading { threads: threads.collect(), user_ticks, system_ticks, rss_bytes: 4096 };
    Reading { processes: vec![process] }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}

#[test]
fn cpu_is_exact_and_ticks_only_split_it() {
    let before = process(&[(7, 1_000_000_000), (8, 0)], 90, 10);
    // Thread 9 is new; 0.505 s in all; the ticks say 40 user and 10 system.
    let after = process(&[(7, 1_400_000_000), (8, 5_000_000), (9, 100_000_000)], 130, 20);
    let usage = after.since(&before);
    close(usage.cpu_s, 0.505);
    close(usage.user_s, 0.505 * 0.8);
    close(usage.system_s, 0.505 * 0.2);
    assert_eq!(usage.voluntary_switches, 400 + 5 + 100);
    assert_eq!(usage.involuntary_switches, 1);
    assert_eq!(usage.rss_bytes_max, 4096);
    let cores = after.cores_since(&before, 0.5);
    close(cores.used(), 1.01);
    assert_eq!(after.cores_since(&before, 0.0), Cores::default());
}

#[test]
fn threads_that_ended_are_seen_by_the_ticks() {
    let before = process(&[(7, 0), (8, 2_000_000_000)], 150, 50);
    // Thread 8 used another second and ended; 20 ticks are of thread 7.
    let after = process(&[(7, 200_000_000)], 210, 110);
    let usage = after.since(&before);
    close(usage.cpu_s, 1.2);
    close(usage.user_s, 0.6);
}

#[test]
fn ticks_that_are_only_rounded_change_nothing() {
    let before = process(&[(7, 0)], 0, 0);
    let after = process(&[(7, 100_000_000)], 6, 6);
    close(after.since(&before).cpu_s, 0.1);
}

#[test]
fn without_a_tick_the_split_is_that_of_the_whole_life() {
    let before = process(&[(7, 4_000_000_000)], 100, 300);
    let after = process(&[(7, 4_002_000_000)], 100, 300);
    let usage = after.since(&before);
    close(usage.cpu_s, 0.002);
    close(usage.user_s, 0.0005);
    let newborn = process(&[(7, 1_000_000)], 0, 0);
    close(newborn.since(&process(&[], 0, 0)).user_s, 0.0005);
}

/// Spends CPU in user code until this thread's own account says so.
fn burn(seconds: f64) {
    let begin = Instant::now();
    let account = Account::new(&[std::process::id()]);
    let before = account.read().unwrap();
    while account.read().unwrap().since(&before).cpu_s < seconds {
        (0..100_000_u64).for_each(|n| {
            black_box(n);
        });
        assert!(begin.elapsed() < Duration::from_secs(30), "the account does not move");
    }
}

#[test]
fn this_process_is_seen_with_its_threads_also_those_that_ended() {
    let account = OwnAccount::default();
    let before = account.read().unwrap();
    let begin = Instant::now();
    let spin = || {
        while begin.elapsed() < Duration::from_millis(300) {
            black_box(begin);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(spin);
    });
    let usage = account.read().unwrap().since(&before);
    // On a loaded machine the thread may get little, but not less than a tenth of a core.
    assert!(usage.cpu_s > 0.03, "an ended thread is missing: {usage:?}");
    assert!(usage.rss_bytes_max > 100_000, "{usage:?}");
    close(usage.user_s + usage.system_s, usage.cpu_s);
    burn(0.02);
    assert!(account.read().unwrap().since(&before).cpu_s > usage.cpu_s);
}

/// A child that uses a known amount of CPU and then waits for its end.
fn spinning_child() -> std::process::Child {
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read line";
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_tool_is_counted_once_alive_or_ended() {
    let account = OwnAccount::default();
    let before = account.read().unwrap();
    let mut child = spinning_child();
    account.tool_started(child.id());
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.as_mut().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "done\n");
    let alive = account.read().unwrap();
    let tool = Account::new(&[child.id()]).read().unwrap();
    let tool_s = tool.since(&Reading { processes: vec![ProcessReading::default()] }).cpu_s;
    assert!(tool_s > 0.03, "the loop takes longer than that on any machine: {tool_s}");
    drop(child.stdin.take());
    child.wait().unwrap();
    let ended = account.read().unwrap();

    let total_alive = alive.since(&before).cpu_s;
    let total_ended = ended.since(&before).cpu_s;
    // Other tests of this process run meanwhile, so these are lower bounds; nothing is counted twice by the last one.
    assert!(total_alive >= tool_s * 0.9, "{total_alive} has not the tool's {tool_s}");
    assert!(total_ended >= tool_s * 0.9 - 0.02, "{total_ended} has not the tool's {tool_s}");
    let between = ended.since(&alive);
    assert!(between.cpu_s < total_ended, "what it used before `alive` is not counted again");
}

#[test]
fn a_process_that_is_gone_is_named() {
    let mut child = spinning_child();
    let pid = child.id();
    let account = Account::new(&[pid]);
    account.read().unwrap();
    assert_eq!(name_of(pid).as_deref(), Some("sh"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(account.read().unwrap_err(), format!("process {pid} (sh) is gone"));
    assert_eq!(name_of(pid), None);
    assert_eq!(
        Account::new(&[pid]).read().unwrap_err(),
        format!("process {pid} (unknown) is gone")
    );
}

#[test]
fn this_machine_is_described() {
    let machine = machine::describe();
    assert!(!machine.cpu.is_empty() && machine.cores > 0 && !machine.kernel.is_empty());
    assert!(machine.memory_bytes > 1 << 20);
    let before = machine::MachineReading::now();
    assert!(before.busy_s_since(&machine::MachineReading::default()) > 0.0);
    assert_eq!(before.busy_s_since(&before), 0.0);
    assert_eq!(before.stolen_s_since(&before), 0.0);
}
