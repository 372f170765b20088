//! The header of the PROXY protocol, versions 1 and 2: who a connection really comes from, told by a balancer in front.
//!
//! ```text
//!   v1   PROXY TCP4 10.1.2.3 10.0.0.1 50000 6379\r\n                  a line of at most 107 bytes
//!   v2   \r\n\r\n\0\r\nQUIT\n │ 0x21 │ 0x11 │ length │ addresses │ TLVs    16 bytes and as many as `length` says
//! ```
//! [`HeaderReader`] takes the bytes as they come, in pieces of any size, and tells how many of them were the header's: what is behind
//! belongs to the client. It knows what `proxy-protocol.txt` of HAProxy says and is as strict: there is no guessing whether a
//! connection has a header.
//!
//! TLVs are passed over, also a checksum among them. Not here: who may send a header, and how long it may take.
//!
//! Invariant: a reader holds `HELD_BYTES_MAX` bytes whatever comes, and of each stream it takes at most [`HEADER_BYTES_MAX`]. Whether
//! the bytes came in one piece or in many makes no difference.

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest line of version 1, with its end.
const LINE_BYTES_MAX: usize = 107;

/// Bytes of version 2 before the addresses.
const FIXED_BYTES: usize = 16;

/// Addresses of two unix sockets, the longest there are.
const ADDRESSES_BYTES_MAX: usize = 216;

/// What a reader keeps of a header.
const HELD_BYTES_MAX: usize = FIXED_BYTES + ADDRESSES_BYTES_MAX;

/// The longest header of version 2 that is taken, where the protocol allows 16 + 65535 bytes: addresses with some TLVs are some hundred, with the
/// certificate of a client some thousand.
pub const HEADER_BYTES_MAX: usize = 8 << 10;

/// How version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// How version 1 begins.
const WORD: &[u8; 6] = b"PROXY ";

/// Who a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From whoever made it: the balancer itself (`LOCAL`), or it does not say (`UNKNOWN`).
    Itself,
    /// From here, over TCP.
    Tcp(SocketAddr),
    /// From a unix socket with this path, which is empty for most clients. Without what is no printable ASCII.
    Unix(String),
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// What it begins with is no header.
    Missing,
    /// It begins like a header and goes on wrong.
    Broken,
}

/// Reads the header of one connection.
#[derive(Clone, Debug)]
pub struct HeaderReader {
    /// What came of it, but for what is passed over.
    held: [u8; HELD_BYTES_MAX],
    /// So many bytes of that.
    len: usize,
    /// So many bytes are still to be passed over, when `held` is complete.
    rest: Option<usize>,
}

impl Default for HeaderReader {
    fn default() -> Self {
        Self { held: [0; HELD_BYTES_MAX], len: 0, rest: None }
    }
}

impl HeaderReader {
    /// Takes the next bytes. With the last of the header it is `Some`: how many of these bytes were the header's, and what it says.
    ///
    /// # Errors
    /// The connection must be closed; the reader is not to be asked again.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<(usize, Origin)>, HeaderError> {
        let mut used = 0;
        while self.rest.is_none() {
            let Some(byte) = bytes.get(used) else { return Ok(None) };
            self.held[self.len] = *byte;
            self.len += 1;
            used += 1;
            if let Some(from) = self.step()? {
                return Ok(Some((used, from)));
            }
        }
        let Some(rest) = &mut self.rest else { return Ok(None) };
        let passed = (bytes.len() - used).min(*rest);
        *rest -= passed;
        used += passed;
        if *rest > 0 {
            return Ok(None);
        }
        Ok(Some((used, self.origin_v2())))
    }

    /// One more byte is there. `Some`: it was the last of a line. The rest of version 2 is passed over when all is there that counts.
    fn step(&mut self) -> Result<Option<Origin>, HeaderError> {
        let held = &self.held[..self.len];
        if held.starts_with(WORD) {
            return match held {
                [.., b'\r', b'\n'] => origin_of_line(&held[..held.len() - 2]).map(Some),
                // As in HAProxy, the line ends with its first line end, and that is a whole one.
                [.., b'\n'] | [.., b'\r', _] => Err(HeaderError::Broken),
                _ if held.len() == LINE_BYTES_MAX => Err(HeaderError::Broken),
                _ => Ok(None),
            };
        }
        let is_begun = |start: &[u8]| start.starts_with(&held[..held.len().min(start.len())]);
        if !is_begun(WORD) && !is_begun(SIGNATURE) {
            return Err(HeaderError::Missing);
        }
        if self.len == FIXED_BYTES {
            let len = self.check_v2()?;
            self.rest = (len == 0).then_some(0);
        } else if self.len > FIXED_BYTES {
            let len = self.v2_len();
            let wanted = FIXED_BYTES + len.min(ADDRESSES_BYTES_MAX);
            self.rest = (self.len == wanted).then(|| FIXED_BYTES + len - wanted);
        }
        Ok(None)
    }

    /// Checks the fixed part of version 2; how many bytes follow it.
    fn check_v2(&self) -> Result<usize, HeaderError> {
        let addresses_bytes = match (self.held[12], self.held[13]) {
            // Health checks of the balancer: whatever follows is passed over.
            (0x20, _) => 0,
            // It does not say from where.
            (0x21, 0x00) => 0,
            (0x21, TCP4) => 12,
            (0x21, TCP6) => 36,
            (0x21, UNIX) => ADDRESSES_BYTES_MAX,
            // Another version, another command, or a family that no stream has.
            _ => return Err(HeaderError::Broken),
        };
        let len = self.v2_len();
        if len < addresses_bytes || FIXED_BYTES + len > HEADER_BYTES_MAX {
            return Err(HeaderError::Broken);
        }
        Ok(len)
    }

    fn v2_len(&self) -> usize {
        usize::from(u16::from_be_bytes([self.held[14], self.held[15]]))
    }

    /// What a whole header of version 2 says.
    fn origin_v2(&self) -> Origin {
        if self.held[12] == 0x20 {
            return Origin::Itself;
        }
        let addresses = &self.held[FIXED_BYTES..];
        let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
        let (v4, v6) = (addresses.first_chunk::<4>(), addresses.first_chunk::<16>());
        match (self.held[13], v4, v6) {
            (TCP4, Some(ip), _) => Origin::Tcp((Ipv4Addr::from(*ip), port(8)).into()),
            (TCP6, _, Some(ip)) => Origin::Tcp((Ipv6Addr::from(*ip), port(32)).into()),
            (UNIX, ..) => {
                let path = addresses[..108].iter().take_while(|byte| **byte != 0);
                let shown = path.filter(|byte| byte.is_ascii_graphic());
                Origin::Unix(shown.map(|byte| char::from(*byte)).collect())
            }
            _ => Origin::Itself,
        }
    }
}

/// Families of version 2, over streams.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX: u8 = 0x31;

/// What a line of version 1 says, without its end.
fn origin_of_line(line: &[u8]) -> Result<Origin, HeaderError> {
    let line = std::str::from_utf8(line).map_err(|_| HeaderError::Broken)?;
    let mut words = line.split(' ').skip(1);
    let mut word = || words.next().ok_or(HeaderError::Broken);
    let family = word()?;
    if family == "UNKNOWN" {
        // What follows is to be ignored.
        return Ok(Origin::Itself);
    }
    let (from, to, port, to_port) = (word()?, word()?, word()?, word()?);
    let (port, _) = (read_port(port)?, read_port(to_port)?);
    if words.next().is_some() {
        return Err(HeaderError::Broken);
    }
    let from = match family {
        "TCP4" => read_both::<Ipv4Addr>(from, to).map(|ip| (ip, port).into()),
        "TCP6" => read_both::<Ipv6Addr>(from, to).map(|ip| (ip, port).into()),
        _ => None,
    };
    from.map(Origin::Tcp).ok_or(HeaderError::Broken)
}

/// The first of two addresses, if both are some.
fn read_both<T: std::str::FromStr>(from: &str, to: &str) -> Option<T> {
    to.parse::<T>().ok()?;
    from.parse().ok()
}

/// Heading zeros are not allowed, says the protocol: they could be taken for octal numbers.
fn read_port(text: &str) -> Result<u16, HeaderError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|_| is_number && (text == "0" || !text.starts_with('0')));
    port.ok_or(HeaderError::Broken)
}

#[cfg(test)]
mod tests {
    use super::fuzzing::compare;
    use super::*;
    use crate::sim::SimRng;

    /// What a whole header says.
    fn whole(bytes: &[u8]) -> Result<Option<(usize, Origin)>, HeaderError> {
        HeaderReader::default().read(bytes)
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let len = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, body].concat()
    }

    fn tcp(text: &str) -> Origin {
        Origin::Tcp(text.parse().unwrap())
    }

    #[test]
    fn lines_of_version_1_are_read() {
        for (line, from) in [
            ("PROXY TCP4 10.1.2.3 10.0.0.1 50000 6379\r\n", tcp("10.1.2.3:50000")),
            ("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n", tcp("[2001:db8::1]:0")),
            ("PROXY TCP6 ::ffff:10.0.0.1 ::1 1 2\r\n", tcp("[::ffff:10.0.0.1]:1")),
            ("PROXY UNKNOWN\r\n", Origin::Itself),
            ("PROXY UNKNOWN ffff::1 whatever 70000 \t\r\n", Origin::Itself),
        ] {
            let bytes = [line.as_bytes(), b"*1\r\n$4\r\nPING\r\n"].concat();
            assert_eq!(whole(&bytes), Ok(Some((line.len(), from))), "{line}");
        }
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES_MAX - 16));
        assert_eq!(whole(longest.as_bytes()), Ok(Some((LINE_BYTES_MAX, Origin::Itself))));
    }

    #[test]
    fn headers_of_version_2_are_read() {
        let four = [&[10, 1, 2, 3, 10, 0, 0, 1, 0xc3, 0x50, 0x18, 0xeb][..], b"tlv"].concat();
        let six = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 16], &[1, 2, 3, 4]].concat();
        let mut unix = [0; ADDRESSES_BYTES_MAX];
        unix[..9].copy_from_slice(b"/run/a b\n");
        for (bytes, from) in [
            (v2(0x21, TCP4, &four), tcp("10.1.2.3:50000")),
            (v2(0x21, TCP6, &six), tcp("[::1]:258")),
            (v2(0x21, UNIX, &unix), Origin::Unix("/run/ab".to_owned())),
            (v2(0x21, UNIX, &[0; ADDRESSES_BYTES_MAX]), Origin::Unix(String::new())),
            (v2(0x21, 0x00, b""), Origin::Itself),
            (v2(0x21, 0x00, b"anything"), Origin::Itself),
            (v2(0x20, 0x00, b""), Origin::Itself),
            (v2(0x20, TCP4, &four), Origin::Itself),
            (v2(0x20, 0xff, b"x"), Origin::Itself),
        ] {
            let more = [&bytes[..], b"PING\r\n"].concat();
            assert_eq!(whole(&more), Ok(Some((bytes.len(), from))), "{bytes:?}");
        }
        let longest = v2(0x21, TCP4, &vec![1; HEADER_BYTES_MAX - FIXED_BYTES]);
        assert_eq!(whole(&longest), Ok(Some((HEADER_BYTES_MAX, tcp("1.1.1.1:257")))));
    }

    #[test]
    fn what_is_no_header_is_noticed_with_its_first_wrong_byte() {
        for bytes in ["*", "PING", "PROXYX", "\r\nPING", "\r\n\r\n\0\r\nQUIT ", "\n", "proxy "] {
            assert_eq!(whole(bytes.as_bytes()), Err(HeaderError::Missing), "{bytes:?}");
        }
    }

    #[test]
    fn what_goes_on_wrong_is_refused() {
        for line in [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
            "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY UNKNOWN\n",
            "PROXY UNKNOWN \rx",
        ] {
            assert_eq!(whole(line.as_bytes()), Err(HeaderError::Broken), "{line:?}");
        }
        let endless = [&WORD[..], &[b'x'; LINE_BYTES_MAX]].concat();
        assert_eq!(whole(&endless), Err(HeaderError::Broken));
        assert_eq!(whole(&endless[..LINE_BYTES_MAX - 1]), Ok(None));
        for bytes in [
            v2(0x11, TCP4, &[0; 12]),
            v2(0x22, TCP4, &[0; 12]),
            v2(0x21, 0x12, &[0; 12]),
            v2(0x21, 0x41, &[0; 216]),
            v2(0x21, TCP4, &[0; 11]),
            v2(0x21, TCP6, &[0; 35]),
            v2(0x21, UNIX, &[0; 215]),
            v2(0x20, 0x00, &vec![0; HEADER_BYTES_MAX - FIXED_BYTES + 1]),
        ] {
            assert_eq!(whole(&bytes), Err(HeaderError::Broken), "{:?}", &bytes[..FIXED_BYTES]);
        }
    }

    /// Headers that are right, nearly right and noise, cut in every way, against the naive reader.
    #[test]
    fn any_pieces_read_as_the_whole_does() {
        let mut rng = SimRng::new(7);
        for round in 0..40_000u64 {
            let mut bytes = fuzzing::some_header(&mut || rng.between(0, u64::from(u32::MAX)));
            if round.is_multiple_of(3) && !bytes.is_empty() {
                let at = rng.between(0, bytes.len() as u64 - 1) as usize;
                bytes[at] = rng.between(0, 255) as u8;
            }
            bytes.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
            let cut = rng.between(0, bytes.len() as u64) as usize;
            bytes.truncate(if round.is_multiple_of(5) { cut } else { bytes.len() });
            let pieces = [1 + rng.between(0, 39) as usize, 1 + rng.between(0, 3) as usize];
            compare(&bytes, &pieces);
            compare(&bytes, &[1]);
        }
    }

    #[test]
    fn seeds_pass() {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/proxy_header");
        let mut replayed = 0;
        for entry in std::fs::read_dir(&folder).expect("the folder of seeds") {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            fuzzing::proxy_header(&std::fs::read(&path).expect("a seed"));
            replayed += 1;
        }
        assert!(replayed > 0, "no seeds in {}", folder.display());
    }
}
