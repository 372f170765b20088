//! Users and what each of them may do, in Redis' rule language.
//!
//! ```text
//!   "on >pw ~app:* +@read (~log:* +xadd)"
//!     │        └ root selector ┘ └ a further one ┘      a request is allowed if one selector allows all of it
//!     └ what holds for the user as a whole: on, off, passwords
//! ```
//! `rules` reads the words, `describe` writes them, `commands` and `selector` are what they come to, `check` looks at a request, `file` is
//! the format of Redis' ACL file, `log` what was refused. What rules mean is as in `acl.c` of Redis 7.0; how the rules for commands
//! are shown is as in 7.2, which shows them as they were given (7.0 makes up shorter ones, not always the same).
//!
//! Not here: the command ACL (`local::acl`), where users are configured (`config`), how a change comes to all workers (`server`).
//!
//! Invariant: passwords are kept as digests, which no `Debug` shows.

mod check;
mod commands;
mod describe;
mod entropy;
pub mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod log;
mod password;
mod rules;
mod selector;
#[cfg(test)]
mod tests;
mod words;

pub use check::{Called, Denied};
pub(crate) use entropy::Entropy;
pub use password::Digest;
pub use rules::{PRESETS, RuleError};
pub(crate) use words::{ends_name, merged};

use crate::limits::USERS_MAX;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use selector::Selector;

/// The user that every client is before it says otherwise.
pub const DEFAULT: &[u8] = b"default";

/// What a worker keeps beside the users.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// What was refused to whom.
    pub(crate) log: log::Log,
    /// What passwords are made of; `None`: nobody gave any.
    pub(crate) entropy: Option<Entropy>,
}

/// What may be done by whoever is a user, and who may be it.
#[derive(Clone, PartialEq, Eq)]
pub struct Rules {
    /// Clients can become this user.
    is_on: bool,
    /// With any password.
    nopass: bool,
    /// `sanitize-payload` or `skip-sanitize-payload`, if one of them was said. The servers' matter; here it is only kept.
    sanitize: Option<bool>,
    passwords: Vec<Digest>,
    root: Selector,
    selectors: Vec<Selector>,
}

impl Default for Rules {
    /// A new user: off, and without any permission.
    fn default() -> Self {
        Self {
            is_on: false,
            nopass: false,
            sanitize: None,
            passwords: Vec::new(),
            root: Selector::default(),
            selectors: Vec::new(),
        }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rules")
    }
}

impl Rules {
    /// Those of the default user where nobody said anything: everything, and no password.
    #[must_use]
    pub fn open() -> Self {
        let mut rules = Self { is_on: true, nopass: true, ..Self::default() };
        rules.root.allow_all();
        rules
    }

    /// Whether clients can become this user.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether no password is asked for.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_on && self.nopass
    }

    /// Whether any password will do.
    #[must_use]
    pub fn nopass(&self) -> bool {
        self.nopass
    }

    /// Whether any password was given.
    #[must_use]
    pub fn has_password(&self) -> bool {
        !self.passwords.is_empty()
    }

    /// One more password will do.
    pub fn add_password(&mut self, password: &[u8]) {
        self.add_digest(Digest::of(password));
    }

    /// This password and no other one.
    pub fn set_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.add_password(password);
    }

    /// Whether there is nothing that this user may not do.
    #[must_use]
    pub fn allows_everything(&self) -> bool {
        self.selectors().any(Selector::allows_everything)
    }

    /// Whether a message on every channel may be seen.
    #[must_use]
    pub fn sees_all_channels(&self) -> bool {
        self.selectors().any(Selector::has_all_channels)
    }

    /// The patterns of channels, of all selectors.
    pub fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.selectors().flat_map(Selector::channels)
    }

    /// Whether this may be listened to: a channel, or a pattern, which must stand in the rules as it is.
    #[must_use]
    pub fn allows_topic(&self, name: &[u8], is_pattern: bool) -> bool {
        self.selectors().any(|selector| selector.allows_channel(name, is_pattern))
    }

    fn add_digest(&mut self, digest: Digest) {
        if !self.passwords.contains(&digest) {
            self.passwords.push(digest);
        }
        self.nopass = false;
    }

    /// Looks at every digest, so that the time tells nothing of which it is.
    fn accepts(&self, given: Option<&Digest>) -> bool {
        let is_given = |own: &Digest| given.is_some_and(|given| own.is(given));
        let known = self.passwords.iter().fold(false, |known, own| known | is_given(own));
        self.is_on && (self.nopass || known)
    }

    /// Whether a password of this user is one of the other as well.
    #[must_use]
    pub fn shares_password(&self, other: &Self) -> bool {
        self.passwords.iter().any(|own| other.passwords.contains(own))
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        core::iter::once(&self.root).chain(&self.selectors)
    }
}

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    name: Box<[u8]>,
    /// The same for as long as the user is; another one of its name has another one.
    id: u64,
    /// Another one after each change, and other than that of any other user.
    revision: u64,
    rules: Rules,
    /// There is nothing that it may not do.
    allows_everything: bool,
}

impl User {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What it may do.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether there is nothing that it may not do.
    pub(crate) fn allows_everything(&self) -> bool {
        self.allows_everything
    }

    /// See the field.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }
}

/// All users.
#[derive(Clone, Debug)]
pub struct Users {
    /// Sorted by name; `default` is always there.
    users: Vec<User>,
    /// The last id or revision that was given.
    serial: u64,
    /// Users with restrictions may call scripts, of which nothing but the keys is checked.
    pub unchecked_scripts: bool,
    /// Names of users whom their password alone lets in: where a client says that it is `default`, or says no name, and does not have the
    /// password of `default`, it becomes the first of these that has it.
    pub by_password: Vec<Box<[u8]>>,
}

impl Default for Users {
    /// The default user alone, open.
    fn default() -> Self {
        let mut users = Self {
            users: Vec::new(),
            serial: 0,
            unchecked_scripts: false,
            by_password: Vec::new(),
        };
        users.put(DEFAULT, Rules::open());
        users
    }
}

impl PartialEq for Users {
    /// Whether the same users may do the same, whenever they were made.
    fn eq(&self, other: &Self) -> bool {
        let same =
            |(one, other): (&User, &User)| one.name == other.name && one.rules == other.rules;
        self.unchecked_scripts == other.unchecked_scripts
            && self.by_password == other.by_password
            && self.users.len() == other.users.len()
            && self.users.iter().zip(&other.users).all(same)
    }
}

impl Eq for Users {}

impl Users {
    /// The default user alone, with this password.
    #[must_use]
    pub fn with_password(password: &[u8]) -> Self {
        let mut users = Self::default();
        users.change(DEFAULT, |rules| rules.set_password(password));
        users
    }

    /// One who may do everything and whom no password makes, and a `default` that nobody is: those of a login (see `login`).
    pub(crate) fn of_login(name: &[u8]) -> Self {
        let mut users = Self::default();
        users.put(DEFAULT, Rules::default());
        let mut rules = Rules { is_on: true, ..Rules::default() };
        rules.root.allow_all();
        users.put(name, rules);
        users
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &User> {
        self.users.iter()
    }

    /// Where this one stands.
    #[must_use]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        self.users.binary_search_by(|user| (*user.name).cmp(name)).ok()
    }

    /// The one who stands there.
    #[must_use]
    pub fn at(&self, position: usize) -> Option<&User> {
        self.users.get(position)
    }

    /// The one with this name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&User> {
        self.at(self.position(name)?)
    }

    /// Whether a client that said nothing is let in.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.get(DEFAULT).is_some_and(|user| user.rules.is_open())
    }

    /// Where the default user stands.
    pub(crate) fn default_position(&self) -> u32 {
        self.position(DEFAULT).unwrap_or(0) as u32
    }

    /// Whose name and password these are. `default` is the name of whoever says none, so it may also be somebody of [`Users::by_password`].
    #[must_use]
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<u32> {
        let position = self.position(name)?;
        let rules = &self.users[position].rules;
        let given = Digest::of_given(password);
        let own = rules.accepts(given.as_ref()).then_some(position as u32);
        // Without a password `default` would be anybody who has one.
        if name == DEFAULT && (rules.nopass || own.is_none()) {
            return self.whose(given.as_ref()).or(own);
        }
        own
    }

    /// Who has this password, where a client says nothing else; a `default` without a password is nobody.
    #[must_use]
    pub fn authenticate_alone(&self, password: &[u8]) -> Option<u32> {
        self.authenticate(DEFAULT, password).filter(|user| !self.users[*user as usize].rules.nopass)
    }

    /// Whether some users need not say their name.
    pub(crate) fn admits_by_password(&self) -> bool {
        !self.by_password.is_empty()
    }

    /// Who of those has this password whom their password alone lets in.
    pub(crate) fn whose_password(&self, password: &[u8]) -> Option<u32> {
        self.whose(Digest::of_given(password).as_ref())
    }

    /// Looks at all of them, so that the time tells nothing of which it is.
    fn whose(&self, given: Option<&Digest>) -> Option<u32> {
        let known = self.by_password.iter().filter_map(|name| self.position(name));
        known.fold(None, |found, position| {
            let rules = &self.users[position].rules;
            let is_theirs = rules.accepts(given) && !rules.nopass;
            found.or(is_theirs.then_some(position as u32))
        })
    }

    /// The user has these rules from now on.
    pub fn put(&mut self, name: &[u8], rules: Rules) {
        let allows_everything = rules.allows_everything();
        match self.users.binary_search_by(|user| (*user.name).cmp(name)) {
            Ok(at) => {
                self.serial += 1;
                let user = &mut self.users[at];
                user.revision = self.serial;
                (user.rules, user.allows_everything) = (rules, allows_everything);
            }
            Err(at) => {
                self.serial += 2;
                let (id, revision) = (self.serial - 1, self.serial);
                let name = name.into();
                self.users.insert(at, User { name, id, revision, rules, allows_everything });
            }
        }
    }

    /// Changes the rules of a user that is there.
    pub fn change(&mut self, name: &[u8], change: impl FnOnce(&mut Rules)) {
        if let Some(user) = self.get(name) {
            let mut rules = user.rules.clone();
            change(&mut rules);
            self.put(name, rules);
        }
    }

    /// `ACL SETUSER`.
    ///
    /// # Errors
    /// The text of Redis' error, without the word `ERR`.
    pub fn set(&mut self, name: &[u8], words: &[&[u8]]) -> Result<(), Vec<u8>> {
        let mut rules = self.get(name).map_or_else(Rules::default, |user| user.rules.clone());
        let words = merged(words).map_err(|word| {
            [&b"Unmatched parenthesis in acl selector starting at '"[..], word, b"'."].concat()
        })?;
        if self.users.len() >= USERS_MAX && self.position(name).is_none() {
            return Err(format!("respool: there are {USERS_MAX} users, more do not fit").into());
        }
        for word in &words {
            rules.apply(word).map_err(|error| {
                let shown = words::c_string(word);
                [&b"Error in ACL SETUSER modifier '"[..], shown, b"': ", error.text().as_bytes()]
                    .concat()
            })?;
        }
        self.put(name, rules);
        Ok(())
    }

    /// Removes those that are there; how many they were.
    pub fn remove(&mut self, names: &[impl AsRef<[u8]>]) -> u64 {
        let before = self.users.len();
        let goes = |user: &User| names.iter().any(|name| name.as_ref() == &*user.name);
        self.users.retain(|user| !goes(user) || &*user.name == DEFAULT);
        (before - self.users.len()) as u64
    }

    /// These users take the place of others: who is in both stays the same user, but for those that are off now, whose clients must go.
    #[must_use]
    pub fn instead_of(mut self, old: &Self) -> Self {
        let mut serial = self.serial.max(old.serial);
        for user in &mut self.users {
            serial += 2;
            (user.id, user.revision) = (serial - 1, serial);
            if let Some(before) = old.get(&user.name) {
                if user.rules.is_on || !before.rules.is_on || &*user.name == DEFAULT {
                    user.id = before.id;
                }
                if user.rules == before.rules {
                    user.revision = before.revision;
                }
            }
        }
        self.serial = serial;
        self
    }

    /// Where the user of other users stands here; `None`: it is not here any more.
    pub(crate) fn follow(&self, old: &User) -> Option<u32> {
        let position = self.position(&old.name)?;
        (self.users[position].id == old.id).then_some(position as u32)
    }
}
