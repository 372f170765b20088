//! Errors that clients got: by their first word, as Redis' errorstats, and those of the proxy itself by cause.
//!
//! The texts of the proxy's own errors stand in `reject`; what they are about is told from the text, so that no place that refuses something
//! has to say it twice. Errors are rare, so nothing here is on the path of a request that succeeds.
//!
//! Invariant: at most [`ERROR_KINDS_MAX`] words are told apart, whatever servers and scripts say; all others are [`OTHER`].

use crate::limits::ERROR_KINDS_MAX;
use alloc::vec::Vec;

/// Under this name errors are counted for which there was no room, or whose first word is none.
pub const OTHER: &str = "other";

/// Longest word that is told apart.
const WORD_BYTES_MAX: usize = 32;

/// How often each kind of error came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorKinds {
    /// By the word; sorted.
    kinds: Vec<(Vec<u8>, u64)>,
    other: u64,
    /// Those of one kind once more, which are looked at all the time.
    busy: u64,
}

impl ErrorKinds {
    /// This error reply came so often: `-WRONGTYPE Operation against …`.
    #[cold]
    pub fn note(&mut self, reply: &[u8], count: u64) {
        self.add_word(first_word(reply), count);
    }

    fn add_word(&mut self, word: &[u8], count: u64) {
        let tells = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_word = (1..=WORD_BYTES_MAX).contains(&word.len()) && word.iter().all(tells);
        match self.kinds.binary_search_by(|(kind, _)| kind.as_slice().cmp(word)) {
            Ok(at) => self.kinds[at].1 += count,
            Err(at) if is_word && self.kinds.len() < ERROR_KINDS_MAX => {
                self.kinds.insert(at, (word.to_vec(), count));
            }
            Err(_) => self.other += count,
        }
    }

    /// A server answered a command that runs no script itself: with `-BUSY …` if it is busy with somebody's script.
    pub(crate) fn note_server(&mut self, reply: &[u8]) {
        self.busy += u64::from(first_word(reply) == b"BUSY");
    }

    /// How often a server said that it is busy with a script.
    #[inline]
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        for (word, count) in &other.kinds {
            self.add_word(word, *count);
        }
        self.other += other.other;
        self.busy += other.busy;
    }

    /// Each word with its count, in the order of the alphabet, then [`OTHER`] if there is any.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        // A word has but letters, digits, `_` and `-`.
        let word = |word| core::str::from_utf8(word).unwrap_or(OTHER);
        let kinds = self.kinds.iter().map(move |(kind, count)| (word(kind), *count));
        kinds.chain((self.other > 0).then_some((OTHER, self.other)))
    }
}

/// The word that says of which kind an error is; of a longer one so much that it is none that is counted by itself.
pub(super) fn first_word(reply: &[u8]) -> &[u8] {
    let text = reply.strip_prefix(b"-").unwrap_or(reply);
    let text = &text[..text.len().min(WORD_BYTES_MAX + 1)];
    text.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).next().unwrap_or_default()
}

/// What an error of the proxy itself is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server cannot be reached, or the connection to it broke.
    Upstream,
    /// The server gave no reply in time.
    Timeout,
    /// Nobody is known to have the key, or servers sent the request on for too long.
    NoOwner,
    /// What the client sent is not the protocol.
    Protocol,
    /// The client did not say the password, or said a wrong one.
    Auth,
    /// A bound of the configuration was reached.
    Limit,
    /// The keys lie on several servers and the command cannot be split.
    CrossSlot,
    /// The proxy does not do it, or not there: between MULTI and EXEC, say.
    Refused,
    /// The request is wrong: an unknown command, a wrong number of arguments, a value that is none.
    Request,
}

/// Number of causes.
pub const CAUSES: usize = Cause::ALL.len();

/// How texts of the proxy begin, and what they are about; the first that fits. What begins otherwise is a mistake in the request.
const BEGINNINGS: [(&str, Cause); 23] = [
    ("ERR respool: upstream ", Cause::Upstream),
    ("ERR respool: the operator ", Cause::Refused),
    ("READONLY ", Cause::Refused),
    ("ERR respool: the primary is not known", Cause::NoOwner),
    ("ERR respool: given up after", Cause::NoOwner),
    ("ERR respool: no replica is fit", Cause::NoOwner),
    ("CLUSTERDOWN", Cause::NoOwner),
    ("ERR respool: no upstream connection free", Cause::Limit),
    ("ERR respool: no connection of its own became free", Cause::Limit),
    ("ERR respool: with CLIENT TRACKING NOLOOP", Cause::Limit),
    ("ERR respool: clients listen to so many", Cause::Limit),
    ("ERR respool: a client may listen to", Cause::Limit),
    ("ERR respool: the replies of the nodes are too large", Cause::Limit),
    ("ERR respool: too m", Cause::Limit),
    ("ERR respool: this request is too large", Cause::Limit),
    (
        "ERR respool: this command is answered by the proxy and its arguments are too large",
        Cause::Limit,
    ),
    ("ERR max number of clients", Cause::Limit),
    ("ERR respool: the server gave no confirmation", Cause::Timeout),
    ("ERR respool:", Cause::Refused),
    ("ERR Protocol error", Cause::Protocol),
    ("NOAUTH", Cause::Auth),
    ("WRONGPASS", Cause::Auth),
    ("CROSSSLOT", Cause::CrossSlot),
];

impl Cause {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 9] = [
        Self::Upstream,
        Self::Timeout,
        Self::NoOwner,
        Self::Protocol,
        Self::Auth,
        Self::Limit,
        Self::CrossSlot,
        Self::Refused,
        Self::Request,
    ];

    /// How INFO and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Timeout => "timeout",
            Self::NoOwner => "no_owner",
            Self::Protocol => "protocol",
            Self::Auth => "auth",
            Self::Limit => "limit",
            Self::CrossSlot => "cross_slot",
            Self::Refused => "refused",
            Self::Request => "request",
        }
    }

    /// What an error reply of the proxy is about.
    #[cold]
    pub fn of(reply: &[u8]) -> Self {
        let text = reply.strip_prefix(b"-").unwrap_or(reply);
        let begins = |(begin, _): &&(&str, Self)| text.starts_with(begin.as_bytes());
        let cause = BEGINNINGS.iter().find(begins).map_or(Self::Request, |(_, cause)| *cause);
        let is_late = || LATE.iter().any(|late| text.windows(late.len()).any(|at| at == *late));
        match cause {
            Self::Upstream if is_late() => Self::Timeout,
            cause => cause,
        }
    }
}

/// What stands behind the name of a server that took too long (`timers`).
const LATE: [&[u8]; 3] =
    [b": gave no reply for", b": connect: timed out", b": the greeting timed out"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reject;
    use alloc::format;

    #[test]
    fn errors_are_counted_by_their_first_word_and_only_so_many() {
        let mut kinds = ErrorKinds::default();
        kinds.note(b"-WRONGTYPE Operation against a key\r\n", 1);
        kinds.note(b"-ERR no\r\n", 2);
        kinds.note(b"-NOAUTH\r\n", 1);
        kinds.note(b"-ERR other\r\n", 1);
        for odd in ["-\r\n", "- x\r\n", "-my;word no\r\n", "-a:b\r\n"] {
            kinds.note(odd.as_bytes(), 1);
        }
        kinds.note(&[&b"-"[..], &[b'A'; 33], b"\r\n"].concat(), 1);
        let seen: Vec<_> = kinds.iter().collect();
        assert_eq!(seen, [("ERR", 3), ("NOAUTH", 1), ("WRONGTYPE", 1), (OTHER, 5)]);
        for number in 0..100 {
            kinds.note(format!("-KIND{number:03} x\r\n").as_bytes(), 1);
        }
        assert_eq!(kinds.iter().count(), ERROR_KINDS_MAX + 1);
        let mut sum = kinds.clone();
        sum.add(&kinds);
        let total = |kinds: &ErrorKinds| kinds.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!((total(&kinds), total(&sum)), (110, 220));
    }

    #[test]
    fn each_text_of_the_proxy_has_its_cause() {
        let mut unknown = Vec::new();
        reject::unknown_command(&mut unknown, b"nope", core::iter::empty());
        for (text, cause) in [
            (reject::node("h:1", "connect: Connection refused"), Cause::Upstream),
            (reject::node("h:1", "closed the connection"), Cause::Upstream),
            (
                reject::node("h:1", "gave no reply for 5 ms, its connection was closed"),
                Cause::Timeout,
            ),
            (reject::node("h:1", "connect: timed out"), Cause::Timeout),
            (reject::unserved(""), Cause::NoOwner),
            (reject::no_primary(""), Cause::NoOwner),
            (reject::gave_up(3, "MOVED 1 h:1"), Cause::NoOwner),
            (reject::no_lease(5), Cause::Limit),
            (reject::not_confirmed(5), Cause::Timeout),
            (unknown, Cause::Request),
        ] {
            assert_eq!(Cause::of(&text), cause, "{}", text.escape_ascii());
        }
        for (text, cause) in [
            (reject::NO_REPLICA, Cause::NoOwner),
            (reject::UPSTREAMS_MAX, Cause::Limit),
            (reject::SHARED_CONNS_MAX, Cause::Limit),
            (reject::NOLOOP_MAX, Cause::Limit),
            (reject::SUBSCRIPTIONS_MAX, Cause::Limit),
            (reject::CLIENT_TOPICS_MAX, Cause::Limit),
            (reject::TOO_LARGE_TO_MERGE, Cause::Limit),
            (reject::UNSENT_MAX, Cause::Limit),
            (reject::OWN_INSIDE_MAX, Cause::Limit),
            (reject::LOCAL_TOO_LARGE, Cause::Limit),
            (reject::TOO_LARGE_TO_SPLIT, Cause::Limit),
            (reject::TOO_LARGE_TO_LOOK_AT, Cause::Limit),
            (reject::MAX_CLIENTS, Cause::Limit),
            (reject::MONITOR_FILTERS, Cause::Limit),
            (reject::NOT_NOW_INSIDE, Cause::Refused),
            (reject::OVERTAKEN, Cause::Refused),
            (reject::SORT_PATTERN, Cause::Refused),
            (reject::NOAUTH, Cause::Auth),
            (reject::WRONGPASS, Cause::Auth),
            (reject::CROSSSLOT, Cause::CrossSlot),
            (reject::SYNTAX, Cause::Request),
            ("ERR Protocol error: invalid bulk length", Cause::Protocol),
        ] {
            assert_eq!(Cause::of(format!("-{text}\r\n").as_bytes()), cause, "{text}");
        }
    }

    #[test]
    fn causes_stand_at_the_place_of_their_counter() {
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, at, "{}", cause.name());
        }
    }
}
