//! One word of a rule, applied to a user (`ACLSetUser` and `ACLSetSelector` in Redis' acl.c).
//!
//! Three words are ours, for what one wants most often; they stand for the rules in [`PRESETS`], which is what is kept and shown.
//!
//! Invariant: what Redis 7.0 refuses is refused with its words; but for `%~pattern`, which it takes and then cannot show.

use super::selector::{Access, Selector};
use super::words::{ends_name, is};
use super::{Digest, Rules};
use crate::limits::{ACL_PATTERNS_MAX, ACL_SELECTORS_MAX};
use alloc::borrow::Cow;
use alloc::format;

/// Words of ours, and the rules that each stands for.
pub const PRESETS: [(&str, &[&str]); 3] = [
    ("readonly", &["-@all", "+@read", "+@connection", "-@dangerous"]),
    (
        "readwrite",
        &["-@all", "+@read", "+@write", "+@connection", "+@transaction", "+@pubsub", "-@dangerous"],
    ),
    ("admin", &["+@all"]),
];

/// What is wrong with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No such command or category.
    UnknownCommand,
    /// Not a rule.
    Syntax,
    /// A pattern of keys where all are allowed.
    KeysBehindAll,
    /// A pattern of channels where all are allowed.
    ChannelsBehindAll,
    /// A password is to go that is not there.
    NoSuchPassword,
    /// Not the digest of a password.
    BadDigest,
    /// A first argument of a subcommand.
    OfSubcommand,
    /// More selectors than a user may have.
    TooManySelectors,
    /// More patterns than a selector may have.
    TooManyPatterns,
}

impl RuleError {
    /// In Redis' words (`ACLSetUserStringError`).
    #[must_use]
    pub fn text(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::UnknownCommand => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeysBehindAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
                 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelsBehindAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
                 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::BadDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::OfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Self::TooManySelectors => {
                return format!("respool: a user has at most {ACL_SELECTORS_MAX} selectors").into();
            }
            Self::TooManyPatterns => {
                let most = ACL_PATTERNS_MAX;
                return format!("respool: a user or a selector has at most {most} patterns").into();
            }
        })
    }
}

impl Rules {
    /// Applies one word.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    pub fn apply(&mut self, word: &[u8]) -> Result<(), RuleError> {
        match word {
            [] => {}
            _ if is(word, "on") => self.is_on = true,
            _ if is(word, "off") => self.is_on = false,
            _ if is(word, "skip-sanitize-payload") => self.sanitize = Some(false),
            _ if is(word, "sanitize-payload") => self.sanitize = Some(true),
            _ if is(word, "nopass") => {
                self.nopass = true;
                self.passwords.clear();
            }
            _ if is(word, "resetpass") => {
                self.nopass = false;
                self.passwords.clear();
            }
            [b'>', password @ ..] => self.add_digest(Digest::of(password)),
            [b'#', hex @ ..] => {
                self.add_digest(Digest::parse(hex).ok_or(RuleError::BadDigest)?);
            }
            [b'<', password @ ..] => self.remove_digest(Digest::of(password))?,
            [b'!', hex @ ..] => {
                self.remove_digest(Digest::parse(hex).ok_or(RuleError::BadDigest)?)?;
            }
            [b'(', inner @ .., b')'] => {
                if self.selectors.len() >= ACL_SELECTORS_MAX {
                    return Err(RuleError::TooManySelectors);
                }
                let mut selector = Selector::default();
                // What has no end to its quotes is no word at all, as to `sdssplitargs`.
                for word in resp::inline::split(inner).unwrap_or_default() {
                    selector.apply(&word)?;
                }
                self.selectors.push(selector);
            }
            _ if is(word, "clearselectors") => self.selectors.clear(),
            _ if is(word, "reset") => {
                *self = Self { sanitize: Some(true), ..Self::default() };
            }
            _ => self.root.apply(word)?,
        }
        Ok(())
    }

    fn remove_digest(&mut self, digest: Digest) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known.is(&digest));
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }
}

impl Selector {
    /// Applies one word that is about commands, keys or channels.
    pub(super) fn apply(&mut self, word: &[u8]) -> Result<(), RuleError> {
        let is_pattern = matches!(word.first(), Some(b'~' | b'%' | b'&'));
        if is_pattern && self.patterns() >= ACL_PATTERNS_MAX {
            return Err(RuleError::TooManyPatterns);
        }
        match word {
            _ if is(word, "allkeys") || is(word, "~*") => self.set_all_keys(true),
            _ if is(word, "resetkeys") => self.set_all_keys(false),
            _ if is(word, "allchannels") || is(word, "&*") => self.set_all_channels(true),
            _ if is(word, "resetchannels") => self.set_all_channels(false),
            _ if is(word, "allcommands") || is(word, "+@all") => self.commands.set_all(true),
            _ if is(word, "nocommands") || is(word, "-@all") => self.commands.set_all(false),
            [b'~' | b'%', ..] if self.has_all_keys() => return Err(RuleError::KeysBehindAll),
            [b'~', pattern @ ..] => self.add_key_pattern(pattern, Access::ALL)?,
            [b'%', rest @ ..] => {
                let (access, pattern) = access_of(rest)?;
                self.add_key_pattern(pattern, access)?;
            }
            [b'&', ..] if self.has_all_channels() => return Err(RuleError::ChannelsBehindAll),
            [b'&', pattern @ ..] if !ends_name(pattern) => self.add_channels(pattern),
            [b'&', ..] => return Err(RuleError::Syntax),
            [b'+', name @ ..] => self.commands.change(name, true)?,
            [b'-', name @ ..] => self.commands.change(name, false)?,
            _ => {
                let preset = PRESETS.iter().find(|(name, _)| is(word, name));
                let (_, rules) = preset.ok_or(RuleError::Syntax)?;
                for rule in *rules {
                    self.apply(rule.as_bytes())?;
                }
            }
        }
        Ok(())
    }

    fn add_key_pattern(&mut self, pattern: &[u8], access: Access) -> Result<(), RuleError> {
        if ends_name(pattern) {
            return Err(RuleError::Syntax);
        }
        self.add_keys(pattern, access);
        Ok(())
    }
}

/// `R~a`, `W~a`, `RW~a`: what may be done, and the pattern. Without a `~` the pattern is empty, as in Redis.
fn access_of(rest: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    let mut access = Access { read: false, write: false };
    for (at, byte) in rest.iter().enumerate() {
        match byte.to_ascii_uppercase() {
            b'R' if !access.read => access.read = true,
            b'W' if !access.write => access.write = true,
            b'~' if access.read || access.write => return Ok((access, &rest[at + 1..])),
            _ => return Err(RuleError::Syntax),
        }
    }
    match access.read || access.write {
        true => Ok((access, &[])),
        false => Err(RuleError::Syntax),
    }
}
