//! What programs say, looked at before it is used: replies for clients, requests for servers, texts of errors.
//!
//! A reply that is not exactly one would be given to the next request, and a request that is not exactly one would bring a reply too many; so
//! nothing of a program goes on that was not read to its last byte.
//!
//! Not here: what becomes of it (`judge`).
//!
//! Invariant: what passes here is one whole frame that its receiver can read, within its bound.

use crate::limits::{OWN_ERROR_BYTES_MAX, OWN_FRAME_BYTES_MAX};
use alloc::vec::Vec;
use resp::{Args, Form, Protocol, ReplyScanner, RequestLimits, RequestScanner, Scan, number};

/// Whether this is one reply for a client of this protocol. No push and no attribute is one.
pub(super) fn is_reply(bytes: &[u8], protocol: Protocol) -> bool {
    let whole = match ReplyScanner::default().scan(bytes) {
        Ok(Scan::Complete { consumed, .. }) => consumed == bytes.len(),
        _ => false,
    };
    whole && bytes.len() <= OWN_FRAME_BYTES_MAX && has_types_of(bytes, protocol)
}

/// Whether all that stands in this frame, which is whole, is known to the protocol. Elements of what is nested follow one another, so one
/// walk over the lines sees them all.
fn has_types_of(mut rest: &[u8], protocol: Protocol) -> bool {
    while let Some((kind, after)) = rest.split_first() {
        let known: &[u8] = match protocol {
            Protocol::Resp2 => b"+-:$*",
            Protocol::Resp3 => b"+-:$*_#,(!=%~",
        };
        let Some(end) = memchr::memchr(b'\n', after) else { return false };
        let line = after[..end].strip_suffix(b"\r").unwrap_or(&after[..end]);
        rest = &after[end + 1..];
        if !known.contains(kind) {
            return false;
        }
        if !matches!(kind, b'$' | b'*' | b'!' | b'=' | b'%' | b'~') {
            continue;
        }
        // One whose length comes piece by piece is none that a client of ours expects.
        let Some(len) = number::parse_i64(line) else { return false };
        if let (b'$' | b'!' | b'=', Ok(len)) = (kind, usize::try_from(len)) {
            let Some(more) = len.checked_add(2).and_then(|len| rest.get(len..)) else {
                return false;
            };
            rest = more;
        }
    }
    true
}

/// The arguments of a request, if it is one.
pub(super) fn request(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    if bytes.len() > OWN_FRAME_BYTES_MAX {
        return None;
    }
    match RequestScanner::default().scan(bytes, &RequestLimits::default()) {
        Ok(Scan::Complete { consumed, frame })
            if consumed == bytes.len() && frame.form != Form::Inline && frame.args > 0 =>
        {
            Some(Args::new(bytes).collect())
        }
        _ => None,
    }
}

/// The text of an error, with its code; `None`: it is none.
pub(super) fn error(text: &[u8]) -> Option<Vec<u8>> {
    let fits = (1..=OWN_ERROR_BYTES_MAX).contains(&text.len());
    if !fits || text.iter().any(u8::is_ascii_control) {
        return None;
    }
    let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let has_code = !code.is_empty() && code.iter().all(u8::is_ascii_uppercase);
    let begin: &[u8] = if has_code { b"" } else { b"ERR " };
    Some([begin, text].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Protocol::{Resp2, Resp3};

    #[test]
    fn a_reply_is_one_and_whole_and_of_its_protocol() {
        for right in [
            &b"+OK\r\n"[..],
            b"-ERR no\r\n",
            b":1\r\n",
            b"$-1\r\n",
            b"$2\r\n\r\n\r\n",
            b"*-1\r\n",
            b"*2\r\n$1\r\n>\r\n*1\r\n:1\r\n",
        ] {
            assert!(is_reply(right, Resp2) && is_reply(right, Resp3), "{right:?}");
        }
        for new in
            [&b"_\r\n"[..], b"*1\r\n#t\r\n", b"%1\r\n+a\r\n,1.5\r\n", b"~1\r\n=5\r\ntxt:a\r\n"]
        {
            assert!(!is_reply(new, Resp2) && is_reply(new, Resp3), "{new:?}");
        }
        for wrong in [
            &b""[..],
            b"OK",
            b"+OK",
            b"+OK\r\n+OK\r\n",
            b"$3\r\nab\r\n",
            b"*2\r\n:1\r\n",
            b">1\r\n+a\r\n",
            b"*1\r\n>1\r\n+a\r\n",
            b"|1\r\n+a\r\n+b\r\n+c\r\n",
            b"$?\r\n;0\r\n",
            b"*?\r\n.\r\n",
            b"*1000000000\r\n",
        ] {
            assert!(!is_reply(wrong, Resp2) && !is_reply(wrong, Resp3), "{wrong:?}");
        }
        let mut large = alloc::format!("${}\r\n", OWN_FRAME_BYTES_MAX).into_bytes();
        large.resize(large.len() + OWN_FRAME_BYTES_MAX, b'x');
        large.extend_from_slice(b"\r\n");
        assert!(!is_reply(&large, Resp2));
    }

    #[test]
    fn a_request_is_one_array_of_strings() {
        assert_eq!(
            request(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
            Some(alloc::vec![&b"GET"[..], b"k"])
        );
        for wrong in [
            &b""[..],
            b"GET k\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*1\r\n$1\r\na",
            b"*1\r\n$1\r\na\r\n+",
            b"+OK\r\n",
        ] {
            assert_eq!(request(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_error_is_one_line_with_a_code() {
        assert_eq!(error(b"NOPE not here").as_deref(), Some(&b"NOPE not here"[..]));
        assert_eq!(error(b"not here").as_deref(), Some(&b"ERR not here"[..]));
        assert_eq!(error(b" x").as_deref(), Some(&b"ERR  x"[..]));
        for wrong in [&b""[..], b"a\r\n+OK", b"a\x00b", &[b'x'; OWN_ERROR_BYTES_MAX + 1]] {
            assert_eq!(error(wrong), None);
        }
    }
}
