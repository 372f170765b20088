//! What the forms of an upstream's URL share: user information, hosts, databases, percent-encoding.
//!
//! Not here: which parts a form has and in which order (`url`).
//!
//! Invariant: as in `url`, no error text contains a piece of what was read, because with a badly escaped password any piece
//! may be a part of it.

use std::net::Ipv6Addr;

use super::UPSTREAM_FORMS;
use crate::secret::Secret;

/// What stands before the host: `user:password`, both optional.
pub(crate) struct UserInfo {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

/// Splits `user:password@host`. More than one `@`, or one after the authority, means a password that was not escaped.
pub(crate) fn split_user_info<'a>(
    authority: &'a str,
    tail: &str,
) -> Result<(Option<&'a str>, &'a str), String> {
    let escaped = "an `@` in a place where none can be: in user and password the characters / ? # & @ : % must be \
                   written %2F %3F %23 %26 %40 %3A %25 (or use upstream_password_file)";
    if tail.contains('@') {
        return Err(escaped.to_owned());
    }
    match authority.split_once('@') {
        Some((_, host)) if host.contains('@') => Err(escaped.to_owned()),
        Some((user_info, host)) => Ok((Some(user_info), host)),
        None => Ok((None, authority)),
    }
}

/// Reads `user:password`, `:password` or `user`.
pub(crate) fn parse_user_info(text: Option<&str>) -> Result<UserInfo, String> {
    let Some(text) = text else {
        return Ok(UserInfo { user: None, password: None });
    };
    let (user, password) = text.split_once(':').map_or((text, None), |(u, p)| (u, Some(p)));
    let user = match user {
        "" => None,
        _ => Some(decode_text(user, "the user")?),
    };
    let password = match password {
        None | Some("") => None,
        Some(password) => Some(Secret::new(decode(password, "the password")?)),
    };
    Ok(UserInfo { user, password })
}

/// Reads `host`, `host:port` or `[v6]:port`. What is echoed stands after the only `@` and before the first `/`.
pub(crate) fn parse_host_port(text: &str, default_port: u16) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return Err(
                    "an IPv6 address in brackets has no closing `]`, as in [::1]:6379".to_owned()
                );
            };
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(
                    "what stands in brackets is no IPv6 address, as in [::1]:6379".to_owned()
                );
            }
            if !port.is_empty() && !port.starts_with(':') {
                return Err("after `]` only :port can follow, as in [::1]:6379".to_owned());
            }
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address must stand in brackets, as in [::1]:6379".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(format!("no host; allowed: {UPSTREAM_FORMS}"));
    }
    if !is_host(host) {
        return Err(HOST_RULE.to_owned());
    }
    let port = match port {
        None | Some("") => default_port,
        // The port is not repeated: in `redis://host:pass/word@…` it is a piece of a password.
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port != 0 => port,
            _ => return Err("the port is not a number from 1 to 65535".to_owned()),
        },
    };
    Ok((host.to_owned(), port))
}

/// Reads a database number. Redis takes as many databases as its option `databases` says; `SELECT` reads an int.
pub(crate) fn parse_db(text: &str) -> Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|&db| i32::try_from(db).is_ok() && text.bytes().all(|b| b.is_ascii_digit()))
        .ok_or_else(|| {
            format!(
                "the database is not a whole number from 0 to {}, as in redis://host:6379/0",
                i32::MAX
            )
        })
}

/// Percent-decodes text that must be UTF-8 afterwards.
pub(crate) fn decode_text(text: &str, what: &str) -> Result<String, String> {
    String::from_utf8(decode(text, what)?)
        .map_err(|_| format!("{what} is not valid UTF-8 after percent-decoding"))
}

/// Percent-decodes (RFC 3986, section 2.1).
pub(crate) fn decode(text: &str, what: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits =
            [bytes.next(), bytes.next()].map(|b| b.and_then(|b| char::from(b).to_digit(16)));
        let [Some(high), Some(low)] = digits else {
            return Err(format!(
                "{what} has a `%` without two hexadecimal digits; a plain `%` is written %25"
            ));
        };
        // Two hexadecimal digits are at most 255.
        out.push((high * 16 + low) as u8);
    }
    Ok(out)
}

/// Percent-encodes all but the characters that mean nothing anywhere (RFC 3986, "unreserved").
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Whether a text can be a host: a name or an IP address, IPv6 without brackets.
pub(crate) fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':'))
}

/// What [`is_host`] asks for, in words.
pub(crate) const HOST_RULE: &str = "a host has letters, digits and `.` `-` `_` only";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        for text in ["mymaster", "a b/c?d#e&f@g:h%i", "ü", "~._-"] {
            assert_eq!(decode_text(&encode(text), "it").as_deref(), Ok(text));
            assert!(!encode(text).contains(['/', '?', '#', '&', '@', ' ']));
        }
    }
}
