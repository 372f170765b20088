//! The rows of `[mirrors]`: other deployments that get what clients write.

use super::OptionSpec;
use crate::kind::Kind;

/// The table.
pub(super) const TABLE: (&str, &str) = (
    "mirrors",
    "Other deployments that get what clients write, as when one is moved to another without a stop. See the \
     [guide](../guides/migrating-live.md).",
);

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "mirrors.targets",
        "Deployments that get what clients write: a URL, and what holds for it",
        "Each is a URL as for `upstream`, of any topology. Behind it `name=TEXT` for logs and metrics; `mode=first` (the default: \
         clients wait for the primary alone), `mode=all` (until the mirror has answered, too) or `mode=all-checked` (and an error of the mirror is the \
         reply); `keys=PATTERN`, several times if wanted, for some keys only; `percent=N` for a part of them, by the hash of the key; \
         `shadow_reads=N` to ask it what clients read in so many of a hundred reads, too, and compare what both say; \
         `password_file=PATH` and `sentinel_password_file=PATH`. A write goes to mirrors when the primary has done it, with what is random \
         or depends on the time taken from its reply. With mirrors there is one worker, unless `mirrors.across_workers` is set, and while there are some, other servers of `upstream` or `sharding` need a restart. In the environment and on the command line they are separated by \
         semicolons.",
        Kind::Mirrors { at: |d| &mut d.config.mirrors.targets },
    )
    .rare(),
    OptionSpec::new(
        "mirrors.queue_max_bytes",
        "Writes that a mirror has not answered; what does not fit is dropped and counted",
        "For each of them, in each worker, what describes a write included; those of all together have half of `limits.memory_max_bytes` at most. Writes wait here while a mirror is away. Also the largest write that mirrors get.",
        Kind::Bytes { min: 1024, max: 64 << 30, at: |d| &mut d.config.mirrors.queue_max_bytes },
    )
    .rare(),
    OptionSpec::new(
        "mirrors.across_workers",
        "Several workers with mirrors: writes of one key over two of them may reach a mirror in another order",
        "Without it `workers` is 1 while there are mirrors, and every write of a key reaches a mirror in the order in which the primary did it. \
         With it that holds for the clients of one worker: a key that clients of two workers write at the same time may end with one value at the primary and \
         with the other at the mirror, until it is written again. For keys that one client writes at a time, or more load than one worker carries.",
        Kind::Switch { at: |d| &mut d.config.mirrors.across_workers },
    )
    .rare(),
    OptionSpec::new(
        "mirrors.flush",
        "Pass FLUSHALL and FLUSHDB on to mirrors as well",
        "Without it a mirror keeps what it has when the primary is emptied.",
        Kind::Switch { at: |d| &mut d.config.mirrors.flush },
    )
    .rare(),
    OptionSpec::new(
        "mirrors.shadow_samples",
        "Show values in the report on reads that a mirror answers otherwise",
        "The report has the last such reads with their keys; with this also the begins of both replies, which are data of applications.",
        Kind::Switch { at: |d| &mut d.config.mirrors.shadow_samples },
    )
    .rare(),
    OptionSpec::new(
        "mirrors.shadow_ttl_tolerance_ms",
        "How far times to live may lie apart and still count as equal",
        "For TTL, PTTL, EXPIRETIME and their kin in reads that are compared (`shadow_reads`).",
        Kind::Time {
            unit: "milliseconds",
            min: 0,
            max: 3_600_000,
            at: |d| &mut d.config.mirrors.shadow_ttl_tolerance_ms,
        },
    )
    .rare(),
];
