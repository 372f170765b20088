//! The servers' word on what a client says: whether a password is right, and whether a login may do what the proxy answers itself.
//!
//! ```text
//!   AUTH bob pw  ─▶ ask_who ── AUTH bob pw, Lane::Login ──────▶ any primary       each AUTH is asked anew: a password that was changed is wrong at once
//!   CLIENT LIST  ─▶ unless_denied ── CLIENT LIST "a b", as bob ─▶ any primary     NOPERM is the answer; whatever else it says, the user may
//!                       └ the client waits: Hold::Word ─ its request comes again, and finds the word (`Identity::word`)
//! ```
//! A connection of `Lane::Login` is greeted with nothing and carries nothing but AUTH, one at a time, so that a failed one is cheap: no connection is made for it. What is
//! asked instead of a command that the proxy answers has the command's permission and no effect: a word that it does not take stands in it.
//!
//! Nobody has to pass a wake-up on: in each turn those look again whose turn it is while a place for AUTH is free (`login_place_is_free`). Whoever looked may
//! not have taken it: the password has failed for somebody else meanwhile, or the client is gone.
//!
//! Not here: what comes of a word (`login`).
//!
//! Invariant: of a client at most one question is open, and a word serves no other request than the one that it was asked for.

use super::Said;
use crate::acl::Digest;
use crate::client::Hold;
use crate::command::word;
use crate::command::{CommandId, ids, lookup_sub};
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{LOGIN_FAILED_MS, LOGINS_FAILED_MAX, LOGINS_TRIED_MAX, WORD_LATE_MS, WORD_MS};
use crate::local::{Call, arity_fits};
use crate::news::News;
use crate::reject;
use crate::request::Step;
use crate::shares::{Group, Held};
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, UpstreamKey};
use crate::waiters::{Line, Waiters};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// A server's word.
#[derive(Debug)]
pub(crate) struct Word {
    /// On which words.
    of: Digest,
    at: Time,
    /// The text of the error.
    verdict: Result<(), Vec<u8>>,
}

impl Word {
    /// Bytes of the text of its error.
    pub(crate) fn held_bytes(&self) -> usize {
        self.verdict.as_ref().map_or_else(Vec::len, |()| 0)
    }
}

/// What is asked of servers, and was.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// In the order of each connection.
    open: VecDeque<Open>,
    /// Passwords that servers are asked about, by who said them.
    tried: Held,
    /// Who waits for a place among those.
    waiting: Waiters<()>,
    /// What was wrong, when, and what the server said.
    failed: VecDeque<(Digest, Time, Vec<u8>)>,
    /// What servers told last of who owns what, for the engines of logins that begin later.
    pub(crate) told: Vec<News>,
}

#[derive(Debug)]
struct Open {
    /// None: another node is asked instead, and the answer counts no more.
    client: Option<ClientId>,
    over: UpstreamId,
    of: Digest,
    /// It is a password, and whose.
    login: Option<Group>,
    /// Another node is asked at this time.
    late_at: Time,
}

impl Engine {
    /// What a server said on the words of this client's request.
    pub(super) fn word_on(
        &self,
        now: Time,
        id: ClientId,
        of: &Digest,
    ) -> Option<Result<(), Vec<u8>>> {
        let word = self.clients.get(id)?.identity.word.as_deref()?;
        let is_fresh = now.since(word.at) < WORD_MS * 1_000;
        (word.of.is(of) && is_fresh).then(|| word.verdict.clone())
    }

    /// The request is answered: the word on it was for nothing else.
    pub(crate) fn forget_word(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.identity.word = None;
            client.identity.words_lost = 0;
        }
        self.words.forget_waiter(id);
    }

    /// Has a server say whether a password is right.
    pub(super) fn ask_who(&mut self, now: Time, call: &Call<'_>, said: Said) -> Step {
        let words = &mut self.words;
        let is_over =
            |(_, at, _): &(Digest, Time, Vec<u8>)| now.since(*at) >= LOGIN_FAILED_MS * 1_000;
        while words.failed.front().is_some_and(is_over) {
            words.failed.pop_front();
        }
        if let Some((.., error)) = words.failed.iter().find(|(failed, ..)| said.is(failed)) {
            let error = error.clone();
            self.stats.logins_refused += 1;
            return self.wrong_password(now, call, Some(said.name()), &error);
        }
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        let group = Group::of(client, &self.settings.users);
        if !words.may_try_now(call.id, group) {
            words.waiting.enter(call.id, (group, ()), now);
            return Step::Hold(Hold::Word);
        }
        let Some(node) = self.node_for_words(now) else { return self.unserved_call(now, call, 0) };
        let Some(key) = self.idle_for_login(node) else {
            self.words.waiting.enter(call.id, (group, ()), now);
            return Step::Hold(Hold::Word);
        };
        self.words.waiting.served(call.id);
        self.ask_for_word(now, call, key, &said.request(), (said.digest, Some(group)))
    }

    /// A connection for AUTH on which nothing is under way. A server from 7.2 on does not answer a wrong password if it has not sent the reply before it
    /// yet (`addAuthErrReply`), and what comes behind would be taken for the answer.
    fn idle_for_login(&self, node: NodeId) -> Option<UpstreamKey> {
        let is_idle = |key: &UpstreamKey| {
            let upstream = self.by_key.get(key).and_then(|id| self.upstreams.get(*id));
            upstream.is_none_or(|upstream| upstream.inflight.is_empty())
        };
        (0..LOGINS_TRIED_MAX as u16).map(|conn| login_key(node, conn)).find(is_idle)
    }

    fn ask_for_word(
        &mut self,
        now: Time,
        call: &Call<'_>,
        key: UpstreamKey,
        request: &[&[u8]],
        (of, login): (Digest, Option<Group>),
    ) -> Step {
        match self.upstream_for(now, key, call.id) {
            Availability::Ready(over) => {
                self.say_own(now, over, OwnCommand::Word, request);
                login.into_iter().for_each(|group| self.words.tried.add(group));
                let (client, late_at) = (Some(call.id), now.plus_ms(WORD_LATE_MS));
                self.words.open.push_back(Open { client, over, of, login, late_at });
                Step::Hold(Hold::Word)
            }
            Availability::Wait(upstream) => Step::Hold(Hold::Upstream(upstream)),
            Availability::Down(error) => {
                self.stats.command(Some(call.command)).failed += 1;
                self.say_failure(call, &error)
            }
        }
    }

    /// Returns the node that respool asks: a node that answers if there is one, else any live node.
    fn node_for_words(&self, now: Time) -> Option<NodeId> {
        let first = self.router.any_node()?;
        if self.is_one() {
            return Some(first);
        }
        let primaries = || core::iter::once(first).chain(self.router.primaries());
        let mut live = primaries().filter(|node| !self.is_away(*node));
        let answers = live.clone().find(|node| !self.answers_late(now, *node));
        answers.or_else(|| live.next()).or(Some(first))
    }

    /// Whether a request on a connection that clients share, or an AUTH, has waited for this node for [`WORD_LATE_MS`].
    fn answers_late(&self, now: Time, node: NodeId) -> bool {
        let shared = self.nodes.get(node).into_iter().flat_map(|node| node.all_shared());
        let logins = (0..LOGINS_TRIED_MAX as u16).map(|conn| login_key(node, conn));
        let logins = logins.filter_map(|key| self.by_key.get(&key).copied());
        let mut fronts = shared
            .chain(logins)
            .filter_map(|id| self.upstreams.get(id).filter(|up| up.is_ready())?.inflight.front());
        fronts.any(|run| run.sent_at.plus_ms(WORD_LATE_MS) <= now)
    }

    /// The answer to the oldest question over this connection; the text of the error, if it is one.
    pub(crate) fn word_answered(&mut self, now: Time, over: UpstreamId, error: Option<Vec<u8>>) {
        let Some(open) = self.take_open(over) else { return };
        let verdict = match error {
            Some(error) if open.login.is_some() || error.starts_with(b"NOPERM") => Err(error),
            _ => Ok(()),
        };
        if open.login.is_some() {
            match &verdict {
                Ok(()) => self.stats.logins_accepted += 1,
                Err(error) => {
                    self.stats.logins_refused += 1;
                    self.words.remember(now, open.of, error);
                }
            }
        }
        if let Some(client) = open.client {
            self.bring_word(client, Some(Word { of: open.of, at: now, verdict }));
        }
    }

    /// The connection broke that owed the answer. That may have been the fault of somebody else's: the server closes it when it removes the user that was last
    /// found on it. So it is asked once more.
    pub(crate) fn word_lost(&mut self, now: Time, over: UpstreamId, error: &[u8]) {
        let Some(open) = self.take_open(over) else { return };
        let Some(id) = open.client else { return };
        let Some(client) = self.clients.get_mut(id) else { return };
        client.identity.words_lost = client.identity.words_lost.saturating_add(1);
        let text = error.strip_prefix(b"-").unwrap_or(error);
        let text = text.strip_suffix(b"\r\n").unwrap_or(text).to_vec();
        let word = Word { of: open.of, at: now, verdict: Err(text) };
        let word = (client.identity.words_lost > 1).then_some(word);
        self.bring_word(id, word);
    }

    /// The connection is removed, with all that it owes.
    pub(crate) fn words_removed(&mut self, over: UpstreamId) {
        while let Some(open) = self.take_open(over) {
            open.client.into_iter().for_each(|client| self.bring_word(client, None));
        }
    }

    /// When the first question is late.
    pub(crate) fn words_late_at(&self) -> Option<Time> {
        let open = self.words.open.iter().filter(|open| open.client.is_some());
        open.map(|open| open.late_at).min().filter(|_| !self.is_one())
    }

    /// A node does not answer: where another one does, the client's request comes again, and that one is asked.
    pub(crate) fn ask_late_words(&mut self, now: Time) {
        if self.words_late_at().is_none_or(|at| at > now) {
            return;
        }
        let other = self.node_for_words(now);
        let mut again = Vec::new();
        for open in self.words.open.iter_mut().filter(|open| open.late_at <= now) {
            open.late_at = now.plus_ms(WORD_LATE_MS);
            if self.upstreams.get(open.over).map(|upstream| upstream.key.node) != other {
                again.extend(open.client.take());
                open.login.take().into_iter().for_each(|group| self.words.tried.remove(group));
            }
        }
        again.into_iter().for_each(|client| self.bring_word(client, None));
    }

    fn take_open(&mut self, over: UpstreamId) -> Option<Open> {
        let at = self.words.open.iter().position(|open| open.over == over)?;
        let open = self.words.open.remove(at)?;
        open.login.into_iter().for_each(|group| self.words.tried.remove(group));
        Some(open)
    }

    /// The client's request comes again.
    fn bring_word(&mut self, id: ClientId, word: Option<Word>) {
        let Some(client) = self.clients.get_mut(id).filter(|client| client.hold == Hold::Word)
        else {
            return;
        };
        client.identity.word = word.map(alloc::boxed::Box::new);
        if !client.queued {
            client.queued = true;
            self.resume.push_back(id);
        }
    }

    /// Whether a client waits for a place for AUTH that it could have now.
    pub(crate) fn login_place_is_free(&self, now: Time) -> bool {
        let words = &self.words;
        words.waiting.any(|line| words.may_try(line))
            && self.node_for_words(now).is_none_or(|node| self.idle_for_login(node).is_some())
    }

    /// Those that wait look again, as many as there are places.
    pub(crate) fn wake_for_word(&mut self) {
        for id in self.words.next_waiting() {
            match self.clients.get(id).is_some_and(|client| client.hold == Hold::Word) {
                true => self.bring_word(id, None),
                // It waits for nothing any more, and must not keep others from their turn.
                false => self.words.forget_waiter(id),
            }
        }
    }

    /// What becomes of a command that the proxy answers to a client of a login, unless the server allows it.
    pub(crate) fn unless_denied(&mut self, now: Time, call: &Call<'_>) -> Option<Step> {
        self.settings.login.as_ref()?;
        let said = match probe(call.command, call.args) {
            Probe::None => return None,
            Probe::Never => return Some(self.refuse(call, reject::NOT_OF_LOGINS)),
            // That was asked when it was queued.
            Probe::Own(_) | Probe::Others(_) if call.inside.is_some() => return None,
            Probe::Own(said) | Probe::Others(said) => said,
        };
        let mut whole = Vec::new();
        encode::request(&mut whole, &said);
        let of = Digest::of(&whole);
        match self.word_on(now, call.id, &of) {
            Some(Ok(())) => None,
            Some(Err(error)) => {
                self.stats.command(Some(call.command)).failed += 1;
                Some(self.say(call, |out| encode::error(out, &error)))
            }
            None => Some(match self.node_for_words(now) {
                None => self.unserved_call(now, call, 0),
                Some(node) => {
                    let key = self.shared_key(node, Protocol::Resp2, self.settings.node.db);
                    self.ask_for_word(now, call, key, &said, (of, None))
                }
            }),
        }
    }

    /// Checks the invariant, and that whoever waits for a word will be woken.
    pub(crate) fn check_words(&self) {
        let Words { open, waiting, failed, tried, .. } = &*self.words;
        assert!(failed.len() <= LOGINS_FAILED_MAX && tried.total() <= LOGINS_TRIED_MAX);
        let mut found = Held::default();
        open.iter().filter_map(|open| open.login).for_each(|group| found.add(group));
        assert_eq!(*tried, found, "whose passwords are tried");
        let is_client = |(_, id): (Time, ClientId)| self.clients.get(id).is_some();
        assert!(waiting.oldest().all(is_client), "who is gone waits for a place");
        for (id, client) in self.clients.iter() {
            let questions = open.iter().filter(|open| open.client == Some(id)).count();
            assert!(questions <= 1, "a client with several questions");
            assert!(questions == 0 || !waiting.contains(id), "who has a place waits for one");
            let is_woken = questions == 1 || waiting.contains(id) || self.resume.contains(&id);
            assert!(client.hold != Hold::Word || is_woken, "nobody brings it the word");
        }
    }
}

/// The key of a connection for AUTH.
fn login_key(node: NodeId, conn: u16) -> UpstreamKey {
    UpstreamKey { node, resp3: false, db: 0, lane: Lane::Login, conn, owner: None }
}

impl Words {
    /// Whether a group may have one more password tried.
    fn may_try(&self, (group, ()): &Line<()>) -> bool {
        self.tried.has_room(*group, 1, LOGINS_TRIED_MAX)
    }

    /// Places that are free.
    fn room(&self) -> usize {
        LOGINS_TRIED_MAX.saturating_sub(self.tried.total())
    }

    /// Whether it is the turn of this client.
    fn may_try_now(&self, id: ClientId, group: Group) -> bool {
        let line = (group, ());
        let may = |line: &Line<()>| self.may_try(line);
        may(&line) && self.waiting.is_among_first(id, &line, self.room(), may)
    }

    /// Whose turn it is of those that wait.
    fn next_waiting(&self) -> Vec<ClientId> {
        self.waiting.first(self.room(), |line| self.may_try(line))
    }

    /// The client is gone, or has its answer.
    pub(crate) fn forget_waiter(&mut self, id: ClientId) {
        self.waiting.forget(id);
    }

    fn remember(&mut self, now: Time, of: Digest, error: &[u8]) {
        if !(error.starts_with(b"WRONGPASS") || error.starts_with(b"ERR invalid password")) {
            return;
        }
        if self.failed.len() >= LOGINS_FAILED_MAX {
            self.failed.pop_front();
        }
        self.failed.push_back((of, now, error.to_vec()));
    }
}

/// What a server is asked instead of a command that the proxy answers.
enum Probe<'a> {
    /// Nothing: every user may, or a server is asked anyway.
    None,
    /// These words. The command is about nobody but the client.
    Own(Vec<&'a [u8]>),
    /// These words.
    Others(Vec<&'a [u8]>),
    /// There is no question without an effect, or servers have no such command.
    Never,
}

/// No name, no number, no option: whatever command has it in the place of one says so, and does nothing. But first it is asked whether the user may call it.
const NOTHING: &[u8] = b"no such";

fn probe<'a>(command: CommandId, args: &[&'a [u8]]) -> Probe<'a> {
    match command {
        ids::PING => Probe::Own(alloc::vec![b"PING"]),
        ids::ECHO => Probe::Own(alloc::vec![b"ECHO", b""]),
        ids::SELECT => Probe::Own(alloc::vec![b"SELECT", NOTHING]),
        ids::INFO => Probe::Others(alloc::vec![b"INFO", NOTHING]),
        // Outside of a transaction servers are asked themselves.
        ids::ACL if args.get(1).is_some_and(|word| word::same_name(word, "whoami")) => Probe::None,
        ids::ACL => Probe::Never,
        ids::MONITOR | ids::TOPKEYS | ids::BIGKEYS => Probe::Never,
        ids::CLIENT | ids::SLOWLOG => {
            match args.get(1).and_then(|word| lookup_sub(command, word)) {
                Some(sub) if arity_fits(sub, args.len()) => of_subcommand(sub, args),
                // It is answered with an error.
                _ => Probe::None,
            }
        }
        _ => Probe::None,
    }
}

fn of_subcommand<'a>(sub: CommandId, args: &[&'a [u8]]) -> Probe<'a> {
    let with = |word: &'a [u8], arguments: usize| -> Vec<&'a [u8]> {
        [args[0], word].into_iter().chain(core::iter::repeat_n(NOTHING, arguments)).collect()
    };
    match sub {
        ids::SLOWLOG_RESET => Probe::Never,
        ids::SLOWLOG_LEN => Probe::Others(with(args[1], 0)),
        ids::SLOWLOG_GET | ids::CLIENT_LIST | ids::CLIENT_KILL => Probe::Others(with(args[1], 1)),
        ids::CLIENT_PAUSE | ids::CLIENT_UNBLOCK => Probe::Others(with(args[1], 1)),
        // It would end the pause of the server.
        ids::CLIENT_UNPAUSE => Probe::Others(with(b"PAUSE", 1)),
        _ => {
            // What takes something gets as much as it needs at least; what takes nothing tells of the connection alone.
            let least = usize::from(sub.row().arity.unsigned_abs());
            Probe::Own(with(args[1], least.saturating_sub(2)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::lookup;
    use alloc::string::String;

    fn asked(line: &str) -> Option<Vec<u8>> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        match probe(lookup(args[0]).unwrap(), &args) {
            Probe::Own(words) | Probe::Others(words) => Some(words.join(&b'|')),
            Probe::None => None,
            Probe::Never => Some(b"never".to_vec()),
        }
    }

    #[test]
    fn what_is_asked_has_no_effect() {
        for (line, expected) in [
            ("ping x", Some("PING")),
            ("CLIENT LIST", Some("CLIENT|LIST|no such")),
            ("CLIENT KILL ID 5", Some("CLIENT|KILL|no such")),
            ("CLIENT PAUSE 10", Some("CLIENT|PAUSE|no such")),
            ("CLIENT UNPAUSE", Some("CLIENT|PAUSE|no such")),
            ("CLIENT SETNAME bob", Some("CLIENT|SETNAME|no such")),
            ("client setinfo lib-name x", Some("client|setinfo|no such|no such")),
            ("CLIENT ID", Some("CLIENT|ID")),
            ("CLIENT REPLY OFF", Some("CLIENT|REPLY|no such")),
            ("CLIENT NOSUCH", None),
            ("CLIENT SETNAME", None),
            ("SELECT 3", Some("SELECT|no such")),
            ("SLOWLOG GET 3", Some("SLOWLOG|GET|no such")),
            ("SLOWLOG RESET", Some("never")),
            ("MONITOR", Some("never")),
            ("INFO", Some("INFO|no such")),
            ("SUBSCRIBE c", None),
            ("QUIT", None),
        ] {
            let found = asked(line).map(|words| String::from_utf8(words).unwrap());
            assert_eq!(found.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn only_so_many_failures_are_remembered() {
        let mut words = Words::default();
        for number in 0..2 * LOGINS_FAILED_MAX {
            words.remember(Time(1), Digest::of(&number.to_le_bytes()), b"WRONGPASS no");
        }
        words.remember(Time(1), Digest::of(b"x"), b"ERR something else");
        assert_eq!(words.failed.len(), LOGINS_FAILED_MAX);
        assert!(
            words
                .failed
                .front()
                .is_some_and(|(of, ..)| { of.is(&Digest::of(&LOGINS_FAILED_MAX.to_le_bytes())) })
        );
    }
}
