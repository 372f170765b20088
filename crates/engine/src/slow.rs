//! What requests that are not plain may cost in one turn of a worker: those that respool answers itself, refuses, or puts together.
//!
//! ```text
//!   request ── few arguments ──▶ small ─┐
//!           └─ many ───────────▶ large ─┴─ spent? ─ yes ─▶ Hold::Turn: the client goes on in a later turn, by user and address
//! ```
//! Each of the two sizes has a budget of its own, so that a `GET` does not wait for as many turns as there are requests with thousands of keys.
//!
//! Not here: requests that are forwarded as they come; they cost too little to be counted.
//!
//! Invariant: in a turn each size costs at most [`SLOW_TURN_COST_MAX`] and one request more.

use crate::ids::ClientId;
use crate::limits::{
    SLOW_TURN_ARGS, SLOW_TURN_BYTES, SLOW_TURN_COST_MAX, SLOW_TURN_INSIDE, SLOW_TURN_LARGE_ARGS,
    SLOW_TURN_MAX, SLOW_TURN_PARTS, SLOW_TURN_REPLY_BYTES, SLOW_TURN_STEPS,
};

/// The size of a request by the number of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Small,
    Large,
}

impl Size {
    fn of(args: usize) -> Self {
        if args < SLOW_TURN_LARGE_ARGS { Self::Small } else { Self::Large }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SlowTurn {
    /// What requests of each size have cost.
    cost: [usize; 2],
    /// Whose the last request was, and how many without one of another client in between.
    of: Option<(ClientId, u32)>,
}

impl SlowTurn {
    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Whether this client may have a request with so many arguments and bytes processed in this turn.
    #[inline]
    pub(crate) fn take(&mut self, id: ClientId, args: usize, bytes: usize) -> bool {
        let count = match self.of {
            Some((of, count)) if of == id => count,
            _ => 0,
        };
        let size = Size::of(args);
        if count == SLOW_TURN_MAX || self.is_spent(size) {
            return false;
        }
        self.of = Some((id, count + 1));
        self.pay(size, 1 + args / SLOW_TURN_ARGS + bytes / SLOW_TURN_BYTES);
        true
    }

    /// A request with so many arguments, which respool answered itself, has a reply of so many bytes.
    pub(crate) fn pay_reply(&mut self, args: usize, reply_bytes: usize) {
        self.pay(Size::of(args), reply_bytes / SLOW_TURN_REPLY_BYTES);
    }

    /// A request with so many arguments concerned so many names that it did not say.
    pub(crate) fn pay_names(&mut self, args: usize, names: usize) {
        self.pay(Size::of(args), names.saturating_sub(args) / SLOW_TURN_ARGS);
    }

    /// A request with so many arguments had so many names compared, or so many steps of patterns made, one after the other.
    pub(crate) fn pay_steps(&mut self, args: usize, steps: usize) {
        self.pay(Size::of(args), steps / SLOW_TURN_STEPS);
    }

    /// A request with so many arguments and bytes goes to so many servers as it is.
    pub(crate) fn pay_parts(&mut self, args: usize, parts: usize, bytes: usize) {
        let copied = parts.saturating_mul(bytes);
        self.pay(Size::of(args), parts / SLOW_TURN_PARTS + copied / SLOW_TURN_BYTES);
    }

    /// A command between MULTI and EXEC, for which nothing was counted when it came, has a reply of so many bytes.
    pub(crate) fn pay_inside(&mut self, reply_bytes: usize) {
        self.pay(Size::Large, SLOW_TURN_INSIDE + reply_bytes / SLOW_TURN_REPLY_BYTES);
    }

    /// Whether a request with so many arguments is a large one.
    pub(crate) fn is_large(args: usize) -> bool {
        Size::of(args) == Size::Large
    }

    /// Whether large requests wait for the next turn.
    pub(crate) fn is_spent_for_large(&self) -> bool {
        self.is_spent(Size::Large)
    }

    /// Whether requests of this size wait for the next turn.
    pub(crate) fn is_spent_for(&self, is_large: bool) -> bool {
        self.is_spent(if is_large { Size::Large } else { Size::Small })
    }

    fn is_spent(&self, size: Size) -> bool {
        self.cost[size as usize] >= SLOW_TURN_COST_MAX
    }

    fn pay(&mut self, size: Size, cost: usize) {
        self.cost[size as usize] += cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(index: u32) -> ClientId {
        ClientId::new(index, 1)
    }

    #[test]
    fn a_small_request_does_not_wait_for_large_ones() {
        let mut turn = SlowTurn::default();
        assert!(turn.take(client(1), 1_000_000, 0), "one of any size goes on in each turn");
        assert!(!turn.take(client(2), SLOW_TURN_LARGE_ARGS, 0) && turn.is_spent_for_large());
        assert!(turn.take(client(2), SLOW_TURN_LARGE_ARGS - 1, 0));
        turn.begin();
        assert!(turn.take(client(2), SLOW_TURN_LARGE_ARGS, 0));
    }

    #[test]
    fn small_ones_are_bounded_for_a_client_for_all_clients_and_by_their_replies() {
        let mut turn = SlowTurn::default();
        let taken = |turn: &mut SlowTurn, id| (0..10_000).filter(|_| turn.take(id, 1, 0)).count();
        assert_eq!(taken(&mut turn, client(1)), SLOW_TURN_MAX as usize);
        let others: usize = (2..100).map(|index| taken(&mut turn, client(index))).sum();
        assert_eq!(others, SLOW_TURN_COST_MAX - SLOW_TURN_MAX as usize);
        turn.begin();
        assert!(turn.take(client(1), 1, 0));
        turn.pay_reply(1, 64 << 20);
        assert!(!turn.take(client(2), 1, 0));
    }

    #[test]
    fn bytes_and_servers_count_too() {
        let taken = |bytes: usize, parts: usize| {
            let mut turn = SlowTurn::default();
            let take = |index: u32| {
                let is_taken = turn.take(client(index), 3, bytes);
                turn.pay_parts(3, parts, bytes);
                is_taken
            };
            (0..10_000).map(take).filter(|is_taken| *is_taken).count()
        };
        assert_eq!(taken(100, 0), SLOW_TURN_COST_MAX);
        assert!((60..70).contains(&taken(250_000, 0)), "{}", taken(250_000, 0));
        assert!((25..30).contains(&taken(100, 1_000)), "{}", taken(100, 1_000));
        assert_eq!(taken(64 << 10, 1_000), 1);
    }
}
