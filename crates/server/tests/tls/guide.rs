//! The configurations of `docs/guides/tls.md` do what the guide says.

use std::fs;

use testkit::ports::Port;
use testkit::tls::Authority;
use testkit::{Conn, Endpoint, Respool, wait};

use crate::setup::{NAME, RESPOOL, SOON, Server, client};

const GUIDE: &str = include_str!("../../../../docs/guides/tls.md");

/// The configurations in the guide, in its order.
fn configurations() -> Vec<String> {
    let mut blocks = GUIDE.split("```toml\n").skip(1);
    let block = |text: &str| text.split("```").next().unwrap_or_default().to_owned();
    blocks.by_ref().map(block).collect()
}

#[test]
fn the_whole_configuration_of_the_guide_serves() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME, "redis.internal", "127.0.0.1"]);
    let app = authority.issue("app", &["app.example"]);
    let Some(server) = Server::start(&authority, &own, &["--tls-auth-clients", "yes"]) else {
        return;
    };
    let all = configurations();
    let whole = all.first().expect("a configuration in the guide");
    let (plain, tls) = (Port::v4().release(), Port::v4().release());
    let folder = authority.folder().display().to_string();
    let text = whole
        .replace("rediss://redis.internal:6379", &server.url("127.0.0.1"))
        .replace("127.0.0.1:6380", &plain.to_string())
        .replace("0.0.0.0:6390", &tls.to_string())
        .replace("/etc/respool/tls", &folder);
    assert!(!text.contains("/etc/") && text.contains(&tls.to_string()), "{text}");
    for name in ["upstream", "app-ca", "upstream-ca"] {
        let is_ca = name.ends_with("ca");
        let from = if is_ca { authority.ca_file() } else { own.cert_file.clone() };
        fs::copy(from, authority.folder().join(format!("{name}.pem"))).expect("copied");
    }
    fs::copy(&own.key_file, authority.folder().join("upstream.key")).expect("copied");
    fs::write(authority.folder().join("password"), "secret\n").expect("a file");
    let file = authority.folder().join("respool.toml");
    fs::write(&file, &text).expect("the file");
    let args = format!("{tls} tls=true name=public");
    let proxy = Respool::with_config(RESPOOL, &file)
        .listen_at(&Endpoint::Tcp(plain))
        .args(&["--listen", &args])
        .start();
    let config = client(&authority, Some(&app));
    let mut conn = Conn::open_tls(&Endpoint::Tcp(tls), &config, NAME).expect("connect");
    assert_eq!(conn.ask("AUTH secret"), "+OK\r\n");
    wait::until_true("it is served", SOON, || conn.ask("SET k v") == "+OK\r\n");
    let mut nobody =
        Conn::open_tls(&Endpoint::Tcp(tls), &client(&authority, None), NAME).expect("connect");
    nobody.command(&["PING"]).expect_err("no certificate");
    drop(proxy);
}

/// Parts of one are in the guide as well, and what is left out of them is not wrong.
#[test]
fn every_part_is_understood() {
    for part in configurations().iter().skip(1) {
        let table: Result<toml::Table, _> = toml::from_str(part);
        assert!(table.is_ok(), "{part}: {table:?}");
    }
}
