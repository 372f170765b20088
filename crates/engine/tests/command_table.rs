//! Compares the command table with a running server: each row that the server knows, and the keys of sample calls.
//!
//! The servers are `redis-server` or `valkey-server` found on PATH and those that `tests/servers/install` has fetched, or
//! those that `RESPOOL_TEST_SERVERS` names (paths, separated by colons). It runs on a free port of the loopback interface, writes nothing, and is killed at the end.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use engine::command::{
    Begin, COUNT, CommandId, Find, Flags, KeyFlags, Learned, keys, lookup, lookup_sub,
    options::given,
};
use resp::value::{Value, parse};

#[test]
fn every_row_the_server_knows() {
    for mut server in servers() {
        let reply = server.call(&["COMMAND"]);
        let (value, _) = parse(&reply).unwrap().unwrap();
        let mut report = Report::default();
        for entry in value.as_list().unwrap() {
            report.compare(&Entry::of(entry));
        }
        println!("{}: {} rows of {COUNT} compared", server.binary, report.compared);
        // A server that is newer than the table may have more; that is what learning is for.
        if server.is_covered() {
            assert!(report.unknown.is_empty(), "not in the table: {:?}", report.unknown);
            let learned = Learned::from_reply(&value).unwrap();
            assert_eq!((learned.len(), learned.skipped()), (0, 0));
        }
        assert!(report.compared >= 360, "Redis 7.0 has 366 commands and subcommands");
        assert!(report.differences.is_empty(), "{}:\n{}", server.binary, report.differences);
    }
}

#[test]
fn keys_of_sample_calls() {
    for mut server in servers() {
        let mut differences = String::new();
        let mut compared = 0;
        for call in CALLS.iter().map(|call| words(call)).chain(generated_calls()) {
            let args: Vec<&str> = call.iter().map(String::as_str).collect();
            let Some(theirs) = server.keys(&args) else { continue };
            compared += 1;
            let ours = our_keys(&args);
            if ours != theirs {
                writeln!(differences, "{args:?}\n  ours   {ours:?}\n  theirs {theirs:?}").unwrap();
            }
        }
        println!("{}: {compared} calls compared", server.binary);
        assert!(compared > 250, "most calls are of commands that every server knows");
        assert!(differences.is_empty(), "{}:\n{differences}", server.binary);
    }
}

/// Each option that a server documents is one for respool, with as many arguments.
#[test]
fn options_that_the_server_documents() {
    for mut server in servers() {
        let mut differences = String::new();
        let mut compared = 0;
        for id in CommandId::all().filter(|id| id.row().grammar.is_known()) {
            let reply = server.call(&["COMMAND", "DOCS", id.name()]);
            let (value, _) = parse(&reply).unwrap().unwrap();
            let Some([_, docs]) = value.as_list() else { continue };
            let mut tokens = Vec::new();
            arguments(docs).iter().for_each(|argument| add_tokens(argument, &mut tokens));
            for (word, args) in tokens {
                compared += 1;
                if !is_read(id, &word, args) {
                    writeln!(differences, "{}: {word} with {args} arguments", id.name()).unwrap();
                }
            }
        }
        println!("{}: {compared} options compared", server.binary);
        assert!(compared > 100, "Redis 7.0 documents that many");
        assert!(differences.is_empty(), "{}:\n{differences}", server.binary);
    }
}

/// Words that stand at a fixed place, and so are no options.
const PLACED: [&str; 10] =
    ["m", "km", "ft", "mi", "on", "off", "importing", "migrating", "node", "stable"];
/// Options that a server documents without what follows them.
const FOLLOWED: [&str; 4] = ["maxlen", "minid", "keys", "streams"];

/// The option words that a documented argument has, with how many arguments belong to each.
fn add_tokens(argument: &Value<'_>, tokens: &mut Vec<(String, usize)>) {
    let kind = text(field(argument, "type"));
    let inner = arguments(argument);
    let token = try_field(argument, "token").map(|token| text(token).to_lowercase());
    let Some(token) = token else {
        return inner.iter().for_each(|argument| add_tokens(argument, tokens));
    };
    let args = match kind.as_str() {
        "pure-token" => 0,
        "block" => inner.iter().map(leaves).sum(),
        _ => 1,
    };
    let is_word = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_word && !PLACED.contains(&&*token) {
        tokens.push((token, args));
    }
}

/// How many arguments this one is.
fn leaves(argument: &Value<'_>) -> usize {
    match text(field(argument, "type")).as_str() {
        "block" => arguments(argument).iter().map(leaves).sum(),
        _ => 1,
    }
}

fn arguments<'a>(map: &'a Value<'a>) -> &'a [Value<'a>] {
    try_field(map, "arguments").and_then(Value::as_list).unwrap_or_default()
}

fn try_field<'a>(map: &'a Value<'a>, key: &str) -> Option<&'a Value<'a>> {
    let pairs = map.as_list()?.chunks_exact(2);
    pairs
        .map(|pair| (text(&pair[0]), &pair[1]))
        .find(|(name, _)| name == key)
        .map(|(_, value)| value)
}

/// Whether respool reads this option somewhere in a call, with so many arguments.
fn is_read(id: CommandId, word: &str, args: usize) -> bool {
    let names: Vec<&[u8]> = id.name().split('|').map(str::as_bytes).collect();
    (1..8).any(|begin| {
        let one = |count: usize| std::iter::repeat_n(&b"1"[..], count);
        let call = names.iter().copied().chain(one(begin)).chain([word.as_bytes()]).chain(one(3));
        let call: Vec<&[u8]> = call.collect();
        let mut options = given(id.row(), call.iter().copied());
        let takes = |found: usize| found == args || FOLLOWED.contains(&word) && found > args;
        options.any(|option| option.is(word) && takes(option.args))
    })
}

/// Calls whose keys are not simply the first arguments. `''` is the empty argument.
const CALLS: &[&str] = &[
    "eval return 2 a b c",
    "eval return 0",
    "eval return 9 a",
    "eval_ro return 1 a b",
    "evalsha sha 1 a b",
    "evalsha_ro sha 2 a b",
    "fcall f 2 a b c",
    "fcall_ro f 1 a b",
    "sort k",
    "sort k by w_* limit 0 5 get # asc alpha store d",
    "sort k get store store d",
    "sort k store a store b",
    "sort_ro k by w_* limit 0 5",
    "migrate host 1 k 0 5",
    "migrate host 1 k 0 5 copy replace auth keys",
    "migrate host 1 '' 0 5 copy replace auth keys keys a b",
    "migrate host 1 '' 0 5 auth2 keys keys KEYS a b c",
    "set k v",
    "set k v get",
    "set k v ex 10 nx GET",
    "set k get",
    "bitfield k get u8 0",
    "bitfield k get u8 0 get u8 8 overflow sat",
    "bitfield k set u8 0 1",
    "bitfield k get u8 0 incrby u8 0 1",
    "bitfield k",
    "georadius k 1 2 3 m",
    "georadius k 1 2 3 m withcoord store d",
    "georadius k 1 2 3 m storedist d",
    "georadiusbymember k m 3 m store d",
    "georadiusbymember k m 3 m count 1 storedist d",
    "geosearchstore d k frommember m byradius 1 m",
    "xread streams a 0",
    "xread count 2 block 0 STREAMS a b c 0 0 0",
    "xreadgroup group g c streams a b > >",
    "xreadgroup group streams streams count 1 noack streams a >",
    "xread streams\0 a 0",
    "sort k get\0x store STORE\0 d",
    "set k v Get\0",
    "bitfield k get\0 u8 0",
    "georadius k 1 2 3 m STORE\0x d",
    "zunion 2 a b weights 1 2",
    "zunionstore d 2 a b aggregate max",
    "zinter 1 a",
    "zinterstore d 3 a b c",
    "zdiff 2 a b withscores",
    "zdiffstore d 1 a",
    "zintercard 2 a b limit 1",
    "sintercard 2 a b",
    "zmpop 2 a b min",
    "lmpop 1 a left count 2",
    "bzmpop 0 2 a b max",
    "blmpop 0 1 a right",
    "bitop and d a b c",
    "bitop not d a",
    "object encoding k",
    "object freq k",
    "memory usage k samples 5",
    "xgroup create k g $ mkstream",
    "xgroup delconsumer k g c",
    "xinfo stream k full",
    "mset a 1 b 2",
    "msetnx a 1 b 2 c 3",
    "msetex 2 a 1 b 2 ex 10",
    "delifeq k v",
    "pfdebug getreg k",
    "restore-asking k 0 v",
    "watch a b",
    "copy a b db 1 replace",
    "lcs a b idx",
    "hsetex k fields 1 f v",
    "hgetdel k fields 1 f",
    "vsim k ele e",
    "xdelex k ids 1 0-1",
];

/// Where servers disagree with each other, so that the table can't agree with all: name (or the beginning of one, with
/// a `*`) and the flags that are not compared.
const DISPUTED: &[(&str, Flags)] = &[
    // Known from the sources of the servers, and never in a reply.
    ("*", Flags::MAY_REPLICATE),
    // Scripts may call them from Redis 7.2 on.
    ("bl*", Flags::NOSCRIPT),
    ("br*", Flags::NOSCRIPT),
    ("bzpop*", Flags::NOSCRIPT),
    // Until 8.0 they were said not to block, and kept out of scripts.
    ("wait*", Flags::NOSCRIPT.with(Flags::BLOCKING)),
    // Refused without memory in Redis 7.4 and 8.0.
    ("hexpire*", Flags::DENYOOM),
    ("hpexpire*", Flags::DENYOOM),
    // Valkey lets them through while a script runs for too long.
    ("client|*", Flags::ALLOW_BUSY.with(Flags::NO_MULTI)),
    ("select", Flags::ALLOW_BUSY),
    // Refused in a transaction by this flag in Valkey 9, by their own code elsewhere.
    ("multi", Flags::NO_MULTI),
    ("watch", Flags::NO_MULTI),
    // Allowed while loading or stale from one version or another on.
    ("cluster|*", Flags::LOADING),
    ("memory|*", Flags::LOADING),
    ("script|*", Flags::STALE),
    // New in Redis 8.4 and later.
    ("eval*", Flags::SCRIPT_RUNNER),
    ("fcall*", Flags::SCRIPT_RUNNER),
    ("*subscribe", Flags::DENYOOM),
];

/// Rows that take more than some servers do, and so differ from those in arity: they got an option or lost a minimum
/// (vector sets, a module of Redis 8.0 and 8.2, declared none at all).
const WIDER: &[&str] = &[
    "cluster|replicate",
    "command|getkeys",
    "command|getkeysandflags",
    "script|debug",
    "zrank",
    "zrevrank",
    "v*",
];

/// Key flags that servers disagree on: Valkey says that those of `STORE` vary, Redis 7.0 that `SINTERSTORE` reads its
/// destination, and they describe `HSETEX` differently.
const DISPUTED_KEYS: &[(&str, KeyFlags)] = &[
    ("georadius*", KeyFlags::VARIABLE),
    ("sinterstore", KeyFlags::RW.with(KeyFlags::OW)),
    ("hsetex", KeyFlags::UPDATE.with(KeyFlags::INSERT)),
];

/// What the comparison of one server's commands with the table found.
#[derive(Default)]
struct Report {
    compared: usize,
    unknown: BTreeSet<String>,
    differences: String,
}

impl Report {
    fn compare(&mut self, entry: &Entry<'_>) {
        let Some(id) = row_of(&entry.name) else {
            self.unknown.insert(entry.name.clone());
            return;
        };
        self.compared += 1;
        let row = id.row();
        assert_eq!(row.name, entry.name);
        let wider = WIDER.iter().any(|pattern| matches(pattern, row.name));
        if row.arity != entry.arity && !(wider && accepts(row.arity, entry.arity)) {
            self.differ(entry, "arity", &row.arity, &entry.arity);
        }
        let ours = row.flags.without(disputed(DISPUTED, row.name, Flags::with));
        let theirs = entry.flags.without(disputed(DISPUTED, row.name, Flags::with));
        if ours != theirs {
            self.differ(entry, "flags", &ours, &theirs);
        }
        // Categories follow flags; where those are disputed, these are as well.
        let is_disputed =
            disputed(DISPUTED, row.name, Flags::with).intersects(Flags::FAST.with(Flags::BLOCKING));
        let ours: Vec<&str> = row.categories.names().collect();
        if !is_disputed && ours != entry.categories {
            self.differ(entry, "categories", &ours, &entry.categories);
        }
        let ours: Vec<_> = row.keys.iter().map(|spec| declaration(row.name, spec)).collect();
        if ours != entry.keys {
            self.differ(entry, "keys", &ours, &entry.keys);
        }
        if id.subcommands().count() < entry.subcommands.len() {
            self.differ(entry, "subcommands", &id.subcommands().count(), &entry.subcommands.len());
        }
        for subcommand in entry.subcommands {
            self.compare(&Entry::of(subcommand));
        }
    }

    fn differ(
        &mut self,
        entry: &Entry<'_>,
        what: &str,
        ours: &dyn std::fmt::Debug,
        theirs: &dyn std::fmt::Debug,
    ) {
        writeln!(self.differences, "{} {what}: ours {ours:?}, theirs {theirs:?}", entry.name)
            .unwrap();
    }
}

/// One entry of the `COMMAND` reply.
struct Entry<'a> {
    name: String,
    arity: i16,
    flags: Flags,
    categories: Vec<&'static str>,
    keys: Vec<String>,
    subcommands: &'a [Value<'a>],
}

impl<'a> Entry<'a> {
    fn of(value: &'a Value<'a>) -> Self {
        let fields = value.as_list().unwrap();
        let Value::Integer(arity) = fields[1] else { panic!("arity: {:?}", fields[1]) };
        let name = text(&fields[0]).to_ascii_lowercase();
        let flags = fields[2].as_list().unwrap().iter().map(|word| flag(&text(word)));
        let keys = fields[8].as_list().unwrap().iter().map(|spec| their_declaration(&name, spec));
        Self {
            arity: arity.try_into().unwrap(),
            flags: flags.fold(Flags::default(), Flags::with),
            categories: categories(&fields[6]),
            keys: keys.collect(),
            subcommands: fields[9].as_list().unwrap(),
            name,
        }
    }
}

/// The words of field 6 that we know, in our order.
fn categories(words: &Value<'_>) -> Vec<&'static str> {
    let words: Vec<String> = words.as_list().unwrap().iter().map(text).collect();
    let is_there = |name: &&&str| words.iter().any(|word| word.strip_prefix('@') == Some(**name));
    engine::command::categories::NAMES.iter().filter(is_there).copied().collect()
}

/// A word of field 3. An unknown one fails the test, because the comparison would be blind for it.
fn flag(word: &str) -> Flags {
    // Valkey 8.1 renamed it.
    let word = if word == "skip_slowlog" { "skip_commandlog" } else { word };
    Flags::from_word(word.as_bytes()).unwrap_or_else(|| panic!("unknown flag {word}"))
}

/// Our declaration and the server's as text of one form.
fn declaration(name: &str, spec: &engine::command::KeySpec) -> String {
    let begin = match spec.begin {
        Begin::Index(index) => format!("index {index}"),
        Begin::Keyword { word, start } => format!("{word} from {start}"),
        Begin::Unknown => "unknown".into(),
    };
    let find = match spec.find {
        Find::Range { last, step, limit } => format!("to {last} by {step} limit {limit}"),
        Find::Counted { count_at, first, step } => format!("count {count_at} at {first} by {step}"),
        Find::Unknown => "unknown".into(),
    };
    format!(
        "{begin}, {find}, {:?}",
        spec.flags.without(disputed(DISPUTED_KEYS, name, KeyFlags::with))
    )
}

fn their_declaration(name: &str, spec: &Value<'_>) -> String {
    let search = |part: &str| {
        let search = field(spec, part);
        let kind = text(field(search, "type"));
        (kind, move |what: &str| match field(field(search, "spec"), what) {
            Value::Integer(number) => number.to_string(),
            word => text(word).to_ascii_lowercase(),
        })
    };
    let (kind, of) = search("begin_search");
    let begin = match kind.as_str() {
        "index" => format!("index {}", of("index")),
        "keyword" => format!("{} from {}", of("keyword"), of("startfrom")),
        _ => "unknown".into(),
    };
    let (kind, of) = search("find_keys");
    let find = match kind.as_str() {
        "range" => format!("to {} by {} limit {}", of("lastkey"), of("keystep"), of("limit")),
        "keynum" => format!("count {} at {} by {}", of("keynumidx"), of("firstkey"), of("keystep")),
        _ => "unknown".into(),
    };
    let words = field(spec, "flags").as_list().unwrap();
    let flags = words.iter().map(|word| key_flag(word)).fold(KeyFlags::default(), KeyFlags::with);
    format!("{begin}, {find}, {:?}", flags.without(disputed(DISPUTED_KEYS, name, KeyFlags::with)))
}

fn key_flag(word: &Value<'_>) -> KeyFlags {
    let word = text(word);
    KeyFlags::from_word(word.as_bytes()).unwrap_or_else(|| panic!("unknown key flag {word}"))
}

/// The flags that are not compared for the command `name`. `with` joins two sets.
fn disputed<F: Copy + Default>(list: &[(&str, F)], name: &str, with: fn(F, F) -> F) -> F {
    let of_name = list.iter().filter(|(pattern, _)| matches(pattern, name));
    of_name.fold(F::default(), |sum, (_, flags)| with(sum, *flags))
}

/// A name, or one with a `*` at either end.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(start), _) => name.starts_with(start),
        (_, Some(end)) => name.ends_with(end),
        _ => name == pattern,
    }
}

/// True if arity `wide` takes every call that arity `narrow` takes.
fn accepts(wide: i16, narrow: i16) -> bool {
    wide < 0 && wide.unsigned_abs() <= narrow.unsigned_abs()
}

/// One plain call per row with keys: as many arguments as it must have and two more where it may, each key count 2.
fn generated_calls() -> impl Iterator<Item = Vec<String>> {
    let rows = (0..COUNT).filter_map(CommandId::from_index).map(CommandId::row);
    rows.filter(|row| !row.keys.is_empty()).map(|row| {
        let mut call: Vec<String> = row.name.split('|').map(str::to_string).collect();
        let more = if row.arity < 0 { 2 } else { 0 };
        for index in call.len()..usize::from(row.arity.unsigned_abs()) + more {
            let counts = row.keys.iter().any(|spec| match (spec.begin, spec.find) {
                (Begin::Index(begin), Find::Counted { count_at, .. }) => {
                    usize::from(begin + count_at) == index
                }
                _ => false,
            });
            call.push(if counts { "2".into() } else { format!("a{index}") });
        }
        call
    })
}

/// The keys that the table finds, as the server lists them: without channels, which it leaves out.
fn our_keys(args: &[&str]) -> Vec<(String, String)> {
    let mut id = lookup(args[0].as_bytes()).unwrap();
    if id.row().is_container() {
        id = lookup_sub(id, args[1].as_bytes()).unwrap();
    }
    let mut found = Vec::new();
    keys(id.row(), args.iter().map(|arg| arg.as_bytes()), |_, key, flags| {
        if !flags.has(KeyFlags::NOT_KEY) {
            let key = String::from_utf8(key.to_vec()).unwrap();
            found.push((key, comparable(id.name(), flags)));
        }
    });
    found
}

/// The flags of a key as text, without what servers disagree on and without remarks about the declaration.
fn comparable(name: &str, flags: KeyFlags) -> String {
    // For the keys of GEORADIUS, whose flags it calls variable, Valkey gives none at all.
    if name.starts_with("georadius") {
        return String::new();
    }
    let remarks = KeyFlags::VARIABLE.with(KeyFlags::INCOMPLETE);
    format!("{:?}", flags.without(remarks).without(disputed(DISPUTED_KEYS, name, KeyFlags::with)))
}

/// The row for a name as `COMMAND` writes it.
fn row_of(name: &str) -> Option<CommandId> {
    match name.split_once('|') {
        None => lookup(name.as_bytes()),
        Some((container, sub)) => lookup_sub(lookup(container.as_bytes())?, sub.as_bytes()),
    }
}

/// The value of `key` in a RESP2 reply that lists keys and values in turn.
fn field<'a>(map: &'a Value<'a>, key: &str) -> &'a Value<'a> {
    let pairs = map.as_list().unwrap().chunks_exact(2);
    let mut found = pairs.filter(|pair| text(&pair[0]) == key);
    &found.next().unwrap_or_else(|| panic!("no {key} in {map:?}"))[1]
}

fn text(value: &Value<'_>) -> String {
    String::from_utf8_lossy(value.as_text().unwrap_or_else(|| panic!("no text: {value:?}"))).into()
}

/// A call written as words; `''` is the empty argument.
fn words(call: &str) -> Vec<String> {
    call.split(' ').map(|word| if word == "''" { String::new() } else { word.into() }).collect()
}

/// A server of our own.
struct Server {
    binary: String,
    stream: TcpStream,
    _process: Killed,
}

/// A process that ends with its owner: it holds nothing worth keeping, and a test that failed must not leave it behind.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The servers to compare with; at least one.
fn servers() -> Vec<Server> {
    if let Ok(named) = std::env::var("RESPOOL_TEST_SERVERS") {
        return named.split(':').map(|binary| Server::start(binary).unwrap()).collect();
    }
    let found = ["redis-server", "valkey-server"].iter().find_map(|binary| Server::start(binary));
    let found = found
        .expect("neither redis-server nor valkey-server is on PATH (apt-get install redis-server)");
    std::iter::once(found).chain(FETCHED.iter().filter_map(|name| fetched(name))).collect()
}

/// Other versions. Of those before 7.0 `COMMAND` does not tell enough.
const FETCHED: &[&str] = &["redis-8.2", "valkey-8.1", "valkey-9.1"];

/// The server of this name; without it the reason is told where nothing captures it.
fn fetched(name: &str) -> Option<Server> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/servers/install");
    let output = Process::new(script).args(["--offline", name]).output().unwrap();
    if !output.status.success() {
        std::io::stderr().write_all(&[b"skipped: ", &*output.stderr].concat()).unwrap();
        return None;
    }
    Server::start(String::from_utf8(output.stdout).unwrap().trim())
}

impl Server {
    /// Starts `binary`; none if there is no such program.
    fn start(binary: &str) -> Option<Self> {
        const ATTEMPTS: usize = 5;
        // Somebody may take the port between our look and the server's bind, so a lost race is run again.
        for _ in 0..ATTEMPTS {
            let port =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            let process = match Process::new(binary)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
                .args(["--appendonly", "no", "--daemonize", "no"])
                .current_dir(std::env::temp_dir())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
            {
                Ok(process) => process,
                Err(error) if error.kind() == ErrorKind::NotFound => return None,
                Err(error) => panic!("{binary}: {error}"),
            };
            let mut process = Killed(process);
            let Some(stream) = connect(&mut process.0, port) else { continue };
            let id = format!("process_id:{}\r", process.0.id());
            let mut server = Self { binary: binary.into(), stream, _process: process };
            // Whoever took the port may answer in its place.
            let info = server.try_call(&["INFO", "server"]).unwrap_or_default();
            if String::from_utf8_lossy(&info).contains(&id) {
                return Some(server);
            }
        }
        panic!("{binary} did not come up in {ATTEMPTS} attempts");
    }

    /// The bytes of one reply.
    fn call(&mut self, args: &[&str]) -> Vec<u8> {
        self.try_call(args).unwrap()
    }

    fn try_call(&mut self, args: &[&str]) -> std::io::Result<Vec<u8>> {
        let mut request = format!("*{}\r\n", args.len());
        for arg in args {
            write!(request, "${}\r\n{arg}\r\n", arg.len()).unwrap();
        }
        self.stream.write_all(request.as_bytes())?;
        let mut reply = Vec::new();
        let mut chunk = vec![0; 1 << 20];
        while parse(&reply).unwrap().is_none() {
            let read = self.stream.read(&mut chunk)?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            reply.extend_from_slice(&chunk[..read]);
        }
        Ok(reply)
    }

    /// The keys of a call as the server sees them, with their flags; none if it does not know the command or
    /// not with so many arguments. A call that it finds invalid or without keys has none.
    fn keys(&mut self, args: &[&str]) -> Option<Vec<(String, String)>> {
        let call: Vec<_> = ["COMMAND", "GETKEYSANDFLAGS"].iter().chain(args).copied().collect();
        let reply = self.call(&call);
        let (value, _) = parse(&reply).unwrap().unwrap();
        if let Some(error) = value.as_error() {
            let error = String::from_utf8_lossy(error);
            // The number of arguments is invalid for servers that take fewer than the table allows.
            let unknown = ["Invalid command specified", "Invalid number of arguments"];
            let unknown = unknown.iter().any(|text| error.contains(text));
            let none = error.contains("no key arguments") || error.contains("Invalid arguments");
            assert!(unknown || none, "{args:?}: {error}");
            return none.then(Vec::new);
        }
        let name = if lookup(args[0].as_bytes()).unwrap().row().is_container() {
            args[..2].join("|")
        } else {
            args[0].into()
        };
        let pairs = value.as_list().unwrap().iter().map(|pair| {
            let [key, flags] = pair.as_list().unwrap() else { panic!("{pair:?}") };
            let words = flags.as_list().unwrap().iter();
            let flags = words.map(key_flag).fold(KeyFlags::default(), KeyFlags::with);
            (text(key), comparable(&name, flags))
        });
        Some(pairs.collect())
    }

    /// True if the table claims to know all of this server's commands.
    fn is_covered(&mut self) -> bool {
        let reply = self.call(&["INFO", "server"]);
        let info = String::from_utf8_lossy(&reply).into_owned();
        let version = |field: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(field))?;
            let mut numbers = line.split('.').map_while(|number| number.parse::<u32>().ok());
            Some((numbers.next()?, numbers.next()?))
        };
        match version("valkey_version:") {
            Some(valkey) => valkey <= (9, 1),
            None => version("redis_version:").unwrap() <= (8, 2),
        }
    }
}

/// Waits until the server answers; none if it ended or takes too long.
fn connect(process: &mut Child, port: u16) -> Option<TcpStream> {
    const PATIENCE: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && process.try_wait().unwrap().is_none() {
        if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            return Some(stream);
        }
        std::thread::sleep(PAUSE);
    }
    None
}
