//! What must hold of the table as a whole, whichever server is compared with it.

use super::*;
use alloc::vec::Vec;

fn all() -> impl Iterator<Item = CommandId> {
    (0..COUNT).filter_map(CommandId::from_index)
}

fn of_class(class: Class) -> Vec<&'static str> {
    all().filter(|id| id.row().class == class).map(CommandId::name).collect()
}

#[test]
fn rows_are_sorted_and_subcommands_follow_their_container() {
    // By container, then by subcommand: `|` sorts after letters, so names alone would scatter them.
    let split = |id: CommandId| id.name().split('|').collect::<Vec<_>>();
    assert!(all().zip(all().skip(1)).all(|(left, right)| split(left) < split(right)));
    for id in all() {
        assert_eq!(id.name(), id.name().to_ascii_lowercase());
        for sub in id.subcommands() {
            assert_eq!(sub.name().split_once('|').unwrap().0, id.name());
        }
    }
    let subcommands: usize = all().map(|id| id.subcommands().count()).sum();
    assert_eq!(subcommands, all().filter(|id| id.name().contains('|')).count());
}

#[test]
fn ids_outside_the_table_do_not_exist() {
    assert_eq!(CommandId::from_index(COUNT), None);
    assert_eq!(CommandId::from_index(COUNT - 1).map(CommandId::index), Some(COUNT - 1));
}

#[test]
fn constants_name_what_the_look_up_finds() {
    assert_eq!(lookup(b"Get"), Some(ids::GET));
    assert_eq!(lookup(b"PING"), Some(ids::PING));
    for id in ids::LOCAL {
        let found = match id.name().split_once('|') {
            None => lookup(id.name().as_bytes()),
            Some((container, sub)) => {
                lookup_sub(lookup(container.as_bytes()).unwrap(), sub.as_bytes())
            }
        };
        assert_eq!(found, Some(*id));
    }
    let local: Vec<_> = ids::LOCAL.iter().map(|id| id.name()).collect();
    assert_eq!(of_class(Class::Local), local, "the list of ids::LOCAL is that of the class");
}

#[test]
fn classes_that_are_not_pass() {
    assert_eq!(of_class(Class::Control), ["function|kill", "function|stats", "script|kill"]);
    let config = ["", "|get", "|help", "|resetstat", "|rewrite", "|set"];
    let config: Vec<_> = config.iter().map(|sub| alloc::format!("config{sub}")).collect();
    assert_eq!(of_class(Class::Noted), config);
    let command =
        ["", "|count", "|docs", "|getkeys", "|getkeysandflags", "|help", "|info", "|list"];
    let mut beside: Vec<_> = command.iter().map(|sub| alloc::format!("command{sub}")).collect();
    beside.extend(["flushall", "flushdb", "keys"].map(Into::into));
    assert_eq!(of_class(Class::Beside), beside);
    assert_eq!(of_class(Class::Blocking), ["vadd", "xread", "xreadgroup"]);
    assert_eq!(of_class(Class::Refused), ["cluster|syncslots", "debug", "migrate", "shutdown"]);
    // A blocking command on a shared connection would stop every client behind it.
    for id in all().filter(|id| id.row().flags.has(Flags::BLOCKING)) {
        assert!(matches!(id.row().class, Class::Leased | Class::Blocking), "{}", id.name());
    }
    // Subscribing turns the connection into a stream, so respool listens for its clients.
    for id in all().filter(|id| id.name().ends_with("subscribe")) {
        assert_eq!(id.row().class, Class::Local, "{}", id.name());
    }
    assert_eq!(
        of_class(Class::Counted),
        [
            "publish",
            "pubsub|channels",
            "pubsub|numpat",
            "pubsub|numsub",
            "pubsub|shardchannels",
            "pubsub|shardnumsub",
            "spublish"
        ]
    );
}

#[test]
fn only_these_containers_need_a_look_at_the_second_word() {
    let classed: Vec<_> =
        all().filter(|id| id.row().has_classed_subcommands).map(CommandId::name).collect();
    assert_eq!(classed, ["bless", "cluster", "function", "himport", "pubsub", "script", "xgroup"]);
}

#[test]
fn what_waits_while_writes_are_paused() {
    let held = |name: &str| lookup(name.as_bytes()).unwrap().row().writes();
    for name in ["set", "del", "pfcount", "publish", "eval", "fcall", "xreadgroup", "sort"] {
        assert!(held(name), "{name}");
    }
    for name in ["get", "eval_ro", "sort_ro", "xread", "subscribe", "config"] {
        assert!(!held(name), "{name}");
    }
    assert!(lookup_sub(lookup(b"xgroup").unwrap(), b"create").unwrap().row().writes());
}

#[test]
fn key_flags_name_one_kind_of_work() {
    let work = [KeyFlags::RO, KeyFlags::RW, KeyFlags::OW, KeyFlags::RM, KeyFlags::NOT_KEY];
    for id in all() {
        for spec in id.row().keys {
            let kinds = work.iter().filter(|kind| spec.flags.has(**kind)).count();
            assert_eq!(kinds, 1, "{}", id.name());
            // A write needs a key that is written; what only reads must not write one.
            let writes = !spec.flags.intersects(KeyFlags::RO.with(KeyFlags::NOT_KEY));
            let readonly = id.row().flags.has(Flags::READONLY);
            // PFCOUNT keeps what it has counted in the key, so it is both. The vector sets come from a module that
            // declares the same for all its commands.
            let both = id.name() == "pfcount" || id.row().flags.has(Flags::MODULE);
            assert!(!(writes && readonly) || both, "{}", id.name());
        }
    }
}

#[test]
fn what_may_be_answered_together_only_reads_and_is_plain() {
    let shareable: Vec<_> = all().filter(|id| id.row().is_shareable).collect();
    let names: Vec<_> = shareable.iter().map(|id| id.name()).collect();
    assert_eq!(names, shareable::NAMES);
    for id in shareable {
        let row = id.row();
        assert!(row.is_plain && row.reads() && !row.writes(), "{}", row.name);
        assert!(!row.keys.is_empty() && !row.is_container(), "{}", row.name);
    }
    for name in ["ttl", "srandmember", "randomkey", "touch", "pfcount", "getex", "scan", "object"] {
        assert!(!lookup(name.as_bytes()).unwrap().row().is_shareable, "{name}");
    }
}
