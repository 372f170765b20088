//! What a test's set-up asks servers: with a password if they want one, replies as text, errors as
//! `Err` in words.
//!
//! [`Conn`] shows replies as the raw bytes that they are, because tests compare bytes. Whoever
//! builds a cluster wants the text of `CLUSTER INFO` instead. This is the little between the two.
//! It reads simple strings, integers, bulk strings and flat arrays of bulk strings; nothing of the
//! set-up needs more.
//!
//! Invariant: no error reply comes back as `Ok`.

use std::io;
use std::time::Duration;

use crate::conn::Conn;
use crate::endpoint::Endpoint;
use crate::frames::quote;

/// How long a server may take for one question of the set-up. A paused server would otherwise hold
/// the test for the connection's own, much longer, timeout.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// Who the servers let in. The default is everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Login {
    /// The default user with a password (`requirepass`).
    pub fn with_password(password: &str) -> Self {
        Self { user: None, password: Some(password.to_owned()) }
    }

    /// A user of the ACL. The default user is then off.
    pub fn with_user(user: &str, password: &str) -> Self {
        Self { user: Some(user.to_owned()), password: Some(password.to_owned()) }
    }

    /// Connects and authenticates.
    ///
    /// # Errors
    /// What the operating system says; `PermissionDenied` when the server refuses the password.
    pub fn connect(&self, endpoint: &Endpoint) -> io::Result<Conn> {
        let mut conn = Conn::open(endpoint)?;
        conn.set_timeout(ASK_TIMEOUT);
        if let Some(password) = &self.password {
            let mut args = vec!["AUTH"];
            args.extend(self.user.as_deref());
            args.push(password);
            let reply = conn.command(&args)?;
            if reply != b"+OK\r\n" {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, quote(&reply, 200)));
            }
        }
        Ok(conn)
    }

    /// As [`Login::connect`], with the place in the error.
    pub(crate) fn open(&self, endpoint: &Endpoint) -> Result<Conn, String> {
        self.connect(endpoint).map_err(|error| format!("{endpoint:?}: {error}"))
    }

    /// The part of a URL before the host: empty, `:password@` or `user:password@`. Passwords of
    /// tests need no escapes.
    pub fn url_part(&self) -> String {
        match (&self.user, &self.password) {
            (_, None) => String::new(),
            (user, Some(password)) => format!("{}:{password}@", user.as_deref().unwrap_or("")),
        }
    }

    /// Arguments that make a server ask for this login, and use it towards its primary.
    pub(crate) fn server_args(&self) -> Vec<String> {
        let Some(password) = &self.password else {
            return Vec::new();
        };
        let mut words = vec!["--masterauth", password];
        let secret = format!(">{password}");
        match &self.user {
            None => words.extend(["--requirepass", password]),
            Some(user) => {
                words.extend(["--masteruser", user, "--user", "default", "off"]);
                words.extend(["--user", user, "on", &secret, "~*", "&*", "+@all"]);
            }
        }
        words.into_iter().map(str::to_owned).collect()
    }

    /// The words that `MIGRATE` wants before `KEYS`.
    pub(crate) fn migrate_args(&self) -> Vec<&str> {
        match (&self.user, &self.password) {
            (_, None) => Vec::new(),
            (None, Some(password)) => vec!["AUTH", password],
            (Some(user), Some(password)) => vec!["AUTH2", user, password],
        }
    }

    /// The user's name and the password, where there are any.
    pub(crate) fn parts(&self) -> (Option<&str>, Option<&str>) {
        (self.user.as_deref(), self.password.as_deref())
    }
}

/// Asks and gives the reply as text: the line of a simple string or integer, the content of a bulk
/// string.
///
/// # Errors
/// An error reply, a reply of another form, or a broken connection, in words that name the request.
pub fn text<A: AsRef<[u8]>>(conn: &mut Conn, args: &[A]) -> Result<String, String> {
    let reply = whole(conn, args)?;
    let content = match reply.first() {
        Some(b'+' | b':') => &reply[1..reply.len() - 2],
        Some(b'$' | b'=') => bulk(&reply).map(|(content, _)| content).unwrap_or_default(),
        _ => return Err(format!("{}: unexpected {}", name(args), quote(&reply, 200))),
    };
    Ok(String::from_utf8_lossy(content).into_owned())
}

/// Asks for a flat array of bulk strings. A null array is an empty one; a null within is empty too.
///
/// # Errors
/// As [`text`].
pub fn list<A: AsRef<[u8]>>(conn: &mut Conn, args: &[A]) -> Result<Vec<Vec<u8>>, String> {
    let reply = whole(conn, args)?;
    let unexpected = || format!("{}: unexpected {}", name(args), quote(&reply, 200));
    if reply.first() != Some(&b'*') {
        return Err(unexpected());
    }
    let mut rest = &reply[line_end(&reply).ok_or_else(unexpected)?..];
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (content, behind) = bulk(rest).ok_or_else(unexpected)?;
        items.push(content.to_vec());
        rest = behind;
    }
    Ok(items)
}

/// The value of `name:value` in a text of such lines, as INFO and CLUSTER INFO give.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// How often a command was executed, by the text of INFO commandstats. Redirected (`-MOVED`) and
/// otherwise rejected calls do not count there.
pub(crate) fn calls_in(info: &str, command: &str) -> u64 {
    let line = field(info, &format!("cmdstat_{}", command.to_ascii_lowercase()));
    line.and_then(|line| line.strip_prefix("calls=")?.split(',').next()?.parse().ok()).unwrap_or(0)
}

fn whole<A: AsRef<[u8]>>(conn: &mut Conn, args: &[A]) -> Result<Vec<u8>, String> {
    let reply = conn.command(args).map_err(|error| format!("{}: {error}", name(args)))?;
    match reply.first() {
        Some(b'-' | b'!') => Err(format!("{}: {}", name(args), quote(&reply, 400))),
        _ => Ok(reply),
    }
}

/// A bulk string (or null, read as empty) at the start, and what is behind it.
fn bulk(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line_end(bytes)?;
    let len: i64 = std::str::from_utf8(&bytes[1..start - 2]).ok()?.parse().ok()?;
    // A null (-1) has no content and no line end of its own.
    match usize::try_from(len) {
        Ok(len) => Some((bytes.get(start..start + len)?, bytes.get(start + len + 2..)?)),
        Err(_) => Some((&[], &bytes[start..])),
    }
}

/// The index behind the first line end.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n").map(|at| at + 2)
}

/// The first words of a request, for messages.
fn name<A: AsRef<[u8]>>(args: &[A]) -> String {
    let words = args.iter().take(4).map(|arg| String::from_utf8_lossy(arg.as_ref()).into_owned());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::RedisServer;

    #[test]
    fn texts_lists_and_errors() {
        let server = RedisServer::start();
        let mut conn = Login::default().connect(server.endpoint()).expect("connect");
        assert_eq!(text(&mut conn, &["PING"]), Ok("PONG".to_owned()));
        assert_eq!(text(&mut conn, &["RPUSH", "l", "a", "", "b\r\nc"]), Ok("3".to_owned()));
        let items = list(&mut conn, &["LRANGE", "l", "0", "-1"]).expect("a list");
        assert_eq!(items, [b"a".to_vec(), b"".to_vec(), b"b\r\nc".to_vec()]);
        assert_eq!(list(&mut conn, &["MGET", "no"]), Ok(vec![Vec::new()]));
        assert_eq!(list(&mut conn, &["LRANGE", "no", "0", "-1"]), Ok(Vec::new()));
        let error = text(&mut conn, &["INCR", "l"]).expect_err("wrong type");
        assert!(error.starts_with("INCR l: \"-WRONGTYPE"), "{error}");
        assert!(list(&mut conn, &["PING"]).is_err(), "no list");

        let info = text(&mut conn, &["INFO", "all"]).expect("info");
        assert_eq!(field(&info, "tcp_port"), Some(&*server.endpoint().tcp().port().to_string()));
        assert_eq!((calls_in(&info, "MGET"), calls_in(&info, "LPOP")), (1, 0));
    }

    #[test]
    fn logins_open_the_servers_that_they_describe() {
        for login in [Login::with_password("secret"), Login::with_user("app", "secret")] {
            let args = login.server_args();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let server = RedisServer::start_with(&args);
            let mut stranger = Conn::to(server.endpoint());
            assert!(text(&mut stranger, &["GET", "k"]).is_err(), "{login:?}");
            let mut conn = login.connect(server.endpoint()).expect("the password is right");
            assert_eq!(text(&mut conn, &["SET", "k", "v"]), Ok("OK".to_owned()));
            let wrong = Login { password: Some("wrong".to_owned()), ..login };
            let error = wrong.connect(server.endpoint()).expect_err("the password is wrong");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(Login::with_user("app", "x").url_part(), "app:x@");
        assert_eq!(Login::with_password("x").url_part(), ":x@");
    }
}
