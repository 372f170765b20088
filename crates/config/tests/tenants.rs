//! Tables of tenants: what is laid over what, and what is said of mistakes.

use std::io;

use config::{Config, FileText, Given, Loaded, Place, Secret, Sources, Tenant, Upstream, load};

const USERS: &str = "[acl]\nusers = [\"ann on nopass\", \"bob on nopass\"]\n";

fn read(text: &str, environment: &[(String, String)]) -> Result<Config, String> {
    read_whole(text, environment).map(|loaded| loaded.config)
}

fn read_whole(text: &str, environment: &[(String, String)]) -> Result<Loaded, String> {
    let no_files = |place: Place<'_>| match text.contains("_file") {
        true if place != Place::File("/nowhere".as_ref()) => Ok(b"from-a-file\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let given: &[Given] = &[];
    let sources = Sources {
        file: Some(FileText { name: "r.toml", text }),
        environment,
        arguments: given,
        changes: given,
        read_secret: &no_files,
        memory_bytes: None,
    };
    load(&sources).map_err(|problems| problems.to_string())
}

fn loaded(text: &str) -> Loaded {
    read_whole(text, &[]).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

fn config(text: &str) -> Config {
    read(text, &[]).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

fn problems(text: &str) -> Vec<String> {
    let problems = read(text, &[]).expect_err(text);
    problems.lines().map(str::to_owned).collect()
}

#[test]
fn a_tenant_has_the_main_options_but_for_its_own_and_the_route() {
    let text = format!(
        "upstream = \"redis://main:1\"\nupstream_password = \"main-secret\"\nclient_name_upstream = \"me\"\n\
         listen = [\"127.0.0.1:1\", \"127.0.0.1:2 tenant=blue name=b\"]\nmax_clients = 77\n{USERS}\
         [timeouts]\nrequest_ms = 500\nconnect_ms = 50\n[limits]\nclient_inflight_max = 10\n\
         [tenants.blue]\nupstream = \"redis://blue:2/3\"\nusers = [\"bob\"]\nclient_names = \"blue-*\"\nclients_max = 5\n\
         [tenants.blue.timeouts]\nrequest_ms = 99\n\
         [tenants.green.sharding]\nshards = [\"redis://a\", \"redis://b\"]\ncompat = \"overlord\"\n\
         [tenants.green.reads]\npolicy = \"any\"\n"
    );
    let config = config(&text);
    let [blue, green] = &config.tenants[..] else { panic!("two tenants") };
    assert_eq!((&*blue.name, &*green.name), ("blue", "green"));
    assert_eq!(
        (&*blue.users, &*blue.client_names),
        (&["bob".to_owned()][..], &["blue-*".to_owned()][..])
    );
    assert_eq!((blue.clients_max, green.clients_max), (Some(5), None));
    let of = &blue.config;
    assert_eq!((of.timeouts.request_ms, of.timeouts.connect_ms), (99, 50));
    assert_eq!((of.limits.client_inflight_max, of.max_clients), (10, 77));
    assert_eq!(of.client_name_upstream, "me");
    let Upstream::One(url) = &of.upstream else { panic!("one server") };
    assert_eq!((url.to_string().as_str(), url.db), ("redis://blue:2/3", 3));
    assert!(url.password.is_none(), "the password of other servers");
    let Upstream::Shards(sharding) = &green.config.upstream else { panic!("shards") };
    assert_eq!(sharding.shards.len(), 2);
    assert_eq!(green.config.timeouts.request_ms, 500);
    assert_eq!(config.timeouts.request_ms, 500);
    assert_eq!(config.listen[1].tenant.as_deref(), Some("blue"));
    assert_eq!(config.urls().count(), 4);
    assert!(blue.config.tenants.is_empty());
}

#[test]
fn what_flags_and_variables_say_holds_where_a_tenant_says_nothing() {
    let text = "upstream = \"redis://a\"\n[tenants.x]\nupstream = \"redis://b\"\n[tenants.x.timeouts]\nconnect_ms = 5\n";
    let variables = ["CONNECT", "REQUEST"]
        .map(|name| (format!("RESPOOL_TIMEOUTS_{name}_MS"), "1234".to_owned()));
    let config = read(text, &variables).expect("a configuration");
    let of = &config.tenants[0].config.timeouts;
    assert_eq!((of.connect_ms, of.request_ms), (5, 1234));
}

#[test]
fn a_password_file_of_a_tenant_is_its_own() {
    let text = "upstream = \"redis://a\"\n[tenants.x]\nupstream = \"redis://b\"\nupstream_password_file = \"p\"\n";
    let config = config(text);
    let password = |upstream: &Upstream| match upstream {
        Upstream::One(url) => url.password.as_ref().map(|secret| secret.reveal().to_vec()),
        Upstream::Shards(_) => None,
    };
    assert_eq!(password(&config.upstream), None);
    assert_eq!(password(&config.tenants[0].config.upstream), Some(b"from-a-file".to_vec()));
}

#[test]
fn all_mistakes_are_told_at_once_with_their_lines() {
    let text = format!(
        "upstream = \"redis://a\"\nlisten = \"127.0.0.1:1\"\n{USERS}\
         [tenants.blue]\nusers = [\"bob\", \"carl\"]\nupstream = \"redis://b\"\nworkers = 3\n\
         [tenants.blue.limits]\nclient_inflight_max = 0\nclient_inflite = 1\n\
         [tenants.green]\nusers = [\"bob\"]\nclients_max = 0\n\
         [tenants.default]\nupstream = \"redis://b\"\n\
         [tenants.\"a b\"]\nupstream = \"redis://b\"\n"
    );
    let found = problems(&text);
    let expected = [
        (":6:17: tenants.blue.users", "there is no user `carl`"),
        (
            ":8:11: tenants.blue.workers",
            "this is the whole proxy's, and cannot differ between tenants",
        ),
        (":10:23: tenants.blue.limits.client_inflight_max", "allowed:"),
        (":11:1: tenants.blue.limits.client_inflite", "did you mean `client_inflight_max`?"),
        (":12:10: tenants.green", "no server is named"),
        (":13:10: tenants.green.users", "the user `bob` belongs to the tenant `blue` already"),
        (":14:15: tenants.green.clients_max", "a whole number from 1 to 1000000"),
        (":15:10: tenants.default", "Choose another name"),
        (":17:10: tenants.a b", "no name for a tenant"),
    ];
    for (place, message) in expected {
        let is_told = |line: &String| line.contains(place) && line.contains(message);
        assert!(found.iter().any(is_told), "{place} {message}\n{}", found.join("\n"));
    }
    assert_eq!(found.len(), expected.len(), "{}", found.join("\n"));
}

#[test]
fn rules_hold_for_a_tenant_as_a_whole() {
    let text = "upstream = \"redis://a\"\n[limits]\nclient_out_max_bytes = \"2MiB\"\n\
                [tenants.x]\nupstream = \"redis://127.0.0.1:6380\"\n\
                [tenants.x.limits]\nclient_out_high_bytes = \"3MiB\"\n";
    let found = problems(text);
    assert_eq!(found.len(), 2, "{}", found.join("\n"));
    assert!(
        found[0].contains("r.toml:5:12: tenants.x.upstream: the upstream is `127.0.0.1:6380`"),
        "{}",
        found[0]
    );
    assert!(found[1].contains(":7:25: tenants.x.limits.client_out_high_bytes"), "{}", found[1]);
}

#[test]
fn what_is_wrong_at_the_top_is_not_told_of_each_tenant_again() {
    let text = "upstream = \"redis://a\"\n[limits]\nclient_out_max_bytes = \"1MiB\"\nclient_out_high_bytes = \"3MiB\"\n\
                [tenants.x]\nupstream = \"redis://b\"\n[tenants.y]\nupstream = \"redis://c\"\n";
    assert_eq!(problems(text).len(), 1);
}

#[test]
fn a_listener_leads_to_a_tenant_that_there_is() {
    let text = "upstream = \"redis://a\"\nlisten = \"127.0.0.1:1 tenant=blu\"\n[tenants.blue]\nupstream = \"redis://b\"\n";
    let found = problems(text);
    assert!(
        found.len() == 1
            && found[0].contains("tenant=blu")
            && found[0].contains("there are `blue`"),
        "{}",
        found.join("\n")
    );
    let none = problems("upstream = \"redis://a\"\nlisten = \"127.0.0.1:1 tenant=blu\"\n");
    assert!(none[0].contains("there are none"), "{}", none[0]);
    config("upstream = \"redis://a\"\nlisten = \"127.0.0.1:1 tenant=default\"\n");
}

#[test]
fn there_are_only_so_many() {
    let tables = |count: usize| -> String {
        let table = |at| format!("[tenants.t{at}]\nupstream = \"redis://b\"\n");
        (0..count).map(table).collect()
    };
    let text = |count| format!("upstream = \"redis://a\"\n{}", tables(count));
    assert_eq!(config(&text(config::TENANTS_MAX)).tenants.len(), config::TENANTS_MAX);
    let found = problems(&text(config::TENANTS_MAX + 1));
    assert!(found.len() == 1 && found[0].contains("more than 32 tenants"), "{}", found.join("\n"));
}

#[test]
fn policies_are_inherited_or_own_and_mirrors_and_read_targets_never_inherited() {
    let text = format!(
        "upstream = \"redis://main:1\"\n{USERS}[policies]\nread_only = true\n[mirrors]\ntargets = \"redis://mirror:1\"\nflush = true\n\
         [read_targets]\ntargets = \"redis://near:1\"\npercent = 7\n\
         [tenants.blue]\nupstream = \"redis://blue:2\"\n\
         [tenants.green]\nupstream = \"redis://green:2\"\n[tenants.green.policies]\nread_only = false\n[tenants.green.cache]\nenabled = true\n"
    );
    let config = config(&text);
    let [blue, green] = &config.tenants[..] else { panic!("two tenants") };
    assert!(config.policies.read_only && blue.config.policies.read_only);
    assert!(!green.config.policies.read_only && green.config.cache.enabled);
    assert!(blue.config.intercepts.is_some() && green.config.intercepts.is_none());
    assert!(!config.cache.enabled && !blue.config.cache.enabled);
    assert_eq!(config.mirrors.targets.len(), 1);
    for Tenant { config, .. } in &config.tenants {
        assert_eq!(config.mirrors, config::Mirrors::default());
        assert_eq!(config.read_targets, config::ReadTargets::default());
        assert_eq!(config.workers, 1, "the main mirrors' one worker is everybody's");
    }
}

/// A tenant with mirrors and read targets of its own.
fn with_own(tables: &str) -> String {
    format!(
        "upstream = \"redis://main:1\"\n[tenants.green]\nupstream = \"redis://g\"\n[tenants.blue]\nupstream = \"redis://b\"\n{tables}"
    )
}

#[test]
fn a_tenant_has_mirrors_and_read_targets_of_its_own() {
    let text = with_own(
        "[tenants.blue.mirrors]\ntargets = [\"redis://c name=new mode=all password_file=/run/own\", \"redis://main:1 name=old\"]\n\
         queue_max_bytes = \"1MiB\"\nflush = true\nshadow_samples = true\nshadow_ttl_tolerance_ms = 5\n\
         [tenants.blue.read_targets]\ntargets = \"redis://near password_file=/run/own\"\norder = \"main\"\nkeys = \"k*\"\nhedge_after_ms = 9\n",
    );
    let config = config(&text);
    assert_eq!(config.workers, 1, "a tenant's mirrors, too, want one worker");
    assert!(!config.mirrors.is_on() && !config.read_targets.is_on());
    let [green, blue] = &config.tenants[..] else { panic!("two tenants") };
    assert_eq!((green.config.workers, blue.config.workers), (1, 1));
    assert!(!green.config.mirrors.is_on() && !green.config.read_targets.is_on());
    let mirrors = &blue.config.mirrors;
    assert_eq!(mirrors.targets[0].url().password, Some(Secret::new("from-a-file")));
    assert_eq!((mirrors.queue_max_bytes, mirrors.flush), (1 << 20, true));
    assert_eq!((mirrors.shadow_samples, mirrors.shadow_ttl_tolerance_ms), (true, 5));
    let reads = &blue.config.read_targets;
    assert_eq!(reads.targets[0].url().password, Some(Secret::new("from-a-file")));
    assert_eq!((reads.keys.len(), reads.hedge_after_ms), (1, 9));
}

#[test]
fn what_is_wrong_with_a_tenants_mirrors_is_told_there() {
    let mirrors = "[tenants.blue.mirrors]\ntargets = ";
    for (tables, key, words) in [
        (format!("{mirrors}\"redis://b\"\n"), "mirrors.targets", "is the upstream itself"),
        (format!("{mirrors}\"redis://c mode=x\"\n"), "mirrors.targets", "has no such mode"),
        (
            format!("{mirrors}\"redis://c\"\n[tenants.blue.policies.namespace]\nprefix = \"b:\"\n"),
            "policies.namespace.prefix",
            "and not in those of a namespace",
        ),
        (
            format!(
                "{mirrors}\"redis://c\"\n[tenants.blue.policies]\ndouble_delete = \"delay_ms=5\"\n"
            ),
            "policies.double_delete",
            "a mirror would keep what is gone",
        ),
        (
            "[tenants.blue.read_targets]\ntargets = \"redis://b\"\n".to_owned(),
            "read_targets.targets",
            "is the upstream itself",
        ),
        (
            "[tenants.blue.read_targets]\ntargets = \"redis://c password_file=/nowhere\"\n"
                .to_owned(),
            "read_targets.targets",
            "cannot read its password_file",
        ),
    ] {
        let found = problems(&with_own(&tables));
        assert_eq!(found.len(), 1, "{found:#?}");
        let key = format!("tenants.blue.{key}");
        assert!(found[0].contains(&key) && found[0].contains(words), "{}", found[0]);
    }
    // Several workers are the process', and what can be changed of it there are the mirrors.
    let own = with_own(&format!("{mirrors}\"redis://c\"\n"));
    let found = problems(&format!("workers = 2\n{own}"));
    assert!(
        found.len() == 1
            && found[0].contains("tenants.blue.mirrors.targets")
            && found[0].contains("`workers` is 2, and with mirrors it must be 1"),
        "{found:#?}"
    );
    let across = format!("workers = 2\n{own}across_workers = true\n");
    assert_eq!(config(&across).tenants[1].config.workers, 2);
    // What the others may do says nothing of this one.
    let main = format!("workers = 2\n{own}[mirrors]\nacross_workers = true\n");
    assert_eq!(problems(&main).len(), 1);
}

#[test]
fn a_reload_keeps_each_tenants_own_servers() {
    // The main mirrors say nothing of a tenant's servers.
    let text = format!("{}[mirrors]\ntargets = \"redis://m\"\n", with_own(""));
    let (running, mut new) = (loaded(&text), loaded(&text.replace("redis://b", "redis://c")));
    assert!(new.keep_fixed(&running, false).is_empty());
    assert!(new.config.tenants[1].config.upstream.to_string().contains("redis://c"));
    assert!(!new.config.tenants[1].config.mirrors.is_on());
}
