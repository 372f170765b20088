//! Clients of the checker that listen: SUBSCRIBE on one connection, PUBLISH on another; each second pair of them SSUBSCRIBE and
//! SPUBLISH.
//!
//! Each client has a channel of its own and numbers what it publishes, so it knows what it may hear: its own messages only,
//! each at most once, in order. One whose PUBLISH got an error or no reply may come at any time, or never: a server that hung does it when it
//! goes on. A message that was acknowledged and does not come is a *gap*. Servers promise no delivery, so
//! a gap is no broken rule: it counts as a request without a reply, and whether there may have been any in that moment is for
//! the test to say.
//!
//! Invariant: numbers that were acknowledged and heard grow, over all connections of a client.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;

use super::seat::{Begun, Seat};
use super::{Checker, Rule, Verdict};
use crate::conn::Conn;
use crate::frames::{quote, request};
use crate::listen::frame;

/// Most messages in one packet.
const MESSAGES_MAX: u64 = 10;
/// How long a message may be on its way when its PUBLISH has been answered.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// A channel and what was heard from it.
#[derive(Clone, Debug)]
struct Channel {
    name: String,
    /// With which its messages begin.
    owner: String,
    /// `*`, or `>` in RESP3.
    sign: char,
    /// Whether it is a shard channel.
    shard: bool,
    /// How many were published, or may have been.
    made: u64,
    /// The greatest number that was heard.
    last: u64,
    /// All that were.
    heard: BTreeSet<u64>,
    /// Those that may have been published or not.
    unknown: BTreeSet<u64>,
}

impl Channel {
    fn message(&self, number: u64) -> Vec<u8> {
        let kind = if self.shard { "smessage" } else { "message" };
        frame(self.sign, &[kind, &self.name, &format!("{}#{number}", self.owner)]).into_bytes()
    }

    fn confirmation(&self) -> Vec<u8> {
        let kind = if self.shard { "ssubscribe" } else { "subscribe" };
        frame(self.sign, &[kind, &self.name, ":1"]).into_bytes()
    }

    /// The number of a message that was heard; or what is wrong with it.
    fn hear(&mut self, bytes: &[u8]) -> Result<u64, (Rule, String)> {
        let number = number_at_end(bytes)
            .filter(|number| *number <= self.made && self.message(*number) == bytes);
        let Some(number) = number else {
            let words = format!("{} heard {}", self.name, quote(bytes, 120));
            return Err((Rule::ForeignReply, words));
        };
        let again = !self.heard.insert(number);
        if number <= self.last && !again && self.unknown.contains(&number) {
            return Ok(number);
        }
        if number <= self.last {
            let how = if again { "again" } else { "too late" };
            let words = format!("{} heard message {number} {how}, behind {}", self.name, self.last);
            return Err((Rule::Replay, words));
        }
        self.last = number;
        Ok(number)
    }
}

/// The number behind the last `#` of a message.
fn number_at_end(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n")?;
    text.rsplit_once('#')?.1.parse().ok()
}

/// Whether this client has a shard channel. The protocol changes with each client, so this changes
/// with each second one.
pub(super) fn is_shard(number: u32) -> bool {
    number / 2 % 2 == 1
}

/// Runs one client to the end of the run or to its first violation.
pub(super) fn run(checker: &Checker, number: u32) -> Verdict {
    let seat = Seat::new(checker, number);
    let channel = Channel {
        name: checker.channel(number),
        owner: seat.owner.clone(),
        sign: if seat.resp3 { '>' } else { '*' },
        shard: is_shard(number),
        made: 0,
        last: 0,
        heard: BTreeSet::new(),
        unknown: BTreeSet::new(),
    };
    let rng = seat.rng();
    let mut client = Client { seat, rng, channel };
    let (mut publishes, mut listens) = (None, None);
    while client.seat.goes_on() {
        let begun = Instant::now();
        let Some(publisher) = publishes.take().or_else(|| client.seat.connect()) else { continue };
        let listener = match listens.take() {
            Some(listener) => Some(listener),
            None => client.subscribe(),
        };
        (publishes, listens) = match listener {
            Some(listener) => client.round(publisher, listener),
            None => (Some(publisher), None),
        };
        client.seat.pause(begun);
    }
    client.seat.verdict.keys_judged += u64::from(client.channel.last > 0);
    client.seat.verdict
}

struct Client<'a> {
    seat: Seat<'a>,
    rng: StdRng,
    channel: Channel,
}

impl Client<'_> {
    /// A connection whose subscription is confirmed.
    fn subscribe(&mut self) -> Option<Conn> {
        let mut conn = self.seat.connect()?;
        let verb = if self.channel.shard { "SSUBSCRIBE" } else { "SUBSCRIBE" };
        let begun = self.seat.begin(1);
        let sent = conn.send(&request(&[verb, &self.channel.name]));
        let reply = self.reply(&mut conn, &begun, sent);
        self.seat.end(&begun);
        match reply {
            Ok(reply) if reply == self.channel.confirmation() => Some(conn),
            Ok(reply) if !reply.starts_with(b"-") => {
                let words = format!("{verb} got {}", quote(&reply, 120));
                self.seat.violate(Rule::ForeignReply, words);
                None
            }
            Ok(_) => None,
            Err(error) => {
                self.seat.note_end(&error, 1);
                None
            }
        }
    }

    /// Publishes some messages and hears them. Connections come back if they can be used further.
    fn round(&mut self, mut publisher: Conn, listener: Conn) -> (Option<Conn>, Option<Conn>) {
        let first = self.channel.made + 1;
        self.channel.made += self.rng.random_range(1..=MESSAGES_MAX);
        let numbers = first..=self.channel.made;
        let verb = if self.channel.shard { "SPUBLISH" } else { "PUBLISH" };
        let text = |number| format!("{}#{number}", self.seat.owner);
        let requests: Vec<Vec<u8>> = numbers
            .clone()
            .map(|number| request(&[verb, &self.channel.name, &text(number)]))
            .collect();
        if self.seat.leaves() {
            // Who listens goes while it is spoken to.
            self.seat.verdict.requests += requests.len() as u64;
            self.channel.unknown.extend(numbers);
            let _ = publisher.send(&requests.concat());
            return (None, None);
        }
        let begun = self.seat.begin(requests.len());
        let mut fate = publisher.send(&requests.concat()).err();
        let mut awaited = Vec::new();
        for number in numbers {
            let sent = fate.take().map_or(Ok(()), Err);
            match self.reply(&mut publisher, &begun, sent) {
                Ok(reply) if reply.starts_with(b":") => awaited.push(number),
                Ok(reply) if reply.starts_with(b"-") => drop(self.channel.unknown.insert(number)),
                Ok(reply) => {
                    let words = format!("{verb} got {}", quote(&reply, 80));
                    self.seat.violate(Rule::ForeignReply, words);
                }
                Err(error) => {
                    self.channel.unknown.insert(number);
                    fate = Some(error);
                }
            }
        }
        let listener = self.listen(listener, &begun, awaited);
        self.seat.end(&begun);
        if let Some(error) = &fate {
            self.seat.note_end(error, requests.len());
        }
        (fate.is_none().then_some(publisher), listener)
    }

    /// Hears messages until the last of the awaited ones has come, or none can be expected any more.
    fn listen(&mut self, mut conn: Conn, begun: &Begun, mut awaited: Vec<u64>) -> Option<Conn> {
        // Half of what is left, so that the batch ends in time.
        let ends = Instant::now() + ON_ITS_WAY.min(self.seat.left(begun) / 2);
        let last = awaited.last().copied().unwrap_or_default();
        let mut lives = true;
        while lives && self.channel.last < last {
            conn.set_timeout(ends.saturating_duration_since(Instant::now()));
            match conn.reply() {
                Ok(bytes) => match self.channel.hear(&bytes) {
                    Ok(number) => awaited.retain(|awaited| *awaited != number),
                    Err((rule, words)) => {
                        self.seat.violate(rule, words);
                        lives = false;
                    }
                },
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => {
                    self.seat.note_end(&error, 0);
                    lives = false;
                }
            }
        }
        self.seat.verdict.unknown += awaited.len() as u64;
        lives.then_some(conn)
    }

    /// The next reply, counted, if what it answers was sent.
    fn reply(
        &mut self,
        conn: &mut Conn,
        begun: &Begun,
        sent: io::Result<()>,
    ) -> io::Result<Vec<u8>> {
        conn.set_timeout(self.seat.left(begun));
        let reply = sent.and_then(|()| conn.reply());
        match &reply {
            Ok(reply) if reply.starts_with(b"-") => self.seat.note_error(reply),
            Ok(_) => self.seat.verdict.answered += 1,
            // The end of a connection is told once, by the caller, whatever was in flight.
            Err(_) => self.seat.verdict.unknown += 1,
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::RedisServer;

    fn channel() -> Channel {
        let (name, owner) = ("c".to_owned(), "1:0".to_owned());
        Channel {
            name,
            owner,
            sign: '*',
            shard: false,
            made: 5,
            last: 0,
            heard: BTreeSet::new(),
            unknown: BTreeSet::from([4]),
        }
    }

    #[test]
    fn messages_of_its_own_channel_come_once_and_in_order() {
        let mut channel = channel();
        let said = |number| channel.message(number);
        let (one, three, six) = (said(1), said(3), said(6));
        let rule = |result: Result<u64, (Rule, String)>| result.map_err(|(rule, _)| rule);
        assert_eq!(rule(channel.hear(&one)), Ok(1));
        assert_eq!(rule(channel.hear(&one)), Err(Rule::Replay));
        assert_eq!(rule(channel.hear(&three)), Ok(3), "a gap is no broken rule");
        assert_eq!(rule(channel.hear(&said_by(2))), Err(Rule::Replay), "it comes too late");
        assert_eq!(rule(channel.hear(&said_by(5))), Ok(5));
        assert_eq!(rule(channel.hear(&said_by(4))), Ok(4), "nobody acknowledged it");
        assert_eq!(rule(channel.hear(&said_by(4))), Err(Rule::Replay), "but twice it may not come");
        assert_eq!(rule(channel.hear(&six)), Err(Rule::ForeignReply), "never published");
        for foreign in [
            frame('*', &["message", "d", "1:0#4"]),
            frame('*', &["message", "c", "1:1#4"]),
            frame('>', &["message", "c", "1:0#4"]),
            frame('*', &["smessage", "c", "1:0#4"]),
            "+OK\r\n".to_owned(),
        ] {
            assert_eq!(
                rule(channel.hear(foreign.as_bytes())),
                Err(Rule::ForeignReply),
                "{foreign}"
            );
        }
    }

    fn said_by(number: u64) -> Vec<u8> {
        channel().message(number)
    }

    // Somebody else speaks in a client's channel: once with words of its own, once with the client's.
    #[test]
    fn what_is_said_by_others_or_again_is_caught() {
        for (said, rule) in [("9:9#1", Rule::ForeignReply), ("1:0#1", Rule::Replay)] {
            let server = RedisServer::start();
            let mut checker = Checker::new(server.endpoint(), server.endpoint());
            (checker.work, checker.clients) = (super::super::Work::Subscribers, 1);
            checker.duration = Duration::from_secs(30);
            let verdict = std::thread::scope(|scope| {
                let run = scope.spawn(|| checker.run());
                let mut other = server.connect();
                while !run.is_finished() {
                    other.ask(&format!("PUBLISH {{1:0}}1:0:channel {said}"));
                    std::thread::sleep(Duration::from_millis(20));
                }
                run.join().expect("checker")
            });
            assert_eq!(verdict.first(), Some(rule), "{verdict}");
        }
    }
}
