//! What a configuration says of TLS, and what of it does not fit together.

use std::io;

use config::{CertFiles, ClientAuth, Config, FileText, Problems, TlsVersion, load_file};

fn read(text: &str) -> Result<Config, Problems> {
    let no_files = |_: config::Place<'_>| Err(io::Error::from(io::ErrorKind::NotFound));
    load_file(FileText { name: "r.toml", text }, &no_files)
}

/// An admin listener, and the head of its table about TLS.
const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:1\"\n[admin.tls]\n";

fn wrong(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

#[test]
fn all_options_are_read() {
    let config = read(
        "upstream = \"rediss://h\"\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2 tls=true\"]\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n\
         more_certs = [\"a.pem a.key\", \" b.pem   b.key \"]\nclient_ca_file = \"ca\"\nclient_auth = \"optional\"\n\
         min_version = \"1.3\"\nresumption = false\nhandshake_ms = 7\n[upstream_tls]\nca_file = \"u\"\ncert_file = \"v\"\n\
         key_file = \"w\"\nserver_name = \"n\"\ninsecure = true\n",
    )
    .unwrap_or_else(|problems| panic!("{problems}"));
    let tls = &config.tls;
    assert_eq!((tls.client_auth, tls.min_version), (ClientAuth::Optional, TlsVersion::V13));
    let pair = |name: &str| CertFiles {
        cert: format!("{name}.pem").into(),
        key: format!("{name}.key").into(),
    };
    assert_eq!(tls.more_certs, [pair("a"), pair("b")]);
    assert_eq!((tls.resumption, tls.handshake_ms), (false, 7));
    assert!(config.has_tls_clients() && config.has_tls_upstreams() && !config.has_tls_peers());
    assert!(
        config.upstream_tls.insecure && config.upstream_tls.server_name.as_deref() == Some("n")
    );
}

#[test]
fn options_of_those_who_look_on_are_read() {
    let config = read(
        "upstream = \"redis://h\"\n[admin]\nlisten = \"0.0.0.0:1\"\n[admin.tls]\ncert_file = \"c\"\nkey_file = \"k\"\nclient_ca_file = \"ca\"\n\
         client_auth = \"required\"\n[tracing]\nendpoint = \"https://h:1\"\n[tracing.tls]\nca_file = \"s\"\n[alarms]\nwebhook = \"https://h/x\"\n\
         [alarms.tls]\nca_file = \"a\"\ncert_file = \"b\"\nkey_file = \"d\"\n",
    )
    .unwrap_or_else(|problems| panic!("{problems}"));
    let admin = &config.admin.tls;
    assert_eq!(admin.client_auth, ClientAuth::Required);
    let paths = [&admin.cert_file, &admin.key_file, &admin.client_ca_file];
    assert_eq!(
        paths.map(|path| path.clone().unwrap_or_default()),
        ["c", "k", "ca"].map(std::path::PathBuf::from)
    );
    assert!(config.has_tls_collector() && config.has_tls_webhook() && !config.has_tls_clients());
    assert!(config.tracing.tls.cert_file.is_none());
    assert_eq!(config.alarms.tls.key_file, Some("d".into()));
}

#[test]
fn whoever_shows_a_certificate_needs_no_token_and_whoever_may_show_one_does() {
    let text = |auth: &str| {
        format!(
            "upstream = \"redis://h\"\n[admin]\nlisten = \"0.0.0.0:1\"\n[admin.tls]\ncert_file = \"c\"\nkey_file = \"k\"\nclient_ca_file = \"ca\"\n\
             client_auth = \"{auth}\"\n"
        )
    };
    assert!(read(&text("required")).is_ok());
    let message = wrong(&text("optional"));
    assert!(message.contains("r.toml:3") && message.contains("there is no token"), "{message}");
}

#[test]
fn what_does_not_fit_together_is_told_where_it_stands() {
    let listen = "listen = \"127.0.0.1:1 tls=true\"\n";
    let pair = "[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n";
    for (text, place, words) in [
        (listen.to_owned(), "r.toml:2", "there is no certificate"),
        (format!("{listen}[tls]\ncert_file = \"c\"\n"), "r.toml:4", "without `tls.key_file`"),
        (format!("{listen}[tls]\nkey_file = \"k\"\n"), "r.toml:4", "without `tls.cert_file`"),
        (pair.to_owned(), "r.toml:3", "no entry of `listen` has tls=true"),
        (format!("{listen}{pair}client_auth = \"required\"\n"), "r.toml:6", "who vouches for them"),
        (format!("{listen}{pair}client_ca_file = \"a\"\n"), "r.toml:6", "without tls.client_auth"),
        (format!("{listen}{pair}min_version = \"1.1\"\n"), "r.toml:6", "1.2"),
        (format!("{listen}{pair}more_certs = [\"a\"]\n"), "r.toml:6", "two paths"),
        ("[upstream_tls]\ninsecure = true\n".to_owned(), "r.toml:3", "no URL begins with rediss"),
        (format!("{ADMIN}cert_file = \"c\"\n"), "r.toml:5", "without `admin.tls.key_file`"),
        (
            format!("{ADMIN}client_auth = \"required\"\nclient_ca_file = \"a\"\n"),
            "r.toml:5",
            "no admin.tls.cert_file",
        ),
        (format!("{ADMIN}client_ca_file = \"a\"\n"), "r.toml:5", "without admin.tls.client_auth"),
        (
            format!("{ADMIN}client_auth = \"optional\"\n"),
            "r.toml:5",
            "give admin.tls.client_ca_file",
        ),
        (
            "[admin]\nlisten = \"unix:/s\"\n[admin.tls]\ncert_file = \"c\"\nkey_file = \"k\"\n"
                .to_owned(),
            "r.toml:5",
            "`admin.listen` has no address of TCP",
        ),
        (
            "[alarms.tls]\nca_file = \"a\"\n".to_owned(),
            "r.toml:3",
            "`alarms.webhook` does not begin with https",
        ),
        (
            "[tracing]\nendpoint = \"http://h\"\n[tracing.tls]\nca_file = \"a\"\n".to_owned(),
            "r.toml:5",
            "`tracing.endpoint` does not begin with https",
        ),
        (
            "[alarms]\nwebhook = \"https://h\"\n[alarms.tls]\ncert_file = \"a\"\n".to_owned(),
            "r.toml:5",
            "without `alarms.tls.key_file`",
        ),
        ("[alarms]\nwebhook = \"ftp://h\"\n".to_owned(), "r.toml:3", "https://host"),
    ] {
        let message = wrong(&format!("upstream = \"redis://h\"\n{text}"));
        assert!(message.contains(place) && message.contains(words), "{text}: {message}");
    }
    let message = wrong("upstream = \"rediss://h\"\n[upstream_tls]\ncert_file = \"c\"\n");
    assert!(message.contains("without `upstream_tls.key_file`"), "{message}");
}

/// Respools of a facade speak TLS with each other where that is all that their clients can speak.
#[test]
fn peers_speak_what_clients_do() {
    let has_tls = |listen: &str| {
        let text = format!(
            "upstream = \"redis-cluster://h\"\nlisten = {listen}\n[facade]\ncluster = true\n\
             announce = [\"127.0.0.1:2\", \"10.0.0.2:2\"]\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n"
        );
        read(&text).unwrap_or_else(|problems| panic!("{problems}")).has_tls_peers()
    };
    assert!(has_tls("[\"127.0.0.1:2 tls=true\", \"unix:/r\"]"));
    assert!(!has_tls("[\"127.0.0.1:2 tls=true\", \"127.0.0.1:3\"]"));
}
