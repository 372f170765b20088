//! A client that writes its whole pipeline before it reads the first reply, as many libraries do: all of it is taken, and the replies are kept.

use crate::words::{Story, large_set, request};

const MIB: usize = 1 << 20;
/// As long as a client takes nothing before it counts as one that does not read (`timeouts.stall_ms`).
const STALL_MS: u64 = 20;

/// The reply to each `GET` here.
fn value(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::bulk(&mut out, &vec![b'v'; bytes]);
    out
}

/// Lets servers answer all that they are asked and time pass, until all that `a` wrote was taken, which must be soon.
fn goes_on(story: &mut Story, replies: &dyn Fn(&str) -> Vec<u8>) {
    for _ in 0..60 {
        loop {
            let mut asked = false;
            for number in 1..=story.connects_made() {
                let mut sent = Vec::new();
                while let Some(line) = story.conn(number).takes_one() {
                    sent.extend(replies(&line));
                }
                if !sent.is_empty() {
                    asked = true;
                    story.conn(number).sends(&sent);
                }
            }
            if !asked {
                break;
            }
        }
        if story.client("a").unread() == 0 {
            return;
        }
        story.after_ms(STALL_MS);
    }
    panic!("{} bytes of the pipeline were never taken", story.client("a").unread());
}

/// Writes `pipeline` and reads nothing until all of it was taken; all that came.
fn writes_all_then_reads(
    story: &mut Story,
    pipeline: &[u8],
    replies: &dyn Fn(&str) -> Vec<u8>,
) -> Vec<u8> {
    story.client("a").stops_taking().sends(pipeline);
    goes_on(story, replies);
    story.client("a").is_open().takes_all();
    goes_on(story, replies);
    story.client("a").is_open().is_read().takes()
}

fn keeps(pipeline: &[u8], expected: &[u8], replies: &dyn Fn(&str) -> Vec<u8>) {
    let mut story = Story::new();
    let got = writes_all_then_reads(&mut story, pipeline, replies);
    assert!(got == expected, "{} bytes, {} expected", got.len(), expected.len());
}

#[test]
fn small_requests_with_larger_replies() {
    let reply = value(1_024);
    keeps(&request("GET k").repeat(100_000), &reply.repeat(100_000), &|_| reply.clone());
}

#[test]
fn replies_of_the_proxy_itself() {
    let echo = request(&format!("ECHO {}", "x".repeat(100)));
    keeps(&echo.repeat(60_000), &value(100).repeat(60_000).replace_all(b'v', b'x'), &|_| vec![]);
}

trait ReplaceAll {
    fn replace_all(self, from: u8, to: u8) -> Self;
}

impl ReplaceAll for Vec<u8> {
    fn replace_all(mut self, from: u8, to: u8) -> Self {
        self.iter_mut().filter(|byte| **byte == from).for_each(|byte| *byte = to);
        self
    }
}

/// `OK` or the value, as the request is a `SET` or a `GET`.
fn set_or_get(bytes: usize) -> impl Fn(&str) -> Vec<u8> {
    move |line| match line.starts_with("SET") {
        true => b"+OK\r\n".to_vec(),
        false => value(bytes),
    }
}

#[test]
fn values_written_and_read_back_of_every_size() {
    for (bytes, count) in [(100, 40_000), (50_000, 200), (300_000, 60), (MIB, 30)] {
        let pair = [large_set("k", bytes), request("GET k")].concat();
        let expected = [b"+OK\r\n".to_vec(), value(bytes)].concat().repeat(count);
        keeps(&pair.repeat(count), &expected, &set_or_get(bytes));
    }
}

#[test]
fn a_configured_bound_on_unanswered_requests_makes_no_difference() {
    let mut story = Story::with_limits(|limits| limits.client_inflight_max = 5);
    let reply = value(10_000);
    let pipeline = request(&format!("GET {}", "k".repeat(1_000))).repeat(4_000);
    let got = writes_all_then_reads(&mut story, &pipeline, &|_| reply.clone());
    assert!(got == reply.repeat(4_000));
}

#[test]
fn a_transaction_on_a_connection_of_its_own() {
    let set = large_set("k", 1_000);
    let pipeline = [
        [request("MULTI"), set.repeat(20_000), request("EXEC")].concat(),
        request("GET k").repeat(60_000),
    ]
    .concat();
    let exec = [b"*20000\r\n".to_vec(), b"+OK\r\n".repeat(20_000)].concat();
    let expected = [
        b"+OK\r\n".to_vec(),
        b"+QUEUED\r\n".repeat(20_000),
        exec.clone(),
        value(200).repeat(60_000),
    ];
    keeps(&pipeline, &expected.concat(), &|line| match line.split(' ').next() {
        Some("MULTI") => b"+OK\r\n".to_vec(),
        Some("SET") => b"+QUEUED\r\n".to_vec(),
        Some("EXEC") => exec.clone(),
        _ => value(200),
    });
}

#[test]
fn answers_of_a_transaction_larger_than_any_mark() {
    let multi = [request("MULTI"), request("GET k").repeat(12), request("EXEC")].concat();
    let filler = request("GET small").repeat(150_000);
    let exec = [b"*12\r\n".to_vec(), value(MIB).repeat(12)].concat();
    let before = [b"+OK\r\n".to_vec(), b"+QUEUED\r\n".repeat(12)].concat();
    let expected = [before, exec.clone(), b"$-1\r\n".repeat(150_000)].concat();
    keeps(&[multi, filler].concat(), &expected, &|line| match line {
        "MULTI" => b"+OK\r\n".to_vec(),
        "GET k" => b"+QUEUED\r\n".to_vec(),
        "EXEC" => exec.clone(),
        _ => b"$-1\r\n".to_vec(),
    });
}

#[test]
fn blocking_commands_among_it() {
    let pair = [request("BLPOP l 0"), request("GET k").repeat(100)].concat();
    let popped = [b"*2\r\n$1\r\nl\r\n".to_vec(), value(500)].concat();
    let expected = [popped.clone(), value(500).repeat(100)].concat().repeat(800);
    keeps(&pair.repeat(800), &expected, &|line| match line.starts_with("BLPOP") {
        true => popped.clone(),
        false => value(500),
    });
}

#[test]
fn a_cluster_with_requests_that_are_split() {
    let mut story = Story::warm_cluster();
    let pipeline = [request("MGET a4 b4"), request("GET a4"), request("GET b4")].concat();
    let reply = value(3_000);
    let got = writes_all_then_reads(&mut story, &pipeline.repeat(15_000), &|line| match line
        .starts_with("MGET")
    {
        true => [b"*1\r\n".to_vec(), reply.clone()].concat(),
        false => reply.clone(),
    });
    let expected = [b"*2\r\n".to_vec(), reply.repeat(4)].concat().repeat(15_000);
    assert!(got == expected, "{} bytes, {} expected", got.len(), expected.len());
}

#[test]
fn large_replies_of_a_cluster_stop_no_node_for_good() {
    let mut story = Story::warm_cluster();
    let pair = [request("GET a4"), request("GET b4")].concat();
    let filler = request("SET a4 x").repeat(60_000);
    let pipeline = [pair.repeat(8), filler].concat();
    let got = writes_all_then_reads(&mut story, &pipeline, &|line| match line.starts_with("SET") {
        true => b"+OK\r\n".to_vec(),
        false => value(2 * MIB),
    });
    assert!(got == [value(2 * MIB).repeat(16), b"+OK\r\n".repeat(60_000)].concat());
}

#[test]
fn one_that_wants_no_replies_is_never_held_for_them() {
    let mut story = Story::new();
    story.client("a").says("CLIENT REPLY OFF").stops_taking();
    story.client("a").sends(&request("GET k").repeat(100_000));
    let mut owed = story.server().takes_requests();
    let mut answered = 0;
    while owed > 0 {
        answered += owed;
        story.server().sends(&value(1_024).repeat(owed));
        owed = story.server().takes_requests();
    }
    // No time has passed.
    assert_eq!((answered, story.client("a").is_read().unread()), (100_000, 0));
}

#[test]
fn one_that_listens_meanwhile() {
    let mut story = Story::new();
    let listens = [request("HELLO 3"), request("SUBSCRIBE t")].concat();
    story.client("a").sends(&listens);
    story.client("a").takes();
    let reply = value(1_000);
    let got =
        writes_all_then_reads(&mut story, &request("GET k").repeat(12_000), &|line| match line
            .starts_with("GET")
        {
            true => reply.clone(),
            false => b">3\r\n$9\r\nsubscribe\r\n$1\r\nt\r\n:1\r\n".to_vec(),
        });
    assert!(got.ends_with(&reply.repeat(12_000)));
}

#[test]
fn others_are_served_meanwhile() {
    let mut story = Story::new();
    let reply = value(1_024);
    story.client("a").stops_taking().sends(&request("GET k").repeat(100_000));
    for round in 0..600 {
        story.client("b").says("GET other");
        let mut sent = Vec::new();
        while let Some(line) = story.server().takes_one() {
            let answer = if line == "GET k" { &reply[..] } else { b"$1\r\nb\r\n" };
            sent.extend_from_slice(answer);
        }
        story.server().sends(&sent);
        story.client("b").gets("\"b\"");
        assert!(round < 599 || story.client("a").unread() == 0, "it is held");
        story.after_ms(STALL_MS);
    }
}

#[test]
fn one_that_takes_its_replies_slowly_gets_no_more_than_the_marks_allow() {
    let mut story = Story::new();
    story.client("a").stops_taking().sends(&request("ECHO 0123456789").repeat(400_000));
    let mut most = 0;
    while story.client("a").unread() > 0 {
        story.after_ms(STALL_MS - 1).client("a").takes_one_send();
        most = most.max(story.report().client_out_bytes_max);
    }
    assert!(most < 2 * MIB as u64, "{most} bytes waited for it");
    story.client("a").takes_all();
    assert_eq!(story.client("a").is_read().takes().len(), 400_000 * 17);
}

#[test]
fn one_that_takes_something_is_slowed_again() {
    let mut story = Story::new();
    story.client("a").stops_taking().sends(&request("ECHO 0123456789").repeat(1_000_000));
    story.after_ms(2 * STALL_MS);
    let unread = story.client("a").unread();
    story.client("a").takes_one_send();
    story.after_ms(STALL_MS - 1);
    assert_eq!(story.client("a").is_not_read().unread(), unread, "it goes on to be given room");
}

#[test]
fn what_is_kept_is_bounded_by_the_memory_of_all() {
    let mut story = Story::with_limits(|limits| limits.memory_max_bytes = 8 * MIB);
    story.client("b").stops_taking().sends(&request("ECHO 0123456789").repeat(100_000));
    story.client("a").stops_taking().sends(&request("ECHO 0123456789").repeat(2_000_000));
    story.after_ms(20 * STALL_MS);
    story.client("a").is_closed();
    story.client("b").is_open().takes_all();
    assert_eq!(story.client("b").takes().len(), 100_000 * 17);
    assert!(story.was_told("it held the most memory when the limit was reached"));
}

#[test]
fn one_that_has_written_everything_costs_no_timer() {
    let mut story = Story::new();
    story.client("a").stops_taking().says("GET big");
    story.server().gets("GET big").sends(&value(8 * MIB)).is_not_read();
    let now = story.now;
    let next = story.engine.poll_timeout(now);
    assert!(next.is_none_or(|at| at.since(now) > 100_000), "looked at again at {next:?}");
}
