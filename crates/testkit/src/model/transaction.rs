//! The model's transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Commands between MULTI and EXEC are checked and kept; a refused one makes EXEC an EXECABORT, as in the server. A watched key counts as
//! changed when the log of its changes has grown.
//!
//! Invariant: nothing of a transaction is executed before EXEC.

use resp::encode;

use super::{Call, table};

/// What a connection has queued.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) calls: Vec<Vec<Vec<u8>>>,
    /// One was refused.
    pub(super) refused: bool,
}

/// A key that is watched: its database, its name, and how long its log was.
pub(super) type Watched = (u32, Vec<u8>, usize);

const ABORT: &str = "EXECABORT Transaction discarded because of previous errors.";

/// Whether this command is executed between MULTI and EXEC, and not kept.
pub(super) fn runs_at_once(name: &str) -> bool {
    matches!(name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset")
}

pub(super) fn multi(call: &mut Call<'_>) {
    if call.conn.queue.is_some() {
        return call.error("ERR MULTI calls can not be nested");
    }
    call.conn.queue = Some(Queue::default());
    call.ok();
}

pub(super) fn discard(call: &mut Call<'_>) {
    if call.conn.queue.take().is_none() {
        return call.error("ERR DISCARD without MULTI");
    }
    call.conn.watched.clear();
    call.ok();
}

pub(super) fn watch(call: &mut Call<'_>) {
    if call.conn.queue.is_some() {
        return call.error("ERR WATCH inside MULTI is not allowed");
    }
    let db = call.conn.database;
    for key in &call.args[1..] {
        call.conn.watched.push((db, key.clone(), call.model.effects(db, key).len()));
    }
    call.ok();
}

pub(super) fn unwatch(call: &mut Call<'_>) {
    call.conn.watched.clear();
    call.ok();
}

pub(super) fn exec(call: &mut Call<'_>) {
    let Some(queue) = call.conn.queue.take() else {
        return call.error("ERR EXEC without MULTI");
    };
    let watched = std::mem::take(&mut call.conn.watched);
    if queue.refused {
        return call.error(ABORT);
    }
    let changed = |(db, key, len): &Watched| call.model.effects(*db, key).len() != *len;
    if watched.iter().any(changed) {
        return encode::null_array(call.out, call.conn.protocol);
    }
    encode::array(call.out, queue.calls.len());
    call.conn.executes = true;
    for args in &queue.calls {
        let Call { model, conn, out, place, .. } = call;
        table::execute(&mut Call { model, conn, args, out, place: place.clone() });
    }
    call.conn.executes = false;
}
