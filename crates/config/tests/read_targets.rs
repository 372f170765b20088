//! Read targets of `[read_targets]`: their words, their passwords, and what is wrong with them.
//!
//! Invariant: no message repeats a piece of an entry that may be a password.

use config::{Config, FileText, Place, Problems, load_file};
use engine::elsewhere::Order;

fn load(text: &str, password: &str) -> Result<Config, Problems> {
    let text = format!("upstream = \"redis://10.0.0.1\"\n{text}");
    let read = |place: Place<'_>| match place {
        Place::File(_) => Ok(password.as_bytes().to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    load_file(FileText { name: "r.toml", text: &text }, &read)
}

#[track_caller]
fn wrong(options: &str) -> String {
    load(&format!("[read_targets]\n{options}\n"), "secret").expect_err(options).to_string()
}

#[test]
fn a_read_target_is_a_url_and_its_words() {
    let text = "[read_targets]\ntargets = [\
        \"redis-cluster://10.0.0.2,10.0.0.3 name=near password_file=/p\", \"redis://u:x@10.0.0.4/3\"]\n\
        order = \"random\"\nkeys = \"user:*\"\npercent = 50\nhot_per_s = 7\ntimeout_ms = 20\ninflight_max_bytes = \"1MiB\"\n";
    let config = load(text, "geheim").unwrap();
    let targets = &config.read_targets;
    assert_eq!((targets.order, targets.percent, targets.hot_per_s), (Order::Random, 50, 7));
    assert_eq!((targets.timeout_ms, targets.inflight_max_bytes), (20, 1 << 20));
    assert_eq!((targets.hedge_after_ms, targets.keys.as_slice()), (0, &["user:*".to_owned()][..]));
    let [near, other] = &targets.targets[..] else { panic!("two targets") };
    assert_eq!((near.name(), other.url().db), ("near".to_owned(), 3));
    assert!(near.url().password.is_some() && near.url().addresses().count() == 2);
    // As it is shown, nothing of a password is left.
    let shown = format!("{near} {other} {:?}", config.read_targets);
    assert!(!shown.contains("geheim") && !shown.contains(":x@"), "{shown}");
    assert!(!load("", "").unwrap().read_targets.is_on());
}

#[test]
fn what_is_wrong_is_told_with_what_is_allowed() {
    for (options, words) in [
        (
            "targets = \"near\"",
            "read target 1 begins with no URL; allowed: a URL as for `upstream`",
        ),
        (
            "targets = \"redis://10.0.0.2 mode=all\"",
            "read target 1 has a word that is none of a read target",
        ),
        ("targets = \"redis://10.0.0.2 weight=2\"", "none of a read target"),
        ("targets = \"redis://10.0.0.1\"", "read target 1 is the upstream itself"),
        (
            "targets = [\"redis://10.0.0.2 name=a\", \"redis://10.0.0.3 name=a\"]",
            "read target 2 has the name of one before it",
        ),
        ("targets = \"redis://joe@10.0.0.2\"", "read target 1 has a user without a password"),
        ("order = \"chance\"", "allowed: targets, random, main"),
        ("percent = 0", "allowed: a whole number from 1 to 100"),
        ("hedge_after_ms = 20", "`read_targets.order = \"main\"` only"),
        ("order = \"main\"\nhedge_after_ms = 500", "must be below `read_targets.timeout_ms`"),
    ] {
        let message = wrong(options);
        assert!(message.contains(words), "{options}: {message}");
        assert!(message.contains("r.toml"), "{message}");
    }
    let many: Vec<String> = (2..11).map(|n| format!("\"redis://10.0.0.{n}\"")).collect();
    let message = wrong(&format!("targets = [{}]", many.join(", ")));
    assert!(message.contains("found 9 read targets; allowed: up to 8"), "{message}");
    // All at once.
    let message = wrong("targets = \"near\"\npercent = 101");
    assert!(message.contains("begins with no URL") && message.contains("percent"), "{message}");
}

#[test]
fn no_message_repeats_a_password() {
    for entry in [
        "redis://u:geheim@10.0.0.2:x",
        "redis://u:geh eim@10.0.0.2",
        "u:geheim@h",
        "redis://:geheim@",
    ] {
        let message = wrong(&format!("targets = \"{entry}\""));
        assert!(!message.contains("geheim") && !message.contains("eim@"), "{message}");
    }
}

#[test]
fn clients_cannot_change_them() {
    let option = config::options::OPTIONS.iter().find(|one| one.name == "read_targets.targets");
    let option = option.expect("the option");
    assert!(
        option.is_live() && !option.may_clients_set(config::ClientChanges::All) && option.is_list()
    );
}
