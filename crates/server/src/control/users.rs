//! The users, and what clients change of them (`ACL SETUSER` and its kin).
//!
//! The configuration says who there is at the start and whenever it is read again, which ends what was changed meanwhile, as with every
//! option. A change by a client is made here, on a copy; then all workers get the new users, and then the client gets its answer.
//!
//! Not here: what rules mean (`engine::acl`).
//!
//! Invariant: all workers work by the same users, but for the moment of a change.

use super::Control;
use super::changes::{Replier, write_whole};
use crate::sources::{Sources, read_secret};
use engine::acl::{DEFAULT, Users, file};
use engine::fleet::{AclWish, Answer, ReplyTo};
use std::path::PathBuf;
use std::sync::Arc;

/// In Redis' words.
const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.";
/// Likewise.
const NOT_SAVED: &str = "ERR There was an error trying to save the ACLs. Please check the server logs for more information";

impl<S: 'static> Control<S> {
    /// The users of the configuration are in force from now on.
    pub(super) fn take_users(&mut self, cause: &str) {
        self.replace_users(Users::clone(&self.loaded.config.users), cause);
    }

    fn replace_users(&mut self, users: Users, cause: &str) {
        if users != *self.users {
            tracing::info!(users = users.iter().len(), cause, "the users have changed");
        }
        self.users = Arc::new(users.instead_of(&self.users));
    }

    /// A client's ACL.
    pub(super) fn acl_wish(&mut self, to: ReplyTo, wish: AclWish) {
        let done = match wish {
            AclWish::Set(name, rules) => self.set_user(&name, &rules.0).map(|()| None),
            AclWish::Remove(names) => Ok(Some(self.remove_users(&names))),
            AclWish::Load => return self.load_users(to),
            // The workers have nothing to do with it.
            AclWish::Save => return self.reply(to, Answer::Acl(self.save_users().map(|()| None))),
        };
        self.answer_acl(to, done);
    }

    fn answer_acl(&mut self, to: ReplyTo, done: Result<Option<u64>, Vec<u8>>) {
        match done {
            Ok(removed) => self.have_workers_change(Replier::Users(to, removed)),
            Err(text) => self.reply(to, Answer::Acl(Err(text))),
        }
    }

    fn set_user(&mut self, name: &[u8], rules: &[Vec<u8>]) -> Result<(), Vec<u8>> {
        let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        let mut users = Users::clone(&self.users);
        users.set(name, &rules).map_err(|text| [b"ERR ", &*text].concat())?;
        self.users = Arc::new(users);
        Ok(())
    }

    fn remove_users(&mut self, names: &[Vec<u8>]) -> u64 {
        let mut users = Users::clone(&self.users);
        let removed = users.remove(names);
        self.users = Arc::new(users);
        removed
    }

    fn load_users(&mut self, to: ReplyTo) {
        let file = match self.users_file() {
            Ok(file) => file,
            Err(text) => return self.answer_acl(to, Err(text)),
        };
        let read = move |_: &Sources| config::read_users(&file, &read_secret);
        self.read_apart(read, move |control, users| {
            let done = match users {
                Ok(users) => {
                    control.take_loaded(users);
                    Ok(None)
                }
                Err(text) => Err(format!("ERR {text}").into_bytes()),
            };
            control.answer_acl(to, done);
        });
    }

    /// Activates the users of the ACL file.
    fn take_loaded(&mut self, mut users: Users) {
        let config = &self.loaded.config;
        if let Some(password) = &config.password {
            users.change(DEFAULT, |rules| rules.set_password(password.reveal()));
        }
        config.acl.set_others(&mut users);
        // What is configured now: a later change of another option does not undo it.
        self.loaded.config.users = Arc::new(users.clone());
        self.replace_users(users, "ACL LOAD");
    }

    fn save_users(&self) -> Result<(), Vec<u8>> {
        let file = self.users_file()?;
        write_whole(&file, &file::write(&self.users)).map_err(|error| {
            tracing::error!(file = %file.display(), "cannot write the ACL file: {error}");
            NOT_SAVED.as_bytes().to_vec()
        })?;
        tracing::info!(file = %file.display(), users = self.users.iter().len(), "the users are in the ACL file");
        Ok(())
    }

    fn users_file(&self) -> Result<PathBuf, Vec<u8>> {
        self.loaded.config.acl.file.clone().ok_or_else(|| NO_FILE.into())
    }
}
