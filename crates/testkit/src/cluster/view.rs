//! What one node believes about its cluster, read from `CLUSTER NODES`, and the hash of keys to
//! slots.
//!
//! The hash is written here from the formula of the cluster specification, bit by bit, and not
//! taken from the product: a test that put keys where the product expects them would find nothing.
//! The tests below hold it against the server's own `CLUSTER KEYSLOT`.
//!
//! Invariant: slot ranges of a [`Member`] are in ascending order and do not overlap, as the server
//! writes them.

/// Number of hash slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// One line of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node's id, 40 hexadecimal digits.
    pub id: String,
    /// The announced address; empty when the asked node does not know it.
    pub ip: String,
    /// The announced client port.
    pub port: u16,
    /// The port of the cluster bus.
    pub bus_port: u16,
    /// The announced host name.
    pub hostname: Option<String>,
    /// `myself`, `master`, `slave`, `fail?`, `fail`, `handshake`, `noaddr`, `noflags`.
    pub flags: Vec<String>,
    /// The id of the primary that a replica follows.
    pub primary: Option<String>,
    /// The epoch of its claim to its slots; the greater one wins.
    pub config_epoch: u64,
    /// Slots, as inclusive ranges.
    pub slots: Vec<(u16, u16)>,
}

impl Member {
    /// Reads all lines. A line of an unknown form is an error, in words.
    ///
    /// # Errors
    /// With the line that could not be read.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        text.lines()
            .map(|line| Self::read(line).ok_or_else(|| format!("no line of a cluster: {line}")))
            .collect()
    }

    /// Whether it has a flag.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether it owns a slot.
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// Whether nothing is doubtful about it: no suspicion of failure, no handshake, an address.
    pub fn is_settled(&self) -> bool {
        !["fail", "fail?", "handshake", "noaddr"].iter().any(|flag| self.is(flag))
    }

    /// `<id> <ip:port@bus[,host[,name=value]…]> <flags> <primary|-> <ping> <pong> <epoch> <link>
    /// <slot>…`
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, addr, flags, primary, _ping, _pong, epoch, _link, slots @ ..] = &words[..] else {
            return None;
        };
        let mut parts = addr.split(',');
        let (ip_port, bus) = parts.next()?.split_once('@')?;
        // The last colon: an IPv6 address stands there without brackets.
        let (ip, port) = ip_port.rsplit_once(':')?;
        let hostname = parts.next().filter(|name| !name.is_empty()).map(str::to_owned);
        Some(Self {
            id: (*id).to_owned(),
            ip: ip.to_owned(),
            port: port.parse().ok()?,
            bus_port: bus.parse().ok()?,
            hostname,
            flags: flags.split(',').map(str::to_owned).collect(),
            primary: (*primary != "-").then(|| (*primary).to_owned()),
            config_epoch: epoch.parse().ok()?,
            // `[93->-id]` and `[93-<-id]` are slots on the move; they are still listed as owned.
            slots: slots
                .iter()
                .filter(|range| !range.starts_with('['))
                .map(|range| range_of(range))
                .collect::<Option<_>>()?,
        })
    }
}

fn range_of(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The slot of a key: of the part between the first `{` and the next `}`, if that is not empty,
/// else of the whole key.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let len = rest.iter().position(|byte| *byte == b'}')?;
        (len > 0).then(|| &rest[..len])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// The `nth` key (from 0) that lies in a slot: `k<number>`. The same question has the same answer
/// for ever; some 16384 numbers are tried for each key.
pub fn key_in_slot(slot: u16, nth: usize) -> String {
    let keys = (0_u64..).map(|number| format!("k{number}"));
    keys.filter(|key| slot_of(key.as_bytes()) == slot).nth(nth).expect("the numbers do not end")
}

/// CRC-16/XMODEM: polynomial 0x1021, begun at 0, most significant bit first.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::text;
    use crate::redis::RedisServer;

    #[test]
    fn lines_of_all_ages_and_forms_are_read() {
        let lines = "\
            07c3 127.0.0.1:30004@31004 slave e7d1 0 1426238317239 4 connected\n\
            67ed ::1:30002@31002,host-2.test myself,master - 0 14 2 connected 5461-10922 7 9-9\n\
            292f 127.0.0.1:30003@31003,,shard-id=69bc master,fail? - 0 1 3 disconnected 1 [93->-67ed]\n\
            e7d1 :0@0 master,noaddr - 0 0 1 disconnected\n";
        let members = Member::read_all(lines).expect("four lines");
        assert_eq!(members.len(), 4);
        assert_eq!(members[0].primary.as_deref(), Some("e7d1"));
        assert!(members[0].is_settled() && members[0].slots.is_empty());
        let own = &members[1];
        assert_eq!((own.ip.as_str(), own.port, own.bus_port), ("::1", 30002, 31002));
        assert_eq!(own.hostname.as_deref(), Some("host-2.test"));
        assert_eq!((own.config_epoch, own.slots.len()), (2, 3));
        assert!(own.owns(5461) && own.owns(9) && !own.owns(8) && own.is("myself"));
        assert_eq!(
            (members[2].hostname.as_ref(), members[2].slots.as_slice()),
            (None, &[(1, 1)][..])
        );
        assert!(!members[2].is_settled() && !members[3].is_settled());
        assert!(Member::read_all("ERR what").is_err());
    }

    #[test]
    fn slots_are_those_of_the_server() {
        let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
        let mut conn = server.connect();
        let keys = ["foo", "", "{a}b", "x{a}{b}", "{}a", "{", "a{b", "}{x}", "123456789", "{{a}}"];
        for key in keys {
            let slot = text(&mut conn, &["CLUSTER", "KEYSLOT", key]).expect("slot");
            assert_eq!(slot_of(key.as_bytes()).to_string(), slot, "{key}");
        }
        for (slot, nth) in [(0, 0), (16_383, 2)] {
            assert_eq!(slot_of(key_in_slot(slot, nth).as_bytes()), slot);
        }
        assert_ne!(key_in_slot(5, 0), key_in_slot(5, 1));
    }
}
