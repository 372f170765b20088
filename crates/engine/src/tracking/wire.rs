//! The push by which a server tells that keys changed, as it stands on the wire (`trackingSendInvalidationMessage` in Redis' tracking.c).
//!
//! Not here: who is told of it.
//!
//! Invariant: only what is read here as an invalidation counts as one.

use super::{Changed, Name};
use alloc::sync::Arc;
use resp::Value;

/// The begin of each invalidation.
pub(crate) const BEGIN: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";

/// The whole push at the begin of these bytes: which keys changed, if it is an invalidation, and its length. `None`: no whole push stands here.
pub(crate) fn whole_push(bytes: &[u8]) -> Option<(Option<Changed>, usize)> {
    let (Value::Push(items), used) = resp::value::parse(bytes).ok()?? else { return None };
    let changed = match items.as_slice() {
        [word, keys] if word.as_text() == Some(b"invalidate") => changed(keys),
        _ => None,
    };
    Some((changed, used))
}

fn changed(keys: &Value<'_>) -> Option<Changed> {
    if *keys == Value::Null {
        return Some(Changed::All);
    }
    let names = keys.as_list()?.iter().map(|key| key.as_text().map(Arc::from));
    Some(Changed::Keys(names.collect::<Option<Arc<[Name]>>>()?))
}

/// The length of the whole invalidation at the begin of these bytes.
pub(crate) fn invalidation(bytes: &[u8]) -> Option<usize> {
    whole_push(bytes).and_then(|(changed, used)| changed.map(|_| used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_invalidations_count() {
        let keys = [Name::from(b"a".as_slice()), Name::from(b"b".as_slice())];
        let list = [BEGIN, b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"].concat();
        assert_eq!(whole_push(&list), Some((Some(Changed::Keys(keys.into())), list.len())));
        let all = [BEGIN, b"_\r\n"].concat();
        assert_eq!(whole_push(&all), Some((Some(Changed::All), all.len())));
        for cut in 0..list.len() {
            assert_eq!(whole_push(&list[..cut]), None);
        }
        for other in [&b"$1\r\na\r\n"[..], b"*1\r\n$1\r\na\r\n", b"*1\r\n:1\r\n"] {
            let counts = other.starts_with(b"*1\r\n$");
            assert_eq!(invalidation(&[BEGIN, other].concat()).is_some(), counts);
        }
        assert_eq!(whole_push(b">1\r\n+x\r\n"), Some((None, 8)));
        assert_eq!(whole_push(b"*2\r\n$10\r\ninvalidate\r\n*0\r\n"), None);
    }
}
