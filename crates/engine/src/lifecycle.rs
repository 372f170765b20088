//! Clients come, are held, go on, are slowed, and go.
//!
//! Holding: a client whose next request must wait keeps it in its tail ([`Engine::hold`]). Whoever removes the reason puts the client on
//! the `resume` queue, which is worked off once a turn. Slowing: a client is read only while its tail is below the
//! high-water mark. Going: a client that is to be closed gets what it is owed first, unless it is the cause.
//!
//! Not here: what its requests mean.
//!
//! Invariant: a client that is gone has left nothing behind but its places in the upstreams' FIFOs and in merges: what comes for them is dropped.

use crate::account::Kind;
use crate::client::{Client, Hold, Identity, ReplyMode, Sizes};
use crate::engine::{Action, Engine, Notice};
use crate::ids::{ClientId, UpstreamId};
use crate::limits::CLIENT_STREAM_BYTES;
use crate::mirror::is_mirrors;
use crate::pool::{append_piece, make_room};
use crate::reject;
use crate::shares::Group;
use crate::stats::Refused;
use crate::time::Time;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Clients by the number that `CLIENT ID` tells.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The number of the next client.
    pub(crate) next: u64,
    clients: BTreeMap<u64, ClientId>,
}

impl Numbers {
    /// Of this worker. Each has every so many-th number as there are workers.
    pub(crate) fn new(worker: u32) -> Self {
        Self { next: u64::from(worker) + 1, clients: BTreeMap::new() }
    }

    fn take(&mut self, workers: u32) -> u64 {
        let number = self.next;
        self.next += u64::from(workers.max(1));
        number
    }
}

impl Engine {
    /// A client connected; `addr` and `laddr` as Redis prints addresses. It is `None` if there are too many: the
    /// caller sends [`Engine::turn_away`] and closes.
    #[must_use]
    pub fn handle_client_open(
        &mut self,
        now: Time,
        addr: String,
        laddr: String,
    ) -> Option<ClientId> {
        if !self.has_room() {
            self.count_refused(Refused::MaxClients);
            return None;
        }
        self.stats.clients_accepted += 1;
        let number = self.numbers.take(self.settings.workers);
        let identity = Identity { addr, laddr, ..Identity::default() };
        let mut client = Client::new(number, identity, now);
        client.db = self.settings.node.db;
        client.conn = self.next_conn();
        Self::enter_as_default(&self.settings, &mut client);
        if !client.is_authenticated() {
            client.identity.unknown_since = Some(now);
            self.sweep.look_for_unknown(now.plus_ms(self.settings.timeouts.auth_ms));
        }
        Some(self.add_client(client))
    }

    /// One more client.
    pub(crate) fn add_client(&mut self, client: Client) -> ClientId {
        let number = client.number;
        let id = self.clients.insert(client);
        self.numbers.clients.insert(number, id);
        id
    }

    /// The client with the number that `CLIENT ID` tells.
    pub(crate) fn client_numbered(&self, number: u64) -> Option<ClientId> {
        self.numbers.clients.get(&number).copied()
    }

    /// Whether one more client may come.
    pub(crate) fn has_room(&self) -> bool {
        self.clients.len() < self.settings.limits.clients_max && !self.draining
    }

    /// The number of the shared connections that the fewest clients use; one more uses it now.
    pub(crate) fn next_conn(&mut self) -> u16 {
        let fewest = self.conn_clients.iter().enumerate().min_by_key(|(_, clients)| **clients);
        let conn = fewest.map_or(0, |(conn, _)| conn);
        if let Some(clients) = self.conn_clients.get_mut(conn) {
            *clients += 1;
        }
        // There are as many as a `u16` of the settings said.
        conn as u16
    }

    /// The client came to the listener that is called so.
    pub fn note_listener(&mut self, id: ClientId, label: Arc<str>) {
        if let Some(client) = self.clients.get_mut(id) {
            client.identity.listener = Some(label);
        }
    }

    /// A client was turned away before it came here.
    pub fn count_refused(&mut self, why: Refused) {
        self.stats.refused[why as usize] += 1;
    }

    /// What a client gets that is turned away; `None`: nothing, as what it says is not known to be RESP.
    pub fn turn_away(why: Refused) -> Option<Vec<u8>> {
        let text = match why {
            Refused::MaxClients | Refused::ListenerMaxClients => reject::MAX_CLIENTS,
            Refused::TenantMaxClients => reject::TENANT_FULL,
            Refused::Address => reject::DENIED_ADDRESS,
            Refused::HeaderSource => reject::DENIED_SOURCE,
            Refused::Rate => reject::TOO_MANY_CONNECTIONS,
            Refused::HeaderMissing
            | Refused::HeaderBroken
            | Refused::HeaderLate
            | Refused::AuthLate => return None,
        };
        let mut out = Vec::new();
        reject::write(&mut out, text);
        Some(out)
    }

    /// Bytes came from a client.
    pub fn handle_client_bytes(&mut self, now: Time, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(id) else { return };
        self.input_events += 1;
        if client.epoch != self.epoch {
            client.epoch = self.epoch;
            self.epoch_clients += 1;
        }
        client.input_at = now;
        self.stats.client_in_bytes += bytes.len() as u64;
        if client.closing {
            return;
        }
        if client.tail.is_empty() {
            let sizes = client.sizes;
            let used = self.process(now, id, sizes, bytes);
            let Some(client) = self.clients.get_mut(id) else { return };
            if used < bytes.len() {
                client.tail = self.pool.take();
                make_room(&mut client.tail, bytes.len() - used, client.scanner.missing());
                client.tail.extend_from_slice(&bytes[used..]);
                client.identity.late.begin(now, bytes.len() - used);
                self.after_input(id);
            } else if client.hold != Hold::No {
                // A large request leaves no tail, but its upstream may be full now.
                self.after_input(id);
            }
        } else {
            append_piece(&mut client.tail, bytes, client.scanner.missing());
            self.process_tail(now, id);
        }
    }

    /// Processes what waits in a client's tail.
    fn process_tail(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let (sizes, mut tail) = (client.sizes, core::mem::take(&mut client.tail));
        let used = self.process(now, id, sizes, &tail);
        match self.clients.get_mut(id) {
            Some(client) if used < tail.len() => {
                tail.drain(..used);
                client.identity.late.advance(now, used, tail.len());
                client.tail = tail;
            }
            _ => self.pool.give(tail),
        }
        self.after_input(id);
    }

    fn after_input(&mut self, id: ClientId) {
        self.update_reading(id);
        self.settle_if_needed(id);
    }

    /// The client sends no more. What it is owed still goes out (a pipe into `nc` ends like this), then it is closed.
    pub fn handle_client_eof(&mut self, _now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.eof = true;
        client.reading = false;
        self.sweep.looks_at_deserted |= client.places.open() > 0;
        if matches!(client.hold, Hold::Streaming(_) | Hold::Skipping) {
            // Half a request: it will never be whole.
            return self.close_client(id, None);
        }
        if self.is_blocked(id) {
            // As a server does: what it waits for must go to somebody else.
            return self.close_client(id, None);
        }
        let Some(client) = self.clients.get_mut(id) else { return };
        client.closing = client.hold == Hold::No;
        self.settle(id);
    }

    /// The client's connection is gone.
    pub fn handle_client_closed(&mut self, _now: Time, id: ClientId) {
        self.forget_client(id);
    }

    /// A buffer went out to the client and comes back.
    pub fn handle_client_sent(&mut self, now: Time, id: ClientId, buf: Vec<u8>) {
        let Some(client) = self.clients.get_mut(id) else { return self.pool.give(buf) };
        client.out.finish_send(buf, &mut self.pool);
        (client.taken_at, client.granted) = (now, 0);
        for stalled in &client.stalls {
            if let Some(upstream) = self.upstreams.get_mut(*stalled)
                && let Some(stall) = upstream.stall.as_mut().filter(|stall| stall.client == id)
            {
                stall.progress_at = now;
            }
        }
        self.settle_if_needed(id);
    }

    /// A buffer went out to the upstream and comes back.
    pub fn handle_upstream_sent(&mut self, now: Time, id: UpstreamId, buf: Vec<u8>) {
        let Some(upstream) = self.upstreams.get_mut(id).filter(|up| up.is_open()) else {
            if is_mirrors(id) {
                let mut buf = Some(buf);
                return self.mirror_event(now, id, &mut |engine, id| {
                    engine.handle_upstream_sent(now, id, buf.take().unwrap_or_default());
                });
            }
            // The connection was lost earlier in this turn, and its output is forgotten already.
            return self.pool.give(buf);
        };
        let buf = match &mut upstream.edge {
            None => buf,
            Some(edge) => edge.end_send(buf, &mut self.pool),
        };
        upstream.out.finish_send_and_keep(buf, &mut self.pool);
        if upstream.waits_for_buffer {
            upstream.waits_for_buffer = false;
            self.input_again(now, id);
        }
        self.weigh_upstream(id);
        let parked = self.waits_parked(id);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if upstream.waiters.is_empty()
            && !parked
            && !matches!(upstream.role, crate::upstream::Role::Transfer(_))
        {
            return;
        }
        upstream.progress_at = now;
        if upstream.is_ready()
            && upstream.out.pending() <= self.settings.limits.upstream_out_high_bytes / 2
        {
            let role = upstream.role;
            self.note_room(id);
            if let crate::upstream::Role::Transfer(client) = role {
                self.update_reading(client);
            }
        }
    }

    /// The client's next request must wait.
    pub(crate) fn hold(&mut self, id: ClientId, hold: Hold) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.hold = hold;
        match hold {
            Hold::Paused => self.paused_clients.push(id),
            Hold::Topology => self.topology_waiters.push(id),
            Hold::Upstream(upstream) => {
                let group = Group::of(client, &self.settings.users);
                if let Some(upstream) = self.upstreams.get_mut(upstream) {
                    upstream.waiters.push(group, id);
                }
            }
            _ => {}
        }
        self.settle(id);
    }

    /// Goes on with the clients whose hold may be over; those that came on the list meanwhile wait for the next turn.
    pub(crate) fn run_resumes(&mut self, now: Time) {
        if self.transfer_place_is_free() {
            self.wake_transfer_waiter();
        }
        if self.login_place_is_free(now) {
            self.wake_for_word();
        }
        self.grants.slow.begin();
        // Clients in these lines go first: requests of woken clients may cost all that a turn may.
        [false, true].into_iter().for_each(|is_large| self.run_line(now, is_large));
        for _ in 0..self.resume.len() {
            let Some(id) = self.resume.pop_front() else { break };
            self.run_queued(now, id);
        }
        // Those that come with something new have as much, or one of the two would always be first.
        self.grants.slow.begin();
    }

    /// Resumes clients that wait for a turn with a request of this size, until such requests have cost as much as one turn may. Clients that are left keep their places.
    fn run_line(&mut self, now: Time, is_large: bool) {
        let line = usize::from(is_large);
        for _ in 0..self.grants.lines[line].len() {
            if self.grants.slow.is_spent_for(is_large) {
                return;
            }
            let Some(id) = self.grants.lines[line].pop() else { return };
            self.run_queued(now, id);
        }
    }

    /// Goes on with a client that stood in a line or in `resume`, unless it is gone or in the middle of a large request.
    fn run_queued(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.queued = false;
        if !matches!(client.hold, Hold::Streaming(_) | Hold::Skipping) {
            self.resume_client(now, id);
        }
    }

    /// Whoever waits for this upstream looks again.
    pub(crate) fn wake_waiters(&mut self, id: UpstreamId) {
        if let Some(upstream) = self.upstreams.get_mut(id) {
            self.resume.extend(core::iter::from_fn(|| upstream.waiters.pop()));
        }
        self.wake_parked(id);
    }

    /// This client looks again, if it waits for this upstream.
    pub(crate) fn wake_waiter(&mut self, id: UpstreamId, client: ClientId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let waited = upstream.waiters.remove(client);
        self.resume.extend(waited.then_some(client));
    }

    /// Goes on with a client that is held no more.
    pub(crate) fn resume_client(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.hold = Hold::No;
        client.identity.late.resume(now);
        self.process_tail(now, id);
        if let Some(client) = self.clients.get_mut(id)
            && client.eof
            && client.hold == Hold::No
        {
            client.closing = true;
            self.settle(id);
        }
    }

    #[inline]
    pub(crate) fn settle_if_needed(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(id) else { return };
        if client.hold != Hold::No
            || client.closing
            || !client.stalls.is_empty()
            || client.tracking.is_some()
            || client.charge.is_any()
            || client.flow_bytes_max() > self.account.counted_from_bytes()
        {
            self.settle(id);
        }
    }

    /// Looks whether what holds, stalls or keeps the client alive is over.
    pub(crate) fn settle(&mut self, id: ClientId) {
        if self.clients.get(id).is_some_and(|client| !client.identity.pushes.is_empty()) {
            self.end_pushes_behind_exec(id);
        }
        self.track_delivered(id);
        self.account_client(id);
        let Some(client) = self.clients.get_mut(id) else { return };
        let pending = client.out.pending();
        if client.closing && client.owed() == 0 && pending == 0 {
            return self.close_client(id, None);
        }
        let goes_on = match client.hold {
            Hold::Drained => client.places.open() == 0,
            Hold::Turn(is_large) => {
                if !core::mem::replace(&mut client.queued, true) {
                    let group = Group::of(client, &self.settings.users);
                    self.grants.lines[usize::from(is_large)].push(group, id);
                }
                false
            }
            Hold::Output => {
                let window = client
                    .window(self.grants.speed.window.min(self.settings.limits.client_inflight_max));
                let mark = self.settings.limits.client_out_high_bytes + client.granted;
                client.places.open() <= window / 2 && client.waiting_out() <= mark / 2
            }
            _ => false,
        };
        if goes_on && !client.queued {
            client.queued = true;
            self.resume.push_back(id);
        }
        if !client.stalls.is_empty() && pending <= (CLIENT_STREAM_BYTES + client.granted) / 2 {
            self.end_stalls(id);
        }
    }

    /// The client has taken enough: the upstreams that waited for it are read again.
    pub(crate) fn end_stalls(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        for stalled in core::mem::take(&mut client.stalls) {
            if let Some(upstream) = self.upstreams.get_mut(stalled)
                && let Some(stall) = upstream.stall.take_if(|stall| stall.client == id)
            {
                upstream.progress_at = upstream.progress_at.max(stall.progress_at);
                upstream.stalled_us = 0;
                self.read_again(stalled);
            }
        }
    }

    /// This upstream is stalled no more.
    pub(crate) fn read_again(&mut self, id: UpstreamId) {
        if !self.grants.fan.has(id) {
            self.actions.push_back(Action::ReadUpstream(id, true));
        }
        self.schedule(id);
        self.wake_waiters(id);
    }

    /// Closes a client that costs too much.
    pub(crate) fn evict(&mut self, id: ClientId, cause: &str) {
        self.stats.clients_evicted += 1;
        self.close_client(id, Some(cause));
    }

    /// Evicts a client that does not read, by a reset: after an orderly close the kernel would keep its replies until the client closes its side.
    pub(crate) fn evict_unread(&mut self, id: ClientId, cause: &str) {
        self.stats.clients_evicted += 1;
        self.tell_closed(id, cause);
        if self.forget_client(id) {
            self.actions.push_back(Action::ResetClient(id));
        }
    }

    /// Reads from the client, or stops, as its tail and its upstream allow.
    pub(crate) fn update_reading(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let limits = &self.settings.limits;
        let room_upstream = match client.hold {
            Hold::Streaming(upstream) => self
                .upstreams
                .get(upstream)
                .is_none_or(|up| up.out.pending() < limits.upstream_out_high_bytes),
            _ => true,
        };
        let wanted = !client.eof
            && !client.closing
            && room_upstream
            // What waits of a client that is not held is one unfinished request: without its rest it would wait for ever.
            && (client.hold == Hold::No || client.tail.len() < limits.client_in_high_bytes);
        if client.eof {
            return;
        }
        if !wanted {
            self.grants.watch(id);
        }
        if wanted != client.reading {
            client.reading = wanted;
            self.actions.push_back(Action::ReadClient(id, wanted));
        }
    }

    /// respool processes no more input of this client, and closes the client behind the replies that the client is owed. respool closes a client that waits
    /// at a server at once: the element of that wait must go to another client.
    pub(crate) fn begin_close(&mut self, id: ClientId) {
        if self.is_blocked(id) {
            return self.close_client(id, None);
        }
        if let Some(client) = self.clients.get_mut(id) {
            client.closing = true;
            client.hold = Hold::No;
        }
        self.settle(id);
    }

    /// Tells the log why a client is closed.
    pub(crate) fn tell_closed(&mut self, id: ClientId, cause: &str) {
        if let Some(client) = self.clients.get(id) {
            self.notices.push_back(Notice::ClientClosed {
                client: client.number,
                addr: client.identity.addr.clone(),
                cause: cause.to_string(),
            });
        }
    }

    /// Closes the client now; `cause` is for the log.
    pub(crate) fn close_client(&mut self, id: ClientId, cause: Option<&str>) {
        if let Some(cause) = cause {
            self.tell_closed(id, cause);
        }
        if self.forget_client(id) {
            self.actions.push_back(Action::CloseClient(id));
        }
    }

    /// Removes all traces of a client but its places in the upstreams' FIFOs: replies for them will find nobody.
    fn forget_client(&mut self, id: ClientId) -> bool {
        let Some(mut client) = self.detach_client(id) else { return false };
        self.gone_clients += 1;
        client.out.clear(&mut self.pool);
        self.pool.give(core::mem::take(&mut client.tail));
        true
    }

    /// The same, and gives it back with what it has sent and what it was not sent yet.
    pub(crate) fn detach_client(&mut self, id: ClientId) -> Option<Client> {
        self.end_stalls(id);
        // Nobody is told that its connections go.
        self.end_tracking(id);
        self.drop_transfer_of(id);
        self.drop_lease(id);
        self.drop_errands(id);
        self.leave_all(id);
        self.forget_assemblies(id);
        self.forget_questions(id);
        self.forget_waits(id);
        self.end_monitor(id);
        self.forget_judged(id);
        self.words.forget_waiter(id);
        self.parked.sent_on.remove(&id);
        let mut client = self.clients.remove(id)?;
        self.numbers.clients.remove(&client.number);
        self.stats.samples.client_goes(id, &client.identity);
        self.sweep.looks_at_deserted |= client.places.open() > 0;
        if client.sizes == Sizes::Probing {
            self.grants.probing -= 1;
            client.sizes = Sizes::Unknown;
        }
        if let Some(clients) = self.conn_clients.get_mut(usize::from(client.conn)) {
            *clients -= 1;
        }
        self.account.release(Kind::Clients, &mut client.charge);
        if client.out.dirty {
            self.dirty_clients.retain(|dirty| *dirty != id);
        }
        match client.hold {
            Hold::Upstream(upstream) => {
                if let Some(upstream) = self.upstreams.get_mut(upstream) {
                    upstream.waiters.remove(id);
                }
            }
            Hold::Paused => self.paused_clients.retain(|paused| *paused != id),
            Hold::Topology => self.topology_waiters.retain(|waiter| *waiter != id),
            Hold::TransferSlot => self.transfer_waiters.forget(id),
            Hold::SilentPlace => self.grants.silence.forget(id),
            Hold::Lookup => self.forget_lookup_of(id),
            _ => {}
        }
        Some(client)
    }

    /// Whether the client asked for no reply to the next command.
    pub(crate) fn is_silent(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|client| client.reply_mode != ReplyMode::On)
    }

    /// Stops taking new clients; those that are idle are closed turn by turn, the others when they have what they are owed.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether [`Engine::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// While draining: closes the clients that are owed nothing and said nothing in this turn.
    pub(crate) fn close_idle(&mut self, now: Time) {
        for id in self.clients.ids() {
            if self.clients.get(id).is_some_and(|client| client.is_idle() && client.input_at < now)
            {
                self.close_client(id, None);
            }
        }
    }
}
