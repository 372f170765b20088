//! A scripted client: when it speaks, in which pieces, how it reads, and how it goes.
//!
//! Not here: what it says and must hear (`script`).
//!
//! Invariant: a connection that ends before all replies are there is a failure, unless the client, its network, the plan or
//! the server's troubles explain it.

use engine::settings::OnLoss;
use netio::Address;
use netio::sim::{SimNet, SimPeer, SimRng};
use testkit::frames::Replies;

use crate::plan::{Kind, Plan, pick};
use crate::script::{Reply, Script};
use crate::world::Epochs;

/// How long a client waits for its connect, in microseconds.
const CONNECT_US: u64 = 10_000_000;

/// How a client ends its connection when it has said all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Not at all: it is closed by the drain.
    Stay,
    /// close(2), with all replies there.
    Close,
    /// Ends its stream behind the last request and reads on.
    HalfClose,
    /// QUIT, or something that is not the protocol.
    Farewell,
    /// A reset in the middle of its pipeline.
    Reset,
    /// Half a request, then a close, a reset or the end of the stream.
    HalfRequest,
    /// It has never read, and goes after a while.
    NeverReads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Talking,
    /// The last words are being sent.
    Leaving,
    /// All is said, the end of the connection is awaited.
    AwaitsEnd,
    Gone,
}

/// What a client needs to know of the world.
pub(crate) struct Around<'a> {
    /// The plan.
    pub(crate) plan: &'a Plan,
    /// Virtual time.
    pub(crate) now_us: u64,
    /// Upstreams may have failed lately.
    pub(crate) failing: bool,
    /// The workers drain: connections are closed, nobody begins anything.
    pub(crate) draining: bool,
    /// How often servers were replaced.
    pub(crate) epochs: Epochs,
    /// Addresses of other clients, for one that kills.
    pub(crate) victims: &'a [String],
}

impl Around<'_> {
    /// Whether a connection ends that waits for a server.
    pub(crate) fn may_be_lost(&self) -> bool {
        self.failing && self.plan.settings.on_upstream_loss == OnLoss::Close
    }
}

/// See the module.
pub(crate) struct Client {
    /// Its number in the world.
    pub(crate) number: usize,
    /// Its address, as the proxy sees it.
    pub(crate) addr: String,
    /// Somebody asked the proxy to close it.
    pub(crate) killed: bool,
    /// What it says.
    pub(crate) script: Script,
    peer: SimPeer,
    rng: SimRng,
    replies: Replies,
    state: State,
    ending: Ending,
    outgoing: Vec<u8>,
    sent: usize,
    piece_bytes_max: u64,
    gap_us: u64,
    think_us: u64,
    patient: bool,
    naps: bool,
    bursts_left: u64,
    is_admin: bool,
    /// It begins with a question that is answered in megabytes.
    floods: bool,
    /// Whom it asked to be killed, for the world to know.
    pub(crate) kills: Vec<String>,
    next_at_us: u64,
    /// Its times are multiples of this.
    grain_us: u64,
    /// When it stops waiting for its connect.
    gives_up_us: u64,
}

impl Client {
    /// A client of the plan that connects now.
    pub(crate) fn new(plan: &Plan, number: usize, net: &SimNet, to: &Address) -> Self {
        let rng = &mut SimRng::new(plan.seed.wrapping_mul(1_000_003) ^ number as u64);
        let unkind = plan.kind.clients_fail();
        let endings: &[Ending] = match unkind {
            true => &[
                Ending::Stay,
                Ending::Close,
                Ending::HalfClose,
                Ending::Farewell,
                Ending::Reset,
                Ending::HalfRequest,
                Ending::NeverReads,
            ],
            false => {
                &[Ending::Stay, Ending::Stay, Ending::Close, Ending::HalfClose, Ending::Farewell]
            }
        };
        let is_admin = plan.has_admin && number == 0;
        let floods = plan.floods && number == 1;
        let ending = match is_admin || plan.kind == Kind::Crowd {
            true => Ending::Stay,
            false => endings[rng.between(0, endings.len() as u64 - 1) as usize],
        };
        let ending = if floods { Ending::NeverReads } else { ending };
        let script = Script::new(plan, number, rng.next_u64());
        let peer = net.connect(to);
        let addr = peer.local();
        let small = plan.bytes_budget / plan.clients < 4_000;
        let pieces = if plan.kind == Kind::Crowd {
            1_000_000
        } else if small {
            pick(rng, &[1, 10, 1_000_000])
        } else {
            pick(rng, &[50, 3_000, 1_000_000])
        };
        Self {
            number,
            addr,
            killed: false,
            script,
            peer,
            rng: SimRng::new(rng.next_u64()),
            replies: Replies::default(),
            state: State::Talking,
            ending,
            outgoing: Vec::new(),
            sent: 0,
            piece_bytes_max: pieces,
            gap_us: pick(rng, &[10, 30, 2_000]),
            think_us: pick(rng, &[1, 200, 20_000]),
            patient: rng.chance(600_000),
            naps: rng.chance(200_000),
            bursts_left: rng.between(1, plan.bursts_max),
            is_admin,
            floods,
            kills: Vec::new(),
            grain_us: if plan.kind == Kind::Crowd { 5_000 } else { 1 },
            gives_up_us: net.now_us() + CONNECT_US,
            next_at_us: net.now_us()
                + if plan.kind == Kind::Crowd { 0 } else { rng.between(0, 5_000) },
        }
    }

    /// Whether it has said and heard all that it will, for now.
    pub(crate) fn is_at_rest(&self) -> bool {
        match self.state {
            State::Gone => true,
            State::Talking => {
                self.bursts_left == 0
                    && self.sent == self.outgoing.len()
                    && self.script.expected.is_empty()
                    && !self.script.has_page_due()
                    && self.ending == Ending::Stay
            }
            State::Leaving | State::AwaitsEnd => false,
        }
    }

    /// Whether its connection is over.
    pub(crate) fn is_gone(&self) -> bool {
        self.state == State::Gone
    }

    /// Whether it does not even read the end of its connection.
    pub(crate) fn never_reads(&self) -> bool {
        self.ending == Ending::NeverReads
    }

    /// When it next does something of its own accord.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        let waits = match self.state {
            State::Gone | State::AwaitsEnd => true,
            _ if !self.peer.is_connected() => return Some(self.gives_up_us),
            _ if self.sent < self.outgoing.len() => false,
            _ => self.is_at_rest() || self.waits_for_replies(),
        };
        (!waits).then_some(self.next_at_us)
    }

    /// One line for messages.
    pub(crate) fn describe(&self) -> String {
        let asked =
            self.script.expected.front().map_or("nothing", |expected| expected.asked.as_str());
        format!(
            "client {} ({}, {:?}, {:?}, {} bursts left) waits for {} replies, first to {asked}; {} of {} bytes said, {} unsent, {} unread",
            self.number,
            self.addr,
            self.state,
            self.ending,
            self.bursts_left,
            self.script.expected.len(),
            self.sent,
            self.outgoing.len(),
            self.peer.unsent(),
            self.peer.unread()
        )
    }

    /// Says a round of everything once more, if it is still there.
    pub(crate) fn check_up(&mut self, now_us: u64) {
        if self.state == State::Talking {
            let bytes = self.script.checkup();
            self.speak(bytes);
            self.next_at_us = now_us;
        }
    }

    /// Says no more.
    pub(crate) fn fall_silent(&mut self) {
        self.bursts_left = 0;
        if self.state == State::Talking {
            self.ending = Ending::Stay;
        }
    }

    /// Does what is to be done now.
    pub(crate) fn step(&mut self, around: &Around<'_>) -> Result<(), String> {
        if self.state == State::Gone {
            return Ok(());
        }
        self.script.epochs = around.epochs;
        self.listen(around).map_err(|why| format!("client {}: {why}", self.number))?;
        if self.peer.is_over() {
            return self.ended(around);
        }
        if !self.peer.is_connected() {
            if around.now_us < self.gives_up_us {
                return Ok(());
            }
            if around.plan.client_faults.connect_hangs_ppm == 0 {
                return Err(format!("no connect in {CONNECT_US} us: {}", self.describe()));
            }
            self.go();
            return Ok(());
        }
        if around.now_us < self.next_at_us {
            return Ok(());
        }
        if self.sent < self.outgoing.len() {
            self.send_piece(around.now_us);
            return Ok(());
        }
        match self.state {
            State::Talking if around.draining => {}
            State::Talking if self.waits_for_replies() => {}
            State::Talking if self.script.has_page_due() => {
                let mut bytes = Vec::new();
                self.script.next_page(&mut bytes);
                self.speak(bytes);
            }
            State::Talking if self.bursts_left > 0 => self.next_burst(around),
            State::Talking => self.leave(around),
            State::Leaving => self.last_word(around),
            State::AwaitsEnd | State::Gone => {}
        }
        Ok(())
    }

    fn waits_for_replies(&self) -> bool {
        let last = self.bursts_left == 0 && matches!(self.ending, Ending::Stay | Ending::Close);
        self.state == State::Talking
            && (self.patient || last || self.script.must_wait())
            && self.ending != Ending::NeverReads
            && !self.script.expected.is_empty()
    }

    fn listen(&mut self, around: &Around<'_>) -> Result<(), String> {
        let bytes = self.peer.received();
        if bytes.is_empty() {
            return Ok(());
        }
        self.replies.push(&bytes);
        while let Some(reply) = self.replies.pop()? {
            if around.plan.tight
                && self.script.expected.is_empty()
                && reply.starts_with(b"-ERR max number of clients")
            {
                continue;
            }
            let turned_away = around.plan.tight && reply.starts_with(b"-ERR max number of clients");
            if turned_away {
                self.script.abandon();
                continue;
            }
            let half = self.ending == Ending::HalfRequest && self.state != State::Talking;
            if half
                && around.failing
                && self.script.expected.is_empty()
                && self.script.is_failure(&reply)
            {
                // The upstream of the request that never ends failed.
                continue;
            }
            self.script.hear(&reply, around.failing)?;
        }
        Ok(())
    }

    /// The connection is over: is that right?
    fn ended(&mut self, around: &Around<'_>) -> Result<(), String> {
        let all_heard = self.script.expected.is_empty() && self.replies.rest().is_empty();
        // The network breaks a connection in place of a delivery; the end of the stream may be there before the reset.
        let by_network = around.plan.client_faults.reset_ppm > 0;
        let no_connect = self.peer.connect_error().is_some()
            && around.plan.client_faults.connect_refused_ppm > 0;
        let own = matches!(self.ending, Ending::HalfRequest | Ending::NeverReads | Ending::Reset);
        let cut =
            around.failing && (!self.replies.rest().is_empty() || self.script.waits_for_much());
        let said_all = self.sent == self.outgoing.len();
        let farewell = self.state == State::Leaving && self.ending == Ending::Farewell && said_all;
        let expects_end = (self.state == State::AwaitsEnd || farewell) && all_heard;
        let right = expects_end
            || by_network
            || no_connect
            || own
            || cut
            || around.may_be_lost()
            || self.killed
            || around.draining
            || around.plan.tight;
        if !right {
            return Err(format!("its connection ended without a reason: {}", self.describe()));
        }
        self.go();
        Ok(())
    }

    fn go(&mut self) {
        self.peer.close();
        self.script.abandon();
        self.state = State::Gone;
        self.outgoing = Vec::new();
        self.sent = 0;
    }

    fn speak(&mut self, bytes: Vec<u8>) {
        self.outgoing.drain(..self.sent);
        self.sent = 0;
        self.outgoing.extend(bytes);
    }

    fn send_piece(&mut self, now_us: u64) {
        let left = self.outgoing.len() - self.sent;
        let count = left.min(self.rng.between(1, self.piece_bytes_max) as usize);
        self.peer.send(&self.outgoing[self.sent..self.sent + count]);
        self.sent += count;
        let more = self.sent < self.outgoing.len();
        let wait_us = if more {
            self.rng.between(1, self.gap_us)
        } else {
            self.rng.between(0, self.think_us)
        };
        // In a crowd many speak at the same moment, as on a busy proxy; each at its own would be a turn for each.
        self.next_at_us = (now_us + wait_us).next_multiple_of(self.grain_us);
    }

    fn next_burst(&mut self, around: &Around<'_>) {
        self.bursts_left -= 1;
        if self.naps && self.rng.chance(300_000) {
            let nap_us = self.rng.between(100, 100_000);
            self.peer.stall(nap_us);
        }
        if self.ending == Ending::NeverReads {
            self.peer.pause_reading(true);
        }
        let mut bytes = match std::mem::take(&mut self.floods) {
            true => self.script.flood(),
            false => self.script.burst(),
        };
        if self.is_admin && !self.script.must_wait() {
            self.administer(around, &mut bytes);
        }
        self.speak(bytes);
        self.next_at_us = around.now_us;
    }

    /// Questions that concern everybody.
    fn administer(&mut self, around: &Around<'_>, out: &mut Vec<u8>) {
        match self.rng.between(0, 4) {
            0 if !around.victims.is_empty() => {
                let at = self.rng.between(0, around.victims.len() as u64 - 1) as usize;
                let victim = around.victims[at].clone();
                self.script.ask_proxy(out, &["CLIENT", "KILL", "ADDR", &victim], Reply::Integer);
                self.kills.push(victim);
            }
            1 => {
                let ms = pick(&mut self.rng, &[0, 1, 20, 100]).to_string();
                let mode = if self.rng.chance(500_000) { "WRITE" } else { "ALL" };
                self.script.ask_proxy(out, &["CLIENT", "PAUSE", &ms, mode], Reply::Done);
            }
            2 => self.script.ask_proxy(out, &["CLIENT", "UNPAUSE"], Reply::Done),
            3 => self.script.ask_about(out, &["INFO", "all"]),
            _ => self.script.ask_about(out, &["CLIENT", "LIST"]),
        }
    }

    /// All bursts are said.
    fn leave(&mut self, around: &Around<'_>) {
        let bytes = match self.ending {
            Ending::Stay => return,
            Ending::Close => return self.go(),
            Ending::HalfClose | Ending::Reset => self.script.burst(),
            Ending::Farewell => {
                let mut bytes = self.script.burst();
                bytes.extend(self.script.farewell());
                bytes
            }
            Ending::HalfRequest => {
                let mut bytes = self.script.burst();
                bytes.extend(self.script.half_request());
                bytes
            }
            Ending::NeverReads => Vec::new(),
        };
        self.speak(bytes);
        self.state = State::Leaving;
        self.next_at_us =
            around.now_us + if self.ending == Ending::NeverReads { 2_000_000 } else { 0 };
    }

    /// The last words are sent.
    fn last_word(&mut self, around: &Around<'_>) {
        match self.ending {
            Ending::HalfClose => self.peer.shutdown(),
            Ending::Reset => {
                self.peer.reset();
                return self.go();
            }
            Ending::HalfRequest if self.rng.chance(300_000) => self.peer.shutdown(),
            Ending::HalfRequest if self.rng.chance(500_000) => {
                self.peer.reset();
                return self.go();
            }
            Ending::HalfRequest => return self.go(),
            Ending::NeverReads => {
                if self.rng.chance(500_000) {
                    self.peer.reset();
                }
                return self.go();
            }
            Ending::Farewell | Ending::Stay | Ending::Close => {}
        }
        self.state = State::AwaitsEnd;
        self.next_at_us = around.now_us;
    }
}
