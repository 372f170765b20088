//! Redis Labs' redis-cluster-proxy: a key and its value on each line.
//!
//! Read as `parseOptionsFromFile` reads it: keys in any case, `#` begins a comment everywhere, values may be quoted, a flag
//! is `yes` or `no`. What an `include` says is applied before what stands in the file that includes, wherever the line is;
//! of what is said twice the last counts. Paths of included files start at the working directory, as they do there.
//!
//! Invariant: a file that is being included cannot be included again inside itself, and at most [`FILES_MAX`] files are read.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::Source;
use super::sheet::{Place, Sheet};
use super::url;
use super::values::{mode, no_pools, number, whole};
use crate::address::UpstreamAddress;

/// Files that are read at most, the first one included.
const FILES_MAX: usize = 64;

/// Keys that become nothing, and why.
const LOST: [(&str, &str); 14] = [
    ("tcp-backlog", "respool asks the system for its own length of the queue"),
    (
        "connections-pool-size",
        "see limits.leases_max and limits.leases_min for connections that clients have of their own",
    ),
    ("connections-pool-min-size", "see limits.leases_min"),
    ("connections-pool-spawn-every", "see limits.leases_min"),
    ("connections-pool-spawn-rate", "see limits.leases_min"),
    ("daemonize", "respool stays in the foreground; a service manager starts it"),
    ("pidfile", "a service manager knows the process"),
    (
        "enable-cross-slot",
        "commands with keys of several slots are always split, and those that cannot be get the server's error",
    ),
    ("dump-queries", "see MONITOR"),
    ("dump-buffer", "see log.level"),
    ("dump-queues", "see log.level"),
    ("disable-colors", "see log.format"),
    (
        "disable-multiplexing",
        "clients share connections unless a transaction or a blocking command needs one of its own",
    ),
    ("help", "it does nothing in a file"),
];
/// Keys that become something.
const CARRIED: [&str; 15] = [
    "cluster",
    "entry-point",
    "include",
    "port",
    "bind",
    "unixsocket",
    "unixsocketperm",
    "threads",
    "tcpkeepalive",
    "logfile",
    "log-level",
    "max-clients",
    "maxclients",
    "auth",
    "auth-user",
];
/// Levels of its log, and ours.
const LEVELS: [(&str, &str); 5] = [
    ("debug", "debug"),
    ("info", "info"),
    ("success", "info"),
    ("warning", "warn"),
    ("error", "error"),
];

/// A line.
struct Line {
    place: Place,
    key: String,
    value: String,
}

/// Reads the file and those that it includes.
pub(super) fn read(source: &Source<'_>, sheet: &mut Sheet) {
    no_pools(source.pool, source.file.name, sheet);
    let mut reader = Reader { source, sheet, open: Vec::new(), files: 0 };
    let lines = reader.file(PathBuf::from(source.file.name), source.file.text);
    let file = Place::of_file(source.file.name);
    for (index, line) in lines.iter().enumerate() {
        let again = lines[index + 1..].iter().any(|later| later.key == line.key);
        if again && !["cluster", "entry-point", "bind"].contains(&line.key.as_str()) {
            sheet.note(&line.place, &line.key, "is said again, and the last one counts");
        } else {
            read_line(line, sheet);
        }
    }
    listen(&lines, &file, sheet);
    nodes(&lines, &file, sheet);
}

struct Reader<'a, 'b> {
    source: &'a Source<'a>,
    sheet: &'b mut Sheet,
    /// The files that are being read, outermost first.
    open: Vec<PathBuf>,
    files: usize,
}

impl Reader<'_, '_> {
    /// The lines of a file in the order in which they are applied.
    fn file(&mut self, path: PathBuf, text: &str) -> Vec<Line> {
        self.files += 1;
        let name: Rc<str> = path.display().to_string().into();
        self.open.push(path);
        let (mut included, mut lines) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let column = line.len() - line.trim_start().len() + 1;
            let place = Place { name: name.clone(), line: index + 1, column };
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let (key, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            let key = key.to_lowercase();
            let Some(value) = unquote(rest.trim()) else {
                self.sheet.wrong(
                    &place,
                    &key,
                    "not one value: a quote is not closed, or more stands behind it",
                );
                continue;
            };
            if key == "include" {
                included.extend(self.include(&place, &value));
            } else {
                lines.push(Line { place, key, value });
            }
        }
        self.open.pop();
        included.extend(lines);
        included
    }

    fn include(&mut self, place: &Place, value: &str) -> Vec<Line> {
        let path = Path::new(value).to_owned();
        let message = if value.is_empty() {
            "no file is named".to_owned()
        } else if self.open.contains(&path) {
            format!("{} includes itself", path.display())
        } else if self.files == FILES_MAX {
            format!("more than {FILES_MAX} files")
        } else {
            match (self.source.read)(&path) {
                Ok(text) => return self.file(path, &text),
                Err(error) => format!("{}: cannot be read: {error}", path.display()),
            }
        };
        self.sheet.wrong(place, "include", message);
        Vec::new()
    }
}

/// A value, quotes taken away; `None` where they do not fit, or where there is more than one word. Escapes are those of Redis' files.
fn unquote(text: &str) -> Option<String> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return (!text.contains(char::is_whitespace)).then(|| text.to_owned());
    };
    let mut value = String::new();
    let mut chars = text[1..].chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if quote == '"' => value.push(match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                // A byte in hexadecimal digits may be no text, which our file could not hold.
                'x' => return None,
                c => c,
            }),
            '\\' if chars.as_str().starts_with('\'') => value.extend(chars.next()),
            c if c == quote => {
                return chars.as_str().is_empty().then_some(value);
            }
            c => value.push(c),
        }
    }
    None
}

/// Reads a line that stands for itself.
fn read_line(line: &Line, sheet: &mut Sheet) {
    let Line { place: at, key, value } = line;
    if let Some((_, advice)) = LOST.iter().find(|(lost, _)| lost == key) {
        return sheet.lost(at, key, advice);
    }
    let count = |option, sheet: &mut Sheet| {
        if let Some(number) = number(value, at, key, sheet) {
            sheet.number(option, number, at, key);
        }
    };
    match key.as_str() {
        "threads" => count("workers", sheet),
        "tcpkeepalive" => count("timeouts.tcp_keepalive_s", sheet),
        "max-clients" | "maxclients" => count("max_clients", sheet),
        "auth" if value.is_empty() => {}
        "auth" => sheet.text("upstream_password", value, at, key),
        "auth-user" => sheet.text("upstream_user", value, at, key),
        "logfile" if value.is_empty() => {}
        "logfile" => sheet.text("log.file", value, at, key),
        "log-level" => {
            let level = LEVELS.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(value));
            match level {
                Some((_, ours)) => sheet.text("log.level", ours, at, key),
                None => sheet.wrong(at, key, "allowed: debug, info, success, warning, error"),
            }
        }
        "unixsocketperm" => match mode(value, at, key, sheet) {
            Some(bits) if bits == "0000" => {
                sheet.lost(at, key, "0 leaves the permissions to the system; see unix_mode");
            }
            Some(bits) => sheet.text("unix_mode", &bits, at, key),
            None => {}
        },
        key if CARRIED.contains(&key) => {}
        _ => {
            let known = LOST.iter().map(|(key, _)| *key).chain(CARRIED);
            sheet.unknown(at, key, known);
        }
    }
}

/// Addresses: each `bind` with the one port, or all interfaces; and a unix socket.
fn listen(lines: &[Line], file: &Place, sheet: &mut Sheet) {
    let last = |key: &str| lines.iter().rfind(|line| line.key == key);
    let port = last("port");
    let text = port.map_or("7777", |line| line.value.as_str());
    let mut is_bound = false;
    // Port 0 means no TCP at all.
    if whole(text) != Some(0) {
        for bind in lines.iter().filter(|line| line.key == "bind") {
            is_bound = true;
            sheet.listen(&bind.value, text, &bind.place, "bind");
        }
        if !is_bound {
            let place = port.map_or(file, |line| &line.place);
            sheet.listen("0.0.0.0", text, place, "port");
            sheet.remark("without `bind` it listens on IPv6 as well; add \"[::]:PORT\" to listen where that is used");
        }
    }
    if let Some(line) = last("unixsocket").filter(|line| !line.value.is_empty()) {
        sheet.push("listen", format!("unix:{}", line.value), &line.place, "unixsocket");
    }
}

/// Nodes of the cluster: `host:port`, of which the host may be missing.
fn nodes(lines: &[Line], file: &Place, sheet: &mut Sheet) {
    let is_node = |line: &&Line| line.key == "cluster" || line.key == "entry-point";
    let (mut nodes, mut first) = (Vec::new(), None);
    for line in lines.iter().filter(is_node) {
        first.get_or_insert(&line.place);
        if !line.value.contains(':') {
            sheet.lost(
                &line.place,
                &line.key,
                "a cluster is reached over TCP, and not over a unix socket",
            );
            continue;
        }
        let address = match line.value.strip_prefix(':') {
            Some(port) => format!("localhost:{port}"),
            None => line.value.clone(),
        };
        match UpstreamAddress::from_server_line(&address) {
            Ok(address) => nodes.push(address),
            Err(message) => sheet.wrong(&line.place, &line.key, message),
        }
    }
    let place = first.unwrap_or(file);
    match url::cluster(nodes) {
        Some(url) => sheet.text("upstream", &url::text(&url), place, "cluster"),
        None if sheet.is_wrong() => {}
        None => sheet.wrong(place, "cluster", "no node of the cluster is named; if it was on the command line, add `cluster host:port` to the file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes() {
        for (text, value) in [
            ("a", Some("a")),
            ("a b", None),
            ("\"a\" b", None),
            ("", Some("")),
            (r#""a b""#, Some("a b")),
            (r#""a\"b\n""#, Some("a\"b\n")),
            (r"'a\'b'", Some("a'b")),
            (r#"'a"b'"#, Some("a\"b")),
            ("\"a", None),
            ("\"a\"b", None),
            (r#""\x41""#, None),
        ] {
            assert_eq!(unquote(text).as_deref(), value, "{text}");
        }
    }
}
