//! camellia-redis-proxy's configuration: properties, or the YAML of a Spring application with the same keys in it.
//!
//! Its routes are read in `table`, its URLs in `resource`. It knows some hundred keys, most of them of plug-ins and of its own
//! network layer; `keys` has those that become nothing.
//!
//! Invariant: the hash is what camellia's sharding function calculates, or there is a problem.

mod keys;
mod properties;
mod resource;
mod table;

use std::path::Path;

use engine::route::shard::Compat;

use super::Source;
use super::sheet::{Place, Sheet};
use super::values::{no_pools, number, whole};
use super::yaml::{self, Yaml};

/// A key and its value, wherever they came from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    place: Place,
    key: String,
    value: String,
}

/// Where a Spring application has camellia's own keys.
const SPRING_CONFIG: &str = "camellia-redis-proxy.config.";

/// camellia's sharding functions, the hash of each, and whether it heeds tags.
const FUNCTIONS: [(&str, &str, bool); 3] = [
    ("com.netease.nim.camellia.core.client.env.DefaultShardingFunc", "java31", false),
    ("com.netease.nim.camellia.core.client.env.DefaultHashTagShardingFunc", "java31", true),
    ("com.netease.nim.camellia.core.client.env.CRC16HashTagShardingFunc", "crc16", true),
];

/// Reads the file, and the one with the routes that it may name.
pub(super) fn read(source: &Source<'_>, sheet: &mut Sheet) {
    no_pools(source.pool, source.file.name, sheet);
    let Some(settings) = settings(source, sheet) else { return };
    let config = Config { source, settings: &settings, file: Place::of_file(source.file.name) };
    for (index, setting) in settings.iter().enumerate() {
        if settings[index + 1..].iter().any(|later| later.key == setting.key) {
            sheet.note(&setting.place, &setting.key, "is said again, and the last one counts");
        } else {
            read_setting(setting, sheet);
        }
    }
    config.listen(sheet);
    config.routes(sheet);
    config.facade(sheet);
    sheet.number("timeouts.request_ms", 0, &config.file, "");
    sheet.remark("timeouts.request_ms = 0: camellia has no limit for replies; a limit is better");
}

/// The settings in the order of the file, those of a Spring application under camellia's own names.
fn settings(source: &Source<'_>, sheet: &mut Sheet) -> Option<Vec<Setting>> {
    let (name, text) = (source.file.name, source.file.text);
    let is_yaml = Path::new(name).extension().is_some_and(|ending| {
        ending.eq_ignore_ascii_case("yml") || ending.eq_ignore_ascii_case("yaml")
    });
    if !is_yaml && !text.lines().any(|line| line.starts_with("camellia-redis-proxy:")) {
        return Some(properties::parse(name, text));
    }
    let mut settings = Vec::new();
    match yaml::parse(name, text) {
        Ok(root) => flatten(&root, "", &Place::of_file(name), &mut settings),
        Err((place, message)) => {
            sheet.wrong(&place, "", message);
            return None;
        }
    }
    for setting in &mut settings {
        setting.key = match setting.key.as_str() {
            "server.port" => "port".to_owned(),
            "spring.application.name" => "application.name".to_owned(),
            // So older versions had it.
            "camellia-redis-proxy.password" => "password".to_owned(),
            "camellia-redis-proxy.transpond.local.resource" => "route.conf".to_owned(),
            "camellia-redis-proxy.transpond.local.json-file" => "route.conf.file".to_owned(),
            key => key.strip_prefix(SPRING_CONFIG).unwrap_or(key).to_owned(),
        };
    }
    Some(settings)
}

/// Joins the keys of nested mappings with dots, and the items of lists with commas.
fn flatten(yaml: &Yaml, key: &str, place: &Place, settings: &mut Vec<Setting>) {
    match yaml {
        Yaml::Text(value) => {
            settings.push(Setting {
                place: place.clone(),
                key: key.to_owned(),
                value: value.clone(),
            });
        }
        Yaml::List(items) => {
            let texts: Vec<&str> =
                items
                    .iter()
                    .filter_map(|(_, item)| {
                        if let Yaml::Text(text) = item { Some(text.as_str()) } else { None }
                    })
                    .collect();
            let value = texts.join(",");
            settings.push(Setting { place: place.clone(), key: key.to_owned(), value });
        }
        Yaml::Map(entries) => {
            for entry in entries {
                let name =
                    if key.is_empty() { entry.key.clone() } else { format!("{key}.{}", entry.key) };
                flatten(&entry.value, &name, &entry.place, settings);
            }
        }
    }
}

/// Reads a setting that stands for itself.
fn read_setting(setting: &Setting, sheet: &mut Sheet) {
    let Setting { place: at, key, value } = setting;
    let value = value.trim();
    let count = |option, factor: u64, sheet: &mut Sheet| {
        if let Some(number) = number(value, at, key, sheet) {
            sheet.number(option, number.saturating_mul(factor), at, key);
        }
    };
    match key.as_str() {
        "password" if value.is_empty() => {}
        "password" => sheet.text("password", value, at, key),
        // Below 0 there is no limit.
        "max.client.connect" if value.starts_with('-') => {
            sheet.lost(at, key, "clients are always bounded, see max_clients");
        }
        "max.client.connect" => count("max_clients", 1, sheet),
        "upstream.connect.timeout.millis" => count("timeouts.connect_ms", 1, sheet),
        "redis.cluster.schedule.renew.interval.seconds" => {
            count("timeouts.topology_period_ms", 1000, sheet);
        }
        key if keys::CARRIED.contains(&key) => {}
        _ => match keys::lost(key) {
            Some(advice) => sheet.lost(at, key, advice),
            None => sheet.unknown(at, key, keys::CARRIED),
        },
    }
}

/// All settings, for those that belong together.
struct Config<'a> {
    source: &'a Source<'a>,
    settings: &'a [Setting],
    file: Place,
}

impl<'a> Config<'a> {
    /// The last one of a key, unless it is empty.
    fn find(&self, key: &str) -> Option<(&'a str, &'a Place)> {
        let setting = self.settings.iter().rfind(|setting| setting.key == key)?;
        Some((setting.value.trim(), &setting.place)).filter(|(value, _)| !value.is_empty())
    }

    fn listen(&self, sheet: &mut Sheet) {
        let (port, place) = self.find("port").unwrap_or(("6380", &self.file));
        sheet.listen("0.0.0.0", port, place, "port");
        if let Some((path, place)) = self.find("uds.path") {
            sheet.push("listen", format!("unix:{path}"), place, "uds.path");
        }
    }

    fn routes(&self, sheet: &mut Sheet) {
        if let Some((provider, place)) = self.find("route.conf.provider")
            && provider != "default"
        {
            let message = "its routes are kept elsewhere; write the one for this respool as route.conf, and provider `default`";
            return sheet.wrong(place, "route.conf.provider", message);
        }
        let needs_hash = match (self.find("route.conf"), self.find("route.conf.file")) {
            (Some((text, place)), other) => {
                if let Some((_, place)) = other {
                    sheet.note(
                        place,
                        "route.conf.file",
                        "has no effect in camellia either, beside route.conf",
                    );
                }
                table::read(text, &table::At { place, key: "route.conf" }, sheet)
            }
            (None, Some((name, place))) => self.routes_of_file(name, place, sheet),
            (None, None) => {
                sheet.wrong(
                    &self.file,
                    "route.conf",
                    "is missing, and route.conf.file, too: where requests go is not said",
                );
                false
            }
        };
        self.rules(needs_hash, sheet);
    }

    /// Reads the file with the routes; its path is relative to this file.
    fn routes_of_file(&self, name: &str, place: &Place, sheet: &mut Sheet) -> bool {
        let folder = Path::new(self.source.file.name).parent().unwrap_or(Path::new(""));
        let path = folder.join(name);
        match (self.source.read)(&path) {
            Ok(text) => table::read(&text, &table::At { place, key: "route.conf.file" }, sheet),
            Err(error) => {
                let message = format!("{}: cannot be read: {error}", path.display());
                sheet.wrong(place, "route.conf.file", message);
                false
            }
        }
    }

    /// Hash and tag, by the name of the sharding function.
    fn rules(&self, needs_hash: bool, sheet: &mut Sheet) {
        let key = "sharding.func.class.name";
        let given = self.find(key);
        if !needs_hash {
            if let Some((_, place)) = given {
                sheet.note(place, key, "has no effect without buckets");
            }
            return;
        }
        let (name, place) = given.unwrap_or((FUNCTIONS[0].0, &self.file));
        let Some((_, hash, tag)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            let known: Vec<&str> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            let message = format!(
                "a function of your own, whose hash is not known here; known: {}",
                known.join(", ")
            );
            return sheet.wrong(place, key, message);
        };
        sheet.text("sharding.compat", Compat::Camellia.name(), &self.file, "");
        sheet.text("sharding.distribution", "buckets", &self.file, "");
        sheet.text("sharding.hash", hash, place, key);
        if *tag {
            sheet.text("sharding.hash_tag", "{}", place, key);
        }
    }

    /// How it shows itself to clients that know clusters.
    fn facade(&self, sheet: &mut Sheet) {
        let nodes = self.find("cluster.mode.nodes");
        match self.find("proxy.mode") {
            None | Some(("standalone", _)) => {
                if let Some((_, place)) = nodes {
                    sheet.note(
                        place,
                        "cluster.mode.nodes",
                        "has no effect in camellia either, without proxy.mode=cluster",
                    );
                }
            }
            Some(("cluster", place)) => {
                sheet.set("facade.cluster", super::sheet::Value::Switch(true), place, "proxy.mode");
                if let Some((nodes, place)) = nodes {
                    self.announce(nodes, place, sheet);
                }
            }
            Some(("sentinel", place)) => sheet.lost(
                place,
                "proxy.mode",
                "respool does not show itself as a sentinel; clients connect to its address",
            ),
            Some((_, place)) => {
                sheet.wrong(place, "proxy.mode", "allowed: standalone, cluster, sentinel");
            }
        }
    }

    /// The nodes that are shown: `host:port@cport`, of which the last part is camellia's own.
    fn announce(&self, nodes: &str, place: &Place, sheet: &mut Sheet) {
        for node in nodes.split(',').map(str::trim) {
            let address = node.split('@').next().unwrap_or("");
            let is_known = address.parse::<std::net::SocketAddr>().is_ok()
                && address.rsplit(':').next().and_then(whole).is_some();
            if is_known {
                sheet.push("facade.announce", address.to_owned(), place, "cluster.mode.nodes");
            } else {
                sheet.note(
                    place,
                    "cluster.mode.nodes",
                    "a node that is no address and port; facade.announce takes addresses only",
                );
            }
        }
        sheet.note(
            place,
            "cluster.mode.nodes",
            "all of these must be respool with the same list, see facade.announce",
        );
    }
}
