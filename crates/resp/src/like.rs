//! Recognizes a request that begins as the one before it did: in a pipeline most do, and their names need not be found out again.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n $2\r\nk1\r\n        the one before: its first bytes are kept, in two words
//!   *2\r\n$3\r\nGET\r\n $3\r\nk23\r\n       two comparisons, and one short argument
//! ```
//! Not here: the general case ([`RequestScanner`](crate::RequestScanner)), which decides whenever this one finds nothing.
//!
//! Invariant: what is found here the scanner would find, with the same end and the same number of arguments. Equal bytes are read in an equal way, and the
//! arguments behind them by the scanner's own function.

use crate::limits::RequestLimits;
use crate::request::{Form, HEAD_ARGS, Request, Span, behind_crlf, short_bulk};

/// Bytes of two words: the head of a request of up to 9 arguments whose name has up to 6 bytes.
const HEAD_BYTES: usize = 16;

/// Most arguments, as of the scanner's short requests; the end of nine short ones is within 32 bits.
const ARGS_MAX: u32 = 9;

/// An argument that is read here has up to so many bytes.
const ARG_BYTES_MAX: u64 = 999;

/// Arguments of which the lines are kept.
const LINES: usize = HEAD_ARGS - 1;

/// Bytes of a word. No line of up to [`ARG_BYTES_MAX`] fills one.
const WORD_BYTES: usize = 8;

/// How a request began. See the module.
#[derive(Clone, Copy, Debug)]
pub struct Like {
    /// The first bytes, up to the one behind the name's `\r\n`; zeros behind that.
    head: [u64; 2],
    /// All bits of those.
    mask: [u64; 2],
    /// How many bytes.
    head_len: usize,
    /// Arguments behind the name; 1 at least.
    args: u32,
    /// The `$N\r\n` lines of the first of these: keys, and often values, are of one length.
    lines: [Line; LINES],
}

/// The line of an argument.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Its bytes, and all bits of those.
    word: u64,
    mask: u64,
    /// From its begin to that of the argument, and to the end of the CRLF behind it.
    to_arg: u32,
    to_end: u32,
}

impl Line {
    /// No argument has this one.
    const NONE: Self = Self { word: 1, mask: 0, to_arg: 0, to_end: 0 };

    /// The line from `at` to this argument, if it is short.
    fn of(frame: &[u8], at: usize, arg: Span) -> Option<Self> {
        let line = frame.get(at..arg.start as usize)?;
        if u64::from(arg.len) > ARG_BYTES_MAX || line.len() >= WORD_BYTES {
            return None;
        }
        let word = u64::from_le_bytes(*frame.get(at..)?.first_chunk()?);
        let mask = !(u64::MAX << (line.len() * 8));
        let to_arg = line.len() as u32;
        Some(Self { word: word & mask, mask, to_arg, to_end: to_arg + arg.len + 2 })
    }

    /// The argument that begins at `at`, with the same line or another.
    #[inline(always)]
    fn bulk(&self, bytes: &[u8], at: usize) -> Option<(Span, usize)> {
        match bytes.get(at..)?.first_chunk() {
            Some(word) if u64::from_le_bytes(*word) & self.mask == self.word => {
                let span =
                    Span { start: at as u32 + self.to_arg, len: self.to_end - self.to_arg - 2 };
                Some((span, behind_crlf(bytes, at + self.to_end as usize - 2)?))
            }
            _ => short_bulk(bytes, at),
        }
    }
}

/// A request that begins in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    /// Its bytes.
    pub len: usize,
    /// Its first argument behind the name.
    pub first: Span,
}

impl Like {
    /// Of a whole request; `None`: its head is too long, it has no arguments or too many, or the limits are so tight that others must be looked
    /// at closer.
    #[must_use]
    #[inline]
    pub fn of(request: &Request, frame: &[u8], limits: &RequestLimits) -> Option<Self> {
        let name = request.head[0];
        let head_len = (name.start + name.len) as usize + 2;
        let is_short = request.form == Form::Ordinary && (2..=ARGS_MAX).contains(&request.args);
        let fits = limits.args_max >= ARGS_MAX && limits.bulk_bytes_max >= ARG_BYTES_MAX;
        if !is_short || !fits || head_len > HEAD_BYTES {
            return None;
        }
        let bits = u128::MAX >> (u128::BITS as usize - head_len * 8);
        let mask = [bits as u64, (bits >> 64) as u64];
        let words = words(frame)?;
        let head = [words[0] & mask[0], words[1] & mask[1]];
        let mut lines = [Line::NONE; LINES];
        let mut at = head_len;
        for (line, arg) in
            lines.iter_mut().zip(request.head.iter().take(request.args as usize).skip(1))
        {
            *line = Line::of(frame, at, *arg).unwrap_or(Line::NONE);
            at = (arg.start + arg.len) as usize + 2;
        }
        Some(Self { head, mask, head_len, args: request.args - 1, lines })
    }

    /// The request that `bytes` begin with, if it is alike and whole.
    #[must_use]
    #[inline(always)]
    pub fn scan(&self, bytes: &[u8]) -> Option<Alike> {
        // No whole request that could be alike is shorter: its name takes 11 bytes at least, and an argument 6.
        let [begin, end] = words(bytes)?;
        if (begin & self.mask[0]) ^ self.head[0] | (end & self.mask[1]) ^ self.head[1] != 0 {
            return None;
        }
        let (first, mut at) = self.lines[0].bulk(bytes, self.head_len)?;
        if self.args > 1 {
            (_, at) = self.lines[1].bulk(bytes, at)?;
            for _ in LINES as u32..self.args {
                (_, at) = short_bulk(bytes, at)?;
            }
        }
        Some(Alike { len: at, first })
    }
    /// How many requests are alike, one behind the other from the begin of `bytes`, at most so many; and their bytes together.
    #[must_use]
    pub fn scan_all(&self, bytes: &[u8], count_max: u32) -> (u32, usize) {
        let (mut count, mut len) = (0, 0);
        while count < count_max
            && let Some(rest) = bytes.get(len..)
            && let Some(alike) = self.scan(rest)
        {
            count += 1;
            len += alike.len;
        }
        (count, len)
    }
}

#[inline(always)]
fn words(bytes: &[u8]) -> Option<[u64; 2]> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let word = u128::from_le_bytes(*head);
    Some([word as u64, (word >> 64) as u64])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestScanner, Scan};
    use alloc::format;

    fn like(bytes: &[u8]) -> Option<Like> {
        let limits = RequestLimits::default();
        match RequestScanner::default().scan(bytes, &limits) {
            Ok(Scan::Complete { frame, .. }) => Like::of(&frame, bytes, &limits),
            _ => None,
        }
    }

    #[test]
    fn the_next_one_of_the_same_name_and_number_of_arguments_is_found() {
        let get = like(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n").unwrap();
        let other = b"*2\r\n$3\r\nGET\r\n$12\r\n0123456789ab\r\n*2\r\n";
        let found = get.scan(other).unwrap();
        assert_eq!((found.len, found.first.of(other)), (32, &b"0123456789ab"[..]));
        assert_eq!(get.scan(&other[..32]).map(|found| found.len), Some(32));
        let set = like(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n").unwrap();
        let other = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nxyz\r\n";
        assert_eq!(
            set.scan(other).map(|found| (found.len, found.first.of(other))),
            Some((29, &b"k"[..]))
        );
    }

    #[test]
    fn arguments_with_the_lines_of_the_one_before_end_as_others_do() {
        let lens = [0usize, 1, 2, 9, 10, 11, 99, 100, 101, 998, 999];
        let set = |key: usize, value: usize| {
            let (key, value) = ("k".repeat(key), "v".repeat(value));
            format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", key.len(), value.len())
        };
        for (first, second) in lens.iter().flat_map(|len| lens.map(|other| (*len, other))) {
            let one = like(set(first, second).as_bytes()).unwrap();
            for (key, value) in lens.iter().flat_map(|len| lens.map(|other| (*len, other))) {
                let other = set(key, value);
                let (bytes, end) = (other.as_bytes(), other.len());
                let found = one.scan(bytes).unwrap();
                assert_eq!((found.len, found.first.len as usize), (end, key));
                for broken in [end - 1, end - 2, end - value - 3] {
                    let mut bytes = bytes.to_vec();
                    bytes[broken] = b'x';
                    assert_eq!(one.scan(&bytes), None, "{key} {value} {broken}");
                }
                assert_eq!(one.scan(&bytes[..end - 1]), None);
            }
        }
    }

    #[test]
    fn all_that_stand_in_a_row_are_counted_at_once() {
        let get = like(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n").unwrap();
        let row =
            b"*2\r\n$3\r\nGET\r\n$2\r\nab\r\n*2\r\n$3\r\nGET\r\n$1\r\nc\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(get.scan_all(row, 9), (2, 41));
        assert_eq!(get.scan_all(row, 1), (1, 21));
        assert_eq!(get.scan_all(row, 0), (0, 0));
        assert_eq!(get.scan_all(&row[..40], 9), (1, 21));
    }

    #[test]
    fn nothing_else_is_found() {
        let get = like(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n").unwrap();
        for other in [
            &b"*2\r\n$3\r\nGET\r\n$12\r\n0123456789ab\r"[..],
            b"*2\r\n$3\r\nGET\r\n$4\r\nab",
            b"*2\r\n$3\r\nGET\r\n$x\r\nab\r\n",
            b"*2\r\n$3\r\nget\r\n$1\r\na\r\n",
            b"*3\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\na\r\n",
            b"*2\r\n$3\r\nSET\r\n$1\r\na\r\n",
            b"*2\r\n$3\r\nGET\r\n$1000\r\na\r\n",
            b"*2\r\n$3\r\nGET\r\n",
            b"",
        ] {
            assert_eq!(get.scan(other), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn what_is_long_has_no_arguments_or_is_closely_limited_is_not_taken() {
        assert!(like(b"*1\r\n$4\r\nPING\r\n").is_none());
        assert!(like(b"*2\r\n$7\r\nHGETALL\r\n$1\r\na\r\n").is_none());
        assert!(like(b"*2\r\n$6\r\nEXISTS\r\n$1\r\na\r\n").is_some());
        assert!(like(b"GET a\r\n").is_none());
        let mut ten = b"*10\r\n$3\r\nDEL\r\n".to_vec();
        ten.extend(b"$1\r\na\r\n".repeat(9));
        assert!(like(&ten).is_none());
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let limits = RequestLimits { bulk_bytes_max: 998, ..RequestLimits::default() };
        let Ok(Scan::Complete { frame, .. }) = RequestScanner::default().scan(bytes, &limits)
        else {
            panic!("whole");
        };
        assert!(Like::of(&frame, bytes, &limits).is_none());
    }
}
