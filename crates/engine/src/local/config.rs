//! CONFIG of the proxy: `CONFIG GET respool.pattern …`, `CONFIG SET respool.option value …`, `CONFIG REWRITE RESPOOL`.
//!
//! The servers' CONFIG goes to the servers, as clients mean it; what begins with `respool.` is an option of the proxy. The options are not
//! known here: the caller of the engine has the table, checks the values and has all workers change at once ([`Engine::reconfigure`]).
//! Between MULTI and EXEC it is refused.
//!
//! Not here: what changes with an option (`configure`).
//!
//! Invariant: a CONFIG is either the proxy's or the servers', never in part.

use super::Call;
use crate::command::word;
use crate::command::{CommandId, ids, lookup_sub};
use crate::engine::Engine;
use crate::fleet::{Answer, ConfigWish, Purpose, Question};
use crate::ids::ClientId;
use crate::reject;
use crate::request::Step;
use crate::route::Known;
use crate::scatter::row_of;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// What the names of the proxy's options begin with in CONFIG.
pub(crate) const PREFIX: &[u8] = b"respool.";

/// Whether this CONFIG is about the proxy, at least in part.
pub(crate) fn is_of_proxy(command: Option<CommandId>, args: &[&[u8]]) -> bool {
    let (Some(id), [_, word, rest @ ..]) = (command, args) else { return false };
    if id != ids::CONFIG && !matches!(id, ids::CONFIG_GET | ids::CONFIG_SET | ids::CONFIG_REWRITE) {
        return false;
    }
    match lookup_sub(ids::CONFIG, word) {
        Some(ids::CONFIG_GET) => rest.iter().any(|pattern| is_option(pattern)),
        Some(ids::CONFIG_SET) => rest.iter().step_by(2).any(|name| is_option(name)),
        Some(ids::CONFIG_REWRITE) => {
            matches!(rest, [word] if word::is(word, b"respool"))
        }
        _ => false,
    }
}

fn is_option(name: &[u8]) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| word::same_name(start, PREFIX))
}

impl Engine {
    /// Has the caller do it.
    pub(crate) fn config_of_proxy(
        &mut self,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
        silent: bool,
    ) -> Step {
        let command = known.id.unwrap_or(ids::CONFIG);
        let call = Call::new(id, command, args, silent);
        let step = match wish(&args[1..]) {
            _ if self.settings.is_of_tenant() => self.refuse(&call, reject::NOT_OF_TENANTS),
            Ok(wish) => self.ask(&call, Question::Config(wish.clone()), Purpose::Config(wish)),
            Err(text) => self.refuse(&call, text),
        };
        if step == Step::Done {
            self.stats.command(Some(row_of(command, args))).calls += 1;
            self.end_skip(id, silent);
        }
        step
    }
}

/// What is wanted. Whoever comes here was found to be [`is_of_proxy`].
fn wish(args: &[&[u8]]) -> Result<ConfigWish, &'static str> {
    let (sub, rest) = args.split_first().ok_or(reject::SYNTAX)?;
    match lookup_sub(ids::CONFIG, sub) {
        Some(ids::CONFIG_GET) => rest
            .iter()
            .map(|pattern| option(pattern))
            .collect::<Result<_, _>>()
            .map(ConfigWish::Get),
        Some(ids::CONFIG_SET) => {
            let pairs = rest.chunks(2).map(|pair| match pair {
                [name, value] => Ok((option(name)?, text(value)?)),
                _ if rest.len() == 1 => Err(reject::CONFIG_SET_ARITY),
                _ => Err(reject::SYNTAX),
            });
            pairs.collect::<Result<_, _>>().map(ConfigWish::Set)
        }
        _ => Ok(ConfigWish::Rewrite),
    }
}

/// The name of an option, or a pattern for it, without the prefix.
fn option(name: &[u8]) -> Result<String, &'static str> {
    if !is_option(name) {
        return Err(reject::CONFIG_MIXED);
    }
    text(&name[PREFIX.len()..].to_ascii_lowercase())
}

fn text(bytes: &[u8]) -> Result<String, &'static str> {
    String::from_utf8(bytes.to_vec()).map_err(|_| reject::CONFIG_UTF8)
}

/// The reply, from the one answer.
pub(super) fn write(out: &mut Vec<u8>, wish: &ConfigWish, answers: &[Answer], protocol: Protocol) {
    match (answers.first(), wish) {
        (Some(Answer::Config(Ok(values))), ConfigWish::Get(_)) => {
            encode::map(out, values.len(), protocol);
            for (name, value) in values {
                let name = format!("{}{name}", String::from_utf8_lossy(PREFIX));
                encode::bulk(out, name.as_bytes());
                encode::bulk(out, value.as_bytes());
            }
        }
        (Some(Answer::Config(Ok(_))), _) => encode::simple(out, b"OK"),
        (Some(Answer::Config(Err(text))), _) => reject::write(out, text),
        _ => reject::write(out, reject::NO_CONFIG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn args(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn what_is_the_servers_goes_there() {
        let is = |line: &str| is_of_proxy(Some(ids::CONFIG), &args(line));
        for line in [
            "CONFIG GET respool.*",
            "config get maxmemory RESPOOL.log.level",
            "CONFIG SET respool.log.level debug",
            "CONFIG SET maxmemory 1 respool.log.level debug",
            "CONFIG REWRITE Respool",
        ] {
            assert!(is(line), "{line}");
        }
        for line in [
            "CONFIG",
            "CONFIG GET *",
            "CONFIG SET dbfilename respool.rdb",
            "CONFIG REWRITE",
            "CONFIG RESETSTAT",
            "CONFIG GET respool",
        ] {
            assert!(!is(line), "{line}");
        }
        assert!(!is_of_proxy(Some(ids::CLIENT), &args("CLIENT GET respool.x")));
    }

    #[test]
    fn a_wish_is_whole_or_refused() {
        let of = |line: &str| wish(&args(line)[1..]);
        let set = ConfigWish::Set(alloc::vec![("log.level".to_string(), "Debug".to_string())]);
        assert_eq!(of("CONFIG SET Respool.Log.Level Debug"), Ok(set));
        assert_eq!(of("CONFIG GET respool.a* RESPOOL.b"), {
            Ok(ConfigWish::Get(alloc::vec!["a*".to_string(), "b".to_string()]))
        });
        assert_eq!(of("CONFIG REWRITE respool"), Ok(ConfigWish::Rewrite));
        assert_eq!(of("CONFIG SET respool.a 1 b 2"), Err(reject::CONFIG_MIXED));
        assert_eq!(of("CONFIG SET respool.a"), Err(reject::CONFIG_SET_ARITY));
        assert_eq!(of("CONFIG SET respool.a 1 respool.b"), Err(reject::SYNTAX));
        assert_eq!(wish(&[b"SET", b"respool.a", b"\xff"]), Err(reject::CONFIG_UTF8));
    }
}
