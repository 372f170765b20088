//! Numbers as Redis reads them: `string2ll` of `util.c`.
//!
//! It is not `str::parse`: Redis takes no `+`, no leading zeros, no `-0`, no blanks. What the server would
//! refuse as a length the proxy must refuse too, or the two would see different frames.
//!
//! Invariant: `parse_i64(text) == Some(n)` exactly if `text` is the shortest decimal writing of `n`.

/// Digits of `i64::MIN` with its sign. Redis gives up at 21 bytes (`LONG_STR_SIZE`).
const NUMBER_BYTES_MAX: usize = 20;

/// The number that `text` writes, or `None` if Redis would not take it for one.
#[must_use]
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [] => None,
        [b'0'] => Some(0),
        [b'-', digits @ ..] => {
            let magnitude = magnitude(digits)?;
            // One more than i64::MAX is allowed here, and is i64::MIN.
            if magnitude > i64::MIN.unsigned_abs() {
                return None;
            }
            Some(0_i64.wrapping_sub_unsigned(magnitude))
        }
        digits => i64::try_from(magnitude(digits)?).ok(),
    }
}

/// Digits without a leading zero, as an unsigned number.
#[inline]
fn magnitude(digits: &[u8]) -> Option<u64> {
    // The bound on the length is what keeps the sums below from wrapping: 20 digits are checked, 19 cannot.
    if digits.len() > NUMBER_BYTES_MAX || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut value = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn takes_what_string2ll_takes() {
        assert_eq!(parse_i64(b"0"), Some(0));
        assert_eq!(parse_i64(b"-1"), Some(-1));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
    }

    #[test]
    fn refuses_what_string2ll_refuses() {
        let refused: [&[u8]; 15] = [
            b"",
            b"-",
            b"+1",
            b"01",
            b"-0",
            b"-01",
            b" 1",
            b"1 ",
            b"1a",
            b"--1",
            b"00",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"18446744073709551616",
            b"100000000000000000000",
        ];
        for text in refused {
            assert_eq!(parse_i64(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn only_the_shortest_writing_counts(text in "[-+0-9 ]{0,22}") {
            let wanted = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
            prop_assert_eq!(parse_i64(text.as_bytes()), wanted);
        }

        #[test]
        fn every_number_is_read_back(number: i64) {
            prop_assert_eq!(parse_i64(number.to_string().as_bytes()), Some(number));
        }
    }
}
