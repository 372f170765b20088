//! From an endpoint to a connection that is logged in; and single questions.
//!
//! All of it blocks, with a timeout on every step, and happens before anything is measured. The storm is the
//! exception: there the log-in is part of what is measured, and it takes the bytes of [`Greeting`] only.
//!
//! Invariant: a password is in the bytes that are sent and in no message.

use std::io::{self, ErrorKind};

use config::UpstreamUrl;
use resp::{Value, encode, value};

use super::stream::{Address, GREET_TIMEOUT, Stream};
use super::{Endpoint, LoadError};

/// Longest reply that is waited for: what `INFO` or `CLUSTER NODES` of a thousand nodes say is some hundred KiB.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// What a connection says first.
#[derive(Clone, Debug, Default)]
pub(super) struct Greeting {
    /// The requests.
    pub(super) bytes: Vec<u8>,
    /// The name of each, for messages.
    pub(super) commands: Vec<&'static str>,
}

impl Greeting {
    /// Protocol, user and database of an endpoint. `HELLO` is said for RESP3 only, since old proxies do not know it.
    pub(super) fn new(url: &UpstreamUrl, protocol: u8) -> Self {
        let mut greeting = Self::default();
        let password = url.password.as_ref().map(config::Secret::reveal);
        let user = url.user.as_deref().unwrap_or("default").as_bytes();
        match (protocol, password) {
            (3, None) => greeting.say("HELLO", &[b"HELLO", b"3"]),
            (3, Some(password)) => {
                greeting.say("HELLO", &[b"HELLO", b"3", b"AUTH", user, password]);
            }
            (_, None) => {}
            // The form with one argument, if no user is named: servers before 6 and most proxies know no other.
            (_, Some(password)) if url.user.is_none() => greeting.say("AUTH", &[b"AUTH", password]),
            (_, Some(password)) => greeting.say("AUTH", &[b"AUTH", user, password]),
        }
        if url.db != 0 {
            greeting.say("SELECT", &[b"SELECT", url.db.to_string().as_bytes()]);
        }
        greeting
    }

    fn say(&mut self, name: &'static str, args: &[&[u8]]) {
        encode::request(&mut self.bytes, args);
        self.commands.push(name);
    }
}

/// Finds the first address of the endpoint where a connection can log in.
pub(super) fn find(endpoint: &Endpoint, protocol: u8) -> Result<Address, LoadError> {
    let addresses = Address::resolve(&endpoint.url.address).map_err(|error| {
        LoadError::Connection(format!("{}: its name cannot be resolved: {error}", endpoint.url))
    })?;
    let mut last = LoadError::Connection(format!("{}: its name has no address", endpoint.url));
    for address in addresses {
        match connect(endpoint, &address, protocol, None) {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects and logs in. The stream is left blocking.
pub(super) fn connect(
    endpoint: &Endpoint,
    address: &Address,
    protocol: u8,
    receive_bytes: Option<usize>,
) -> Result<Stream, LoadError> {
    let failed = |error: io::Error| unreachable(endpoint, &error);
    let socket = address.dial(false, receive_bytes).map_err(failed)?;
    let stream = Stream::new(socket, endpoint.tls.as_ref());
    let mut stream =
        stream.map_err(|error| LoadError::Connection(format!("{}: TLS: {error}", endpoint.url)))?;
    let greeting = Greeting::new(&endpoint.url, protocol);
    write_all(&mut stream, &greeting.bytes).map_err(failed)?;
    let mut received = Vec::new();
    for command in greeting.commands {
        let reply = read_reply(endpoint, &mut stream, &mut received)?;
        refuse_error(command, &reply)?;
    }
    Ok(stream)
}

/// Sends one request and returns its reply, an error reply included.
pub(super) fn exchange(
    endpoint: &Endpoint,
    stream: &mut Stream,
    request: &[u8],
) -> Result<Vec<u8>, LoadError> {
    write_all(stream, request).map_err(|error| unreachable(endpoint, &error))?;
    read_reply(endpoint, stream, &mut Vec::new())
}

/// Makes an error of a reply that is one.
pub(super) fn refuse_error(command: &str, reply: &[u8]) -> Result<(), LoadError> {
    match value::parse(reply) {
        Ok(Some((value, _))) => match value.as_error() {
            Some(text) => Err(LoadError::ErrorReply {
                command: command.to_owned(),
                text: String::from_utf8_lossy(text).into_owned(),
            }),
            None => Ok(()),
        },
        Ok(None) => Ok(()),
        Err(error) => {
            Err(LoadError::Protocol(format!("the reply to `{command}` is no RESP: {error}")))
        }
    }
}

/// A reply as text: of an array one element a line, of a map a key and its value on a line each.
pub(super) fn text(value: &Value<'_>) -> String {
    let lines = |list: &[Value<'_>]| list.iter().map(text).collect::<Vec<_>>().join("\n");
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Null => String::new(),
        Value::Bool(is) => is.to_string(),
        Value::Double(text) | Value::BigNumber(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Array(list) | Value::Set(list) | Value::Push(list) => lines(list),
        Value::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| format!("{}\n{}", text(key), text(value)))
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Simple(text)
        | Value::Bulk(text)
        | Value::Verbatim { text, .. }
        | Value::Error(text)
        | Value::BulkError(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

/// What a person should know about a connection that did not come about or went away.
pub(super) fn unreachable(endpoint: &Endpoint, error: &io::Error) -> LoadError {
    let url = &endpoint.url;
    LoadError::Connection(match error.kind() {
        ErrorKind::ConnectionRefused => format!("{url}: nobody listens there (connection refused)"),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("{url}: no answer within {} s", GREET_TIMEOUT.as_secs())
        }
        ErrorKind::AddrNotAvailable => format!(
            "{url}: this machine has no source port left for another connection; closed ones keep theirs for a minute \
             unless net.ipv4.tcp_tw_reuse is 1 or 2"
        ),
        _ => format!("{url}: {error}"),
    })
}

fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = stream.write(bytes)?;
        bytes = bytes.get(written..).unwrap_or(&[]);
    }
    stream.flush()
}

/// Takes the next reply out of `received`, reading as long as it is not complete.
fn read_reply(
    endpoint: &Endpoint,
    stream: &mut Stream,
    received: &mut Vec<u8>,
) -> Result<Vec<u8>, LoadError> {
    let mut chunk = [0; 16 * 1024];
    loop {
        let parsed = value::parse(received).map_err(|error| {
            LoadError::Protocol(format!("{}: what it sends is no RESP: {error}", endpoint.url))
        })?;
        if let Some(len) = parsed.map(|(_, len)| len) {
            let rest = received.split_off(len);
            return Ok(std::mem::replace(received, rest));
        }
        if received.len() > REPLY_BYTES_MAX {
            return Err(LoadError::Protocol(format!(
                "{}: a reply of more than 16 MiB",
                endpoint.url
            )));
        }
        let read = stream.read(&mut chunk).map_err(|error| unreachable(endpoint, &error))?;
        if read == 0 {
            return Err(LoadError::Connection(format!(
                "{}: it closed the connection at once",
                endpoint.url
            )));
        }
        received.extend_from_slice(chunk.get(..read).unwrap_or(&[]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(url: &str, protocol: u8) -> String {
        let url = UpstreamUrl::parse(url).expect("URL");
        String::from_utf8(Greeting::new(&url, protocol).bytes).expect("ASCII")
    }

    #[test]
    fn nothing_is_said_without_need() {
        assert_eq!(said("redis://127.0.0.1:1", 2), "");
        assert_eq!(said("redis://127.0.0.1:1", 3), "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
    }

    #[test]
    fn users_and_databases() {
        assert_eq!(said("redis://:pw@127.0.0.1:1", 2), "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n");
        assert_eq!(
            said("redis://ann:pw@127.0.0.1:1/3", 2),
            "*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$2\r\npw\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
        );
        assert!(said("redis://:pw@127.0.0.1:1", 3).contains("AUTH\r\n$7\r\ndefault\r\n$2\r\npw"));
    }

    #[test]
    fn replies_become_text() {
        let show = |bytes: &[u8]| text(&value::parse(bytes).expect("RESP").expect("whole").0);
        assert_eq!(show(b"*3\r\n$1\r\na\r\n:5\r\n*2\r\n+b\r\n$-1\r\n"), "a\n5\nb\n");
        assert_eq!(show(b"%1\r\n+k\r\n#t\r\n"), "k\ntrue");
    }
}
