//! Which redirects come from a server, and which may be data that a script returned.
//!
//! A script, a function or a module command can return any error text: `MOVED 1 host:port`, `TRYAGAIN`, `NOSCRIPT`. The text does not tell
//! whether the server refused the call or ran it. So the text decides nothing:
//!
//! ```text
//!   -MOVED, -ASK of a server's own ── names a node of the table ──▶ followed, for the request's own slot
//!                                  └─ names another one ──────────▶ [parked] ── known nodes are asked ──▶ by the table
//!   the same of a script ── [parked] ── EXISTS with the script's keys, over the connection that answered ──┬ is redirected, too ──▶ followed as a server's own
//!                                                                                                      └ is not ────────────▶ the client's reply
//!   … in a transaction, and TRYAGAIN and its kind ── [parked] ── known nodes are asked ──┬ another owner ──▶ followed to that owner
//!                                                                                      └ no other one ───▶ the client's reply
//!   … without a key, on a connection of the client's own, too often ──▶ the client's reply
//!   NOSCRIPT              ── only if SCRIPT EXISTS says that the script is not there
//! ```
//! Replies that may be data change nothing for other clients: no table, no health of a node, no wait.
//!
//! Not here: where a request goes on (`redirect`), how nodes are asked (`topology::refresh`).
//!
//! Invariant: an address that only a reply names is never connected to, and a script that may have run is never sent again on the word of its reply.

use crate::blocking::CUT_SHORT;
use crate::command::CommandId;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{QUESTION_MS, SENT_ON_AT_ONCE};
use crate::node::Address;
use crate::parked::{Parked, Target};
use crate::redirect::{NOSCRIPT, Redirect, classify};
use crate::scatter::keys_of;
use crate::scripts::Digest;
use crate::time::Time;
use crate::topology::refresh::Sign;
use crate::topology::{Place, Topology};
use crate::upstream::Role;
use crate::upstream::inflight::{Bond, OwnCommand, Run};
use alloc::boxed::Box;
use alloc::vec::Vec;
use resp::Args;
use resp::value::Value;

/// True if error replies to this command may be the words of a script or a module. `None`: the table does not know the command.
pub(crate) fn speaks_freely(command: Option<CommandId>) -> bool {
    command.is_none_or(|command| command.row().is_script() || command.name().contains('.'))
}

/// Who said a redirect.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// A server, which did not execute the request.
    Server,
    /// Perhaps a script: the reply is the client's.
    Data,
    /// Unknown until this is answered.
    Open(Box<Question>),
}

/// What must be known before a parked request goes on.
#[derive(Debug)]
pub(crate) struct Question {
    kind: Kind,
    /// The node that answered.
    asked: NodeId,
    /// The reply is from this time: older tables do not count.
    since: Time,
    /// Without an answer the reply is data from then on.
    until: Time,
    /// The client's, if it is data.
    pub(crate) reply: Vec<u8>,
    /// The reply may be a script's.
    freely: bool,
}

#[derive(Debug)]
enum Kind {
    /// Whether the table has another owner of the place.
    Owner,
    /// Whether this address is a node of the cluster of the node that answered.
    Ask(Address),
    /// Whether the server has the script. The number of the question, and its answer.
    Script(u64, Option<bool>),
    /// Whether the server redirects `EXISTS` with the keys of the script, as it does what it refuses to run: it decides by the keys alone (`getNodeByQuery` in
    /// Redis' cluster.c). The number of the question, and its answer with the time
    /// at which it came.
    Keys(u64, Option<(Time, OfKeys)>),
}

/// The answer of a server that is asked for the keys of a script.
#[derive(Debug)]
enum OfKeys {
    /// The server serves the keys.
    Served,
    /// The server gives another error, which does not tell.
    Refused,
    /// The server says who serves the keys.
    Redirected(Redirect),
}

/// The target of a request whose keys a server does not serve.
enum Redirected {
    /// The server serves the keys itself.
    Not,
    /// The request goes to this node, or to the owner that the server named.
    To(Target, Option<NodeId>),
    /// The server names a node that no table names: this is to be known first.
    ToStranger(Kind),
}

/// What became of a question.
pub(crate) enum Resolved {
    /// There is no answer yet.
    Open,
    /// The request goes on.
    GoesOn,
    /// The reply is the client's.
    Data(Vec<u8>),
}

impl Engine {
    /// Who said `reply` to the front request of this connection, whose bytes are `request`.
    pub(crate) fn judge_redirect(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        request: &[u8],
        reply: &[u8],
    ) -> Verdict {
        let Some(upstream) = self.upstreams.get(id) else { return Verdict::Data };
        let (asked, role) = (upstream.key.node, upstream.role);
        let is_left = self.is_left(asked);
        if reply.starts_with(NOSCRIPT) {
            return self.judge_noscript(now, id, run, request, reply);
        }
        if reply.starts_with(CUT_SHORT) {
            return self.judge_cut(asked, run, request);
        }
        let place = self.place_at(id, request);
        let redirect = classify(reply, &self.host_of(asked));
        let freely = speaks_freely(run.command);
        if !freely && is_left {
            return Verdict::Server;
        }
        let slot = place.map(|place| place.slot);
        if redirect.slot().is_some_and(|named| slot != Some(named)) {
            return Verdict::Data;
        }
        let open = |kind| {
            let until = now.plus_ms(QUESTION_MS);
            let reply = reply.to_vec();
            Verdict::Open(Box::new(Question { kind, asked, since: now, until, reply, freely }))
        };
        if !freely {
            let pool = self.nodes.get(asked).map_or(0, |node| node.pool);
            return match redirect {
                Redirect::Moved(_, address) if self.known_node(pool, &address).is_none() => {
                    open(Kind::Owner)
                }
                Redirect::Ask(_, address) if self.known_node(pool, &address).is_none() => {
                    open(Kind::Ask(address))
                }
                _ => Verdict::Server,
            };
        }
        let queueing = match role {
            Role::Leased(client) => self.is_in_transaction(client),
            _ => true,
        };
        let Some(place) = place.filter(|_| !is_left && queueing) else { return Verdict::Data };
        if run.bond != Bond::None || !self.may_find_another_owner(place, asked) {
            return Verdict::Data;
        }
        if redirect != Redirect::Later && !matches!(role, Role::Leased(_)) {
            return match run.tries < SENT_ON_AT_ONCE {
                true => open(Kind::Keys(self.ask_of_keys(now, id, run, request), None)),
                false => Verdict::Data,
            };
        }
        if run.tries > 0 || run.marks.is_behind_asking() {
            return Verdict::Data;
        }
        match self.router.node(place) {
            Some(owner) if owner != asked => Verdict::Server,
            _ => open(Kind::Owner),
        }
    }

    /// Asks the server, over the connection on which it was asked to run a script, for the keys of that script. Returns the number of the question.
    fn ask_of_keys(&mut self, now: Time, id: UpstreamId, run: &Run, request: &[u8]) -> u64 {
        let number = self.number_of_question(run);
        let args: Vec<&[u8]> = Args::new(request).collect();
        let keys = keys_of(&args, self.learned.as_ref());
        let mut words = alloc::vec![&b"EXISTS"[..]];
        words.extend(keys.iter().map(|(_, key)| *key));
        // In READONLY a replica answers EXISTS and redirects scripts, which may write.
        let reads_only = self.upstreams.get(id).is_some_and(|upstream| upstream.readonly)
            && run.command.is_none_or(|command| !command.row().reads());
        if reads_only {
            self.say_own(now, id, OwnCommand::ReadOnly, &[b"READWRITE"]);
        }
        if run.marks.is_behind_asking() {
            self.say_own(now, id, OwnCommand::Asking, &[b"ASKING"]);
        }
        self.say_own(now, id, OwnCommand::Question(number), &words);
        if reads_only {
            self.say_own(now, id, OwnCommand::ReadOnly, &[b"READONLY"]);
        }
        number
    }

    /// Where a request over this connection belongs: by its key, or as EXEC, which has none, where its transaction is.
    pub(crate) fn place_at(&self, id: UpstreamId, request: &[u8]) -> Option<Place> {
        let lease = match self.upstreams.get(id)?.role {
            Role::Leased(client) => self.lease_place(client),
            _ => None,
        };
        self.place_of(request).or(lease)
    }

    /// Whether this place can get another owner at all, and the node that answered belongs to its pool.
    pub(crate) fn may_find_another_owner(&self, place: Place, asked: NodeId) -> bool {
        let pool = self.router.pools.get(usize::from(place.pool));
        let moves = pool.is_some_and(|pool| !matches!(pool.topology, Topology::One(_)));
        moves && self.nodes.get(asked).is_some_and(|node| node.pool == place.pool)
    }

    /// A server said `NOSCRIPT` to a call by digest, or its script did. The server is asked whether it has the script.
    fn judge_noscript(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        request: &[u8],
        reply: &[u8],
    ) -> Verdict {
        let Some(digest) = self.heals_noscript(id, run, request) else { return Verdict::Data };
        let Some(upstream) = self.upstreams.get(id) else { return Verdict::Data };
        if matches!(upstream.role, Role::Leased(_)) || !upstream.is_ready() {
            return Verdict::Data;
        }
        let asked = upstream.key.node;
        let number = self.number_of_question(run);
        let text = hex(&digest);
        self.say_own(now, id, OwnCommand::Question(number), &[b"SCRIPT", b"EXISTS", &text]);
        Verdict::Open(Box::new(Question {
            kind: Kind::Script(number, None),
            asked,
            since: now,
            until: now.plus_ms(QUESTION_MS),
            reply: reply.to_vec(),
            freely: true,
        }))
    }

    /// The answer to a question. Only a clear "it is not there" sends the call of a script again.
    pub(crate) fn question_answered(
        &mut self,
        now: Time,
        id: UpstreamId,
        number: u64,
        reply: &[u8],
    ) {
        let parsed = resp::value::parse(reply).ok().flatten();
        let list = parsed.as_ref().and_then(|(value, _)| value.as_list()).unwrap_or_default();
        let absent = matches!(list, [Value::Integer(0)]);
        if absent && let Some(upstream) = self.upstreams.get_mut(id) {
            // Whatever was loaded there is gone.
            upstream.scripts.clear();
        }
        let mut of_keys = Some((now, self.answer_of_keys(id, reply)));
        self.parked.answer_question(now, number as u32, |question| match &mut question.kind {
            Kind::Script(own, answer) if *own == number => {
                *answer = Some(absent);
                true
            }
            Kind::Keys(own, answer) if *own == number => {
                *answer = of_keys.take();
                true
            }
            _ => false,
        });
    }

    /// The number of the next question about this request: a count, and below it the index of the client, by which what is parked is found again.
    fn number_of_question(&mut self, run: &Run) -> u64 {
        self.next_question += 1;
        let client = self.client_of(run.owner).map_or(u32::MAX, |client| client.index);
        self.next_question << 32 | u64::from(client)
    }

    /// Reads the reply to `EXISTS`.
    fn answer_of_keys(&self, id: UpstreamId, reply: &[u8]) -> OfKeys {
        let asked = self.upstreams.get(id).map(|upstream| self.host_of(upstream.key.node));
        match classify(reply, &asked.unwrap_or_default()) {
            Redirect::Later if reply.starts_with(b"-") => OfKeys::Refused,
            Redirect::Later => OfKeys::Served,
            redirect => OfKeys::Redirected(redirect),
        }
    }

    /// Known nodes are asked what a question is about, as often as tables may be asked for.
    pub(crate) fn ask_known_nodes(&mut self, question: &Question, place: Option<Place>) {
        let pool = self.nodes.get(question.asked).map(|node| node.pool);
        let Some(pool) = pool.or(place.map(|place| place.pool)) else { return };
        match question.kind {
            Kind::Script(..) | Kind::Keys(..) => {}
            // Nodes without slots are in no table.
            Kind::Ask(_) => self.heed_sign(pool, Sign::Stranger(question.asked)),
            Kind::Owner => self.heed_sign(pool, Sign::Named(question.asked)),
        }
    }

    /// Looks whether a question has its answer; if it goes on, `parked` says where.
    pub(crate) fn resolve(&mut self, now: Time, parked: &mut Parked) -> Resolved {
        let Some(mut question) = parked.question.take() else { return Resolved::GoesOn };
        if let Kind::Keys(_, answer) = &mut question.kind {
            match (answer.take(), parked.place) {
                (None, _) if now < question.until => {
                    parked.due = question.until;
                    parked.question = Some(question);
                    return Resolved::Open;
                }
                // The table decides, as where an error names no node.
                (Some((_, OfKeys::Refused)), Some(_)) if parked.tries <= 1 => {
                    question.kind = Kind::Owner;
                }
                (Some((told_at, OfKeys::Redirected(redirect))), Some(place)) => {
                    match self.redirect_of_keys(told_at, place, redirect) {
                        Redirected::To(target, named) => {
                            (parked.target, parked.named) = (target, named);
                            return Resolved::GoesOn;
                        }
                        Redirected::Not => return Resolved::Data(question.reply),
                        Redirected::ToStranger(kind) => {
                            (question.kind, question.freely) = (kind, false);
                        }
                    }
                }
                _ => return Resolved::Data(question.reply),
            }
        }
        let (asked, freely) = (question.asked, question.freely);
        let Some(place) = parked.place else { return Resolved::Data(question.reply) };
        let owner = self.router.node(place);
        let has_other_owner = owner.is_some_and(|owner| owner != asked);
        let is_fresh = || {
            let pool = self.router.pools.get(usize::from(place.pool));
            pool.is_some_and(|pool| pool.refresh.told_for >= question.since)
        };
        let is_over = now >= question.until;
        parked.target = Target::Place(place);
        match &question.kind {
            Kind::Script(_, Some(true)) => return Resolved::GoesOn,
            Kind::Script(_, None) if !is_over => {}
            Kind::Script(..) | Kind::Keys(..) => return Resolved::Data(question.reply),
            _ if freely && self.is_left(asked) => return Resolved::Data(question.reply),
            _ if has_other_owner => return Resolved::GoesOn,
            Kind::Ask(address) if is_fresh() || is_over => {
                if let Some(node) = self.known_node(place.pool, address) {
                    parked.target = Target::Asking(node, question.since);
                }
                return Resolved::GoesOn;
            }
            Kind::Owner if is_fresh() || is_over => {
                return match freely {
                    true => Resolved::Data(question.reply),
                    false => Resolved::GoesOn,
                };
            }
            _ => {}
        }
        self.ask_known_nodes(&question, Some(place));
        parked.due = question.until;
        parked.question = Some(question);
        Resolved::Open
    }

    /// The target to which a server's redirect of `EXISTS` with the keys of a script leads. The server told it at this time.
    fn redirect_of_keys(&mut self, told_at: Time, place: Place, redirect: Redirect) -> Redirected {
        if redirect.slot() != Some(place.slot) {
            return Redirected::Not;
        }
        match redirect {
            Redirect::Moved(_, address) => match self.known_node(place.pool, &address) {
                Some(owner) => {
                    self.patch_slot(place, owner);
                    Redirected::To(Target::Place(place), Some(owner))
                }
                None => Redirected::ToStranger(Kind::Owner),
            },
            Redirect::Ask(_, address) => match self.known_node(place.pool, &address) {
                Some(node) => Redirected::To(Target::Asking(node, told_at), None),
                None => Redirected::ToStranger(Kind::Ask(address)),
            },
            Redirect::Later => Redirected::Not,
        }
    }

    /// The node at an address that a reply names, if a table or the configuration named it before.
    pub(crate) fn known_node(&mut self, pool: u16, told: &Address) -> Option<NodeId> {
        let address = self.settings.address_map.at(told).unwrap_or_else(|| told.clone());
        self.known_node_at(pool, &address)
    }

    /// The same for an address as we reach it.
    pub(crate) fn known_node_at(&mut self, pool: u16, address: &Address) -> Option<NodeId> {
        let state = self.router.pools.get(usize::from(pool))?;
        if state.has_member(address) {
            return Some(self.find_node(pool, address));
        }
        let id = self.nodes.find(pool, address)?;
        state.knows(id).then_some(id)
    }

    /// Whether what this client sends is queued by its server until EXEC.
    fn is_in_transaction(&self, client: ClientId) -> bool {
        let lease = self.clients.get(client).and_then(|client| client.lease.as_ref());
        lease.is_some_and(|lease| lease.is_queueing_or_ending())
    }
}

impl Question {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.reply.len()
    }

    /// Whether the reply may be a script's.
    pub(crate) fn may_be_data(&self) -> bool {
        self.freely
    }

    /// When it is over.
    pub(crate) fn until(&self) -> Time {
        self.until
    }
}

/// A digest as clients and servers write it.
fn hex(digest: &Digest) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(|nibble| DIGITS[usize::from(nibble)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ids;

    #[test]
    fn scripts_functions_modules_and_unknown_commands_may_return_any_error() {
        for name in ["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"] {
            assert!(speaks_freely(crate::command::lookup(name.as_bytes())), "{name}");
        }
        assert!(speaks_freely(None));
        for row in CommandId::all().filter(|row| row.name().contains('.')) {
            assert!(speaks_freely(Some(row)), "{}", row.name());
        }
        for row in [ids::EXEC, ids::GET, ids::MSET, ids::SCRIPT_LOAD] {
            assert!(!speaks_freely(Some(row)), "{}", row.name());
        }
    }

    #[test]
    fn a_digest_is_written_in_small_letters() {
        let mut digest = Digest::default();
        (digest[0], digest[19]) = (0xa0, 0x0f);
        assert_eq!(hex(&digest), b"a00000000000000000000000000000000000000f");
    }
}
