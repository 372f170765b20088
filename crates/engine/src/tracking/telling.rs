//! The message that tells a client of changed keys.
//!
//! Not here: the order of messages and replies (`order`), the message of a server (`wire`).
//!
//! Invariant: a client in RESP2 gets messages on its channel, and a client in RESP3 gets pushes.

use super::{Changed, Name};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::limits::FAN_NAME_COST;
use crate::news::What;
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// The channel on which RESP2 clients hear of changes (`TrackingChannelName` in Redis' tracking.c).
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Engine {
    /// Sends the message to a client, or to the client of its REDIRECT.
    pub(super) fn tell_changed(&mut self, id: ClientId, changed: &Changed) {
        let Some(client) = self.clients.get(id) else { return };
        let Some(tracking) = client.tracking.as_ref() else { return };
        let target = tracking.redirect;
        if target == 0 {
            // A server tells a RESP2 client only of redirected keys (`sendTrackingMessage` of Redis 7.0).
            if client.protocol == Protocol::Resp3 {
                self.push_changed(id, changed);
            }
            return;
        }
        if self.push_changed_to(target, changed) {
            return;
        }
        if self.settings.workers > 1 {
            return self.tell_others(0, What::Changed { client: target, changed: changed.clone() });
        }
        if let Some(tracking) = self.clients.get_mut(id).and_then(|c| c.tracking.as_mut()) {
            tracking.broken = true;
        }
        if client_is_resp3(self, id) {
            self.push(id, |out| {
                encode::push(out, 2);
                encode::bulk(out, b"tracking-redir-broken");
                encode::integer(out, target as i64);
            });
        }
    }

    /// Sends the message to the client of this number. Returns whether this worker has the client.
    pub(crate) fn push_changed_to(&mut self, number: u64, changed: &Changed) -> bool {
        let Some(target) = self.client_numbered(number) else { return false };
        self.push_changed(target, changed);
        true
    }

    fn push_changed(&mut self, id: ClientId, changed: &Changed) {
        let Some(client) = self.clients.get(id) else { return };
        let (protocol, listens) = (client.protocol, client.listens());
        if protocol == Protocol::Resp2 && !listens {
            return;
        }
        let mut message = Vec::new();
        match protocol {
            Protocol::Resp3 => {
                encode::push(&mut message, 2);
                encode::bulk(&mut message, b"invalidate");
            }
            Protocol::Resp2 => {
                encode::array(&mut message, 3);
                encode::bulk(&mut message, b"message");
                encode::bulk(&mut message, CHANNEL);
            }
        }
        match changed {
            Changed::All => encode::null(&mut message, protocol),
            Changed::Keys(keys) => self.write_list(&mut message, keys),
            Changed::Listed(_, list) => message.extend_from_slice(list),
        }
        self.push(id, |out| out.extend_from_slice(&message));
    }

    /// The list of these keys in a message, with names as clients know them.
    pub(super) fn write_list(&mut self, out: &mut Vec<u8>, keys: &[Name]) {
        self.grants.fan.pay(keys.len() * FAN_NAME_COST, false);
        encode::array(out, keys.len());
        keys.iter().for_each(|key| encode::bulk(out, self.outward_name(key)));
    }
}

fn client_is_resp3(engine: &Engine, id: ClientId) -> bool {
    engine.clients.get(id).is_some_and(|client| client.protocol == Protocol::Resp3)
}
