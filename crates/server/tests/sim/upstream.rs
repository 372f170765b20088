//! The server behind: the model, its connections in the simulated network, and what is done to it.
//!
//! Requests are given to the model one by one, so that a planted fault ([`Planted`]) can hit one of them: that is how the
//! judge itself is proved.
//!
//! Invariant: unless a fault is planted, every byte goes through the model untouched and in order.

use netio::Address;
use netio::sim::{SimListener, SimNet, SimPeer};
use testkit::frames::Requests;
use testkit::model::After;
use testkit::{Model, ModelConn};

use crate::plan::{PASSWORD, Trouble};

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
}

/// See the module.
pub(crate) struct Server {
    net: SimNet,
    at: Address,
    listener: Option<SimListener>,
    /// What it knows and did.
    pub(crate) model: Model,
    conns: Vec<Conn>,
    mode: Trouble,
    planted: Planted,
    /// How often the planted fault hit.
    pub(crate) hits: u32,
    /// Requests looked at, for choosing which one is hit.
    seen: u64,
}

struct Conn {
    peer: SimPeer,
    state: ModelConn,
    requests: Requests,
    /// Replies that a mute server keeps to itself are lost for good: after them nothing may be answered any more.
    lost: bool,
}

impl Server {
    /// A server that listens at `at`.
    pub(crate) fn new(net: &SimNet, at: Address, password: bool, planted: Planted) -> Self {
        let mut model = Model::new();
        if password {
            model.require_password(PASSWORD);
        }
        let listener = Some(net.listen(&at));
        let mode = Trouble::Well;
        Self {
            net: net.clone(),
            at,
            listener,
            model,
            conns: Vec::new(),
            mode,
            planted,
            hits: 0,
            seen: 0,
        }
    }

    /// Something happens to it.
    pub(crate) fn suffer(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Dead => {
                self.listener = None;
                self.conns.drain(..).for_each(|conn| conn.peer.reset());
            }
            Trouble::Reset => {
                self.net.reset_all_to(&self.at);
                return;
            }
            Trouble::Full => self.conns.clear(),
            Trouble::Well if self.listener.is_none() => {
                self.listener = Some(self.net.listen(&self.at));
            }
            Trouble::Well | Trouble::Frozen | Trouble::Mute | Trouble::HalfReplies => {}
        }
        self.mode = trouble;
    }

    /// It goes for good.
    pub(crate) fn close(&mut self) {
        self.conns.clear();
        self.listener = None;
    }

    /// Connections that are open.
    pub(crate) fn open_conns(&self) -> usize {
        self.conns.len()
    }

    /// Does what can be done now.
    pub(crate) fn pump(&mut self) {
        while let Some(peer) = self.listener.as_ref().and_then(SimListener::accept) {
            if self.mode == Trouble::Full {
                peer.send(FULL);
                peer.shutdown();
                // Kept until the other side has it; it never executes anything.
                let state = self.model.conn();
                self.conns.push(Conn { peer, state, requests: Requests::default(), lost: true });
                continue;
            }
            let state = self.model.conn();
            self.conns.push(Conn { peer, state, requests: Requests::default(), lost: false });
        }
        if self.mode == Trouble::Frozen {
            return;
        }
        let mut conns = std::mem::take(&mut self.conns);
        conns.retain_mut(|conn| self.serve(conn));
        self.conns = conns;
    }

    /// False when the connection is over.
    fn serve(&mut self, conn: &mut Conn) -> bool {
        let bytes = conn.peer.received();
        let refuses = conn.lost && self.mode == Trouble::Full;
        if !bytes.is_empty() && !refuses {
            let mut out = Vec::new();
            let after = self.execute(conn, &bytes, &mut out);
            match self.mode {
                Trouble::Mute => conn.lost = true,
                Trouble::HalfReplies if !out.is_empty() => {
                    conn.peer.send(&out[..out.len() / 2]);
                    conn.peer.shutdown();
                    conn.lost = true;
                }
                _ if conn.lost => {}
                _ => conn.peer.send(&out),
            }
            if after == After::Close {
                conn.peer.shutdown();
            }
        }
        !conn.peer.is_over()
    }

    fn execute(&mut self, conn: &mut Conn, bytes: &[u8], out: &mut Vec<u8>) -> After {
        if self.planted == Planted::Nothing {
            return self.model.feed(&mut conn.state, bytes, out);
        }
        conn.requests.push(bytes);
        let mut replies: Vec<Vec<u8>> = Vec::new();
        let mut after = After::Open;
        while let Ok(Some(frame)) = conn.requests.pop() {
            let mut reply = Vec::new();
            after = self.one(conn, &frame.raw, &frame.args, &mut reply);
            replies.push(reply);
        }
        if self.planted == Planted::SwappedReplies {
            self.swap_somewhere(&mut replies);
        }
        replies.iter().for_each(|reply| out.extend_from_slice(reply));
        after
    }

    fn one(&mut self, conn: &mut Conn, raw: &[u8], args: &[Vec<u8>], reply: &mut Vec<u8>) -> After {
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
                let _ = self.model.feed(&mut conn.state, raw, &mut Vec::new());
            }
            _ => {}
        }
        self.model.feed(&mut conn.state, raw, reply)
    }

    fn swap_somewhere(&mut self, replies: &mut [Vec<u8>]) {
        // Not the replies to the proxy's own commands, which are maps and arrays.
        let named = |reply: &Vec<u8>| {
            reply.starts_with(b"$") || reply.starts_with(b":") || reply.starts_with(b"+")
        };
        let found = (1..replies.len()).find(|at| {
            named(&replies[at - 1]) && named(&replies[*at]) && replies[at - 1] != replies[*at]
        });
        if let Some(at) = found {
            self.hits += 1;
            replies.swap(at - 1, at);
        }
    }
}
