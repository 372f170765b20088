//! Words of rules as C sees them, and selectors that stand over several words.
//!
//! Invariant: what Redis takes for a keyword is taken for the same one here, also with a NUL in it.

pub(super) use crate::command::word::{c_string, is};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Whether it has a byte that cannot stand in a name or a pattern, since it would not in the file: white space or NUL
/// (`ACLStringHasSpaces`).
pub(crate) fn ends_name(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | 0))
}

/// Joins the words of each selector, `(~a` and `+get)`, to one (`ACLMergeSelectorArguments`).
///
/// # Errors
/// The word that begins a selector that does not end.
pub(crate) fn merged<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut whole: Vec<Cow<'a, [u8]>> = Vec::with_capacity(words.len());
    let mut open: Option<(&'a [u8], Vec<u8>)> = None;
    for word in words {
        if word.first() == Some(&b'(') && word.last() != Some(&b')') {
            open = Some((word, word.to_vec()));
        } else if let Some((begin, mut joined)) = open.take() {
            joined.push(b' ');
            joined.extend_from_slice(c_string(word));
            if word.last() == Some(&b')') {
                whole.push(Cow::Owned(joined));
            } else {
                open = Some((begin, joined));
            }
        } else {
            whole.push(Cow::Borrowed(word));
        }
    }
    match open {
        Some((begin, _)) => Err(begin),
        None => Ok(whole),
    }
}
