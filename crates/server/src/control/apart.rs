//! Reading a configuration beside the control thread.
//!
//! Passwords from commands (`password_command`) and files on another machine may take seconds to read. Meanwhile the control thread answers `/healthz`, `/readyz`
//! and the workers, and signals end the program. Orders that change the configuration wait, and keep their order.
//!
//! ```text
//!   Reload ─▶ read ─────────────── thread ─────────────▶ Order::Read ─▶ the rest of the reload ─▶ the next of those that wait
//!   Change ─▶ waits                    IsDrained, End ─▶ at once
//! ```
//! Not here: the sources of a configuration (`sources`), its activation (`changes`, `users`).
//!
//! Invariant: at most one reading is under way, and nothing changes the configuration meanwhile.

use super::{AdminOrder, Control, Order};
use crate::sources::Sources;
use crate::worker::mailbox::Upward;
use engine::fleet::{AclWish, ConfigWish};
use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::thread;

/// Continuation of an order with the result of its reading.
type Then<S> = Box<dyn FnOnce(&mut Control<S>)>;

/// See the module.
pub(super) struct Apart<S> {
    /// Continuation of the current order, `None` without one.
    then: Option<Then<S>>,
    /// Orders that wait for the end of this reading, bounded as the `Inbox` is.
    later: VecDeque<Order>,
}

impl<S> Default for Apart<S> {
    fn default() -> Self {
        Self { then: None, later: VecDeque::new() }
    }
}

impl<S: 'static> Control<S> {
    /// Reads on another thread, and continues with the result.
    pub(super) fn read_apart<T: Send + 'static>(
        &mut self,
        read: impl FnOnce(&Sources) -> T + Send + 'static,
        then: impl FnOnce(&mut Self, T) + 'static,
    ) {
        let (tell, told) = channel();
        debug_assert!(self.apart.then.is_none(), "two readings at once");
        self.apart.then = Some(Box::new(move |control| {
            if let Ok(read) = told.recv() {
                then(control, read);
            }
        }));
        let (sources, orders) = (self.sources.clone(), self.orders.clone());
        // The program may end before this thread does.
        thread::spawn(move || {
            let _ = tell.send(read(&sources));
            let _ = orders.send(Order::Read);
        });
    }

    /// Continues the order whose reading has ended, then the waiting orders.
    pub(super) fn was_read(&mut self) {
        if let Some(then) = self.apart.then.take() {
            then(self);
        }
        while self.apart.then.is_none()
            && let Some(order) = self.apart.later.pop_front()
        {
            self.carry_out(order);
        }
    }

    /// Returns the order unless it waits for a reading.
    pub(super) fn unless_it_waits(&mut self, order: Order) -> Option<Order> {
        if self.apart.then.is_none() || !changes_configuration(&order) {
            return Some(order);
        }
        // A waiting reload reads what is there when its turn comes.
        let is_repeated = matches!(
            (self.apart.later.back(), &order),
            (Some(Order::Reload), Order::Reload) | (Some(Order::FileChanged), Order::FileChanged)
        );
        if !is_repeated {
            self.apart.later.push_back(order);
        }
        None
    }
}

/// Whether an order changes the configuration or the users.
fn changes_configuration(order: &Order) -> bool {
    match order {
        Order::Reload | Order::FileChanged => true,
        Order::Worker(Upward::Config(_, wish)) => !matches!(wish, ConfigWish::Get(_)),
        Order::Worker(Upward::Acl(_, wish)) => !matches!(wish, AclWish::Save),
        Order::Worker(Upward::Answer(..)) => false,
        Order::Admin(order) => match order {
            AdminOrder::Change(..) | AdminOrder::Reload(_) | AdminOrder::Rewrite(_) => true,
            AdminOrder::Ask(..) | AdminOrder::Values(_) => false,
            AdminOrder::Drain(..) | AdminOrder::IsDrained(_) => false,
        },
        Order::Read | Order::End(_) | Order::LameDuckOver | Order::Ended(_) => false,
    }
}
