//! The lines of CLIENT LIST and CLIENT INFO.
//!
//! The fields and their order are those of Redis 7.4 (`catClientInfoString`): those of 7.0 with `watch`, and with what CLIENT SETINFO says behind
//! them, so that tools which parse them go on to work. What a proxy has no notion of (memory of arguments) has the value of a client
//! that has none. The values are the proxy's: ids, ages and buffers of the connection between the client and it.
//!
//! Invariant: one line a client, fields separated by one blank, no blank in a value.

use crate::client::Client;
use crate::engine::Engine;
use crate::fleet::Answer;
use crate::ids::ClientId;
use crate::pubsub::Kind;
use crate::questions::lines_bytes;
use crate::reject;
use crate::time::Time;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Protocol, encode};

impl Engine {
    /// The line of one client; empty if it is gone. With its tenant at the end, if there are any.
    pub(crate) fn client_line(&self, now: Time, id: ClientId) -> String {
        let line = self.line_in_redis_words(now, id);
        match &self.settings.tenancy {
            Some(tenancy) if !line.is_empty() => format!("{line} tenant={}", tenancy.name),
            _ => line,
        }
    }

    fn line_in_redis_words(&self, now: Time, id: ClientId) -> String {
        let Some(client) = self.clients.get(id) else { return String::new() };
        let identity = &client.identity;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds_since = |then: Time| now.since(then) / 1_000_000;
        let flags = self.client_flags(id, client);
        let (multi, watch) = match (self.assembled(id), &client.lease) {
            (Some(queued), _) => (queued as i64, 0),
            (None, Some(lease)) => lease.holds(),
            (None, None) => (-1, 0),
        };
        let [sub, psub, ssub] = Kind::ALL.map(|kind| client.listens_to(kind));
        let resp = if client.protocol == Protocol::Resp3 { 3 } else { 2 };
        let pending = client.out.pending();
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={sub} psub={psub} ssub={ssub} \
             multi={multi} watch={watch} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll={} omem={pending} \
             tot-mem={} events={} cmd={} user={} redir={} resp={resp} lib-name={} lib-ver={}",
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
            events(client),
            client.last_command.map_or("NULL", |command| command.name()),
            self.user_of(client).map_or_else(String::new, |user| text(user.name())),
            self.redirected_to(id),
            text(&identity.lib_name),
            text(&identity.lib_ver),
        )
    }

    /// What the client is just now, in Redis' letters.
    fn client_flags(&self, id: ClientId, client: &Client) -> String {
        let in_transaction = self.is_queueing(id) || self.assembled(id).is_some();
        let tracking = client.tracking.as_ref();
        let letters = [
            (client.identity.is_monitor, 'O'),
            (client.listens(), 'P'),
            (in_transaction, 'x'),
            (self.is_blocked(id), 'b'),
            (tracking.is_some(), 't'),
            (tracking.is_some_and(|tracking| tracking.is_broken()), 'R'),
            (tracking.is_some_and(|tracking| tracking.is_broadcast()), 'B'),
            (client.closing, 'c'),
            (client.identity.no_evict, 'e'),
            (client.identity.no_touch, 'T'),
        ];
        let flags: String =
            letters.iter().filter(|(on, _)| *on).map(|(_, letter)| letter).collect();
        if flags.is_empty() { String::from("N") } else { flags }
    }

    /// The lines of the clients with these numbers, or of all, and of those that listen to topics, or don't; with the
    /// listener at their end, if that is wanted. With it nobody but the operator asks, who gets them however long they are.
    pub(super) fn client_lines(
        &self,
        now: Time,
        numbers: Option<&[u64]>,
        listens: Option<bool>,
        listener: bool,
    ) -> Answer {
        // A client may name very many.
        let numbers: Option<BTreeSet<u64>> =
            numbers.map(|numbers| numbers.iter().copied().collect());
        let wanted = |number: u64| numbers.as_ref().is_none_or(|numbers| numbers.contains(&number));
        let wanted: Vec<(ClientId, &Client)> = self
            .clients
            .iter()
            .filter(|(_, client)| wanted(client.number))
            .filter(|(_, client)| listens.is_none_or(|listens| listens == client.listens()))
            .collect();
        // Known before any is written.
        let bytes: usize = wanted.iter().map(|(_, client)| line_bytes_min(client)).sum();
        if bytes > self.list_bytes_max() && !listener {
            return Answer::TooLarge;
        }
        let lines = wanted.into_iter().map(|(id, client)| {
            let label = client.identity.listener.as_deref().filter(|_| listener);
            let end = label.map(|label| format!(" listener={label}")).unwrap_or_default();
            (client.number, self.client_line(now, id) + &end)
        });
        Answer::Lines(lines.collect())
    }
}

/// About as long the line of a client is, or a little longer: the names that it gave itself have any length.
fn line_bytes_min(client: &Client) -> usize {
    let identity = &client.identity;
    LINE_BYTES_MIN + identity.name.len() + identity.lib_name.len() + identity.lib_ver.len()
}

/// Without any name.
const LINE_BYTES_MIN: usize = 256;

/// What is awaited of its socket: that there is something to read, that there is room to write.
fn events(client: &Client) -> &'static str {
    match (client.reading, client.out.pending() > 0) {
        (true, false) => "r",
        (true, true) => "rw",
        (false, true) => "w",
        (false, false) => "",
    }
}

/// All workers' lines as one reply, in the order of the clients' numbers; an error, if they have more than `bytes_max`.
pub(super) fn write(out: &mut Vec<u8>, answers: Vec<Answer>, protocol: Protocol, bytes_max: usize) {
    let Some(bytes) = lines_bytes(&answers).filter(|bytes| *bytes <= bytes_max) else {
        return reject::write(out, reject::LIST_TOO_LARGE);
    };
    let mut lines: Vec<(u64, String)> = answers
        .into_iter()
        .flat_map(|answer| match answer {
            Answer::Lines(lines) => lines,
            _ => Vec::new(),
        })
        .collect();
    lines.sort();
    let mut text = String::with_capacity(bytes);
    for (_, line) in lines {
        text.push_str(&line);
        text.push('\n');
    }
    out.reserve_exact(bytes + HEAD_BYTES);
    encode::verbatim(out, *b"txt", text.as_bytes(), protocol);
}

/// Room for what stands before and behind the text of a reply.
const HEAD_BYTES: usize = 32;
