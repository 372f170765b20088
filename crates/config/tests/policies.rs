//! Policies as people write them, in each source, what they read where one is wrong, and what a reload keeps.

use std::io;

use config::{FileText, Loaded, Problems, Sources, load};

fn all(file: &str, environment: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let environment: Vec<(String, String)> =
        environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let text = format!("upstream = \"redis://10.0.0.9\"\n{file}");
    load(&Sources {
        file: Some(FileText { name: "r.toml", text: &text }),
        memory_bytes: None,
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
        "rule 2 has no requests=, no bytes= and no connections=",
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

/// A configuration of values, with keys that are told by what stands at their places.
fn of_values(file: &str) -> Result<Loaded, String> {
    let text = format!("upstream = \"redis://10.0.0.9\"\n[policies.values]\n{file}");
    let read_secret = &|place: config::Place<'_>| match place {
        config::Place::File(path) if path.ends_with("short") => Ok(b"5a5a".to_vec()),
        config::Place::File(path) if path.ends_with("nothing") => Ok(Vec::new()),
        config::Place::File(_) => Ok(format!("{}\n", "5a".repeat(32)).into_bytes()),
        config::Place::Variable("KEY") => Ok("6B".repeat(32).into_bytes()),
        config::Place::Command(_) => Ok(format!("{}\r\n", "7c".repeat(32)).into_bytes()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let file = Some(FileText { name: "r.toml", text: &text });
    let loaded = load(&Sources {
        file,
        environment: &[],
        arguments: &[],
        changes: &[],
        read_secret,
        memory_bytes: None,
    });
    loaded.map_err(|problems| problems.to_string())
}

#[test]
fn keys_are_read_from_where_they_are_and_shown_nowhere() {
    let keys = "keys = [\"a key_file=/k\", \"b key_env=KEY\", \"c 'key_command=get it'\"]\n";
    let loaded = of_values(&format!("encrypt = [\"s:*\"]\n{keys}")).expect("a configuration");
    let shown = format!("{:?} {:?}", loaded.config, loaded.values());
    assert!(shown.contains("b key_env=KEY") && shown.contains("key_command=get it"), "{shown}");
    for key in ["5a5a", "6B6B", "6b6b", "7c7c", "90, 90", "107, 107"] {
        assert!(!shown.contains(key), "{key}");
    }
    // Another content of a file is another configuration, which nobody is told.
    let other = of_values(&format!(
        "encrypt = [\"s:*\"]\n{}",
        keys.replace("b key_env=KEY", "b key_file=/k")
    ));
    let changes = loaded.changes_to(&other.expect("a configuration"));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].option.name, "policies.values.keys");
    let told = format!("{changes:?}");
    assert!(told.contains("b key_file=/k") && !told.contains("5a5a"), "{told}");
    assert!(
        !changes[0].option.may_clients_set(config::ClientChanges::All)
            && changes[0].option.is_live()
    );
}

#[test]
fn what_values_need_is_said() {
    let both = "encrypt = [\"s:*\"]\nkeys = [\"a key_file=/k\"]\n";
    for (file, words) in [
        ("encrypt = [\"s:*\"]", "no key is named"),
        ("keys = [\"a key_file=/k\"]", "set without `policies.values.encrypt` and"),
        ("types = [\"hash\"]", "set without `policies.values.encrypt` and"),
        ("encrypted_only = true", "set without `policies.values.encrypt`"),
        ("compress_from_bytes = 99", "set without `policies.values.compress`"),
        ("compress_algorithm = \"zstd\"", "set without `policies.values.compress`"),
        (
            "compress = [\"a\"]\ncompress_level = 5",
            "set without `policies.values.compress_algorithm = \"zstd\"`",
        ),
        ("compress = [\"a\"]\ncompress_algorithm = \"zsdt\"", "allowed: lz4, zstd"),
        (
            "compress = [\"a\"]\ncompress_algorithm = \"zstd\"\ncompress_level = 10",
            "allowed: a whole number from 1 to 9",
        ),
        (&format!("{both}types = []"), "found no type; allowed: one of string, hash or both"),
        (&format!("{both}types = [\"list\"]"), "allowed: any of string, hash"),
        (&format!("{both}[cache]\nenabled = true"), "turn the cache off"),
        (
            "encrypt = [\"s:*\"]\nkeys = [\"a key_file=/short\"]",
            "key 1: /short is not 64 hexadecimal digits",
        ),
        (
            "encrypt = [\"s:*\"]\nkeys = [\"a key_file=/nothing\"]",
            "key 1: /nothing is not 64 hexadecimal digits",
        ),
        (
            "encrypt = [\"s:*\"]\nkeys = [\"a key_env=NONE\"]",
            "key 1: cannot read the variable NONE",
        ),
        (
            "encrypt = [\"s:*\"]\nkeys = [\"a key_file=/k\", \"a key_env=KEY\"]",
            "key 2 has the name of one before it",
        ),
        (
            "encrypt = [\"s:*\"]\nkeys = [\"a 5a5a5a5a\"]",
            "key 1 does not say where the key is; allowed: a name of 1 to 32",
        ),
    ] {
        let message = of_values(file).err().unwrap_or_else(|| panic!("{file}"));
        assert!(message.contains(words), "{file}: {words}\n{message}");
        assert!(message.contains("r.toml:"), "{message}");
    }
    assert!(of_values(both).is_ok());
    let many: Vec<String> = (0..17).map(|n| format!("\"k{n} key_file=/k\"")).collect();
    let message = of_values(&format!("encrypt = [\"s:*\"]\nkeys = [{}]", many.join(","))).err();
    assert!(message.is_some_and(|text| text.contains("found 17 keys; allowed: up to 16")));
}
