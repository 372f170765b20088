//! The model's commands on the connection itself: greeting, authentication, database, names, and
//! what it tells of itself.
//!
//! Invariant: only [`hello`] and [`reset`] change the protocol, only [`select`] and [`reset`] the
//! database.

use resp::{Protocol, encode};

use super::{Call, DATABASES, Replies, VERSION, table, tracking};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

pub(super) fn ping(call: &mut Call<'_>) {
    // A client in RESP2 that listens gets it in the shape of a message.
    let listens =
        call.conn.protocol == Protocol::Resp2 && call.model.listeners.listens(call.conn.id);
    match call.args.len() {
        1 | 2 if listens => {
            encode::array(call.out, 2);
            encode::bulk(call.out, b"pong");
            encode::bulk(call.out, call.args.get(1).map_or(&[], Vec::as_slice));
        }
        1 => encode::simple(call.out, b"PONG"),
        2 => encode::bulk(call.out, &call.args[1]),
        _ => table::wrong_arity(call, "ping"),
    }
}

// The reply still goes out; what comes behind QUIT in the same packet is not executed.
pub(super) fn quit(call: &mut Call<'_>) {
    call.conn.closing = true;
    call.ok();
}

// RESET takes back everything that the connection has chosen, authentication included (Redis 6.2).
pub(super) fn reset(call: &mut Call<'_>) {
    call.conn.protocol = Protocol::Resp2;
    call.conn.database = 0;
    call.conn.name.clear();
    call.conn.queue = None;
    call.conn.watched.clear();
    call.conn.replies = Replies::On;
    call.model.listeners.forget(call.conn.id);
    call.model.trackers.forget(call.conn.id);
    (call.conn.authenticated, call.conn.user) = (call.model.password.is_none(), None);
    encode::simple(call.out, b"RESET");
}

// A number that is none and one out of range have different texts since Redis 6.
pub(super) fn select(call: &mut Call<'_>) {
    let Some(number) = resp::number::parse_i64(&call.args[1]) else {
        return call.error("ERR value is not an integer or out of range");
    };
    match u32::try_from(number) {
        Ok(number) if (number as usize) < DATABASES => {
            call.conn.database = number;
            call.ok();
        }
        _ => call.error("ERR DB index is out of range"),
    }
}

// Two forms: the password of the default user, or (since Redis 6) user and password.
pub(super) fn auth(call: &mut Call<'_>) {
    let (user, password) = match call.args {
        [_, password] if call.model.password.is_none() => {
            let _ = password;
            return call.error(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            );
        }
        [_, password] => (b"default".to_vec(), password.clone()),
        [_, user, password] => (user.clone(), password.clone()),
        _ => return call.error("ERR syntax error"),
    };
    if login(call, &user, &password) {
        call.ok();
    } else {
        call.error(WRONG_PASSWORD);
    }
}

fn login(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> bool {
    if call.model.users.iter().any(|(name, own)| name == user && own == password) {
        (call.conn.authenticated, call.conn.user) = (true, Some(user.to_vec()));
        return true;
    }
    // Without a configured password the default user takes any, as the server's `nopass` does.
    let right = call.model.password.as_deref().is_none_or(|wanted| wanted == password);
    let valid = user == b"default" && right;
    call.conn.authenticated |= valid;
    if valid {
        call.conn.user = None;
    }
    valid
}

// HELLO is all or nothing: version and options are checked first, then the login, and only then
// anything changes. That order decides which of several errors a client sees.
pub(super) fn hello(call: &mut Call<'_>) {
    let protocol = match call.args.get(1).map(|text| resp::number::parse_i64(text)) {
        None => call.conn.protocol,
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return call.error("NOPROTO unsupported protocol version"),
        Some(None) => {
            return call.error("ERR Protocol version is not an integer or out of range");
        }
    };
    let Some(options) = hello_options(call) else { return };
    if let Some((user, password)) = options.login
        && !login(call, &user, &password)
    {
        return call.error(WRONG_PASSWORD);
    }
    if !call.conn.authenticated {
        return call.error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        );
    }
    if let Some(name) = options.name {
        call.conn.name = name;
    }
    call.conn.protocol = protocol;
    greet(call);
}

struct HelloOptions {
    login: Option<(Vec<u8>, Vec<u8>)>,
    name: Option<Vec<u8>>,
}

/// The options behind the version, or `None` after an error reply.
fn hello_options(call: &mut Call<'_>) -> Option<HelloOptions> {
    let mut options = HelloOptions { login: None, name: None };
    let mut at = 2;
    while at < call.args.len() {
        match (call.word(at).as_str(), call.args.len() - at) {
            ("auth", 3..) => {
                options.login = Some((call.args[at + 1].clone(), call.args[at + 2].clone()));
                at += 3;
            }
            ("setname", 2..) if is_name(&call.args[at + 1]) => {
                options.name = Some(call.args[at + 1].clone());
                at += 2;
            }
            ("setname", 2..) => {
                call.error(BAD_NAME);
                return None;
            }
            _ => {
                let word = String::from_utf8_lossy(&call.args[at]).into_owned();
                call.error(&format!("ERR Syntax error in HELLO option '{word}'"));
                return None;
            }
        }
    }
    Some(options)
}

// The order of the fields is the server's; some clients read them by position.
fn greet(call: &mut Call<'_>) {
    let protocol = call.conn.protocol;
    encode::map(call.out, 7, protocol);
    let mut text = |name: &str, value: &str| {
        encode::bulk(call.out, name.as_bytes());
        encode::bulk(call.out, value.as_bytes());
    };
    text("server", "redis");
    text("version", VERSION);
    encode::bulk(call.out, b"proto");
    call.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    encode::bulk(call.out, b"id");
    call.integer(i64::try_from(call.conn.id).unwrap_or(i64::MAX));
    let face = call.conn.face;
    for (name, value) in [("mode", face.mode()), ("role", face.role())] {
        encode::bulk(call.out, name.as_bytes());
        encode::bulk(call.out, value.as_bytes());
    }
    encode::bulk(call.out, b"modules");
    encode::array(call.out, 0);
}

// The offset counts nothing here: copies are never behind.
pub(super) fn role(call: &mut Call<'_>) {
    encode::array(call.out, 3);
    encode::bulk(call.out, b"master");
    call.integer(0);
    encode::array(call.out, 0);
}

/// CLIENT with ID, GETNAME, SETNAME, SETINFO, NO-EVICT, NO-TOUCH, REPLY, TRACKING and CACHING.
pub(super) fn client(call: &mut Call<'_>) {
    let sub = call.name(1);
    let args_wanted = match sub.as_str() {
        "id" | "getname" => 2,
        "setname" | "no-evict" | "no-touch" => 3,
        "setinfo" => 4,
        "tracking" if call.args.len() >= 3 => return tracking::client_tracking(call),
        "tracking" => 3,
        "caching" if call.args.len() == 3 && call.word(2) == "yes" => {
            return tracking::client_caching(call);
        }
        "caching" => 3,
        "reply" if call.args.len() == 3 => return client_reply(call),
        "reply" => 3,
        _ => {
            let text = String::from_utf8_lossy(&call.args[1]).into_owned();
            return call.error(&format!("ERR unknown subcommand '{text}'. Try CLIENT HELP."));
        }
    };
    if call.args.len() != args_wanted {
        return table::wrong_arity(call, &format!("client|{sub}"));
    }
    match sub.as_str() {
        "id" => call.integer(i64::try_from(call.conn.id).unwrap_or(i64::MAX)),
        "getname" => {
            let name = call.conn.name.clone();
            call.bulk_or_null((!name.is_empty()).then_some(&name));
        }
        "setname" if !is_name(&call.args[2]) => call.error(BAD_NAME),
        "setname" => {
            call.conn.name = call.args[2].clone();
            call.ok();
        }
        _ => call.ok(),
    }
}

fn client_reply(call: &mut Call<'_>) {
    call.conn.replies = match call.word(2).as_str() {
        "on" => Replies::On,
        "off" => Replies::Off,
        "skip" => Replies::Skip,
        _ => return call.error("ERR syntax error"),
    };
    call.ok();
}

/// Whether the server takes a client name: printable ASCII without the space, or nothing at all.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

// The clock is given from outside, so that a simulated run is the same each time.
pub(super) fn time(call: &mut Call<'_>) {
    let (seconds, micros) = (call.model.time_us / 1_000_000, call.model.time_us % 1_000_000);
    encode::array(call.out, 2);
    encode::bulk(call.out, seconds.to_string().as_bytes());
    encode::bulk(call.out, micros.to_string().as_bytes());
}

/// INFO in little: the fields that clients and proxies look at before they start.
pub(super) fn info(call: &mut Call<'_>) {
    let text = format!(
        "# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\n\r\n# Persistence\r\n\
         loading:0\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
    );
    encode::verbatim(call.out, *b"txt", text.as_bytes(), call.conn.protocol);
}
