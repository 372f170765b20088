//! Large requests and rules: whatever is streamed, no rule sees less of a request than of a small one.
//!
//! The oracle is an engine with the same rules for which no request is large, so that each is looked at as a whole. Requests are made of all rows of the
//! command table with words at random: keys that a rule is about and others, values that make the request large, options, numbers. They come in pieces,
//! as large requests do.

use crate::words::{Story, request};
use engine::Settings;
use engine::acl::Users;
use engine::command::{CommandId, KeyFlags, keys};
use engine::policy::{Namespace, Per, Policies, Rate, Rule, Rules, Unit, What};

/// Requests of each command that has keys, in `make test`; with `RESPOOL_LONG=1` twenty times as many.
const TRIES: u64 = 3;

const LARGE_BYTES: usize = 2_000;

const WORDS: [&str; 20] = [
    "blk:1", "blk:2", "o:1", "o:1", "o:2", "o:2", "0", "1", "2", "3", "STORE", "KEYS", "STREAMS",
    "BY", "GET", "LIMIT", "COUNT", "LEFT", "$", "MATCH",
];

/// Numbers from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }
}

fn rule<T>(detail: T) -> Rule<T> {
    let what = What::new(&[], vec![b"blk:*".as_slice().into()], true).expect("all commands");
    Rule { what, name: String::new(), error: None, detail }
}

fn with_policies(rules: Rules) -> Settings {
    Settings { policies: Policies::new(rules).map(Into::into), ..Settings::default() }
}

/// Rules that look at keys, each by itself.
fn rules() -> Vec<(&'static str, Settings)> {
    let mut users = Users::default();
    users.set(b"default", &[b"on", b"nopass", b"resetkeys", b"~o:*", b"+@all"]).expect("rules");
    let rate = Rate { unit: Unit::Requests, per_s: 1, burst: 1, per: Per::Prefix, delay_ms: 0 };
    let namespace = Namespace::new(b"t:", false).expect("a prefix");
    vec![
        ("block", with_policies(Rules { block: vec![rule(())], ..Rules::default() })),
        ("deny", with_policies(Rules { deny: vec![rule(())], ..Rules::default() })),
        (
            "rate",
            with_policies(Rules {
                rate: vec![rule(Rate { per: Per::All, ..rate }), rule(rate)],
                ..Rules::default()
            }),
        ),
        ("users", Settings { users: users.into(), ..Settings::default() }),
        ("namespace", with_policies(Rules { namespace: Some(namespace), ..Rules::default() })),
    ]
}

/// A call of this command: its name, and words among which one at least is large.
fn call(command: CommandId, chance: &mut Chance) -> Vec<Vec<u8>> {
    let mut args: Vec<Vec<u8>> =
        command.name().split('|').map(|word| word.as_bytes().to_vec()).collect();
    let least = usize::from(command.row().arity.unsigned_abs()).saturating_sub(args.len());
    let more = if command.row().arity < 0 { chance.below(6) } else { 0 };
    for _ in 0..(least + more).max(1) {
        args.push(match chance.below(8) {
            0 => vec![b'x'; LARGE_BYTES],
            1 => [b"blk:", &vec![b'y'; LARGE_BYTES][..]].concat(),
            _ => WORDS[chance.below(WORDS.len())].as_bytes().to_vec(),
        });
    }
    args
}

/// What the client got and what all servers' connections did.
fn outcome(
    settings: &Settings,
    before: &str,
    bytes: &[u8],
    cuts: &[usize],
    large: u64,
) -> (String, Vec<String>) {
    let mut settings = settings.clone();
    settings.limits.large_request_bytes = large;
    // What the one engine counts for a rate is of no concern to the other.
    let rules = settings.policies.as_ref().map(|policies| policies.rules().clone());
    settings.policies = rules.and_then(Policies::new).map(Into::into);
    let mut story = Story::with(settings);
    if !before.is_empty() {
        story.client("a").says(before);
        story.conn(1).gets(before).answers("+OK");
        story.client("a").gets("+OK");
    }
    let mut from = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        story.client("a").sends(&bytes[from..cut]);
        from = cut;
    }
    let got = story.client("a").takes_text();
    let mut requests = Vec::new();
    for number in 1..=story.connects_made() {
        assert_eq!(story.conn(number).bytes_of_unfinished(), 0, "half a request is at a server");
        requests.extend(std::iter::from_fn(|| story.conn(number).takes_one()));
    }
    (got, requests)
}

#[test]
fn no_rule_sees_less_of_a_large_request_than_of_a_small_one() {
    let tries = if std::env::var_os("RESPOOL_LONG").is_some() { 20 * TRIES } else { TRIES };
    let mut chance = Chance(7);
    let (mut refused, mut streamed) = (0, 0);
    for (name, settings) in rules() {
        for command in CommandId::all().filter(|id| !id.row().keys.is_empty()) {
            for _ in 0..tries {
                let args = call(command, &mut chance);
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                let mut bytes = Vec::new();
                resp::encode::request(&mut bytes, &args);
                let mut cuts: Vec<usize> = (0..3).map(|_| chance.below(bytes.len())).collect();
                cuts.sort_unstable();
                let before = if chance.below(3) == 0 { "MULTI" } else { "" };
                let whole = outcome(&settings, before, &bytes, &cuts, 1 << 30);
                let large = outcome(&settings, before, &bytes, &cuts, 500);
                let line = || format!("{name}: {before} {}", shown(&args));
                let mut named = false;
                keys(command.row(), args.iter().copied(), |_, key, flags| {
                    named |= key.starts_with(b"blk:") && !flags.has(KeyFlags::NOT_KEY);
                });
                if named && !matches!(name, "namespace" | "rate") {
                    assert!(large.1.is_empty(), "{}: {:?}", line(), large.1);
                }
                // What goes on at all is what would go on as a whole; what does not gets an error, perhaps one about its size.
                if large.1.is_empty() && large.0.starts_with('-') {
                    let is_for_size =
                        large.0.contains("too large") || large.0.contains("of its own");
                    assert!(whole.1.is_empty() || is_for_size, "{}: {whole:?} {large:?}", line());
                    refused += 1;
                    continue;
                }
                assert_eq!(large, whole, "{}", line());
                refused += usize::from(whole.1.is_empty());
                streamed += usize::from(!whole.1.is_empty());
            }
        }
    }
    assert!(refused > 500 && streamed > 500, "{refused} refused, {streamed} went on");
}

/// A request as a person reads it.
fn shown(args: &[&[u8]]) -> String {
    let word = |arg: &&[u8]| match arg.len() {
        0..60 => String::from_utf8_lossy(arg).into_owned(),
        len => format!("{}…({len})", String::from_utf8_lossy(&arg[..6])),
    };
    args.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_held_whole_is_bounded_and_refused_beyond() {
    let block = with_policies(Rules { block: vec![rule(())], ..Rules::default() });
    let mut story = Story::with(block);
    let error = "-ERR respool: this request is too large: all of it must be seen before it is forwarded, and at most 64 MiB are kept for that";
    let bound = engine::limits::WHOLE_REQUEST_BYTES_MAX;
    story.client("a").sends(format!("*5\r\n$4\r\nMSET\r\n$3\r\no:1\r\n${bound}\r\nxx").as_bytes());
    story.client("a").gets(error);
    // With one key in front the rest is of no concern to any rule.
    story.client("b").sends(format!("*3\r\n$3\r\nSET\r\n$3\r\no:1\r\n${bound}\r\nxx").as_bytes());
    assert!(story.conn(1).bytes_of_unfinished() > 30);
    let blocked = "-ERR respool: the operator has blocked this request (policies.block)";
    story.client("c").sends(format!("*3\r\n$3\r\nSET\r\n$5\r\nblk:1\r\n${bound}\r\nxx").as_bytes());
    story.client("c").gets(blocked);
}

#[test]
fn without_rules_requests_with_several_keys_are_streamed() {
    let mut story = Story::new();
    let value = "x".repeat(300_000);
    let mset = request(&format!("MSET a {value} b {value}"));
    story.client("a").sends(&mset[..400_000]);
    assert!(story.conn(1).bytes_of_unfinished() > 390_000, "what came went on at once");
    // A rate that is not about keys needs to see none of them.
    let what = What::new(&[], Vec::new(), false).expect("all commands");
    let detail = Rate { unit: Unit::Requests, per_s: 9, burst: 9, per: Per::All, delay_ms: 0 };
    let rate = Rule { what, name: String::new(), error: None, detail };
    let mut story = Story::with(with_policies(Rules { rate: vec![rate], ..Rules::default() }));
    story.client("a").sends(&mset[..400_000]);
    assert!(story.conn(1).bytes_of_unfinished() > 390_000, "what came went on at once");
}
