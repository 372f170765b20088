//! The lines of CLIENT LIST and CLIENT INFO.
//!
//! The fields and their order are those of Redis 7.2 (`catClientInfoString`), so that tools which parse them go on to work. What a
//! proxy has no notion of (transactions) has the value of a client that has none. The values are the proxy's: ids, ages
//! and buffers of the connection between the client and it.
//!
//! Invariant: one line a client, fields separated by one blank, no blank in a value.

use crate::engine::Engine;
use crate::fleet::Answer;
use crate::ids::ClientId;
use crate::pubsub::Kind;
use crate::time::Time;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Protocol, encode};

impl Engine {
    /// The line of one client; empty if it is gone.
    pub(super) fn client_line(&self, now: Time, id: ClientId) -> String {
        let Some(client) = self.clients.get(id) else { return String::new() };
        let identity = &client.identity;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds_since = |then: Time| now.since(then) / 1_000_000;
        let flags = match (client.listens(), identity.no_evict) {
            (true, true) => "Pe",
            (true, false) => "P",
            (false, true) => "e",
            (false, false) => "N",
        };
        let [sub, psub, ssub] = Kind::ALL.map(|kind| client.listens_to(kind));
        let resp = if client.protocol == Protocol::Resp3 { 3 } else { 2 };
        let pending = client.out.pending();
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={sub} psub={psub} ssub={ssub} \
             multi=-1 watch=0 qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll={} omem={pending} \
             tot-mem={} events={} cmd={} user=default redir=-1 resp={resp} lib-name={} lib-ver={}",
            client.number,
            identity.addr,
            identity.laddr,
            text(&identity.name),
            seconds_since(client.opened_at),
            seconds_since(client.input_at),
            client.db,
            client.tail.len(),
            client.places.open(),
            client.held_bytes() + size_of_val(client) + size_of_val(identity.as_ref()),
            if client.reading { "r" } else { "" },
            client.last_command.map_or("NULL", |command| command.name()),
            text(&identity.lib_name),
            text(&identity.lib_ver),
        )
    }

    /// The lines of the clients with these numbers, or of all, and of those that listen to topics, or don't.
    pub(super) fn client_lines(
        &self,
        now: Time,
        numbers: Option<&[u64]>,
        listens: Option<bool>,
    ) -> Vec<(u64, String)> {
        let wanted = |number: u64| numbers.is_none_or(|numbers| numbers.contains(&number));
        self.clients
            .iter()
            .filter(|(_, client)| wanted(client.number))
            .filter(|(_, client)| listens.is_none_or(|listens| listens == client.listens()))
            .map(|(id, client)| (client.number, self.client_line(now, id)))
            .collect()
    }
}

/// All workers' lines as one reply, in the order of the clients' numbers.
pub(super) fn write(out: &mut Vec<u8>, answers: Vec<Answer>, protocol: Protocol) {
    let mut lines: Vec<(u64, String)> = answers
        .into_iter()
        .flat_map(|answer| match answer {
            Answer::Lines(lines) => lines,
            _ => Vec::new(),
        })
        .collect();
    lines.sort();
    let text: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
    encode::verbatim(out, *b"txt", text.as_bytes(), protocol);
}
