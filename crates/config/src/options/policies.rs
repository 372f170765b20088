//! The rows of `[policies]`: what is refused, slowed or changed of requests that users may send.

use super::OptionSpec;
use crate::kind::Kind;
use crate::policies::Policy;
use crate::values::{ALGORITHMS, TYPES};
use engine::limits::ZSTD_LEVEL_MAX;

/// The table.
pub(super) const TABLE: (&str, &str) = (
    "policies",
    "What is refused, slowed or changed of requests that users may send, in the order of these options. Each rule is a line of words; in the \
     environment and on the command line rules are separated by semicolons. See the [guide](../guides/policies.md).",
);

/// The table of `policies.values`.
pub(super) const VALUES: (&str, &str) = (
    "policies.values",
    "Values that are stored compressed or encrypted. See the [guide](../guides/values.md).",
);

/// The table of `policies.namespace`.
pub(super) const NAMESPACE: (&str, &str) = (
    "policies.namespace",
    "Keys and channels that stand behind a prefix at the servers, which clients do not see. See the [guide](../guides/namespaces.md).",
);

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "policies.rename",
        "Commands that have another name here, or none",
        "As `rename-command` in a server. Users' rules and all policies are about the real names. In the file also as a table of its own, \
         `[policies.rename]`.",
        Kind::Renames { at: |d| &mut d.config.policies.rename },
    )
    .rare(),
    OptionSpec::new(
        "policies.deny",
        "Commands that are refused",
        "Names (`keys`, `config|set`) and categories (`@dangerous`); `name=TEXT` to count it apart, `\"error=TEXT\"` for another error.",
        Kind::Rules { policy: Policy::Deny, at: |d| &mut d.config.policies.deny },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.block",
        "Commands and keys that are refused, for as long as an incident lasts",
        "`key=PATTERN`, as in `KEYS`, may stand there more than once; one key of the request must match one of them, and names of channels count as \
         keys. Without commands all are meant.",
        Kind::Rules { policy: Policy::Block, at: |d| &mut d.config.policies.block },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.read_only",
        "Refuse what writes",
        "Scripts count as writing unless they say that they do not.",
        Kind::Switch { at: |d| &mut d.config.policies.read_only },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.read_only_error",
        "The error for what writes, instead of a replica's",
        "Without a code in capitals at its begin it gets `ERR`.",
        Kind::Text { at: |d| &mut d.config.policies.read_only_error },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.size",
        "How large requests may be, in bytes or in arguments",
        "A request that is larger is refused before anything of it is given on. How large replies are is told by `bigkeys`.",
        Kind::Rules { policy: Policy::Size, at: |d| &mut d.config.policies.size },
    )
    .rare(),
    OptionSpec::new(
        "policies.own",
        "Programs of your own that look at requests, and answer, refuse or rewrite them, or say who is asked",
        "`file` is a module of WebAssembly. `fuel` (100000) is what one call may cost, roughly in instructions, `memory_max` (4MiB) what its memory may grow to; a call that \
         needs more, or fails otherwise, is cut off and counted, and its request refused, or given on with `on_failure=pass`. See the \
         [guide](../guides/own-policies.md).",
        Kind::Rules { policy: Policy::Own, at: |d| &mut d.config.policies.own },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.rate",
        "How many requests, bytes or new clients may come in a second",
        "Over all workers. `burst` is what may come at once, as much as in a second if it is not said. `per=user`, `client` or `prefix` (of the key, before its \
         first `:`) gives each its own measure, and so does `per=address` for clients with one IP address. With `delay_ms` what comes too early waits, so long at most; else it \
         gets an error. `connections=N` is about clients that come (`per=all` or `address`): one that comes too early gets an error and is closed.",
        Kind::Rules { policy: Policy::Rate, at: |d| &mut d.config.policies.rate },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.fault",
        "Requests that fail or wait on purpose, to see what applications do then",
        "`percent` of the requests; with `delay_ms` they go on later, and with `error`, or without both, they get an error.",
        Kind::Rules { policy: Policy::Fault, at: |d| &mut d.config.policies.fault },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.double_delete",
        "Keys that are deleted once more some time after somebody deleted them",
        "For caches beside a database. With other commands than `DEL` and `UNLINK` what they wrote is deleted.",
        Kind::Rules { policy: Policy::DoubleDelete, at: |d| &mut d.config.policies.double_delete },
    )
    .rare(),
    OptionSpec::for_trusted_clients(
        "policies.waiting_max",
        "Requests that wait at a time because of `rate` or `fault`, over all workers",
        "At it `rate` refuses what would have to wait, and `fault` lets it go at once. Clients of one user at one address have seven eighths of them at most.",
        Kind::Count { min: 0, max: 1_000_000, at: |d| &mut d.config.policies.waiting_max },
    )
    .rare(),
    OptionSpec::new(
        "policies.namespace.prefix",
        "What stands before all keys and channels of clients at the servers",
        "Clients name keys and channels without it, and see none that are without it. Users' rules and the other policies are about what clients say. Commands that \
         cannot be changed so are refused. When it changes, clients are closed with what they are owed.",
        Kind::Text { at: |d| &mut d.config.policies.namespace_prefix },
    )
    .rare(),
    OptionSpec::new(
        "policies.namespace.whole_database",
        "Let commands through that are about more than the namespace",
        "`FLUSHALL`, `FLUSHDB`, `SWAPDB`, `DBSIZE`, `SLOWLOG SERVER` and the like: they are done for all that the servers hold.",
        Kind::Switch { at: |d| &mut d.config.policies.namespace_whole },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.compress",
        "Keys whose values are stored compressed, as patterns",
        "As in `KEYS`, by the names that clients say. What `SET`, `MSET` and their kin write is compressed, and what `GET`, `MGET` and their kin read is as it was written; \
         values from before are read as they are. Commands that work on the bytes of such a string (`APPEND`, `INCR`, scripts) are refused. Take a pattern out only when nothing \
         compressed is left.",
        Kind::Patterns { at: |d| &mut d.config.policies.compress },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.compress_from_bytes",
        "Bytes from which on a value is compressed",
        "Smaller ones, and those that do not become smaller, are stored as they are.",
        Kind::Bytes { min: 16, max: 64 << 20, at: |d| &mut d.config.policies.compress_from_bytes },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.compress_algorithm",
        "What new values are compressed by",
        "`lz4` costs next to nothing. `zstd` makes them a third to a half smaller, in three to eight times the time. What either has made is read in any case, so it may be \
         changed at any time.",
        Kind::Choice {
            names: || &ALGORITHMS,
            set: |d, i| d.config.policies.compress_algorithm = ALGORITHMS[i],
            index: |d| ALGORITHMS.iter().position(|name| *name == d.config.policies.compress_algorithm),
        },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.compress_level",
        "How hard zstd tries",
        "Each level makes values somewhat smaller, in more time, for which all clients of a worker wait. Levels above 3 are for values that are written seldom.",
        Kind::Count {
            min: 1,
            max: ZSTD_LEVEL_MAX as usize,
            at: |d| &mut d.config.policies.compress_level,
        },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.encrypt",
        "Keys whose values are stored encrypted, as patterns",
        "As `compress`, by XChaCha20-Poly1305 with the first of `policies.values.keys`; where both match, a value is compressed before. Names of keys and fields, lengths and times \
         to live stay to be seen, and who may write at the servers can give one key another's value. Values from before are read as they are unless `encrypted_only` is set.",
        Kind::Patterns { at: |d| &mut d.config.policies.encrypt },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.keys",
        "What values are encrypted with: a name and where the key is, one line each",
        "A key is 32 bytes as 64 hexadecimal digits (`openssl rand -hex 32`). The first one encrypts; each decrypts what names it, so a new one is first put behind the one that \
         encrypts, with every respool, and then before it. Keys are read at the start and with the configuration; `key_command` is run by the shell and may take five seconds. In the \
         environment and on the command line keys are separated by semicolons.",
        Kind::SealingKeys { at: |d| &mut d.config.policies.keys },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.encrypted_only",
        "Show no value of `encrypt` that is not encrypted",
        "Else whoever may write at the servers could put values there. Reads of values from before get an error then, so write them anew before.",
        Kind::Switch { at: |d| &mut d.config.policies.encrypted_only },
    )
    .rare(),
    OptionSpec::new(
        "policies.values.types",
        "Whose values are compressed and encrypted: strings, what fields of hashes hold, or both",
        "With `hash` what `HSET` and its kin write and `HGET` and its kin read is changed as strings are; `HINCRBY`, `HINCRBYFLOAT` and `HSTRLEN` are refused.",
        Kind::Names { names: &TYPES, at: |d| &mut d.config.policies.value_types },
    )
    .rare(),
];
