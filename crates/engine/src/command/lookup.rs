//! From the name on the wire to the row of the table: the one look-up that every request pays for.
//!
//! A name of up to 16 bytes is wholly known from its first and its last 8 bytes and its length. These are multiplied,
//! without regard to case, into a slot number that no other command has, and compared with the command in that slot.
//! The comparison is exact but for bit 5 of those bytes that are letters in the command's name, which is all that case
//! is in ASCII. There is no probing, no loop and no allocation, and a miss costs no more than a hit. Nothing here
//! depends on the process or on a seed.
//!
//! ```text
//! name ── pack ──▶ (head, tail, length) ── slot ──▶ SLOTS ──▶ row ──▶ KNOWN[row] the same? ──▶ CommandId
//! ```
//!
//! Subcommands are looked up by walking over the rows after their container: at most some thirty, and rare.
//!
//! Invariant: no two top-level commands share a slot. A new command that breaks it stops the build in [`slots`], and
//! the ignored test `find_multiplier` names a multiplier that restores it.

use super::{COUNT, CommandId, TABLE};

/// Finds a top-level command by its name in any case. Subcommands have their own look-up, [`lookup_sub`].
#[inline]
#[must_use]
pub fn lookup(name: &[u8]) -> Option<CommandId> {
    let packed = Packed::of(name)?;
    // An empty slot points at row 0, which then does not match: one comparison decides both.
    let row = SLOTS[packed.slot(MULTIPLIER)];
    if !KNOWN[row as usize].is(packed) {
        return None;
    }
    // The middle of a longer name is in neither word.
    if name.len() > 16 && !TABLE[row as usize].name.as_bytes().eq_ignore_ascii_case(name) {
        return None;
    }
    Some(CommandId(row))
}

/// Finds the subcommand `name` (any case, without its container) of `parent`; none if `parent` is no container.
#[must_use]
pub fn lookup_sub(parent: CommandId, name: &[u8]) -> Option<CommandId> {
    let prefix = parent.name().len() + 1;
    parent.subcommands().find(|id| id.name().as_bytes()[prefix..].eq_ignore_ascii_case(name))
}

/// Whether a server can have a command or a subcommand of this name. Servers look commands up by the hash of the whole
/// name and compare as C strings (`strcasecmp`), so a name with a NUL is found as the part before it whenever both fall
/// into one bucket: 1 of 230 suffixes on Redis 7.0, most of them on 8.6. Such a name means nothing here. A bar stands
/// between a container and its subcommand in what servers tell of themselves, and in no name on the wire.
#[must_use]
pub fn may_be_name(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.iter().any(|byte| matches!(byte, 0 | b'|'))
}

/// What tells one command name from another: its ends and its length.
#[derive(Clone, Copy)]
struct Packed {
    head: u64,
    tail: u64,
    len: usize,
}

impl Packed {
    /// Packs a name of 1 byte or more. Names of any length and any bytes are fine: what is no command finds none.
    #[inline]
    const fn of(name: &[u8]) -> Option<Self> {
        let len = name.len();
        if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
            let (head, tail) = (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
            return Some(Self { head, tail, len });
        }
        let head = if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
            u32::from_le_bytes(*head) as u64 | (u32::from_le_bytes(*tail) as u64) << 32
        } else if len > 0 {
            // First, middle and last are all there is of 3 bytes, and more than all of 1 or 2.
            u32::from_le_bytes([name[0], name[len / 2], name[len - 1], 0]) as u64
        } else {
            return None;
        };
        Some(Self { head, tail: 0, len })
    }

    /// The slot of this name under `multiplier`, the same in any case: the top bits, which depend on all bits below.
    #[inline]
    const fn slot(self, multiplier: u64) -> usize {
        let (head, tail) = (self.head | CASE_BITS, self.tail | CASE_BITS);
        let mixed = head ^ tail.rotate_left(23) ^ self.len as u64;
        (mixed.wrapping_mul(multiplier) >> (u64::BITS - SLOT_BITS)) as usize
    }
}

/// The name of a command, to be compared with the name of a request.
#[derive(Clone, Copy)]
struct Known {
    name: Packed,
    /// The bits that must be equal: all but the one that is the case of a letter.
    head_bits: u64,
    tail_bits: u64,
}

impl Known {
    /// Packs a name in lower case.
    const fn of(name: Packed) -> Self {
        Self { name, head_bits: !case_bits(name.head), tail_bits: !case_bits(name.tail) }
    }

    /// True if `name` is this one in any case, as far as its ends and its length tell.
    #[inline]
    const fn is(&self, name: Packed) -> bool {
        let head = (self.name.head ^ name.head) & self.head_bits;
        let tail = (self.name.tail ^ name.tail) & self.tail_bits;
        // One branch for the three.
        head | tail | (self.name.len ^ name.len) as u64 == 0
    }
}

/// Bit 5 of each byte that is a lower-case letter.
const fn case_bits(word: u64) -> u64 {
    let mut bytes = word.to_le_bytes();
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = if bytes[index].is_ascii_lowercase() { b'a' - b'A' } else { 0 };
        index += 1;
    }
    u64::from_le_bytes(bytes)
}

/// Puts every top-level command into its slot; the build fails if two want the same.
const fn slots() -> [u16; 1 << SLOT_BITS] {
    let mut slots = [0; 1 << SLOT_BITS];
    let mut row = 0;
    while row < COUNT {
        // The length 0 is that of a subcommand: see `known`.
        if KNOWN[row].name.len > 0 {
            let slot = KNOWN[row].name.slot(MULTIPLIER);
            // Row 0 leaves the 0 of an empty slot behind, so it is asked after by name.
            let free = slots[slot] == 0 && slot != KNOWN[0].name.slot(MULTIPLIER);
            assert!(row == 0 || free, "two commands in one slot: run the test find_multiplier");
            slots[slot] = row as u16;
        }
        row += 1;
    }
    slots
}

/// The names by row. Subcommands get the length 0, which no packed name has, so they never match.
const fn known() -> [Known; COUNT] {
    let mut names = [Known::of(Packed { head: 0, tail: 0, len: 0 }); COUNT];
    let mut row = 0;
    while row < COUNT {
        let name = TABLE[row].name;
        if !super::has_bar(name)
            && let Some(packed) = Packed::of(name.as_bytes())
        {
            names[row] = Known::of(packed);
        }
        row += 1;
    }
    names
}

/// The longest name that a command beside the table can have, in bytes. `rename-command` makes names of 40 to 64 bytes
/// from digests; modules have shorter ones.
pub const NAME_BYTES_MAX: usize = 128;

/// Bit 5 of every byte: set in lower case, clear in upper case.
const CASE_BITS: u64 = 0x2020_2020_2020_2020;

/// 8 KiB of slots for some 300 names. A request touches one cache line of it, and the few commands that a client uses
/// keep theirs warm; with fewer slots no multiplier is found in reasonable time.
const SLOT_BITS: u32 = 12;

/// Found by the test `find_multiplier`; has no meaning of its own.
const MULTIPLIER: u64 = 0x250a_36be_ade7_8dc5;

static KNOWN: [Known; COUNT] = known();
static SLOTS: [u16; 1 << SLOT_BITS] = slots();

#[cfg(test)]
mod tests {
    use super::{CommandId, KNOWN, MULTIPLIER, Packed, SLOT_BITS, lookup, lookup_sub};
    use crate::command::{COUNT, ids};
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;

    /// What [`lookup`] must say: the plainest search there is.
    fn naive(name: &[u8]) -> Option<CommandId> {
        let all = (0..COUNT).filter_map(CommandId::from_index);
        all.filter(|id| !id.name().contains('|'))
            .find(|id| id.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// `name` with letters in upper case where `mask` has a bit.
    fn in_case(name: &str, mask: u32) -> Vec<u8> {
        let case = |(index, byte): (usize, u8)| {
            if mask >> (index % 32) & 1 == 1 { byte.to_ascii_uppercase() } else { byte }
        };
        name.bytes().enumerate().map(case).collect()
    }

    #[test]
    fn every_row_is_found_in_any_case() {
        for id in (0..COUNT).filter_map(CommandId::from_index) {
            for mask in [0, u32::MAX, 1, 0x5555_5555, 0xaaaa_aaaa] {
                match id.name().split_once('|') {
                    None => assert_eq!(lookup(&in_case(id.name(), mask)), Some(id)),
                    Some((container, sub)) => {
                        let parent = lookup(container.as_bytes()).unwrap();
                        assert_eq!(lookup_sub(parent, &in_case(sub, mask)), Some(id));
                        assert_eq!(
                            lookup(id.name().as_bytes()),
                            None,
                            "a name on the wire has no bar"
                        );
                    }
                }
            }
        }
    }

    /// Every name with one byte changed, lost or added must find what the naive search finds, mostly nothing.
    #[test]
    fn near_misses_are_missed() {
        for id in (0..COUNT).filter_map(CommandId::from_index) {
            let name = id.name().as_bytes();
            for at in 0..name.len() {
                let shorter = [&name[..at], &name[at + 1..]].concat();
                assert_eq!(lookup(&shorter), naive(&shorter));
                // One bit off, which tries the borders of A-Z as well, alone and as a byte too many.
                for bit in 0..8 {
                    let mut changed = name.to_vec();
                    changed[at] ^= 1 << bit;
                    assert_eq!(lookup(&changed), naive(&changed), "{changed:?}");
                    changed.insert(at, name[at]);
                    assert_eq!(lookup(&changed), naive(&changed), "{changed:?}");
                }
            }
        }
        for name in
            [&b""[..], b"g", b"ge", b"get\0", b"\0get", b"ge\xd4", b"client|list", &[b'a'; 4096]]
        {
            assert_eq!(lookup(name), None);
        }
    }

    #[test]
    fn subcommands_belong_to_their_container() {
        assert_eq!(lookup_sub(ids::CLIENT, b"LIST"), Some(ids::CLIENT_LIST));
        assert_eq!(lookup_sub(ids::CLIENT, b"SET"), None, "CONFIG SET is another's");
        assert_eq!(lookup_sub(ids::CLIENT, b""), None);
        assert_eq!(lookup_sub(ids::GET, b"LIST"), None);
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_search(
            row in 0..COUNT,
            mask: u32,
            cut in 0_usize..24,
            noise in proptest::collection::vec(any::<u8>(), 0..3),
        ) {
            let name = CommandId::from_index(row).unwrap().name();
            let mut bytes = in_case(name, mask);
            let keep = cut.min(bytes.len());
            bytes.truncate(if cut > 20 { keep } else { bytes.len() });
            bytes.splice(keep.min(bytes.len())..keep.min(bytes.len()), noise);
            prop_assert_eq!(lookup(&bytes), naive(&bytes));
        }

        #[test]
        fn letters_of_any_length(bytes in "[a-zA-Z_.-]{0,24}") {
            prop_assert_eq!(lookup(bytes.as_bytes()), naive(bytes.as_bytes()));
        }
    }

    /// Prints a multiplier without collisions. To be run by hand after the table grew:
    /// `cargo test -p engine --release find_multiplier -- --ignored --nocapture`
    /// (while the build stops at the assertion in `slots`, set it aside for this run).
    #[test]
    #[ignore = "a tool: searches for the constant MULTIPLIER"]
    fn find_multiplier() {
        let names: Vec<Packed> =
            KNOWN.iter().map(|known| known.name).filter(|name| name.len > 0).collect();
        let mut candidate = MULTIPLIER;
        for _ in 0..50_000_000_u32 {
            let mut taken = vec![false; 1 << SLOT_BITS];
            let free =
                |packed: &Packed| !core::mem::replace(&mut taken[packed.slot(candidate)], true);
            if names.iter().all(free) {
                std::eprintln!("const MULTIPLIER: u64 = {candidate:#x};");
                return;
            }
            // The step of a 64-bit linear congruential generator (Knuth), made odd for the product.
            candidate = candidate
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407)
                | 1;
        }
        panic!("none found: SLOT_BITS is too small for so many names");
    }
}
