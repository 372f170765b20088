//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO.
//!
//! Checks and texts are those of Redis' `clientCommand` (networking.c) and `checkPrefixCollisionsOrReply` (tracking.c).
//!
//! Not here: what becomes of it (`tracking`).
//!
//! Invariant: tracking begins and ends while nothing of the client is under way, since its requests take other connections then.

use super::prefixes::{first_overlap, overlapping};
use super::{Name, PREFIX_BYTES, Tracking};
use crate::client::Hold;
use crate::command::word;
use crate::engine::Engine;
use crate::fleet::{Answer, Asked, Purpose, Question};
use crate::ids::ClientId;
use crate::limits::{PREFIX_STEPS, SLOW_TURN_LARGE_ARGS};
use crate::local::Call;
use crate::reject;
use crate::request::Step;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::{Protocol, encode, number};

impl Engine {
    /// CLIENT TRACKING on|off …
    pub(crate) fn client_tracking(&mut self, now: Time, call: &Call<'_>) -> Step {
        let wanted = match self.tracking_options(call) {
            Ok(wanted) => wanted,
            Err(text) => return self.refuse(call, &text),
        };
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        // With EXEC its own place is open, and nothing behind that.
        if client.places.open() > 0 && call.inside.is_none() {
            return Step::Hold(Hold::Drained);
        }
        if client.tracking.as_ref().is_some_and(|tracking| tracking.beginning) {
            return self.tracking_began(now, call);
        }
        let word = call.args[2];
        if word::is(word, b"off") {
            self.end_tracking(call.id);
            return self.ok(call);
        }
        if !word::is(word, b"on") {
            return self.refuse(call, reject::SYNTAX);
        }
        if let Err(text) = fits(client.tracking.as_deref(), &wanted, self.name_prefix().len()) {
            return self.refuse(call, &text);
        }
        if wanted.owner.is_some()
            && let Err(text) = self.room_for_own(call.id, wanted.redirect != 0)
        {
            return self.refuse(call, text);
        }
        if wanted.broadcast
            && wanted.owner.is_none()
            && let Err(text) = self.room_for_feed(call.id)
        {
            return self.refuse(call, text);
        }
        if wanted.redirect == 0 || self.is_here(wanted.redirect) {
            self.begin_tracking(Some(now), call.id, wanted);
            self.pay_for_prefixes(call);
            return self.tracking_began(now, call);
        }
        if self.settings.workers < 2 {
            return self.refuse(call, reject::REDIRECT_NOBODY);
        }
        let question = Question::List {
            ids: Some(alloc::vec![wanted.redirect]),
            listens: None,
            listener: false,
        };
        let step = self.ask(call, question, Purpose::Track(Box::new(wanted)));
        self.hold_for_answers(call.id);
        step
    }

    /// It is answered as soon as the servers tell of changes: what another client changes after the answer, this one hears of.
    fn tracking_began(&mut self, now: Time, call: &Call<'_>) -> Step {
        let by_reads = |own: &Tracking| !own.broadcast;
        let tracking = self.clients.get(call.id).and_then(|client| client.tracking.as_deref());
        let waits = match call.inside.is_some() || tracking.is_none_or(by_reads) {
            true => None,
            false => self.wait_for_feed(now, call.id),
        };
        let tracking = self.clients.get_mut(call.id).and_then(|client| client.tracking.as_mut());
        if let Some(tracking) = tracking {
            tracking.beginning = waits.is_some();
        }
        waits.unwrap_or_else(|| self.ok(call))
    }

    fn is_here(&self, number: u64) -> bool {
        self.client_numbered(number).is_some()
    }

    /// All workers said whether they have the client that was named.
    pub(crate) fn track_to(&mut self, id: ClientId, wanted: Tracking, answers: &[Answer]) -> bool {
        let found = answers
            .iter()
            .any(|answer| matches!(answer, Answer::Lines(lines) if !lines.is_empty()));
        if found {
            self.begin_tracking(None, id, wanted);
        }
        found
    }

    /// CLIENT TRACKING that had to find a client of another worker: its place is taken, so it is answered when the wait is over, and not looked at
    /// once more.
    pub(crate) fn answer_when_told(&mut self, now: Time, asked: Asked) {
        let tracking = self.clients.get(asked.client).and_then(|client| client.tracking.as_ref());
        match asked.inside.is_none() && tracking.is_some_and(|tracking| tracking.broadcast) {
            true => self.caches.begun.push(asked),
            false => self.answer_asked(now, asked, b"+OK\r\n"),
        }
    }

    /// Answers those that need not wait any more.
    pub(super) fn answer_begun(&mut self, now: Time) {
        for asked in core::mem::take(&mut self.caches.begun) {
            match self.wait_for_feed(now, asked.client) {
                Some(_) => self.caches.begun.push(asked),
                None => self.answer_asked(now, asked, b"+OK\r\n"),
            }
        }
    }

    fn tracking_options(&self, call: &Call<'_>) -> Result<Tracking, String> {
        let mut wanted = Tracking::default();
        let mut prefixes: Vec<&[u8]> = Vec::new();
        let mut options = call.args[3..].iter();
        while let Some(option) = options.next() {
            match &*word::lower(option) {
                b"redirect" if !options.as_slice().is_empty() => {
                    if wanted.redirect != 0 {
                        return Err(reject::REDIRECT_ONE.into());
                    }
                    let number = options.next().and_then(|text| number::parse_i64(text));
                    let number = number.ok_or_else(|| String::from(reject::NOT_AN_INTEGER))?;
                    let number = u64::try_from(number).ok().filter(|number| *number > 0);
                    wanted.redirect =
                        number.ok_or_else(|| String::from(reject::REDIRECT_NOBODY))?;
                }
                b"bcast" => wanted.broadcast = true,
                b"optin" => wanted.opt_in = true,
                b"optout" => wanted.opt_out = true,
                b"noloop" => wanted.owner = Some(call.id),
                b"prefix" if !options.as_slice().is_empty() => {
                    prefixes.extend(options.next().copied());
                }
                _ => return Err(reject::SYNTAX.into()),
            }
        }
        if word::is(call.args[2], b"on") {
            if !wanted.broadcast && !prefixes.is_empty() {
                return Err(reject::PREFIX_WITHOUT_BCAST.into());
            }
            if let Some((one, other)) = first_overlap(&prefixes) {
                let [one, other] = [one, other].map(|name| self.outward_name(name));
                return Err(reject::prefixes_overlap(one, "another provided", other));
            }
            wanted.prefixes = prefixes.iter().map(|prefix| Arc::from(*prefix)).collect();
        }
        Ok(wanted)
    }

    /// Each prefix of the client was looked at for the connections by which it hears, not only the new ones.
    fn pay_for_prefixes(&mut self, call: &Call<'_>) {
        let tracking = self.clients.get(call.id).and_then(|client| client.tracking.as_ref());
        let steps = tracking.map_or(0, |tracking| tracking.prefixes.len() * PREFIX_STEPS);
        let args = if call.inside.is_some() { SLOW_TURN_LARGE_ARGS } else { call.args.len() };
        self.grants.slow.pay_steps(args, steps);
    }

    fn begin_tracking(&mut self, now: Option<Time>, id: ClientId, mut wanted: Tracking) {
        let all = Arc::from(self.name_prefix());
        let Some(client) = self.clients.get_mut(id) else { return };
        if wanted.broadcast && wanted.prefixes.is_empty() {
            wanted.prefixes.insert(all);
        }
        let before = client.ear();
        let mut added = wanted.prefixes.clone();
        if let Some(mut own) = client.tracking.take() {
            added.retain(|prefix| !own.prefixes.contains(prefix));
            let mut prefixes = core::mem::take(&mut own.prefixes);
            prefixes.extend(wanted.prefixes);
            let Tracking { broadcast, opt_in, opt_out, owner, redirect, .. } = wanted;
            let (broken, covered_in) = (false, None);
            wanted = Tracking {
                broadcast,
                opt_in,
                opt_out,
                owner,
                redirect,
                prefixes,
                broken,
                covered_in,
                ..*own
            };
        }
        let bytes = |prefix: &Name| prefix.len() + PREFIX_BYTES;
        wanted.prefixes_bytes = wanted.prefixes.iter().map(bytes).sum();
        let has_own = wanted.owner.is_some();
        let in_resp2 = client.protocol == Protocol::Resp2;
        let broadcast = wanted.broadcast || (in_resp2 && wanted.redirect != 0 && !has_own);
        client.tracking = Some(Box::new(wanted));
        self.caches.clients.insert(id);
        if broadcast {
            self.caches.broadcast.insert(id);
        }
        self.take_ear(id, before);
        self.take_other_connections(id);
        if !broadcast {
            if !has_own {
                self.leave_own(id, None);
            }
            return;
        }
        // At once: its next request may stand right behind this one.
        match now {
            Some(now) => {
                let added: Vec<Name> = added.into_iter().collect();
                self.add_own_prefixes(now, id, &added);
                self.renew_feed_for(now, id);
            }
            None => drop(self.caches.changed.insert(id)),
        }
    }

    /// The client caches nothing any more.
    pub(crate) fn end_tracking(&mut self, id: ClientId) {
        let tracking = self.clients.get_mut(id).and_then(|client| client.tracking.take());
        if tracking.is_none() {
            return;
        }
        self.caches.clients.remove(&id);
        self.caches.left |= self.caches.broadcast.remove(&id);
        self.caches.changed.remove(&id);
        self.take_other_connections(id);
        self.leave_own(id, None);
    }

    /// Its next request looks for its connection anew.
    pub(crate) fn take_other_connections(&mut self, id: ClientId) {
        let epoch = self.route_epoch;
        if let Some(client) = self.clients.get_mut(id) {
            client.upstream = None;
            client.route_epoch = epoch.wrapping_sub(1);
        }
    }

    /// CLIENT CACHING yes|no.
    pub(crate) fn client_caching(&mut self, call: &Call<'_>) -> Step {
        let Some(client) = self.clients.get_mut(call.id) else { return Step::Gone };
        let Some(tracking) = client.tracking.as_mut() else {
            return self.refuse(call, reject::TRACKING_NEEDED);
        };
        match &*word::lower(call.args[2]) {
            b"yes" if tracking.opt_in => tracking.caching = true,
            b"yes" => return self.refuse(call, reject::CACHING_YES),
            b"no" if tracking.opt_out => tracking.caching = true,
            b"no" => return self.refuse(call, reject::CACHING_NO),
            _ => return self.refuse(call, reject::SYNTAX),
        }
        self.ok(call)
    }

    /// The number that CLIENT GETREDIR answers.
    pub(crate) fn redirected_to(&self, id: ClientId) -> i64 {
        let tracking = self.clients.get(id).and_then(|client| client.tracking.as_ref());
        tracking.map_or(-1, |tracking| tracking.redirect as i64)
    }

    /// CLIENT TRACKINGINFO.
    pub(crate) fn client_trackinginfo(&mut self, call: &Call<'_>, protocol: Protocol) -> Step {
        let redirect = self.redirected_to(call.id);
        let tracking = self.clients.get(call.id).and_then(|client| client.tracking.as_deref());
        let none = Tracking::default();
        let own = tracking.unwrap_or(&none);
        let flags = [
            (tracking.is_some(), &b"on"[..]),
            (tracking.is_none(), b"off"),
            (own.broadcast, b"bcast"),
            (own.opt_in, b"optin"),
            (own.opt_in && own.caching, b"caching-yes"),
            (own.opt_out, b"optout"),
            (own.opt_out && own.caching, b"caching-no"),
            (own.owner.is_some(), b"noloop"),
            (own.broken, b"broken_redirect"),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        let flags: Vec<&[u8]> = flags.map(|(_, flag)| flag).collect();
        let shown = own.prefixes.iter().map(|prefix| self.outward_name(prefix).to_vec());
        let prefixes: Vec<Vec<u8>> = shown.collect();
        self.say(call, |out| {
            encode::map(out, 3, protocol);
            encode::bulk(out, b"flags");
            encode::set(out, flags.len(), protocol);
            flags.iter().for_each(|flag| encode::bulk(out, flag));
            encode::bulk(out, b"redirect");
            encode::integer(out, redirect);
            encode::bulk(out, b"prefixes");
            encode::array(out, prefixes.len());
            prefixes.iter().for_each(|prefix| encode::bulk(out, prefix));
        })
    }
}

/// Whether what is wanted goes with what the client has.
/// `hidden`: so much of a prefix is not the client's.
fn fits(before: Option<&Tracking>, wanted: &Tracking, hidden: usize) -> Result<(), String> {
    if before.is_some_and(|before| before.broadcast != wanted.broadcast) {
        return Err(reject::SWITCH_BCAST.into());
    }
    if wanted.broadcast && (wanted.opt_in || wanted.opt_out) {
        return Err(reject::OPT_WITH_BCAST.into());
    }
    if wanted.opt_in && wanted.opt_out {
        return Err(reject::OPT_BOTH.into());
    }
    let Some(before) = before else { return Ok(()) };
    if (wanted.opt_in && before.opt_out) || (wanted.opt_out && before.opt_in) {
        return Err(reject::SWITCH_OPT.into());
    }
    for one in &wanted.prefixes {
        if let Some(other) = overlapping(&before.prefixes, one) {
            let [one, other] = [one, other].map(|name| name.get(hidden..).unwrap_or_default());
            return Err(reject::prefixes_overlap(one, "an existing", other));
        }
    }
    Ok(())
}
