//! The two ends of a story: what a client and what the server does, sees, and is found to have seen.
//!
//! Every word that does something runs a turn before it returns, unless it says otherwise; every word that looks at something
//! takes it away, so that a second look finds only what is new.
//!
//! Not here: the network between them and the turn itself ([`super::Story`]).
//!
//! Invariant: `gets` compares all that arrived; what a story does not mention did not happen.

// Words chain by value, also those that only look: `client.gets(…).is_open()`.
#![allow(clippy::wrong_self_convention)]

use super::{Conn, Peer, Story, Words, request, shown, wire};
use engine::upstream::UpstreamKey;

impl Story {
    /// The number of the connection on which this request is the first one that the story has not looked at.
    #[track_caller]
    pub(crate) fn conn_with(&mut self, line: &str) -> usize {
        let conns: Vec<usize> = (1..=self.connects_made()).collect();
        let conn = conns.into_iter().find(|conn| self.conn(*conn).is_next(line));
        conn.unwrap_or_else(|| panic!("{line} did not arrive"))
    }

    /// The open connections of this lane.
    pub(crate) fn conns_of(&mut self, lane: &str) -> Vec<usize> {
        let conns: Vec<usize> = (1..=self.connects_made()).collect();
        let is_of = |conn: &usize| self.conn(*conn).is_of_lane(lane);
        conns.into_iter().filter(is_of).collect()
    }

    /// The connection that gets one of these lines next.
    pub(crate) fn conn_with_any<const N: usize>(&mut self, lines: [&str; N]) -> usize {
        let conns: Vec<usize> = (1..=self.connects_made()).collect();
        let gets_one = |conn: &usize| lines.iter().any(|line| self.conn(*conn).is_next(line));
        let conn = conns.into_iter().find(gets_one);
        conn.unwrap_or_else(|| panic!("none of {lines:?} arrived"))
    }
}

/// What a client does and sees.
pub(crate) struct ClientWords<'a> {
    story: &'a mut Story,
    name: String,
}

impl<'a> ClientWords<'a> {
    pub(super) fn new(story: &'a mut Story, name: &str) -> Self {
        Self { story, name: name.to_string() }
    }

    fn peer(&mut self) -> &mut Peer {
        self.story.peers.get_mut(&self.name).expect("opened by `Story::client`")
    }

    /// Sends one request, or several in one packet.
    pub(crate) fn says(self, lines: impl Words) -> Self {
        let bytes: Vec<u8> = lines.each().into_iter().flat_map(request).collect();
        self.sends(&bytes)
    }

    /// Sends these bytes.
    pub(crate) fn sends(mut self, bytes: &[u8]) -> Self {
        self.peer().unread.push(bytes);
        self.story.turn();
        self
    }

    /// Sends these bytes without a turn in between: they arrive together with what others send.
    pub(crate) fn sends_at_once(mut self, bytes: &[u8]) -> Self {
        self.peer().unread.push(bytes);
        self
    }

    /// What arrived since it was last asked is exactly this.
    #[track_caller]
    pub(crate) fn gets(mut self, replies: impl Words) -> Self {
        let wanted: Vec<u8> = replies.each().into_iter().flat_map(wire).collect();
        let got = self.takes();
        assert!(
            got == wanted,
            "{} got\n  {}\nand not\n  {}",
            self.name,
            shown(&got),
            shown(&wanted)
        );
        self
    }

    /// Nothing arrived.
    #[track_caller]
    pub(crate) fn gets_nothing(self) -> Self {
        let none: [&str; 0] = [];
        self.gets(none)
    }

    /// Takes what arrived.
    pub(crate) fn takes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.peer().got)
    }

    /// Takes what arrived, as text.
    pub(crate) fn takes_text(&mut self) -> String {
        String::from_utf8_lossy(&self.takes()).into_owned()
    }

    /// Its socket is full from now on.
    pub(crate) fn stops_taking(mut self) -> Self {
        self.peer().blocked = true;
        self
    }

    /// One send that was stuck went out; the socket is full again.
    pub(crate) fn takes_one_send(mut self) -> Self {
        self.finish_flight();
        self.story.turn();
        self
    }

    /// Its socket has room again.
    pub(crate) fn takes_all(mut self) -> Self {
        self.peer().blocked = false;
        self.finish_flight();
        self.story.turn();
        self
    }

    fn finish_flight(&mut self) {
        let now = self.story.now;
        let peer = self.peer();
        let (Some(id), Some(buf)) = (peer.id, peer.flight.take()) else { return };
        peer.got.extend_from_slice(&buf);
        self.story.engine.handle_client_sent(now, id, buf);
        self.story.engine.mark_client_dirty(id);
    }

    /// Sends no more.
    pub(crate) fn ends(mut self) -> Self {
        self.peer().says_eof = true;
        self.story.turn();
        self
    }

    /// Its connection breaks.
    pub(crate) fn dies(mut self) {
        let now = self.story.now;
        if let Some(id) = self.peer().id.take() {
            self.story.engine.handle_client_closed(now, id);
        }
        self.story.turn();
    }

    /// The proxy closed it.
    #[track_caller]
    pub(crate) fn is_closed(mut self) -> Self {
        assert!(self.peer().id.is_none(), "{} is still open", self.name);
        self
    }

    /// It did not.
    #[track_caller]
    pub(crate) fn is_open(mut self) -> Self {
        assert!(self.peer().id.is_some(), "{} is closed", self.name);
        self
    }

    /// The proxy reads from it.
    #[track_caller]
    pub(crate) fn is_read(mut self) -> Self {
        assert!(self.peer().reading, "{} is not read", self.name);
        self
    }

    /// The proxy does not read from it.
    #[track_caller]
    pub(crate) fn is_not_read(mut self) -> Self {
        assert!(!self.peer().reading, "{} is read", self.name);
        self
    }

    /// Bytes it sent that the proxy has not read.
    pub(crate) fn unread(&mut self) -> usize {
        self.peer().unread.len()
    }

    /// Number of writes that it got.
    pub(crate) fn sends_seen(&mut self) -> usize {
        self.peer().sends
    }
}

/// What the server does and sees on one connection.
pub(crate) struct ServerWords<'a> {
    story: &'a mut Story,
    index: usize,
}

impl<'a> ServerWords<'a> {
    pub(super) fn new(story: &'a mut Story, index: usize) -> Self {
        Self { story, index }
    }

    fn conn(&mut self) -> &mut Conn {
        &mut self.story.conns[self.index]
    }

    /// The next requests that arrived are these.
    #[track_caller]
    pub(crate) fn gets(mut self, lines: impl Words) -> Self {
        for line in lines.each() {
            let got = self.conn().requests.pop_front();
            self.conn().owed += 1;
            assert_eq!(got.as_deref(), Some(line), "on connection {}", self.index + 1);
        }
        self
    }

    /// No request arrived that was not looked at.
    #[track_caller]
    pub(crate) fn gets_nothing(mut self) -> Self {
        let requests = &self.conn().requests;
        assert!(requests.is_empty(), "{requests:?}");
        self
    }

    /// The next request that arrived, whatever it is; `None` if there is none.
    pub(crate) fn takes_one(&mut self) -> Option<String> {
        let conn = self.conn();
        let line = conn.requests.pop_front()?;
        conn.owed += 1;
        Some(line)
    }

    /// The next request is looked at, whatever it is, and answered with OK.
    pub(crate) fn gets_large_and_answers(mut self) {
        assert!(self.takes_one().is_some_and(|line| line.starts_with("SET big xxx")));
        self.answers("+OK");
    }

    /// The next request is looked at, whatever it is; its last argument. It must be the last one that arrived.
    #[track_caller]
    pub(crate) fn takes_last_argument(&mut self) -> Vec<u8> {
        assert_eq!(self.waiting(), 1);
        self.takes_one();
        self.conn().last_arg.clone()
    }

    /// How many requests that were not looked at stand before this one.
    #[track_caller]
    pub(crate) fn position(&mut self, line: &str) -> usize {
        let found = self.conn().requests.iter().position(|request| request == line);
        found.unwrap_or_else(|| panic!("{line} did not arrive"))
    }

    /// Whether this is the first request that was not looked at.
    pub(crate) fn is_next(&mut self, line: &str) -> bool {
        self.conn().requests.front().is_some_and(|request| request == line)
    }

    /// Whether it is open and of this lane.
    fn is_of_lane(&mut self, lane: &str) -> bool {
        let conn = self.conn();
        conn.open && format!("{:?}", conn.key.lane) == lane
    }

    /// How many whole requests arrived and were not looked at.
    pub(crate) fn waiting(&mut self) -> usize {
        self.conn().requests.len()
    }

    /// Looks at all that arrived.
    pub(crate) fn takes_requests(&mut self) -> usize {
        let conn = self.conn();
        let count = conn.requests.drain(..).count();
        conn.owed += count;
        count
    }

    /// Sends one reply, or several in one packet.
    pub(crate) fn answers(self, replies: impl Words) -> Self {
        let bytes: Vec<u8> = replies.each().into_iter().flat_map(wire).collect();
        self.sends(&bytes)
    }

    /// Sends these bytes.
    #[track_caller]
    pub(crate) fn sends(self, bytes: &[u8]) -> Self {
        let this = self.sends_at_once(bytes);
        this.story.turn();
        this
    }

    /// The next delimiter that arrived, which the server does not answer by itself.
    #[track_caller]
    pub(crate) fn takes_delimiter(&mut self) -> String {
        self.conn().delimiters.pop_front().expect("a delimiter").1
    }

    /// No delimiter arrived that is not answered.
    #[track_caller]
    pub(crate) fn gets_no_delimiter(mut self) -> Self {
        assert!(self.conn().delimiters.is_empty());
        self
    }

    /// Sends these bytes, which are read in the next turn.
    #[track_caller]
    pub(crate) fn sends_at_once(mut self, bytes: &[u8]) -> Self {
        let conn = self.conn();
        assert!(conn.open, "the connection is closed");
        let bytes = conn.with_delimiters(bytes);
        conn.unread.push(&bytes);
        self
    }

    /// Sends these bytes, which are read at once, and nothing else happens yet.
    #[track_caller]
    pub(crate) fn is_read_at_once(mut self, bytes: &[u8]) {
        let (now, id) = (self.story.now, self.conn().id);
        self.story.engine.handle_upstream_bytes(now, id, bytes);
    }

    /// The connection breaks behind these bytes, in the turn in which they come.
    #[track_caller]
    pub(crate) fn sends_and_dies(mut self, bytes: &[u8], cause: &str) {
        let (now, id) = (self.story.now, self.conn().id);
        self.story.engine.handle_upstream_bytes(now, id, bytes);
        self.dies(cause);
    }

    /// The connection breaks.
    #[track_caller]
    pub(crate) fn dies(mut self, cause: &str) {
        let now = self.story.now;
        let conn = self.conn();
        assert!(std::mem::take(&mut conn.open), "the connection is closed");
        let id = conn.id;
        self.story.engine.handle_upstream_closed(now, id, cause);
        self.story.turn();
    }

    /// Takes no more bytes.
    pub(crate) fn stops_taking(mut self) -> Self {
        self.conn().blocked = true;
        self
    }

    /// Takes bytes again.
    pub(crate) fn takes_all(self) -> Self {
        let this = self.takes_again();
        this.story.turn();
        this
    }

    /// Takes bytes again from the next turn on.
    pub(crate) fn takes_again(mut self) -> Self {
        let now = self.story.now;
        let conn = self.conn();
        conn.blocked = false;
        let (id, flight) = (conn.id, conn.flight.take());
        if let Some(buf) = flight {
            self.story.engine.handle_upstream_sent(now, id, buf);
            self.story.engine.mark_upstream_dirty(id);
        }
        self
    }

    /// Its server's name leads elsewhere from now on.
    pub(crate) fn has_moved(mut self) -> Self {
        let id = self.conn().id;
        self.story.engine.handle_upstream_moved(id);
        self.story.turn();
        self
    }

    /// The proxy closed it, or it broke.
    #[track_caller]
    pub(crate) fn is_closed(mut self) -> Self {
        assert!(!self.conn().open, "connection {} is open", self.index + 1);
        self
    }

    /// It is open.
    #[track_caller]
    pub(crate) fn is_open(mut self) -> Self {
        assert!(self.conn().open, "connection {} is closed", self.index + 1);
        self
    }

    /// The proxy reads from it.
    #[track_caller]
    pub(crate) fn is_read(mut self) -> Self {
        assert!(self.conn().reading, "connection {} is not read", self.index + 1);
        self
    }

    /// The proxy does not read from it.
    #[track_caller]
    pub(crate) fn is_not_read(mut self) -> Self {
        assert!(!self.conn().reading, "connection {} is read", self.index + 1);
        self
    }

    /// Number of writes that arrived.
    pub(crate) fn writes(&mut self) -> usize {
        self.conn().writes
    }

    /// Bytes that arrived.
    pub(crate) fn bytes(&mut self) -> usize {
        self.conn().bytes
    }

    /// Bytes of a request that has not arrived whole.
    pub(crate) fn bytes_of_unfinished(&mut self) -> usize {
        self.conn().inbox.len()
    }

    /// Bytes it sent that the proxy has not read.
    pub(crate) fn unread(&mut self) -> usize {
        self.conn().unread.len()
    }

    /// Protocol, database and lane of the connection.
    pub(crate) fn key(&mut self) -> UpstreamKey {
        self.conn().key
    }
}
