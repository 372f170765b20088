//! overlord's TOML: clusters by name in `[[clusters]]`, and what concerns its whole process beside them.
//!
//! overlord itself is given two files, `-conf` and `-cluster`; the keys of both are known here, and the second is what is
//! converted. Read as `proxy/config.go` reads it. Several keys do nothing in overlord, whatever its documents say; these are noted.
//!
//! Invariant: the shards have the names that overlord gives them, since its ring is made of these.

use std::ops::Range;

use engine::route::shard::{Compat, ServerLine};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::Source;
use super::sheet::{Place, Sheet, Value};
use super::url;
use super::values::pool;
use crate::address::UpstreamAddress;
use crate::file::line_and_column;

/// Keys at the top of the file and in `[proxy]` that become nothing, and why.
const LOST: [(&str, &str); 10] = [
    ("pprof", "there is no port for profiles"),
    ("stat", "there is no port for figures; see INFO"),
    ("stdout", "the log goes to standard error unless log.file is set"),
    ("debug", "see log.level"),
    ("log_lv", "see log.level"),
    ("log_vl", "see log.level"),
    ("family", "overlord's log only"),
    ("host", "overlord's log only"),
    ("proxy.write_timeout", "see timeouts.stall_ms, which is for clients that do not read"),
    ("proxy.use_metrics", "there is no port for figures; see INFO"),
];
/// Keys of a cluster that become nothing, and why.
const LOST_OF_CLUSTER: [(&str, &str); 4] = [
    (
        "node_connections",
        "each worker has one shared connection to a server, which keeps a client's requests in order; see limits.conns_per_node",
    ),
    ("node_pipe_count", "pipelines to servers have no fixed length"),
    (
        "redis_auth",
        "overlord does not use it either; if the servers want a password, set upstream_password_file",
    ),
    ("write_timeout", "timeouts.request_ms covers the sending of a request, too"),
];
/// Keys of a cluster that become something.
const CARRIED_OF_CLUSTER: [&str; 13] = [
    "name",
    "hash_method",
    "hash_distribution",
    "hash_tag",
    "cache_type",
    "listen_proto",
    "listen_addr",
    "dial_timeout",
    "read_timeout",
    "ping_fail_limit",
    "ping_auto_eject",
    "slowlog_slower_than",
    "servers",
];
/// Keys of the process that become something.
const CARRIED: [&str; 5] =
    ["log", "proxy", "clusters", "proxy.read_timeout", "proxy.max_connections"];

/// overlord's hashes, and ours. Any other text is its default, `fnv1a_64`.
const HASHES: [(&str, &str); 11] = [
    ("fnv1a_64", "fnv1a_64"),
    ("fnv1a_32", "fnv1a_32"),
    ("fnv1_64", "fnv1_64"),
    ("fnv1_32", "fnv1_32"),
    ("crc16", "crc16"),
    ("crc32", "crc32"),
    ("crc32a", "crc32a"),
    ("md5", "md5"),
    ("one_on_time", "one_at_a_time"),
    ("hsieh", "hsieh"),
    ("murmur", "murmur"),
];

/// Reads the file, and the cluster that is asked for.
pub(super) fn read(source: &Source<'_>, sheet: &mut Sheet) {
    let (name, text) = (source.file.name, source.file.text);
    let (root, errors) = DeTable::parse_recoverable(text);
    let file = File { name: name.into(), text };
    if let Some(error) = errors.first() {
        let place = file.place(&error.span().unwrap_or(text.len()..text.len()));
        let message = error.message().replace('\n', "; ");
        return sheet.wrong(&place, "", format!("not valid TOML: {message}"));
    }
    file.read_process(root.get_ref(), "", sheet);
    let clusters = file.clusters(root.get_ref(), sheet);
    let names: Vec<&str> = clusters.iter().map(Cluster::name).collect();
    let Some(chosen) = pool(&names, source.pool, name, sheet) else { return };
    for (index, cluster) in clusters.iter().enumerate() {
        if index != chosen {
            let message = format!(
                "another cluster, for a respool of its own: convert it with --pool {}",
                cluster.name()
            );
            sheet.note(&cluster.place, "clusters", message);
        }
    }
    clusters[chosen].convert(&file, sheet);
}

/// The file, for places.
struct File<'a> {
    name: std::rc::Rc<str>,
    text: &'a str,
}

/// An entry of a table.
struct Field<'a> {
    key: String,
    place: Place,
    value: &'a DeValue<'a>,
}

/// One of `[[clusters]]`, with keys that overlord knows.
struct Cluster<'a> {
    place: Place,
    fields: Vec<Field<'a>>,
}

impl File<'_> {
    fn place(&self, span: &Range<usize>) -> Place {
        let (line, column) = line_and_column(self.text, span.start);
        Place { name: self.name.clone(), line, column }
    }

    /// The entries of a table in the order of the file.
    fn fields<'a>(&self, table: &'a DeTable<'a>) -> Vec<Field<'a>> {
        let field = |(key, value): (&Spanned<DeString<'_>>, &'a Spanned<DeValue<'a>>)| Field {
            // The library that overlord reads with takes keys in any case.
            key: key.get_ref().to_lowercase(),
            place: self.place(&key.span()),
            value: value.get_ref(),
        };
        let mut fields: Vec<Field<'a>> = table.iter().map(field).collect();
        fields.sort_by_key(|field| (field.place.line, field.place.column));
        fields
    }

    /// Reads what concerns the whole process: the top of the file, and `[proxy]` with that as the `prefix`.
    fn read_process(&self, table: &DeTable<'_>, prefix: &str, sheet: &mut Sheet) {
        for field in self.fields(table) {
            let key = format!("{prefix}{}", field.key);
            match (key.as_str(), field.value) {
                ("proxy", DeValue::Table(table)) => self.read_process(table, "proxy.", sheet),
                ("clusters", DeValue::Array(_)) => {}
                ("proxy" | "clusters", _) => {
                    sheet.wrong(
                        &field.place,
                        &key,
                        "`proxy` is a table, `clusters` a list of tables",
                    );
                }
                _ => read_process_value(&field, &key, sheet),
            }
        }
    }

    /// The clusters, their keys checked: overlord would not start with others.
    fn clusters<'a>(&self, root: &'a DeTable<'a>, sheet: &mut Sheet) -> Vec<Cluster<'a>> {
        let entry = root.iter().find(|(key, _)| key.get_ref().eq_ignore_ascii_case("clusters"));
        let Some((_, list)) = entry else { return Vec::new() };
        let DeValue::Array(items) = list.get_ref() else { return Vec::new() };
        let mut clusters = Vec::new();
        for item in items {
            let place = self.place(&item.span());
            let DeValue::Table(table) = item.get_ref() else {
                sheet.wrong(&place, "clusters", "not a table");
                continue;
            };
            let fields = self.fields(table);
            for field in &fields {
                let known = LOST_OF_CLUSTER.iter().map(|(key, _)| *key).chain(CARRIED_OF_CLUSTER);
                if !known.clone().any(|key| key == field.key) {
                    sheet.unknown(&field.place, &field.key, known);
                }
            }
            clusters.push(Cluster { place, fields });
        }
        clusters
    }
}

/// Reads one value that concerns the whole process.
fn read_process_value(field: &Field<'_>, key: &str, sheet: &mut Sheet) {
    if let Some((_, advice)) = LOST.iter().find(|(lost, _)| *lost == key) {
        return sheet.lost(&field.place, key, advice);
    }
    match key {
        "log" => {
            if let Some(path) = field.text(sheet).filter(|path| !path.is_empty()) {
                sheet.text("log.file", path, &field.place, key);
            }
        }
        "proxy.read_timeout" => {
            if let Some(ms) = field.number(sheet) {
                sheet.number("timeouts.client_idle_ms", ms, &field.place, key);
            }
        }
        "proxy.max_connections" => match field.number(sheet) {
            Some(0) => sheet.lost(&field.place, key, "clients are always bounded, see max_clients"),
            Some(clients) => sheet.number("max_clients", clients, &field.place, key),
            None => {}
        },
        _ => {
            let known = LOST.iter().map(|(key, _)| *key).chain(CARRIED);
            sheet.unknown(&field.place, key, known);
        }
    }
}

impl Field<'_> {
    /// A string; anything else is a problem.
    fn text(&self, sheet: &mut Sheet) -> Option<&str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => {
                sheet.wrong(&self.place, &self.key, "not a string");
                None
            }
        }
    }

    /// A whole number; anything else is a problem.
    fn number(&self, sheet: &mut Sheet) -> Option<u64> {
        let number = match self.value {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.and_then(|number| u64::try_from(number).ok());
        if number.is_none() {
            sheet.wrong(&self.place, &self.key, "not a whole number from 0 up");
        }
        number
    }
}

impl Cluster<'_> {
    fn find(&self, key: &str) -> Option<&Field<'_>> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// Its name; empty where it has none, as overlord then makes one up.
    fn name(&self) -> &str {
        match self.find("name").map(|field| field.value) {
            Some(DeValue::String(name)) => name,
            _ => "",
        }
    }

    /// A text that is not empty, with its place; empty ones are as if they were not there.
    fn text(&self, key: &str, sheet: &mut Sheet) -> Option<(&str, &Place)> {
        let field = self.find(key)?;
        field.text(sheet).filter(|text| !text.is_empty()).map(|text| (text, &field.place))
    }

    fn number(&self, key: &str, sheet: &mut Sheet) -> Option<(u64, &Place)> {
        let field = self.find(key)?;
        Some((field.number(sheet)?, &field.place))
    }

    fn convert(&self, file: &File<'_>, sheet: &mut Sheet) {
        for (key, advice) in LOST_OF_CLUSTER {
            if let Some(field) = self.find(key) {
                sheet.lost(&field.place, key, advice);
            }
        }
        self.listen(sheet);
        self.timeouts(sheet);
        self.slowlog(sheet);
        let is_cluster = match self.text("cache_type", sheet) {
            Some(("redis", _)) => false,
            Some(("redis_cluster", _)) => true,
            found => {
                let place = found.map_or(&self.place, |(_, place)| place);
                let message = "allowed: redis, redis_cluster; respool does not speak memcached";
                return sheet.wrong(place, "cache_type", message);
            }
        };
        let servers = self.servers(file, sheet);
        let place = self.find("servers").map_or(&self.place, |field| &field.place);
        if is_cluster {
            self.nodes(&servers, sheet);
            return;
        }
        let mut shards = Vec::new();
        for (line, at) in &servers {
            match check_line(line) {
                Ok(()) => shards.push((*line).to_owned()),
                Err(message) => sheet.wrong(at, "servers", message),
            }
        }
        sheet.set("sharding.shards", Value::List(shards), place, "servers");
        self.rules(sheet);
        self.eject(sheet);
    }

    /// A text without a colon is a port (`SetDefault`); nothing before it means every interface.
    fn listen(&self, sheet: &mut Sheet) {
        let is_unix = match self.text("listen_proto", sheet) {
            None | Some(("tcp", _)) => false,
            Some(("unix", _)) => true,
            Some((_, place)) => {
                return sheet.wrong(place, "listen_proto", "allowed: tcp, unix");
            }
        };
        let Some((text, place)) = self.text("listen_addr", sheet) else {
            return sheet.wrong(&self.place, "listen_addr", "is missing");
        };
        if is_unix {
            return sheet.push("listen", format!("unix:{text}"), place, "listen_addr");
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        sheet.listen(host, port, place, "listen_addr");
    }

    fn timeouts(&self, sheet: &mut Sheet) {
        match self.number("dial_timeout", sheet) {
            Some((0, place)) => {
                sheet.lost(
                    place,
                    "dial_timeout",
                    "a connect always has a limit, see timeouts.connect_ms",
                );
            }
            Some((ms, place)) => sheet.number("timeouts.connect_ms", ms, place, "dial_timeout"),
            None => {}
        }
        let (ms, place) = self.number("read_timeout", sheet).unwrap_or((0, &self.place));
        sheet.number("timeouts.request_ms", ms, place, "read_timeout");
        if ms == 0 {
            sheet.remark("timeouts.request_ms = 0: without `read_timeout` overlord waits for replies without end; a limit is better");
        }
    }

    fn slowlog(&self, sheet: &mut Sheet) {
        match self.number("slowlog_slower_than", sheet) {
            Some((0, place)) => sheet.number("slowlog.max_len", 0, place, "slowlog_slower_than"),
            Some((us, place)) => {
                sheet.number("slowlog.slower_than_us", us, place, "slowlog_slower_than");
                sheet.note(
                    place,
                    "slowlog_slower_than",
                    "slow requests are shown by SLOWLOG GET and not written to a file",
                );
            }
            None => {}
        }
    }

    fn servers(&self, file: &File<'_>, sheet: &mut Sheet) -> Vec<(&str, Place)> {
        let Some(Field { value: DeValue::Array(items), .. }) = self.find("servers") else {
            sheet.wrong(&self.place, "servers", "is missing, or no list of strings");
            return Vec::new();
        };
        let mut servers = Vec::new();
        for item in items {
            let place = file.place(&item.span());
            match item.get_ref() {
                DeValue::String(text) => servers.push((text.as_ref(), place)),
                _ => sheet.wrong(&place, "servers", "not a string"),
            }
        }
        servers
    }

    /// The nodes of a Redis Cluster; a third part of an address is cut off (`LoadFromFile`).
    fn nodes(&self, servers: &[(&str, Place)], sheet: &mut Sheet) {
        let mut nodes = Vec::new();
        for (text, at) in servers {
            let parts: Vec<&str> = text.split(':').collect();
            let address = if parts.len() == 3 { parts[..2].join(":") } else { (*text).to_owned() };
            match UpstreamAddress::from_server_line(&address) {
                Ok(address) => nodes.push(address),
                Err(message) => sheet.wrong(at, "servers", message),
            }
        }
        let place = self.find("servers").map_or(&self.place, |field| &field.place);
        match url::cluster(nodes) {
            Some(url) => sheet.text("upstream", &url::text(&url), place, "servers"),
            None if servers.is_empty() => sheet.wrong(place, "servers", "no server"),
            None => {}
        }
        for key in
            ["hash_method", "hash_distribution", "hash_tag", "ping_fail_limit", "ping_auto_eject"]
        {
            if let Some(field) = self.find(key) {
                sheet.note(
                    &field.place,
                    key,
                    "is not for a Redis Cluster, which has rules of its own",
                );
            }
        }
    }

    /// What overlord makes of hash, distribution and tag.
    fn rules(&self, sheet: &mut Sheet) {
        sheet.text("sharding.compat", Compat::Overlord.name(), &self.place, "");
        sheet.text("sharding.distribution", "ketama", &self.place, "hash_distribution");
        if let Some((text, place)) = self.text("hash_distribution", sheet)
            && text != "ketama"
        {
            sheet.note(
                place,
                "hash_distribution",
                "becomes ketama: overlord knows no other and takes this for it",
            );
        }
        let (hash, place) = self.text("hash_method", sheet).unwrap_or(("fnv1a_64", &self.place));
        let known = HASHES.iter().find(|(theirs, _)| *theirs == hash);
        if known.is_none() {
            sheet.note(
                place,
                "hash_method",
                "becomes fnv1a_64: overlord does not know this one and takes it for that",
            );
        }
        let ours = known.map_or("fnv1a_64", |(_, ours)| *ours);
        sheet.text("sharding.hash", ours, place, "hash_method");
        let (tag, place) = self.text("hash_tag", sheet).unwrap_or(("{}", &self.place));
        if tag.len() == 2 {
            sheet.text("sharding.hash_tag", tag, place, "hash_tag");
        } else {
            let message = "not two characters, so that overlord heeds no tags at all, which respool cannot do with its ring";
            sheet.wrong(place, "hash_tag", message);
        }
    }

    fn eject(&self, sheet: &mut Sheet) {
        let ejects = match self.find("ping_auto_eject").map(|field| (field.value, &field.place)) {
            Some((DeValue::Boolean(on), _)) => *on,
            Some((_, place)) => return sheet.wrong(place, "ping_auto_eject", "not true or false"),
            None => false,
        };
        let limit = self.number("ping_fail_limit", sheet);
        if !ejects {
            if let Some((_, place)) = limit {
                sheet.note(
                    place,
                    "ping_fail_limit",
                    "has no effect in overlord either, without ping_auto_eject = true",
                );
            }
            return;
        }
        // At 0 the first failure counts, as at 1.
        let place = self.find("ping_auto_eject").map_or(&self.place, |field| &field.place);
        let (failures, at) = limit.unwrap_or((1, place));
        sheet.number("sharding.eject.failures", failures.max(1), at, "ping_fail_limit");
        sheet.note(
            place,
            "ping_auto_eject",
            "failures of requests and connects count, within sharding.eject.window_ms, and not those of pings; a shard that is left out \
             is probed every sharding.eject.probe_ms and not after five minutes",
        );
    }
}

/// Whether overlord takes a line (`ValidateStandalone`), and respool, too. Weights of 0 are where they differ.
fn check_line(line: &str) -> Result<(), String> {
    let ServerLine { address, .. } = ServerLine::parse(Compat::Overlord, line)?;
    UpstreamAddress::from_server_line(&address).map(|_| ())
}
