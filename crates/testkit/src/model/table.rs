//! The commands that the model knows, as data, and what COMMAND tells about them.
//!
//! A row says what the server's own table says; the shape of COMMAND's reply (flags as sets of
//! simple strings, key specs as maps) is that of Redis 7.0 and later, so that the proxy can learn
//! from the model as it learns from a server.
//!
//! Invariant: rows are sorted by name, and every row has a handler.

use resp::encode;

use resp::Protocol;

use super::{Call, blocking, connection, data, iterate, pubsub, tracking, transaction};

/// One command.
pub(super) struct Row {
    name: &'static str,
    /// Number of arguments with the name; negative: at least that many.
    arity: i32,
    flags: &'static [&'static str],
    /// First key, last key (negative: from the end), step; zeros for none.
    keys: [i64; 3],
    tips: &'static [&'static str],
    run: fn(&mut Call<'_>),
}

const fn row(
    name: &'static str,
    arity: i32,
    flags: &'static [&'static str],
    keys: [i64; 3],
    run: fn(&mut Call<'_>),
) -> Row {
    Row { name, arity, flags, keys, tips: &[], run }
}

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const PLAIN: &[&str] = &["fast"];
const CONNECTION: &[&str] = &["noscript", "loading", "stale", "fast"];
/// As [`CONNECTION`], and allowed before authentication.
const OPEN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];
const LISTEN: &[&str] = &["pubsub", "noscript", "loading", "stale"];
const PUBLISH: &[&str] = &["pubsub", "loading", "stale", "fast"];
const NO_KEY: [i64; 3] = [0, 0, 0];
const ONE_KEY: [i64; 3] = [1, 1, 1];
const ALL_KEYS: [i64; 3] = [1, -1, 1];

static ROWS: &[Row] = &[
    row("append", 3, WRITE, ONE_KEY, data::append),
    row("auth", -2, OPEN, NO_KEY, connection::auth),
    row("blpop", -3, &["write", "noscript", "blocking"], [1, -2, 1], blocking::blpop),
    row("client", -2, CONNECTION, NO_KEY, connection::client),
    row("command", -1, &["loading", "stale"], NO_KEY, command),
    row("dbsize", 1, READ, NO_KEY, iterate::dbsize),
    row("decr", 2, WRITE, ONE_KEY, data::decr),
    row("decrby", 3, WRITE, ONE_KEY, data::decrby),
    Row {
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..row("del", -2, &["write"], ALL_KEYS, data::del)
    },
    row("discard", 1, CONNECTION, NO_KEY, transaction::discard),
    row("echo", 2, &["loading", "stale", "fast"], NO_KEY, data::echo),
    row("eval", -3, &["write", "noscript", "stale"], [3, 3, 1], data::eval),
    row("exec", 1, CONNECTION, NO_KEY, transaction::exec),
    Row {
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..row("exists", -2, READ, ALL_KEYS, data::exists)
    },
    row("flushall", -1, &["write"], NO_KEY, data::flushall),
    row("flushdb", -1, &["write"], NO_KEY, data::flushdb),
    row("get", 2, READ, ONE_KEY, data::get),
    row("hello", -1, OPEN, NO_KEY, connection::hello),
    row("incr", 2, WRITE, ONE_KEY, data::incr),
    row("incrby", 3, WRITE, ONE_KEY, data::incrby),
    row("info", -1, &["loading", "stale"], NO_KEY, connection::info),
    row("keys", 2, &["readonly"], NO_KEY, iterate::keys),
    row("llen", 2, READ, ONE_KEY, data::llen),
    row("lpush", -3, WRITE, ONE_KEY, data::lpush),
    row("lrem", 4, &["write"], ONE_KEY, data::lrem),
    Row { tips: &["request_policy:multi_shard"], ..row("mget", -2, READ, ALL_KEYS, data::mget) },
    Row {
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        ..row("mset", -3, &["write", "denyoom"], [1, -1, 2], data::mset)
    },
    row("multi", 1, CONNECTION, NO_KEY, transaction::multi),
    row("ping", -1, PLAIN, NO_KEY, connection::ping),
    row("psubscribe", -2, LISTEN, NO_KEY, pubsub::psubscribe),
    row("publish", 3, PUBLISH, NO_KEY, pubsub::publish),
    row("punsubscribe", -1, LISTEN, NO_KEY, pubsub::punsubscribe),
    row("quit", -1, OPEN, NO_KEY, connection::quit),
    row("randomkey", 1, &["readonly"], NO_KEY, iterate::randomkey),
    row("reset", 1, OPEN, NO_KEY, connection::reset),
    row("role", 1, CONNECTION, NO_KEY, connection::role),
    row("rpush", -3, WRITE, ONE_KEY, data::rpush),
    row("scan", -2, &["readonly"], NO_KEY, iterate::scan),
    row("select", 2, &["loading", "stale", "fast"], NO_KEY, connection::select),
    row("set", -3, &["write", "denyoom"], ONE_KEY, data::set),
    row("spublish", 3, PUBLISH, ONE_KEY, pubsub::spublish),
    row("ssubscribe", -2, LISTEN, ALL_KEYS, pubsub::ssubscribe),
    row("strlen", 2, READ, ONE_KEY, data::strlen),
    row("subscribe", -2, LISTEN, NO_KEY, pubsub::subscribe),
    row("sunsubscribe", -1, LISTEN, ALL_KEYS, pubsub::sunsubscribe),
    row("time", 1, &["loading", "stale", "fast"], NO_KEY, connection::time),
    Row {
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..row("touch", -2, READ, ALL_KEYS, data::exists)
    },
    Row {
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..row("unlink", -2, &["write", "fast"], ALL_KEYS, data::del)
    },
    row("unsubscribe", -1, LISTEN, NO_KEY, pubsub::unsubscribe),
    row("unwatch", 1, CONNECTION, NO_KEY, transaction::unwatch),
    row("watch", -2, CONNECTION, ALL_KEYS, transaction::watch),
];

fn find(name: &str) -> Option<&'static Row> {
    ROWS.binary_search_by(|row| row.name.cmp(name)).ok().map(|at| &ROWS[at])
}

/// What a cluster looks at before it lets a node execute a request.
pub(super) struct Access<'a> {
    /// The keys, in the order of the request.
    pub(super) keys: Vec<&'a [u8]>,
    /// It may change them.
    pub(super) writes: bool,
    /// They are shard channels: nothing has to be there, and a copy will do.
    pub(super) channels: bool,
    /// It is executed while the data set is loaded.
    pub(super) while_loading: bool,
}

/// What a request asks for; `None` where its own errors (unknown, wrong number of arguments) come first.
pub(super) fn access(args: &[Vec<u8>]) -> Option<Access<'_>> {
    let name = String::from_utf8_lossy(args.first()?).to_ascii_lowercase();
    let row = find(&name).filter(|row| fits(row.arity, args.len()))?;
    let has = |flag| row.flags.contains(&flag);
    let [first, last, step] = row.keys;
    // Counted from the end where it is negative, the last argument being -1.
    let last = if last < 0 { args.len() as i64 + last } else { last };
    let places = (first..=last).step_by(step.max(1) as usize).filter(|_| first > 0);
    let keys = places.filter_map(|at| args.get(at as usize)).map(Vec::as_slice).collect();
    Some(Access {
        keys,
        writes: has("write"),
        channels: has("pubsub"),
        while_loading: has("loading"),
    })
}

/// Whether so many arguments fit an arity.
fn fits(arity: i32, args: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { args >= wanted } else { args == wanted }
}

/// Executes one request, with the server's checks in the server's order: known, arity,
/// authenticated.
pub(super) fn execute(call: &mut Call<'_>) {
    let (before, mode) = (call.out.len(), call.conn.replies);
    run(call);
    call.conn.mute(mode, before, call.out);
}

fn run(call: &mut Call<'_>) {
    let row = find(&call.name(0));
    let fits = row.is_some_and(|row| fits(row.arity, call.args.len()));
    if !fits && let Some(queue) = &mut call.conn.queue {
        queue.refused = true;
    }
    let Some(row) = row else {
        return unknown(call);
    };
    if !fits {
        return wrong_arity(call, row.name);
    }
    if !call.conn.authenticated && !row.flags.contains(&"no_auth") {
        return call.error("NOAUTH Authentication required.");
    }
    if let Some(user) = &call.conn.user
        && row.keys[0] > 0
        && !call.args[1].strip_prefix(&**user).is_some_and(|rest| rest.starts_with(b":"))
    {
        return call.out.extend_from_slice(super::Model::NOPERM.as_bytes());
    }
    let talks = row.flags.contains(&"pubsub") && !row.name.ends_with("publish");
    if call.conn.protocol == Protocol::Resp2
        && call.model.listeners.listens(call.conn.id)
        && !(talks || matches!(row.name, "ping" | "quit" | "reset"))
    {
        return call.error(&format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            row.name
        ));
    }
    match &mut call.conn.queue {
        Some(queue) if !transaction::runs_at_once(row.name) => {
            queue.calls.push(call.args.to_vec());
            encode::simple(call.out, b"QUEUED");
        }
        _ => {
            (row.run)(call);
            tracking::remember(call);
        }
    }
}

pub(super) fn wrong_arity(call: &mut Call<'_>, name: &str) {
    call.error(&format!("ERR wrong number of arguments for '{name}' command"));
}

/// The text of Redis 7: the name and, as far as they fit 128 bytes, the arguments, each up to a NUL.
fn unknown(call: &mut Call<'_>) {
    const SHOWN_MAX: usize = 128;
    let cut = |arg: &[u8], room: usize| {
        let arg = &arg[..arg.len().min(room)];
        let end = arg.iter().position(|byte| *byte == 0).unwrap_or(arg.len());
        String::from_utf8_lossy(&arg[..end]).into_owned()
    };
    let mut shown = String::new();
    for arg in &call.args[1..] {
        if shown.len() >= SHOWN_MAX {
            break;
        }
        shown.push_str(&format!("'{}' ", cut(arg, SHOWN_MAX - shown.len())));
    }
    let name = cut(&call.args[0], SHOWN_MAX);
    call.error(&format!("ERR unknown command '{name}', with args beginning with: {shown}"));
}

/// COMMAND with its subcommands COUNT, INFO, LIST and DOCS (whose reply holds no entry: the model
/// has no documentation).
fn command(call: &mut Call<'_>) {
    if call.model.refuses_command {
        let text = "NOPERM this user has no permissions to run the 'command' command";
        return call.error(text);
    }
    let protocol = call.conn.protocol;
    match call.name(1).as_str() {
        "" => {
            encode::array(call.out, ROWS.len());
            ROWS.iter().for_each(|row| describe(call, row));
        }
        "count" => call.length(ROWS.len()),
        "docs" => encode::map(call.out, 0, protocol),
        "list" => {
            encode::array(call.out, ROWS.len());
            ROWS.iter().for_each(|row| encode::bulk(call.out, row.name.as_bytes()));
        }
        "info" => {
            encode::array(call.out, call.args.len() - 2);
            for at in 2..call.args.len() {
                match find(&call.word(at)) {
                    Some(row) => describe(call, row),
                    None => encode::null(call.out, protocol),
                }
            }
        }
        _ => {
            let text = String::from_utf8_lossy(&call.args[1]).into_owned();
            call.error(&format!("ERR unknown subcommand '{text}'. Try COMMAND HELP."));
        }
    }
}

/// The ten elements of one entry of COMMAND INFO.
fn describe(call: &mut Call<'_>, row: &Row) {
    let protocol = call.conn.protocol;
    let out = &mut *call.out;
    encode::array(out, 10);
    encode::bulk(out, row.name.as_bytes());
    encode::integer(out, row.arity.into());
    encode::set(out, row.flags.len(), protocol);
    row.flags.iter().for_each(|flag| encode::simple(out, flag.as_bytes()));
    row.keys.iter().for_each(|number| encode::integer(out, *number));
    let category: &[u8] = if row.flags.contains(&"write") { b"@write" } else { b"@read" };
    encode::set(out, 1, protocol);
    encode::simple(out, category);
    encode::set(out, row.tips.len(), protocol);
    row.tips.iter().for_each(|tip| encode::bulk(out, tip.as_bytes()));
    key_specs(call, row);
    encode::set(call.out, 0, protocol);
}

/// At most one key spec: from the first key by index, in a range to the last.
fn key_specs(call: &mut Call<'_>, row: &Row) {
    let protocol = call.conn.protocol;
    let out = &mut *call.out;
    let [first, last, step] = row.keys;
    encode::set(out, usize::from(first > 0), protocol);
    if first == 0 {
        return;
    }
    encode::map(out, 3, protocol);
    encode::bulk(out, b"flags");
    encode::set(out, 1, protocol);
    let use_of: &[u8] = match row.flags.iter().find(|flag| matches!(**flag, "write" | "pubsub")) {
        Some(&"write") => b"RW",
        Some(_) => b"not_key",
        None => b"RO",
    };
    encode::simple(out, use_of);
    encode::bulk(out, b"begin_search");
    encode::map(out, 2, protocol);
    encode::bulk(out, b"type");
    encode::bulk(out, b"index");
    encode::bulk(out, b"spec");
    encode::map(out, 1, protocol);
    encode::bulk(out, b"index");
    encode::integer(out, first);
    encode::bulk(out, b"find_keys");
    encode::map(out, 2, protocol);
    encode::bulk(out, b"type");
    encode::bulk(out, b"range");
    encode::bulk(out, b"spec");
    encode::map(out, 3, protocol);
    // Counted from the first key here, from the name in the three old fields.
    let last = if last > 0 { last - first } else { last };
    for (name, value) in [("lastkey", last), ("keystep", step), ("limit", 0)] {
        encode::bulk(out, name.as_bytes());
        encode::integer(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted() {
        assert!(ROWS.is_sorted_by(|a, b| a.name < b.name));
    }
}
