//! What rules come to, and what they allow.

use super::*;
use crate::command::{COUNT, CommandId, lookup, lookup_sub};
use alloc::string::{String, ToString};
use alloc::{format, vec};
use proptest::prelude::*;

fn rules(words: &str) -> Rules {
    let mut users = Users::default();
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    if let Err(error) = users.set(b"u", &words) {
        panic!("{}", String::from_utf8_lossy(&error));
    }
    users.get(b"u").unwrap().rules().clone()
}

fn described(words: &str) -> String {
    String::from_utf8(rules(words).describe()).unwrap()
}

fn error(words: &str) -> String {
    let mut users = Users::default();
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    String::from_utf8(users.set(b"u", &words).unwrap_err()).unwrap()
}

fn check(rules: &Rules, call: &str) -> Result<(), Denied> {
    let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
    let mut id = lookup(args[0]).unwrap();
    if id.row().is_container() {
        id = lookup_sub(id, args[1]).unwrap();
    }
    rules.check(Called::Row(id), args.iter().copied(), false)
}

#[test]
fn a_user_is_shown_as_rules() {
    assert_eq!(described(""), "off resetchannels -@all");
    assert_eq!(described("on nopass ~* &* +@all"), "on nopass ~* &* +@all");
    assert_eq!(
        described("on ~a:* %R~b %RW~c &ch +@read -get +config|get"),
        "on ~a:* %R~b ~c resetchannels &ch -@all +@read -get +config|get"
    );
    assert_eq!(
        described("+set (~a +get) (+@all &*)"),
        "off resetchannels -@all +set (~a resetchannels -@all +get) (&* +@all)"
    );
    assert_eq!(described("on (+get ~x) clearselectors"), "on resetchannels -@all");
    assert_eq!(
        described("on nopass (+get) allkeys reset"),
        "off sanitize-payload resetchannels -@all"
    );
    assert_eq!(
        described(">hello"),
        "off #2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 resetchannels -@all"
    );
    assert_eq!(described(">a <a"), "off resetchannels -@all");
}

#[test]
fn a_later_rule_takes_the_place_of_an_earlier_one() {
    assert_eq!(described("+config|get -config"), "off resetchannels -@all -config");
    assert_eq!(described("+get -@read +get"), "off resetchannels -@all -@read +get");
    assert_eq!(described("+select|0 +select|1"), "off resetchannels -@all +select|0 +select|1");
    assert_eq!(described("+select|0 +@all"), "off resetchannels +@all");
    assert_eq!(described("%R~a %W~a"), "off ~a resetchannels -@all");
}

#[test]
fn what_is_wrong_is_told_as_redis_tells_it() {
    let begin = |word: &str| format!("Error in ACL SETUSER modifier '{word}': ");
    for (words, word, text) in [
        ("+nosuch", "+nosuch", RuleError::UnknownCommand),
        ("+@nosuch", "+@nosuch", RuleError::UnknownCommand),
        ("+config|nosuch", "+config|nosuch", RuleError::UnknownCommand),
        ("-select|0", "-select|0", RuleError::UnknownCommand),
        ("+config|", "+config|", RuleError::Syntax),
        ("+config|get|x", "+config|get|x", RuleError::OfSubcommand),
        ("nosuch", "nosuch", RuleError::Syntax),
        ("%X~a", "%X~a", RuleError::Syntax),
        ("%RR~a", "%RR~a", RuleError::Syntax),
        ("allkeys ~a", "~a", RuleError::KeysBehindAll),
        ("&* &a", "&a", RuleError::ChannelsBehindAll),
        ("<a", "<a", RuleError::NoSuchPassword),
        ("#a", "#a", RuleError::BadDigest),
        ("(+get nosuch)", "(+get nosuch)", RuleError::Syntax),
    ] {
        assert_eq!(error(words), begin(word) + &text.text(), "{words}");
    }
    assert_eq!(error("on (+get ~a"), "Unmatched parenthesis in acl selector starting at '(+get'.");
}

#[test]
fn an_error_changes_nothing() {
    let mut users = Users::default();
    users.set(b"u", &[b"on", b"+get"]).unwrap();
    let before = users.clone();
    users.set(b"u", &[b"+set", b"nosuch"]).unwrap_err();
    users.set(b"new", &[b"nosuch"]).unwrap_err();
    assert!(users == before);
}

#[test]
fn presets_stand_for_rules() {
    assert_eq!(
        described("on readonly ~*"),
        "on ~* resetchannels -@all +@read +@connection -@dangerous"
    );
    let reader = rules("on readonly ~*");
    assert_eq!(check(&reader, "get a"), Ok(()));
    assert_eq!(check(&reader, "set a 1"), Err(Denied::Command));
    assert_eq!(check(&reader, "keys *"), Err(Denied::Command));
    let writer = rules("on readwrite ~* &*");
    for call in
        ["get a", "set a 1", "multi", "exec", "publish a b", "blpop a 0", "client setname x"]
    {
        assert_eq!(check(&writer, call), Ok(()), "{call}");
    }
    for call in ["flushall", "config get x", "acl list", "client kill x", "eval x 0"] {
        assert!(check(&writer, call).is_err(), "{call}");
    }
    assert!(rules("on admin ~* &*").allows_everything());
}

#[test]
fn every_key_counts_with_what_is_done_to_it() {
    let user = rules("on +@all ~app:* %R~shared:* %W~log:*");
    for call in [
        "get app:1",
        "mset app:1 a app:2 b",
        "get shared:1",
        "set log:1 x",
        "copy shared:1 app:1",
        "exists log:1",
        "bitfield shared:1 get u8 0",
        "sort app:1 store log:2",
        "ping",
    ] {
        assert_eq!(check(&user, call), Ok(()), "{call}");
    }
    for (call, at) in [
        ("get other", 1),
        ("mget app:1 other", 2),
        ("mset app:1 a other b", 3),
        ("set shared:1 x", 1),
        ("get log:1", 1),
        ("set log:1 x get", 1),
        ("copy app:1 shared:2", 2),
        ("bitfield shared:1 incrby u8 0 1", 1),
        ("sort app:1 store other", 3),
        ("xread count 1 streams app:1 other 0 0", 5),
    ] {
        assert_eq!(check(&user, call), Err(Denied::Key(at)), "{call}");
    }
    // A server reads an option up to its first NUL.
    for (call, at) in [
        ("sort app:1 STORE\0 other", 3),
        ("georadius app:1 0 0 1 m store\0x other", 7),
        ("xread streams\0 other 0", 2),
        ("xreadgroup group g c STREAMS\0 other >", 5),
        ("xreadgroup noack group streams c streams other >", 6),
        ("set log:1 x get\0", 1),
        ("bitfield log:1 GET\0 u8 0", 1),
    ] {
        assert_eq!(check(&user, call), Err(Denied::Key(at)), "{call:?}");
    }
    assert_eq!(check(&user, "sort app:1 by\0 w_*"), Err(Denied::SortBy));
    assert_eq!(check(&user, "sort app:1 get\0x other"), Err(Denied::SortGet));
    assert_eq!(check(&user, "sort app:1 by w_\0*"), Ok(()));
    assert_eq!(check(&user, "sort app:1 by w_*"), Err(Denied::SortBy));
    assert_eq!(check(&user, "sort app:1 by nosort get #"), Err(Denied::SortGet));
    assert_eq!(check(&user, "sort app:1 by nosort limit 0 1"), Ok(()));
    assert_eq!(check(&user, "eval x 1 other"), Err(Denied::Key(3)));
    assert_eq!(check(&user, "eval x 1 app:1"), Err(Denied::Script));
    let args = [&b"eval"[..], b"x", b"1", b"app:1"].into_iter();
    let eval = Called::Row(lookup(b"eval").unwrap());
    assert_eq!(user.check(eval, args, true), Ok(()));
}

#[test]
fn one_selector_must_allow_all_of_it() {
    let user = rules("on +get ~a (+set ~b) (+publish &c)");
    assert_eq!(check(&user, "get a"), Ok(()));
    assert_eq!(check(&user, "set b 1"), Ok(()));
    assert_eq!(check(&user, "set a 1"), Err(Denied::Key(1)));
    assert_eq!(check(&user, "del a"), Err(Denied::Command));
    assert_eq!(check(&user, "publish c x"), Ok(()));
    assert_eq!(check(&user, "publish d x"), Err(Denied::Channel(1)));
}

#[test]
fn channels_and_patterns() {
    let user = rules("on +@all &news:* &exact");
    assert_eq!(check(&user, "subscribe news:1 exact"), Ok(()));
    assert_eq!(check(&user, "subscribe news:1 other"), Err(Denied::Channel(2)));
    assert_eq!(check(&user, "psubscribe news:*"), Ok(()));
    assert_eq!(check(&user, "psubscribe news:1*"), Err(Denied::Channel(1)));
    assert_eq!(check(&user, "unsubscribe other"), Ok(()));
    assert!(user.allows_topic(b"news:5", false) && !user.allows_topic(b"news:5", true));
}

#[test]
fn first_arguments_and_what_nobody_can_be_forbidden() {
    let user = rules("on +select|0 +client|id");
    assert_eq!(check(&user, "select 0"), Ok(()));
    assert_eq!(check(&user, "select 1"), Err(Denied::Command));
    assert_eq!(check(&user, "client id"), Ok(()));
    assert_eq!(check(&user, "client list"), Err(Denied::Command));
    for call in ["auth x", "hello 3", "reset", "quit"] {
        assert_eq!(check(&user, call), Ok(()), "{call}");
    }
}

#[test]
fn commands_of_modules_are_known_by_their_dot() {
    assert_eq!(described("+json.get -ft.search"), "off resetchannels -@all +json.get -ft.search");
    assert_eq!(
        error("+nodot"),
        format!("Error in ACL SETUSER modifier '+nodot': {}", RuleError::UnknownCommand.text())
    );
    assert!(!rules("on allkeys allchannels +@all -json.get").allows_everything());
    assert!(rules("on allkeys allchannels +@all -json.get +json.get").allows_everything());
}

#[test]
fn everything_is_seen_to_be_everything() {
    assert!(Rules::open().allows_everything());
    for words in ["on +@all ~*", "on +@all &*", "on ~* &* +@all -get", "on ~* &*", "~a &* +@all"] {
        assert!(!rules(words).allows_everything(), "{words}");
    }
    assert!(rules("on (~* &* +@all)").allows_everything());
    assert!(rules("on ~* &* +@all -get +get").allows_everything());
}

#[test]
fn a_password_alone_is_that_of_default_or_of_the_first_in_the_list() {
    let mut users = Users::default();
    users.set(b"a", &[b"on", b">pa", b">both"]).unwrap();
    users.set(b"b", &[b"on", b">pb", b">both"]).unwrap();
    users.set(b"c", &[b"on", b">pc"]).unwrap();
    users.set(b"off", &[b"off", b">po"]).unwrap();
    users.set(b"open", &[b"on", b"nopass"]).unwrap();
    let who = |users: &Users, password: &[u8]| {
        let user = users.authenticate_alone(password);
        user.map(|user| {
            String::from_utf8(users.at(user as usize).unwrap().name().to_vec()).unwrap()
        })
    };
    assert_eq!(who(&users, b"pa"), None, "nobody is in the list");
    users.by_password = ["open", "gone", "off", "b", "a"].map(|name| name.as_bytes().into()).into();
    for (password, expected) in [
        ("pa", Some("a")),
        ("pb", Some("b")),
        ("both", Some("b")),
        ("pc", None),
        ("po", None),
        ("x", None),
    ] {
        assert_eq!(who(&users, password.as_bytes()).as_deref(), expected, "{password}");
    }
    // By name each is who it says; `default` without a password is anybody, but for those who have one.
    let at = |users: &Users, name: &[u8]| users.position(name).map(|at| at as u32);
    assert_eq!(users.authenticate(b"a", b"both"), at(&users, b"a"));
    assert_eq!(users.authenticate(b"a", b"pb"), None);
    assert_eq!(users.authenticate(DEFAULT, b"pa"), at(&users, b"a"));
    assert_eq!(users.authenticate(DEFAULT, b"x"), at(&users, DEFAULT));
    // One with a password is asked first.
    users.set(DEFAULT, &[b"resetpass", b">pd", b">pa"]).unwrap();
    assert_eq!(who(&users, b"pa").as_deref(), Some("default"));
    assert_eq!(who(&users, b"pb").as_deref(), Some("b"));
    assert_eq!(users.authenticate(DEFAULT, b"x"), None);
}

#[test]
fn passwords() {
    let mut users = Users::default();
    users.set(b"u", &[b"on", b">one", b">two"]).unwrap();
    users.set(b"closed", &[b"on"]).unwrap();
    users.set(b"off", &[b"nopass"]).unwrap();
    let at = |name: &[u8]| users.position(name).map(|at| at as u32);
    assert_eq!(users.authenticate(b"u", b"one"), at(b"u"));
    assert_eq!(users.authenticate(b"u", b"two"), at(b"u"));
    assert_eq!(users.authenticate(b"default", b"anything"), at(b"default"));
    for (name, password) in [
        (&b"u"[..], &b"three"[..]),
        (b"u", b""),
        (b"closed", b""),
        (b"off", b"x"),
        (b"nobody", b""),
    ] {
        assert_eq!(users.authenticate(name, password), None);
    }
    assert!(!format!("{users:?}").contains("2cf2") && format!("{:?}", Digest::of(b"one")) == "***");
    let hex = Digest::of(b"hello").hex();
    assert_eq!(Digest::parse(hex.as_bytes()), Some(Digest::of(b"hello")));
    assert_eq!(Digest::parse(hex.to_uppercase().as_bytes()), None);
}

#[test]
fn a_password_that_is_too_long_is_wrong_without_a_look_at_it() {
    let mut users = Users::default();
    let at = |users: &Users, name: &[u8]| users.position(name).map(|at| at as u32);
    let long = "x".repeat(crate::limits::PASSWORD_BYTES_MAX);
    let longer = format!("{long}x");
    for password in [&long, &longer] {
        users.set(b"u", &[b"on", format!(">{password}").as_bytes()]).unwrap();
    }
    assert_eq!(users.authenticate(b"u", long.as_bytes()), at(&users, b"u"));
    assert_eq!(users.authenticate(b"u", longer.as_bytes()), None);
    // Without a password it is one as good as others.
    assert_eq!(users.authenticate(b"default", longer.as_bytes()), at(&users, b"default"));
}

#[test]
fn who_stays_when_others_take_the_place() {
    let mut old = Users::default();
    for name in [&b"stays"[..], b"changes", b"goes", b"off"] {
        old.set(name, &[b"on", b"nopass", b"+get"]).unwrap();
    }
    let mut new = Users::default();
    new.set(b"stays", &[b"on", b"nopass", b"+get"]).unwrap();
    new.set(b"changes", &[b"on", b"nopass", b"+set"]).unwrap();
    new.set(b"off", &[b"off"]).unwrap();
    let new = new.instead_of(&old);
    let is_there = |name: &[u8]| new.follow(old.get(name).unwrap()).is_some();
    assert!(is_there(b"stays") && is_there(b"changes") && is_there(b"default"));
    assert!(!is_there(b"goes") && !is_there(b"off"));
    let revision = |users: &Users, name: &[u8]| users.get(name).unwrap().revision();
    assert_eq!(revision(&new, b"stays"), revision(&old, b"stays"));
    assert_ne!(revision(&new, b"changes"), revision(&old, b"changes"));
    // One that was removed and made again is another one.
    let mut again = new.clone();
    assert_eq!(again.remove(&["stays", "nobody", "default"]), 1);
    again.set(b"stays", &[b"on", b"nopass", b"+get"]).unwrap();
    assert!(again.follow(new.get(b"stays").unwrap()).is_none());
}

#[test]
fn a_file_is_read_whole_or_not_at_all() {
    let text = b"user default on nopass ~* &* +@all\n\n  user a on >pw ~x +get (~y +set)\r\nuser b off -@all\n";
    let users = file::users_of(file::parse(text, "f").unwrap());
    let names: Vec<&[u8]> = users.iter().map(User::name).collect();
    assert_eq!(names, [&b"a"[..], b"b", b"default"]);
    let again = file::users_of(file::parse(&file::write(&users), "f").unwrap());
    assert!(again == users);
    let wrong = b"user a on +nosuch #bad >pw1 ~x y\nnobody\nuser a\nuser b (+get";
    let error = file::parse(wrong, "f").unwrap_err();
    assert_eq!(
        error,
        "f:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. f:1: The password hash must be \
         exactly 64 characters and contain only lowercase hexadecimal characters. f:2 should start with user keyword followed by \
         the username. WARNING: Duplicate user 'a' found on line 3. f:4: Unmatched parenthesis in selector definition.WARNING: ACL \
         errors detected, no change to the previously active ACL rules was performed"
    );
}

/// Words that are rules, or nearly.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..COUNT)
            .prop_map(|at| CommandId::from_index(at).unwrap().name().to_string())
            .prop_flat_map(|name| prop_oneof![
                Just(format!("+{name}")),
                Just(format!("-{name}")),
                Just(format!("+{name}|x"))
            ]),
        "[+-]@(all|read|write|keyspace|dangerous|fast|slow|connection)",
        "(on|off|nopass|resetpass|reset|allkeys|resetkeys|allchannels|resetchannels|readonly|clearselectors)",
        "(~|%R~|%W~|%RW~|&)[a-c*]{0,3}",
        "[><][ab]",
        "\\((~a )?\\+(get|set)( %R~b)?\\)",
        "[-+@~%&()|a-z]{0,4}",
    ]
}

proptest! {
    /// What is shown of a user makes the same one.
    #[test]
    fn a_description_leads_back(words in proptest::collection::vec(word(), 0..12)) {
        let mut rules = Rules::default();
        for word in &words {
            let _ = rules.apply(word.as_bytes());
        }
        let text = rules.describe();
        let again: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        let (again, wrong) = file::rules_of(&again);
        prop_assert_eq!(wrong, Vec::<String>::new());
        prop_assert!(again.describe() == text && (again == rules));
    }

    /// Any bytes are rules or an error.
    #[test]
    fn no_bytes_panic(
        words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..6),
        text in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let _ = Users::default().set(b"u", &words);
        let _ = file::parse(&text, "f");
        let _ = file::parse(&[&b"user u "[..], &text].concat(), "f");
        let _ = rules("on").check(Called::Row(lookup(b"get").unwrap()), words.iter().copied(), false);
    }
}

#[test]
fn seeds_of_the_fuzz_target_pass() {
    use std::{env, fs, path::Path, println};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/acl");
    let mut replayed = 0;
    for entry in fs::read_dir(&folder).expect("the folder of seeds") {
        let path = entry.expect("an entry").path();
        // Named first, so that the captured output of a failure tells which seed it was.
        println!("{}", path.display());
        fuzzing::acl(&fs::read(&path).expect("a seed"));
        replayed += 1;
    }
    assert!(replayed > 0, "no seeds in {}", folder.display());
}

#[test]
fn more_users_than_the_bound_are_refused() {
    let mut users = Users::default();
    let rules = Rules::default();
    for number in 1..crate::limits::USERS_MAX {
        users.put(format!("{number:06}").as_bytes(), rules.clone());
    }
    assert!(users.set(b"one-more", &[]).is_err());
    users.set(b"000001", &[b"on"]).unwrap();
    assert_eq!(vec![users.iter().len()], [crate::limits::USERS_MAX]);
}

#[test]
fn more_selectors_or_patterns_than_the_bounds_are_refused() {
    let (selectors, patterns) = (crate::limits::ACL_SELECTORS_MAX, crate::limits::ACL_PATTERNS_MAX);
    let mut users = Users::default();
    let words: Vec<Vec<u8>> = (0..selectors).map(|n| format!("(~{n})").into_bytes()).collect();
    let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    users.set(b"u", &words).unwrap();
    let refused = users.set(b"u", &[b"(~one-more)"]).unwrap_err();
    assert!(refused.ends_with(format!("at most {selectors} selectors").as_bytes()));
    users.set(b"u", &[b"clearselectors", b"(~one-more)"]).unwrap();
    let words: Vec<Vec<u8>> = (0..patterns).map(|n| format!("~{n}").into_bytes()).collect();
    let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    users.set(b"u", &words).unwrap();
    for word in [&b"~one-more"[..], b"%R~one-more", b"&one-more"] {
        let refused = users.set(b"u", &[word]).unwrap_err();
        assert!(refused.ends_with(format!("at most {patterns} patterns").as_bytes()));
    }
    users.set(b"u", &[b"resetkeys", b"~one-more"]).unwrap();
}
