//! The answer of a scanner (a frame ended here, or more bytes are needed), and the one trick of both.
//!
//! Shared by both directions. It holds no bytes and no error; errors are the `Err` side of the scanners.
//!
//! The trick: short lines such as `$16\r` are compared with `$00\r` as one word. After an exclusive or, what
//! equals the pattern is 0 and each digit has become its value, so one test tells whether all is as it should
//! be (`is_digits`) and the values can be shifted out. That is about a third of the instructions of looking
//! at each byte.
//!
//! Invariant: `consumed` never exceeds the length of the bytes that were presented.

/// What one call of a scanner found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan<T> {
    /// A frame ends `consumed` bytes into the bytes presented. The scanner is fresh again.
    Complete {
        /// Bytes of the presented slice that belong to the frame that ended.
        consumed: usize,
        /// What is known about the frame.
        frame: T,
    },
    /// The bytes presented do not end the frame.
    Partial {
        /// Bytes that the scanner is done with. They need not be presented again; the rest (an unfinished
        /// line) must be, with more behind it.
        consumed: usize,
    },
}

impl<T> Scan<T> {
    /// Bytes of the presented slice that the scanner is done with.
    #[must_use]
    pub const fn consumed(&self) -> usize {
        match self {
            Self::Complete { consumed, .. } | Self::Partial { consumed } => *consumed,
        }
    }
}

/// Whether `word`, which is bytes exclusive-or a pattern with `0` at its digits, is a digit's value (0 to 9)
/// in those bytes where `ones` has a 1, and 0 in all others.
///
/// Adding 6 carries a value above 9 into the upper half of its byte. A byte too large may carry further, but
/// then it has bits outside the lower half by itself and is caught by them.
#[inline(always)]
pub(crate) const fn is_digits(word: u64, ones: u64) -> bool {
    (word.wrapping_add(ones * 6) | word) & !(ones * 0x0f) == 0
}

/// The same for a word of four bytes.
#[inline(always)]
pub(crate) const fn is_digits_32(word: u32, ones: u32) -> bool {
    (word.wrapping_add(ones * 6) | word) & !(ones * 0x0f) == 0
}

/// A `$N` line of two or three digits (a single one is the callers' own case), whose first four bytes are
/// `word`: the number and how many digits it has. Behind two digits the `\r` has been seen; the next byte of
/// the line has not.
#[inline(always)]
pub(crate) const fn bulk_digits(word: u32) -> Option<(u32, usize)> {
    let two = word ^ u32::from_le_bytes(*b"$00\r");
    // A leading zero is no number, neither for Redis nor for us.
    if is_digits_32(two, 0x0001_0100) && two & 0xff00 != 0 {
        return Some((((two >> 8) & 0xff) * 10 + (two >> 16), 2));
    }
    let three = word ^ u32::from_le_bytes(*b"$000");
    if is_digits_32(three, 0x0101_0100) && three & 0xff00 != 0 {
        return Some((
            ((three >> 8) & 0xff) * 100 + ((three >> 16) & 0xff) * 10 + (three >> 24),
            3,
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_told_from_all_other_bytes() {
        for byte in 0..=u8::MAX {
            let word = u32::from_le_bytes([b'$', byte, b'\r', b'\n']);
            let value = word ^ u32::from_le_bytes(*b"$0\r\n");
            assert_eq!(is_digits_32(value, 0x100), byte.is_ascii_digit(), "{byte}");
            // In both places of a long word, whatever the other digit is.
            for other in b'0'..=b'9' {
                for (left, right) in [(byte, other), (other, byte)] {
                    let word = u64::from_le_bytes([b'*', left, 1, 2, b'$', right, 3, 4]);
                    let value = word ^ u64::from_le_bytes([b'*', b'0', 1, 2, b'$', b'0', 3, 4]);
                    assert_eq!(is_digits(value, 0x0000_0100_0000_0100), byte.is_ascii_digit());
                }
            }
        }
    }

    #[test]
    fn every_word_of_a_bulk_line_is_read_as_its_text() {
        let interesting = b"$09:/\r\n5\0\xff *";
        for one in 0..=u8::MAX {
            for two in interesting {
                for three in interesting {
                    let bytes = [b'$', one, *two, *three];
                    let digits = if *three == b'\r' { &bytes[1..3] } else { &bytes[1..4] };
                    let wanted = crate::number::parse_i64(digits)
                        .filter(|number| *number > 9)
                        .map(|number| (number as u32, digits.len()));
                    assert_eq!(bulk_digits(u32::from_le_bytes(bytes)), wanted, "{bytes:?}");
                }
            }
        }
        assert_eq!(bulk_digits(u32::from_le_bytes(*b"#12\r")), None);
    }
}
