//! redis-cluster-proxy.

use super::*;
use config::LogLevel;

fn file(text: &str) -> Files<'_> {
    Files::one(Peer::RedisClusterProxy, "proxy.conf", text)
}

#[test]
fn a_whole_file() {
    let text = "\
# entry points
cluster 10.0.0.1:7000
entry-point :7001
PORT 7777
bind 127.0.0.1
bind ::1
unixsocket /run/proxy.sock
unixsocketperm 760
threads 8
tcpkeepalive 120
max-clients 500
auth \"hunter2 x\"
auth-user proxy
log-level warning
logfile \"\"
enable-cross-slot yes
daemonize no
";
    let (config, notes, _) = file(text).good();
    assert_eq!(upstream(&config), "redis-cluster://10.0.0.1:7000,localhost:7001");
    assert_eq!(passwords(&config), [Some("hunter2 x".to_owned())]);
    assert_eq!(config.upstream.urls().next().unwrap().user.as_deref(), Some("proxy"));
    assert_eq!(listen(&config), ["127.0.0.1:7777", "[::1]:7777", "unix:/run/proxy.sock"]);
    assert_eq!((config.unix_mode, config.workers, config.max_clients), (0o760, 8, 500));
    assert_eq!((config.timeouts.tcp_keepalive_s, config.log.level), (120, LogLevel::Warn));
    // Its clients need no password, whatever the nodes want.
    assert_eq!((config.password, config.log.file), (None, None));
    noted(&notes, &["proxy.conf:16:1: enable-cross-slot: "]);
    noted(&notes, &["proxy.conf:17:1: daemonize: "]);
    assert!(notes.iter().all(|note| !note.contains("hunter")));
}

#[test]
fn included_files_come_first_and_the_last_word_counts() {
    let files = file("threads 3\nbind 127.0.0.1\ncluster a:1\ninclude /etc/more.conf\n")
        .with("/etc/more.conf", "cluster b:2\nport 9\nthreads 5\n");
    let (config, notes, _) = files.good();
    assert_eq!(upstream(&config), "redis-cluster://b:2,a:1");
    assert_eq!((config.workers, listen(&config)), (3, vec!["127.0.0.1:9".to_owned()]));
    noted(&notes, &["/etc/more.conf:3:1: threads: is said again"]);
    assert_eq!(
        file("include a\n").with("a", "include proxy.conf\n").bad()[0],
        "a:1:1: include: proxy.conf includes itself"
    );
}

#[test]
fn without_bind_it_is_open_and_port_0_is_none() {
    let (config, notes, _) = file("cluster a:1\n").good();
    assert_eq!((listen(&config), config.protected_mode), (vec!["0.0.0.0:7777".to_owned()], false));
    noted(&notes, &["IPv6 as well"]);
    let (config, _, _) = file("cluster a:1\nport 0\nunixsocket /run/p\n").good();
    assert_eq!(listen(&config), ["unix:/run/p"]);
}

#[test]
fn mistakes_come_all_at_once_with_file_line_and_key() {
    let text = "\
thread 3
threads many
unixsocketperm 999
log-level loud
auth \"hunter2
include nowhere
cluster a:0
port x
";
    let mut bad = file(text).bad();
    let include = bad.remove(5);
    assert!(include.starts_with("proxy.conf:6:1: include: nowhere: cannot be read: "), "{include}");
    assert_eq!(
        bad,
        [
            "proxy.conf:1:1: thread: unknown key; did you mean `threads`?",
            "proxy.conf:2:1: threads: not a whole number from 0 up",
            "proxy.conf:3:1: unixsocketperm: permissions are an octal number up to 777",
            "proxy.conf:4:1: log-level: allowed: debug, info, success, warning, error",
            "proxy.conf:5:1: auth: not one value: a quote is not closed, or more stands behind it",
            "proxy.conf:7:1: cluster: the port is not a number from 1 to 65535",
            "proxy.conf:8:1: port: the port is not a number from 1 to 65535",
        ]
    );
    let bad = file("port 7\n").bad();
    assert!(
        bad[0].starts_with("proxy.conf:1:1: cluster: no node of the cluster is named"),
        "{bad:?}"
    );
    // What ours refuses is told at the line that it came from.
    let bad = file("cluster a:1\nauth-user u\n").bad();
    assert!(
        bad[0].starts_with("proxy.conf:2:1: auth-user: cannot become `upstream_user`: "),
        "{bad:?}"
    );
}

#[test]
fn each_key_of_the_source_does_something() {
    const KEYS: [(&str, &str); 27] = [
        ("cluster", "b:2"),
        ("entry-point", "b:2"),
        ("port", "8"),
        ("bind", "127.0.0.1"),
        ("unixsocket", "/run/p"),
        ("unixsocketperm", "700"),
        ("threads", "3"),
        ("tcpkeepalive", "7"),
        ("tcp-backlog", "7"),
        ("connections-pool-size", "7"),
        ("connections-pool-min-size", "7"),
        ("connections-pool-spawn-every", "7"),
        ("connections-pool-spawn-rate", "7"),
        ("daemonize", "yes"),
        ("pidfile", "x"),
        ("logfile", "x"),
        ("enable-cross-slot", "yes"),
        ("max-clients", "7"),
        ("maxclients", "7"),
        ("auth", "x"),
        ("log-level", "error"),
        ("dump-queries", "yes"),
        ("dump-buffer", "yes"),
        ("dump-queues", "yes"),
        ("disable-colors", "yes"),
        ("disable-multiplexing", "always"),
        ("help", ""),
    ];
    let texts: Vec<(&str, String)> =
        KEYS.iter().map(|(key, value)| (*key, format!("cluster a:1\n{key} {value}\n"))).collect();
    each_key_does_something(
        &file("cluster a:1\n"),
        texts.iter().map(|(key, text)| (*key, file(text))),
    );
}
