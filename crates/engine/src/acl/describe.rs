//! A user as rules that would make it again (`ACLDescribeUser`), and in the pieces of `ACL GETUSER`.

use super::selector::Selector;
use super::{Rules, User};
use alloc::string::String;
use alloc::vec::Vec;

/// A selector in words: rules for commands, keys and channels.
pub(crate) struct Described {
    pub(crate) commands: Vec<u8>,
    pub(crate) keys: Vec<u8>,
    pub(crate) channels: Vec<u8>,
}

impl User {
    /// `user name rules…`, as it stands in Redis' ACL file.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        [&b"user "[..], &self.name, b" ", &self.rules.describe()].concat()
    }
}

impl Rules {
    /// As rules, with a blank between them.
    #[must_use]
    pub fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for digest in self.digests() {
            text.push(b'#');
            text.extend_from_slice(digest.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(&describe(&self.root));
        for selector in &self.selectors {
            text.extend_from_slice(b" (");
            text.extend_from_slice(&describe(selector));
            text.push(b')');
        }
        text
    }

    /// `on`, `nopass` and their kin.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let on = if self.is_on { "on" } else { "off" };
        let nopass = self.nopass.then_some("nopass");
        let sanitize = self.sanitize.map(|on| match on {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        });
        core::iter::once(on).chain(nopass).chain(sanitize)
    }

    /// The digests of the passwords.
    pub(crate) fn digests(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.iter().map(super::Digest::hex)
    }

    /// The root selector and the others, in words.
    pub(crate) fn described(&self) -> impl Iterator<Item = Described> {
        self.selectors().map(|selector| Described {
            commands: selector.describe_commands(),
            keys: selector.describe_keys(),
            channels: selector.describe_channels(),
        })
    }
}

fn describe(selector: &Selector) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    parts.push(selector.describe_keys());
    if !selector.has_all_channels() {
        parts.push(b"resetchannels".to_vec());
    }
    parts.push(selector.describe_channels());
    parts.push(selector.describe_commands());
    parts.retain(|part| !part.is_empty());
    parts.join(&b' ')
}
