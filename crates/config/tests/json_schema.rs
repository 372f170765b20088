//! The schema for editors says what `respool check` says, as far as a schema can: it never complains about a file that is right.

use std::io;

use config::{FileText, documents, load_file};
use jsonschema::Validator;
use serde_json::Value;

fn schema() -> Validator {
    let schema: Value = serde_json::from_str(&documents::schema()).expect("JSON");
    jsonschema::draft7::new(&schema).expect("a schema")
}

/// Whether the schema takes a file, and what it says otherwise.
fn editor(text: &str) -> Result<(), String> {
    let file: Value = toml::from_str(text).expect("TOML");
    let errors: Vec<String> = schema().iter_errors(&file).map(|error| error.to_string()).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// Whether `respool check` does.
fn check(text: &str) -> bool {
    let no_files = |_: config::Place<'_>| Err(io::Error::from(io::ErrorKind::NotFound));
    load_file(FileText { name: "r.toml", text }, &no_files).is_ok()
}

#[test]
fn the_example_is_right_with_all_its_values() {
    let is_value = |line: &str| {
        line.starts_with("#[")
            || line.split_once(" = ").is_some_and(|(key, _)| {
                key.strip_prefix('#')
                    .is_some_and(|key| key.bytes().all(|b| b == b'_' || b.is_ascii_lowercase()))
            })
    };
    let example = documents::example();
    let all: Vec<&str> =
        example.lines().map(|line| if is_value(line) { &line[1..] } else { line }).collect();
    let all = all.join("\n");
    let count = toml::from_str::<toml::Table>(&all).expect("TOML").len();
    assert!(count > 15, "{count} keys and tables at the top");
    // A string that is not empty is asked for where the example shows an empty one, as there is no good one.
    let all = all.replace("zone = \"\"", "zone = \"a\"");
    assert_eq!(editor(&all), Ok(()));
}

#[test]
fn what_is_right_is_taken() {
    for text in [
        "upstream = 'redis://127.0.0.1:6379'",
        "upstream = 'redis+unix:///run/redis.sock'\nlisten = '127.0.0.1:6380'\nunix_mode = '0770'",
        "upstream = 'redis-cluster://a,b:7000'\nlisten = ['127.0.0.1:6380', 'unix:/tmp/r']\ncpus = [0, '2-3']",
        "upstream = 'redis-sentinel://s1,s2/main'\ncpus = '0-1'\nworkers = 2",
        "upstream = 'redis://h'\n[limits]\nbulk_bytes_max = 1048576\nclient_out_max_bytes = '64 mib'",
        "upstream = 'redis://h'\naddress_map = { 'a:1' = 'b:2' }\n[reads]\npolicy = 'zone'\nzone = 'a'\nweights = { 'h' = 3 }\nzones = { 'h' = 'a' }",
        "[sharding]\nshards = ['h:1:1 a', 'h:2:1 b']\nhash_tag = ''\n[sharding.eject]",
        "upstream = 'redis://h'\nlisten = '127.0.0.1:1 tenant=a'\n[tenants.a]\nupstream = 'redis://g'\nclient_names = 'a-*'\nclients_max = 3\n\
         [tenants.a.limits]\nleases_max = 2\n[tenants.b.sharding]\nshards = ['redis://x', 'redis://y']\ncompat = 'overlord'",
        "[sharding]\nshards = ['redis://h name=a', 'redis://g name=b']\ncompat = 'camellia'\nbuckets = ['0-2', '1-3']\nhash_tag = '{}'",
        "[sharding]\nshards = ['redis://h name=a', 'redis://g name=b']\ncatch_all = 'a'\nignore_case = true\n[sharding.routes]\n'u:' = 'a b'",
    ] {
        assert!(check(text), "`respool check` refuses\n{text}");
        assert_eq!(editor(text), Ok(()), "{text}");
    }
}

#[test]
fn what_is_wrong_is_seen() {
    for wrong in [
        "workerz = 2",
        "workers = '2'",
        "workers = 0",
        "workers = 2.5",
        "protected_mode = 'yes'",
        "password = ''",
        "unix_mode = 770",
        "unix_mode = '0999'",
        "cpus = [1024]",
        "cpus = ['a']",
        "listen = []",
        "client_name_upstream = 'a b'",
        "address_map = { 'a' = 1 }",
        "timeouts = 5",
        "[timeouts]\nconnect_ms = -1",
        "[timeouts]\nconnect_s = 1",
        "[limits]\nbulk_bytes_max = '1MB'",
        "[reads]\npolicy = 'primaries'",
        "[reads]\nweights = { 'h' = 101 }",
        "[sharding]\nhash_tag = '{'",
        "[sharding.routes]\n'u:' = ['a']",
        "[sharding.eject]\nfailures = 0",
        "[log]\nlevel = 'loud'",
        "[tenants.a]\nupstream = 'redis://g'\nworkers = 2",
        "[tenants.a]\nupstream = 'redis://g'\nclients_max = 0",
        "[tenants.a]\nupstream = 'redis://g'\n[tenants.a.log]\nlevel = 'info'",
        "[tenants]\na = 5",
    ] {
        let text = match wrong.split_once('[') {
            Some(("", _)) => format!("upstream = 'redis://h'\n{wrong}"),
            _ => format!("{wrong}\nupstream = 'redis://h'"),
        };
        assert!(!check(&text), "`respool check` takes\n{text}");
        assert!(editor(&text).is_err(), "the schema takes\n{text}");
    }
    assert!(editor("upstream = '127.0.0.1:6379'").is_err());
}
