//! One entry of `listen`: an address, and what holds for the clients that come there.
//!
//! ```text
//!   0.0.0.0:6390 tls=true proxy_protocol=on max_clients=100 name=public       unix:/run/r.sock mode=0770
//!   ^^^^^^^^^^^^ all that a plain entry has
//! ```
//! The words are separated by blanks; the path of a unix socket may have blanks of its own and ends before the first of the words
//! that end the entry in the form `key=`.
//!
//! Not here: what all entries have in common ([`crate::rules`]).
//!
//! Invariant: an entry that [`Listen::parse`] returns is shown by its `Display` as words that read as the same one.

use std::fmt;

use crate::address::ListenAddress;
use crate::kind::octal;
use crate::network::{ClientRules, NETWORKS_MAX, Network};
use crate::schema::CLIENTS_MAX;
use crate::suggest::closest;

/// The forms of an entry, for messages.
pub(crate) const ENTRY_FORMS: &str = "address:port such as 127.0.0.1:6380, [::1]:6380 or 0.0.0.0:6380, or unix:/path; behind it, separated by \
     blanks, tls=true, proxy_protocol=on, max_clients=N, mode=0770 (of a unix socket), allow=NETWORK|NETWORK…, deny=NETWORK|NETWORK…, \
     tenant=NAME and name=TEXT if needed, as in \"0.0.0.0:6390 max_clients=100 name=public\"";

/// Longest name.
const NAME_BYTES_MAX: usize = 64;

/// The keys behind an address.
const KEYS: [&str; 8] =
    ["tls", "proxy_protocol", "max_clients", "mode", "allow", "deny", "tenant", "name"];

/// Where clients connect, and what holds for those that do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: ListenAddress,
    /// Whether they speak TLS.
    pub tls: bool,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Clients of this listener at the same time, beside `max_clients` of all; `None`: as many as those.
    pub max_clients: Option<usize>,
    /// Permission bits of a unix socket; `None`: those of `unix_mode`.
    pub mode: Option<u32>,
    /// Which clients may come, beside the rules for all listeners.
    pub rules: ClientRules,
    /// The tenant that its clients begin in; `None`: the default one.
    pub tenant: Option<String>,
    /// What logs and metrics call it; `None`: its address.
    pub name: Option<String>,
}

impl From<ListenAddress> for Listen {
    /// A plain entry.
    fn from(address: ListenAddress) -> Self {
        Self {
            address,
            tls: false,
            proxy_protocol: false,
            max_clients: None,
            mode: None,
            rules: ClientRules::default(),
            tenant: None,
            name: None,
        }
    }
}

impl Listen {
    /// Reads an entry.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, words) = split(text);
        let mut entry = Self::from(ListenAddress::parse(address)?);
        let mut seen: Vec<&str> = Vec::new();
        for word in words.split_ascii_whitespace() {
            let wrong = |why: &str| format!("found `{text}`, where {why}; allowed: {ENTRY_FORMS}");
            let Some((key, value)) = word.split_once('=') else {
                return Err(wrong(&format!("`{word}` is no key=value")));
            };
            let Some(key) = KEYS.into_iter().find(|known| *known == key) else {
                let advice = closest(key, KEYS)
                    .map_or_else(String::new, |known| format!(" (did you mean `{known}`?)"));
                return Err(wrong(&format!("`{key}` is no key{advice}")));
            };
            if seen.contains(&key) {
                return Err(wrong(&format!("`{key}` stands twice")));
            }
            seen.push(key);
            entry.set(key, value).map_err(|why| wrong(&format!("`{word}` {why}")))?;
        }
        Ok(entry)
    }

    /// Takes one word. The error goes on after it.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "tls" => self.tls = switch(value, ["true", "false"])?,
            "proxy_protocol" => self.proxy_protocol = switch(value, ["on", "off"])?,
            "max_clients" => {
                let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                let number =
                    value.parse().ok().filter(|n| is_number && (1..=CLIENTS_MAX).contains(n));
                self.max_clients =
                    Some(number.ok_or(format!("is no whole number from 1 to {CLIENTS_MAX}"))?);
            }
            "mode" if matches!(self.address, ListenAddress::Tcp(_)) => {
                return Err("is for unix sockets".to_owned());
            }
            "mode" => {
                self.mode = Some(octal(value).ok_or("has no octal digits from 0000 to 0777")?);
            }
            "allow" => self.rules.allow = networks(value)?,
            "deny" => self.rules.deny = networks(value)?,
            "tenant" => self.tenant = Some(name(value)?),
            _ => self.name = Some(name(value)?),
        }
        Ok(())
    }

    /// What logs and metrics call it.
    pub fn label(&self) -> String {
        let label = self.name.clone().unwrap_or_else(|| self.address.to_string());
        // It stands in lines whose fields are separated by blanks.
        label.replace(|char: char| char.is_whitespace() || char.is_control(), "_")
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if self.tls {
            f.write_str(" tls=true")?;
        }
        if self.proxy_protocol {
            f.write_str(" proxy_protocol=on")?;
        }
        self.max_clients.iter().try_for_each(|clients| write!(f, " max_clients={clients}"))?;
        self.mode.iter().try_for_each(|mode| write!(f, " mode={mode:04o}"))?;
        for (key, networks) in [("allow", &self.rules.allow), ("deny", &self.rules.deny)] {
            for (at, network) in networks.iter().enumerate() {
                if at == 0 { write!(f, " {key}={network}") } else { write!(f, "|{network}") }?;
            }
        }
        self.tenant.iter().try_for_each(|name| write!(f, " tenant={name}"))?;
        self.name.iter().try_for_each(|name| write!(f, " name={name}"))
    }
}

/// The address of an entry, and the words behind it.
fn split(text: &str) -> (&str, &str) {
    let is_path = text.starts_with("unix:");
    let mut end = text.trim_ascii_end().len();
    let mut words_from = None;
    // The words that end the text, from the last to the first.
    while let Some(blank) = text[..end].rfind(|char: char| char.is_ascii_whitespace()) {
        let word = &text[blank + 1..end];
        if is_path && !is_key(word.split_once('=').map_or("", |(key, _)| key)) {
            break;
        }
        words_from = Some(blank + 1);
        end = text[..blank].trim_ascii_end().len();
    }
    match words_from {
        Some(from) => (&text[..end], &text[from..]),
        None => (text, ""),
    }
}

/// Whether this is what keys look like.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Reads networks that are separated by `|`. The error goes on after the word.
fn networks(value: &str) -> Result<Vec<Network>, String> {
    let networks: Result<Vec<Network>, String> = value
        .split('|')
        .map(|text| Network::parse(text).map_err(|why| format!("has the network `{text}`{why}")))
        .collect();
    networks.and_then(|networks| match networks.len() {
        0..=NETWORKS_MAX => Ok(networks),
        count => Err(format!("has {count} networks, more than {NETWORKS_MAX}")),
    })
}

/// Reads a name. The error goes on after the word.
fn name(value: &str) -> Result<String, String> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let fits = (1..=NAME_BYTES_MAX).contains(&value.len());
    if !fits || !value.bytes().all(is_letter) {
        return Err(format!(
            "is no name of 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`"
        ));
    }
    Ok(value.to_owned())
}

/// Which of two words it is; the first is yes.
fn switch(value: &str, words: [&str; 2]) -> Result<bool, String> {
    match words.into_iter().position(|word| word == value) {
        Some(at) => Ok(at == 0),
        None => Err(format!("is neither {} nor {}", words[0], words[1])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Listen {
        Listen::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn a_plain_address_is_what_it_was() {
        for text in
            ["127.0.0.1:6380", "[::1]:6380", "unix:/run/r.sock", "unix:/a b/c d", "unix:/a =b"]
        {
            let address = ListenAddress::parse(text).unwrap();
            assert_eq!(read(text), Listen::from(address), "{text}");
            assert_eq!(read(text).to_string(), text);
        }
    }

    #[test]
    fn words_behind_the_address_are_read_in_any_order() {
        let entry = read("0.0.0.0:6390  name=public max_clients=100\ttls=true proxy_protocol=on");
        let address = ListenAddress::parse("0.0.0.0:6390").unwrap();
        let expected = Listen {
            tls: true,
            proxy_protocol: true,
            max_clients: Some(100),
            name: Some("public".to_owned()),
            ..Listen::from(address)
        };
        assert_eq!(entry, expected);
        assert_eq!(entry.label(), "public");
        let entry = read("unix:/run/my dir/r.sock mode=0770 proxy_protocol=off");
        assert_eq!(entry.address, ListenAddress::Unix("/run/my dir/r.sock".into()));
        assert_eq!((entry.mode, entry.proxy_protocol), (Some(0o770), false));
        assert_eq!(entry.label(), "unix:/run/my_dir/r.sock");
        assert!(!read("127.0.0.1:1 tls=false").tls);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("127.0.0.1:1 tsl=true", "`tsl` is no key (did you mean `tls`?)"),
            ("127.0.0.1:1 qqqqqqqq=1", "`qqqqqqqq` is no key;"),
            ("127.0.0.1:1 TLS=true", "`TLS` is no key (did you mean `tls`?)"),
            ("127.0.0.1:1 public", "`public` is no key=value"),
            ("127.0.0.1:1 tls=yes", "`tls=yes` is neither true nor false"),
            ("127.0.0.1:1 proxy_protocol=true", "is neither on nor off"),
            ("127.0.0.1:1 tls=true tls=true", "`tls` stands twice"),
            ("127.0.0.1:1 max_clients=0", "no whole number from 1 to"),
            ("127.0.0.1:1 max_clients=+5", "no whole number from 1 to"),
            ("127.0.0.1:1 max_clients=1000001", "no whole number from 1 to"),
            ("127.0.0.1:1 mode=0770", "`mode=0770` is for unix sockets"),
            ("unix:/a mode=8", "no octal digits"),
            ("unix:/a mode=1777", "no octal digits"),
            ("unix:/a nam=b", "did you mean `name`?"),
            ("127.0.0.1:1 allow=", "has the network ``;"),
            ("127.0.0.1:1 allow=10.0.0.0/8|10.0.0.1/8", "did you mean 10.0.0.0/8?"),
            ("127.0.0.1:1 deny=10.0.0.0/8,::1", "has the network `10.0.0.0/8,::1`"),
            ("127.0.0.1:1 name=", "is no name of"),
            ("127.0.0.1:1 name=a:b", "is no name of"),
        ] {
            let message = Listen::parse(text).expect_err(text);
            assert!(message.starts_with(&format!("found `{text}`, where `")), "{message}");
            assert!(message.contains(why) && message.ends_with(ENTRY_FORMS), "{text}: {message}");
        }
        // What is wrong with the address is said as ever.
        let message = Listen::parse("localhost:1 tls=true").unwrap_err();
        assert!(message.starts_with("found `localhost:1` (write 127.0.0.1:PORT"), "{message}");
    }

    fn network() -> impl Strategy<Value = Network> {
        let v4 = any::<(u32, u8)>().prop_map(|(ip, prefix)| {
            ipnet::IpNet::new(std::net::Ipv4Addr::from(ip).into(), prefix % 33).unwrap().trunc()
        });
        prop_oneof![Just(Network::Unix), v4.prop_map(Network::Ip)]
    }

    fn entries() -> impl Strategy<Value = Listen> {
        let address = prop_oneof![
            any::<(u32, u16)>().prop_map(|(ip, port)| {
                ListenAddress::Tcp((std::net::Ipv4Addr::from(ip), port.max(1)).into())
            }),
            "/[a-z= ]{0,12}[a-z]".prop_map(|path| ListenAddress::Unix(path.into())),
        ];
        let words = (any::<bool>(), any::<bool>(), proptest::option::of(1..=CLIENTS_MAX));
        let networks = || proptest::collection::vec(network(), 0..4);
        let more =
            (proptest::option::of(0..=0o777u32), proptest::option::of("[a-zA-Z0-9_.-]{1,64}"));
        (address, words, more, networks(), networks()).prop_map(
            |(address, (tls, proxy_protocol, max_clients), (mode, name), allow, deny)| {
                let mode = mode.filter(|_| matches!(address, ListenAddress::Unix(_)));
                let rules = ClientRules { allow, deny };
                let tenant = name.clone().filter(|name| name.len() % 2 == 0);
                Listen { address, tls, proxy_protocol, max_clients, mode, rules, tenant, name }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_as_the_same(entry in entries()) {
            // A path that ends like a word would be taken for one; it cannot be written.
            let path = entry.address.to_string();
            prop_assume!(split(&path).1.is_empty());
            prop_assert_eq!(Listen::parse(&entry.to_string()), Ok(entry));
        }
    }
}
