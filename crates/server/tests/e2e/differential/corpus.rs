//! The corpus files as steps. Their form is told at the top of `corpus/strings.txt`.
//!
//! Invariant: every line that is neither blank nor a comment becomes exactly one command per key
//! that it stands for.

use testkit::frames::request;

/// How two replies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// To the byte.
    Bytes,
    /// The elements of an array or set in any order (marked `~`).
    AnyOrder,
    /// The first byte, for replies that tell of time or of the one who asks (marked `?`).
    Type,
}

/// A command in both of its forms.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// As it stands in the file.
    pub(super) text: String,
    pub(super) args: Vec<Vec<u8>>,
}

impl Command {
    pub(super) fn from_args(args: &[&str]) -> Self {
        let args = args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>();
        Self {
            text: args
                .iter()
                .map(|arg| arg.escape_ascii().to_string())
                .collect::<Vec<_>>()
                .join(" "),
            args,
        }
    }

    fn parse(line: &str) -> Self {
        let args = resp::inline::split(line.as_bytes())
            .unwrap_or_else(|error| panic!("quoting in the corpus: {line}: {error}"));
        Self { text: line.to_owned(), args }
    }

    /// What goes over the wire.
    pub(super) fn bytes(&self, inline: bool) -> Vec<u8> {
        if inline { format!("{}\r\n", self.text).into_bytes() } else { request(&self.args) }
    }
}

/// One step of a run: a command, or (`None`) a new connection.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) command: Option<Command>,
    pub(super) compare: Compare,
}

impl Step {
    pub(super) fn command(command: Command) -> Self {
        Self { command: Some(command), compare: Compare::Bytes }
    }

    fn line(line: &str) -> Self {
        let (compare, rest) = match line.as_bytes().first() {
            Some(b'~') => (Compare::AnyOrder, &line[1..]),
            Some(b'?') => (Compare::Type, &line[1..]),
            _ => (Compare::Bytes, line),
        };
        Self { command: (!rest.is_empty()).then(|| Command::parse(rest)), compare }
    }
}

/// The plain files, each with a title.
pub(super) fn files() -> Vec<(&'static str, Vec<Step>)> {
    [
        ("strings", include_str!("../corpus/strings.txt")),
        ("collections", include_str!("../corpus/collections.txt")),
        ("special", include_str!("../corpus/special.txt")),
        ("keys", include_str!("../corpus/keys.txt")),
    ]
    .map(|(title, text)| (title, lines(text).map(Step::line).collect()))
    .into()
}

/// Transactions and commands that wait. Apart, since on a cluster they mean something else (`topology::alike`).
pub(super) fn transactions() -> (&'static str, Vec<Step>) {
    ("transactions", lines(include_str!("../corpus/transactions.txt")).map(Step::line).collect())
}

/// What the proxy may store in another form. Apart, since others work on what is stored and are refused then.
pub(super) fn values() -> Vec<Step> {
    lines(include_str!("../corpus/values.txt")).map(Step::line).collect()
}

/// What makes one key of each type. Sets hold few integers, so that their order is fixed.
const MAKE_KEYS: &str = "\
FLUSHALL
SET str 10
RPUSH lst a b c
HSET hsh f v n 5
SADD set 1 2 3
ZADD zst 1 a 2 b
XADD strm 1-1 f v";

const KEYS: [&str; 7] = ["str", "lst", "hsh", "set", "zst", "strm", "missing"];

/// `corpus/typed.txt` with each key in its turn.
pub(super) fn typed() -> Vec<Step> {
    let templates = lines(include_str!("../corpus/typed.txt")).filter(|line| !line.is_empty());
    let mut steps = Vec::new();
    for template in templates {
        assert!(template.contains("{k}"), "no place for a key: {template}");
        for key in KEYS {
            steps.extend(MAKE_KEYS.lines().map(Step::line));
            steps.push(Step::line(&template.replace("{k}", key)));
        }
    }
    steps
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    // `#` begins a comment; no command of the corpus begins with it.
    text.lines().filter(|line| !line.starts_with('#'))
}
