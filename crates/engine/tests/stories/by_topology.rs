//! Every command of the table in front of every kind of deployment: what `command::spread` says is what the engine does.
//!
//! The page `docs/reference/commands-by-topology.md` is made of `spread`, so this is what keeps the page true. Each command is sent
//! with keys of one owner, with keys of two, and without, as far as it takes them; who got what, and what became of the replies,
//! is compared.
//!
//! Not here: the rules themselves, one story each (`cluster`, `shards`, `sentinel`).
//!
//! Invariant: no row is passed over; a row whose keys the sample cannot place fails the story.

use crate::words::{Story, wire};
use engine::command::spread::{Behind, Fate, Gather, fates};
use engine::command::{Begin, COUNT, Command, CommandId, Find, KeyRule};
use engine::reject;

/// Two keys of one owner (and one slot), and one of another.
struct Keys {
    one: &'static str,
    beside: &'static str,
    other: &'static str,
}

/// A call and which of its arguments are keys.
struct Sample {
    args: Vec<String>,
    keys: usize,
}

fn story(behind: Behind) -> (Story, Keys, &'static [&'static str]) {
    let (mut story, keys, nodes): (Story, Keys, &'static [&'static str]) = match behind {
        Behind::Server => {
            let keys = Keys { one: "a", beside: "b", other: "c" };
            let mut story = Story::new();
            story.client("a").says("GET a");
            story.server().gets("GET a").answers("nil");
            (story, keys, &["127.0.0.1"])
        }
        Behind::Sentinel => {
            let keys = Keys { one: "a", beside: "b", other: "c" };
            (Story::warm_sentinels(), keys, &["n1"])
        }
        Behind::Cluster => {
            let keys = Keys { one: "{a4}1", beside: "{a4}2", other: "b4" };
            (Story::warm_cluster(), keys, &["n1", "n2", "n3"])
        }
        Behind::Shards => {
            let keys = Keys { one: "d", beside: "e", other: "a" };
            (Story::warm_shards(), keys, &["n1", "n2", "n3"])
        }
    };
    story.client("a").takes();
    (story, keys, nodes)
}

/// A call of this row with keys at every place where it can have them; `keys` are taken in turn.
fn sample(row: &Command, keys: [&str; 2]) -> Sample {
    let mut args: Vec<String> = row.name.split('|').map(str::to_string).collect();
    let need = usize::from(row.arity.unsigned_abs()).max(args.len());
    args.resize(need, "1".to_string());
    let mut put = 0;
    let mut place = |args: &mut Vec<String>, index: usize| {
        if args.len() <= index {
            args.resize(index + 1, "1".to_string());
        }
        args[index] = keys[put % 2].to_string();
        put += 1;
    };
    let specs = match row.key_rule {
        // Its one key is empty where several follow the word KEYS.
        KeyRule::Migrate => {
            args[3].clear();
            &row.keys[1..]
        }
        // Of STORE and STOREDIST only the last counts.
        KeyRule::GeoStore => &row.keys[..2],
        _ => row.keys,
    };
    for spec in specs {
        let begin = match spec.begin {
            Begin::Index(index) => usize::from(index),
            Begin::Keyword { word, .. } => {
                args.push(word.to_string());
                args.len()
            }
            Begin::Unknown => continue,
        };
        match spec.find {
            Find::Range { last: 0, .. } => place(&mut args, begin),
            Find::Range { last, step, limit } if last < 0 => {
                let step = usize::from(step);
                args.truncate(begin.max(1));
                place(&mut args, begin);
                place(&mut args, begin + step);
                // What belongs to the last key, what comes behind the keys, and the half that is no keys.
                let behind = step - 1 + usize::from(last.unsigned_abs()) - 1;
                let halves = if limit > 1 { 2 } else { 0 };
                args.resize(args.len() + behind + halves, "1".to_string());
            }
            Find::Range { last, step, .. } => {
                for index in (0..=last.unsigned_abs()).step_by(usize::from(step)) {
                    place(&mut args, begin + usize::from(index));
                }
            }
            Find::Counted { count_at, first, step } => {
                let (first, step) = (begin + usize::from(first), usize::from(step));
                place(&mut args, first);
                place(&mut args, first + step);
                args.resize(args.len().max(first + 2 * step), "1".to_string());
                args[begin + usize::from(count_at)] = "2".to_string();
            }
            Find::Unknown => {}
        }
    }
    let mut found = 0;
    let bytes: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
    engine::command::keys(row, bytes.iter().copied(), |_, key, _| {
        assert!(keys.iter().any(|known| known.as_bytes() == key), "{}: {args:?}", row.name);
        found += 1;
    });
    Sample { args, keys: found }
}

/// A call of this row without keys.
fn bare(row: &Command) -> Sample {
    let mut args: Vec<String> = row.name.split('|').map(str::to_string).collect();
    let need = usize::from(row.arity.unsigned_abs()).max(args.len());
    // For scripts the count of keys; for everything else just something.
    args.resize(need, "0".to_string());
    Sample { args, keys: 0 }
}

/// What was seen of one call.
#[derive(Debug)]
struct Seen {
    /// Who got how many requests.
    got: Vec<(&'static str, usize)>,
    /// What the client got before any server answered.
    at_once: String,
}

fn send(story: &mut Story, nodes: &'static [&'static str], args: &[String]) -> Seen {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
    resp::encode::request(&mut bytes, &words);
    story.client("a").sends(&bytes);
    let at_once = story.client("a").takes_text();
    let got = nodes.iter().map(|node| (*node, arrived(story, node))).filter(|(_, n)| *n > 0);
    Seen { got: got.collect(), at_once }
}

/// How many of the client's requests arrived at a node, on whichever connection.
fn arrived(story: &mut Story, node: &str) -> usize {
    let conns = story.connects_to(node);
    (1..=conns).map(|number| story.node_conn(node, number).waiting()).sum()
}

/// Whether what was seen is this fate.
fn is(fate: Fate, seen: &Seen, keys: usize, nodes: usize) -> bool {
    let error = |words: &str| seen.got.is_empty() && seen.at_once.contains(words);
    let to = |count: usize| seen.got.len() == count && seen.at_once.is_empty();
    match fate {
        Fate::Local => {
            // What is the caller's to do nobody does here, and the proxy says so itself.
            let without_caller = error(reject::NO_CONFIG) || error(reject::NO_ENTROPY);
            seen.got.is_empty() && (without_caller || !seen.at_once.contains("respool:"))
        }
        Fate::Facade => error("cluster") || error("CLUSTER"),
        Fate::Own => error("needs a connection of its own"),
        Fate::Refused => error("is not given on") || error("is not allowed in cluster"),
        Fate::Whole | Fate::Owner => to(1),
        Fate::Any => to(1) && (nodes == 1 || seen.got[0].0 == "n1"),
        Fate::OneOwner if keys > 1 => error("-CROSSSLOT"),
        Fate::OneOwner => to(1),
        Fate::Split(_) if keys > 1 => to(2),
        Fate::Split(_) => to(1),
        Fate::All(_) => to(nodes),
        Fate::Iterates | Fate::Channel => to(1),
        Fate::Listens => !seen.got.is_empty() && seen.at_once.is_empty(),
    }
}

/// Whether more keys come with an option that the sample does not use.
fn may_have_more(row: &Command) -> bool {
    row.key_rule == KeyRule::Sort
}

fn rows() -> impl Iterator<Item = CommandId> {
    (0..COUNT).filter_map(CommandId::from_index)
}

#[test]
fn every_command_goes_where_the_page_says() {
    let mut wrong = Vec::new();
    for behind in Behind::ALL {
        for id in rows() {
            let (fates, row) = (fates(id, behind), id.row());
            let mut check = |fate: Fate, args: &[String], owners: usize| {
                let (mut story, _, nodes) = story(behind);
                let seen = send(&mut story, nodes, args);
                if !is(fate, &seen, owners, nodes.len()) {
                    wrong.push(format!("{behind:?} {args:?} is not {fate:?}: {seen:?}"));
                }
            };
            let (_, keys, _) = story(behind);
            if let Some(fate) = fates.with_keys {
                let beside = sample(row, [keys.one, keys.beside]);
                assert!(beside.keys > 0, "{}: no keys in {:?}", row.name, beside.args);
                check(fate, &beside.args, 1);
                let apart = sample(row, [keys.one, keys.other]);
                check(fate, &apart.args, apart.keys.min(2));
                // Else a second owner would not have been tried, or a second key passed over.
                let one = !behind.spreads_keys() || fate == Fate::Owner;
                assert!(one || apart.keys > 1 || may_have_more(row), "{}", row.name);
                assert!(fate != Fate::Owner || apart.keys == 1, "{}: {:?}", row.name, apart.args);
            }
            // The second word of a container is that of one of its rows.
            let bare = bare(row).args;
            if let Some(fate) = fates.without_keys
                && !(row.is_container() && bare.len() > 1)
            {
                check(fate, &bare, 0);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What two or three nodes say, and what the client must get of it.
fn replies(gather: Gather) -> (Vec<&'static str>, Vec<&'static str>) {
    match gather {
        Gather::Sum => (vec![":3", ":2", ":5"], vec![":10", ":5"]),
        Gather::Min => (vec![":3", ":2", ":5"], vec![":2"]),
        Gather::MinEach => (
            vec!["*2\r\n:1\r\n:2\r\n", "*2\r\n:0\r\n:9\r\n", "*2\r\n:1\r\n:1\r\n"],
            vec!["*2\r\n:0\r\n:1\r\n"],
        ),
        Gather::Max => (vec![":3", ":2", ":5"], vec![":5", ":3"]),
        Gather::AllOk => (vec!["+3", "+2", "+5"], vec!["+3"]),
        Gather::OneOk => (vec!["-ERR 3", "+2", "+5"], vec!["+2"]),
        Gather::AnyOfSome => (vec!["nil", "\"2\"", "nil"], vec!["\"2\""]),
        Gather::And => (
            vec!["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n", "*2\r\n:1\r\n:1\r\n"],
            vec!["*2\r\n:1\r\n:0\r\n"],
        ),
        Gather::Or => (
            vec!["*2\r\n:0\r\n:1\r\n", "*2\r\n:0\r\n:0\r\n", "*2\r\n:0\r\n:1\r\n"],
            vec!["*2\r\n:0\r\n:1\r\n"],
        ),
        Gather::Join => (
            vec!["*1\r\n:3\r\n", "*0\r\n", "*1\r\n:5\r\n"],
            vec!["*2\r\n:3\r\n:5\r\n", "*1\r\n:3\r\n"],
        ),
        Gather::Union => (
            vec!["*2\r\n:3\r\n:4\r\n", "*0\r\n", "*2\r\n:4\r\n:5\r\n"],
            vec!["*3\r\n:3\r\n:4\r\n:5\r\n"],
        ),
        Gather::SumEach => (
            vec!["*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n$1\r\na\r\n:2\r\n", "*2\r\n$1\r\na\r\n:0\r\n"],
            vec!["*2\r\n$1\r\na\r\n:3\r\n"],
        ),
        Gather::InOrder => {
            (vec!["*1\r\n:3\r\n", "*1\r\n:2\r\n", "*1\r\n:5\r\n"], vec!["*2\r\n:3\r\n:2\r\n"])
        }
    }
}

/// Answers what arrived at each node, in the order of the nodes; how many there were.
fn answer(story: &mut Story, replies: &[&str]) -> usize {
    let mut answered = 0;
    for node in ["n1", "n2", "n3"] {
        for number in 1..=story.connects_to(node) {
            let requests = story.node_conn(node, number).takes_requests();
            if requests > 0 {
                // In front of a WAIT stands a command of respool.
                for _ in 1..requests {
                    story.node_conn(node, number).answers("+PONG");
                }
                story.node_conn(node, number).answers(replies[answered]);
                answered += 1;
            }
        }
    }
    answered
}

#[test]
fn replies_become_one_as_the_page_says() {
    let mut tried = 0;
    for id in rows() {
        let row = id.row();
        let fates = fates(id, Behind::Cluster);
        let calls = [
            fates.with_keys.map(|fate| (fate, sample(row, ["{a4}1", "b4"]))),
            fates.without_keys.map(|fate| (fate, bare(row))),
        ];
        for (fate, call) in calls.into_iter().flatten() {
            let (Fate::All(gather) | Fate::Split(gather)) = fate else { continue };
            let (said, wanted) = replies(gather);
            let (mut story, _, nodes) = story(Behind::Cluster);
            send(&mut story, nodes, &call.args);
            let parts = answer(&mut story, &said);
            assert_eq!(parts, if call.keys > 0 { 2 } else { 3 }, "{:?}", call.args);
            let got = story.client("a").takes_text();
            let fits = |wanted: &&str| wire(wanted) == got.as_bytes();
            assert!(wanted.iter().any(fits), "{:?} {gather:?}: {got:?}", call.args);
            // An error of one node is the error of the whole, except where one success is enough.
            let (mut story, _, nodes) = self::story(Behind::Cluster);
            send(&mut story, nodes, &call.args);
            answer(&mut story, &["-ERR one", said[1], said[2]]);
            let got = story.client("a").takes_text();
            assert_eq!(got == "-ERR one\r\n", gather != Gather::OneOk, "{:?} {got:?}", call.args);
            tried += 1;
        }
    }
    assert!(tried > 30, "only {tried} commands go to several nodes");
}
