//! Documents made from the option table: the reference page, the commented example file, and the schema by which editors check files.
//!
//! The man page and the completions come from the same table by way of the command line (`server::cli`). Nothing is
//! written to disk here.
//!
//! Invariant: the example, with every commented value taken in that is a default, is a valid configuration equal to the
//! defaults (but for `sharding.compat`, which is about shards).

use std::fmt::Write;

use serde_json::{Value, json};

use crate::options::{OPTIONS, OptionSpec, TABLES};
use crate::tenants;
use crate::users::ClientChanges;

/// How the documents are written again; stands in their heads.
pub const REGENERATE: &str = "cargo xtask docs";

/// Columns of comment text in the example.
const COMMENT_COLUMNS: usize = 96;

/// The page `docs/reference/configuration.md`.
pub fn reference() -> String {
    let mut page = format!(
        "<!-- Generated from crates/config/src/options.rs by `{REGENERATE}`. Do not edit. -->\n\
         # Configuration\n\n\
         Every option can stand in the file (`respool --config respool.toml`, TOML), in the environment and on the command\n\
         line. The command line wins over the environment, the environment over the file, the file over the default. A list\n\
         from a stronger source replaces the weaker one as a whole. Unknown keys and flags are refused; `respool check FILE`\n\
         shows all mistakes of a file at once. A commented file with every default is `respool.example.toml`. Editors that know TOML (Taplo,\n\
         Even Better TOML) check it as it is typed when its first line is `#:schema respool.schema.json`, the path of\n\
         [this schema](respool.schema.json).\n\n\
         In the environment and on the command line lists are separated by commas, shards by semicolons; an empty variable counts as\n\
         not set. Sizes are numbers of bytes or strings with `KiB`, `MiB`, `GiB`.\n\n\
         Three variables are no options: `RESPOOL_CONFIG` names a file where `--config` does not, `RESPOOL_LOG` is a filter\n\
         such as `info,server=debug` in the place of `log.level`, and `NO_COLOR` asks for log lines without colours.\n\n"
    );
    for (table, about) in
        std::iter::once((None, "")).chain(TABLES.iter().map(|(t, about)| (Some(*t), *about)))
    {
        let _ = match table {
            None => writeln!(page, "## Top of the file\n"),
            Some(table) => writeln!(page, "## [{table}]\n\n{about}\n"),
        };
        for option in OPTIONS.iter().filter(|option| option.table() == table) {
            reference_entry(&mut page, option);
        }
    }
    tenants_reference(&mut page);
    // One blank line between entries, none at the end.
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// The chapter about the tables of tenants.
fn tenants_reference(page: &mut String) {
    let _ = writeln!(page, "## [tenants.NAME]\n\n{TENANTS}\n");
    for key in &tenants::KEYS {
        let _ = writeln!(page, "### `tenants.NAME.{}`\n\n{}.\n", key.name, key.help);
        let _ = writeln!(page, "- Allowed: {}", key.allowed);
        let _ = writeln!(page, "- Default: none\n- Change: while it runs, by the file\n");
    }
    let of_tenants = OPTIONS.iter().filter(|option| option.is_of_tenant());
    let names: Vec<String> = of_tenants.map(|option| format!("`{}`", option.name)).collect();
    let _ = writeln!(page, "### `tenants.NAME.…`\n\n{}\n\n{}.\n", OVERLAY, names.join(", "));
}

/// What tenants are.
const TENANTS: &str = "Tenants: clients that have a route, limits and figures of their own, chosen by their user, their name, or the listener that they come to (`tenant=NAME` in \
     `listen`). Only in the file; see the [guide](../guides/tenants.md).";

/// What else may stand in their tables.
const OVERLAY: &str = "These options, as at the top of the file, hold for the tenant in the place of the main ones: `[tenants.blue.limits]` has the limits of `blue`. What says where the \
     servers are (`upstream`, `sharding`, what belongs to them, and `address_map`) is never taken from the top of the file, and `upstream` or `sharding.shards` must be given. \
     Flags, the environment and `CONFIG SET` reach the main options only, and so the tenants where these have none of their own.";

/// The file `docs/reference/respool.schema.json` (JSON schema, draft 7, which Taplo and Even Better TOML read).
pub fn schema() -> String {
    let mut root = object("respool's configuration file. `respool check FILE` checks all of it.");
    root["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    root["title"] = "respool.toml".into();
    root["$comment"] =
        format!("Generated from crates/config/src/options.rs by `{REGENERATE}`.").into();
    for (table, about) in TABLES {
        let parent = table.rsplit_once('.').map(|(parent, _)| parent);
        let (_, key) = table.rsplit_once('.').unwrap_or(("", table));
        properties(&mut root, parent)[key] = object(about);
    }
    for option in OPTIONS {
        properties(&mut root, option.table())[option.key()] = option.json_schema();
    }
    root["properties"]["tenants"] = json!({
        "type": "object",
        "description": TENANTS,
        "additionalProperties": tenant_schema(),
    });
    format!("{root:#}\n")
}

/// The table of one tenant.
fn tenant_schema() -> Value {
    let mut root = object(OVERLAY);
    let words = |key: &tenants::TenantKey| json!({ "type": ["array", "string"], "items": { "type": "string" }, "description": key.help });
    let [users, names, clients_max] = &tenants::KEYS;
    root["properties"][users.name] = words(users);
    root["properties"][names.name] = words(names);
    root["properties"][clients_max.name] = json!({
        "type": "integer", "minimum": 1, "maximum": crate::schema::CLIENTS_MAX,
        "description": clients_max.help,
    });
    let options = || OPTIONS.iter().filter(|option| option.is_of_tenant());
    for (table, about) in TABLES {
        let is_within = |name: &str| name == *table || name.starts_with(&format!("{table}."));
        if !options().any(|option| option.table().is_some_and(is_within)) {
            continue;
        }
        let parent = table.rsplit_once('.').map(|(parent, _)| parent);
        let (_, key) = table.rsplit_once('.').unwrap_or(("", table));
        properties(&mut root, parent)[key] = object(about);
    }
    for option in options() {
        properties(&mut root, option.table())[option.key()] = option.json_schema();
    }
    root
}

fn object(about: &str) -> Value {
    json!({ "type": "object", "description": about, "additionalProperties": false, "properties": {} })
}

/// What stands in a table of the file, at whatever depth.
fn properties<'a>(root: &'a mut Value, table: Option<&str>) -> &'a mut Value {
    let names = table.iter().flat_map(|table| table.split('.'));
    let table = names.fold(root, |outer, name| &mut outer["properties"][name]);
    &mut table["properties"]
}

/// One option of the reference.
fn reference_entry(page: &mut String, option: &OptionSpec) {
    let short = option.short.map_or_else(String::new, |short| format!("`-{short}`, "));
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "### `{}`\n", option.name);
    let _ = writeln!(page, "{}. {}", option.help, option.long);
    page.truncate(page.trim_end().len());
    let _ = writeln!(page, "\n\n- Type: {}; allowed: {}", option.type_name(), option.allowed());
    let default = option.default_text();
    let default = if default.contains(' ') && !default.starts_with(['"', '[']) || default == "none"
    {
        default
    } else {
        format!("`{default}`")
    };
    let _ = writeln!(page, "- Default: {default}");
    let by = |changes| option.is_live() && option.may_clients_set(changes);
    let change = match (by(ClientChanges::Safe), by(ClientChanges::All)) {
        _ if !option.is_live() => "needs a restart",
        (true, _) => "while it runs, also by clients (`CONFIG SET`)",
        (_, true) => "while it runs, by clients (`CONFIG SET`) with `acl.config_set = \"all\"`",
        _ => "while it runs, but not by clients (`CONFIG SET`)",
    };
    let _ = writeln!(page, "- Change: {change}");
    let _ = writeln!(
        page,
        "- Command line: {short}`--{} {}`; environment: `{}`\n",
        option.flag(),
        option.placeholder(),
        option.environment()
    );
}

/// The file `respool.example.toml`.
pub fn example() -> String {
    let mut file = format!(
        "# Generated from crates/config/src/options.rs by `{REGENERATE}`. Copy it, then edit the copy.\n\
         #\n\
         # Every option of respool with its default. Check a file with `respool check FILE`, use it with\n\
         # `respool --config FILE`. The reference is docs/reference/configuration.md.\n"
    );
    for table in std::iter::once(None).chain(TABLES.iter().map(|(table, _)| Some(*table))) {
        if let Some(table) = table {
            // The head alone would turn it on.
            let mark = if table == "sharding.eject" { "#" } else { "" };
            let _ = write!(file, "\n{mark}[{table}]");
        }
        for option in OPTIONS.iter().filter(|option| option.table() == table) {
            example_entry(&mut file, option);
        }
    }
    file.push('\n');
    comment(
        &mut file,
        "Tenants, a table each, with options of their own as above. See docs/guides/tenants.md.",
    );
    comment(&mut file, "[tenants.blue]");
    comment(&mut file, "users = [\"alice\"]");
    comment(&mut file, "client_names = [\"blue-*\"]");
    comment(&mut file, "clients_max = 100");
    comment(&mut file, "upstream = \"redis://10.0.0.7:6379\"");
    comment(&mut file, "[tenants.blue.timeouts]");
    comment(&mut file, "request_ms = 500");
    file
}

/// One option of the example.
fn example_entry(file: &mut String, option: &OptionSpec) {
    file.push('\n');
    comment(file, &format!("{}. {}", option.help, option.long));
    if option.choices().is_empty() {
        comment(file, &format!("Allowed: {}.", option.allowed()));
    } else {
        comment(file, &format!("One of: {}.", option.choices().join(", ")));
    }
    let key = option.key();
    let _ = match (option.name, option.default_toml()) {
        // The one option without which nothing runs stands uncommented, so that the copy works.
        ("upstream", Some(value)) => writeln!(file, "{key} = {value}"),
        // Depends on the machine, so no number can be shown that is right for the reader.
        ("workers", _) => writeln!(file, "# Default: {}.\n#{key} = 4", option.default_text()),
        ("limits.memory_max_bytes", Some(value)) => {
            comment(file, &format!("Default: {}.", option.default_text()));
            writeln!(file, "#{key} = {value}")
        }
        (_, Some(value)) => writeln!(file, "#{key} = {value}"),
        (_, None) => {
            comment(file, &format!("Default: {}.", option.default_text()));
            writeln!(file, "#{key} = {}", sample(option))
        }
    };
}

/// A value to show where there is no default.
fn sample(option: &OptionSpec) -> &'static str {
    match option.name {
        "upstream_user" => "\"respool\"",
        "upstream_password_file" => "\"/etc/respool/upstream-password\"",
        "sentinel_user" => "\"respool\"",
        "sentinel_password_file" => "\"/etc/respool/sentinel-password\"",
        "address_map" => {
            "{ \"10.0.0.5:6379\" = \"127.0.0.1:7000\", \"10.0.0.6\" = \"gateway.example\" }"
        }
        "reads.zones" => "{ \"10.0.0.5:6379\" = \"a\", \"10.0.0.6\" = \"b\" }",
        "reads.weights" => "{ \"10.0.0.5:6379\" = 3, \"10.0.0.6\" = 0 }",
        "latency.monitors" => "{ reads = \"+get +mget 200 500 1000\" }",
        "password_file" => "\"/etc/respool/password\"",
        "log.file" => "\"/var/log/respool.log\"",
        "access_log.key_prefix" => "\"user:\"",
        "access_log.client" => "\"10.0.7.*\"",
        "tracing.endpoint" => "\"http://127.0.0.1:4318\"",
        "alarms.webhook" => "\"http://127.0.0.1:8080/alarms\"",
        "admin.token_file" => "\"/etc/respool/admin-token\"",
        "acl.users" => "[\"alice on ~app:* +@read password_file=/run/secrets/alice\"]",
        "mirrors.targets" => "[\"redis-cluster://10.0.0.1,10.0.0.2 name=new\"]",
        "read_targets.targets" => "[\"redis://10.0.0.1 name=near\"]",
        "read_targets.keys" => "[\"product:*\"]",
        "acl.file" => "\"/etc/respool/users.acl\"",
        "policies.rename" => "{ config = \"config-1b7f\", flushall = \"\" }",
        "policies.deny" => "[\"keys\", \"@dangerous name=dangerous\"]",
        "policies.block" => "[\"get mget key=user:42:* name=incident-7\"]",
        "policies.read_only_error" => "\"READONLY maintenance until 12:00\"",
        "policies.size" => "[\"bytes=1MiB\", \"args=10000 @write\"]",
        "policies.own" => "[\"file=/etc/respool/guard.wasm set key=user:*\"]",
        "policies.rate" => "[\"requests=1000 per=client delay_ms=100\"]",
        "policies.fault" => "[\"percent=1 get delay_ms=50\"]",
        "policies.values.compress" => "[\"page:*\"]",
        "policies.namespace.prefix" => "\"team-a:\"",
        "policies.double_delete" => "[\"delay_ms=500 key=cache:*\"]",
        "tls.cert_file" => "\"/etc/respool/tls/proxy.pem\"",
        "tls.key_file" => "\"/etc/respool/tls/proxy.key\"",
        "tls.client_ca_file" => "\"/etc/respool/tls/app-ca.pem\"",
        "admin.tls.cert_file" => "\"/etc/respool/tls/admin.pem\"",
        "admin.tls.key_file" => "\"/etc/respool/tls/admin.key\"",
        "admin.tls.client_ca_file" => "\"/etc/respool/tls/operators-ca.pem\"",
        "tracing.tls.ca_file" | "alarms.tls.ca_file" => "\"/etc/respool/tls/observers-ca.pem\"",
        "tracing.tls.cert_file" | "alarms.tls.cert_file" => "\"/etc/respool/tls/observed.pem\"",
        "tracing.tls.key_file" | "alarms.tls.key_file" => "\"/etc/respool/tls/observed.key\"",
        "upstream_tls.ca_file" => "\"/etc/respool/tls/upstream-ca.pem\"",
        "upstream_tls.cert_file" => "\"/etc/respool/tls/upstream.pem\"",
        "upstream_tls.key_file" => "\"/etc/respool/tls/upstream.key\"",
        "upstream_tls.server_name" => "\"redis.internal\"",
        "sharding.shards" => "[\"redis://10.0.0.1:6379 name=a weight=2\", \"10.0.0.2:6379:1 b\"]",
        "sharding.distribution" => "\"ketama\"",
        "sharding.hash" => "\"fnv1a_64\"",
        "sharding.hash_tag" => "\"{}\"",
        "sharding.routes" => "{ \"user:\" = \"a b\", \"order:\" = \"orders\" }",
        "sharding.catch_all" => "\"rest\"",
        "sharding.remove_prefix" => "[\"order:\"]",
        "sharding.buckets" => "[\"0-2-4\", \"1-3-5\"]",
        _ if option.is_secret() => "\"...\"",
        _ => "\"\"",
    }
}

/// Writes text as wrapped comment lines.
fn comment(file: &mut String, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COMMENT_COLUMNS && !line.is_empty() {
            let _ = writeln!(file, "# {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(file, "# {line}");
}
