//! What is in a reply.
//!
//! Not here: whether that is right (the module above).
//!
//! Invariant: a reply of another kind is an error, never a value.

pub(super) fn integer(reply: &[u8]) -> Result<i64, String> {
    let digits = reply.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b"\r\n"));
    digits.and_then(resp::number::parse_i64).ok_or_else(|| "must be an integer".to_owned())
}

/// The bytes of a bulk, `None` for a null of either protocol.
pub(super) fn bulk(reply: &[u8]) -> Result<Option<&[u8]>, String> {
    if reply == b"$-1\r\n" || reply == b"_\r\n" {
        return Ok(None);
    }
    let line = reply.iter().position(|byte| *byte == b'\n');
    let body = line.and_then(|line| reply[line + 1..].strip_suffix(b"\r\n"));
    match body {
        Some(body) if reply.starts_with(b"$") => Ok(Some(body)),
        _ => Err("must be a bulk".to_owned()),
    }
}

/// Whether a reply is what a direct connection gives. In a namespace, and behind a route that removes its prefix, what neither respool nor `COMMAND` knows is refused by respool, and the models do not tell
/// `COMMAND`.
pub(super) fn is_as_direct(reply: &[u8], reference: &[u8]) -> bool {
    const REFUSED: [&[u8]; 2] = [
        b"-ERR respool: 'no.such' cannot be used in a namespace (policies.namespace)\r\n",
        b"-ERR respool: 'no.such' cannot be used where the route removes its prefix, since it is not known here what it tells of keys (sharding.remove_prefix)\r\n",
    ];
    let is_refused =
        REFUSED.contains(&reply) && reference.starts_with(b"-ERR unknown command 'NO.SUCH'");
    is_refused || without_id(reference) == without_id(reply)
}

/// A greeting without the id, which is the proxy's own.
fn without_id(reply: &[u8]) -> Vec<u8> {
    let Some(at) = reply.windows(5).position(|at| at == b"id\r\n:") else { return reply.to_vec() };
    let digits = reply[at + 5..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    [&reply[..at + 5], &reply[at + 5 + digits..]].concat()
}
