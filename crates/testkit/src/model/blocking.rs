//! The model's BLPOP: an element at once, or the connection waits until there is one.
//!
//! There is no clock, so it waits for ever, whatever the timeout; and only a server of its own knows it, no node of a cluster. What is pushed is given to those who
//! wait in the order in which they came, when the whole request (with EXEC: the whole transaction) is done. It lies here until the owner of
//! the connection asks for it ([`Model::deliver`](super::Model::deliver)).
//!
//! Invariant: who waits has asked for nothing since.

use std::collections::{BTreeMap, VecDeque};

use resp::encode;

use super::{Call, Effect, Face, Model, Value};

/// Everybody who waits, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    all: VecDeque<Waiter>,
    served: BTreeMap<u64, Vec<u8>>,
}

#[derive(Debug)]
struct Waiter {
    conn: u64,
    database: u32,
    keys: Vec<Vec<u8>>,
}

impl Waiting {
    /// Whether this connection waits.
    pub(super) fn holds(&self, conn: u64) -> bool {
        self.all.iter().any(|waiter| waiter.conn == conn)
    }

    /// A connection is over.
    pub(super) fn forget(&mut self, conn: u64) {
        self.all.retain(|waiter| waiter.conn != conn);
        self.served.remove(&conn);
    }

    /// Gives out what a connection got.
    pub(super) fn take(&mut self, conn: u64, out: &mut Vec<u8>) {
        out.extend(self.served.remove(&conn).unwrap_or_default());
    }
}

pub(super) fn blpop(call: &mut Call<'_>) {
    let Some((timeout, keys)) = call.args[1..].split_last() else { return };
    let timeout = std::str::from_utf8(timeout).ok().and_then(|text| text.parse::<f64>().ok());
    match timeout {
        None => return call.error("ERR timeout is not a float or out of range"),
        Some(timeout) if timeout < 0.0 => return call.error("ERR timeout is negative"),
        Some(_) => {}
    }
    if call.conn.face != Face::Standalone {
        return call.error("ERR the model's clusters do not block");
    }
    for key in keys {
        match call.keyspace().get(key) {
            Some(Value::Text(_)) => return call.error(super::data::WRONG_TYPE),
            Some(Value::List(_)) => {
                let popped = call.model.pop(call.conn.database, key);
                return write(call.out, key, &popped);
            }
            None => {}
        }
    }
    if call.conn.executes {
        return encode::null_array(call.out, call.conn.protocol);
    }
    let (conn, database, keys) = (call.conn.id, call.conn.database, keys.to_vec());
    call.model.waiting.all.push_back(Waiter { conn, database, keys });
}

fn write(out: &mut Vec<u8>, key: &[u8], element: &[u8]) {
    encode::array(out, 2);
    encode::bulk(out, key);
    encode::bulk(out, element);
}

impl Model {
    /// Serves those who wait, as far as there is something.
    pub(super) fn serve_waiting(&mut self) {
        let mut at = 0;
        while let Some(waiter) = self.waiting.all.get(at) {
            let data = &self.databases[waiter.database as usize];
            let is_list = |key: &&Vec<u8>| matches!(data.get(*key), Some(Value::List(_)));
            let Some(key) = waiter.keys.iter().find(is_list).cloned() else {
                at += 1;
                continue;
            };
            let Some(waiter) = self.waiting.all.remove(at) else { return };
            let popped = self.pop(waiter.database, &key);
            write(self.waiting.served.entry(waiter.conn).or_default(), &key, &popped);
        }
    }

    /// Takes the first element of a list; one that is empty then is gone.
    fn pop(&mut self, database: u32, key: &[u8]) -> Vec<u8> {
        let data = &mut self.databases[database as usize];
        let Some(Value::List(list)) = data.get_mut(key) else { return Vec::new() };
        let popped = list.pop_front().unwrap_or_default();
        if list.is_empty() {
            data.remove(key);
        }
        let place = (database, key.to_vec());
        self.doers.entry(place.clone()).or_default().push(self.deployment);
        self.effects.entry(place).or_default().push(Effect::Pop(popped.clone()));
        self.trackers.changed(key, None, None, self.deployment);
        popped
    }
}
