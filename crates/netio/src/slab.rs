//! A slab whose ids carry a generation, so that an id kept too long is noticed instead of naming a
//! stranger.
//!
//! Places are reused last-freed-first, which keeps the hot ones in cache. It knows nothing of
//! sockets; both drivers keep their connections in one.
//!
//! Invariant: a [`ConnId`] that was handed out resolves to its own entry or to nothing, never to a
//! later entry at the same place (until 2^32 entries have lived at that one place).

use crate::driver::ConnId;

/// Entries by [`ConnId`].
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    /// Grows by one each time the place is freed.
    generation: u32,
    entry: Option<T>,
}

impl<T> Slab<T> {
    /// An empty slab; allocates nothing yet.
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Puts `entry` at a free place.
    pub(crate) fn insert(&mut self, entry: T) -> ConnId {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            debug_assert!(place.entry.is_none(), "a place on the free list is in use");
            place.entry = Some(entry);
            return ConnId { index, generation: place.generation };
        }
        // Descriptors run out (at most 2^20 or so by default) long before indices do.
        let index = self.places.len() as u32;
        self.places.push(Place { generation: 0, entry: Some(entry) });
        ConnId { index, generation: 0 }
    }

    /// The entry, unless `id` is stale.
    pub(crate) fn get(&self, id: ConnId) -> Option<&T> {
        let place = self.places.get(id.index as usize)?;
        if place.generation == id.generation { place.entry.as_ref() } else { None }
    }

    /// The entry to change, unless `id` is stale.
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation == id.generation { place.entry.as_mut() } else { None }
    }

    /// Takes the entry out and makes `id` stale.
    pub(crate) fn remove(&mut self, id: ConnId) -> Option<T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(entry)
    }

    /// Takes all entries out, as when the owner goes. No id of before may be used after it.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.free.clear();
        self.places.drain(..).filter_map(|place| place.entry)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_never_names_the_next_tenant() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index, "the place is reused");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn an_id_from_elsewhere_is_nothing() {
        let slab = Slab::<u8>::new();
        assert_eq!(slab.get(ConnId { index: 7, generation: 0 }), None);
    }
}
