//! Policies as people write them, in each source, what they read where one is wrong, and what a reload keeps.

use std::io;

use config::{FileText, Loaded, Problems, Sources, load};

fn all(file: &str, environment: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let environment: Vec<(String, String)> =
        environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let text = format!("upstream = \"redis://10.0.0.9\"\n{file}");
    load(&Sources {
        file: Some(FileText { name: "r.toml", text: &text }),
        environment: &environment,
        arguments: &[],
        changes: &[],
        read_secret: &|_: config::Place<'_>| Err(io::Error::from(io::ErrorKind::NotFound)),
    })
}

fn right(file: &str, environment: &[(&str, &str)]) -> Loaded {
    all(file, environment).unwrap_or_else(|problems| panic!("{file}\n{problems}"))
}

#[test]
fn rules_are_the_same_in_every_source() {
    let file = "[policies]\nblock = [\"get key=a,b name=x\", 'set \"error=NO no\"']\n[policies.rename]\nCONFIG = \"c-1\"\nkeys = \"\"\n";
    let variables = [
        ("RESPOOL_POLICIES_BLOCK", "get key=a,b name=x; set \"error=NO no\""),
        ("RESPOOL_POLICIES_RENAME", "CONFIG=c-1,keys="),
    ];
    let (loaded, from_variables) = (right(file, &[]), right("", &variables));
    assert_eq!(loaded.config.policies, from_variables.config.policies);
    assert_eq!(loaded.config.intercepts, from_variables.config.intercepts);
    assert!(loaded.config.intercepts.is_some());
    // What is shown can be given again.
    for value in loaded.values().iter().filter(|value| value.option.name.starts_with("policies.")) {
        let variable = (&*value.option.environment(), &*value.words);
        let again = right("", &[variable]);
        let shown = again.values().into_iter().find(|other| other.option.name == value.option.name);
        assert_eq!(shown.map(|other| other.words), Some(value.words.clone()));
    }
    assert_eq!(right("[policies]\nwaiting_max = 5", &[]).config.intercepts, None);
}

#[test]
fn all_that_is_wrong_is_said_where_it_stands() {
    let file = "[policies]\ndeny = [\"get\", \"gett\"]\nrate = [\n  \"requests=0\",\n  \"per=user\",\n]\nread_only = 1\n[policies.rename]\nconfig = \"get\"\n";
    let message = all(file, &[]).err().map(|problems| problems.to_string()).expect("problems");
    for words in [
        "r.toml:3",
        "rule 2 names `gett`, which is no command and no category (did you mean `get`?)",
        "r.toml:5",
        "rule 1 has `requests`, which is no whole number from 1",
        "r.toml:6",
        "rule 2 has no requests= and no bytes=",
        "r.toml:8",
        "allowed: true or false",
        "has a new name that another command has",
    ] {
        assert!(message.contains(words), "{words}\n{message}");
    }
    let many: Vec<String> = (0..65).map(|_| "\"get\"".to_owned()).collect();
    let file = format!("[policies]\ndeny = [{}]", many.join(","));
    let message = all(&file, &[]).err().map(|problems| problems.to_string()).expect("problems");
    assert!(message.contains("found 65 rules; allowed: up to 64"), "{message}");
}

#[test]
fn what_stays_as_it_is_keeps_its_buckets() {
    let file = "[policies]\nrate = [\"requests=5\"]\n";
    let old = right(file, &[]);
    let mut same = right(file, &[("RESPOOL_TIMEOUTS_REQUEST_MS", "5")]);
    same.keep_buckets(&old);
    let intercepts = |loaded: &Loaded| loaded.config.intercepts.clone().expect("policies");
    assert!(std::sync::Arc::ptr_eq(&intercepts(&same), &intercepts(&old)));
    let mut more = right(file, &[("RESPOOL_POLICIES_DENY", "keys")]);
    let wanted = intercepts(&more);
    more.keep_buckets(&old);
    assert_eq!(intercepts(&more), wanted);
    let mut none = right("", &[]);
    none.keep_buckets(&old);
    assert_eq!(none.config.intercepts, None);
}
