//! The last error reply of each kind and command: its text, whose it was and who said it.
//!
//! An error rate tells that something is wrong; this tells where to look. A client is known by its number, and its address
//! is looked up when somebody asks, or when it goes.
//!
//! Not here: how often each kind came at all (`errors`).
//!
//! Invariant: at most [`ERROR_SAMPLES_MAX`] samples with texts of at most [`ERROR_TEXT_BYTES`] bytes; the one that was seen
//! longest ago makes room.

use super::errors::first_word;
use crate::client::{Client, Identity};
use crate::command::CommandId;
use crate::ids::{ClientId, NodeId};
use crate::limits::{ERROR_SAMPLE_MS, ERROR_SAMPLES_MAX, ERROR_TEXT_BYTES};
use crate::time::Time;
use crate::upstream::Upstream;
use crate::upstream::inflight::{Owner, Run};
use alloc::string::String;
use alloc::vec::Vec;

/// Where an error reply came from, and who got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) at: Time,
    pub(crate) command: Option<CommandId>,
    pub(crate) client: Option<ClientId>,
    /// `None`: the proxy itself.
    pub(crate) node: Option<NodeId>,
}

impl Source {
    /// A server answered this run.
    pub(crate) fn of_run(upstream: &Upstream, run: &Run) -> Self {
        let client = match run.owner {
            Owner::Client { id, .. } => Some(id),
            Owner::Part { .. } | Owner::Own(_) => None,
        };
        let (at, node) = (upstream.progress_at, Some(upstream.key.node));
        Self { at, command: run.command, client, node }
    }

    /// The proxy itself answers the last request of this client.
    pub(crate) fn of_client(id: ClientId, client: &Client) -> Self {
        Self { at: client.input_at, command: client.last_command, client: Some(id), node: None }
    }

    /// The proxy itself answers what is under way.
    pub(crate) fn own(at: Time, command: Option<CommandId>, client: Option<ClientId>) -> Self {
        Self { at, command, client, node: None }
    }
}

/// The last error of one kind to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorSample {
    /// The error's first word, as `WRONGTYPE`.
    pub word: String,
    /// `None`: the proxy does not know the command.
    pub command: Option<CommandId>,
    /// How often it came.
    pub count: u64,
    /// When the text below came.
    pub at: Time,
    /// The error, without the client's words that a server repeats in it.
    pub text: String,
    /// Address and name of the client; empty if they are not known any more.
    pub addr: String,
    /// See `addr`.
    pub name: Vec<u8>,
    /// The server that said it; empty: the proxy itself.
    pub node: String,
    client: Option<ClientId>,
    from: Option<NodeId>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorSamples(Vec<ErrorSample>);

impl ErrorSamples {
    /// This error came so often.
    #[cold]
    pub(crate) fn note(&mut self, source: Source, reply: &[u8], count: u64) {
        let word = String::from_utf8_lossy(first_word(reply)).into_owned();
        let known = self.0.iter_mut().find(|one| one.word == word && one.command == source.command);
        if let Some(known) = known {
            known.count += count;
            if source.at >= known.at.plus_ms(ERROR_SAMPLE_MS) {
                *known = sample(source, reply, known.count);
            }
            return;
        }
        if self.0.len() >= ERROR_SAMPLES_MAX
            && let Some(oldest) = (0..self.0.len()).min_by_key(|at| self.0[*at].at)
        {
            self.0.swap_remove(oldest);
        }
        self.0.push(sample(source, reply, count));
    }

    /// This client goes, and with it its address.
    pub(crate) fn client_goes(&mut self, id: ClientId, identity: &Identity) {
        let of_client = self.0.iter_mut().filter(|one| one.client == Some(id));
        of_client.for_each(|one| one.tell_client(identity));
    }

    /// With the names of clients and servers, as far as these are known.
    pub(crate) fn named<'a>(
        &self,
        identity: impl Fn(ClientId) -> Option<&'a Identity>,
        label: impl Fn(NodeId) -> String,
    ) -> Self {
        let mut named = self.clone();
        for one in &mut named.0 {
            if let Some(identity) = one.client.take().and_then(&identity) {
                one.tell_client(identity);
            }
            one.node = one.from.take().map(&label).unwrap_or_default();
        }
        named
    }

    /// Adds another worker's.
    pub(crate) fn add(&mut self, other: &Self) {
        for theirs in &other.0 {
            let same =
                |one: &&mut ErrorSample| one.word == theirs.word && one.command == theirs.command;
            match self.0.iter_mut().find(same) {
                Some(ours) => {
                    let count = ours.count + theirs.count;
                    if theirs.at > ours.at {
                        *ours = theirs.clone();
                    }
                    ours.count = count;
                }
                None => self.0.push(theirs.clone()),
            }
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &ErrorSample> {
        self.0.iter()
    }
}

impl ErrorSample {
    fn tell_client(&mut self, identity: &Identity) {
        self.addr.clone_from(&identity.addr);
        self.name.clone_from(&identity.name);
        self.client = None;
    }
}

fn sample(source: Source, reply: &[u8], count: u64) -> ErrorSample {
    ErrorSample {
        word: String::from_utf8_lossy(first_word(reply)).into_owned(),
        command: source.command,
        count,
        at: source.at,
        text: shown(reply),
        addr: String::new(),
        name: Vec::new(),
        node: String::new(),
        client: source.client,
        from: source.node,
    }
}

/// The text of an error reply. To a command that it does not know a server says what the client sent, which may be a
/// password with a mistyped `AUTH` before it.
fn shown(reply: &[u8]) -> String {
    let line = reply.strip_prefix(b"-").unwrap_or(reply);
    let line = &line[..line.len().min(ERROR_TEXT_BYTES)];
    let line = line.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let text = String::from_utf8_lossy(line).into_owned();
    match text.split_once(", with args beginning with:") {
        Some((text, _)) => String::from(text),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ids::GET;
    use alloc::format;

    fn source(ms: u64) -> Source {
        Source { at: Time(ms * 1_000), command: Some(GET), client: None, node: None }
    }

    #[test]
    fn no_more_is_kept_of_a_long_error_than_the_bounds_say() {
        let mut samples = ErrorSamples::default();
        let long = [b"-".as_slice(), &[b'a'; 1 << 20], b"\r\n"].concat();
        samples.note(source(1), &long, 1);
        samples.note(source(2), &long, 1);
        let told = samples.iter().next().expect("one");
        assert_eq!((samples.iter().count(), told.count), (1, 2));
        assert!(told.word.len() <= 33 && told.text.len() <= ERROR_TEXT_BYTES);
    }

    #[test]
    fn the_last_of_each_kind_and_command_is_kept_and_all_are_counted() {
        let mut samples = ErrorSamples::default();
        samples.note(source(1), b"-WRONGTYPE first\r\n", 1);
        samples.note(source(2), b"-WRONGTYPE at once behind it\r\n", 5);
        samples.note(source(2_000), b"-WRONGTYPE last\r\n-OTHER x\r\n", 1);
        samples.note(Source { command: None, ..source(3_000) }, b"-WRONGTYPE other\r\n", 1);
        let told: Vec<_> =
            samples.iter().map(|one| (one.text.as_str(), one.count, one.command)).collect();
        assert_eq!(told, [("WRONGTYPE last", 7, Some(GET)), ("WRONGTYPE other", 1, None)]);
        let mut sum = samples.clone();
        sum.add(&samples);
        assert_eq!(sum.iter().map(|one| one.count).collect::<Vec<_>>(), [14, 2]);
    }

    #[test]
    fn their_number_and_texts_are_bounded_and_tell_no_arguments() {
        let mut samples = ErrorSamples::default();
        for n in 0..2 * ERROR_SAMPLES_MAX as u64 {
            samples.note(source(n), format!("-E{n} {}\r\n", "x".repeat(5_000)).as_bytes(), 1);
        }
        assert_eq!(samples.iter().count(), ERROR_SAMPLES_MAX);
        assert!(samples.iter().all(|one| one.text.len() <= ERROR_TEXT_BYTES));
        assert!(samples.iter().all(|one| one.at >= source(ERROR_SAMPLES_MAX as u64).at));
        let unknown = b"-ERR unknown command 'AUHT', with args beginning with: 'secret' \r\n";
        assert_eq!(shown(unknown), "ERR unknown command 'AUHT'");
    }
}
