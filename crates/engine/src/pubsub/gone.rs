//! Clients that are gone and stand among the listeners of topics still: a client may have a hundred thousand, and all others of its worker would wait until
//! it is taken out of them.
//!
//! Not here: how a client leaves a topic (`leaving`).
//!
//! Invariant: each topic of these clients is told by [`Gone::next`] once, at most [`GONE_TOPICS_PER_TURN`] in a turn.

use super::leaving::Leaving;
use super::{Kind, Listening, Name};
use crate::ids::ClientId;
use crate::limits::GONE_TOPICS_PER_TURN;
use alloc::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gone {
    clients: VecDeque<(ClientId, Listening)>,
    topics: usize,
    /// How many were told in this turn.
    told: usize,
}

/// How a client stands at a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Its SUBSCRIBE waits.
    Waits,
    /// Its UNSUBSCRIBE waits.
    Leaves,
    /// It listens.
    Listens,
}

impl Gone {
    /// One more.
    pub(super) fn add(&mut self, id: ClientId, listening: Listening) {
        self.topics += listening.topics();
        self.clients.push_back((id, listening));
    }

    /// How many topics are left to be told.
    pub(super) fn topics(&self) -> usize {
        self.topics
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(super) fn begin_turn(&mut self) {
        self.told = 0;
    }

    /// The next topic that a client is to be taken out of; `None`: there is none, or this turn had enough.
    pub(super) fn next(&mut self) -> Option<(ClientId, Part, Kind, Name)> {
        while self.told < GONE_TOPICS_PER_TURN {
            let (id, listening) = self.clients.front_mut()?;
            if let Some((part, kind, name)) = take(listening) {
                self.told += 1;
                self.topics -= 1;
                return Some((*id, part, kind, name));
            }
            self.clients.pop_front();
        }
        None
    }
}

fn take(listening: &mut Listening) -> Option<(Part, Kind, Name)> {
    if let Some(wait) = &mut listening.wait
        && let Some(name) = wait.names.pop()
    {
        return Some((Part::Waits, wait.kind, name));
    }
    if let Some(part) = listening.leaving.as_mut().and_then(Leaving::take_last) {
        return Some(part);
    }
    Kind::ALL.into_iter().find_map(|kind| {
        listening.topics[kind as usize].pop_first().map(|name| (Part::Listens, kind, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_tells_so_many_topics_and_the_next_ones_the_others() {
        let mut gone = Gone::default();
        let mut all = 0;
        for client in 0..3 {
            let mut listening = Listening::default();
            for number in 0..10_000_u32 {
                let kind = Kind::ALL[number as usize % 3];
                listening.topics[kind as usize].insert(Name::from(number.to_le_bytes()));
            }
            gone.add(ClientId::new(client, 1), listening);
        }
        for wanted in [GONE_TOPICS_PER_TURN, 30_000 - GONE_TOPICS_PER_TURN, 0] {
            gone.begin_turn();
            let mut told = 0;
            while let Some((_, part, _, _)) = gone.next() {
                assert_eq!(part, Part::Listens);
                told += 1;
            }
            assert_eq!(told, wanted);
            all += told;
            assert_eq!((gone.topics(), gone.is_empty()), (30_000 - all, all == 30_000));
        }
    }
}
