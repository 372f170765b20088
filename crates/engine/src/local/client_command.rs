//! CLIENT and its subcommands.
//!
//! Those about the client itself are answered at once; LIST, KILL, PAUSE and UNPAUSE concern all workers and are asked of them (`fleet`).
//! TRACKING and its kin are `tracking`'s.
//!
//! Invariant: a subcommand that does not exist is answered as Redis answers it, and the connection stays open (clients probe like this).

use super::hello::is_name;
use super::{Call, arity_fits};
use crate::client::ReplyMode;
use crate::command::word;
use crate::command::{CommandId, ids, lookup_sub};
use crate::engine::Engine;
use crate::fleet::{Answer, KillFilter, Purpose, Question};
use crate::ids::ClientId;
use crate::reject;
use crate::request::Step;
use crate::time::Time;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Protocol, encode, number};

/// `CLIENT HELP`, for what is offered here.
const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection, at the proxy.",
    "INFO",
    "    Return information about the current client connection, at the proxy.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port> to the proxy.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are ADDR, LADDR, TYPE, USER, SKIPME, ID, MAXAGE.",
    "LIST [options ...]",
    "    Return information about the proxy's client connections. Options: TYPE, ID.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients of the proxy for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are LIB-NAME, LIB-VER.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "HELP",
    "    Print this help.",
];

impl Engine {
    pub(super) fn client_command(&mut self, now: Time, call: &Call<'_>) -> Step {
        let (Some(name), true) = (call.args.get(1), call.command == ids::CLIENT) else {
            return self.say(call, |out| reject::arity(out, call.command.name()));
        };
        let found = lookup_sub(call.command, name).filter(|sub| self.has_subcommand(*sub));
        let Some(sub) = found else {
            self.stats.command(Some(call.command)).rejected += 1;
            self.end_skip(call.id, call.silent);
            return self.say(call, |out| reject::unknown_subcommand(out, "client", name));
        };
        // In a transaction that is EXEC.
        if let Some(client) = self.clients.get_mut(call.id).filter(|_| call.inside.is_none()) {
            client.last_command = Some(sub);
        }
        let call = Call { command: sub, ..*call };
        let fits = arity_fits(sub, call.args.len());
        let step = if fits {
            self.client_subcommand(now, &call)
        } else {
            self.say(&call, |out| reject::arity(out, sub.name()))
        };
        // A command that waits comes here again.
        if step == Step::Done && (sub != ids::CLIENT_REPLY || !fits) {
            self.end_skip(call.id, call.silent);
        }
        step
    }

    fn client_subcommand(&mut self, now: Time, call: &Call<'_>) -> Step {
        let Some(client) = self.clients.get_mut(call.id) else { return Step::Gone };
        let (number, protocol) = (client.number as i64, client.protocol);
        match call.command {
            ids::CLIENT_ID => self.say(call, |out| encode::integer(out, number)),
            ids::CLIENT_GETNAME => self.client_getname(call, protocol),
            ids::CLIENT_SETNAME => self.client_setname(call),
            ids::CLIENT_SETINFO => self.client_setinfo(call),
            ids::CLIENT_INFO => {
                let text = format!("{}\n", self.client_line(now, call.id));
                self.say(call, |out| encode::verbatim(out, *b"txt", text.as_bytes(), protocol))
            }
            ids::CLIENT_LIST => self.client_list(call),
            ids::CLIENT_KILL => self.client_kill(call),
            ids::CLIENT_REPLY => self.client_reply(call),
            ids::CLIENT_NO_EVICT => {
                self.client_switch(call, |client, on| client.identity.no_evict = on)
            }
            ids::CLIENT_NO_TOUCH => {
                self.client_switch(call, |client, on| client.identity.no_touch = on)
            }
            ids::CLIENT_PAUSE => self.client_pause(call),
            ids::CLIENT_UNPAUSE => self.ask(call, Question::Unpause, Purpose::Ok),
            ids::CLIENT_GETREDIR => {
                let number = self.redirected_to(call.id);
                self.say(call, |out| encode::integer(out, number))
            }
            ids::CLIENT_CACHING => self.client_caching(call),
            ids::CLIENT_TRACKING => self.client_tracking(now, call),
            ids::CLIENT_TRACKINGINFO => self.client_trackinginfo(call, protocol),
            ids::CLIENT_UNBLOCK => self.client_unblock(call),
            ids::CLIENT_HELP => self.say(call, |out| {
                encode::array(out, HELP.len());
                HELP.iter().for_each(|line| encode::simple(out, line.as_bytes()));
            }),
            // The only capability that there is. Others are none of a server's concern, which says OK.
            ids::CLIENT_CAPA if call.args[2..].iter().any(|word| word::is(word, b"redirect")) => {
                self.refuse(call, reject::CAPA_REDIRECT)
            }
            // What it changes, a server changes for a connection, and those are shared.
            ids::CLIENT_IMPORT_SOURCE if !word::is(call.args[2], b"off") => {
                self.refuse(call, reject::NO_IMPORT_MODE)
            }
            _ => self.ok(call),
        }
    }

    /// Whether the servers know this subcommand of CLIENT.
    fn has_subcommand(&self, sub: CommandId) -> bool {
        match sub {
            ids::CLIENT_CAPA => self.facts.may_be_valkey(8, 0),
            ids::CLIENT_IMPORT_SOURCE => self.facts.may_be_valkey(8, 1),
            _ => true,
        }
    }

    fn client_getname(&mut self, call: &Call<'_>, protocol: Protocol) -> Step {
        let name = self.clients.get(call.id).map(|client| client.identity.name.clone());
        self.say(call, |out| match name.as_deref() {
            None | Some([]) => encode::null(out, protocol),
            Some(name) => encode::bulk(out, name),
        })
    }

    fn client_setname(&mut self, call: &Call<'_>) -> Step {
        if !is_name(call.args[2]) {
            return self.refuse(call, reject::CLIENT_NAME);
        }
        if let Some(step) = self.unless_it_stays(call, None, Some(call.args[2])) {
            return step;
        }
        if let Some(client) = self.clients.get_mut(call.id) {
            client.identity.name = call.args[2].to_vec();
        }
        self.account_rest(call.id);
        self.ok(call)
    }

    fn client_setinfo(&mut self, call: &Call<'_>) -> Step {
        let (option, value) = (call.args[2], call.args[3]);
        let name = word::lower(option);
        if name != b"lib-name" && name != b"lib-ver" {
            let text = format!("ERR Unrecognized option '{}'", String::from_utf8_lossy(option));
            return self.refuse(call, &text);
        }
        if !is_name(value) {
            let name = String::from_utf8_lossy(&name);
            return self.refuse(
                call,
                &format!("ERR {name} cannot contain spaces, newlines or special characters."),
            );
        }
        if let Some(client) = self.clients.get_mut(call.id) {
            let field = if name == b"lib-name" {
                &mut client.identity.lib_name
            } else {
                &mut client.identity.lib_ver
            };
            *field = value.to_vec();
        }
        self.account_rest(call.id);
        self.ok(call)
    }

    fn client_switch(
        &mut self,
        call: &Call<'_>,
        set: impl FnOnce(&mut crate::client::Client, bool),
    ) -> Step {
        let Some(on) = on_or_off(call.args[2]) else { return self.refuse(call, reject::SYNTAX) };
        if let Some(client) = self.clients.get_mut(call.id) {
            set(client, on);
        }
        self.ok(call)
    }

    fn client_reply(&mut self, call: &Call<'_>) -> Step {
        let Some(client) = self.clients.get_mut(call.id) else { return Step::Gone };
        let how = word::lower(call.args[2]);
        let mode = match (&*how, client.reply_mode) {
            // What a transaction skips is the command behind it.
            (b"on", ReplyMode::SkipNext) if call.inside.is_some() => ReplyMode::SkipNext,
            (b"on", _) => ReplyMode::On,
            // OFF is stronger.
            (b"off", _) | (b"skip", ReplyMode::Off) => ReplyMode::Off,
            (b"skip", _) => ReplyMode::SkipNext,
            _ => {
                self.end_skip(call.id, call.silent);
                return self.refuse(call, reject::SYNTAX);
            }
        };
        client.reply_mode = mode;
        let is_on = &*how == b"on";
        if let Some(at) = call.inside
            && &*how != b"skip"
        {
            self.mute_inside(call.id, at, !is_on);
        }
        let call = Call { silent: !is_on, ..*call };
        self.say(&call, |out| {
            if is_on {
                encode::simple(out, b"OK");
            }
        })
    }

    fn client_list(&mut self, call: &Call<'_>) -> Step {
        let mut listens = None;
        let ids = match &call.args[2..] {
            [] => None,
            [word, kind] if word::is(word, b"type") => match client_type(kind) {
                Some(Type::Listens(wanted)) => {
                    listens = Some(wanted);
                    None
                }
                Some(Type::Nobody) => Some(Vec::new()),
                None => return self.refuse(call, &unknown_type(kind)),
            },
            [word, ids @ ..] if word::is(word, b"id") && !ids.is_empty() => {
                match ids.iter().map(|id| client_number(id)).collect() {
                    Ok(ids) => Some(ids),
                    Err(_) => return self.refuse(call, reject::CLIENT_ID_INVALID),
                }
            }
            _ => return self.refuse(call, reject::SYNTAX),
        };
        self.ask(call, Question::List { ids, listens, listener: false }, Purpose::List)
    }

    fn client_kill(&mut self, call: &Call<'_>) -> Step {
        let own = self.clients.get(call.id).map(|client| client.number);
        if let [_, _, addr] = call.args {
            // The old form also kills the client that asks.
            let addr = Some(String::from_utf8_lossy(addr).into_owned());
            let filter = KillFilter { addr, ..KillFilter::default() };
            return self.ask(call, Question::Kill(filter), Purpose::KillOne);
        }
        let settings = &self.settings;
        // Who is one of the servers they know.
        let is_user = |name: &[u8]| settings.users.get(name).is_some() || settings.passes(name);
        match kill_filter(&call.args[2..], own, is_user) {
            Ok(filter) => self.ask(call, Question::Kill(filter), Purpose::Kill),
            Err(text) => self.refuse(call, &text),
        }
    }

    /// Closes the clients of this worker that match; returns their number.
    pub(super) fn kill_clients(&mut self, now: Time, filter: &KillFilter) -> u64 {
        // A client may name very many.
        let ids: Option<BTreeSet<u64>> =
            filter.ids.as_ref().map(|ids| ids.iter().copied().collect());
        let matching: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, client)| {
                let age_s = now.since(client.opened_at) / 1_000_000;
                !filter.nobody
                    && filter.listens.is_none_or(|listens| listens == client.listens())
                    && filter.user.as_ref().is_none_or(|name| {
                        self.user_of(client).is_some_and(|user| user.name() == &**name)
                    })
                    && filter.spare != Some(client.number)
                    && ids.as_ref().is_none_or(|ids| ids.contains(&client.number))
                    && filter.addr.as_ref().is_none_or(|addr| *addr == client.identity.addr)
                    && filter.laddr.as_ref().is_none_or(|addr| *addr == client.identity.laddr)
                    && filter.max_age_s.is_none_or(|max| age_s >= max)
            })
            .map(|(id, _)| id)
            .collect();
        for id in &matching {
            if self.asked.is_change_of(*id) {
                // It asked for it itself, and gets the answer before it goes, as with Redis.
                self.begin_close(*id);
            } else {
                self.drop_parked(Some(*id));
                self.close_client(*id, None);
            }
        }
        matching.len() as u64
    }

    fn client_pause(&mut self, call: &Call<'_>) -> Step {
        let writes_only = match call.args.get(3) {
            None => false,
            Some(mode) if word::is(mode, b"all") => false,
            Some(mode) if word::is(mode, b"write") => true,
            Some(_) => return self.refuse(call, "ERR CLIENT PAUSE mode must be WRITE or ALL"),
        };
        match number::parse_i64(call.args[2]) {
            None => self.refuse(call, reject::TIMEOUT_NOT_AN_INTEGER),
            Some(ms) => match u64::try_from(ms) {
                Err(_) => self.refuse(call, reject::TIMEOUT_NEGATIVE),
                Ok(ms) => self.ask(call, Question::Pause { ms, writes_only }, Purpose::Ok),
            },
        }
    }

    fn client_unblock(&mut self, call: &Call<'_>) -> Step {
        let error = match &call.args[3..] {
            [] => false,
            [how] if word::is(how, b"timeout") => false,
            [how] if word::is(how, b"error") => true,
            [_] => return self.refuse(call, reject::UNBLOCK_REASON),
            [..] => {
                return self
                    .say(call, |out| reject::subcommand_syntax(out, "client", call.args[1]));
            }
        };
        match number::parse_i64(call.args[2]).map(u64::try_from) {
            Some(Ok(number)) => {
                self.ask(call, Question::Unblock { number, error }, Purpose::Unblock)
            }
            // No client has a number below 0.
            Some(Err(_)) => self.say(call, |out| encode::integer(out, 0)),
            None => self.refuse(call, reject::NOT_AN_INTEGER),
        }
    }
}

/// How many clients all workers closed.
pub(super) fn killed(answers: &[Answer]) -> u64 {
    answers
        .iter()
        .map(|answer| match answer {
            Answer::Killed(count) => *count,
            _ => 0,
        })
        .sum()
}

fn on_or_off(word: &[u8]) -> Option<bool> {
    if word::is(word, b"on") { Some(true) } else { word::is(word, b"off").then_some(false) }
}

/// What a TYPE means here.
enum Type {
    /// Clients that listen to topics, or those that don't.
    Listens(bool),
    /// No client here is of it.
    Nobody,
}

/// `None`: there is no such type.
fn client_type(word: &[u8]) -> Option<Type> {
    match &*word::lower(word) {
        b"normal" => Some(Type::Listens(false)),
        b"pubsub" => Some(Type::Listens(true)),
        b"master" | b"primary" | b"slave" | b"replica" => Some(Type::Nobody),
        _ => None,
    }
}

fn unknown_type(word: &[u8]) -> String {
    format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word))
}

fn client_number(word: &[u8]) -> Result<u64, String> {
    match number::parse_i64(word).map(u64::try_from) {
        Some(Ok(number)) if number > 0 => Ok(number),
        _ => Err(reject::CLIENT_ID_RANGE.into()),
    }
}

/// The options of CLIENT KILL (`clientKillCommand`).
fn kill_filter(
    options: &[&[u8]],
    own: Option<u64>,
    is_user: impl Fn(&[u8]) -> bool,
) -> Result<KillFilter, String> {
    let mut filter = KillFilter { spare: own, ..KillFilter::default() };
    if !options.len().is_multiple_of(2) {
        return Err(reject::SYNTAX.into());
    }
    for pair in options.chunks_exact(2) {
        let (option, value) = (pair[0], pair[1]);
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        match &*word::lower(option) {
            b"id" => filter.ids.get_or_insert_default().push(client_number(value)?),
            b"addr" => filter.addr = text(),
            b"laddr" => filter.laddr = text(),
            b"type" => match client_type(value) {
                Some(Type::Listens(listens)) => filter.listens = Some(listens),
                Some(Type::Nobody) => filter.nobody = true,
                None => return Err(unknown_type(value)),
            },
            b"user" if is_user(value) => filter.user = Some(value.to_vec()),
            b"user" => {
                let user = String::from_utf8_lossy(value);
                return Err(format!("ERR No such user '{user}'"));
            }
            b"skipme" if word::is(value, b"yes") => filter.spare = own,
            b"skipme" if word::is(value, b"no") => filter.spare = None,
            b"maxage" => match number::parse_i64(value).map(u64::try_from) {
                Some(Ok(seconds)) => filter.max_age_s = Some(seconds),
                _ => return Err("ERR maxage is not an integer or out of range".into()),
            },
            _ => return Err(reject::SYNTAX.into()),
        }
    }
    Ok(filter)
}
