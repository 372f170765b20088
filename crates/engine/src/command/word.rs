//! Option words of a request, compared as a server compares them.
//!
//! Servers read arguments as strings of C: `strcasecmp` ends at the first NUL, so `"STREAMS\0"` and `"get\0x"` are the options
//! STREAMS and GET. Upper and lower case differ in the 26 letters of ASCII only, because servers leave `LC_CTYPE` alone.
//!
//! Not here: names of commands and subcommands, which servers look up in hash tables by all of their bytes. A name with a NUL
//! is an unknown command, so such names are compared by [`same_name`] and never by [`is`].
//!
//! Invariant: no other file of this crate compares an argument with a word regardless of case (`cargo xtask tidy`).

use alloc::vec::Vec;

/// The bytes before the first NUL: all that a server sees where it compares strings of C.
#[must_use]
pub fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.iter().position(|byte| *byte == 0).map_or(bytes, |end| &bytes[..end])
}

/// Whether a server takes `arg` for the option `word` (`strcasecmp`). `word` has no NUL.
#[inline]
#[must_use]
pub fn is(arg: &[u8], word: impl AsRef<[u8]>) -> bool {
    let word = word.as_ref();
    let (Some(start), end) = (arg.get(..word.len()), arg.get(word.len())) else { return false };
    start.eq_ignore_ascii_case(word) && matches!(end, None | Some(0))
}

/// Whether a server takes `arg` for one of these options.
#[must_use]
pub fn is_any<W: AsRef<[u8]>>(arg: &[u8], words: &[W]) -> bool {
    words.iter().any(|word| is(arg, word))
}

/// Whether a server takes `arg` for these bytes in this case (`strcmp`): `*`, `$` and `~` of streams, `#` of SORT.
#[must_use]
pub fn is_exactly(arg: &[u8], bytes: &[u8]) -> bool {
    c_string(arg) == bytes
}

/// The option word that a server sees, in lower case, for a `match` over several.
#[must_use]
pub fn lower(arg: &[u8]) -> Vec<u8> {
    c_string(arg).to_ascii_lowercase()
}

/// Whether two names are the same but for case, with all of their bytes: names of commands, and words of the configuration.
#[must_use]
pub fn same_name(one: impl AsRef<[u8]>, other: impl AsRef<[u8]>) -> bool {
    one.as_ref().eq_ignore_ascii_case(other.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_nul_ends_a_word() {
        for arg in [&b"get"[..], b"GET", b"gEt\0", b"GET\0x", b"get\0\0", b"GET\0get"] {
            assert!(is(arg, "get") && is(arg, b"GET"), "{arg:?}");
        }
        for arg in [&b""[..], b"\0", b"ge", b"ge\0", b"gets", b"\0get", b"g\0t", b" get", b"get "] {
            assert!(!is(arg, "get"), "{arg:?}");
        }
        assert!(is_any(b"px\0", &["ex", "px"]) && !is_any(b"pxat", &["ex", "px"]));
        assert!(is_exactly(b"*\0x", b"*") && !is_exactly(b"**", b"*") && is_exactly(b"", b""));
        assert_eq!(lower(b"GeT\0X"), b"get");
        assert_eq!(c_string(b"\0"), b"");
    }

    #[test]
    fn a_name_is_all_of_its_bytes() {
        assert!(same_name("Get", b"gET"));
        assert!(!same_name(b"get\0", "get"));
    }

    #[test]
    fn only_ascii_letters_have_a_case() {
        // K of Kelvin, and letters beside those of ASCII by bit 5.
        assert!(!is("\u{212a}".as_bytes(), "k") && !is(b"@", "`") && !is(b"[", "{"));
    }

    proptest! {
        /// The short way and the definition agree.
        #[test]
        fn is_compares_the_string_of_c(arg in "[gGeEtT\0]{0,5}") {
            let arg = arg.as_bytes();
            prop_assert_eq!(is(arg, "get"), c_string(arg).eq_ignore_ascii_case(b"get"));
        }
    }
}
