//! Commands of the proxy's own between MULTI and EXEC: `CLIENT`, `HELLO`, `AUTH`, `SUBSCRIBE` and what else it answers for a connection.
//!
//! A server queues them and does them with EXEC, in their places. So a stand-in goes to the server for each, which says QUEUED and keeps the
//! place in the answer; when that comes, the proxy does its commands and puts what they answer there.
//!
//! ```text
//!   MULTI   SET k 1   CLIENT ID   GET k   EXEC            the client
//!   MULTI   SET k 1   ECHO ''     GET k   EXEC            the server
//!           *3  +OK   ""          "1"                     its answer
//!           *3  +OK   :7          "1"                     what the client gets
//! ```
//! The stand-in is a command that a server refuses just when it would refuse the command itself: while it loads, or while a script runs for too
//! long. For a HELLO that changes the protocol it is HELLO itself, as the server's answers behind it must be in that one. An
//! answer that is to be put together is not cut through: it waits, within the client's hard bound, until it is whole.
//!
//! A SUBSCRIBE waits for the servers' confirmation and a CLIENT LIST for the answers of all workers; the commands behind it wait, too. Messages that come meanwhile go out behind the
//! answer, for in RESP2 they look like one.
//!
//! Not here: what the commands do (`local`); the transaction itself (`transaction`).
//!
//! Invariant: nothing of these commands is done unless EXEC was, and an [`Assembly`] has an open place of its client.

use crate::account::{Charge, KeptFrames, kept_bytes};
use crate::acl::DEFAULT;
use crate::client::{Client, Hold};
use crate::command::{self, CommandId, Flags, ids, word};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::lease::State;
use crate::limits::UNSENT_BYTES_MAX;
use crate::local::{Call, arity_fits, config, slowlog};
use crate::mirror::{Kept, Ticket};
use crate::policy::Outward;
use crate::pubsub::verb;
use crate::reject;
use crate::request::Step;
use crate::route::Way;
use crate::scatter::{Wish, row_of};
use crate::time::Time;
use crate::transaction::Refusal;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use resp::{Args, ReplyScanner, Scan, encode, number};

/// Where the answer to a command belongs that is done with EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The place of EXEC.
    seq: u32,
    /// Which element of its answer.
    index: usize,
}

/// The proxy's own commands of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Each with its index among the queued ones.
    commands: KeptFrames<usize>,
    /// What policies answered, each with its index likewise.
    answers: KeptFrames<usize>,
    /// Keys that are read behind a command of this transaction that may switch tracking on.
    keys: Vec<Vec<u8>>,
    /// Such a command is among the queued ones.
    tracks: bool,
    /// Replies that become other ones, each with its index.
    changed: Vec<(usize, Outward)>,
    /// A SUBSCRIBE is among them: what PING answers behind it only we know.
    listens: bool,
    /// The transaction has an AUTH (or HELLO with AUTH) as another user; respool refuses commands behind it.
    pub(crate) changes_user: bool,
    /// Memory for `keys`.
    keys_bytes: usize,
}

impl Own {
    /// Bytes that count for the bound that its client is told of.
    fn said_bytes(&self) -> usize {
        let frames = self.commands.frame_bytes() + self.answers.frame_bytes();
        frames + self.changed.len() * CHANGED_BYTES
    }

    /// Memory for all of it.
    pub(crate) fn held_bytes(&self) -> usize {
        let changed = self.changed.len() * kept_bytes::<(usize, Outward)>(0);
        self.commands.held_bytes() + self.answers.held_bytes() + changed + self.keys_bytes
    }

    /// Whether respool forwards the reply to this command only as a whole: the command is EXEC, and respool adds to its reply.
    pub(crate) fn completes_exec(client: Option<&Client>, command: Option<CommandId>) -> bool {
        let lease = client.filter(|_| command == Some(ids::EXEC));
        let lease = lease.and_then(|client| client.lease.as_ref());
        lease.is_some_and(|lease| {
            let is_mirrored = lease.mirrored.as_ref().is_some_and(|queued| !queued.is_empty());
            let answers = lease.own.commands.len() + lease.own.answers.len();
            answers + lease.own.changed.len() > 0 || is_mirrored
        })
    }
}

/// An answer to EXEC that is being put together.
#[derive(Debug)]
pub(crate) struct Assembly {
    client: ClientId,
    seq: u32,
    /// `None`: its command is not answered yet.
    elements: Vec<Option<Element>>,
    /// How many of them are `None`.
    open: usize,
    /// Commands that are still to be done.
    due: KeptFrames<usize>,
    /// The command that waits for servers or for all workers; the commands that are due wait with it.
    waits: Option<usize>,
    /// The client wants no answer.
    is_mute: bool,
    /// Where CLIENT REPLY changes that.
    mutes: Vec<(usize, bool)>,
    /// See [`Own`].
    keys: Vec<Vec<u8>>,
    /// Bytes of `elements`, and memory for `keys`.
    bytes: usize,
    /// What it has in the engine's account.
    pub(crate) charge: Charge,
}

/// All of them, by client and the place of EXEC: messages ask for each client that gets one whether it has such an answer.
#[derive(Debug, Default)]
pub(crate) struct Assemblies {
    all: BTreeMap<(ClientId, u32), Assembly>,
    /// The one that had the last of a turn. Those behind it are first in the next.
    last: Option<(ClientId, u32)>,
}

impl Assemblies {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Assembly> {
        self.all.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Assembly> {
        self.all.values_mut()
    }

    pub(crate) fn get_mut(&mut self, client: ClientId, seq: u32) -> Option<&mut Assembly> {
        self.all.get_mut(&(client, seq))
    }

    fn of(&self, client: ClientId) -> Option<&Assembly> {
        let of_client = self.all.range((client, 0)..=(client, u32::MAX));
        of_client.map(|(_, assembly)| assembly).next()
    }

    /// Those that go on now, in their turn.
    fn due(&self) -> Vec<(ClientId, u32)> {
        let behind = |name: &&(ClientId, u32)| self.last.is_none_or(|last| **name > last);
        let due = || self.all.iter().filter(|(_, one)| one.goes_on()).map(|(name, _)| name);
        due().filter(behind).chain(due().filter(|name| !behind(name))).copied().collect()
    }
}

impl Assembly {
    /// Whose it is.
    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let elements = self.elements.len() * kept_bytes::<Option<Element>>(0);
        self.bytes + elements + self.due.held_bytes()
    }

    fn is_whole(&self) -> bool {
        self.open == 0
    }

    /// Whether it has a command that nothing keeps from being done.
    fn goes_on(&self) -> bool {
        self.waits.is_none() && !self.due.is_empty()
    }

    /// As a server writes it: one element after the other as its command is done, and nothing while CLIENT REPLY is OFF.
    fn bytes(&self) -> Vec<u8> {
        let mut is_mute = self.is_mute;
        let mut bytes = Vec::new();
        if !is_mute {
            encode::array(&mut bytes, self.elements.len());
        }
        let mut mutes = self.mutes.iter().peekable();
        for (index, element) in self.elements.iter().enumerate() {
            while let Some((_, mute)) = mutes.next_if(|(at, _)| *at == index) {
                is_mute = *mute;
            }
            if let Some(element) = element.as_ref().filter(|own| own.is_push || !is_mute) {
                bytes.extend_from_slice(&element.bytes);
            }
        }
        bytes
    }
}

/// What one command of a transaction is answered.
#[derive(Debug)]
struct Element {
    bytes: Vec<u8>,
    /// It is told whatever CLIENT REPLY says, as it is no reply.
    is_push: bool,
}

/// What becomes of a command in a transaction.
pub(crate) enum Standing {
    /// It is the server's.
    Servers,
    /// This goes to the server in its place.
    StandIn(Vec<u8>),
    /// It is the server's in these words.
    Reworded(Vec<u8>),
}

impl Engine {
    /// Looks at a command that is to be queued: what of it goes to the server.
    pub(crate) fn stand_in(&mut self, now: Time, wish: &Wish<'_>) -> Result<Standing, Step> {
        let Some(row) = wish.row else { return Ok(Standing::Servers) };
        if slowlog::is_of_servers(wish.row, wish.args) {
            return Ok(Standing::Reworded(slowlog::for_server(wish.args)));
        }
        if config::is_of_proxy(wish.row, wish.args) {
            return Err(self.refuse_inside(wish, Refusal::Text(reject::NO_MULTI)));
        }
        if self.changes_reply()
            && self
                .own(wish.id)
                .is_some_and(|own| own.said_bytes() + CHANGED_BYTES > UNSENT_BYTES_MAX)
        {
            return Err(self.refuse_inside(wish, Refusal::Text(reject::OWN_INSIDE_MAX)));
        }
        if row == ids::INFO && self.hides_keyspace() {
            // The server would answer, with the keys of all.
            let mut error = Vec::new();
            reject::write(&mut error, &reject::beyond_namespace(row.name()));
            return Err(self.refuse_inside(wish, Refusal::Error(error)));
        }
        if !self.answers_inside(row, wish) {
            return Ok(Standing::Servers);
        }
        let command = match (row.row().is_container(), wish.args.get(1)) {
            (true, Some(word)) => match command::lookup_sub(row, word) {
                Some(sub) => sub,
                None => return Err(self.refuse_inside(wish, Refusal::UnknownSub(row.name()))),
            },
            _ => row,
        };
        if !arity_fits(command, wish.args.len()) {
            return Err(self.refuse_inside(wish, Refusal::Arity(command.name())));
        }
        // A server judges what it queues; this it will never see.
        let call = Call::new(wish.id, row, wish.args, wish.silent);
        if let Some(step) = self.unless_denied(now, &call) {
            if step == Step::Done {
                self.forget_word(wish.id);
                self.mark_refused(wish.id);
            }
            return Err(step);
        }
        let own_bytes = self.own(wish.id).map_or(0, Own::said_bytes);
        if own_bytes + wish.frame.len() > UNSENT_BYTES_MAX {
            return Err(self.refuse_inside(wish, Refusal::Text(reject::OWN_INSIDE_MAX)));
        }
        let mut frame = Vec::new();
        match self.protocol_inside(now, wish)? {
            Some(version) => encode::request(&mut frame, &[b"HELLO", version]),
            None => encode::request(&mut frame, stand_in_for(command)),
        }
        Ok(Standing::StandIn(frame))
    }

    /// Whether this command of a transaction is the proxy's.
    fn answers_inside(&self, row: CommandId, wish: &Wish<'_>) -> bool {
        match row {
            ids::CLIENT | ids::HELLO | ids::AUTH | ids::MONITOR | ids::SLOWLOG => true,
            ids::TOPKEYS | ids::BIGKEYS | ids::ACL => true,
            ids::READONLY | ids::READWRITE | ids::ASKING => true,
            ids::PING => {
                let listens = self.clients.get(wish.id).is_some_and(Client::listens);
                listens || self.own(wish.id).is_some_and(|own| own.listens)
            }
            _ => verb(row).is_some() || self.leaves_database(Some(row), wish.args).is_some(),
        }
    }

    /// The version that a HELLO leads to, once the server has agreed to it.
    fn protocol_inside<'a>(
        &mut self,
        now: Time,
        wish: &Wish<'a>,
    ) -> Result<Option<&'a [u8]>, Step> {
        if wish.row != Some(ids::HELLO) {
            return Ok(None);
        }
        let Some(protocol) = self.hello_leads_to(wish.id, wish.args) else { return Ok(None) };
        let Some(client) = self.clients.get(wish.id) else { return Err(Step::Gone) };
        let (db, same) = (client.db, client.protocol == protocol);
        let call = Call::new(wish.id, ids::HELLO, wish.args, wish.silent);
        if !same && let Some(step) = self.unless_agreed(now, &call, protocol, db) {
            if step == Step::Done {
                self.mark_refused(wish.id);
            }
            return Err(step);
        }
        if let Some(lease) = self.clients.get_mut(wish.id).and_then(|c| c.lease.as_mut()) {
            // Its connection speaks another protocol afterwards.
            lease.unclean = true;
        }
        Ok(wish.args.get(1).copied())
    }

    /// Whether this command makes the client another user, if the password is right.
    fn leads_to_another_user(&self, wish: &Wish<'_>) -> bool {
        let auth_at = wish.args.iter().position(|arg| word::is(arg, b"AUTH"));
        let name: &[u8] = match (wish.row, wish.args, auth_at) {
            (Some(ids::AUTH), [_, name, _], _) => name,
            (Some(ids::AUTH), _, _) => DEFAULT,
            (Some(ids::HELLO), args, Some(at)) => args.get(at + 1).copied().unwrap_or_default(),
            _ => return false,
        };
        let own = self.clients.get(wish.id).map(|client| client.user as usize);
        let users = &self.settings.users;
        let may_be_others = name == DEFAULT && users.admits_by_password();
        may_be_others || users.position(name).is_some_and(|user| Some(user) != own)
    }

    /// A command was queued that is the `index`-th: by a stand-in if it is the proxy's own.
    pub(crate) fn queued_inside(&mut self, wish: &Wish<'_>, index: usize, stands_in: bool) {
        let outward = self.take_outward();
        let keys = crate::scatter::keys_of(wish.args, self.learned.as_ref());
        let keys: Vec<Vec<u8>> = keys.iter().map(|(_, key)| key.to_vec()).collect();
        let becomes_another = stands_in && self.leads_to_another_user(wish);
        let Some(own) = self.own_of(wish.id) else { return };
        if let Some(outward) = outward {
            own.changed.push((index, outward));
        }
        if stands_in && self.settings.pass_through {
            self.forget_word(wish.id);
        }
        let Some(own) = self.own_of(wish.id) else { return };
        if stands_in {
            own.tracks |= changes_tracking(wish);
            own.listens |= wish.row.and_then(verb).is_some();
            own.changes_user |= becomes_another;
            own.commands.push(index, wish.frame.to_vec());
        } else if own.tracks {
            own.keys_bytes += keys_bytes(&keys);
            own.keys.extend(keys);
        }
        self.account_rest(wish.id);
    }

    /// A policy answers a command of a transaction: a stand-in is queued, and with EXEC the answer takes its place.
    pub(crate) fn queue_answer(&mut self, now: Time, wish: &Wish<'_>, answer: &[u8]) -> Step {
        let own_bytes = self.own(wish.id).map_or(0, Own::said_bytes);
        if own_bytes + answer.len() > UNSENT_BYTES_MAX {
            return self.refuse_inside(wish, Refusal::Text(reject::OWN_INSIDE_MAX));
        }
        let args: &[&[u8]] = &[b"ECHO", b""];
        let mut frame = Vec::new();
        encode::request(&mut frame, args);
        let sent = Wish { frame: &frame, args, row: Some(ids::ECHO), ..*wish };
        let index = self.queued(wish.id);
        let step = self.in_lease(now, &sent, Way::Shared).unwrap_or(Step::Gone);
        if step != Step::Done {
            return step;
        }
        let was_queued = self.queued(wish.id) > index;
        if let Some(own) = self.own_of(wish.id).filter(|_| was_queued) {
            own.answers.push(index, answer.to_vec());
        }
        self.account_rest(wish.id);
        self.end_skip(wish.id, wish.silent);
        step
    }

    /// How many commands of this client's transaction are queued.
    fn queued(&self, id: ClientId) -> usize {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        match lease.map(|lease| &lease.state) {
            Some(State::Queueing(queueing)) => queueing.queued as usize,
            _ => 0,
        }
    }

    fn own_of(&mut self, id: ClientId) -> Option<&mut Own> {
        Some(&mut self.clients.get_mut(id)?.lease.as_mut()?.own)
    }

    pub(crate) fn own(&self, id: ClientId) -> Option<&Own> {
        Some(&self.clients.get(id)?.lease.as_ref()?.own)
    }

    /// The whole answer to an EXEC came: the proxy's own commands are done now, if the others were.
    pub(crate) fn complete_exec(
        &mut self,
        now: Time,
        id: ClientId,
        seq: u32,
        silent: bool,
        reply: &[u8],
    ) {
        self.mirror_exec(now, id, seq, reply);
        let own = self.own_of(id).map(core::mem::take).unwrap_or_default();
        self.account_rest(id);
        let Some(mut elements) = elements_of(reply) else {
            return self.deliver(id, seq, 1, silent, reply);
        };
        for (index, bytes) in own.answers {
            let element = elements.get_mut(index).and_then(Option::as_mut);
            // An error says that the server did not take the stand-in.
            if let Some(element) = element.filter(|element| !element.bytes.starts_with(b"-")) {
                element.bytes = bytes;
            }
        }
        // All of them together are one reply.
        let mut left = self.settings.limits.client_out_max_bytes;
        for (index, outward) in own.changed {
            if let Some(Some(element)) = elements.get_mut(index) {
                self.change_element(&outward, &mut element.bytes, left);
                left = left.saturating_sub(element.bytes.len());
            }
        }
        let mut due = KeptFrames::default();
        for (index, frame) in own.commands {
            let Some(element) = elements.get_mut(index) else { continue };
            // The server did not take the protocol after all.
            if element.as_ref().is_some_and(|own| !own.bytes.starts_with(b"-")) {
                *element = None;
                due.push(index, frame);
            }
        }
        let elements_bytes: usize = elements.iter().flatten().map(|own| own.bytes.len()).sum();
        let assembly = Assembly {
            client: id,
            seq,
            open: due.len(),
            elements,
            due,
            waits: None,
            is_mute: silent,
            mutes: Vec::new(),
            keys: own.keys,
            bytes: elements_bytes + own.keys_bytes,
            charge: Charge::default(),
        };
        self.assemblies.all.insert((id, seq), assembly);
        self.account_assembly(id, seq);
        self.go_on_inside(now, id, seq);
    }

    /// Does what is due of a transaction, one command after the other, as long as the turn lasts.
    fn go_on_inside(&mut self, now: Time, id: ClientId, seq: u32) {
        while let Some(assembly) = self.assembly(id, seq).filter(|one| !one.due.is_empty()) {
            let before = assembly.bytes;
            if self.grants.slow.is_spent_for_large() {
                return self.hold_for_answers(id);
            }
            let next = self.assembly(id, seq).and_then(|assembly| assembly.due.pop_front());
            let Some((index, frame)) = next else { break };
            self.do_inside(now, id, Inside { seq, index }, &frame);
            self.account_assembly(id, seq);
            let after = self.assembly(id, seq).map_or(before, |assembly| assembly.bytes);
            self.grants.slow.pay_inside(after.saturating_sub(before));
            let is_open =
                |one: &&mut Assembly| one.elements.get(index).is_some_and(Option::is_none);
            if let Some(assembly) = self.assembly(id, seq).filter(is_open) {
                let is_last = assembly.due.is_empty();
                assembly.waits = Some(index).filter(|_| !is_last);
                self.hold_for_answers(id);
                if !is_last {
                    return;
                }
            }
        }
        let keys = self.assembly(id, seq).map(|assembly| {
            let keys = core::mem::take(&mut assembly.keys);
            assembly.bytes -= keys_bytes(&keys);
            keys
        });
        self.account_assembly(id, seq);
        let tracking = self.clients.get_mut(id).and_then(|client| client.tracking.as_mut());
        if let (Some(tracking), Some(keys)) = (tracking, keys) {
            tracking.end_of_transaction(seq, keys);
            self.account_rest(id);
        }
        self.finish_assembly(id, seq);
    }

    /// Whether a transaction waited for servers or for its turn, and goes on now.
    pub(crate) fn is_due_inside(&self) -> bool {
        self.assemblies.iter().any(Assembly::goes_on)
    }

    /// Goes on with the transactions that waited for servers or for their turn.
    pub(crate) fn run_inside(&mut self, now: Time) {
        if !self.is_due_inside() {
            return;
        }
        self.grants.slow.begin();
        for (id, seq) in self.assemblies.due() {
            self.go_on_inside(now, id, seq);
            self.assemblies.last = Some((id, seq));
            if self.grants.slow.is_spent_for_large() {
                return;
            }
        }
    }

    fn do_inside(&mut self, now: Time, id: ClientId, at: Inside, frame: &[u8]) {
        let args: Vec<&[u8]> = Args::new(frame).collect();
        let Some(command) = args.first().and_then(|name| command::lookup(name)) else { return };
        let call = Call { inside: Some(at), ..Call::new(id, command, &args, false) };
        self.stats.command(Some(row_of(command, &args))).calls += 1;
        if self.answer_command(now, &call) != Step::Done {
            // What it would have to wait for cannot be awaited any more.
            self.refuse(&call, reject::NOT_NOW_INSIDE);
        }
    }

    /// The answer to one of the proxy's commands.
    pub(crate) fn answer_inside(&mut self, id: ClientId, at: Inside, reply: &[u8]) {
        self.set_element(id, at, Element { bytes: reply.to_vec(), is_push: false });
    }

    /// What a client listens to is other than before: it is told so in the place of the command.
    pub(crate) fn confirm_inside(&mut self, id: ClientId, at: Inside, lines: &[u8]) {
        self.set_element(id, at, Element { bytes: lines.to_vec(), is_push: true });
        self.finish_assembly(id, at.seq);
    }

    /// From this command on the client wants no answers, or wants them again.
    pub(crate) fn mute_inside(&mut self, id: ClientId, at: Inside, mute: bool) {
        if let Some(assembly) = self.assembly(id, at.seq) {
            assembly.mutes.push((at.index, mute));
        }
    }

    fn set_element(&mut self, id: ClientId, at: Inside, element: Element) {
        let Some(assembly) = self.assembly(id, at.seq) else { return };
        assembly.waits.take_if(|index| *index == at.index);
        if let Some(place) = assembly.elements.get_mut(at.index) {
            assembly.bytes += element.bytes.len();
            assembly.open -= usize::from(place.is_none());
            *place = Some(element);
        }
        self.account_assembly(id, at.seq);
    }

    fn assembly(&mut self, id: ClientId, seq: u32) -> Option<&mut Assembly> {
        self.assemblies.get_mut(id, seq)
    }

    /// How many answers an EXEC of this client has that are being put together.
    pub(crate) fn assembled(&self, id: ClientId) -> Option<usize> {
        self.assemblies.of(id).map(|one| one.elements.len())
    }

    /// One more was answered, later than the others.
    pub(crate) fn answer_inside_late(&mut self, id: ClientId, at: Inside, reply: &[u8]) {
        self.answer_inside(id, at, reply);
        self.finish_assembly(id, at.seq);
    }

    /// Gives the answer to EXEC on if all of it is there.
    fn finish_assembly(&mut self, id: ClientId, seq: u32) {
        if self.assembly(id, seq).is_none_or(|one| !one.is_whole()) {
            return;
        }
        let Some(assembly) = self.assemblies.all.remove(&(id, seq)) else { return };
        let bytes = assembly.bytes();
        self.release_assembly(assembly);
        let now = self.last_mirror_time();
        match self.keep_for_mirrors(now, Ticket::Exec(id, seq), (id, seq, false), &bytes) {
            Kept::No => self.deliver(id, seq, 1, false, &bytes),
            Kept::Instead(error) => self.deliver(id, seq, 1, false, &error),
            Kept::Yes => {}
        }
        self.end_held_pushes(id);
    }

    /// The client is gone, and so are the answers that were put together for it.
    pub(crate) fn forget_assemblies(&mut self, id: ClientId) {
        while let Some((client, seq)) = self.assemblies.of(id).map(|one| (one.client, one.seq))
            && let Some(assembly) = self.assemblies.all.remove(&(client, seq))
        {
            self.release_assembly(assembly);
        }
    }

    /// Holds a client that asked all workers for something, until they have answered.
    pub(crate) fn hold_for_answers(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id)
            && client.hold == Hold::No
        {
            client.hold = Hold::Drained;
        }
    }
}

/// What a reply that becomes another one counts for.
const CHANGED_BYTES: usize = 64;

/// Whether servers may track keys that the client reads behind this command.
fn changes_tracking(wish: &Wish<'_>) -> bool {
    let row = wish.row.map(|row| row_of(row, wish.args));
    matches!(row, Some(ids::CLIENT_TRACKING | ids::CLIENT_CACHING))
}

/// Memory for keys that are read behind a command that may switch tracking on.
fn keys_bytes(keys: &[Vec<u8>]) -> usize {
    keys.iter().map(|key| kept_bytes::<Vec<u8>>(key.len())).sum()
}

/// The elements of an array; `None`: it is none.
fn elements_of(reply: &[u8]) -> Option<Vec<Option<Element>>> {
    let end = reply.iter().position(|byte| *byte == b'\r')?;
    let count = number::parse_i64(reply.get(..end)?.strip_prefix(b"*")?)?;
    let mut rest = reply.get(end + 2..)?;
    let mut elements = Vec::with_capacity(usize::try_from(count).ok()?.min(rest.len()));
    let mut scanner = ReplyScanner::default();
    for _ in 0..count {
        let Ok(Scan::Complete { consumed, .. }) = scanner.scan(rest) else { return None };
        let (element, after) = rest.split_at(consumed);
        elements.push(Some(Element { bytes: element.to_vec(), is_push: false }));
        rest = after;
    }
    Some(elements)
}

/// A command without effect that a server queues when it would queue this one.
fn stand_in_for(command: CommandId) -> &'static [&'static [u8]] {
    let flags = command.row().flags;
    if flags.has(Flags::ALLOW_BUSY) {
        &[b"UNWATCH"]
    } else if flags.has(Flags::LOADING) {
        &[b"ECHO", b""]
    } else {
        &[b"PING"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_of_an_answer_are_its_bytes() {
        let elements = elements_of(b"*3\r\n+OK\r\n*2\r\n:1\r\n$1\r\na\r\n$-1\r\n").unwrap();
        let elements: Vec<Vec<u8>> =
            elements.into_iter().flatten().map(|element| element.bytes).collect();
        assert_eq!(elements, [&b"+OK\r\n"[..], b"*2\r\n:1\r\n$1\r\na\r\n", b"$-1\r\n"]);
        assert!(elements_of(b"*0\r\n").is_some_and(|elements| elements.is_empty()));
        for none in [&b"*-1\r\n"[..], b"_\r\n", b"-EXECABORT no\r\n"] {
            assert!(elements_of(none).is_none());
        }
    }
}
