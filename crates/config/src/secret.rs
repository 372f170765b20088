//! A password that cannot leak by accident.
//!
//! The type is wrapped around every password the configuration holds, so that `{:?}` on a whole `Config`, a log line or
//! an error text shows a placeholder. It is not a vault: the bytes stay in ordinary memory and are not wiped.
//!
//! Invariant: the bytes leave this type through [`Secret::reveal`] only, which is easy to search for.

use std::fmt;

/// A password. `Debug` and `Display` print a placeholder; [`Secret::reveal`] gives the bytes.
///
/// Bytes and not text, because Redis passwords may be any bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Wraps the bytes of a password.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into_boxed_slice())
    }

    /// The password itself, for the one who sends or compares it. Never log it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_display_shows_the_bytes() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret)),
            "<secret> <secret> Some(<secret>)"
        );
        assert_eq!(secret.reveal(), b"hunter2");
    }
}
