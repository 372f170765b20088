//! Names of the things that a worker holds, and the slab that gives them out.
//!
//! An id is an index and a generation: whoever keeps an id longer than the thing lives is told so by a lookup that finds
//! nothing, and never gets the thing that moved in afterwards. That is what lets a reply for a client that is gone be
//! dropped instead of reaching the next client.
//!
//! Not here: any meaning of what is stored.
//!
//! Invariant: a generation is odd while its place is taken and even while it is free, and it only grows (it wraps after
//! 2^31 uses of one place, far beyond the life of any id).

use alloc::vec::Vec;
use core::marker::PhantomData;

/// Place and generation of a thing in a [`Slab`] of its kind.
#[derive(Debug)]
pub struct Id<T> {
    /// Index in the slab; small and dense, so that a caller may keep a vector beside it.
    pub index: u32,
    /// Which of the things that ever lived there.
    pub generation: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// An id from its parts, as they come back in a token of the driver.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation, kind: PhantomData }
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.generation == other.generation
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.index, self.generation).cmp(&(other.index, other.generation))
    }
}

/// Marks ids of clients.
#[derive(Debug)]
pub enum ClientKind {}

/// Marks ids of upstream connections.
#[derive(Debug)]
pub enum UpstreamKind {}

/// Marks ids of servers.
#[derive(Debug)]
pub enum NodeKind {}

/// Marks ids of requests that went to several servers.
#[derive(Debug)]
pub enum MergeKind {}

/// Names a request that went to several servers.
pub type MergeId = Id<MergeKind>;

/// Names a client of this worker.
pub type ClientId = Id<ClientKind>;

/// Names a server that this worker knows.
pub type NodeId = Id<NodeKind>;

/// Names an upstream of this worker. It outlives reconnects, so that clients may remember it.
pub type UpstreamId = Id<UpstreamKind>;

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by generational id; places of removed values are used again.
#[derive(Debug)]
pub struct Slab<K, T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    kind: PhantomData<fn() -> K>,
}

impl<K, T> Default for Slab<K, T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), kind: PhantomData }
    }
}

impl<K, T> Slab<K, T> {
    /// Stores a value and names it.
    pub fn insert(&mut self, value: T) -> Id<K> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            debug_assert!(place.value.is_none(), "a place on the free list is taken");
            place.generation = place.generation.wrapping_add(1);
            place.value = Some(value);
            return Id::new(index, place.generation);
        }
        let index = self.places.len() as u32;
        self.places.push(Place { generation: 1, value: Some(value) });
        Id::new(index, 1)
    }

    /// Takes a value out; `None` for a stale id.
    pub fn remove(&mut self, id: Id<K>) -> Option<T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(value)
    }

    /// The value, or `None` for a stale id.
    #[inline]
    pub fn get(&self, id: Id<K>) -> Option<&T> {
        match self.places.get(id.index as usize) {
            Some(place) if place.generation == id.generation => place.value.as_ref(),
            _ => None,
        }
    }

    /// The value to change, or `None` for a stale id.
    #[inline]
    pub fn get_mut(&mut self, id: Id<K>) -> Option<&mut T> {
        match self.places.get_mut(id.index as usize) {
            Some(place) if place.generation == id.generation => place.value.as_mut(),
            _ => None,
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values in the order of their places, which depends on nothing but the history of inserts and removes.
    pub fn iter(&self) -> impl Iterator<Item = (Id<K>, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let value = place.value.as_ref()?;
            Some((Id::new(index as u32, place.generation), value))
        })
    }

    /// All values in the same order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Id<K>, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, place)| {
            let generation = place.generation;
            let value = place.value.as_mut()?;
            Some((Id::new(index as u32, generation), value))
        })
    }

    /// The ids of all values, for loops that change or remove them on the way.
    pub fn ids(&self) -> Vec<Id<K>> {
        self.iter().map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_finds_nothing_even_when_its_place_is_taken_again() {
        let mut slab: Slab<ClientKind, &str> = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn iteration_follows_places() {
        let mut slab: Slab<ClientKind, u32> = Slab::default();
        let ids: Vec<_> = (0..4).map(|n| slab.insert(n)).collect();
        slab.remove(ids[1]);
        assert_eq!(slab.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(slab.ids().len(), 3);
    }
}
