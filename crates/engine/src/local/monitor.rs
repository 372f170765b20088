//! MONITOR, with what it is to show: `MONITOR [MATCH pattern] … [CLIENT id] …`.
//!
//! Several patterns or clients: any of them; both: what matches both. Said again by a monitor it does nothing and answers nothing, as
//! at a server.
//!
//! Not here: what is shown (`monitor`).

use super::Call;
use crate::command::word;
use crate::engine::Engine;
use crate::fleet::{Purpose, Question};
use crate::limits::MONITOR_FILTERS_MAX;
use crate::monitor::{Filter, Monitor};
use crate::reject;
use crate::request::Step;
use resp::{encode, number};

impl Engine {
    pub(super) fn monitor_command(&mut self, call: &Call<'_>) -> Step {
        if self.clients.get(call.id).is_some_and(|client| client.identity.is_monitor) {
            return Step::Done;
        }
        match filter(&call.args[1..]) {
            Ok(filter) => {
                let monitor = Monitor { worker: self.settings.worker, client: call.id };
                self.ask(call, Question::Monitor(monitor, filter), Purpose::Monitor)
            }
            Err(text) => self.refuse(call, text),
        }
    }

    /// All workers watch for this client.
    pub(super) fn begin_monitor(&mut self, id: crate::ClientId, out: &mut alloc::vec::Vec<u8>) {
        match self.clients.get_mut(id) {
            Some(client) => client.identity.is_monitor = true,
            // It went meanwhile, when nobody knew yet what it would be.
            None => self.forget_monitor(id),
        }
        encode::simple(out, b"OK");
    }
}

fn filter(mut words: &[&[u8]]) -> Result<Filter, &'static str> {
    let mut filter = Filter::default();
    if words.len() > 2 * MONITOR_FILTERS_MAX {
        return Err(reject::MONITOR_FILTERS);
    }
    loop {
        words = match words {
            [] => return Ok(filter),
            [word, pattern, rest @ ..] if word::is(word, b"match") => {
                filter.patterns.push(pattern.to_vec());
                rest
            }
            [word, id, rest @ ..] if word::is(word, b"client") => {
                match number::parse_i64(id).map(u64::try_from) {
                    Some(Ok(number)) if number > 0 => filter.clients.push(number),
                    _ => return Err(reject::CLIENT_ID_INVALID),
                }
                rest
            }
            _ => return Err(reject::SYNTAX),
        }
    }
}
