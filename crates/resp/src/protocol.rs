//! Which of the two protocol versions a connection speaks.
//!
//! It is chosen per connection by `HELLO`; a connection that never says `HELLO` speaks RESP2. Requests look
//! the same in both. This module does not negotiate anything: it only names the choice for [`crate::encode`].
//!
//! Invariant: [`Protocol::version`] and [`Protocol::from_version`] are each other's inverse.

/// The protocol version of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// What every connection speaks before a `HELLO`.
    #[default]
    Resp2,
    /// Chosen by `HELLO 3`: maps, sets, nulls, doubles, booleans, verbatim strings and pushes of their own.
    Resp3,
}

impl Protocol {
    /// The number that `HELLO` uses for this version, 2 or 3.
    #[must_use]
    pub const fn version(self) -> u8 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }

    /// The version that `HELLO` calls `version`; `None` where a server would answer `-NOPROTO`.
    #[must_use]
    pub const fn from_version(version: i64) -> Option<Self> {
        match version {
            2 => Some(Self::Resp2),
            3 => Some(Self::Resp3),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_round_trip_and_others_are_refused() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert_eq!(Protocol::from_version(i64::from(protocol.version())), Some(protocol));
        }
        for unknown in [i64::MIN, -2, 0, 1, 4, i64::MAX] {
            assert_eq!(Protocol::from_version(unknown), None);
        }
    }
}
