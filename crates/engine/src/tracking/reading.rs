//! Which keys a client reads by requests that are not answered yet.
//!
//! A key may change while a reply with it is under way, which then is older than the change or newer. So each change asks here whether the key is read just now,
//! and both may be many: a request names a hundred thousand keys, and a server tells of each.
//!
//! Not here: what is told behind the reply (`order`).
//!
//! Invariant: `places` holds each key of each request once, and nothing else.

use super::{Name, is_before};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// What a key of a request takes beside its name (the name's own head, and its places in both lists).
const READ_BYTES: usize = 96;

/// respool looks for changed keys one by one if a client reads more than so many times as many keys. Otherwise one pass over both lists is faster.
const MERGE_RATIO: usize = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// The keys of each request, in the order of the requests.
    requests: VecDeque<(u32, Vec<Name>)>,
    /// The requests of each key, by their places.
    places: BTreeSet<(Name, u32)>,
    bytes: usize,
    /// No request began or ended since it was told that all keys changed.
    is_settled: bool,
}

impl Reading {
    /// The request at this place reads these keys. It stands behind all others.
    pub(super) fn begin(&mut self, place: u32, keys: Vec<Name>) {
        self.is_settled = false;
        self.bytes += keys_bytes(&keys);
        self.places.extend(keys.iter().map(|key| (key.clone(), place)));
        self.requests.push_back((place, keys));
    }

    /// The requests before this place are done with.
    pub(super) fn end_before(&mut self, place: u32) {
        while let Some((done, keys)) =
            self.requests.pop_front_if(|(first, _)| is_before(*first, place))
        {
            self.is_settled = false;
            self.bytes -= keys_bytes(&keys);
            for key in keys {
                self.places.remove(&(key, done));
            }
        }
    }

    /// Whether a request at this place or behind it reads keys.
    pub(super) fn is_open(&self, from: u32) -> bool {
        self.requests.back().is_some_and(|(place, _)| !is_before(*place, from))
    }

    /// The first request at this place or behind it that reads this key.
    pub(super) fn place_of(&self, key: &Name, from: u32) -> Option<u32> {
        if !self.is_open(from) {
            return None;
        }
        let of_key = self.places.range((key.clone(), 0)..=(key.clone(), u32::MAX));
        let mut places = of_key.map(|(_, place)| *place);
        places.find(|place| !is_before(*place, from))
    }

    /// The same of each of these keys that is read. They are in order, each is there once.
    pub(super) fn places_of(&self, keys: &[Name], from: u32) -> Vec<(u32, Name)> {
        let mut found: Vec<(u32, Name)> = Vec::new();
        if !self.is_open(from) {
            return found;
        }
        if keys.len() * MERGE_RATIO < self.places.len() {
            let places = keys.iter().map(|key| (self.place_of(key, from), key));
            found.extend(places.filter_map(|(place, key)| Some((place?, key.clone()))));
            return found;
        }
        // Both lists are in order.
        let mut keys = keys.iter().peekable();
        for (key, place) in self.places.iter().filter(|(_, place)| !is_before(*place, from)) {
            while keys.next_if(|changed| *changed < key).is_some() {}
            if keys.next_if(|changed| *changed == key).is_some() {
                found.push((*place, key.clone()));
            }
        }
        found
    }

    /// All keys changed. Returns whether a request began or ended since the last time.
    pub(super) fn settle(&mut self) -> bool {
        !core::mem::replace(&mut self.is_settled, true)
    }

    /// What requests at this place or behind it read.
    pub(super) fn all(&self, from: u32) -> impl Iterator<Item = (u32, Name)> {
        let open = self.requests.iter().filter(move |(place, _)| !is_before(*place, from));
        open.flat_map(|(place, keys)| keys.iter().map(|key| (*place, key.clone())))
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }
}

pub(super) fn keys_bytes(keys: &[Name]) -> usize {
    keys.iter().map(|key| key.len() + READ_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn name(number: usize) -> Name {
        format!("key:{number:06}").into_bytes().into()
    }

    /// As it would be found by a look at every key of every request.
    fn first(requests: &[(u32, Vec<Name>)], key: &Name, from: u32) -> Option<u32> {
        let mut open = requests.iter().filter(|(place, _)| !is_before(*place, from));
        open.find(|(_, keys)| keys.contains(key)).map(|(place, _)| *place)
    }

    #[test]
    fn it_is_settled_until_a_request_begins_or_ends() {
        let mut reading = Reading::default();
        assert!(reading.settle() && !reading.settle());
        reading.begin(3, alloc::vec![name(1)]);
        assert!(reading.settle() && !reading.settle());
        reading.end_before(3);
        assert!(!reading.settle(), "nothing ended");
        reading.end_before(4);
        assert!(reading.settle() && !reading.settle());
    }

    #[test]
    fn the_first_request_that_reads_a_key_is_found_whatever_else_is_read() {
        let mut random = 5_u64;
        let mut below = |count: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % count
        };
        let (mut reading, mut requests) = (Reading::default(), Vec::new());
        let (mut next, mut head) = (7, 7);
        for _ in 0..2_000 {
            let keys: Vec<Name> = (0..1 + below(5)).map(|_| name(below(40))).collect();
            reading.begin(next, keys.clone());
            requests.push((next, keys));
            next += 1;
            head += (below(3) as u32).min(next - head);
            reading.end_before(head);
            requests.retain(|(place, _)| !is_before(*place, head));
            let mut keys: Vec<Name> = (0..1 + below(60)).map(|_| name(below(60))).collect();
            keys.sort();
            keys.dedup();
            let from = head + below(3) as u32;
            let wanted: Vec<(u32, Name)> = keys
                .iter()
                .filter_map(|key| Some((first(&requests, key, from)?, key.clone())))
                .collect();
            assert_eq!(reading.places_of(&keys, from), wanted);
            for key in &keys {
                assert_eq!(reading.place_of(key, from), first(&requests, key, from));
            }
        }
        reading.end_before(next);
        assert_eq!((reading.held_bytes(), reading.places.len()), (0, 0));
    }

    /// A look at every key of the request for each change would be ten thousand million.
    #[test]
    fn a_hundred_thousand_keys_of_a_request_change() {
        let keys: Vec<Name> = (0..100_000).map(name).collect();
        let mut reading = Reading::default();
        reading.begin(3, keys.clone());
        for key in &keys {
            assert_eq!(reading.place_of(key, 3), Some(3));
        }
        assert_eq!(reading.places_of(&keys, 3).len(), keys.len());
        assert_eq!(reading.all(4).count(), 0);
    }
}
