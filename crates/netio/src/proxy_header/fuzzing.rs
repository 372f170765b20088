//! The reader of headers, fed in pieces, against an oracle that has all bytes before it and is written as the protocol is.
//!
//! Here and not in `fuzz/`, so that the committed seeds are replayed by `cargo test` with the very same code.
//! Compiled for tests and fuzzing only.
//!
//! Invariant: each function returns for every input, or panics because the reader and the oracle differ.

use super::{HEADER_BYTES_MAX, HeaderError, HeaderReader, Origin};
use std::net::{Ipv4Addr, Ipv6Addr};

type Outcome = Result<Option<(usize, Origin)>, HeaderError>;

/// Fuzz target: the first two bytes are the sizes of the pieces, the rest is what a connection begins with.
pub fn proxy_header(data: &[u8]) {
    let Some(([first, second], stream)) = data.split_first_chunk::<2>() else { return };
    compare(stream, &[usize::from(*first), usize::from(*second)]);
}

/// The stream in pieces of these sizes, over and over, reads as the oracle reads it; 0 stands for all that is left.
pub fn compare(stream: &[u8], pieces: &[usize]) {
    let mut reader = HeaderReader::default();
    let (mut at, mut sizes) = (0, pieces.iter().cycle());
    let mut outcome = Ok(None);
    while at < stream.len() && outcome == Ok(None) {
        let size = sizes.next().copied().filter(|size| *size > 0).unwrap_or(stream.len());
        let piece = &stream[at..stream.len().min(at + size)];
        outcome = reader.read(piece).map(|end| end.map(|(used, from)| (at + used, from)));
        at += piece.len();
    }
    assert_eq!(outcome, oracle(stream), "{:?} in {pieces:?}", String::from_utf8_lossy(stream));
}

fn oracle(all: &[u8]) -> Outcome {
    let begins = |start: &[u8]| {
        let len = all.len().min(start.len());
        all[..len] == start[..len]
    };
    if begins(b"\r\n\r\n\0\r\nQUIT\n") {
        return version_2(all);
    }
    if !begins(b"PROXY ") {
        return Err(HeaderError::Missing);
    }
    let line_end = all.iter().take(107).position(|byte| matches!(byte, b'\r' | b'\n'));
    match line_end.map(|end| (end, all[end], all.get(end + 1))) {
        Some((end, b'\r', Some(b'\n'))) if end + 2 <= 107 => {
            let text = String::from_utf8(all[..end].to_vec()).map_err(|_| HeaderError::Broken)?;
            line(&text).map(|from| Some((end + 2, from)))
        }
        // Half of an end, and room for the other half.
        Some((end, b'\r', None)) if end + 2 <= 107 => Ok(None),
        Some(_) => Err(HeaderError::Broken),
        None if all.len() >= 107 => Err(HeaderError::Broken),
        None => Ok(None),
    }
}

fn line(text: &str) -> Result<Origin, HeaderError> {
    if text == "PROXY UNKNOWN" || text.starts_with("PROXY UNKNOWN ") {
        return Ok(Origin::Itself);
    }
    let words: Vec<&str> = text.split(' ').collect();
    let [_, family, from, to, port, to_port] = words[..] else { return Err(HeaderError::Broken) };
    let number = |text: &str| text.parse::<u16>().ok().filter(|number| number.to_string() == text);
    let (Some(port), Some(_)) = (number(port), number(to_port)) else {
        return Err(HeaderError::Broken);
    };
    let ip: Option<std::net::IpAddr> = match family {
        "TCP4" => to.parse::<Ipv4Addr>().and(from.parse::<Ipv4Addr>()).ok().map(Into::into),
        "TCP6" => to.parse::<Ipv6Addr>().and(from.parse::<Ipv6Addr>()).ok().map(Into::into),
        _ => None,
    };
    ip.map(|ip| Origin::Tcp((ip, port).into())).ok_or(HeaderError::Broken)
}

fn version_2(all: &[u8]) -> Outcome {
    let [_, .., command, family, high, low] = all[..all.len().min(16)] else { return Ok(None) };
    if all.len() < 16 {
        return Ok(None);
    }
    let len = usize::from(high) * 256 + usize::from(low);
    let needed = match (command, family) {
        (0x20, _) | (0x21, 0) => 0,
        (0x21, 0x11) => 12,
        (0x21, 0x21) => 36,
        (0x21, 0x31) => 216,
        _ => return Err(HeaderError::Broken),
    };
    if len < needed || 16 + len > HEADER_BYTES_MAX {
        return Err(HeaderError::Broken);
    }
    let Some(body) = all.get(16..16 + len) else { return Ok(None) };
    let port = |at: usize| u16::from(body[at]) * 256 + u16::from(body[at + 1]);
    let from = match (command, family) {
        (0x20, _) | (_, 0) => Origin::Itself,
        (_, 0x11) => {
            Origin::Tcp((Ipv4Addr::new(body[0], body[1], body[2], body[3]), port(8)).into())
        }
        (_, 0x21) => {
            let groups: Vec<u16> = (0..8).map(|group| port(2 * group)).collect();
            let groups: [u16; 8] = groups.try_into().unwrap_or_default();
            Origin::Tcp((Ipv6Addr::from(groups), port(32)).into())
        }
        _ => {
            let path = body[..108].split(|byte| *byte == 0).next().unwrap_or_default();
            Origin::Unix(
                path.iter().filter(|b| (33..127).contains(*b)).map(|b| *b as char).collect(),
            )
        }
    };
    Ok(Some((16 + len, from)))
}

/// A header as some balancer may send it; `number` gives numbers below 2^32.
pub fn some_header(number: &mut impl FnMut() -> u64) -> Vec<u8> {
    let v4 = |number: u64| Ipv4Addr::from(number as u32);
    let v6 = |number: u64| Ipv6Addr::from(u128::from(number) << 90 | 5);
    let kind = number() % 8;
    if kind < 4 {
        let (from, to, port, to_port) = (number(), number(), number() % 65_537, number() % 65_536);
        let text = match kind {
            0 => format!("PROXY TCP4 {} {} {port} {to_port}\r\n", v4(from), v4(to)),
            1 => format!("PROXY TCP6 {} {} {port} {to_port}\r\n", v6(from), v6(to)),
            2 => "PROXY UNKNOWN\r\n".to_owned(),
            _ => format!("PROXY UNKNOWN {}\r\n", "x".repeat((number() % 100) as usize)),
        };
        return text.into_bytes();
    }
    let (family, needed) = [(0x11, 12), (0x21, 36), (0x31, 216), (0x00, 0)][kind as usize - 4];
    let more = if number().is_multiple_of(4) { number() % 9000 } else { number() % 40 };
    let body: Vec<u8> = (0..needed + more).map(|at| (at as u8).wrapping_mul(7)).collect();
    let command = if number().is_multiple_of(6) { 0x20 } else { 0x21 };
    let len = (body.len() as u16).to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len, &body].concat()
}
