//! twemproxy's `nutcracker.yml`: pools by name, each with a list of servers.
//!
//! Read as `nc_conf.c` of twemproxy 0.5 reads it: all values are text, a key that stands twice is refused, and without a
//! key the default of its table `CONF_DEFAULT_*` holds. What decides where keys go is written out also where it is the default.
//!
//! Invariant: the shards have the names that twemproxy gives them, since its ring is made of these.

use engine::route::shard::{Compat, ServerLine};

use super::Source;
use super::sheet::{Place, Sheet, Value};
use super::url;
use super::values::{choice, mode, number, pool};
use super::yaml::{self, Entry, Yaml};
use crate::address::UpstreamAddress;

/// twemproxy's hashes (`HASH_CODEC`).
const HASHES: [&str; 12] = [
    "one_at_a_time",
    "md5",
    "crc16",
    "crc32",
    "crc32a",
    "fnv1_64",
    "fnv1a_64",
    "fnv1_32",
    "fnv1a_32",
    "hsieh",
    "murmur",
    "jenkins",
];
/// Its distributions (`DIST_CODEC`).
const DISTRIBUTIONS: [&str; 3] = ["ketama", "modula", "random"];

/// Keys that become nothing, and why.
const LOST: [(&str, &str); 6] = [
    ("backlog", "respool asks the system for its own length of the queue"),
    ("client_connections", "twemproxy ignores it as well; `max_clients` bounds clients"),
    ("reuseport", "there is nothing to set; several workers of one process share the address"),
    ("preconnect", "respool connects when it starts"),
    (
        "server_connections",
        "each worker has one shared connection to a server, which keeps a client's requests in order; see limits.conns_per_node",
    ),
    ("tcpkeepalive", "clients and servers are probed, see timeouts.tcp_keepalive_s"),
];
/// Keys that become something.
const CARRIED: [&str; 12] = [
    "listen",
    "hash",
    "hash_tag",
    "distribution",
    "timeout",
    "redis",
    "redis_auth",
    "redis_db",
    "auto_eject_hosts",
    "server_retry_timeout",
    "server_failure_limit",
    "servers",
];

/// Longest `timeout` that is one; it is a C int in twemproxy.
const INT_MAX: u64 = i32::MAX as u64;

/// A scalar of the pool.
struct Field<'a> {
    text: &'a str,
    place: &'a Place,
}

/// Reads the file, and the pool that is asked for.
pub(super) fn read(source: &Source<'_>, sheet: &mut Sheet) {
    let name = source.file.name;
    let pools = match yaml::parse(name, source.file.text) {
        Ok(Yaml::Map(pools)) => pools,
        Ok(_) => {
            return sheet.wrong(&Place::of_file(name), "", "not a mapping from names to pools");
        }
        Err((place, message)) => return sheet.wrong(&place, "", message),
    };
    for entry in &pools {
        check_pool(entry, sheet);
    }
    let names: Vec<&str> = pools.iter().map(|pool| pool.key.as_str()).collect();
    let Some(chosen) = pool(&names, source.pool, name, sheet) else { return };
    for (index, other) in pools.iter().enumerate() {
        if index != chosen {
            let message = format!(
                "another pool, for a respool of its own: convert it with --pool {}",
                other.key
            );
            sheet.note(&other.place, &other.key, message);
        }
    }
    if let Yaml::Map(entries) = &pools[chosen].value {
        Pool { place: &pools[chosen].place, entries }.convert(sheet);
    }
}

/// Checks the keys of a pool, also of one that is not converted: twemproxy would not start with them.
fn check_pool(pool: &Entry, sheet: &mut Sheet) {
    let Yaml::Map(entries) = &pool.value else {
        return sheet.wrong(&pool.place, &pool.key, "not a pool, which is a mapping");
    };
    for (index, entry) in entries.iter().enumerate() {
        let known = LOST.iter().map(|(key, _)| *key).chain(CARRIED);
        if !known.clone().any(|key| key == entry.key) {
            sheet.unknown(&entry.place, &entry.key, known);
        } else if entries[..index].iter().any(|other| other.key == entry.key) {
            sheet.wrong(&entry.place, &entry.key, "stands in this pool twice");
        } else if matches!(entry.value, Yaml::List(_)) != (entry.key == "servers")
            || matches!(entry.value, Yaml::Map(_))
        {
            sheet.wrong(
                &entry.place,
                &entry.key,
                "not of the kind that twemproxy asks for: `servers` is a list, all else one value",
            );
        }
    }
}

/// A pool whose keys were checked.
struct Pool<'a> {
    place: &'a Place,
    entries: &'a [Entry],
}

impl<'a> Pool<'a> {
    fn find(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn field(&self, key: &str) -> Option<Field<'a>> {
        let entry = self.find(key)?;
        match &entry.value {
            Yaml::Text(text) => Some(Field { text, place: &entry.place }),
            _ => None,
        }
    }

    fn number(&self, key: &str, sheet: &mut Sheet) -> Option<(u64, &'a Place)> {
        let field = self.field(key)?;
        let number = number(field.text, field.place, key, sheet)?;
        if number > INT_MAX {
            sheet.wrong(field.place, key, format!("above {INT_MAX}"));
        }
        Some((number, field.place))
    }

    fn switch(&self, key: &str, sheet: &mut Sheet) -> Option<bool> {
        let field = self.field(key)?;
        Some(choice(field.text, &["false", "true"], field.place, key, sheet)? == 1)
    }

    fn convert(&self, sheet: &mut Sheet) {
        for (key, advice) in LOST {
            if let Some(entry) = self.find(key) {
                sheet.lost(&entry.place, key, advice);
            }
        }
        let is_redis = self.switch("redis", sheet);
        if is_redis == Some(false) || self.field("redis").is_none() {
            let place = self.field("redis").map_or(self.place, |field| field.place);
            let message = "this pool is one for memcached (`redis: true` is missing), which respool does not speak";
            sheet.wrong(place, "redis", message);
        }
        self.listen(sheet);
        self.login(sheet);
        self.timeout(sheet);
        self.eject(sheet);
        self.sharding(sheet);
    }

    fn listen(&self, sheet: &mut Sheet) {
        let Some(Field { text, place }) = self.field("listen") else {
            return sheet.wrong(self.place, "listen", "is missing");
        };
        if text.starts_with('/') {
            let (path, bits) = text.rsplit_once(' ').map_or((text, None), |(p, b)| (p, Some(b)));
            sheet.push("listen", format!("unix:{path}"), place, "listen");
            let bits = bits.and_then(|bits| mode(bits, place, "listen", sheet));
            if let Some(bits) = bits {
                sheet.text("unix_mode", &bits, place, "listen");
            }
            return;
        }
        match text.rsplit_once(':') {
            Some((host, port)) => sheet.listen(host, port, place, "listen"),
            None => sheet.wrong(place, "listen", "not host:port, nor the path of a unix socket"),
        }
    }

    /// twemproxy logs in at the servers, and asks its clients for the same password (`redis_handle_auth_req`).
    fn login(&self, sheet: &mut Sheet) {
        let Some(Field { text, place }) = self.field("redis_auth") else { return };
        sheet.text("upstream_password", text, place, "redis_auth");
        sheet.text("password", text, place, "redis_auth");
    }

    fn timeout(&self, sheet: &mut Sheet) {
        match self.number("timeout", sheet) {
            Some((ms, place)) if ms > 0 => {
                sheet.number("timeouts.connect_ms", ms, place, "timeout");
                sheet.number("timeouts.request_ms", ms, place, "timeout");
            }
            given => {
                let place = given.map_or(self.place, |(_, place)| place);
                sheet.number("timeouts.request_ms", 0, place, "timeout");
                sheet.remark("timeouts.request_ms = 0: without `timeout` twemproxy waits for replies without end; a limit is better");
            }
        }
    }

    fn eject(&self, sheet: &mut Sheet) {
        let ejects = self.switch("auto_eject_hosts", sheet).unwrap_or(false);
        let limit = self.number("server_failure_limit", sheet);
        let retry = self.number("server_retry_timeout", sheet);
        if !ejects {
            for (key, given) in [("server_failure_limit", limit), ("server_retry_timeout", retry)] {
                if let Some((_, place)) = given {
                    sheet.note(
                        place,
                        key,
                        "has no effect in twemproxy either, without auto_eject_hosts: true",
                    );
                }
            }
            return;
        }
        let place = self.field("auto_eject_hosts").map_or(self.place, |field| field.place);
        let (failures, at) = limit.unwrap_or((2, place));
        sheet.number("sharding.eject.failures", failures, at, "server_failure_limit");
        let (probe, at) = retry.unwrap_or((30_000, place));
        sheet.number("sharding.eject.probe_ms", probe, at, "server_retry_timeout");
        sheet.note(
            place,
            "auto_eject_hosts",
            "failures count for sharding.eject.window_ms, and not until the next success; a server that is left out is probed \
             before it gets requests again",
        );
    }

    fn sharding(&self, sheet: &mut Sheet) {
        sheet.text("sharding.compat", Compat::Twemproxy.name(), self.place, "");
        sheet.remark("on ARM or PowerPC twemproxy hashes keys with bytes from 0x80 up differently: sharding.compat = \"twemproxy-arm\" if it ran there");
        for (key, option, names, default) in [
            ("distribution", "sharding.distribution", &DISTRIBUTIONS[..], "ketama"),
            ("hash", "sharding.hash", &HASHES[..], "fnv1a_64"),
        ] {
            match self.field(key) {
                None => sheet.text(option, default, self.place, key),
                Some(Field { text, place }) => {
                    if choice(text, names, place, key, sheet).is_some() {
                        sheet.text(option, text, place, key);
                    }
                }
            }
        }
        if let Some(Field { text, place }) = self.field("hash_tag") {
            if text.len() == 2 {
                sheet.text("sharding.hash_tag", text, place, "hash_tag");
            } else {
                sheet.wrong(place, "hash_tag", "allowed: two characters, as in \"{}\"");
            }
        }
        self.servers(sheet);
    }

    fn servers(&self, sheet: &mut Sheet) {
        let Some(Entry { place, value: Yaml::List(servers), .. }) = self.find("servers") else {
            return sheet.wrong(self.place, "servers", "is missing");
        };
        let db = self.number("redis_db", sheet).map_or(0, |(db, _)| db);
        let mut shards = Vec::new();
        for (at, server) in servers {
            let Yaml::Text(line) = server else {
                sheet.wrong(
                    at,
                    "servers",
                    "a server is one line, host:port:weight and a name if there is one",
                );
                continue;
            };
            match shard(line, db) {
                Ok(shard) => shards.push(shard),
                Err(message) => sheet.wrong(at, "servers", message),
            }
        }
        sheet.set("sharding.shards", Value::List(shards), place, "servers");
    }
}

/// A server as an entry of `sharding.shards`: the line as it is, unless it needs a database.
fn shard(line: &str, db: u64) -> Result<String, String> {
    let ServerLine { address, shard } = ServerLine::parse(Compat::Twemproxy, line)?;
    let address = UpstreamAddress::from_server_line(&address)?;
    if db == 0 {
        return Ok(line.to_owned());
    }
    let db = u32::try_from(db).map_err(|_| "redis_db is too large".to_owned())?;
    let url = crate::address::UpstreamUrl { db, ..url::standalone(address) };
    if shard.name.contains(char::is_whitespace) {
        return Err("a name with a blank, which an entry with a database cannot have".to_owned());
    }
    Ok(url::entry(&url, shard.weight, Some(&shard.name)))
}
