//! Keys that a client is told of again behind a reply, since the reply may be older than a change that it was told before, or nobody tracks them.
//!
//! Not here: which keys these are, and the message.
//!
//! Invariant: `bytes` is what the keys take.

use super::{Name, is_before};
use crate::account::kept_bytes;
use alloc::collections::BTreeSet;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Again {
    /// Each with the place of its reply.
    keys: BTreeSet<(u32, Name)>,
    bytes: usize,
}

impl Again {
    /// The client is told of this key behind the reply at this place.
    pub(super) fn insert(&mut self, place: u32, key: Name) {
        let bytes = bytes_of(&key);
        if self.keys.insert((place, key)) {
            self.bytes += bytes;
        }
    }

    pub(super) fn extend(&mut self, keys: impl IntoIterator<Item = (u32, Name)>) {
        keys.into_iter().for_each(|(place, key)| self.insert(place, key));
    }

    /// Takes the keys out whose replies were given, each once. `head`: the first place without a reply.
    pub(super) fn take_due(&mut self, head: u32) -> BTreeSet<Name> {
        // In order of their places; where these begin again at 0, the oldest stand last.
        let ends = [self.keys.first(), self.keys.last()];
        if !ends.into_iter().flatten().any(|(place, _)| is_before(*place, head)) {
            return BTreeSet::new();
        }
        let all = core::mem::take(&mut self.keys);
        let (due, wait): (BTreeSet<_>, BTreeSet<_>) =
            all.into_iter().partition(|(place, _)| is_before(*place, head));
        self.keys = wait;
        self.bytes -= due.iter().map(|(_, key)| bytes_of(key)).sum::<usize>();
        due.into_iter().map(|(_, key)| key).collect()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(key: &Name) -> usize {
    kept_bytes::<(u32, Name)>(key.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn keys_are_due_behind_their_replies_and_count_until_then() {
        let mut again = Again::default();
        let name = |name: &str| Name::from(name.as_bytes());
        let due = |again: &mut Again, head| again.take_due(head).into_iter().collect::<Vec<_>>();
        again.extend([(u32::MAX, name("b")), (u32::MAX, name("a")), (0, name("a"))]);
        let bytes = again.held_bytes();
        again.insert(0, name("a"));
        assert_eq!(again.held_bytes(), bytes, "this one is there already");
        assert!(due(&mut again, u32::MAX).is_empty() && again.held_bytes() == bytes);
        assert_eq!(due(&mut again, 0), [name("a"), name("b")]);
        assert_eq!(again.held_bytes(), bytes / 3);
        again.insert(2, name("long"));
        assert_eq!(due(&mut again, 3), [name("a"), name("long")]);
        assert_eq!(again.held_bytes(), 0);
    }
}
