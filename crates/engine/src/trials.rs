//! Trials of scripts and functions that respool has not seen to end. A connection for trials has scripts of one client at a time.
//!
//! A script may never end. Its server answers `-BUSY` to others after `busy-reply-threshold`, but nothing to requests behind it on its own connection, which may
//! be scripts without an end, too: each of these would run for as long, one after the other, where a client with a connection of its own is told `-BUSY`. So
//! while a script of another client is under way on a shared connection, a script takes a connection for trials, until one call of it was answered there
//! within [`SCRIPT_RELIEF_MS`].
//!
//! ```text
//!   EVAL a ──▶ [usual connection]           no other script is under way
//!   EVAL b ──▶ [connection for trials] ── answered soon ──▶ tried: the next EVAL b goes over the usual connection
//!                        └─ not answered ──▶ others go on over a fresh connection (`busy`), where the server answers -BUSY
//! ```
//! A script is known by its text or its digest, a function by its name, and each has its trials over one of the connections, so calls of one new script wait for its first one. A reply
//! shows that the script has ended, and so does an error that names the line of the script. Whether a script ends may depend on its arguments. If a script holds up a usual connection, respool tries
//! all scripts anew.
//!
//! A connection has the scripts of one client at a time. A client may send [`TRIAL_PIPELINE`] of them before the first is answered, since some applications write values into the texts of
//! their scripts, so that each text is new; another client that waits comes first.
//!
//! Scripts of clients with `CLIENT TRACKING` do not take the connection that tells of changed keys (`beside`), so respool tries them like scripts of other clients. A client with `NOLOOP` has a connection of its
//! own, and respool tries none of its scripts.
//!
//! Scripts in transactions are not tried: a transaction in one packet with a new script takes a dedicated connection while a script of another client is under way (`whole`).
//!
//! Other modules: `beside` has the connections, `busy` has what happens while a script runs.
//!
//! Invariant: at most [`SCRIPTS_TRIED_MAX`] scripts are known.

use crate::beside::Beside;
use crate::busy::may_take_long;
use crate::command::CommandId;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::large_replies::Fingerprint;
use crate::limits::{SCRIPT_RELIEF_MS, SCRIPTS_TRIED_MAX};
use crate::overtaken::is_script;
use crate::redirect::find_request_bytes;
use crate::time::Time;
use crate::upstream::inflight::Run;
use crate::upstream::{Lane, Role, Upstream};
use alloc::collections::BTreeSet;
use memchr::{memchr, memmem};

/// Requests of one trial: the script and its delimiter.
const TRIAL_REQUESTS: usize = 2;

/// New scripts that one client may have under way on a connection for trials.
const TRIAL_PIPELINE: usize = 16;

/// Bytes of an error line that are looked at.
const ERROR_LINE_BYTES: usize = 1_024;

/// See the module. Two sets of half the bound: when the recent one is full, it becomes the other one.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    recent: BTreeSet<Fingerprint>,
    before: BTreeSet<Fingerprint>,
}

impl Trials {
    /// The fingerprint of the script that this request calls, if no end of it was seen.
    pub(crate) fn print_if_due(
        &mut self,
        command: Option<CommandId>,
        frame: &[u8],
    ) -> Option<Fingerprint> {
        let print = print_of_script(command, frame)?;
        let is_known = self.knows(print);
        if is_known && !self.recent.contains(&print) {
            self.note(print);
        }
        (!is_known).then_some(print)
    }

    /// Whether this request calls a script of which no end was seen. The look does not count as a use of the script.
    pub(crate) fn would_be_due(&self, command: CommandId, frame: &[u8]) -> bool {
        print_of_script(Some(command), frame).is_some_and(|print| !self.knows(print))
    }

    fn knows(&self, print: Fingerprint) -> bool {
        self.recent.contains(&print) || self.before.contains(&print)
    }

    /// All scripts are tried anew.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    fn note(&mut self, print: Fingerprint) {
        if self.recent.len() >= SCRIPTS_TRIED_MAX / 2 {
            self.before = core::mem::take(&mut self.recent);
        }
        self.recent.insert(print);
    }
}

fn print_of_script(command: Option<CommandId>, frame: &[u8]) -> Option<Fingerprint> {
    let command = command.filter(|_| is_script(command))?;
    Fingerprint::of(Some(command), frame)
}

/// Whether a reply with this first line shows that the script in the request has ended. Errors of a running script name the script and the line (`script: …, on @user_script:1`, Redis 7.0;
/// `@user_script:1: …`, 6.2), and so does the error of a script that was killed. Other errors may be refusals without a run of the script.
fn shows_an_end(line: &[u8]) -> bool {
    let has = |text: &[u8]| memmem::find(line, text).is_some();
    !line.starts_with(b"-") || has(b"script:") && !has(b"killed by user")
}

impl Upstream {
    /// Whether the one script on trial here has ended, and the rest of its reply is to come: one more request may be sent behind, so that its client does
    /// not depend on the client that takes the reply.
    #[cold]
    pub(crate) fn has_ended_trial(&self) -> bool {
        self.key.beside().is_trial() && self.forwarded > 0 && self.inflight.len() <= TRIAL_REQUESTS
    }
}

impl Engine {
    /// A request whose reply may hold line breaks was written last to this connection: it may be a script.
    pub(crate) fn note_script_sent(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let last = upstream.inflight.back().filter(|run| may_take_long(run.command));
        let Some(client) = last.map(|run| self.client_of(run.owner)) else { return };
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.last_script = Some((client, upstream.inflight.end()));
        }
    }

    /// The fingerprint of the script in this request of a client, if it is to be tried.
    pub(crate) fn print_on_trial(
        &mut self,
        client: ClientId,
        command: Option<CommandId>,
        frame: &[u8],
    ) -> Option<Fingerprint> {
        if self.clients.get(client)?.has_own() {
            return None;
        }
        let print = self.grants.trials.print_if_due(command, frame)?;
        self.others_run_scripts(client).then_some(print)
    }

    /// Whether a script of another client is under way on a shared connection, which may be retired.
    pub(crate) fn others_run_scripts(&self, client: ClientId) -> bool {
        let is_shared = |up: &Upstream| {
            let lane = matches!(up.key.lane, Lane::Shared | Lane::Tracked | Lane::Broadcast);
            lane && matches!(up.role, Role::Shared | Role::Retired)
        };
        let runs_others = |up: &Upstream| {
            up.last_script.is_some_and(|(id, end)| id != Some(client) && up.inflight.place() < end)
        };
        self.upstreams.iter().any(|(_, up)| runs_others(up) && is_shared(up))
    }

    /// The reply to the front request of this connection begins so: if it is that to a script on trial, the script may have ended.
    pub(crate) fn note_trial(&mut self, now: Time, id: UpstreamId, run: &Run, reply: &[u8]) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        if !upstream.key.beside().is_trial() {
            return;
        }
        if upstream.has_ended_trial() && !upstream.waiters.is_empty() {
            self.note_room(id);
        }
        self.note_tried(now, id, run, reply);
    }

    fn note_tried(&mut self, now: Time, id: UpstreamId, run: &Run, reply: &[u8]) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        if now >= run.sent_at.plus_ms(SCRIPT_RELIEF_MS) || upstream.forwarded > 0 {
            return;
        }
        let request = find_request_bytes(upstream, run, run.done);
        let print = request.and_then(|(_, request)| print_of_script(run.command, request));
        let line = &reply[..memchr(b'\r', reply).unwrap_or(reply.len()).min(ERROR_LINE_BYTES)];
        if let Some(print) = print.filter(|_| shows_an_end(line)) {
            self.grants.trials.note(print);
        }
    }

    /// Whether this is a connection for trials that takes one more script of a client whose scripts are on trial there already.
    #[cold]
    pub(crate) fn takes_more(&self, id: UpstreamId, client: ClientId) -> bool {
        let high = self.settings.limits.upstream_out_high_bytes;
        self.upstreams.get(id).is_some_and(|up| {
            up.key.beside().is_trial()
                && up.is_ready()
                && up.waiters.is_empty()
                && up.last_script.is_some_and(|(last, _)| last == Some(client))
                && up.inflight.len() < TRIAL_PIPELINE * TRIAL_REQUESTS
                && up.has_room_for_bytes(high)
        })
    }

    /// A script holds others up on this connection. On a usual connection, respool thought that this script ends, so it forgets all scripts.
    pub(crate) fn try_scripts_anew(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        if upstream.key.beside() == Beside::No {
            self.grants.trials.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ids::{EVAL, FCALL, GET};
    use alloc::format;

    fn eval(text: &str) -> alloc::string::String {
        format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{text}\r\n$1\r\n0\r\n", text.len())
    }

    #[test]
    fn a_script_is_due_until_it_is_noted_and_other_commands_never_are() {
        let mut trials = Trials::default();
        let (one, two) = (eval("return 1"), eval("return 2"));
        let due = |trials: &mut Trials, command, frame: &str| {
            trials.print_if_due(command, frame.as_bytes()).is_some()
        };
        assert!(due(&mut trials, Some(EVAL), &one));
        trials.note(print_of_script(Some(EVAL), one.as_bytes()).expect("a script"));
        assert!(!due(&mut trials, Some(EVAL), &one));
        assert!(due(&mut trials, Some(EVAL), &two) && due(&mut trials, Some(FCALL), &one));
        assert!(!due(&mut trials, Some(GET), &one) && !due(&mut trials, None, &two));
        trials.forget();
        assert!(trials.would_be_due(EVAL, one.as_bytes()));
    }

    #[test]
    fn scripts_in_use_stay_known_among_any_number_of_others() {
        let mut trials = Trials::default();
        let used = eval("return 'used'");
        for number in 0..3 * SCRIPTS_TRIED_MAX {
            if let Some(print) = trials.print_if_due(Some(EVAL), used.as_bytes()) {
                assert_eq!(number, 0, "forgotten");
                trials.note(print);
            }
            let other = eval(&format!("return {number}"));
            let print = trials.print_if_due(Some(EVAL), other.as_bytes());
            trials.note(print.expect("a new script"));
            assert!(trials.recent.len() + trials.before.len() <= SCRIPTS_TRIED_MAX);
        }
    }

    // Lines of Redis 6.2, 7.0 and 8.2 and of Valkey 8.1 and 9.1.
    #[test]
    fn errors_of_a_running_script_show_its_end_and_errors_before_it_do_not() {
        for line in [
            "+OK",
            "$-1",
            "-ERR user_script:1: x script: 1a2b, on @user_script:1.",
            "-ERR Error running script (call to f_1a2b): @user_script:1: user_script:1: x ",
            "-NOPERM ACL failure in script: User ann has no permissions to access the 'a' key",
            "-ERR Error compiling script (new function): user_script:1: '=' expected near '<eof>'",
        ] {
            assert!(shows_an_end(line.as_bytes()), "{line}");
        }
        for line in [
            "-NOSCRIPT No matching script. Please use EVAL.",
            "-ERR Number of keys can't be greater than number of args",
            "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "-ERR Error running script (call to f_1a2b): @user_script:1: Script killed by user with SCRIPT KILL... ",
            "-ERR Script killed by user with SCRIPT KILL. script: 1a2b, on @user_script:1.",
        ] {
            assert!(!shows_an_end(line.as_bytes()), "{line}");
        }
    }
}
