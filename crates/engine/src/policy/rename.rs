//! `policies.rename`: commands that have another name here, as `rename-command` gives them in a server.
//!
//! The former name is that of no command then, and so is the new one to the servers: a request with it goes on under the real one. Here is the
//! one place where names are changed, before anything else looks at the request, so that users' rules and all policies are about real names.
//!
//! Invariant: no new name is one that a command has.

use super::{Kind, Refusal};
use crate::command;
use crate::command::word;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::reject;
use crate::request::Step;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use resp::encode;

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    /// What servers call it, in lower case.
    pub from: Box<[u8]>,
    /// What clients call it; empty: nothing, it is out of reach.
    pub to: Box<[u8]>,
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// What it says.
    Itself,
    /// Nothing any more.
    Nothing,
    /// This command.
    Other(&'a [u8]),
}

/// What a client's word for a command means.
pub(super) fn meaning<'a>(renamings: &'a [Renaming], name: &[u8]) -> Named<'a> {
    for renaming in renamings {
        if word::same_name(name, &renaming.to) {
            return Named::Other(&renaming.from);
        }
        if word::same_name(name, &renaming.from) {
            return Named::Nothing;
        }
    }
    Named::Itself
}

/// Checks a list: every command once, every new name once, and none that a command has.
///
/// # Errors
/// What is wrong with the entry of this number.
pub fn check(renamings: &[Renaming]) -> Result<(), (usize, String)> {
    for (at, renaming) in renamings.iter().enumerate() {
        let before = &renamings[..at];
        let wrong = if before.iter().any(|other| other.from == renaming.from) {
            "renames a command that was renamed before"
        } else if renaming.to.is_empty() {
            continue;
        } else if command::lookup(&renaming.to).is_some() {
            "has a new name that another command has"
        } else if before.iter().any(|other| word::same_name(&other.to, &renaming.to)) {
            "has a new name that stands here twice"
        } else {
            continue;
        };
        return Err((at, wrong.into()));
    }
    Ok(())
}

impl Engine {
    /// Whether a request with this name must be whole before it is known what it is.
    pub(crate) fn is_renamed(&self, name: &[u8]) -> bool {
        self.settings
            .policies
            .as_ref()
            .is_some_and(|policies| meaning(&policies.rules.rename, name) != Named::Itself)
    }

    /// A request under the name that its client gave it goes on under the real one.
    pub(crate) fn dispatch_named(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
    ) -> Step {
        let Some(policies) = &self.settings.policies else {
            return self.dispatch_observed(now, id, frame, args);
        };
        match meaning(&policies.rules.rename, args[0]) {
            Named::Itself => self.dispatch_judged(now, id, frame, args),
            Named::Nothing => {
                let mut text = Vec::new();
                reject::unknown_command(&mut text, args[0], args[1..].iter().copied());
                let refusal = Refusal { kind: Kind::Rename, name: String::new(), reply: text };
                self.refuse_ruled(now, id, None, refusal)
            }
            Named::Other(name) => {
                let name = name.to_vec();
                let mut real = args.to_vec();
                real[0] = &name;
                let mut frame = Vec::new();
                encode::request(&mut frame, &real);
                self.dispatch_judged(now, id, &frame, &real)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn renaming(from: &str, to: &str) -> Renaming {
        Renaming { from: from.as_bytes().into(), to: to.as_bytes().into() }
    }

    #[test]
    fn a_name_means_itself_another_one_or_nothing() {
        let list = vec![renaming("config", "my-config"), renaming("flushall", "")];
        assert_eq!(meaning(&list, b"GET"), Named::Itself);
        assert_eq!(meaning(&list, b"Config"), Named::Nothing);
        assert_eq!(meaning(&list, b"FLUSHALL"), Named::Nothing);
        assert_eq!(meaning(&list, b"MY-config"), Named::Other(b"config"));
    }

    #[test]
    fn names_are_given_once() {
        assert_eq!(check(&[renaming("config", "c"), renaming("keys", "")]), Ok(()));
        for (list, at) in [
            (vec![renaming("config", "c"), renaming("config", "d")], 1),
            (vec![renaming("config", "GET")], 0),
            (vec![renaming("config", "c"), renaming("keys", "C")], 1),
        ] {
            assert_eq!(check(&list).map_err(|(at, _)| at), Err(at), "{list:?}");
        }
    }
}
