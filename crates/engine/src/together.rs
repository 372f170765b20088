//! Requests that one node must serve whole: whether all their keys lie together, and where.
//!
//! Not here: requests that can be split (`scatter`).
//!
//! Invariant: a place that is returned is that of every key of the request.

use crate::engine::Engine;
use crate::reject;
use crate::request::Step;
use crate::scatter::{Wish, keys_of};
use crate::topology::Place;
use crate::transaction::Refusal;

impl Engine {
    /// Where the keys of a request lie that goes to one node. `Err`: they do not lie together, or nowhere; it was answered.
    pub(crate) fn place_of_wish(&mut self, wish: &Wish<'_>) -> Result<Option<Place>, Step> {
        self.place_together(wish).map_err(|refusal| {
            self.refuse_text(wish, |out| match refusal {
                Refusal::Error(error) => out.extend_from_slice(&error),
                _ => reject::write(out, reject::CROSSSLOT),
            })
        })
    }

    /// The same without an answer.
    pub(crate) fn place_together(&self, wish: &Wish<'_>) -> Result<Option<Place>, Refusal> {
        if self.is_one() {
            return Ok(None);
        }
        let keys = keys_of(wish.args, self.learned.as_ref());
        if let Some(key) = self.router.without_route(&keys) {
            return Err(Refusal::Error(reject::no_route(Some(key))));
        }
        let mut places = keys.iter().map(|(_, key)| self.router.place(key));
        let first = places.next();
        match places.any(|place| Some(place) != first) {
            true => Err(Refusal::Text(reject::CROSSSLOT)),
            false => Ok(first),
        }
    }
}
