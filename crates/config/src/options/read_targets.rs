//! The rows of `[read_targets]`: other deployments that answer what clients read.

use super::OptionSpec;
use crate::kind::Kind;
use engine::elsewhere::Order;

/// The table.
pub(super) const TABLE: (&str, &str) = (
    "read_targets",
    "Other deployments that answer what clients read. What is read there may be older than what was written. See the \
     [guide](../guides/reads-elsewhere.md).",
);

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "read_targets.targets",
        "Deployments that answer what clients read: a URL, and what holds for it",
        "Each is a URL as for `upstream`, of any topology. Behind it `name=TEXT` for logs and metrics, `password_file=PATH` and \
         `sentinel_password_file=PATH`. Reads go there that name their keys, outside of transactions; what a target does not answer, another one or the \
         upstream does. In the environment and on the command line they are separated by semicolons.",
        Kind::ReadTargets { at: |d| &mut d.config.read_targets.targets },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.order",
        "Who is asked first",
        "`targets`: the targets as they stand, and the upstream when none of them answers. `random`: a target by chance, then the others, then the upstream. \
         `main`: the upstream, and targets when it cannot answer.",
        Kind::Choice {
            names: || &Order::NAMES,
            set: |d, i| d.config.read_targets.order = Order::ALL[i],
            index: |d| Some(d.config.read_targets.order as usize),
        },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.keys",
        "Which keys are read there; none: all",
        "Of a read with several keys all must fit.",
        Kind::Patterns { at: |d| &mut d.config.read_targets.keys },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.percent",
        "Of a hundred such reads so many",
        "Which ones is left to chance, so the same key is read here and there.",
        Kind::Count { min: 1, max: 100, at: |d| &mut d.config.read_targets.percent },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.hot_per_s",
        "Only keys that a worker is asked for so often in a second; 0: all",
        "Each worker counts for itself what its clients read. A key is read there as long as it comes so often, and for one second more.",
        Kind::Count { min: 0, max: 1_000_000, at: |d| &mut d.config.read_targets.hot_per_s },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.timeout_ms",
        "After this time without an answer somebody else is asked",
        "A target that gave no answer in time is left out until it answers again.",
        Kind::Time {
            unit: "milliseconds",
            min: 1,
            max: 60_000,
            at: |d| &mut d.config.read_targets.timeout_ms,
        },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.hedge_after_ms",
        "With `order = \"main\"`: ask a target, too, when the upstream takes so long; 0: do not",
        "The first answer counts. Choose what few reads take, as the 99th percentile of `INFO latencystats`.",
        Kind::Time {
            unit: "milliseconds",
            min: 0,
            max: 60_000,
            at: |d| &mut d.config.read_targets.hedge_after_ms,
        },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.hedge_percent",
        "Of a hundred reads at most so many are asked twice for that",
        "Else a slow upstream would bring twice the load to the targets. Those beyond wait for the upstream, until `read_targets.timeout_ms`.",
        Kind::Count { min: 1, max: 100, at: |d| &mut d.config.read_targets.hedge_percent },
    )
    .rare(),
    OptionSpec::new(
        "read_targets.inflight_max_bytes",
        "Reads that a target has not answered; what does not fit is asked of somebody else",
        "For each target and worker; bytes of requests.",
        Kind::Bytes {
            min: 1024,
            max: 1 << 30,
            at: |d| &mut d.config.read_targets.inflight_max_bytes,
        },
    )
    .rare(),
];
