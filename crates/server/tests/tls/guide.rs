//! The configurations of `docs/guides/tls.md` do what the guide says.

use std::fs;

use testkit::ports::Port;
use testkit::tls::Authority;
use testkit::{Conn, Endpoint, Respool, wait};

use crate::admin;
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

/// The admin listener's guide has one, too.
#[test]
fn the_admin_listener_of_its_guide_asks_for_a_certificate_and_a_token() {
    let guide = include_str!("../../../../docs/guides/admin.md");
    let block = guide.split("```toml\n").skip(1).find(|block| block.contains("[admin.tls]"));
    let block = block.and_then(|block| block.split("```").next()).expect("a configuration");
    let authority = Authority::new("ca");
    authority.issue("admin", &[NAME]);
    let operator = authority.issue("operator", &["op.example"]);
    let folder = authority.folder();
    fs::copy(authority.ca_file(), folder.join("operators-ca.pem")).expect("copied");
    fs::write(folder.join("admin-token"), "hush\n").expect("a file");
    let (server, admin) = (testkit::RedisServer::start(), Port::v4().release());
    let text = block
        .replace("redis://127.0.0.1:6379", &server.endpoint().url())
        .replace("0.0.0.0:6390", &admin.to_string())
        .replace("/etc/respool/tls", &folder.display().to_string())
        .replace("/etc/respool", &folder.display().to_string());
    assert!(!text.contains("/etc/") && text.contains(&admin.to_string()), "{text}");
    let file = folder.join("respool.toml");
    fs::write(&file, &text).expect("the file");
    let _proxy = Respool::with_config(RESPOOL, &file).start();
    let with = |own: Option<&testkit::tls::Pair>, more: &str| {
        let mut conn = admin::open(admin.port(), &client(&authority, own))?;
        admin::ask(&mut conn, "/stats", more)
    };
    let token = "Authorization: Bearer hush\r\n";
    with(None, token).expect_err("no certificate");
    assert!(with(Some(&operator), "").is_ok_and(|text| text.starts_with("HTTP/1.1 401")));
    assert!(with(Some(&operator), token).is_ok_and(|text| text.starts_with("HTTP/1.1 200")));
}

/// Parts of one are in the guide as well, and what is left out of them is not wrong.
#[test]
fn every_part_is_understood() {
    for part in configurations().iter().skip(1) {
        let table: Result<toml::Table, _> = toml::from_str(part);
        assert!(table.is_ok(), "{part}: {table:?}");
    }
}
