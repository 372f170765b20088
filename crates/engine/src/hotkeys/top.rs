//! The keys that came most often in one window, with their names.
//!
//! A key gets onto the list when the sketch estimates more of it than of the last one there. From then on it is counted here, exactly; who has
//! to leave takes its count back to the sketch.
//!
//! Not here: windows (`hotkeys`), estimates of all other keys (`sketch`).
//!
//! Invariant: at most `len_max` keys, each once; `least` is not above any count.

use super::sketch::Sketch;
use crate::key_name::KeyName;
use alloc::vec::Vec;

/// A key of the list. The counts are of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: KeyName,
    pub(super) count: u32,
    /// Those of them that were counted here, and how many of these may write.
    seen: u32,
    seen_writes: u32,
    /// The operator was told of it.
    pub(super) told: bool,
}

impl Listed {
    /// How many of the samples were of commands that may write, as far as that is known.
    pub(super) fn writes(&self) -> u64 {
        let (count, seen, writes) =
            (u64::from(self.count), u64::from(self.seen), u64::from(self.seen_writes));
        (count * writes).checked_div(seen).unwrap_or(0)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Top {
    /// By the index of the list; a list of its own, as it is looked through with each sample.
    hashes: Vec<u64>,
    list: Vec<Listed>,
    least: u32,
}

impl Top {
    /// A key with this hash was sampled. Gives its entry if it is on the list then.
    pub(super) fn add(
        &mut self,
        len_max: usize,
        hash: u64,
        key: &[u8],
        writes: bool,
        sketch: &mut Sketch,
        random: impl FnMut() -> u32,
    ) -> Option<&mut Listed> {
        let at = match self.hashes.iter().position(|listed| *listed == hash) {
            Some(at) => {
                self.list[at].count = self.list[at].count.saturating_add(1);
                at
            }
            None => {
                let estimate = sketch.add(hash, random);
                self.enter(len_max, hash, key, estimate, sketch)?
            }
        };
        let listed = self.list.get_mut(at)?;
        listed.seen = listed.seen.saturating_add(1);
        listed.seen_writes = listed.seen_writes.saturating_add(u32::from(writes));
        Some(listed)
    }

    /// A key that is not on the list gets onto it if so many are enough; its place there.
    fn enter(
        &mut self,
        len_max: usize,
        hash: u64,
        key: &[u8],
        estimate: u32,
        sketch: &mut Sketch,
    ) -> Option<usize> {
        let name = || KeyName::new(key);
        if self.list.len() < len_max {
            self.least = if self.list.is_empty() { estimate } else { self.least.min(estimate) };
            self.hashes.push(hash);
            let (seen, seen_writes) = (0, 0);
            self.list.push(Listed {
                name: name(),
                count: estimate,
                seen,
                seen_writes,
                told: false,
            });
            return Some(self.list.len() - 1);
        }
        if estimate <= self.least {
            return None;
        }
        // Counts have grown since: mostly nobody is as low as that any more.
        let (at, last) = self.list.iter().enumerate().min_by_key(|(_, listed)| listed.count)?;
        self.least = last.count;
        if estimate <= self.least {
            return None;
        }
        sketch.put_back(self.hashes[at], last.count);
        self.hashes[at] = hash;
        self.list[at] =
            Listed { name: name(), count: estimate, seen: 0, seen_writes: 0, told: false };
        Some(at)
    }

    /// The keys, in no order.
    pub(super) fn list(&self) -> &[Listed] {
        &self.list
    }

    /// Gives the list away and begins a new one.
    pub(super) fn take(&mut self) -> Vec<Listed> {
        self.hashes.clear();
        self.least = 0;
        core::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(top: &mut Top, sketch: &mut Sketch, key: u8, writes: bool) -> Option<u32> {
        let hash = rapidhash::v3::rapidhash_v3(&[key]);
        top.add(2, hash, &[key], writes, sketch, || u32::MAX).map(|listed| listed.count)
    }

    #[test]
    fn who_comes_more_often_takes_the_place_of_who_comes_less() {
        let (mut top, mut sketch) = (Top::default(), Sketch::new());
        for count in 1..=3 {
            assert_eq!(add(&mut top, &mut sketch, b'a', count == 1), Some(count));
        }
        assert_eq!(add(&mut top, &mut sketch, b'b', false), Some(1));
        assert_eq!(add(&mut top, &mut sketch, b'b', false), Some(2));
        // As many are not enough.
        assert_eq!(add(&mut top, &mut sketch, b'c', true), None);
        assert_eq!(add(&mut top, &mut sketch, b'c', true), None);
        assert_eq!(add(&mut top, &mut sketch, b'c', true), Some(3));
        assert_eq!(top.list().len(), 2);
        // What the other had is not lost.
        assert_eq!(add(&mut top, &mut sketch, b'b', false), None);
        assert_eq!(add(&mut top, &mut sketch, b'b', false), Some(4));
        let writes: Vec<(Vec<u8>, u32, u64)> = top
            .list()
            .iter()
            .map(|listed| (listed.name.shown(), listed.count, listed.writes()))
            .collect();
        assert_eq!(writes, [(b"b".to_vec(), 4, 0), (b"c".to_vec(), 3, 3)]);
        assert_eq!(top.take().len(), 2);
        assert_eq!(add(&mut top, &mut sketch, b'd', true), Some(1));
    }
}
