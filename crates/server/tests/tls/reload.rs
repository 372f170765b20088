//! Other certificates while clients are connected.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use testkit::ports::Port;
use testkit::tls::{Authority, Pair};
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{NAME, RESPOOL, SOON, client};

/// A proxy with a file that names certificates.
struct Configured {
    // The order matters: the proxy goes before its server and its file.
    proxy: Respool,
    _server: RedisServer,
    tls: Endpoint,
    pair: Pair,
    file: PathBuf,
}

impl Configured {
    fn start(authority: &Authority, watch: bool) -> Self {
        let server = RedisServer::start();
        let (plain, tls) = (Port::v4().release(), Port::v4().release());
        let pair = authority.issue("proxy", &[NAME]);
        let file = authority.folder().join("respool.toml");
        let text = format!(
            "upstream = \"{}\"\nlisten = [\"{plain}\", \"{tls} tls=true\"]\nwatch_config = {watch}\n\
             [tls]\ncert_file = {:?}\nkey_file = {:?}\n",
            server.endpoint().url(),
            pair.cert_file,
            pair.key_file
        );
        fs::write(&file, text).expect("the file");
        let proxy = Respool::with_config(RESPOOL, &file).listen_at(&Endpoint::Tcp(plain));
        // The flag would win over the list in the file.
        let args = format!("{tls} tls=true");
        let proxy = proxy.args(&["--listen", &args]).start();
        Self { proxy, _server: server, tls: Endpoint::Tcp(tls), pair, file }
    }

    fn hang_up(&self) {
        self.proxy.process().signal(Signal::HUP);
    }

    /// Waits until the log has these words so many times.
    fn logs(&self, words: &str, times: usize) -> String {
        let log =
            || Some(self.proxy.process().log()).filter(|log| log.matches(words).count() >= times);
        wait::until(&format!("`{words}` in the log"), SOON, log)
    }

    /// Whether a client that trusts this authority is served.
    fn serves(&self, authority: &Authority) -> bool {
        let mut conn = Conn::open_tls(&self.tls, &client(authority, None), NAME).expect("connect");
        conn.command(&["PING"]).is_ok_and(|reply| reply == b"+PONG\r\n")
    }

    fn put(&self, pair: &Pair) {
        fs::write(&self.pair.cert_file, &pair.cert).expect("certificate");
        fs::write(&self.pair.key_file, &pair.key).expect("key");
    }
}

#[test]
fn certificates_are_read_again_and_nobody_loses_a_connection() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let stack = Configured::start(&before, false);
    let mut old = Conn::open_tls(&stack.tls, &client(&before, None), NAME).expect("connect");
    assert_eq!(old.ask("SET k v"), "+OK\r\n");
    stack.put(&after.issue("proxy", &[NAME]));
    assert!(stack.serves(&before) && !stack.serves(&after), "not before it is told to");
    stack.hang_up();
    stack.logs("certificates have changed", 1);
    wait::until_true("the new one is shown", SOON, || stack.serves(&after));
    assert!(!stack.serves(&before));
    assert_eq!(old.ask("GET k"), "$1\r\nv\r\n");
    // What is the same is left alone.
    stack.hang_up();
    stack.logs("the configuration is as before", 1);
    assert_eq!(stack.proxy.process().log().matches("certificates have changed").count(), 1);
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_and_the_old_one_stays() {
    let authority = Authority::new("ca");
    let stack = Configured::start(&authority, false);
    let other = authority.issue("other", &[NAME]);
    let (cert, key) = (&stack.pair.cert_file, &stack.pair.key_file);
    let mut refusals = 0;
    for (file, content, words) in [
        (key, other.key.as_str(), "is not that of the certificate in"),
        (key, "", "holds no key in PEM"),
        (cert, "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n", "tls.cert_file"),
        (cert, "nothing", "holds no certificate in PEM"),
    ] {
        let good = fs::read(file).expect("the file");
        fs::write(file, content).expect("the file");
        stack.hang_up();
        refusals += 1;
        let log = stack.logs("the configuration stays as it was", refusals);
        let line = log.lines().rfind(|line| line.contains("stays as it was")).unwrap_or_default();
        assert!(log.contains(words), "{words}: {line}");
        let place = format!("{}:", stack.file.display());
        assert!(line.contains(&place) && !log.contains("PRIVATE KEY"), "{line}");
        assert!(stack.serves(&authority), "{words}");
        fs::write(file, good).expect("the file");
    }
    fs::remove_file(cert).expect("removed");
    stack.hang_up();
    stack.logs("cannot read", 1);
    assert!(stack.serves(&authority));
}

#[test]
fn a_certificate_that_changes_is_noticed_where_the_configuration_is_watched() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let stack = Configured::start(&before, true);
    assert!(stack.serves(&before));
    stack.put(&after.issue("proxy", &[NAME]));
    wait::until_true("the new one is shown", SOON, || stack.serves(&after));
    stack.logs("a certificate changed", 1);
}
