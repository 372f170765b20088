//! ACL: the users of the proxy.
//!
//! What only asks is answered here, from the users in force. What changes them is the control thread's ([`AclWish`]): it has every worker
//! change before the client gets its OK. `ACL SERVER …` is about the servers' own users: it goes there without the word SERVER.
//!
//! Not here: what rules mean (`acl`), who is refused what (`permit`).

use super::Call;
use crate::acl::{Called, DEFAULT, Denied, Rules, User, ends_name, log};
use crate::command::word;
use crate::command::{Categories, CommandId, categories, ids, lookup_sub};
use crate::engine::Engine;
use crate::fleet::{AclWish, Answer, Purpose, Question, RuleWords};
use crate::permit::called;
use crate::reject;
use crate::request::Step;
use crate::route;
use crate::time::Time;
use alloc::vec::Vec;
use core::cmp::Reverse;
use resp::{Protocol, encode, number};

/// Entries of the log that are shown if the client does not say.
const SHOWN: i64 = 10;
/// Bits of a password if the client does not say, and at most.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SERVER <subcommand> [<arg> ...]",
    "    The same for the users of the servers behind.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Print this help.",
];

impl Engine {
    pub(super) fn acl_command(&mut self, call: &Call<'_>) -> Step {
        let Some(sub) = lookup_sub(ids::ACL, call.args[1]) else {
            return self.say(call, |out| reject::unknown_subcommand(out, "acl", call.args[1]));
        };
        if !super::arity_fits(sub, call.args.len()) {
            return self.say(call, |out| reject::arity(out, sub.name()));
        }
        if self.settings.is_of_tenant() && is_about_all(sub) {
            return self.refuse(call, reject::NOT_OF_TENANTS);
        }
        match (sub, &call.args[2..]) {
            (ids::ACL_WHOAMI, []) => self.acl_whoami(call),
            (ids::ACL_USERS | ids::ACL_LIST, []) => self.acl_list(call, sub == ids::ACL_USERS),
            (ids::ACL_GETUSER, [name]) => self.acl_getuser(call, name),
            (ids::ACL_CAT, []) => self.say(call, |out| {
                encode::array(out, categories::NAMES.len());
                categories::NAMES.iter().for_each(|name| encode::bulk(out, name.as_bytes()));
            }),
            (ids::ACL_CAT, [category]) => self.acl_cat(call, category),
            (ids::ACL_DRYRUN, [name, args @ ..]) => self.acl_dryrun(call, name, args),
            (ids::ACL_GENPASS, [] | [_]) => self.acl_genpass(call),
            (ids::ACL_LOG, [] | [_]) => self.acl_log(call),
            (ids::ACL_SETUSER, [name, rules @ ..]) => {
                if ends_name(name) {
                    return self.refuse(call, reject::USER_NAME);
                }
                let rules = RuleWords(rules.iter().map(|rule| rule.to_vec()).collect());
                self.acl_wish(call, AclWish::Set(name.to_vec(), rules))
            }
            (ids::ACL_DELUSER, names) => match names.contains(&DEFAULT) {
                true => self.refuse(call, reject::DEFAULT_USER_STAYS),
                false => {
                    let names = names.iter().map(|name| name.to_vec()).collect();
                    self.acl_wish(call, AclWish::Remove(names))
                }
            },
            (ids::ACL_LOAD, []) => self.acl_wish(call, AclWish::Load),
            (ids::ACL_SAVE, []) => self.acl_wish(call, AclWish::Save),
            (ids::ACL_HELP, []) => self.say(call, |out| {
                encode::array(out, HELP.len());
                HELP.iter().for_each(|line| encode::simple(out, line.as_bytes()));
            }),
            _ => self.say(call, |out| reject::subcommand_syntax(out, "acl", call.args[1])),
        }
    }

    fn acl_wish(&mut self, call: &Call<'_>, wish: AclWish) -> Step {
        self.ask(call, Question::Acl(wish), Purpose::Acl)
    }

    fn acl_whoami(&mut self, call: &Call<'_>) -> Step {
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        let name = self.user_of(client).map_or(&b""[..], User::name).to_vec();
        self.say(call, |out| encode::bulk(out, &name))
    }

    fn acl_list(&mut self, call: &Call<'_>, only_names: bool) -> Step {
        let users = self.settings.users.clone();
        self.say(call, |out| {
            encode::array(out, users.iter().len());
            for user in users.iter() {
                match only_names {
                    true => encode::bulk(out, user.name()),
                    false => encode::bulk(out, &user.line()),
                }
            }
        })
    }

    fn acl_getuser(&mut self, call: &Call<'_>, name: &[u8]) -> Step {
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        let (protocol, users) = (client.protocol, self.settings.users.clone());
        self.say(call, |out| match users.get(name) {
            Some(user) => write_user(out, user.rules(), protocol),
            None => encode::null(out, protocol),
        })
    }

    fn acl_cat(&mut self, call: &Call<'_>, category: &[u8]) -> Step {
        let Some(known) = Categories::named(category) else {
            let category = &category[..category.len().min(128)];
            let text = [b"ERR Unknown category '", category, b"'"].concat();
            return self.say(call, |out| encode::error(out, &text));
        };
        let commands: Vec<CommandId> =
            CommandId::all().filter(|id| id.row().categories.intersects(known)).collect();
        self.say(call, |out| {
            encode::array(out, commands.len());
            commands.iter().for_each(|id| encode::bulk(out, id.name().as_bytes()));
        })
    }

    fn acl_dryrun(&mut self, call: &Call<'_>, name: &[u8], args: &[&[u8]]) -> Step {
        let users = self.settings.users.clone();
        let quoted = |begin: &str, word: &[u8], end: &str| {
            [begin.as_bytes(), b"'", word, b"'", end.as_bytes()].concat()
        };
        let Some(user) = users.get(name) else {
            let text = quoted("ERR User ", name, " not found");
            return self.say(call, |out| encode::error(out, &text));
        };
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        let verdict = match called(&known, args, self.learned.as_ref()) {
            Err(_) => Err(quoted("ERR Command ", args[0], " not found")),
            Ok(Called::Row(row)) if !super::arity_fits(row, args.len()) => {
                Err(quoted("ERR wrong number of arguments for ", row.name().as_bytes(), " command"))
            }
            Ok(called) => {
                let unchecked_scripts = users.unchecked_scripts;
                Ok((called, user.rules().check(called, args.iter().copied(), unchecked_scripts)))
            }
        };
        let in_new_words = self.facts.is_since(7, 2);
        match verdict {
            Err(text) => self.say(call, |out| encode::error(out, &text)),
            Ok((_, Ok(()))) => self.ok(call),
            Ok((called, Err(denied))) => {
                let object = match (denied, called) {
                    (Denied::Key(at) | Denied::Channel(at), _) => args[at],
                    (_, Called::Row(row)) => row.name().as_bytes(),
                    (_, Called::Learned(command)) => &*command.name,
                };
                let text = reject::would_be_refused(denied, name, object, in_new_words);
                self.say(call, |out| encode::bulk(out, &text))
            }
        }
    }

    fn acl_genpass(&mut self, call: &Call<'_>) -> Step {
        let bits = call.args.get(2).map_or(Some(PASSWORD_BITS), |bits| number::parse_i64(bits));
        let Some(bits) = bits else { return self.refuse(call, reject::NOT_AN_INTEGER) };
        if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
            return self.refuse(call, reject::PASSWORD_BITS);
        }
        let digits = (bits as usize).div_ceil(4);
        match self.acl.entropy.as_mut().map(|entropy| entropy.hex(digits)) {
            Some(password) => self.say(call, |out| encode::bulk(out, &password)),
            None => self.refuse(call, reject::NO_ENTROPY),
        }
    }

    fn acl_log(&mut self, call: &Call<'_>) -> Step {
        let count = match call.args.get(2) {
            Some(word) if word::is(word, b"reset") => {
                return self.ask(call, Question::AclLogReset, Purpose::Ok);
            }
            Some(word) => number::parse_i64(word),
            None => Some(SHOWN),
        };
        match count {
            Some(count) => {
                let count = usize::try_from(count).unwrap_or(0);
                self.ask(call, Question::AclLog(count), Purpose::AclLog(count))
            }
            None => self.refuse(call, reject::NOT_AN_INTEGER),
        }
    }
}

/// Whether this asks for users that may be another tenant's, or changes them.
fn is_about_all(sub: CommandId) -> bool {
    matches!(
        sub,
        ids::ACL_USERS
            | ids::ACL_LIST
            | ids::ACL_GETUSER
            | ids::ACL_DRYRUN
            | ids::ACL_SETUSER
            | ids::ACL_DELUSER
            | ids::ACL_LOAD
            | ids::ACL_SAVE
    )
}

/// The reply to ACL GETUSER.
fn write_user(out: &mut Vec<u8>, rules: &Rules, protocol: Protocol) {
    let flags: Vec<&str> = rules.flags().collect();
    encode::map(out, 6, protocol);
    encode::bulk(out, b"flags");
    encode::set(out, flags.len(), protocol);
    flags.iter().for_each(|flag| encode::bulk(out, flag.as_bytes()));
    encode::bulk(out, b"passwords");
    encode::array(out, rules.digests().len());
    rules.digests().for_each(|digest| encode::bulk(out, digest.as_bytes()));
    let mut selectors = rules.described();
    let mut write = |out: &mut Vec<u8>| {
        let Some(selector) = selectors.next() else { return };
        for (name, rules) in [
            (&b"commands"[..], &selector.commands),
            (b"keys", &selector.keys),
            (b"channels", &selector.channels),
        ] {
            encode::bulk(out, name);
            encode::bulk(out, rules);
        }
    };
    write(out);
    encode::bulk(out, b"selectors");
    let others = rules.described().count() - 1;
    encode::array(out, others);
    for _ in 0..others {
        encode::map(out, 3, protocol);
        write(out);
    }
}

/// The reply to what changes users, from the one answer.
pub(super) fn write_done(out: &mut Vec<u8>, answers: &[Answer]) {
    match answers.first() {
        Some(Answer::Acl(Ok(None))) => encode::simple(out, b"OK"),
        Some(Answer::Acl(Ok(Some(removed)))) => encode::integer(out, *removed as i64),
        Some(Answer::Acl(Err(text))) => encode::error(out, text),
        _ => reject::write(out, reject::NO_CONFIG),
    }
}

/// The logs of all workers as one, the newest first. `unix_ms`: the time of day, where servers tell it (from Redis 7.2 on).
pub(super) fn write_log(
    out: &mut Vec<u8>,
    now: Time,
    answers: Vec<Answer>,
    count: usize,
    protocol: Protocol,
    unix_ms: Option<impl Fn(Time) -> u64>,
) {
    let mut entries: Vec<log::Entry> = answers
        .into_iter()
        .flat_map(|answer| match answer {
            Answer::AclLog(entries) => entries,
            _ => Vec::new(),
        })
        .collect();
    entries.sort_by_key(|entry| Reverse(entry.at));
    entries.truncate(count);
    encode::array(out, entries.len());
    for entry in entries {
        encode::map(out, if unix_ms.is_some() { 10 } else { 7 }, protocol);
        encode::bulk(out, b"count");
        encode::integer(out, entry.count as i64);
        let context: &[u8] = if entry.is_inside { b"multi" } else { b"toplevel" };
        for (name, value) in [
            (&b"reason"[..], entry.reason.name().as_bytes()),
            (b"context", context),
            (b"object", &entry.object),
            (b"username", &entry.user),
        ] {
            encode::bulk(out, name);
            encode::bulk(out, value);
        }
        encode::bulk(out, b"age-seconds");
        let age_ms = now.since(entry.at) / 1_000;
        encode::double(out, age_ms as f64 / 1_000.0, protocol);
        encode::bulk(out, b"client-info");
        encode::bulk(out, entry.client.as_bytes());
        let Some(unix_ms) = &unix_ms else { continue };
        for (name, value) in [
            (&b"entry-id"[..], entry.id),
            (b"timestamp-created", unix_ms(entry.first_at)),
            (b"timestamp-last-updated", unix_ms(entry.at)),
        ] {
            encode::bulk(out, name);
            encode::integer(out, value as i64);
        }
    }
}
