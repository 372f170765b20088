//! Interception policies: what an operator wants refused, slowed or changed of requests that their users may send.
//!
//! ```text
//!   rename ─▶ [AUTH, users' rules] ─▶ deny ─▶ block ─▶ read_only ─▶ size ─▶ own ─▶ rate ─▶ fault ─▶ on its way ─▶ double_delete
//!     names     ▲                       error, and nothing is given on        │ error, or the client waits     later: DEL again
//!               └──────────── what a program rewrote, once ◀────────────────┘ a program answers or refuses
//! ```
//! Last of all, what goes on does so under the names of its namespace (`change`), if there is one.
//!
//! The order is fixed: what costs nothing and refuses for good comes first, so that nobody pays for a request that is refused, and a fault hits only
//! what would have gone on. A request is judged as a whole, with all of its keys, before any part of it goes; each command between MULTI and
//! EXEC by itself. One that waits holds its client: what the client sent behind it stays behind it.
//!
//! While there are policies no client counts as one that may do everything ([`crate::client::Access`]), which is the branch that takes its requests off
//! their shortest way. There they are looked at where users' rules are (`Policies::passes`); only one that a policy may do something about goes the
//! long way (`judge`). Without policies nothing is looked at.
//!
//! Files: one for each policy; `what` says which requests a rule is about, `judge` goes through them in order, `state` keeps who waits and what was
//! done. Not here: users (`permit`), the configuration (`config`).
//!
//! Invariant: what a policy decided for a request is decided once, however often the request is looked at because it must wait.

mod block;
mod change;
mod delayed;
mod deny;
mod double_delete;
pub mod fault;
mod judge;
pub mod namespace;
mod newcomers;
pub(crate) mod outward;
pub mod own;
mod rate;
mod read_only;
pub mod rename;
mod size;
mod state;
pub mod values;
mod what;

pub use double_delete::Again;
pub use fault::Fault;
pub use namespace::Namespace;
pub(crate) use outward::Outward;
pub use own::{Own, OwnReport};
pub use rate::{Per, Rate, Unit};
pub use rename::Renaming;
pub use size::Size;
pub use state::{OUTCOMES, Outcome, Outcomes};
pub(crate) use state::{State, WAKE};
pub use values::{Compression, SealingKey, Values, Wanted};
pub use what::What;

use crate::client::Client;
use crate::command::{self, CommandId, Flags};
use crate::settings::Settings;
use crate::time::Time;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use own::Programs;
use rate::Buckets;
use resp::{Args, Request, encode};

/// The policies, in the order in which they are applied to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Commands with other names.
    Rename,
    /// Commands that are refused.
    Deny,
    /// Commands and keys that are refused for a while.
    Block,
    /// Writes that are refused.
    ReadOnly,
    /// Requests that are too large.
    Size,
    /// Programs of the operator's own.
    Own,
    /// So many in a second.
    Rate,
    /// Errors and delays on purpose.
    Fault,
    /// Deleting once more.
    DoubleDelete,
    /// Names that stand behind a prefix.
    Namespace,
    /// Values that are stored otherwise.
    Values,
}

impl Kind {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Deny => "deny",
            Self::Block => "block",
            Self::ReadOnly => "read_only",
            Self::Size => "size",
            Self::Own => "own",
            Self::Rate => "rate",
            Self::Fault => "fault",
            Self::DoubleDelete => "double_delete",
            Self::Namespace => "namespace",
            Self::Values => "values",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// One rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<T> {
    /// Which requests it is about.
    pub what: What,
    /// What figures call it; empty: it is counted with the others of its policy.
    pub name: String,
    /// The error instead of the policy's own, without the `-`.
    pub error: Option<String>,
    /// What the policy must know beside.
    pub detail: T,
}

/// What an operator wants. Plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// See [`rename`]; [`rename::check`] must hold.
    pub rename: Vec<Renaming>,
    /// Commands that are refused.
    pub deny: Vec<Rule<()>>,
    /// What is refused for a while.
    pub block: Vec<Rule<()>>,
    /// Writes are refused.
    pub read_only: bool,
    /// The error for them instead of a replica's.
    pub read_only_error: Option<String>,
    /// How large requests may be.
    pub size: Vec<Rule<Size>>,
    /// Programs that look at requests.
    pub own: Vec<Rule<Own>>,
    /// How many requests and bytes may come.
    pub rate: Vec<Rule<Rate>>,
    /// How many clients may come; the unit of each is [`Unit::Connections`].
    pub connections: Vec<Rule<Rate>>,
    /// What fails or waits on purpose.
    pub fault: Vec<Rule<Fault>>,
    /// What is deleted once more.
    pub double_delete: Vec<Rule<Again>>,
    /// What clients name stands behind a prefix.
    pub namespace: Option<Namespace>,
    /// Which values are stored compressed or encrypted.
    pub values: Option<Values>,
    /// Requests that wait at a time because of `rate` or `fault`, of all workers. At it `rate` refuses, and `fault` delays no more.
    pub waiting_max: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            rename: Vec::new(),
            deny: Vec::new(),
            block: Vec::new(),
            read_only: false,
            read_only_error: None,
            size: Vec::new(),
            own: Vec::new(),
            rate: Vec::new(),
            connections: Vec::new(),
            fault: Vec::new(),
            double_delete: Vec::new(),
            namespace: None,
            values: None,
            waiting_max: 1_000,
        }
    }
}

/// The rules, and the buckets of `rate` and programs of `own`, which all workers share.
#[derive(Clone, Debug)]
pub struct Policies {
    rules: Rules,
    /// For each row of the command table, which policies may concern it.
    kinds: Vec<u16>,
    buckets: Vec<Arc<Buckets>>,
    /// The same for `connections`.
    newcomers: Vec<Arc<Buckets>>,
    /// Something is to be looked at in requests.
    about_requests: bool,
    /// As many as there are rules with one.
    programs: Programs,
}

impl PartialEq for Policies {
    /// Whether the same is wanted.
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && own::are_same(&self.programs, &other.programs)
    }
}

impl Eq for Policies {}

impl Policies {
    /// `None`: nothing is wanted.
    #[must_use]
    pub fn new(rules: Rules) -> Option<Self> {
        let kinds: Vec<u16> = CommandId::all().map(|id| rules.kinds_of(id)).collect();
        let is_empty = rules.rename.is_empty()
            && !rules.read_only
            && rules.namespace.is_none()
            && rules.values.is_none()
            && rules.deny.len() + rules.block.len() + rules.size.len() + rules.rate.len() == 0
            && rules.fault.len() + rules.double_delete.len() + rules.own.len() == 0;
        let buckets = |rules: &[Rule<Rate>]| {
            rules.iter().map(|rule| Arc::new(Buckets::new(rule.detail.per))).collect()
        };
        let (about_requests, is_empty) = (!is_empty, is_empty && rules.connections.is_empty());
        let (newcomers, programs) =
            (buckets(&rules.connections), alloc::vec![None; rules.own.len()]);
        let buckets = buckets(&rules.rate);
        let all = Self { rules, kinds, buckets, newcomers, about_requests, programs };
        (!is_empty).then_some(all)
    }

    /// These take the place of others: of a rule that stays what it was, so do the buckets.
    #[must_use]
    pub fn instead_of(mut self, old: &Self) -> Self {
        let keep = |own: &mut [Arc<Buckets>], rules: &[Rule<Rate>], old: (&[_], &[Arc<_>])| {
            for (rule, own) in rules.iter().zip(own) {
                let before = old.0.iter().zip(old.1).find(|(other, _)| *other == rule);
                if let Some((_, buckets)) = before {
                    own.clone_from(buckets);
                }
            }
        };
        keep(&mut self.buckets, &self.rules.rate, (&old.rules.rate, &old.buckets));
        let before = (&old.rules.connections[..], &old.newcomers[..]);
        keep(&mut self.newcomers, &self.rules.connections, before);
        self
    }

    /// The same with these programs for the rules of `own`, in their order. One that is missing fails.
    #[must_use]
    pub fn with_programs(mut self, mut programs: Programs) -> Self {
        programs.resize(self.rules.own.len(), None);
        self.programs = programs;
        self
    }

    /// Whether both have the same programs.
    #[must_use]
    pub fn has_programs_of(&self, other: &Self) -> bool {
        own::are_same(&self.programs, &other.programs)
    }

    /// Whether something is to be looked at in requests, and not only when clients come.
    pub(crate) fn are_about_requests(&self) -> bool {
        self.about_requests
    }

    fn has_own(&self) -> bool {
        !self.rules.own.is_empty()
    }

    /// Whether a policy may concern this command; those that the table does not know may be any policy's concern.
    fn concerns(&self, kind: Kind, command: Option<CommandId>) -> bool {
        command.is_none_or(|command| self.kinds[command.index()] & kind.bit() != 0)
    }

    /// What is wanted.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl Rules {
    /// Which policies may concern this row.
    fn kinds_of(&self, id: CommandId) -> u16 {
        fn any<T>(rules: &[Rule<T>], id: CommandId) -> bool {
            rules.iter().any(|rule| rule.what.has_row(id))
        }
        let name = id.name().as_bytes();
        let row = id.row();
        let writes = row.flags.has(Flags::WRITE) || row.is_script();
        let of = [
            (Kind::Rename, rename::meaning(&self.rename, name) != rename::Named::Itself),
            (Kind::Deny, any(&self.deny, id)),
            (Kind::Block, any(&self.block, id)),
            (Kind::ReadOnly, self.read_only && writes),
            (Kind::Size, any(&self.size, id)),
            (Kind::Own, any(&self.own, id)),
            (Kind::Rate, any(&self.rate, id)),
            (Kind::Fault, any(&self.fault, id)),
            (Kind::DoubleDelete, any(&self.double_delete, id)),
            (Kind::Namespace, self.namespace.as_ref().is_some_and(|one| one.concerns(id))),
            (Kind::Values, self.values.as_ref().is_some_and(|one| one.concerns(id))),
        ];
        of.iter().filter(|(_, is)| *is).map(|(kind, _)| kind.bit()).sum()
    }
}

/// A request on the long way, as rules look at it.
struct Look<'a> {
    row: Option<CommandId>,
    args: &'a [&'a [u8]],
    /// Its keys, and names of channels.
    keys: Vec<&'a [u8]>,
    bytes: u64,
    args_count: u64,
}

impl Look<'_> {
    /// The first rule that is about this request and of which this holds, too.
    fn first<'r, T>(
        &self,
        rules: &'r [Rule<T>],
        mut also: impl FnMut(&Rule<T>) -> bool,
    ) -> Option<&'r Rule<T>> {
        rules.iter().find(|rule| self.is_meant(&rule.what) && also(rule))
    }

    fn is_meant(&self, what: &What) -> bool {
        what.names(self.row, self.args[0]) && what.has_any(self.keys.iter().copied())
    }
}

/// Why a request is not given on.
struct Refusal {
    kind: Kind,
    /// Of the rule.
    name: String,
    /// The error as the client gets it.
    reply: Vec<u8>,
}

/// What refusals need of a rule.
struct Common<'a> {
    name: &'a str,
    error: Option<&'a str>,
}

impl Common<'_> {
    fn refusal(&self, kind: Kind, own: impl FnOnce() -> String) -> Refusal {
        let mut reply = Vec::new();
        match self.error {
            Some(text) => encode::error(&mut reply, text.as_bytes()),
            None => encode::error(&mut reply, own().as_bytes()),
        }
        Refusal { kind, name: self.name.into(), reply }
    }
}

impl<T> Rule<T> {
    fn refusal(&self, kind: Kind, own: impl FnOnce() -> String) -> Refusal {
        Common { name: &self.name, error: self.error.as_deref() }.refusal(kind, own)
    }
}

/// A request on its short way: nothing of it is taken apart that need not be.
pub(crate) struct Short<'a> {
    pub(crate) command: CommandId,
    /// From its begin on.
    frame: &'a [u8],
    bytes: u64,
    args_count: u64,
    now_ns: u64,
    client: u64,
    addr: &'a str,
    user: &'a [u8],
}

impl<'a> Short<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        client: &'a Client,
        command: CommandId,
        (request, frame): (&Request, &'a [u8]),
        now: Time,
    ) -> Self {
        let user = settings.users.at(client.user as usize).map_or(&b""[..], |user| user.name());
        Self {
            command,
            frame,
            bytes: request.len,
            args_count: request.args.into(),
            now_ns: shared_ns(settings, now),
            client: client.number,
            addr: &client.identity.addr,
            user,
        }
    }

    fn is_meant(&self, what: &What) -> bool {
        if !what.has_row(self.command) {
            return false;
        }
        let mut found = !what.has_keys();
        if !found {
            command::keys(self.command.row(), Args::new(self.frame), |_, key, _| {
                found |= what.has_key(key);
            });
        }
        found
    }

    /// The tag of its bucket; `None`: it has several, or none.
    fn bucket(&self, per: Per) -> Option<u64> {
        match per {
            Per::All => Some(1),
            Per::User => Some(rate::hash_of(self.user)),
            Per::Client => Some(rate::hash_of(&self.client.to_le_bytes())),
            Per::Address => Some(rate::hash_of_address(self.addr)),
            Per::Prefix => {
                let at = self.command.row().only_key_at()?;
                Args::new(self.frame).nth(at).map(|key| rate::hash_of(rate::prefix(key)))
            }
        }
    }
}

impl Policies {
    /// Whether a request on its short way may go on there, but for what policies of these kinds say. Nothing is changed by asking;
    /// [`Policies::charge`] follows when it went.
    pub(crate) fn passes<'a>(
        &self,
        command: CommandId,
        short: impl FnOnce() -> Short<'a>,
        beside: &[Kind],
    ) -> bool {
        let beside = beside.iter().fold(0, |bits, kind| bits | kind.bit());
        let kinds = self.kinds[command.index()] & !beside;
        if kinds == 0 {
            return true;
        }
        // The long way has the words for these.
        const LONG: u16 =
            Kind::Deny.bit() | Kind::Rename.bit() | Kind::ReadOnly.bit() | Kind::Namespace.bit();
        if kinds & LONG != 0 {
            return false;
        }
        let (rules, short) = (&self.rules, &short());
        let has = |kind: Kind| kinds & kind.bit() != 0;
        let is_stopped = (has(Kind::Block) && rules.block.iter().any(|r| short.is_meant(&r.what)))
            || (has(Kind::Size)
                && rules.size.iter().any(|rule| {
                    rule.detail.is_exceeded(short.bytes, short.args_count)
                        && short.is_meant(&rule.what)
                }))
            || (has(Kind::Own) && rules.own.iter().any(|r| short.is_meant(&r.what)))
            || (has(Kind::Fault) && rules.fault.iter().any(|r| short.is_meant(&r.what)))
            || (has(Kind::DoubleDelete)
                && rules.double_delete.iter().any(|r| short.is_meant(&r.what)))
            || (has(Kind::Values)
                && !rules.values.as_ref().is_some_and(|v| v.leaves(short.command, short.frame)));
        !is_stopped && (!has(Kind::Rate) || self.is_in_time(short))
    }

    /// Whether no rate makes it wait.
    fn is_in_time(&self, short: &Short<'_>) -> bool {
        self.rates_of(short).all(|(rate, buckets, hash)| {
            let cost = rate.cost(short.bytes);
            hash.is_some_and(|hash| buckets.wait(rate, hash, short.now_ns, cost) == 0)
        })
    }

    fn rates_of<'p>(
        &'p self,
        short: &'p Short<'_>,
    ) -> impl Iterator<Item = (&'p Rate, &'p Buckets, Option<u64>)> {
        let rules = self.rules.rate.iter().zip(&self.buckets);
        rules
            .filter(|(rule, _)| short.is_meant(&rule.what))
            .map(|(rule, buckets)| (&rule.detail, &**buckets, short.bucket(rule.detail.per)))
    }

    /// Whether requests of this command may count for a rate.
    pub(crate) fn has_rate(&self, command: CommandId) -> bool {
        self.kinds[command.index()] & Kind::Rate.bit() != 0
    }

    /// A request that passed went on: it counts.
    pub(crate) fn charge(&self, short: &Short<'_>) {
        for (rate, buckets, hash) in self.rates_of(short) {
            if let Some(hash) = hash {
                buckets.charge(hash, short.now_ns, rate.cost(short.bytes));
            }
        }
    }
}

/// The time that all workers have in common, in nanoseconds. Each knows when its own clock began to within some microseconds.
fn shared_ns(settings: &Settings, now: Time) -> u64 {
    settings.unix_ahead_us.saturating_add(now.0).saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_s: u64) -> Rule<Rate> {
        let what = What::new(&[], Vec::new(), false).expect("all");
        let detail = Rate { unit: Unit::Requests, per_s, burst: 1, per: Per::All, delay_ms: 0 };
        Rule { what, name: String::new(), error: None, detail }
    }

    #[test]
    fn nothing_wanted_is_no_policy() {
        assert_eq!(Policies::new(Rules { waiting_max: 5, ..Rules::default() }), None);
        assert!(Policies::new(Rules { read_only: true, ..Rules::default() }).is_some());
    }

    #[test]
    fn rules_that_stay_keep_their_buckets() {
        let with = |rules: &[Rule<Rate>]| {
            Policies::new(Rules { rate: rules.to_vec(), ..Rules::default() }).expect("rules")
        };
        let old = with(&[rate(1), rate(2)]);
        let new = with(&[rate(2), rate(3)]).instead_of(&old);
        assert!(Arc::ptr_eq(&new.buckets[0], &old.buckets[1]));
        assert!(!old.buckets.iter().any(|buckets| Arc::ptr_eq(buckets, &new.buckets[1])));
    }

    #[test]
    fn rates_of_newcomers_are_about_no_request_and_keep_their_buckets() {
        let connections = |per_s: u64| {
            let mut rule = rate(per_s);
            rule.detail.unit = Unit::Connections;
            Policies::new(Rules { connections: alloc::vec![rule], ..Rules::default() })
        };
        let (old, same) = (connections(1).expect("a rule"), connections(1).expect("a rule"));
        assert!(!old.are_about_requests());
        assert!(Arc::ptr_eq(&same.instead_of(&old).newcomers[0], &old.newcomers[0]));
        let other = connections(2).expect("a rule").instead_of(&old);
        assert!(!Arc::ptr_eq(&other.newcomers[0], &old.newcomers[0]));
    }

    #[test]
    fn a_row_knows_which_policies_may_concern_it() {
        let renaming = Renaming { from: b"keys".as_slice().into(), to: b"".as_slice().into() };
        let rules = Rules {
            read_only: true,
            rename: alloc::vec![renaming],
            rate: alloc::vec![rate(1)],
            ..Rules::default()
        };
        let kinds =
            |name: &str| rules.kinds_of(command::lookup(name.as_bytes()).expect("a command"));
        assert_eq!(kinds("get"), Kind::Rate.bit());
        assert_eq!(kinds("set"), Kind::Rate.bit() | Kind::ReadOnly.bit());
        assert_eq!(kinds("keys"), Kind::Rate.bit() | Kind::Rename.bit());
        assert_eq!(kinds("ping"), 0);
    }
}
