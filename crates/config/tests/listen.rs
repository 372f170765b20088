//! Entries of `listen` as people write them, in each source, and what they read where one is wrong.

use std::io;
use std::path::Path;

use config::{Config, FileText, ListenAddress, Loaded, Problems, Sources, load};

fn all(file: &str, environment: &[(&str, &str)], flags: &[&str]) -> Result<Loaded, Problems> {
    let environment: Vec<(String, String)> =
        environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let words: Vec<String> = flags.iter().map(|word| (*word).to_owned()).collect();
    let arguments = if words.is_empty() { Vec::new() } else { vec![("listen", words)] };
    let text = format!("upstream = \"redis://10.0.0.9\"\n{file}");
    load(&Sources {
        file: Some(FileText { name: "r.toml", text: &text }),
        memory_bytes: None,
        environment: &environment,
        arguments: &arguments,
        changes: &[],
        read_secret: &|_: config::Place<'_>| Err(io::Error::from(io::ErrorKind::NotFound)),
    })
}

fn right(file: &str, environment: &[(&str, &str)], flags: &[&str]) -> Config {
    all(file, environment, flags).unwrap_or_else(|problems| panic!("{file}\n{problems}")).config
}

fn wrong(file: &str) -> String {
    match all(file, &[], &[]) {
        Ok(_) => panic!("{file}"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn entries_are_the_same_in_every_source() {
    let file = "listen = [\"127.0.0.1:1 name=a\", \"unix:/run/r.sock mode=0770\", \"[::1]:3\"]";
    let variable = "127.0.0.1:1 name=a, unix:/run/r.sock mode=0770,[::1]:3";
    let words = ["127.0.0.1:1 name=a", "unix:/run/r.sock mode=0770", "[::1]:3"];
    let from_file = right(file, &[], &[]).listen;
    assert_eq!(from_file, right("", &[("RESPOOL_LISTEN", variable)], &[]).listen);
    assert_eq!(from_file, right("", &[], &words).listen);
    let labels: Vec<String> = from_file.iter().map(config::Listen::label).collect();
    assert_eq!(labels, ["a", "unix:/run/r.sock", "[::1]:3"]);
    assert_eq!(from_file[1].mode, Some(0o770));
    assert_eq!(right("listen = \"127.0.0.1:1 name=a\"", &[], &[]).listen, from_file[..1]);
    // What is shown can be given again.
    let loaded = all(file, &[], &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let values = loaded.values();
    let shown = values.iter().find(|value| value.option.name == "listen").unwrap();
    assert_eq!(shown.words, words.join(","));
    assert_eq!(right("", &[("RESPOOL_LISTEN", &shown.words)], &[]).listen, from_file);
    let ListenAddress::Unix(path) = &from_file[1].address else { panic!("no path") };
    assert_eq!(path, Path::new("/run/r.sock"));
}

#[test]
fn all_that_is_wrong_is_said_where_it_stands() {
    let message = wrong("listen = [\n  \"127.0.0.1:1 nam=a\",\n  \"127.0.0.1:2 mode=0700\",\n]");
    assert!(message.contains("r.toml:3") && message.contains("did you mean `name`?"), "{message}");
    assert!(message.contains("r.toml:4") && message.contains("is for unix sockets"), "{message}");
    let message = wrong("listen = [\"127.0.0.1:1 name=a\", \"127.0.0.1:1 name=b\"]");
    assert!(message.contains("stands here twice"), "{message}");
    let message = wrong("listen = [\"127.0.0.1:1 name=a\", \"127.0.0.1:2 name=a\"]");
    let both = "`127.0.0.1:1` and `127.0.0.1:2` are both called `a`";
    assert!(message.contains(both), "{message}");
}

#[test]
fn networks_are_lists_in_every_source() {
    let file = "allow_clients = [\"10.0.0.0/8\", \"unix\"]\ndeny_clients = \"10.1.2.3\"";
    let rules = right(file, &[], &[]).client_rules;
    let variables =
        [("RESPOOL_ALLOW_CLIENTS", "10.0.0.0/8,unix"), ("RESPOOL_DENY_CLIENTS", "10.1.2.3")];
    assert_eq!(rules, right("", &variables, &[]).client_rules);
    assert!(rules.admit(Some([10, 0, 0, 1].into())) && !rules.admit(Some([10, 1, 2, 3].into())));
    let message = wrong("proxy_protocol_from = [\n\"10.0.0.1/8\",\n\"lan\",\n7]");
    assert!(message.contains("found `10.0.0.1/8`, which has bits behind its prefix"), "{message}");
    assert!(message.contains("r.toml:4") && message.contains("found `lan`; allowed"), "{message}");
    assert!(message.contains("r.toml:5"), "{message}");
    let entry =
        &right("listen = \"127.0.0.1:1 allow=10.0.0.0/8|unix deny=10.1.2.3\"", &[], &[]).listen[0];
    assert_eq!(entry.rules, rules);
}

#[test]
fn rules_about_addresses_look_through_the_words_behind_them() {
    assert!(wrong("listen = \"0.0.0.0:6390 name=a\"").contains("`0.0.0.0:6390` can be reached"));
    let message = wrong("listen = \"10.0.0.9:6379 name=a\"\nprotected_mode = false");
    assert!(message.contains("where the proxy itself listens"), "{message}");
    let message = wrong("listen = \"127.0.0.1:1 name=a\"\n[admin]\nlisten = \"127.0.0.1:1\"");
    assert!(message.contains("is an address for clients as well"), "{message}");
    assert!(wrong("[admin]\nlisten = \"127.0.0.1:1 name=a\"").contains("allowed: address:port"));
}
