//! Routes by prefix as people write them: what becomes of each form, and what they read where it is wrong.

use std::io;

use config::options::OptionSpec;
use config::{Config, FileText, Problems, Sources, Upstream, load, load_file, rewrite};
use engine::route::shard::{Route, Routes};

const SHARDS: &str = r#"[sharding]
shards = [
  "redis://10.0.0.1 name=users-a",
  "redis://10.0.0.2 name=users-b",
  "redis-cluster://10.0.1.1,10.0.1.2 name=orders",
  "redis://10.0.0.9 name=rest",
]
"#;

fn file(text: &str) -> Result<Config, Problems> {
    let no_files = |_: config::Place<'_>| Err(io::Error::from(io::ErrorKind::NotFound));
    load_file(FileText { name: "r.toml", text }, &no_files)
}

fn routes(config: &Config) -> Option<&Routes> {
    match &config.upstream {
        Upstream::Shards(sharding) => sharding.rules.routes.as_ref(),
        Upstream::One(url) => panic!("not sharded: {url}"),
    }
}

/// The routes of a right file, as prefixes and indices.
fn right(more: &str) -> Vec<(String, Vec<u16>)> {
    let config = file(&format!("{SHARDS}{more}")).unwrap_or_else(|problems| panic!("{problems}"));
    let list = routes(&config).map(|routes| routes.list.clone()).unwrap_or_default();
    let shown = |route: Route| (String::from_utf8(route.prefix).unwrap(), route.shards);
    list.into_iter().map(shown).collect()
}

fn wrong(more: &str) -> String {
    file(&format!("{SHARDS}{more}")).expect_err(more).to_string()
}

fn route(prefix: &str, shards: &[u16]) -> (String, Vec<u16>) {
    (prefix.to_owned(), shards.to_vec())
}

#[test]
fn routes_name_shards_and_the_rest_has_its_own() {
    let text = "catch_all = \"rest\"\n[sharding.routes]\n\"user:\" = \"users-a  users-b\"\n\" o=,\" = \"orders\"\n";
    let found = right(text);
    // In the order of the file's keys, which nothing depends on.
    for wanted in [route("user:", &[0, 1]), route(" o=,", &[2]), route("", &[3])] {
        assert!(found.contains(&wanted), "{wanted:?}: {found:?}");
    }
    assert_eq!(found.len(), 3);
    assert_eq!(right(""), []);
    let config = file(&format!(
        "{SHARDS}ignore_case = true\ncatch_all = \"users-a users-b orders\"\nroutes = {{ \"X\" = \"rest\" }}"
    ));
    assert!(routes(&config.unwrap()).unwrap().ignore_case);
}

#[test]
fn flags_and_variables_say_the_same() {
    let text = FileText { name: "r.toml", text: SHARDS };
    let environment = [
        ("RESPOOL_SHARDING_ROUTES".to_owned(), "a,b:=users-a users-b; =x=orders".to_owned()),
        ("RESPOOL_SHARDING_CATCH_ALL".to_owned(), "rest".to_owned()),
    ];
    let load = |environment: &[(String, String)], arguments: &[(&'static str, Vec<String>)]| {
        let read_secret = &|_: config::Place<'_>| Err(io::ErrorKind::NotFound.into());
        let sources = Sources {
            file: Some(text),
            environment,
            arguments,
            changes: &[],
            read_secret,
            memory_bytes: None,
        };
        load(&sources).map(|loaded| loaded.config)
    };
    let config = load(&environment, &[]).unwrap();
    let prefixes: Vec<&[u8]> =
        routes(&config).unwrap().list.iter().map(|route| &*route.prefix).collect();
    assert_eq!(prefixes, [&b"a,b:"[..], b"=x", b""]);
    let flags = [(
        "sharding.routes",
        vec!["u:=users-a users-b orders rest".to_owned(), "v:=rest".to_owned()],
    )];
    let config = load(&[], &flags).unwrap();
    assert_eq!(routes(&config).unwrap().list[0].shards, [0, 1, 2, 3]);
    let error =
        load(&[], &[("sharding.routes", vec!["u:=rest".to_owned(), "u:=orders".to_owned()])]);
    assert!(error.unwrap_err().to_string().contains("stands here twice"));
}

/// What a running proxy writes back is what was given.
#[test]
fn a_change_is_written_to_the_file_as_it_was_given() {
    let words = ["a=b =users-a users-b".to_owned(), "c:=orders rest".to_owned()];
    let text = rewrite(SHARDS, &[("sharding.routes", words.to_vec())]).unwrap();
    let config = file(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    let found = &routes(&config).unwrap().list;
    let prefix = |prefix: &[u8]| found.iter().find(|route| route.prefix == prefix);
    assert_eq!(prefix(b"a=b ").unwrap().shards, [0, 1], "{text}");
    assert_eq!(prefix(b"c:").unwrap().shards, [2, 3], "{text}");
    let option = OptionSpec::find("sharding.routes").unwrap();
    assert!(option.is_live() && option.is_list() && option.is_rare);
}

#[test]
fn every_mistake_is_told_at_once_and_where_it_stands() {
    let allowed = "allowed: \"prefix\" = \"shard shard ...\", the names of the shards that share the keys that begin so, \
                   separated by blanks, as in \"user:\" = \"users-a users-b\"; the shards of all other keys are `sharding.catch_all`";
    let long = "x".repeat(257);
    assert_eq!(
        wrong(&format!("[sharding.routes]\n\"\" = \"rest\"\n\"a\" = \"\"\n\"b\" = 3\n\"c\" = \"x=y\"\n\"{long}\" = \"rest\"")),
        format!(
            "\
r.toml:9:1: sharding.routes: found the entry \"\", which has no prefix; {allowed}
r.toml:10:1: sharding.routes: found the entry \"a\", which names no shard; {allowed}
r.toml:11:7: sharding.routes: found an integer; {allowed}
r.toml:12:1: sharding.routes: found the entry \"c\", which has a `=` among the names of shards; {allowed}
r.toml:13:1: sharding.routes: found the entry \"{}...\", which has a prefix of more than 256 bytes; {allowed}",
            &long[..60]
        )
    );
    let names = "users-a, users-b, orders, rest";
    assert_eq!(
        wrong(
            "catch_all = \"nobody\"\nignore_case = true\n[sharding.routes]\n\"a\" = \"user-a users-b users-b\"\n\"A\" = \"orders\""
        ),
        format!(
            "\
r.toml:8:13: sharding.catch_all: the route of all other keys names \"nobody\", which no shard is called; allowed: {names}
r.toml:10:1: sharding.routes: \"A\" and \"a\" are the same prefix with `sharding.ignore_case`; leave one of them out
r.toml:10:1: sharding.routes: the route of \"a\" names \"user-a\", which no shard is called; allowed: {names}
r.toml:10:1: sharding.routes: the route of \"a\" names \"users-b\" twice; once is enough
r.toml:10:1: sharding.routes: no route leads to shard 1 (users-a); name it in one of them or in `sharding.catch_all`, or leave it out
r.toml:10:1: sharding.routes: no route leads to shard 4 (rest); name it in one of them or in `sharding.catch_all`, or leave it out"
        )
    );
    assert!(
        wrong("[sharding.routes]\n\"a\" = \"rest\"\n\"a\" = \"orders\"")
            .contains("not valid TOML: duplicate key")
    );
}

#[test]
fn what_does_not_go_with_routes_is_told() {
    let all = "users-a users-b orders rest";
    let buckets = format!(
        "distribution = \"buckets\"\nbuckets = [\"0\", \"1\", \"2\", \"3\"]\n[sharding.routes]\n\"a\" = \"{all}\""
    );
    assert!(wrong(&buckets).contains(
        "routes cannot stand beside a bucket map, which has a shard for every key; allowed with routes: ketama, modula and random"
    ));
    let alone = wrong(&format!("catch_all = \"{all}\""));
    assert_eq!(
        alone,
        "r.toml:8:13: sharding.catch_all: set without `sharding.routes`, beside which it says where all other keys go; give the routes, or leave this out"
    );
    let error = file("upstream = \"redis://h\"\n[sharding.routes]\n\"a\" = \"b\"\n").unwrap_err();
    assert!(
        error.to_string().contains("set without `sharding.shards`, which it is about"),
        "{error}"
    );
    // Names are what routes go by, so each shard has one of its own, whatever the distribution.
    let shards = "[sharding]\ndistribution = \"random\"\nshards = [\"redis://a name=x\", \"redis://b name=x\"]\n";
    let error = file(&format!("{shards}[sharding.routes]\n\"a\" = \"x\"")).unwrap_err().to_string();
    assert!(
        error.contains("names \"x\", which several shards are called; give each its own name=TEXT"),
        "{error}"
    );
    let shards = "[sharding]\ndistribution = \"random\"\nshards = [\"redis-cluster://a\", \"redis://b name=x\"]\n";
    let error = file(&format!("{shards}[sharding.routes]\n\"a\" = \"x\"")).unwrap_err().to_string();
    assert!(error.contains("shard 1 has no name"), "{error}");
}

#[test]
fn a_prefix_is_removed_where_its_shards_have_no_other() {
    let text = "catch_all = \"rest\"\nremove_prefix = [\"order:\", \"user:\"]\n[sharding.routes]\n\"user:\" = \"users-a users-b\"\n\"order:\" = \"orders\"\n";
    let config = file(&format!("{SHARDS}{text}")).unwrap_or_else(|problems| panic!("{problems}"));
    let list = &routes(&config).unwrap().list;
    let removed: Vec<bool> = list.iter().map(|route| route.removes).collect();
    assert_eq!(removed.len(), 3);
    assert!(list.iter().all(|route| route.removes != route.prefix.is_empty()));
    assert_eq!(
        wrong("remove_prefix = [\"order:\"]"),
        "r.toml:8:17: sharding.remove_prefix: set without `sharding.routes`, whose prefixes it names; give the routes, or leave this out"
    );
    let of = |removed: &str, more: &str| {
        wrong(&format!(
            "remove_prefix = {removed}\ncatch_all = \"rest users-b\"\n{more}[sharding.routes]\n\"user:\" = \"users-a users-b\"\n\"order:\" = \"orders\""
        ))
    };
    assert_eq!(
        of("[\"user\", \"order:\", \"order:\"]", ""),
        "\
r.toml:8:17: sharding.remove_prefix: names \"user\", which is no prefix of `sharding.routes`; write it as it stands there
r.toml:8:17: sharding.remove_prefix: names \"order:\" twice; once is enough"
    );
    assert_eq!(
        of("[\"user:\"]", ""),
        "r.toml:8:17: sharding.remove_prefix: the prefix \"user:\" is removed, so each shard of its route must stand in this one only"
    );
    assert_eq!(
        of("[\"order:\"]", "ignore_case = true\n"),
        "r.toml:8:17: sharding.remove_prefix: a prefix cannot be removed where the case of its letters is ignored; leave \
         `sharding.ignore_case` out, or `sharding.remove_prefix`"
    );
    assert!(
        wrong("remove_prefix = [\"\"]")
            .contains("prefixes of `sharding.routes`, such as \"order:\"")
    );
    let option = OptionSpec::find("sharding.remove_prefix").unwrap();
    assert!(option.is_live() && option.is_list() && option.is_rare);
}
