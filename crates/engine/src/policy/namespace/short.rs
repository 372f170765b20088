//! Plain requests in a namespace on their short way: their keys get the prefix on the way from the client's input to the upstream's output.
//!
//! ```text
//!   input:  *2 $3 GET $1 k  *2 $3 GET $1 l          words:  *2 $3 GET $3 t:k  *2 $3 GET $3 t:l  ─▶ one copy, one run
//! ```
//! A loop of its own beside `Engine::forward_run`, so that that one is as it was where there is no namespace. What needs a second look, or a change of its
//! reply, is left to the long way (`policy::change`), which would make the same of these requests.
//!
//! Not here: which commands have nothing but keys to change (`rows`).
//!
//! Invariant: what goes on has all its keys behind the prefix, and nothing else changed.

use super::super::outward::Shape;
use super::{Namespace, Within};
use crate::client::Access;
use crate::command::{self, CommandId, KeyFlags};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::permit::{allows, charge};
use crate::plain::{Parts, PlainRun, ShortPaths, ShortReads, plain_command};
use crate::policy::Kind;
use crate::request::{request_limits, room};
use crate::time::Time;
use alloc::vec::Vec;
use core::ops::Range;
use resp::{Args, Scan, encode};

impl Engine {
    /// Gives plain requests on, from the begin of `input`, in the servers' words. How many bytes of it are done with.
    #[inline(never)]
    pub(crate) fn forward_prefixed(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let mut words = self.pool.take();
        let used = self.prefixed_run(now, id, input, &mut words);
        self.pool.give(words);
        used
    }

    fn prefixed_run(
        &mut self,
        now: Time,
        id: ClientId,
        input: &[u8],
        words: &mut Vec<u8>,
    ) -> usize {
        let reads = ShortReads::of(&self.settings.reads, &self.router);
        let short = self.pause.is_none() && self.watches.is_empty();
        let Self {
            clients,
            upstreams,
            pool,
            stats,
            dirty_upstreams,
            settings,
            router,
            nodes,
            bigkeys,
            elsewhere,
            grants,
            ..
        } = self;
        let policies = settings.policies.as_deref();
        let namespace = policies.and_then(|policies| policies.rules().namespace.as_ref());
        let client = clients.get_mut(id).filter(|one| short && one.is_plain_with(Access::Confined));
        let (Some(namespace), Some(client)) = (namespace, client) else { return 0 };
        let paths = ShortPaths::of(
            client,
            router,
            nodes,
            self.route_epoch,
            reads,
            Some(&grants.large_replies),
        );
        let Some(paths) = paths else { return 0 };
        let (limits, request_limits) = (&settings.limits, request_limits(client, &settings.limits));
        let mut left = room(client, limits, &grants.speed);
        let mut parts = Parts { id, client, now, limits, upstreams, pool, stats, dirty_upstreams };
        let (mut run, mut pos) = (PlainRun::default(), 0);
        while left > 0
            && let Some(rest) = input.get(pos..).filter(|rest| !rest.is_empty())
            && let Ok(Scan::Complete { frame: request, .. }) =
                parts.client.scanner.scan(rest, &request_limits)
            && let Some(frame) = rest.get(..request.len as usize)
            && let Some(command) = plain_command(&request, frame, bigkeys, || {
                run.holds(&parts, &grants.speed, request.len)
            })
            && paths.tells_upstream_of(command)
            && allows(settings, &parts, command, (&request, frame), &[Kind::Namespace])
        {
            let at = words.len();
            let key = namespace.prefix_keys(command, frame, words).filter(|_| {
                // Read targets know the servers' words, as on the long way.
                !elsewhere.as_mut().is_some_and(|other| other.wants(now, command, &words[at..]))
            });
            let upstream = key.and_then(|key| paths.upstream_of(command, &words[key]));
            if !upstream.is_some_and(|one| run.take(&mut parts, one, command, &words[..at])) {
                words.truncate(at);
                break;
            }
            charge::<true>(settings, &parts, command, &request, frame);
            left -= 1;
            pos += frame.len();
        }
        run.write(&mut parts, words);
        pos
    }
}

impl Namespace {
    /// Writes a request with its keys behind the prefix; where the first of them stands in `out` then. `None`: more is to be changed than keys that
    /// the command table finds, or it has none, and what was written is to be forgotten.
    pub(super) fn prefix_keys(
        &self,
        command: CommandId,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Range<usize>> {
        if self.rows[command.index()] != Within::Keys(Shape::None) {
            return None;
        }
        let (mut copied, mut first, mut fits) = (0, None, true);
        command::keys(command.row(), Args::new(frame), |_, key, flags| {
            // Where the key stands, by its address: it is a part of the frame.
            let start = (key.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
            let before = frame.get(copied..start);
            let head = before.and_then(|before| memchr::memrchr(b'$', before));
            let (Some(before), Some(head)) = (before, head) else {
                // Keys that are not told in their order.
                return fits = false;
            };
            fits &= !flags.has(KeyFlags::NOT_KEY) && !flags.has(KeyFlags::INCOMPLETE);
            out.extend_from_slice(&before[..head]);
            encode::bulk_head(out, self.prefix.len() + key.len());
            let from = out.len();
            out.extend_from_slice(&self.prefix);
            out.extend_from_slice(key);
            first.get_or_insert(from..out.len());
            copied = start + key.len();
        });
        out.extend_from_slice(&frame[copied..]);
        first.filter(|_| fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::lookup;
    use alloc::borrow::Cow;
    use proptest::prelude::*;

    /// Calls that have nothing but keys to change, each with what may stand in it.
    const CALLS: [&str; 10] = [
        "get a",
        "set a b EX 10",
        "mget a b c",
        "mset a 1 b 2",
        "del a b",
        "zunionstore a 2 b c WEIGHTS 1 2",
        "bitop AND a b c",
        "lmove a b LEFT RIGHT",
        "hset a f v",
        "geosearchstore a b FROMMEMBER m BYRADIUS 1 m",
    ];

    proptest! {
        /// The short way says the same as the long one.
        #[test]
        fn both_ways_say_the_same(
            call in proptest::sample::select(&CALLS[..]),
            fillings in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 3),
        ) {
            let namespace = Namespace::new(b"team-a:", false).unwrap();
            let letters = ["a", "b", "c"];
            let args: Vec<&[u8]> = call
                .split(' ')
                .map(|word| letters.iter().position(|letter| *letter == word).map_or(word.as_bytes(), |at| &fillings[at]))
                .collect();
            let (mut frame, mut short) = (Vec::new(), b"before".to_vec());
            encode::request(&mut frame, &args);
            let command = lookup(args[0]).unwrap();
            let key = namespace.prefix_keys(command, &frame, &mut short);
            let long = namespace.inward(Some(command), &args, None).unwrap();
            let words: Vec<&[u8]> = long.args.iter().map(Cow::as_ref).collect();
            let mut whole = b"before".to_vec();
            encode::request(&mut whole, &words);
            let key = key.expect("nothing but keys is to be changed");
            prop_assert_eq!(&short, &whole);
            prop_assert_eq!(&long.shape, &Shape::None);
            prop_assert!(words.contains(&&short[key]));
        }
    }

    #[test]
    fn what_tells_names_is_left_to_the_long_way() {
        let namespace = Namespace::new(b"t:", false).unwrap();
        let key = |call: &str| {
            let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
            let (mut frame, mut out) = (Vec::new(), Vec::new());
            encode::request(&mut frame, &args);
            namespace
                .prefix_keys(lookup(args[0]).unwrap(), &frame, &mut out)
                .map(|key| out[key].to_vec())
        };
        assert_eq!(key("get k").as_deref(), Some(&b"t:k"[..]));
        assert_eq!(key("mget k l").as_deref(), Some(&b"t:k"[..]));
        for call in
            ["lmpop 2 a b LEFT", "sort a", "keys *", "scan 0", "xinfo stream s", "dbsize", "ping"]
        {
            assert_eq!(key(call), None, "{call}");
        }
    }
}
