//! The words that the stories are told in: clients, a server, a clock, and an engine between them.
//!
//! ```text
//!   story.client("a").says("GET k");       a request, as a client library writes it
//!   story.server().gets("GET k");          the next request that arrived at the server, which must be this one
//!   story.server().answers("\"v\"");       the server's reply
//!   story.client("a").gets("\"v\"");       everything that arrived at the client since it was last asked, which must be this
//! ```
//! Replies are written as people write them: `+OK`, `-ERR …`, `:1`, `"bulk"`, `nil`; what ends in CRLF stands for itself, and a
//! list is one reply after the other in one packet. Connects succeed and greetings are answered by themselves unless a
//! story takes that over ([`Story::by_hand`]).
//!
//! Between any two words a whole turn runs, as the worker runs it: events, timers, sends to upstreams, sends to clients, actions;
//! it is repeated until nothing is left to do, and the engine checks its invariants after each.
//!
//! A story with several servers is told in the words of [`cluster`], [`sentinel`] and [`shards`].
//!
//! Not here: partial writes, chunking by the network and chance. Those belong to the simulator.
//!
//! Invariant: a turn that does not end within [`TURNS_MAX`] rounds fails the story, so a loop that feeds itself is seen.

use engine::acl::Users;
use engine::fleet::{Answer, ProcessFacts, Question, Questioner, ReplyTo};
use engine::login::Said;
use engine::news::{Audience, News};
use engine::node::Address;
use engine::settings::{Limits, Settings, Timeouts};
use engine::tenancy::TenantId;
use engine::upstream::UpstreamKey;
use engine::{Action, ClientId, Engine, Notice, Time, UpstreamId};
use std::collections::{BTreeMap, VecDeque};

pub(crate) mod cluster;
mod ends;
pub(crate) mod sentinel;
pub(crate) mod shards;

pub(crate) use ends::{ClientWords, ServerWords};

/// Rounds of one turn before it counts as endless.
const TURNS_MAX: usize = 20_000;

/// What one read of a socket brings at most, as the worker's receive buffer does.
const READ_BYTES: usize = 64 << 10;

/// Redis 7.2's answer to HELLO 2, as far as the engine looks at it.
pub(crate) const HELLO_2: &str = "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.5\r\n$5\r\nproto\r\n:2\r\n\
    $2\r\nid\r\n:991\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

/// The same to HELLO 3.
pub(crate) const HELLO_3: &str = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.5\r\n$5\r\nproto\r\n:3\r\n\
    $2\r\nid\r\n:991\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

/// One thing said or several in one packet.
pub(crate) trait Words {
    /// Each of them.
    fn each(&self) -> Vec<&str>;
}

impl Words for &str {
    fn each(&self) -> Vec<&str> {
        vec![self]
    }
}

impl Words for &String {
    fn each(&self) -> Vec<&str> {
        vec![self]
    }
}

impl<const N: usize> Words for [&str; N] {
    fn each(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Words for Vec<&str> {
    fn each(&self) -> Vec<&str> {
        self.clone()
    }
}

/// A reply as the wire has it.
pub(crate) fn wire(reply: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if reply.ends_with("\r\n") {
        out.extend_from_slice(reply.as_bytes());
    } else if let Some(text) = reply.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        resp::encode::bulk(&mut out, text.as_bytes());
    } else if reply == "nil" {
        out.extend_from_slice(b"$-1\r\n");
    } else {
        out.extend_from_slice(reply.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// A request as the wire has it; arguments are separated by blanks, and `''` is an empty one.
pub(crate) fn request(line: &str) -> Vec<u8> {
    let args: Vec<&[u8]> =
        line.split(' ').map(|arg| if arg == "''" { &b""[..] } else { arg.as_bytes() }).collect();
    let mut out = Vec::new();
    resp::encode::request(&mut out, &args);
    out
}

/// A bulk string of so many bytes.
pub(crate) fn bulk(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::bulk(&mut out, &vec![b'v'; bytes]);
    out
}

/// `SET key` with a value of so many bytes.
pub(crate) fn large_set(key: &str, bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::request(&mut out, &[b"SET", key.as_bytes(), &vec![b'x'; bytes]]);
    out
}

/// Bytes as a person reads them in a failure, shortened in the middle.
fn shown(bytes: &[u8]) -> String {
    let text = |part: &[u8]| part.escape_ascii().to_string();
    if bytes.len() <= 1_000 {
        return text(bytes);
    }
    let (begin, end) = (&bytes[..200], &bytes[bytes.len() - 200..]);
    format!("{} … {} ({} bytes)", text(begin), text(end), bytes.len())
}

/// Bytes that were sent and not read by the proxy yet, as the kernel keeps them.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    read: usize,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// What one read gives; `None` if there is nothing.
    fn read(&mut self) -> Option<Vec<u8>> {
        let count = self.len().min(READ_BYTES);
        let part = self.bytes[self.read..self.read + count].to_vec();
        self.read += count;
        if self.len() == 0 {
            *self = Self::default();
        }
        (count > 0).then_some(part)
    }
}

/// A client's side of its socket.
#[derive(Default)]
struct Peer {
    id: Option<ClientId>,
    /// Arrived and not asked for yet.
    got: Vec<u8>,
    unread: Kept,
    says_eof: bool,
    reading: bool,
    /// A full socket: it takes nothing.
    blocked: bool,
    flight: Option<Vec<u8>>,
    sends: usize,
}

/// The server's side of one connection.
struct Conn {
    id: UpstreamId,
    key: UpstreamKey,
    /// Name of the server.
    node: String,
    open: bool,
    connected: bool,
    /// Arrived and not taken apart yet.
    inbox: Vec<u8>,
    /// The last argument of the last whole request, as it is.
    last_arg: Vec<u8>,
    requests: VecDeque<String>,
    /// How many requests arrived, and how many replies went out, without delimiters.
    arrived: u64,
    answered: u64,
    /// Delimiters that arrived: behind so many requests, and the word. The server answers them by itself.
    delimiters: VecDeque<(u64, String)>,
    /// Requests that a story looked at and that have no reply yet, and where that reply ends.
    owed: usize,
    replies: resp::ReplyScanner,
    unread: Kept,
    reading: bool,
    blocked: bool,
    flight: Option<Vec<u8>>,
    /// Writes that arrived, and their bytes.
    writes: usize,
    bytes: usize,
}

/// See the module.
pub(crate) struct Story {
    /// The engine itself, for what has no word.
    pub(crate) engine: Engine,
    /// Virtual time.
    pub(crate) now: Time,
    /// What the operator was told.
    pub(crate) notices: Vec<Notice>,
    peers: BTreeMap<String, Peer>,
    conns: Vec<Conn>,
    /// Connections that the engine removed before the story made them.
    not_begun: Vec<UpstreamId>,
    rules: Vec<(String, Vec<u8>)>,
    /// The same of one server only; those look only at what stands first of all that it owes.
    node_rules: Vec<(String, String, Vec<u8>)>,
    by_hand: bool,
    /// Servers answer nothing by themselves, greetings too.
    busy: bool,
    learn: bool,
    holds_questions: bool,
    questions: VecDeque<(u64, Question)>,
    news: Vec<(Audience, News)>,
    /// Clients that wait to be taken to another tenant.
    leaving: Vec<(ClientId, TenantId)>,
    /// Clients that wait to be taken to a login.
    logging_in: Vec<(ClientId, Said)>,
    servers: cluster::Servers,
    sentinels: sentinel::Sentinels,
}

impl Story {
    /// Default settings.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    /// With these settings.
    pub(crate) fn with(settings: Settings) -> Self {
        let now = Time(1_000_000);
        Self {
            engine: Engine::new(settings, 7, now),
            now,
            notices: Vec::new(),
            peers: BTreeMap::new(),
            conns: Vec::new(),
            not_begun: Vec::new(),
            rules: Vec::new(),
            node_rules: Vec::new(),
            by_hand: false,
            busy: false,
            learn: true,
            holds_questions: false,
            questions: VecDeque::new(),
            news: Vec::new(),
            leaving: Vec::new(),
            logging_in: Vec::new(),
            servers: cluster::Servers::default(),
            sentinels: sentinel::Sentinels::default(),
        }
    }

    /// With these limits.
    pub(crate) fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings.limits);
        Self::with(settings)
    }

    /// With these times.
    pub(crate) fn with_timeouts(change: impl FnOnce(&mut Timeouts)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings.timeouts);
        Self::with(settings)
    }

    /// Clients must say this password.
    pub(crate) fn with_password(password: &str) -> Self {
        let settings = Settings {
            users: Users::with_password(password.as_bytes()).into(),
            ..Settings::default()
        };
        Self::with(settings)
    }

    /// Connects wait for [`Self::connects`] or [`Self::connect_fails`], greetings for an answer.
    pub(crate) fn by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// To a greeting that begins with `request` the server says `reply` from now on.
    pub(crate) fn server_says_to(&mut self, request: &str, reply: &str) -> &mut Self {
        self.rules.insert(0, (request.to_string(), wire(reply)));
        self
    }

    /// To each request that begins with `request` this server says `reply` by itself from now on.
    pub(crate) fn node_says_to(&mut self, node: &str, request: &str, reply: &str) -> &mut Self {
        self.node_rules.insert(0, (node.to_string(), request.to_string(), wire(reply)));
        self
    }

    /// What was told to other workers since this was last looked at.
    pub(crate) fn tells(&mut self) -> Vec<(Audience, News)> {
        std::mem::take(&mut self.news)
    }

    /// Another worker has news for this one.
    pub(crate) fn hears(&mut self, news: News) -> &mut Self {
        self.engine.handle_news(self.now, news);
        self.turn();
        self
    }

    /// Other settings from now on.
    pub(crate) fn reconfigures(&mut self, change: impl FnOnce(&mut Settings)) -> &mut Self {
        let mut settings = self.engine.settings().clone();
        change(&mut settings);
        self.engine.reconfigure(self.now, settings);
        self.turn();
        self
    }

    /// Questions to the other workers are answered later, by [`Self::workers_answer`].
    pub(crate) fn holds_questions(&mut self) {
        self.holds_questions = true;
    }

    /// What is asked of the workers and not answered yet.
    pub(crate) fn asked(&self) -> Option<(u64, Question)> {
        self.questions.front().cloned()
    }

    /// How many questions to the workers are not answered yet.
    pub(crate) fn questions_open(&self) -> usize {
        self.questions.len()
    }

    /// Answers the newest question, before those that were asked earlier.
    pub(crate) fn workers_answer_newest(&mut self) {
        let newest = self.questions.pop_back().expect("a question");
        self.questions.push_front(newest);
        self.answer_front();
        self.turn();
    }

    /// Answers those that are open now.
    pub(crate) fn workers_answer_open(&mut self) {
        let later = self.questions.split_off(self.questions.len());
        let open = core::mem::replace(&mut self.questions, later);
        for (ticket, question) in open {
            self.questions.push_front((ticket, question));
            self.answer_front();
        }
        self.turn();
    }

    /// Answers what was asked of the workers; there is one, this engine.
    pub(crate) fn workers_answer(&mut self) {
        while !self.questions.is_empty() {
            self.answer_front();
        }
        self.turn();
    }

    fn answer_front(&mut self) {
        let Some((ticket, question)) = self.questions.pop_front() else { return };
        let (who, tenant, login) = (Questioner::Worker(0), TenantId::DEFAULT, None);
        let to = ReplyTo { who, tenant, login, ticket };
        if let Some(answer) = self.engine.answer(self.now, to, &question) {
            self.worker_answers(to, answer);
        }
    }

    /// The answer to a question that is not for workers. Whether the engine says that it has something to do then: a worker that reads
    /// the answer sleeps otherwise.
    pub(crate) fn is_answered(&mut self, answer: Answer) -> bool {
        let (ticket, _) = self.questions.pop_front().expect("nothing was asked");
        self.worker_answers(
            ReplyTo { who: Questioner::Worker(0), tenant: TenantId::DEFAULT, login: None, ticket },
            answer,
        );
        let is_due = self.engine.poll_timeout(self.now).is_some_and(|at| at <= self.now);
        let has_output = self.engine.has_output();
        self.turn();
        is_due || has_output
    }

    fn worker_answers(&mut self, to: ReplyTo, answer: Answer) {
        let facts = ProcessFacts {
            version: "0.0.1".into(),
            pid: 42,
            driver: "story".into(),
            ..ProcessFacts::default()
        };
        self.engine.handle_answers(self.now, to.ticket, vec![answer], &facts);
    }

    /// The client of this name; it connects when first spoken of, from the address behind its `@` if there is one.
    pub(crate) fn client(&mut self, name: &str) -> ClientWords<'_> {
        if !self.peers.contains_key(name) {
            let port = 5_001 + self.peers.len();
            let host = name.split_once('@').map_or("10.0.0.1", |(_, host)| host);
            let (addr, laddr) = (format!("{host}:{port}"), "10.0.0.9:6380".to_string());
            let id = self.engine.handle_client_open(self.now, addr, laddr);
            let peer = Peer { id, reading: true, ..Peer::default() };
            self.peers.insert(name.to_string(), peer);
        }
        ClientWords::new(self, name)
    }

    /// The server's end of the connection that was made last.
    pub(crate) fn server(&mut self) -> ServerWords<'_> {
        let last = self.conns.len();
        self.conn(last)
    }

    /// Whether servers are busy and greet nobody.
    pub(crate) fn servers_are_busy(&mut self, busy: bool) {
        self.busy = busy;
        self.turn();
    }

    /// The server's end of the `number`-th connection, from 1.
    pub(crate) fn conn(&mut self, number: usize) -> ServerWords<'_> {
        assert!((1..=self.conns.len()).contains(&number), "{} connections", self.conns.len());
        ServerWords::new(self, number - 1)
    }

    /// How many connects there were.
    pub(crate) fn connects_made(&self) -> usize {
        self.conns.len()
    }

    /// How many connections are open.
    pub(crate) fn open_conns(&self) -> usize {
        self.conns.iter().filter(|conn| conn.open).count()
    }

    /// The connect under way succeeds.
    pub(crate) fn connects(&mut self) -> &mut Self {
        let index = self.conns.len() - 1;
        self.connect(index);
        self.turn();
        self
    }

    /// The connect under way fails.
    pub(crate) fn connect_fails(&mut self, cause: &str) -> &mut Self {
        let conn = self.conns.last_mut().expect("no connect under way");
        assert!(conn.open && !conn.connected, "no connect under way");
        conn.open = false;
        let id = conn.id;
        self.engine.handle_upstream_closed(self.now, id, cause);
        self.turn();
        self
    }

    /// Time passes; what is due on the way happens when it is due.
    pub(crate) fn after_ms(&mut self, ms: u64) -> &mut Self {
        let end = self.now.plus_ms(ms);
        for round in 0.. {
            assert!(round < TURNS_MAX, "time does not pass");
            match self.engine.poll_timeout(self.now) {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            self.turn();
        }
        self.now = end;
        self.turn();
        self
    }

    /// What the engine tells of itself.
    pub(crate) fn report(&self) -> engine::fleet::Report {
        self.engine.report(self.now)
    }

    /// Whether the operator was told something with these words.
    pub(crate) fn was_told(&self, words: &str) -> bool {
        self.notices.iter().any(|notice| format!("{notice:?}").contains(words))
    }

    /// The tenant that a client waits to be taken to.
    pub(crate) fn moves(&self, name: &str) -> Option<TenantId> {
        let id = self.peers.get(name)?.id?;
        self.leaving.iter().find(|(leaving, _)| *leaving == id).map(|(_, to)| *to)
    }

    /// Takes a client to the engine of another tenant, with its end of the socket. Whether it was still there and wanted to.
    pub(crate) fn hands_over(&mut self, name: &str, to: &mut Self) -> bool {
        let id = self.peers.get(name).and_then(|peer| peer.id);
        let Some(id) = id.filter(|_| self.moves(name).is_some()) else { return false };
        self.takes_over(name, id, to)
    }

    /// The login that a client waits to be taken to.
    pub(crate) fn logs_in(&self, name: &str) -> Option<Said> {
        let id = self.peers.get(name)?.id?;
        self.logging_in.iter().find(|(leaving, _)| *leaving == id).map(|(_, said)| said.clone())
    }

    /// Takes a client to the engine of its login, likewise.
    pub(crate) fn logs_over(&mut self, name: &str, to: &mut Self) -> bool {
        let id = self.peers.get(name).and_then(|peer| peer.id);
        let Some(id) = id.filter(|_| self.logs_in(name).is_some()) else { return false };
        self.takes_over(name, id, to)
    }

    fn takes_over(&mut self, name: &str, id: ClientId, to: &mut Self) -> bool {
        self.leaving.retain(|(leaving, _)| *leaving != id);
        self.logging_in.retain(|(leaving, _)| *leaving != id);
        let Some(leaver) = self.engine.release_client(id) else { return false };
        let mut peer = self.peers.remove(name).expect("it was there");
        let new = to.engine.admit_client(leaver);
        peer.id = Some(new);
        to.peers.insert(name.to_string(), peer);
        to.engine.begin_admitted(to.now, new);
        self.turn();
        to.turn();
        true
    }

    /// There is no place for a client where it belongs.
    pub(crate) fn keeps(&mut self, name: &str, error: &'static str) {
        let id = self.peers[name].id.expect("it is gone");
        self.leaving.retain(|(leaving, _)| *leaving != id);
        self.logging_in.retain(|(leaving, _)| *leaving != id);
        self.engine.keep_client(id, error);
        self.turn();
    }

    /// Runs turns until nothing is left to do.
    pub(crate) fn turn(&mut self) {
        for round in 0.. {
            assert!(round < TURNS_MAX, "a turn that never ends");
            if !self.turn_once() {
                return;
            }
        }
    }

    /// Runs one turn. Whether there is more to do.
    pub(crate) fn turn_once(&mut self) -> bool {
        let mut busy = self.read_sockets();
        self.engine.handle_timeout(self.now);
        busy |= self.flush();
        busy |= self.carry_out();
        busy |= self.greet();
        self.notices.extend(std::iter::from_fn(|| self.engine.poll_notice()));
        self.engine.check_invariants();
        busy || self.engine.poll_timeout(self.now).is_some_and(|at| at <= self.now)
    }

    fn read_sockets(&mut self) -> bool {
        let mut busy = false;
        for peer in self.peers.values_mut().filter(|peer| peer.reading) {
            let Some(id) = peer.id else { continue };
            if let Some(bytes) = peer.unread.read() {
                self.engine.handle_client_bytes(self.now, id, &bytes);
                busy = true;
            } else if std::mem::take(&mut peer.says_eof) {
                self.engine.handle_client_eof(self.now, id);
                busy = true;
            }
        }
        for conn in self.conns.iter_mut().filter(|conn| conn.open && conn.reading) {
            if let Some(bytes) = conn.unread.read() {
                self.engine.handle_upstream_bytes(self.now, conn.id, &bytes);
                busy = true;
            }
        }
        busy
    }

    fn flush(&mut self) -> bool {
        let mut busy = false;
        while let Some(id) = self.engine.poll_dirty_upstream() {
            busy = true;
            while let Some(buf) = self.engine.begin_upstream_send(id) {
                let conn = self.conns.iter_mut().rfind(|conn| conn.id == id && conn.open);
                let conn = conn.expect("a send to a connection that is not open");
                assert!(conn.connected, "a send before the connect succeeded");
                conn.writes += 1;
                conn.bytes += buf.len();
                conn.inbox.extend_from_slice(&buf);
                if conn.blocked {
                    conn.flight = Some(buf);
                    break;
                }
                self.engine.handle_upstream_sent(self.now, id, buf);
            }
        }
        while let Some(id) = self.engine.poll_dirty_client() {
            busy = true;
            while let Some(buf) = self.engine.begin_client_send(id) {
                let peer = self.peers.values_mut().find(|peer| peer.id == Some(id));
                let peer = peer.expect("a send to a client that is gone");
                peer.sends += 1;
                if peer.blocked {
                    peer.flight = Some(buf);
                    break;
                }
                peer.got.extend_from_slice(&buf);
                self.engine.handle_client_sent(self.now, id, buf);
            }
        }
        busy
    }

    fn carry_out(&mut self) -> bool {
        let mut busy = false;
        while let Some(action) = self.engine.poll_action() {
            busy = true;
            match action {
                Action::Connect(id) => self.begin_connect(id),
                Action::CloseUpstream(id) if self.not_begun.contains(&id) => {
                    self.not_begun.retain(|other| *other != id);
                }
                Action::CloseUpstream(id) => {
                    let conn = self.conns.iter_mut().rfind(|conn| conn.id == id && conn.open);
                    conn.expect("a connection is closed twice").open = false;
                }
                Action::CloseClient(id) | Action::ResetClient(id) => {
                    let peer = self.peers.values_mut().find(|peer| peer.id == Some(id));
                    peer.expect("a client is closed twice").id = None;
                }
                Action::ReadClient(id, on) => {
                    if let Some(peer) = self.peers.values_mut().find(|peer| peer.id == Some(id)) {
                        peer.reading = on;
                    }
                }
                Action::ReadUpstream(id, on) => {
                    if let Some(conn) = self.conns.iter_mut().rfind(|c| c.id == id && c.open) {
                        conn.reading = on;
                    }
                }
                Action::Tell(audience, news) => self.news.push((audience, news)),
                Action::Answer(to, answer) => self.worker_answers(to, answer),
                Action::Move(id, to) => self.leaving.push((id, to)),
                Action::LogIn(id, said) => self.logging_in.push((id, *said)),
                Action::Ask(ticket, question) => {
                    self.questions.push_back((ticket, question));
                    if !self.holds_questions {
                        self.workers_answer();
                    }
                }
            }
        }
        busy
    }

    fn begin_connect(&mut self, id: UpstreamId) {
        let Some(key) = self.engine.upstream_key(id) else {
            return self.not_begun.push(id);
        };
        assert!(self.engine.wants_connect(id));
        let node = match self.engine.upstream_address(id) {
            Some(Address::Tcp { host, .. }) => host.clone(),
            _ => String::new(),
        };
        let (refused, left) = (self.refuses_connects(&node), self.leaves_connects(&node));
        self.conns.push(Conn {
            id,
            key,
            node,
            open: true,
            connected: false,
            inbox: Vec::new(),
            last_arg: Vec::new(),
            requests: VecDeque::new(),
            arrived: 0,
            answered: 0,
            delimiters: VecDeque::new(),
            owed: 0,
            replies: resp::ReplyScanner::default(),
            unread: Kept::default(),
            reading: true,
            blocked: false,
            flight: None,
            writes: 0,
            bytes: 0,
        });
        if refused {
            self.conns.last_mut().expect("just pushed").open = false;
            self.engine.handle_upstream_closed(self.now, id, "connect: Connection refused");
        } else if !self.by_hand && !left {
            self.connect(self.conns.len() - 1);
        }
    }

    fn connect(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        assert!(conn.open && !conn.connected, "no connect under way");
        conn.connected = true;
        let id = conn.id;
        self.engine.handle_upstream_connected(self.now, id);
    }

    /// Takes what arrived apart, and answers the greetings.
    fn greet(&mut self) -> bool {
        let mut busy = false;
        for index in 0..self.conns.len() {
            self.take_apart(index);
            while !self.by_hand
                && !self.busy
                && self.conns[index].open
                && let Some(reply) = self.own_reply(index)
            {
                let conn = &mut self.conns[index];
                self.learn &= conn.requests.front().is_none_or(|line| line != "COMMAND");
                conn.requests.pop_front();
                let bytes = conn.with_delimiters(&reply);
                conn.unread.push(&bytes);
                busy = true;
            }
        }
        busy
    }

    /// What this server answers by itself to the first of its requests.
    fn own_reply(&mut self, index: usize) -> Option<Vec<u8>> {
        let line = self.conns[index].requests.front()?;
        self.node_rule(index)
            .or_else(|| self.greeting_reply(line))
            .or_else(|| self.info_reply(index))
            .or_else(|| self.table_reply(index))
            .or_else(|| self.sentinel_reply(index))
    }

    /// What the engine asks for an INFO of its own.
    fn info_reply(&self, index: usize) -> Option<Vec<u8>> {
        let conn = &self.conns[index];
        let line = conn.requests.front().filter(|_| conn.owed == 0)?;
        (line == "INFO").then(|| wire("\"# Keyspace\""))
    }

    fn node_rule(&self, index: usize) -> Option<Vec<u8>> {
        let conn = &self.conns[index];
        let line = conn.requests.front().filter(|_| conn.owed == 0)?;
        let mut rules = self.node_rules.iter();
        let rule = rules.find(|(node, begin, _)| *node == conn.node && line.starts_with(begin));
        rule.map(|(_, _, reply)| reply.clone())
    }

    fn take_apart(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let (mut scanner, limits) = Default::default();
        let mut at = 0;
        while let Ok(resp::Scan::Complete { consumed, .. }) =
            resp::RequestScanner::scan(&mut scanner, &conn.inbox[at..], &limits)
        {
            let args: Vec<_> = resp::Args::new(&conn.inbox[at..at + consumed])
                .map(|arg| String::from_utf8_lossy(&arg[..arg.len().min(100)]).into_owned())
                .collect();
            let last = resp::Args::new(&conn.inbox[at..at + consumed]).last();
            conn.last_arg = last.map(<[u8]>::to_vec).unwrap_or_default();
            at += consumed;
            match &args[..] {
                [echo, word] if echo == "ECHO" && word.starts_with("respool:") => {
                    conn.delimiters.push_back((conn.arrived, word.clone()));
                }
                _ => {
                    conn.arrived += 1;
                    conn.requests.push_back(args.join(" "));
                }
            }
        }
        conn.inbox.drain(..at);
    }

    fn greeting_reply(&self, line: &str) -> Option<Vec<u8>> {
        // What the engine asks by `COMMAND` it asks once; by `COMMAND INFO` it asks for names.
        let begins = |begin: &str| line.starts_with(begin) && (begin != "COMMAND" || line == begin);
        if let Some((_, reply)) = self.rules.iter().find(|(begin, _)| begins(begin)) {
            return Some(reply.clone());
        }
        match line.split(' ').next() {
            Some("HELLO") if line.starts_with("HELLO 3") => Some(wire(HELLO_3)),
            Some("HELLO") => Some(wire(HELLO_2)),
            Some("SELECT" | "AUTH") => Some(wire("+OK")),
            Some("CLIENT") if line.starts_with("CLIENT SETNAME") => Some(wire("+OK")),
            // The engine's own, once; later ones are a client's.
            Some("COMMAND") if line == "COMMAND" && self.learn => Some(wire("*0")),
            // The engine's own question for names: this server has none of them.
            Some("COMMAND") if line.starts_with("COMMAND INFO ") => {
                let names = line.split(' ').count() - 2;
                Some(format!("*{names}\r\n{}", "*-1\r\n".repeat(names)).into_bytes())
            }
            _ => None,
        }
    }
}
