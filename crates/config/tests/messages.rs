//! What a person reads when a configuration is wrong, word for word, and that no message repeats a password.

use std::io;

use config::{Config, FileText, Problems, Sources, Upstream, load, load_file};

/// Password files are not there in these tests unless a test brings its own reader.
fn no_files(_: config::Place<'_>) -> io::Result<Vec<u8>> {
    Err(io::Error::from(io::ErrorKind::NotFound))
}

fn file(text: &str) -> Result<Config, Problems> {
    load_file(FileText { name: "r.toml", text }, &no_files)
}

/// The messages of a wrong file.
fn wrong(text: &str) -> String {
    file(text).expect_err("the file is wrong").to_string()
}

/// Loads from environment and command line, with an upstream given.
fn layers(
    text: &str,
    environment: &[(&str, &str)],
    arguments: &[(&'static str, &[&str])],
) -> Result<Config, Problems> {
    let environment: Vec<_> =
        environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let arguments: Vec<_> = arguments
        .iter()
        .map(|(name, values)| (*name, values.iter().map(|v| (*v).to_owned()).collect()))
        .collect();
    load(&Sources {
        file: Some(FileText { name: "r.toml", text }),
        memory_bytes: None,
        environment: &environment,
        arguments: &arguments,
        changes: &[],
        read_secret: &no_files,
    })
    .map(|loaded| loaded.config)
}

#[test]
fn all_mistakes_come_at_once_in_the_order_of_the_file() {
    let text = r#"
upstream = "http://cache"
workers = 0
max_client = 5
listen = ["6380", "127.0.0.1:6380"]
connect_ms = 5

[timeouts]
request_ms = "10s"
connect-ms = 3

[limits]
client_out_high_bytes = "2MB"

[log]
level = "loud"
"#;
    assert_eq!(
        wrong(text),
        "\
r.toml:2:12: upstream: unknown scheme; allowed: redis://[user:password@]host[:port][/db], redis+unix://[user:password@]/path[?db=n], redis-cluster://[user:password@]host[:port][,host[:port]…] or redis-sentinel://[user:password@]host[:port][,host[:port]…]/name[?db=n&sentinel_user=…&sentinel_password=…&sentinel_tls=…]; with TLS rediss://, rediss-cluster:// and rediss-sentinel://
r.toml:3:11: workers: found 0; allowed: a whole number from 1 to 256
r.toml:4:1: max_client: unknown key; did you mean `max_clients`?
r.toml:5:11: listen: found `6380` (for this machine only write 127.0.0.1:PORT, for every interface 0.0.0.0:PORT or [::]:PORT); allowed: address:port such as 127.0.0.1:6380, [::1]:6380 or 0.0.0.0:6380, or unix:/path
r.toml:6:1: connect_ms: unknown key; `connect_ms` belongs into [timeouts]
r.toml:9:14: timeouts.request_ms: found the string \"10s\" (write 10000); allowed: a whole number of milliseconds from 0 to 86400000
r.toml:10:1: timeouts.connect-ms: unknown key; did you mean `connect_ms`?
r.toml:13:25: limits.client_out_high_bytes: found the string \"2MB\" (write 2MiB); allowed: a size from 4KiB to 1GiB, as a number of bytes or with KiB, MiB, GiB (\"64MiB\")
r.toml:16:9: log.level: found the string \"loud\"; allowed: error, warn, info, debug, trace"
    );
}

#[test]
fn types_are_named() {
    let text = r#"
upstream = 6379
workers = "4"
max_clients = 99999999999999999999
password = ["a"]
protected_mode = 1
cpus = ["0-2", 2, "x"]
limits = 5
[log.file]
"#;
    assert_eq!(
        wrong(text),
        "\
r.toml:2:12: upstream: found a number; allowed: redis://[user:password@]host[:port][/db], redis+unix://[user:password@]/path[?db=n], redis-cluster://[user:password@]host[:port][,host[:port]…] or redis-sentinel://[user:password@]host[:port][,host[:port]…]/name[?db=n&sentinel_user=…&sentinel_password=…&sentinel_tls=…]; with TLS rediss://, rediss-cluster:// and rediss-sentinel://
r.toml:3:11: workers: found the string \"4\"; allowed: a whole number from 1 to 256
r.toml:4:15: max_clients: found a number that is too large; allowed: a whole number from 1 to 1000000
r.toml:5:12: password: found a list; allowed: a string that is not empty
r.toml:6:18: protected_mode: found 1; allowed: true or false
r.toml:7:16: cpus: CPU 2 stands here twice; name each CPU once
r.toml:7:19: cpus: found the string \"x\"; allowed: numbers of CPUs from 0 to 1023, or ranges such as \"0-3\"
r.toml:8:10: limits: found a number; allowed: a table, written [limits]
r.toml:9:1: log.file: found a table; allowed: the path of a file"
    );
}

#[test]
fn syntax_errors_show_the_line_with_a_caret() {
    assert_eq!(
        wrong("upstream = \"redis://h\"\nworkers = = 4\n"),
        "\
r.toml:2:11: not valid TOML: extra `=`, expected nothing
    2 | workers = ... (hidden, may be secret)
      |           ^"
    );
    assert_eq!(
        wrong("upstream = \"redis://h\"\nworkers = many\n"),
        "\
r.toml:2:11: not valid TOML: string values must be quoted, expected literal string
    2 | workers = many
      |           ^"
    );
    assert_eq!(
        wrong("[limits\nclient_inflight_max = 5\n"),
        "\
r.toml:1:8: not valid TOML: unclosed table, expected `]`
    1 | [limits
      |        ^"
    );
}

#[test]
fn rules_between_options_name_both_ways_out() {
    let up = "upstream = \"redis://127.0.0.1:6379\"\n";
    for (text, expected) in [
        (
            "",
            "upstream: no server is named; say which one the proxy is for, as in --upstream redis://127.0.0.1:6379 or upstream = \"redis://127.0.0.1:6379\" (or try `respool demo`)",
        ),
        (
            "listen = [\"127.0.0.1:1\", \"0.0.0.0:2\"]",
            "r.toml:2:10: listen: `0.0.0.0:2` can be reached from other machines, and no password is set; give password_file (or password, or `default` in acl.users), or set protected_mode = false if something else protects this network",
        ),
        (
            "listen = \"127.0.0.1:6379\"",
            "r.toml:2:10: listen: the upstream is `127.0.0.1:6379`, where the proxy itself listens; change one of the two",
        ),
        (
            "upstream_user = \"u\"",
            "r.toml:2:17: upstream_user: a user without a password; give upstream_password_file, upstream_password or user:password@ in the URL (for a user with `nopass` any password does)",
        ),
        (
            "password = \"a\"\npassword_file = \"b\"",
            "r.toml:3:17: password_file: `password` and `password_file` are both set; give one of them",
        ),
        (
            "password_file = \"/nowhere\"",
            "r.toml:2:17: password_file: cannot read /nowhere: entity not found",
        ),
        (
            "timeouts.reconnect_min_ms = 9000",
            "r.toml:2:29: timeouts.reconnect_min_ms: `timeouts.reconnect_min_ms` (9000) is above `timeouts.reconnect_max_ms` (1000); allowed: not above",
        ),
    ] {
        let text = if text.is_empty() { String::new() } else { format!("{up}{text}\n") };
        let found = wrong(&text);
        assert_eq!(found, expected);
    }
}

#[test]
fn public_addresses_pass_with_a_password_or_by_decision() {
    let base = "upstream = \"redis://h\"\nlisten = \"0.0.0.0:6380\"\n";
    assert!(file(&format!("{base}password = \"x\"")).is_ok());
    assert!(file(&format!("{base}protected_mode = false")).is_ok());
    assert!(file(base).is_err());
}

#[test]
fn command_line_wins_over_environment_over_file() {
    let text = "upstream = \"redis://file\"\nworkers = 2\nmax_clients = 7\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n";
    let config = layers(
        text,
        &[
            ("RESPOOL_WORKERS", "3"),
            ("RESPOOL_MAX_CLIENTS", "8"),
            ("RESPOOL_LISTEN", "127.0.0.1:3, [::1]:3"),
            ("RESPOOL_LOG_LEVEL", ""),
            ("RESPOOL_PORT", "tcp://10.0.0.1:6380"),
        ],
        &[
            ("workers", &["4"]),
            ("timeouts.connect_ms", &["5"]),
            ("limits.bulk_bytes_max", &["2MiB"]),
        ],
    )
    .unwrap();
    assert_eq!((config.workers, config.max_clients, config.timeouts.connect_ms), (4, 8, 5));
    assert_eq!(config.limits.bulk_bytes_max, 2 << 20);
    let listen: Vec<_> = config.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:3", "[::1]:3"]);
}

#[test]
fn mistakes_outside_the_file_name_their_source() {
    let error = layers(
        "upstream = \"redis://h\"\nworkers = 0",
        &[("RESPOOL_WORKERS", "many")],
        &[("workers", &["-1"]), ("protected_mode", &["maybe"])],
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "\
r.toml:2:11: workers: found 0; allowed: a whole number from 1 to 256
environment RESPOOL_WORKERS: found `many`; allowed: a whole number from 1 to 256
--workers: found `-1`; allowed: a whole number from 1 to 256
--protected-mode: found `maybe`; allowed: true or false"
    );
}

#[test]
fn a_mistyped_variable_is_refused_and_those_of_others_are_not() {
    let right = [
        ("RESPOOL_PORT", "tcp://10.0.0.1:6380"),
        ("RESPOOL_PORT_6380_TCP_PORT", "6380"),
        ("RESPOOL_SERVICE_PORT", "6380"),
        ("RESPOOL_LOG", "debug"),
        ("RESPOOL_CONFIG", "r.toml"),
        ("RESPOOL_WORKER", ""),
        ("RESPOOL_NOTHING_LIKE_IT", "1"),
        ("RESPOOL_LISTENS", "named"),
        ("RESPOOL_LONG", "1"),
    ];
    let text = "upstream = \"redis://h\" # password_env=RESPOOL_LISTENS\n";
    layers(text, &right, &[]).unwrap();
    let wrong = [("RESPOOL_WORKER", "secret"), ("RESPOOL_TIMEOUTS_REQUEST", "5")];
    assert_eq!(
        layers(text, &wrong, &[]).unwrap_err().to_string(),
        "\
environment RESPOOL_WORKER: no option has this name; did you mean RESPOOL_WORKERS?
environment RESPOOL_TIMEOUTS_REQUEST: no option has this name; did you mean RESPOOL_TIMEOUTS_REQUEST_MS?"
    );
}

#[test]
fn a_variable_in_a_string_is_refused_as_nothing_replaces_it() {
    let error = wrong("upstream = \"redis://h\"\nupstream_password = \"a${REDIS_PASSWORD}b\"\n");
    assert!(error.starts_with("r.toml:2:21: upstream_password: `${REDIS_PASSWORD}` is not replaced by a variable; RESPOOL_UPSTREAM_PASSWORD is the variable of this option"), "{error}");
    // What is no variable is a text as any other.
    for text in ["$REDIS", "${}", "${a b}", "}${"] {
        file(&format!("upstream = \"redis://h\"\nupstream_password = \"{text}\"\n")).unwrap();
    }
}

#[test]
fn credentials_outside_the_url_take_the_place_of_those_in_it() {
    let config = layers(
        "upstream = \"redis://u:old@h\"",
        &[("RESPOOL_UPSTREAM_PASSWORD", "new")],
        &[("upstream_user", &["v"])],
    )
    .unwrap();
    let Upstream::One(url) = config.upstream else { panic!("not one server") };
    assert_eq!(url.user.as_deref(), Some("v"));
    assert_eq!(url.password.unwrap().reveal(), b"new");
}

#[test]
fn password_files_are_read_without_their_last_newline() {
    let read = |place: config::Place<'_>| -> io::Result<Vec<u8>> {
        let config::Place::File(path) = place else { return Err(io::ErrorKind::NotFound.into()) };
        Ok(match path.to_str() {
            Some("a") => b"one\n".to_vec(),
            Some("b") => b"two \r\n".to_vec(),
            _ => b"\n".to_vec(),
        })
    };
    let load = |text: &str| load_file(FileText { name: "r.toml", text }, &read);
    let config =
        load("upstream = \"redis://h\"\npassword_file = \"a\"\nupstream_password_file = \"b\"")
            .unwrap();
    assert_eq!(config.password.unwrap().reveal(), b"one");
    let Upstream::One(url) = config.upstream else { panic!("not one server") };
    assert_eq!(url.password.unwrap().reveal(), b"two ");
    let error = load("upstream = \"redis://h\"\npassword_file = \"c\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "r.toml:2:17: password_file: c is empty; it must hold the password"
    );
}

#[test]
fn a_stronger_source_decides_between_password_and_file() {
    let read = |_: config::Place<'_>| Ok(b"from file".to_vec());
    let env = [("RESPOOL_PASSWORD".to_owned(), "from env".to_owned())];
    let text = "upstream = \"redis://h\"\npassword_file = \"a\"";
    let sources = Sources {
        file: Some(FileText { name: "r.toml", text }),
        memory_bytes: None,
        environment: &env,
        arguments: &[],
        changes: &[],
        read_secret: &read,
    };
    assert_eq!(load(&sources).unwrap().config.password.unwrap().reveal(), b"from env");
    let arguments = [("password_file", vec!["a".to_owned()])];
    let sources = Sources { arguments: &arguments, ..sources };
    assert_eq!(load(&sources).unwrap().config.password.unwrap().reveal(), b"from file");
}

#[test]
fn workers_follow_cpus_unless_given() {
    let config = file("upstream = \"redis://h\"\ncpus = [\"0-2\", 7]").unwrap();
    assert_eq!((config.workers, config.cpus), (4, vec![0, 1, 2, 7]));
    assert_eq!(file("upstream = \"redis://h\"\ncpus = [1]\nworkers = 3").unwrap().workers, 3);
}

#[test]
fn what_is_announced_must_be_an_address_to_connect_to() {
    let text = |announce: &str| {
        format!("upstream = \"redis://h\"\n[facade]\ncluster = true\nannounce = {announce}\n")
    };
    let config = file(&text("[\"10.0.0.1:6380\", \"[2001:db8::1]:6380\"]")).unwrap();
    assert_eq!(config.facade.announce.len(), 2);
    let forms = "allowed: address:port such as 10.0.0.1:6380 or [2001:db8::1]:6380";
    let unspecified = "(clients connect to what is announced, and that is no address to connect to: name the one of an interface)";
    for (announce, place, why) in [
        ("\"0.0.0.0:6380\"", "4:12", format!("found `0.0.0.0:6380` {unspecified}; {forms}")),
        ("[\"10.0.0.1:1\", \"[::]:2\"]", "4:27", format!("found `[::]:2` {unspecified}; {forms}")),
        (
            "[\"unix:/run/r.sock\"]",
            "4:13",
            format!("found `unix:/run/r.sock` (clients of a cluster connect over TCP); {forms}"),
        ),
        (
            "[\"10.0.0.1:1\", \"10.0.0.1:1\"]",
            "4:27",
            "`10.0.0.1:1` stands here twice; name each address once".to_string(),
        ),
    ] {
        let message = wrong(&text(announce));
        assert!(message.contains(&format!("r.toml:{place}: facade.announce: {why}")), "{message}");
    }
}

/// Breaks a file with passwords in it at every byte, in three ways, and looks for them in every message.
#[test]
fn no_message_repeats_a_password() {
    let good = r#"# a file with passwords
upstream = "redis://user:hunter2@cache:6379/0"
upstream_password = "hunter3"
listen = [
  "0.0.0.0:6380",
]
password = 'hunter4' # hunter5
sharding.shards = ["redis://u:hunter9@a name=b", "redis-sentinel://s/m?sentinel_password=hunter10"]
pasword = "hunter6"
log = { level = "info", password = "hunter7" }
[timeouts]
connect_ms = 5
password = """
hunter8
"""
"#;
    let mut broken = 0;
    for at in (0..good.len()).filter(|at| good.is_char_boundary(*at)) {
        let (before, after) = good.split_at(at);
        let rest = &after[after.len().min(1)..];
        for text in [
            before.to_owned(),
            format!("{before}{rest}"),
            format!("{before}={after}"),
            format!("{before}\"{after}"),
        ] {
            let Err(problems) = file(&text) else { continue };
            broken += 1;
            let shown = format!("{problems} {problems:?}");
            // "hunter" may be cut by the break, so a shorter piece is looked for.
            assert!(
                !shown.contains("unte") && !shown.contains("hunt"),
                "break at {at}:\n{text}\n---\n{problems}"
            );
        }
    }
    assert!(broken > 500, "the breaks must be errors to prove anything: {broken}");
    let env =
        layers("", &[("RESPOOL_UPSTREAM", "redis://:hunter@2@h"), ("RESPOOL_LISTEN", "x")], &[]);
    assert!(!env.unwrap_err().to_string().contains("hunter"));
}

/// Places are counted in lines and characters, also after letters of several bytes and with line ends of Windows.
#[test]
fn places_count_characters() {
    assert_eq!(
        wrong("# é世\r\nupstream = \"redis://h\"\r\nlog = { \"é\" = 1, level = 3 }\r\n"),
        "\
r.toml:3:9: log.é: unknown key
r.toml:3:26: log.level: found 3; allowed: error, warn, info, debug, trace"
    );
}

/// Nothing that can stand in a file makes the reader panic. The noise is pseudo-random, the same on every run.
#[test]
fn noise_is_refused_without_a_panic() {
    let base = include_str!("../../../respool.example.toml").replace("\n#", "\n");
    let pieces = [
        "é",
        "\"",
        "'''",
        "=",
        "[",
        "]",
        "\n",
        "\r",
        "0",
        "-",
        "{",
        "}",
        "#",
        "\\",
        "\0",
        ".",
        "\u{1f600}",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut refused = 0;
    for _ in 0..2000 {
        let start = next(base.len());
        let mut text: String = base.chars().skip(start).take(200).collect();
        for _ in 0..=next(4) {
            let at = next(text.chars().count().max(1));
            let at = text.char_indices().map(|(at, _)| at).nth(at).unwrap_or(0);
            text.insert_str(at, pieces[next(pieces.len())]);
        }
        if let Err(problems) = file(&text) {
            assert!(!problems.0.is_empty() && !problems.to_string().is_empty());
            refused += 1;
        }
    }
    assert!(refused > 1000, "most noise is no configuration: {refused}");
}

#[test]
fn debug_of_a_configuration_shows_no_password() {
    let config = file("upstream = \"redis://u:hunter2@h\"\npassword = \"hunter3\"").unwrap();
    assert!(!format!("{config:?}").contains("hunter"));
}

#[test]
fn the_example_holds_the_defaults() {
    let example = config::documents::example();
    let config = file(&example).expect("the example is valid as it stands");
    assert_eq!(config, Config::default());
    // Every commented setting taken in must be valid and change nothing, but for those without a default.
    let mut taken_in = String::new();
    for line in example.lines() {
        let setting = line.strip_prefix('#').filter(|l| !l.starts_with(' ') && l.contains(" = "));
        let skipped = [
            "upstream_user",
            "upstream_password",
            "sentinel_",
            "address_map",
            "zones =",
            "password",
            "workers",
            "file =",
            "zone =",
            "weights",
            "monitors",
            "announce =",
            "token",
            "key_prefix =",
            "client =",
            "endpoint =",
            "webhook =",
            "users =",
            "cert_file",
            "key_file",
            "ca_file",
            "client_ca_file",
            "server_name",
            "rename =",
            "deny =",
            "block =",
            "read_only_error",
            "size =",
            "own =",
            "prefix =",
            "rate =",
            "fault =",
            "double_delete",
            // With a mirror there is one worker.
            "targets",
        ];
        // What is about shards needs some, and then there is no `upstream`.
        let sharding = [
            "shards",
            "compat",
            "distribution",
            "hash",
            "buckets",
            "routes",
            "catch_all",
            "remove_prefix",
            "ignore_case",
            "failures",
            "window_ms",
            "probe_ms",
        ];
        let mut skipped = skipped.iter().chain(&sharding);
        match setting {
            Some(setting) if !skipped.any(|name| setting.starts_with(name)) => {
                taken_in.push_str(setting);
            }
            _ => taken_in.push_str(line),
        }
        taken_in.push('\n');
    }
    assert!(taken_in.contains("\nconnect_ms = 1000\n"));
    assert_eq!(file(&taken_in).expect("valid with all settings"), Config::default());
}

#[test]
fn the_reference_names_every_option() {
    let page = config::documents::reference();
    for option in config::options::OPTIONS {
        assert!(page.contains(&format!("### `{}`\n", option.name)), "{}", option.name);
        assert!(page.contains(&format!("`{}`", option.environment())), "{}", option.name);
    }
}

#[test]
fn bounds_of_every_number_are_kept() {
    // One below, at, and above each bound, taken from what the option says about itself.
    for option in config::options::OPTIONS {
        let allowed = option.allowed();
        let Some((_, range)) = allowed.split_once(" from ") else { continue };
        if option.is_list() || allowed.starts_with("a size") {
            continue;
        }
        let (low, high) = range.split_once(" to ").unwrap();
        let (low, high): (i64, i64) = (low.parse().unwrap(), high.parse().unwrap());
        let accepts = |n: i64| {
            let text = format!("upstream = \"redis://h\"\n{} = {n}\n", option.name);
            let refused = file(&text).err().map(|p| p.to_string()).unwrap_or_default();
            !refused.contains("found ")
        };
        assert!(accepts(low) && accepts(high), "{}", option.name);
        assert!(!accepts(low - 1) && !accepts(high + 1), "{}", option.name);
    }
}

#[test]
fn a_url_with_a_token_is_not_repeated_whatever_is_wrong_with_it() {
    let up = "upstream = \"redis://h\"\n";
    let urls =
        ["ftp://h/t0ken", "https://u:t0ken@h/", "http://h/ t0ken", "t0ken", "http://h:0/t0ken"];
    for option in ["[alarms]\nwebhook", "[tracing]\nendpoint"] {
        for url in urls {
            let text = format!("{up}{option} = \"{url}\"\n");
            let said = wrong(&text);
            assert!(said.contains("allowed: http://host") && !said.contains("t0ken"), "{said}");
            // Nor where the line is no TOML.
            let said = wrong(&text.replace("\"\n", "\n"));
            assert!(!said.contains("t0ken"), "{said}");
        }
        let sound = file(&format!("{up}{option} = \"https://h:1/t0ken\"\n")).unwrap();
        let shown = format!("{sound:?}");
        assert!(shown.contains("https://h:1/***") && !shown.contains("t0ken"), "{shown}");
    }
}
