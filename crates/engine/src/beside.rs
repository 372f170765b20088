//! Connections beside the usual shared one, for requests that would hold others up.
//!
//! ```text
//!   GET k                        ──▶ connection of the client (`Client::conn`)
//!   GET big, KEYS *              ──▶ connection for large replies            a few requests at a time     (`large_replies`)
//!   EVAL of a new script         ──▶ connection for trials of its text       one client at a time         (`trials`)
//!   EVAL of a client that caches ──▶ connection of clients that do not       its keys are marked before   (`tracking`)
//! ```
//! Not here: which requests are meant (the modules named above), dedicated connections (`lease`).
//!
//! Invariant: a client changes the connection only while no request of it is under way, so none overtakes another.

use crate::client::{Client, Hold};
use crate::command::ids::FUNCTION_STATS;
use crate::command::{Class, CommandId};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::large_replies::Fingerprint;
use crate::limits::{TRIAL_CONNS, TRIALS_PART};
use crate::overtaken::is_script;
use crate::request::Step;
use crate::route::{Known, Way};
use crate::scatter::Wish;
use crate::time::Time;
use crate::upstream::{Lane, UpstreamKey};

/// The number of the connection (`UpstreamKey::conn`) for requests with large replies.
const LARGE_CONN: u16 = u16::MAX;

/// The number of the first connection for trials. Usual connections have smaller numbers.
pub(crate) const BESIDE_FROM: u16 = LARGE_CONN - TRIAL_CONNS;

/// Which of the shared connections to a node a client's requests take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The usual connection.
    #[default]
    No,
    /// The usual connection of clients without `CLIENT TRACKING`, which scripts of clients with `CLIENT TRACKING` take.
    Unheard,
    /// The connection for requests with large replies.
    Large,
    /// The connection for trials with this number. Scripts take it that may have no end.
    Trial(u16),
}

impl Beside {
    /// Number of the connection; `usual` is the number of the client's usual connection.
    pub(crate) fn conn(self, usual: u16) -> u16 {
        match self {
            Self::No | Self::Unheard => usual,
            Self::Large => LARGE_CONN,
            Self::Trial(number) => BESIDE_FROM + number,
        }
    }

    /// Whether clients with `CLIENT TRACKING` send only scripts over this connection, which brings them no invalidations.
    pub(crate) fn is_unheard(self) -> bool {
        matches!(self, Self::Trial(_) | Self::Unheard)
    }

    /// Whether this is a connection for scripts that may have no end.
    pub(crate) fn is_trial(self) -> bool {
        matches!(self, Self::Trial(_))
    }
}

impl Client {
    /// Whether its usual connection tells it and other clients of changed keys. Scripts take other connections: one without an end would keep all these clients waiting.
    fn shares_ear(&self) -> bool {
        self.lane(Lane::Shared) != Lane::Shared && !self.has_own()
    }

    /// Whether its requests take a connection that does not tell it of changed keys, although its usual connection does.
    pub(crate) fn reads_unheard(&self) -> bool {
        self.beside.is_unheard() && self.shares_ear()
    }
}

impl UpstreamKey {
    /// Which kind of shared connection this is.
    #[inline]
    pub(crate) fn beside(&self) -> Beside {
        match self.conn {
            LARGE_CONN => Beside::Large,
            number @ BESIDE_FROM.. => Beside::Trial(number - BESIDE_FROM),
            _ => Beside::No,
        }
    }
}

impl Engine {
    /// Whether a request may go another way than the one before it.
    #[inline]
    pub(crate) fn may_go_beside(&self, known: &Known) -> bool {
        let goes_by_row = |id: CommandId| {
            let row = id.row();
            row.class == Class::Beside || id == FUNCTION_STATS || row.is_script()
        };
        !self.grants.large_replies.is_empty() || known.id.is_some_and(goes_by_row)
    }

    /// Has the client's requests go over the connection that this one is for, and the keys of a script marked before it; `Some`: it must wait.
    #[cold]
    pub(crate) fn take_conn(&mut self, now: Time, wish: &Wish<'_>, known: &Known) -> Option<Step> {
        let step = self.choose_conn(wish.id, known, wish.frame);
        step.or_else(|| self.marks_script(now, wish, known.way))
    }

    /// Has the client's requests go over the connection that this one is for; `Some`: it must wait until those before it
    /// are answered.
    fn choose_conn(&mut self, id: ClientId, known: &Known, frame: &[u8]) -> Option<Step> {
        if known.id == Some(FUNCTION_STATS) && self.waits_for_replies(id) {
            // Over the control lane it would overtake them.
            return Some(Step::Hold(Hold::Drained));
        }
        let beside = match known.way {
            Way::Shared => self.way_beside(id, known, frame),
            // A client that caches has changes told over its usual connection, and so it goes back there.
            _ if self.clients.get(id).is_some_and(Client::reads_unheard) => Beside::No,
            _ => return None,
        };
        let client = self.clients.get_mut(id).filter(|client| client.beside != beside)?;
        if client.places.open() > 0 {
            return Some(Step::Hold(Hold::Drained));
        }
        client.beside = beside;
        client.upstream = None;
        None
    }

    /// Whether requests over a connection with this key are kept until they are answered: respool looks at a script on trial then.
    pub(crate) fn keeps_output_of(&self, key: &UpstreamKey) -> bool {
        self.keeps_output() || key.beside().is_trial()
    }

    fn way_beside(&mut self, client: ClientId, known: &Known, frame: &[u8]) -> Beside {
        let shares_ear = self.clients.get(client).is_some_and(Client::shares_ear);
        let is_unheard = shares_ear && is_script(known.id);
        let is_beside = known.id.is_some_and(|id| id.row().class == Class::Beside);
        if !is_unheard && (is_beside || self.grants.large_replies.has(known.id, frame)) {
            return Beside::Large;
        }
        match self.print_on_trial(client, known.id, frame) {
            Some(print) => self.trial_of(client, print),
            None if is_unheard => Beside::Unheard,
            None => Beside::No,
        }
    }

    /// The connection for trials that this script of a client takes.
    fn trial_of(&self, client: ClientId, print: Fingerprint) -> Beside {
        let Some(client) = self.clients.get(client) else { return Beside::No };
        let conns = self.trial_conns(client.db);
        match client.beside {
            // Its scripts before this one are under way there.
            Beside::Trial(number) if client.places.open() > 0 && number < conns => client.beside,
            _ => Beside::Trial(print.part(conns)),
        }
    }

    /// How many connections to a node scripts on trial take in this database. All databases together leave room for usual connections.
    fn trial_conns(&self, db: u32) -> u16 {
        if db != self.settings.node.db {
            return 1;
        }
        let most = self.settings.limits.upstreams_max / TRIALS_PART;
        u16::try_from(most).unwrap_or(TRIAL_CONNS).clamp(1, TRIAL_CONNS)
    }
}
