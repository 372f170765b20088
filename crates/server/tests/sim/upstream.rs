//! A server behind: its connections in the simulated network, and what is done to it.
//!
//! [`Host`] is the network's side: it accepts, reads, answers, and suffers. What the answer is, its [`Mind`] knows: the model of one server
//! here, of a cluster's node in `cluster`.
//!
//! Requests are given to the model one by one where a fault is planted ([`Planted`]), so that it can hit one of them: that is how the
//! judge itself is proved.
//!
//! Invariant: unless a fault is planted, every byte goes through the model untouched and in order.

use netio::Address;
use netio::sim::{SimListener, SimNet, SimPeer};
use testkit::frames::{RequestFrame, Requests, quote};
use testkit::model::After;
use testkit::{Model, ModelConn};

use crate::plan::{PASSWORD, Trouble};

/// What EXEC answers when something before it was refused.
const ABORTED: &[u8] = b"-EXECABORT Transaction discarded because of previous errors.\r\n";

/// What a server does to connections beyond its `maxclients`.
const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

/// A wrong that the judge must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// None: the server is right.
    Nothing,
    /// Two neighbouring replies of one connection change places.
    SwappedReplies,
    /// A SET is answered and not done.
    DroppedWrite,
    /// An INCR is done twice and answered once.
    DoubledIncr,
    /// A write is done and then sent on, as if it were not.
    DoneThenMoved,
    /// A key is lost on the way from one node to another.
    LostOnTheWay,
    /// A page of SCAN leaves a key out.
    SkippedInScan,
    /// A message does not reach one that listens.
    LostMessage,
    /// A message comes twice.
    DoubledMessage,
    /// One that caches is not told of a change.
    LostChange,
    /// A write is sent on in words that nobody heeds, so that they reach the client.
    ShownMoved,
    /// A transaction is said to be discarded, and its first write is done.
    TornTransaction,
    /// A BLPOP takes two elements and tells one.
    LostElement,
    /// Of two deployments one does what the other was sent.
    OtherDeployment,
}

/// What a host's connections talk to.
pub(crate) trait Mind {
    /// Its end of one connection.
    type Conn;

    /// A new connection to the host of this number.
    fn conn(&mut self, host: usize) -> Self::Conn;

    /// Takes bytes, appends replies. `requests` is for those that look at single requests.
    fn feed(
        &mut self,
        host: usize,
        conn: &mut Self::Conn,
        requests: &mut Requests,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> After;

    /// Appends what came for a connection that nobody asked for.
    fn deliver(&mut self, conn: &mut Self::Conn, out: &mut Vec<u8>);

    /// A connection is over.
    fn leave(&mut self, conn: &Self::Conn);
}

/// See the module.
pub(crate) struct Host<C> {
    net: SimNet,
    at: Address,
    listener: Option<SimListener>,
    conns: Vec<Conn<C>>,
    /// Connections that are over, of which the mind has not heard.
    over: Vec<Conn<C>>,
    mode: Trouble,
}

struct Conn<C> {
    peer: SimPeer,
    state: C,
    requests: Requests,
    /// Replies that a mute server keeps to itself are lost for good: after them nothing may be answered any more.
    lost: bool,
}

impl<C> Host<C> {
    /// One that listens at `at`.
    pub(crate) fn new(net: &SimNet, at: Address) -> Self {
        let listener = Some(net.listen(&at));
        Self {
            net: net.clone(),
            at,
            listener,
            conns: Vec::new(),
            over: Vec::new(),
            mode: Trouble::Well,
        }
    }

    /// Something happens to it.
    pub(crate) fn suffer(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Dead => {
                self.listener = None;
                self.conns.iter().for_each(|conn| conn.peer.reset());
                self.over.append(&mut self.conns);
            }
            Trouble::Reset => {
                self.net.reset_all_to(&self.at);
                return;
            }
            Trouble::Full => {
                self.conns.iter().for_each(|conn| conn.peer.close());
                self.over.append(&mut self.conns);
            }
            Trouble::Well if self.listener.is_none() => {
                self.listener = Some(self.net.listen(&self.at));
            }
            _ => {}
        }
        self.mode = trouble;
    }

    /// Where it listens.
    pub(crate) fn at(&self) -> &Address {
        &self.at
    }

    /// It goes for good.
    pub(crate) fn close(&mut self) {
        self.conns.clear();
        self.over.clear();
        self.listener = None;
    }

    /// Connections that are open.
    pub(crate) fn open_conns(&self) -> usize {
        self.conns.len()
    }

    /// Does what can be done now, as the host of this number.
    pub(crate) fn pump<M: Mind<Conn = C>>(&mut self, host: usize, mind: &mut M) {
        while let Some(peer) = self.listener.as_ref().and_then(SimListener::accept) {
            let full = self.mode == Trouble::Full;
            if full {
                peer.send(FULL);
                peer.shutdown();
                // Kept until the other side has it; it never executes anything.
            }
            let state = mind.conn(host);
            self.conns.push(Conn { peer, state, requests: Requests::default(), lost: full });
        }
        if self.mode == Trouble::Frozen {
            return;
        }
        let mode = self.mode;
        self.over.extend(self.conns.extract_if(.., |conn| !serve(conn, mode, host, mind)));
        self.over.drain(..).for_each(|conn| mind.leave(&conn.state));
    }

    /// Sends what came for its connections that nobody asked for; to be called when all hosts are pumped.
    pub(crate) fn deliver<M: Mind<Conn = C>>(&mut self, mind: &mut M) {
        if self.mode == Trouble::Frozen {
            return;
        }
        for conn in &mut self.conns {
            let mut out = Vec::new();
            mind.deliver(&mut conn.state, &mut out);
            if !out.is_empty() {
                answer(conn, self.mode, &out);
            }
        }
    }
}

/// False when the connection is over.
fn serve<M: Mind>(conn: &mut Conn<M::Conn>, mode: Trouble, host: usize, mind: &mut M) -> bool {
    let bytes = conn.peer.received();
    let refuses = conn.lost && mode == Trouble::Full;
    if !bytes.is_empty() && !refuses {
        let mut out = Vec::new();
        let after = mind.feed(host, &mut conn.state, &mut conn.requests, &bytes, &mut out);
        answer(conn, mode, &out);
        if after == After::Close {
            conn.peer.shutdown();
        }
    }
    !conn.peer.is_over()
}

/// Sends what a connection is to get, as far as the host is able to.
fn answer<C>(conn: &mut Conn<C>, mode: Trouble, out: &[u8]) {
    match mode {
        // A stream that has lost something stays silent: nothing comes without what stood before it.
        _ if conn.lost => {}
        Trouble::Mute => conn.lost = true,
        Trouble::HalfReplies if !out.is_empty() => {
            conn.peer.send(&out[..out.len() / 2]);
            conn.peer.shutdown();
            conn.lost = true;
        }
        _ => conn.peer.send(out),
    }
}

/// A server of its own.
pub(crate) struct Server {
    host: Host<ModelConn>,
    mind: One,
    /// What stands here before the keys of clients.
    pub(crate) namespace: &'static str,
    /// What it does not see of them.
    pub(crate) removed: Vec<u8>,
}

/// The mind of such a server.
struct One {
    model: Model,
    planter: Planter,
    /// Where it listens, if what it hears and says is printed.
    talks: Option<Address>,
}

impl Mind for One {
    type Conn = ModelConn;

    fn conn(&mut self, _host: usize) -> ModelConn {
        self.model.conn()
    }

    fn feed(
        &mut self,
        _host: usize,
        conn: &mut ModelConn,
        requests: &mut Requests,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> After {
        let Self { model, planter, talks } = self;
        if let Some(at) = talks {
            let after = model.feed(conn, bytes, out);
            println!("{at:?}, {}: {} -> {}", conn.id(), quote(bytes, 400), quote(out, 400));
            return after;
        }
        if planter.planted == Planted::Nothing {
            return model.feed(conn, bytes, out);
        }
        planter.feed(requests, bytes, "", out, &mut |raw, reply| model.feed(conn, raw, reply))
    }

    fn deliver(&mut self, conn: &mut ModelConn, out: &mut Vec<u8>) {
        self.model.deliver(conn, out);
        let planted = self.planter.planted;
        let word: &[u8] = match planted {
            Planted::LostMessage | Planted::DoubledMessage => b"\r\nmessage",
            Planted::LostChange => b"\r\ninvalidate",
            _ => return,
        };
        if !out.windows(word.len()).any(|part| part == word) {
            return;
        }
        self.planter.seen += 1;
        if self.planter.seen.is_multiple_of(3) {
            self.planter.hits += 1;
            match planted {
                Planted::LostMessage | Planted::LostChange => out.clear(),
                _ => out.extend_from_within(..),
            }
        }
    }

    fn leave(&mut self, conn: &ModelConn) {
        self.model.leave(conn);
    }
}

impl Server {
    /// A server that listens at `at`.
    pub(crate) fn new(net: &SimNet, at: Address, password: bool, planted: Planted) -> Self {
        let mut model = Model::new();
        if password {
            model.require_password(PASSWORD);
        }
        Self {
            host: Host::new(net, at),
            mind: One { model, planter: Planter::new(planted), talks: None },
            namespace: "",
            removed: Vec::new(),
        }
    }

    /// What it knows and did.
    pub(crate) fn model(&self) -> &Model {
        &self.mind.model
    }

    /// The same, to change what it is like.
    pub(crate) fn model_mut(&mut self) -> &mut Model {
        &mut self.mind.model
    }

    /// Prints from now on what it hears and says.
    pub(crate) fn talk(&mut self) {
        self.mind.talks = Some(self.at().clone());
    }

    /// Changes places with the model behind.
    pub(crate) fn swap_model(&mut self, other: &mut Model) {
        std::mem::swap(&mut self.mind.model, other);
    }

    /// How often the planted fault hit.
    pub(crate) fn hits(&self) -> u32 {
        self.mind.planter.hits
    }

    /// Its side of the network.
    pub(crate) fn host(&mut self) -> &mut Host<ModelConn> {
        &mut self.host
    }

    /// Connections that are open.
    pub(crate) fn open_conns(&self) -> usize {
        self.host.open_conns()
    }

    /// Where it listens.
    pub(crate) fn at(&self) -> &Address {
        self.host.at()
    }

    /// Does what can be done now.
    pub(crate) fn pump(&mut self) {
        self.host.pump(0, &mut self.mind);
        self.host.deliver(&mut self.mind);
    }

    /// It goes for good.
    pub(crate) fn close(&mut self) {
        self.host.close();
    }
}

/// Plants a fault among the requests that pass.
pub(crate) struct Planter {
    pub(crate) planted: Planted,
    /// How often it hit.
    pub(crate) hits: u32,
    /// Requests looked at, for choosing which one is hit.
    seen: u64,
    /// The writes of the transaction that stands in the packet looked at.
    inside: Vec<Vec<u8>>,
}

impl Planter {
    /// One that has planted nothing yet.
    pub(crate) fn new(planted: Planted) -> Self {
        Self { planted, hits: 0, seen: 0, inside: Vec::new() }
    }

    /// Splits the bytes into requests and has each of them done by `execute`, but for the one that is hit. `redirect` is what a node says
    /// that sends a request to where it already is, without its slot.
    pub(crate) fn feed(
        &mut self,
        requests: &mut Requests,
        bytes: &[u8],
        redirect: &str,
        out: &mut Vec<u8>,
        execute: &mut dyn FnMut(&[u8], &mut Vec<u8>) -> After,
    ) -> After {
        requests.push(bytes);
        self.inside.clear();
        let mut replies: Vec<Vec<u8>> = Vec::new();
        let mut after = After::Open;
        while let Ok(Some(frame)) = requests.pop() {
            let mut reply = Vec::new();
            after = self.one(&frame, redirect, &mut reply, execute);
            replies.push(reply);
        }
        if self.planted == Planted::SwappedReplies {
            self.swap_somewhere(&mut replies);
        }
        replies.iter().for_each(|reply| out.extend_from_slice(reply));
        after
    }

    fn one(
        &mut self,
        frame: &RequestFrame,
        redirect: &str,
        reply: &mut Vec<u8>,
        execute: &mut dyn FnMut(&[u8], &mut Vec<u8>) -> After,
    ) -> After {
        let RequestFrame { raw, args } = frame;
        let name = args.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        self.seen += 1;
        let turn = self.seen.is_multiple_of(7);
        match (self.planted, name.as_slice()) {
            (Planted::DroppedWrite, b"SET") if turn && args.len() == 3 => {
                self.hits += 1;
                reply.extend_from_slice(b"+OK\r\n");
                return After::Open;
            }
            (Planted::DoubledIncr, b"INCR") if turn => {
                self.hits += 1;
                let _ = execute(raw, &mut Vec::new());
            }
            (Planted::DoneThenMoved, b"SET" | b"INCR" | b"APPEND" | b"LPUSH") if turn => {
                let after = execute(raw, reply);
                let done = matches!(reply.first(), Some(b'+' | b':'));
                if done {
                    self.hits += 1;
                    let slot = testkit::model::key_slot(&args[1]);
                    *reply = format!("-MOVED {slot} {redirect}\r\n").into_bytes();
                }
                return after;
            }
            (Planted::ShownMoved, b"SET" | b"GET") if turn && args.len() > 1 => {
                self.hits += 1;
                let slot = testkit::model::key_slot(&args[1]);
                reply.extend_from_slice(format!("-moved {slot} {redirect}\r\n").as_bytes());
                return After::Open;
            }
            (Planted::TornTransaction, b"MULTI") => self.inside.clear(),
            (Planted::TornTransaction, b"APPEND" | b"LPUSH") => self.inside.push(raw.clone()),
            (Planted::TornTransaction, b"EXEC") if self.inside.len() > 1 => {
                self.hits += 1;
                let _ = execute(b"*1\r\n$7\r\nDISCARD\r\n", &mut Vec::new());
                let _ = execute(&self.inside[0], &mut Vec::new());
                reply.extend_from_slice(ABORTED);
                return After::Open;
            }
            (Planted::LostElement, b"BLPOP") => {
                let mut first = Vec::new();
                let after = execute(raw, &mut first);
                if !first.starts_with(b"*") {
                    // It waits, or has failed.
                    reply.extend(first);
                    return after;
                }
                self.hits += 1;
            }
            (Planted::SkippedInScan, b"SCAN") => {
                let after = execute(raw, reply);
                self.hits += u32::from(skip_one(reply));
                return after;
            }
            _ => {}
        }
        execute(raw, reply)
    }

    fn swap_somewhere(&mut self, replies: &mut [Vec<u8>]) {
        // Not the replies to the proxy's own commands, which are maps and arrays.
        let named = |reply: &Vec<u8>| {
            reply.starts_with(b"$") || reply.starts_with(b":") || reply.starts_with(b"+")
        };
        // Of two numbers nobody may know better: how many listen, how long a list is, what others made of a counter.
        let is_number = |reply: &Vec<u8>| match resp::value::parse(reply) {
            Ok(Some((resp::value::Value::Bulk(digits), _))) => {
                resp::number::parse_i64(digits).is_some()
            }
            _ => reply.starts_with(b":"),
        };
        let numbers = |pair: &[Vec<u8>]| pair.iter().all(is_number);
        let found = (1..replies.len()).find(|at| {
            let pair = &replies[at - 1..=*at];
            pair.iter().all(named) && pair[0] != pair[1] && !numbers(pair)
        });
        if let Some(at) = found {
            self.hits += 1;
            replies.swap(at - 1, at);
        }
    }
}

/// Takes the last key of a page of SCAN out; false if the page is empty.
fn skip_one(reply: &mut Vec<u8>) -> bool {
    let Ok(Some((resp::value::Value::Array(parts), _))) = resp::value::parse(reply) else {
        return false;
    };
    let [resp::value::Value::Bulk(cursor), resp::value::Value::Array(keys)] = parts.as_slice()
    else {
        return false;
    };
    let mut page = Vec::new();
    resp::encode::array(&mut page, 2);
    resp::encode::bulk(&mut page, cursor);
    resp::encode::array(&mut page, keys.len().saturating_sub(1));
    for key in keys.iter().take(keys.len().saturating_sub(1)) {
        if let resp::value::Value::Bulk(key) = key {
            resp::encode::bulk(&mut page, key);
        }
    }
    let skipped = !keys.is_empty();
    *reply = page;
    skipped
}
