//! Programs of the operator's own: what they say becomes of a request at its place, and what they fail to say harms nobody.

use crate::words::{Story, large_set, wire};
use engine::Settings;
use engine::acl::Users;
use engine::elsewhere::Order;
use engine::limits::{OWN_FAILURES_MAX, OWN_REST_MS};
use engine::node::Address;
use engine::policy::own::{Failure, Judge, Judgement, Own, OwnReport, Program, Verdict, View};
use engine::policy::{Per, Policies, Rate, Rule, Rules, Unit, What};
use engine::settings::{Node, Pool, ReadTargetSettings, ReadsElsewhere};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Says = fn(&[&str], &View<'_>) -> Result<Verdict, Failure>;

/// A program whose judges say what a function says.
#[derive(Debug, Default)]
struct Counts {
    calls: AtomicUsize,
    judges: AtomicUsize,
}

struct Fake(Says, Arc<Counts>);

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a program")
    }
}

impl Program for Fake {
    fn judge(&self) -> Result<Box<dyn Judge>, Failure> {
        self.1.judges.fetch_add(1, Relaxed);
        Ok(Box::new(Self(self.0, Arc::clone(&self.1))))
    }
}

impl Judge for Fake {
    fn request(&mut self, view: &View<'_>) -> Judgement {
        self.1.calls.fetch_add(1, Relaxed);
        let args: Vec<&str> = resp::Args::new(view.request)
            .map(|arg| std::str::from_utf8(arg).unwrap_or("?"))
            .collect();
        let is_dear = args.get(1).is_some_and(|key| key.starts_with("dear:"));
        let fuel = if is_dear { 100_000 } else { 10 };
        Judgement { verdict: (self.0)(&args, view), fuel, line: None }
    }
}

/// What most stories' program says: the key tells.
fn by_key(args: &[&str], _: &View<'_>) -> Result<Verdict, Failure> {
    let key = args.get(1).copied().unwrap_or_default();
    match key.split(':').next().unwrap_or_default() {
        "answer" => Ok(Verdict::Answer(wire("\"mine\""))),
        "error" => Ok(Verdict::Answer(wire("-NO not mine"))),
        "refuse" => Ok(Verdict::Refuse(b"NOPE not here".to_vec())),
        "other" => Ok(Verdict::Rewrite(frame(&format!("GET {}", &key[6..])))),
        "slow" => Err(Failure::Fuel),
        "half" => Ok(Verdict::Answer(b"$5\r\nab".to_vec())),
        "two" => Ok(Verdict::Answer(b"+OK\r\n+OK\r\n".to_vec())),
        "new" => Ok(Verdict::Answer(b"_\r\n".to_vec())),
        "bad" => Ok(Verdict::Rewrite(b"GET k\r\n".to_vec())),
        "auth" => Ok(Verdict::Rewrite(frame("AUTH x y"))),
        "multi" => Ok(Verdict::Rewrite(frame("MULTI"))),
        "down" => Ok(Verdict::Rewrite(frame("SHUTDOWN"))),
        "lines" => Ok(Verdict::Refuse(b"a\r\n+OK".to_vec())),
        _ => Ok(Verdict::Pass),
    }
}

fn frame(line: &str) -> Vec<u8> {
    crate::words::request(line)
}

struct Teller {
    story: Story,
    counts: Arc<Counts>,
}

fn rule(words: &[&str], passes_on_failure: bool) -> Rule<Own> {
    let file = "p.wasm".to_owned();
    let own = Own { file, fuel: 1_000, memory_max_bytes: 1 << 16, passes_on_failure };
    let what = What::new(words, Vec::new(), false).expect("commands");
    Rule { what, name: "p".into(), error: None, detail: own }
}

fn of(says: Says, rules: Rules) -> (Option<Arc<Policies>>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let program: Arc<dyn Program> = Arc::new(Fake(says, Arc::clone(&counts)));
    let programs = vec![Some(program); rules.own.len()];
    (Policies::new(rules).map(|policies| Arc::new(policies.with_programs(programs))), counts)
}

fn own(rules: &[Rule<Own>]) -> Rules {
    Rules { own: rules.to_vec(), ..Rules::default() }
}

/// A client `a` that has spoken to its server, and a program that is asked about everything.
fn teller() -> Teller {
    with(by_key, own(&[rule(&["@all"], false)]))
}

fn with(says: Says, rules: Rules) -> Teller {
    let (policies, counts) = of(says, rules);
    let mut story = Story::with(Settings { policies, ..Settings::default() });
    story.client("a").says("TYPE warm");
    story.server().gets("TYPE warm").answers("+none");
    story.client("a").gets("+none");
    counts.calls.store(0, Relaxed);
    Teller { story, counts }
}

impl Teller {
    fn calls(&self) -> usize {
        self.counts.calls.load(Relaxed)
    }

    /// What the program did so far, as metrics are told.
    fn report(&mut self) -> OwnReport {
        self.story.report().own.into_iter().next().expect("a report")
    }
}

const FAILED: &str = "-ERR respool: an extension could not look at this request (policies.own)";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn requests_that_a_program_looks_at_for_long_have_turns() {
    let mut teller = teller();
    teller.story.client("a").sends_at_once(&frame("GET dear:k").repeat(100));
    teller.story.turn_once();
    let first = teller.calls();
    assert!((1..50).contains(&first), "{first} in one turn");
    teller.story.turn();
    assert_eq!(teller.calls(), 100);
}

#[test]
fn in_a_pipeline_each_request_gets_what_is_said_of_it_in_its_place() {
    let mut teller = teller();
    let story = &mut teller.story;
    story.client("a").says([
        "GET k1",
        "GET answer",
        "SET refuse v",
        "GET other:k2",
        "PING",
        "GET k3",
    ]);
    story.client("a").sends(b"get answer\r\n");
    story.server().gets(["GET k1", "GET k2", "GET k3"]).gets_nothing();
    // What was answered here waits for what was asked before it.
    story.client("a").gets_nothing();
    story.server().answers(["\"1\"", "\"2\"", "\"3\""]);
    story.client("a").gets([
        "\"1\"",
        "\"mine\"",
        "-NOPE not here",
        "\"2\"",
        "+PONG",
        "\"3\"",
        "\"mine\"",
    ]);
    assert_eq!(teller.calls(), 6);
    let report = teller.report();
    let expected = [
        ("passed", 3),
        ("answered", 2),
        ("refused", 1),
        ("rewritten", 1),
        ("failed", 0),
        ("rested", 0),
        ("routed", 0),
    ];
    assert_eq!((report.outcomes(), report.fuel), (expected, 70));
    let info = teller.story.client("a").says("INFO policies").takes_text();
    assert!(info.contains("extension_p:passed=3,answered=2,refused=1,rewritten=1,"), "{info}");
    assert!(info.contains("policy_own-p:refused=1,"), "{info}");
}

#[test]
fn what_it_says_that_cannot_be_said_is_a_failure() {
    for key in ["slow", "half", "two", "new", "bad", "auth", "multi", "down", "lines"] {
        let mut teller = teller();
        teller.story.client("a").says([&*format!("GET {key}"), "GET k"]);
        teller.story.server().gets("GET k").answers("nil");
        teller.story.client("a").gets([FAILED, "nil"]);
        let report = teller.report();
        assert_eq!(report.outcomes()[4], ("failed", 1), "{key}");
        assert_eq!(report.failures[if key == "slow" { 0 } else { 4 }], 1, "{key}");
        // Another judge was there for the request behind it.
        assert_eq!(teller.counts.judges.load(Relaxed), 2, "{key}");
        assert!(teller.story.was_told("ProgramFailed"));
    }
    // What is not to be looked at at any price goes on as it is.
    let mut teller = with(by_key, own(&[rule(&["@all"], true)]));
    teller.story.client("a").says(["GET slow", "GET half", "GET k"]);
    teller.story.server().gets(["GET slow", "GET half", "GET k"]).answers(["nil", "nil", "nil"]);
    teller.story.client("a").gets(["nil", "nil", "nil"]);
}

#[test]
fn a_client_of_resp3_may_be_told_what_only_that_has() {
    let mut teller = teller();
    teller.story.client("a").says("HELLO 3").takes();
    teller.story.conn(2).takes_requests();
    teller.story.client("a").says("GET new").gets("_");
}

#[test]
fn one_that_fails_again_and_again_rests() {
    let mut teller = with(by_key, own(&[rule(&["get"], true)]));
    let times = OWN_FAILURES_MAX as usize;
    let all = vec!["GET slow"; times + 2];
    teller.story.client("a").says(all.clone());
    teller.story.server().gets(all.clone()).answers(vec!["nil"; times + 2]);
    teller.story.client("a").takes();
    assert_eq!(teller.calls(), times);
    assert_eq!(teller.report().outcomes()[5], ("rested", 2));
    teller.story.after_ms(OWN_REST_MS);
    teller.story.client("a").says("GET answer").gets("\"mine\"");
    assert_eq!(teller.calls(), times + 1);
}

#[test]
fn it_is_not_asked_about_what_others_refuse_or_what_is_not_its_business() {
    let mut users = Users::default();
    users.set(b"w", &[b"on", b">pw", b"~app:*", b"~other:*", b"+@all"]).expect("rules");
    let mut rules = own(&[rule(&["get", "set"], false)]);
    let denied = What::new(&["set"], Vec::new(), true).expect("commands");
    rules.deny = vec![Rule { what: denied, name: String::new(), error: None, detail: () }];
    let mut teller = with(by_key, rules);
    teller.story.reconfigures(|settings| settings.users = users.into());
    let story = &mut teller.story;
    story.client("b").says(["AUTH w pw", "GET answer", "SET app:1 x", "GET", "TYPE app:1"]);
    story.server().gets(["GET", "TYPE app:1"]).answers(["-ERR wrong number", "+none"]);
    let text = story.client("b").takes_text();
    assert_eq!((text.matches("NOPERM").count(), text.matches("mine").count()), (1, 0), "{text}");
    assert_eq!(text.matches("policies.deny").count(), 1, "{text}");
    // Who has not said who it is.
    story.reconfigures(|settings| {
        let mut users = Users::default();
        users.set(b"default", &[b"off"]).expect("rules");
        settings.users = users.into();
    });
    story.client("c").says("GET answer");
    let text = story.client("c").takes_text();
    assert!(text.starts_with("-NOAUTH"), "{text}");
    assert_eq!(teller.calls(), 0);
}

/// What an extension makes of a request is not above the rules of who sent it.
#[test]
fn what_was_rewritten_is_checked_like_any_request() {
    let mut users = Users::default();
    users.set(b"w", &[b"on", b">pw", b"~app:*", b"~other:*", b"+@all"]).expect("rules");
    let mut rules = own(&[rule(&["get"], false)]);
    let blocked = What::new(&[], vec![b"app:blocked".as_slice().into()], true).expect("keys");
    rules.block = vec![Rule { what: blocked, name: String::new(), error: None, detail: () }];
    let mut teller = with(by_key, rules);
    teller.story.reconfigures(|settings| settings.users = users.into());
    let story = &mut teller.story;
    story.client("b").says([
        "AUTH w pw",
        "GET other:secret",
        "GET other:app:blocked",
        "GET other:app:1",
    ]);
    story.server().gets("GET app:1").answers("\"1\"").gets_nothing();
    let text = story.client("b").takes_text();
    let blocked = "-ERR respool: the operator has blocked this request (policies.block)";
    assert!(text.contains("-NOPERM No permissions to access a key\r\n"), "{text}");
    assert!(text.contains(blocked) && text.ends_with("$1\r\n1\r\n"), "{text}");
    // It is shown once, as what it was.
    assert_eq!(teller.calls(), 3);
}

#[test]
fn in_a_transaction_an_answer_comes_with_exec_and_a_refusal_ends_it() {
    let mut teller = teller();
    let story = &mut teller.story;
    story.client("a").says("MULTI");
    story.conn(2).gets("MULTI").answers("+OK");
    story.client("a").says(["SET k 1", "GET answer", "GET other:k", "GET error", "EXEC", "GET k9"]);
    story.conn(2).gets(["SET k 1", "ECHO ", "GET k", "ECHO ", "EXEC"]);
    story.conn(2).answers(["+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED"]);
    story.conn(2).answers("*4\r\n+OK\r\n$0\r\n\r\n$1\r\n1\r\n$0\r\n\r\n");
    story.conn(1).gets("GET k9").answers("nil");
    story.client("a").gets([
        "+OK",
        "+QUEUED",
        "+QUEUED",
        "+QUEUED",
        "+QUEUED",
        "*4\r\n+OK\r\n$4\r\nmine\r\n$1\r\n1\r\n-NO not mine\r\n",
        "nil",
    ]);
    // Discarded, it is forgotten.
    story.client("a").says(["MULTI", "GET answer", "DISCARD", "MULTI", "SET k 2", "EXEC"]);
    story.conn(2).gets("MULTI").answers("+OK");
    story.conn(2).takes_requests();
    story.conn(2).answers(["+QUEUED", "+OK"]);
    for _ in 0..3 {
        story.conn(2).takes_requests();
    }
    story.conn(2).answers(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    let text = story.client("a").takes_text();
    assert!(text.ends_with("+QUEUED\r\n*1\r\n+OK\r\n") && !text.contains("mine"), "{text}");
    story.client("a").says(["MULTI", "SET refuse 1", "SET k 3", "EXEC"]);
    story.conn(2).takes_requests();
    story.conn(2).answers("+OK");
    story.conn(2).takes_requests();
    story.conn(2).answers(["+QUEUED", "+OK"]);
    let text = story.client("a").takes_text();
    assert!(text.contains("-NOPE not here\r\n") && text.contains(ABORTED), "{text}");
}

#[test]
fn an_exec_that_was_not_done_is_told_as_it_is() {
    let mut teller = teller();
    let story = &mut teller.story;
    story.client("a").says("WATCH k");
    story.conn(2).gets("WATCH k").answers("+OK");
    story.client("a").says(["MULTI", "GET answer", "EXEC"]);
    story.conn(2).gets(["MULTI", "ECHO ", "EXEC"]);
    story.conn(2).answers(["+OK", "+QUEUED", "*-1\r\n"]);
    story.client("a").gets(["+OK", "+OK", "+QUEUED", "*-1"]);
}

#[test]
fn a_request_of_several_servers_is_looked_at_as_one() {
    let (policies, counts) = of(by_key, own(&[rule(&["mget", "del"], false)]));
    let mut story = Story::warm_cluster();
    story.reconfigures(|settings| settings.policies = policies);
    story.client("a").says(["MGET answer b4 c1", "MGET refuse a4 b4", "MGET a4 c1", "GET answer"]);
    assert_eq!(counts.calls.load(Relaxed), 3);
    let waiting: Vec<usize> = ["n1", "n2", "n3"].map(|node| story.node(node).waiting()).to_vec();
    assert_eq!(waiting.iter().sum::<usize>(), 3, "{waiting:?}");
    story.node("n1").gets("MGET a4").answers("*1\r\n$1\r\n1\r\n");
    story.node("n3").gets("MGET c1").answers("*1\r\n$1\r\n3\r\n");
    let text = story.client("a").takes_text();
    assert!(
        text.starts_with("$4\r\nmine\r\n-NOPE not here\r\n*2\r\n$1\r\n1\r\n$1\r\n3\r\n"),
        "{text}"
    );
}

#[test]
fn one_that_blocks_may_be_answered_or_made_another() {
    fn says(args: &[&str], _: &View<'_>) -> Result<Verdict, Failure> {
        Ok(match args[1] {
            "answer" => Verdict::Answer(b"*-1\r\n".to_vec()),
            "other" => Verdict::Rewrite(frame("BLPOP mine 0")),
            "poll" => Verdict::Rewrite(frame("LPOP mine")),
            _ => Verdict::Pass,
        })
    }
    let mut teller = with(says, own(&[rule(&["blpop"], false)]));
    let story = &mut teller.story;
    story.client("a").says(["BLPOP answer 0", "BLPOP other 0"]).gets("*-1");
    story.conn(2).gets("BLPOP mine 0");
    story.client("b").says("BLPOP poll 0");
    story.conn(1).gets("LPOP mine").answers("nil");
    story.client("b").gets("nil");
    story.conn(2).answers("*2\r\n$4\r\nmine\r\n$1\r\n1\r\n");
    story.client("a").gets("*2\r\n$4\r\nmine\r\n$1\r\n1\r\n");
}

/// What waits is looked at again and again, but asked about once.
#[test]
fn it_is_asked_once_about_a_request_that_waits() {
    let mut teller = teller();
    let story = &mut teller.story;
    story.server().dies("it fell");
    story.client("a").takes();
    story.client("a").says(["SELECT 1", "GET k", "GET other:k"]);
    // The connection of that database must come first.
    story.after_ms(1);
    let conn = story.open_conns();
    assert!(conn > 0);
    let text = story.client("a").takes_text();
    assert!(!text.contains("respool: an extension"), "{text}");
    assert_eq!(teller.calls(), 2);
}

#[test]
fn other_programs_take_the_place_of_those_there_are_and_same_ones_stay() {
    fn all(_: &[&str], _: &View<'_>) -> Result<Verdict, Failure> {
        Ok(Verdict::Answer(wire("\"new\"")))
    }
    let mut teller = teller();
    teller.story.client("a").says("GET answer").gets("\"mine\"");
    let before = teller.counts.judges.load(Relaxed);
    teller.story.reconfigures(|settings| {
        settings.timeouts.ping_ms = 5;
        let policies = settings.policies.as_deref().cloned();
        settings.policies = policies.map(Arc::new);
    });
    teller.story.client("a").says("GET answer").gets("\"mine\"");
    assert_eq!(teller.counts.judges.load(Relaxed), before, "it went on");
    let (policies, counts) = of(all, own(&[rule(&["@all"], false)]));
    teller.story.reconfigures(|settings| settings.policies = policies);
    teller.story.client("a").says(["GET answer", "SET k v"]).gets(["\"new\"", "\"new\""]);
    assert_eq!(counts.judges.load(Relaxed), 1);
    teller.story.reconfigures(|settings| settings.policies = None);
    teller.story.client("a").says("GET answer");
    teller.story.server().gets("GET answer").answers("nil");
    teller.story.client("a").gets("nil");
}

#[test]
fn one_without_a_program_fails() {
    let mut teller = teller();
    teller.story.reconfigures(|settings| {
        settings.policies = Policies::new(own(&[rule(&["get"], false)])).map(Arc::new);
    });
    teller.story.client("a").says("GET k").gets(FAILED);
    assert_eq!(teller.report().failures[6], 1);
}

#[test]
fn a_request_that_is_too_large_to_be_shown_is_refused_or_goes_on() {
    let large = large_set("k", 1 << 20);
    let mut teller = with(by_key, own(&[rule(&["set"], false)]));
    teller.story.client("a").sends(&large).gets(FAILED);
    teller.story.server().gets_nothing();
    assert_eq!((teller.calls(), teller.report().failures[7]), (0, 1));
    let mut teller = with(by_key, own(&[rule(&["set"], true)]));
    teller.story.client("a").sends(&large);
    assert_eq!(teller.story.conn(2).takes_requests(), 1);
    teller.story.conn(2).answers("+OK");
    teller.story.client("a").gets("+OK");
    assert_eq!((teller.calls(), teller.report().failures[7]), (0, 1));
}

#[test]
fn replies_that_nobody_wants_are_not_given() {
    let mut teller = teller();
    let story = &mut teller.story;
    story.client("a").says(["CLIENT REPLY SKIP", "GET answer", "GET answer"]).gets("\"mine\"");
    story.client("a").says(["CLIENT REPLY OFF", "GET answer", "SET refuse 1"]).gets_nothing();
    story.client("a").says("CLIENT REPLY ON").gets("+OK");
}

#[test]
fn it_is_told_who_asks() {
    fn says(_: &[&str], view: &View<'_>) -> Result<Verdict, Failure> {
        let user = std::str::from_utf8(view.user).unwrap_or("?");
        let name = std::str::from_utf8(view.client_name).unwrap_or("?");
        let text = format!("\"{user} {name} {} {}\"", view.protocol, view.is_inside);
        Ok(Verdict::Answer(wire(&text)))
    }
    let mut teller = with(says, own(&[rule(&["get"], false)]));
    teller.story.client("a").says(["CLIENT SETNAME web", "GET k"]);
    teller.story.client("a").gets(["+OK", "\"default web 2 false\""]);
}

/// A program that says who is asked: the key tells.
fn by_target(args: &[&str], _: &View<'_>) -> Result<Verdict, Failure> {
    let key = args.get(1).copied().unwrap_or_default();
    match key.split_once(':') {
        Some(("up", _)) => Ok(Verdict::Upstream),
        Some((name, _)) => Ok(Verdict::Read(name.as_bytes().to_vec())),
        None => Ok(Verdict::Pass),
    }
}

/// Two targets, "b" and "c", over the first and the second connection; that of the upstream is the third.
fn routed(options: ReadsElsewhere, mut rules: Rules) -> Teller {
    let target = |name: &str| {
        let node = Node { address: Address::tcp(name, 6379), ..Settings::default().node };
        ReadTargetSettings { name: name.into(), node, pool: Pool::Standalone, outer_db: 0 }
    };
    let elsewhere = ReadsElsewhere { targets: vec![target("b"), target("c")], ..options };
    rules.own = vec![rule(&["@all"], false)];
    let (policies, counts) = of(by_target, rules);
    let mut story = Story::with(Settings { policies, elsewhere, ..Settings::default() });
    story.server_says_to("COMMAND", "*0");
    story.client("a").says("SET begin 1");
    story.conn(3).gets("SET begin 1").answers("+OK");
    story.client("a").gets("+OK");
    counts.calls.store(0, Relaxed);
    Teller { story, counts }
}

#[test]
fn each_read_is_asked_where_the_program_says() {
    let mut teller = routed(ReadsElsewhere::default(), Rules::default());
    let story = &mut teller.story;
    story.client("a").says(["GET c:1", "GET up:1", "GET b:1", "GET k", "INCR up:2", "MGET c:2 x"]);
    story.conn(1).gets(["GET b:1", "GET k"]).answers(["\"b\"", "\"k\""]);
    story.conn(3).gets(["GET up:1", "INCR up:2"]).answers(["\"up\"", ":1"]);
    story.client("a").gets_nothing();
    story.conn(2).gets(["GET c:1", "MGET c:2 x"]).answers(["\"c\"", "*0"]);
    story.client("a").gets(["\"c\"", "\"up\"", "\"b\"", "\"k\"", ":1", "*0"]);
    let report = teller.report();
    // The SET of the begin passed as well.
    assert_eq!((report.routed, report.passed, report.outcomes()[4].1), (5, 2, 0));
}

#[test]
fn where_nobody_is_or_nothing_can_be_asked_is_a_failure() {
    for line in ["GET d:1", "SET b:1 v", "GETEX b:1", "HSCAN b:1 0", "EVAL b:1 0", "TOUCH b:1"] {
        let mut teller = routed(ReadsElsewhere::default(), Rules::default());
        teller.story.client("a").says([line, "GET up:k"]);
        teller.story.conn(1).gets_nothing();
        teller.story.conn(2).gets_nothing();
        teller.story.conn(3).gets("GET up:k").answers("nil");
        teller.story.client("a").gets([FAILED, "nil"]);
        assert_eq!(teller.report().failures[4], 1, "{line}");
    }
    // Without targets there is no name; the upstream is there.
    let mut teller = with(by_target, own(&[rule(&["@all"], false)]));
    teller.story.client("a").says(["GET b:1", "GET up:1"]);
    teller.story.server().gets("GET up:1").answers("nil");
    teller.story.client("a").gets([FAILED, "nil"]);
}

#[test]
fn whatever_is_wanted_of_other_reads_that_target_is_first_and_others_follow() {
    let nowhere = vec![b"none".to_vec()];
    let options = ReadsElsewhere {
        order: Order::Main,
        keys: nowhere,
        percent: 0,
        hot_per_s: 1_000,
        ..ReadsElsewhere::default()
    };
    let mut teller = routed(options, Rules::default());
    let story = &mut teller.story;
    story.client("a").says(["GET c:1", "GET c:2", "GET k"]);
    story.conn(3).gets("GET k").answers("\"k\"");
    story.conn(1).gets_nothing();
    story.conn(2).gets(["GET c:1", "GET c:2"]).dies("reset by peer");
    // The other target, and then the upstream, at the place of the read.
    story.conn(1).gets(["GET c:1", "GET c:2"]);
    story.conn(1).answers(["\"b\"", "-LOADING Redis is loading the dataset in memory"]);
    story.conn(3).gets("GET c:2").answers("\"up\"");
    story.client("a").gets(["\"b\"", "\"up\"", "\"k\""]);
    // Both are out now: the upstream is asked at once.
    story.client("a").says("GET c:3");
    story.conn(3).gets("GET c:3").answers("\"up\"");
    story.client("a").gets("\"up\"");
}

#[test]
fn what_was_said_holds_while_the_request_waits_and_not_where_no_target_may_be_asked() {
    let detail =
        Rate { unit: Unit::Requests, per_s: 10, burst: 1, per: Per::All, delay_ms: 10_000 };
    let what = What::new(&["get"], Vec::new(), false).expect("a command");
    let rate = vec![Rule { what, name: String::new(), error: None, detail }];
    let mut teller = routed(ReadsElsewhere::default(), Rules { rate, ..Rules::default() });
    teller.story.client("a").says(["GET c:1", "GET c:2", "GET k"]);
    teller.story.conn(2).gets("GET c:1").answers("\"1\"");
    teller.story.client("a").gets("\"1\"");
    teller.story.after_ms(100);
    teller.story.conn(2).gets("GET c:2").answers("\"2\"");
    teller.story.after_ms(100);
    // It was said of that one alone.
    teller.story.conn(1).gets("GET k").answers("\"3\"");
    teller.story.client("a").gets(["\"2\"", "\"3\""]);
    assert_eq!(teller.calls(), 3);
    // A transaction is the upstream's.
    let mut teller = routed(ReadsElsewhere::default(), Rules::default());
    teller.story.client("a").says(["MULTI", "GET c:1", "EXEC"]);
    let last = teller.story.connects_made();
    teller.story.conn(last).gets(["MULTI", "GET c:1", "EXEC"]);
    teller.story.conn(last).answers(["+OK", "+QUEUED", "*1\r\n:1\r\n"]);
    teller.story.client("a").gets(["+OK", "+QUEUED", "*1\r\n:1\r\n"]);
}
