//! HELLO and AUTH: who a client is, and which protocol it speaks.
//!
//! A client gets the server's own answer to HELLO, with its id at the proxy put in: server, version, role and modules are true, the mode is
//! what respool shows itself as. For that
//! an upstream of the wanted protocol must be ready, so the first such client waits for one; if the server refuses the protocol, its
//! words are the answer.
//!
//! Invariant: a HELLO that ends in an error changes nothing, as in `helloCommand` of Redis 7.2.

use super::Call;
use crate::acl::DEFAULT;
use crate::acl::log::Reason;
use crate::command::word;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::login::Identified;
use crate::reject;
use crate::request::Step;
use crate::scatter::Wish;
use crate::time::Time;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Protocol, encode, number};

/// HELLO's arguments.
#[derive(Default)]
struct Hello<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl Engine {
    pub(crate) fn hello(&mut self, now: Time, call: &Call<'_>) -> Step {
        let hello = match parse(call.args) {
            Ok(hello) => hello,
            Err(error) => return self.say(call, |out| encode::error(out, &error)),
        };
        let who = match hello.credentials {
            Some((user, password)) => match self.identify(now, call, Some(user), password) {
                Identified::Not(step) => return self.unless_arrived(call.id, step),
                who => Some(who),
            },
            None => None,
        };
        let user = match who {
            Some(Identified::Ours(user)) => Some(user),
            _ => None,
        };
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        if !client.is_authenticated() && who.is_none() {
            return self.refuse(call, reject::NOAUTH_HELLO);
        }
        if let Some(step) = self.unless_it_stays(call, user, hello.name) {
            return step;
        }
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        let protocol = hello.protocol.unwrap_or(client.protocol);
        let (db, number) = (client.db, client.number);
        // In a transaction it was asked when the command was queued.
        if call.inside.is_none()
            && let Some(step) = self.unless_agreed(now, call, protocol, db)
        {
            return self.unless_arrived(call.id, step);
        }
        let mut reply = Vec::new();
        let as_cluster = self.settings.facade.on;
        if !self.facts.write_hello(&mut reply, protocol, number, as_cluster) {
            // The server knows no HELLO.
            reject::unknown_command(&mut reply, call.args[0], call.args[1..].iter().copied());
            return self.say(call, |out| out.extend_from_slice(&reply));
        }
        if let Some(user) = user {
            self.become_user(call.id, user);
        }
        if let Some(client) = self.clients.get_mut(call.id) {
            if client.protocol != protocol {
                // Its requests take other connections from here on.
                client.route_epoch = self.route_epoch.wrapping_sub(1);
            }
            if let Some(name) = hello.name {
                client.identity.name = name.to_vec();
            }
        }
        self.account_rest(call.id);
        self.take_way(call.id, protocol, db);
        self.say(call, |out| out.extend_from_slice(&reply))
    }

    /// The protocol that this HELLO leads to; `None`: to none, or it will be refused.
    pub(crate) fn hello_leads_to(&self, id: ClientId, args: &[&[u8]]) -> Option<Protocol> {
        let hello = parse(args).ok()?;
        let authenticated = self.clients.get(id)?.is_authenticated();
        let known = hello.credentials.map_or(authenticated, |(user, password)| {
            self.settings.proxy_users().authenticate(user, password).is_some()
        });
        hello.protocol.filter(|_| known)
    }

    /// Whether a HELLO leads to another protocol than the client has.
    pub(crate) fn hello_changes_protocol(&self, wish: &Wish<'_>) -> bool {
        let client = self.clients.get(wish.id);
        self.hello_leads_to(wish.id, wish.args)
            .is_some_and(|to| client.is_some_and(|client| client.protocol != to))
    }

    pub(crate) fn auth(&mut self, now: Time, call: &Call<'_>) -> Step {
        let users = self.settings.proxy_users();
        let is_open = || users.get(DEFAULT).is_some_and(|user| user.rules().nopass());
        let (user, password) = match call.args {
            [_, _]
                if users.by_password.is_empty() && is_open() && !self.settings.passes(DEFAULT) =>
            {
                return self.refuse(call, reject::AUTH_NOT_CONFIGURED);
            }
            [_, password] => (None, *password),
            [_, user, password] => (Some(*user), *password),
            _ => return self.refuse(call, reject::SYNTAX),
        };
        match self.identify(now, call, user, password) {
            Identified::Ours(user) => {
                if let Some(step) = self.unless_it_stays(call, Some(user), None) {
                    return step;
                }
                self.become_user(call.id, user);
                self.ok(call)
            }
            Identified::Theirs => self.ok(call),
            Identified::Not(step) => self.unless_arrived(call.id, step),
        }
    }

    /// Refuses a password with these words, of a server or as one says it.
    pub(crate) fn wrong_password(
        &mut self,
        now: Time,
        call: &Call<'_>,
        user: Option<&[u8]>,
        words: &[u8],
    ) -> Step {
        let noted = (user.unwrap_or(DEFAULT).to_vec(), call.inside.is_some());
        self.note_denied_to(now, call.id, Reason::Auth, call.args[0], noted);
        self.stats.command(Some(call.command)).failed += 1;
        self.say(call, |out| encode::error(out, words))
    }
}

/// Names are printable and have no blanks (`validateClientName`).
pub(super) fn is_name(name: &[u8]) -> bool {
    name.len() <= crate::limits::CLIENT_NAME_BYTES && name.iter().all(u8::is_ascii_graphic)
}

fn parse<'a>(args: &[&'a [u8]]) -> Result<Hello<'a>, Vec<u8>> {
    let mut hello = Hello::default();
    let Some(version) = args.get(1) else { return Ok(hello) };
    hello.protocol = Some(match number::parse_i64(version) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        Some(_) => return Err(reject::NOPROTO.into()),
        None => return Err(reject::HELLO_VERSION.into()),
    });
    let mut rest = &args[2..];
    loop {
        rest = match rest {
            [] => return Ok(hello),
            [word, user, password, rest @ ..] if word::is(word, b"auth") => {
                hello.credentials = Some((user, password));
                rest
            }
            [word, name, rest @ ..] if word::is(word, b"setname") => {
                if !is_name(name) {
                    return Err(reject::CLIENT_NAME.into());
                }
                hello.name = Some(name);
                rest
            }
            [word, ..] => {
                let word = String::from_utf8_lossy(word);
                return Err(format!("ERR Syntax error in HELLO option '{word}'").into_bytes());
            }
        }
    }
}
