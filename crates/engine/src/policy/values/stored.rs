//! A value as it is stored, and as it was written.
//!
//! ```text
//!   ff 72 73 70 00 value                                            as it was; it begins like one of these by itself
//!   ff 72 73 70 01 length block                                     LZ4; the length as four bytes, little end first
//!   ff 72 73 70 03 frame                                            zstd, whose frame tells its length by itself
//!   ff 72 73 70 02 n name nonce sealed                              encrypted with the key of this name of n bytes
//!                  └ read by the cipher, too ┘└ one of the above, or a value that begins otherwise, and 16 bytes that only who has the key can make
//! ```
//! The cipher is XChaCha20-Poly1305. Its nonce has 24 random bytes, so that none comes twice however many engines write with a key.
//!
//! Which of the two compresses is what an operator wants of new values; both are read whatever is wanted.
//!
//! Not here: which values (`super`), in which replies they stand (`opened`), what zstd works with (`zstd`).
//!
//! Invariant: what [`Form::open`] makes of a value that [`Form::store`] made is what was written; of any other bytes it makes an error, or a value that
//! somebody wrote there without a mark.

use super::Compression;
use super::keys::{Ring, SealingKey, is_name};
use super::zstd::Zstd;
use crate::acl::Entropy;
use crate::reject;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{KeyInit as _, Tag, XChaCha20Poly1305, XNonce};

/// What stored values begin with that are not as they were written. No text does: the first byte is none of UTF-8.
pub(super) const MAGIC: &[u8; 4] = b"\xffrsp";

/// Behind it: the value as it was.
const PLAIN: u8 = 0;

/// Behind it: its length as four bytes, little end first, and a block of LZ4.
const LZ4: u8 = 1;

/// Behind it: what was encrypted.
const SEALED: u8 = 2;

/// Behind it: a frame of zstd.
const ZSTD: u8 = 3;

pub(super) const HEAD_BYTES: usize = MAGIC.len() + 1;

/// Bytes of a nonce.
const NONCE_BYTES: usize = 24;

/// Bytes of what proves that somebody with the key wrote it.
const TAG_BYTES: usize = 16;

/// What is done with the values of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) compressed: bool,
    pub(super) sealed: bool,
}

/// Why a stored value is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It begins as one of ours and is none, or it is too large.
    Damaged,
    /// We do not have the key of this name.
    UnknownKey(Box<str>),
    /// Nobody who has the key wrote it so.
    Forged(Box<str>),
    /// It should be encrypted.
    Open,
}

impl Fault {
    /// The error that the client gets, without the `-`.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Damaged => reject::NOT_OPENED.into(),
            Self::UnknownKey(name) => reject::no_key(name),
            Self::Forged(name) => reject::not_decrypted(name),
            Self::Open => reject::NOT_ENCRYPTED.into(),
        }
    }
}

/// How values are written and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(super) from_bytes: usize,
    pub(super) compression: Compression,
    pub(super) ring: Arc<Ring>,
}

impl Form {
    /// A value as it is stored. `None`: it should be encrypted, and there is no key or no source of nonces.
    pub(super) fn store<'a>(
        &self,
        kept: Kept,
        value: &'a [u8],
        entropy: Option<&mut Entropy>,
        zstd: &mut Zstd,
    ) -> Option<Cow<'a, [u8]>> {
        let compressed = if kept.compressed { self.compressed(value, zstd) } else { None };
        let stored = match compressed {
            Some(stored) => Cow::Owned(stored),
            None if value.starts_with(MAGIC) => {
                Cow::Owned([MAGIC.as_slice(), &[PLAIN], value].concat())
            }
            None => Cow::Borrowed(value),
        };
        if !kept.sealed {
            return Some(stored);
        }
        Some(Cow::Owned(seal(self.ring.writes()?, &stored, entropy?.nonce())?))
    }

    /// `None`: it would not be smaller.
    fn compressed(&self, value: &[u8], zstd: &mut Zstd) -> Option<Vec<u8>> {
        // What the length has room for is the bound of a request, too.
        if value.len() < self.from_bytes.max(HEAD_BYTES + 4) || u32::try_from(value.len()).is_err()
        {
            return None;
        }
        let (kind, block) = match self.compression {
            Compression::Lz4 => (LZ4, lz4_flex::block::compress_prepend_size(value)),
            Compression::Zstd { level } => (ZSTD, zstd.compress(level, value)?),
        };
        let is_smaller = HEAD_BYTES + block.len() < value.len();
        is_smaller.then(|| [MAGIC.as_slice(), &[kind], &block].concat())
    }

    /// A stored value as it was written. `room`: how long it may be; `sealed_only`: only one that was encrypted is shown.
    pub(super) fn open<'a>(
        &self,
        stored: &'a [u8],
        room: usize,
        sealed_only: bool,
        zstd: &mut Zstd,
    ) -> Result<Cow<'a, [u8]>, Fault> {
        let sealed = stored.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(&[SEALED]));
        let Some(sealed) = sealed else {
            return if sealed_only { Err(Fault::Open) } else { opened(stored, room, zstd) };
        };
        let inner = self.unsealed(stored, sealed)?;
        if !inner.starts_with(MAGIC) {
            return Ok(Cow::Owned(inner));
        }
        Ok(Cow::Owned(opened(&inner, room, zstd)?.into_owned()))
    }

    fn unsealed(&self, stored: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Fault> {
        let (&len, rest) = sealed.split_first().ok_or(Fault::Damaged)?;
        let (name, rest) = rest.split_at_checked(usize::from(len)).ok_or(Fault::Damaged)?;
        let name = core::str::from_utf8(name).ok().filter(|name| is_name(name.as_bytes()));
        let name = name.ok_or(Fault::Damaged)?;
        let (nonce, rest) = rest.split_at_checked(NONCE_BYTES).ok_or(Fault::Damaged)?;
        let end = rest.len().checked_sub(TAG_BYTES).ok_or(Fault::Damaged)?;
        let (text, tag) = rest.split_at(end);
        let key = self.ring.named(name).ok_or_else(|| Fault::UnknownKey(name.into()))?;
        let mut inner = text.to_vec();
        let head = &stored[..HEAD_BYTES + 1 + name.len()];
        XChaCha20Poly1305::new(key.bytes().into())
            .decrypt_in_place_detached(
                XNonce::from_slice(nonce),
                head,
                &mut inner,
                Tag::from_slice(tag),
            )
            .map_err(|_| Fault::Forged(name.into()))?;
        Ok(inner)
    }
}

/// `None`: the cipher takes no more than 256 GiB.
fn seal(key: &SealingKey, value: &[u8], nonce: [u8; NONCE_BYTES]) -> Option<Vec<u8>> {
    let name = key.name().as_bytes();
    let begin = HEAD_BYTES + 1 + name.len() + NONCE_BYTES;
    let mut stored = Vec::with_capacity(begin + value.len() + TAG_BYTES);
    stored.extend_from_slice(MAGIC);
    // Names are shorter than a byte can tell.
    stored.extend([SEALED, name.len() as u8]);
    stored.extend_from_slice(name);
    stored.extend_from_slice(&nonce);
    stored.extend_from_slice(value);
    let (head, text) = stored.split_at_mut(begin);
    let tag = XChaCha20Poly1305::new(key.bytes().into()).encrypt_in_place_detached(
        XNonce::from_slice(&nonce),
        &head[..begin - NONCE_BYTES],
        text,
    );
    stored.extend_from_slice(&tag.ok()?);
    Some(stored)
}

/// What is not encrypted, or was and is not any more.
fn opened<'a>(stored: &'a [u8], room: usize, zstd: &mut Zstd) -> Result<Cow<'a, [u8]>, Fault> {
    let Some(rest) = stored.strip_prefix(MAGIC) else { return Ok(Cow::Borrowed(stored)) };
    match rest.split_first() {
        Some((&PLAIN, value)) => Ok(Cow::Borrowed(value)),
        Some((&LZ4, block)) => block_of_lz4(block, room).map(Cow::Owned).ok_or(Fault::Damaged),
        Some((&ZSTD, frame)) => zstd.open(frame, room).map(Cow::Owned).ok_or(Fault::Damaged),
        _ => Err(Fault::Damaged),
    }
}

fn block_of_lz4(block: &[u8], room: usize) -> Option<Vec<u8>> {
    let (len, block) = block.split_at_checked(4)?;
    let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
    // LZ4 makes at most 255 bytes of one: who says more lies, and no memory is taken for it.
    if len > room || len > block.len().saturating_mul(255) {
        return None;
    }
    let value = lz4_flex::block::decompress(block, len).ok()?;
    (value.len() == len).then_some(value)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in super::super) fn key(name: &str, byte: u8) -> SealingKey {
        let digits = alloc::format!("{byte:02x}").repeat(32);
        SealingKey::new(name, digits.as_bytes()).expect("a key")
    }

    pub(in super::super) fn form(from_bytes: usize, keys: &[SealingKey]) -> Form {
        Form { from_bytes, compression: Compression::Lz4, ring: Arc::new(Ring(keys.to_vec())) }
    }

    /// The value as an engine reads it that has read none before.
    fn opens<'a>(
        form: &Form,
        stored: &'a [u8],
        room: usize,
        sealed_only: bool,
    ) -> Result<Cow<'a, [u8]>, Fault> {
        form.open(stored, room, sealed_only, &mut Zstd::default())
    }

    const COMPRESSED: Kept = Kept { compressed: true, sealed: false };
    const SEALED: Kept = Kept { compressed: false, sealed: true };
    const BOTH: Kept = Kept { compressed: true, sealed: true };

    fn stored(form: &Form, kept: Kept, value: &[u8]) -> Vec<u8> {
        form.store(kept, value, Some(&mut Entropy::new([3; 32])), &mut Zstd::default())
            .expect("stored")
            .into_owned()
    }

    #[test]
    fn what_shrinks_is_stored_so_and_read_as_it_was() {
        let value = b"abc".repeat(1_000);
        let form = form(100, &[]);
        let small = stored(&form, COMPRESSED, &value);
        assert!(small.starts_with(MAGIC) && small.len() < 100, "{}", small.len());
        assert_eq!(&*opens(&form, &small, 3_000, false).expect("a value"), &*value);
        // A small one, and one that does not shrink.
        assert_eq!(stored(&form, COMPRESSED, b"abcabc"), b"abcabc");
        let noise: Vec<u8> = (0..200u64).map(|n| ((n * n * 7_919) >> 5) as u8).collect();
        assert!(stored(&form, COMPRESSED, &noise).len() <= noise.len());
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let form = form(100, &[]);
        let whole = stored(&form, COMPRESSED, &b"abc".repeat(1_000));
        let damaged = Err(Fault::Damaged);
        for broken in [&whole[..whole.len() - 3], b"\xffrsp", b"\xffrsp\x07abc", b"\xffrsp\x01abc"]
        {
            assert_eq!(opens(&form, broken, 1 << 20, false), damaged, "{broken:?}");
        }
        assert_eq!(opens(&form, &whole, 2_999, false), damaged, "there is a bound");
        let mut bomb = whole.clone();
        bomb[5..9].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(opens(&form, &bomb, usize::MAX, false), damaged, "it says more than it can be");
    }

    fn by_zstd(from_bytes: usize, keys: &[SealingKey]) -> Form {
        Form { compression: Compression::Zstd { level: 3 }, ..form(from_bytes, keys) }
    }

    #[test]
    fn both_kinds_are_read_whatever_new_ones_are() {
        let value = b"some words and some more of them, ".repeat(100);
        let keys = [key("k", 1)];
        let (lz4, zstd) = (form(100, &keys), by_zstd(100, &keys));
        for kept in [COMPRESSED, BOTH] {
            let (one, other) = (stored(&lz4, kept, &value), stored(&zstd, kept, &value));
            assert_ne!(one, other);
            for form in [&lz4, &zstd] {
                for stored in [&one, &other] {
                    let sealed = kept.sealed;
                    assert_eq!(
                        &*opens(form, stored, value.len(), sealed).expect("a value"),
                        &value
                    );
                    assert_eq!(opens(form, stored, value.len() - 1, sealed), Err(Fault::Damaged));
                }
            }
        }
        let (one, other) = (stored(&lz4, COMPRESSED, &value), stored(&zstd, COMPRESSED, &value));
        assert!(
            one.starts_with(b"\xffrsp\x01") && other.starts_with(b"\xffrsp\x03\x28\xb5\x2f\xfd")
        );
        assert_eq!(stored(&zstd, COMPRESSED, &value[..99]), &value[..99], "it is too small");
    }

    #[test]
    fn what_is_encrypted_hides_the_value_and_is_another_each_time() {
        let form = form(100, &[key("new", 1), key("old", 2)]);
        let mut entropy = Entropy::new([3; 32]);
        let value = b"a secret of somebody";
        let mut store =
            || form.store(SEALED, value, Some(&mut entropy), &mut Zstd::default()).expect("stored");
        let (one, other) = (store().into_owned(), store().into_owned());
        assert_ne!(one, other);
        assert!(one.starts_with(b"\xffrsp\x02\x03new"));
        assert_eq!(one.len(), 5 + 4 + 24 + value.len() + 16);
        assert!(!one.windows(6).any(|part| part == b"secret"));
        assert_eq!(&*opens(&form, &one, 100, true).expect("a value"), value);
        let text = b"abc".repeat(1_000);
        let small = stored(&form, BOTH, &text);
        assert!(small.len() < 200, "it is compressed before");
        assert_eq!(&*opens(&form, &small, 3_000, true).expect("a value"), &*text);
        assert_eq!(opens(&form, &small, 2_999, true), Err(Fault::Damaged));
        // Without a source of nonces, or a key, nothing is written.
        assert_eq!(form.store(SEALED, value, None, &mut Zstd::default()), None);
        assert_eq!(
            super::tests::form(1, &[]).store(
                SEALED,
                value,
                Some(&mut entropy),
                &mut Zstd::default()
            ),
            None
        );
    }

    #[test]
    fn keys_are_turned_and_unknown_ones_are_told() {
        let (old, new) = (key("old", 1), key("new", 2));
        let before = form(100, core::slice::from_ref(&old));
        let after = form(100, &[new.clone(), old]);
        let value = stored(&before, SEALED, b"value");
        assert_eq!(&*opens(&after, &value, 9, true).expect("a value"), b"value");
        let value = stored(&after, SEALED, b"value");
        assert_eq!(opens(&before, &value, 9, true), Err(Fault::UnknownKey("new".into())));
        let other = form(100, &[key("new", 3)]);
        assert_eq!(opens(&other, &value, 9, true), Err(Fault::Forged("new".into())));
        // Another name over the same bytes does not do either: the head belongs to what is sealed.
        let mut renamed = value.clone();
        renamed[6..9].copy_from_slice(b"abc");
        let form = form(100, &[key("abc", 2)]);
        assert_eq!(opens(&form, &renamed, 9, true), Err(Fault::Forged("abc".into())));
    }

    #[test]
    fn what_nobody_encrypted_is_shown_unless_that_is_refused() {
        let form = form(100, &[key("k", 1)]);
        for (plain, shown) in
            [(&b"as it is"[..], &b"as it is"[..]), (b"\xffrsp\x00\xffrsp", b"\xffrsp")]
        {
            assert_eq!(&*opens(&form, plain, 100, false).expect("a value"), shown);
            assert_eq!(opens(&form, plain, 100, true), Err(Fault::Open));
        }
        // Twice is what nobody writes.
        let twice = seal(&key("k", 1), &stored(&form, SEALED, b"value"), [0; 24]).expect("sealed");
        assert_eq!(opens(&form, &twice, 100, true), Err(Fault::Damaged));
    }

    #[test]
    fn each_changed_byte_is_noticed() {
        let form = form(100, &[key("key", 1)]);
        let whole = stored(&form, SEALED, b"some value");
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                let open = opens(&form, &changed, 100, true);
                assert!(open.is_err(), "byte {at}, bit {bit}: {open:?}");
                // Without the mark it is a value of somebody's own, and never what was sealed.
                if let Ok(shown) = opens(&form, &changed, 100, false) {
                    assert!(at < HEAD_BYTES && changed.ends_with(&shown), "byte {at}, bit {bit}");
                }
            }
        }
        for len in 0..whole.len() {
            assert!(opens(&form, &whole[..len], 100, true).is_err(), "{len} bytes");
        }
    }

    /// What is stored today is read by all that comes later: these bytes are never to change.
    #[test]
    fn what_was_stored_before_is_read() {
        let form = form(16, &[key("k1", 7)]);
        assert_eq!(&*opens(&form, b"\xffrsp\x00\xffrsp!", 99, false).expect("plain"), b"\xffrsp!");
        let lz4 = b"\xffrsp\x01\x14\x00\x00\x00\x1aa\x01\x00\x50aaaaa";
        assert_eq!(&*opens(&form, lz4, 99, false).expect("LZ4"), b"a".repeat(20));
        let zstd = b"\xffrsp\x03\x28\xb5\x2f\xfd\x20\x14\xa3\x00\x00a";
        assert_eq!(&*opens(&form, zstd, 99, false).expect("zstd"), b"a".repeat(20));
        // What we write has a checksum; the one above, of somebody else's, has none.
        let ours = b"\xffrsp\x03\x28\xb5\x2f\xfd\x24\x28\x45\x00\x00\x10aa\x01\x00\x1f\x80\x05\x03\xef\x11\x31";
        assert_eq!(&*opens(&form, ours, 99, false).expect("zstd"), b"a".repeat(40));
    }

    proptest! {
        /// Whatever the value is, what is read is what was written.
        #[test]
        fn any_value_comes_back(
            begin in prop_oneof![
                Just(&b""[..]), Just(&b"\xffrsp"[..]), Just(&b"\xffrsp\x01"[..]), Just(&b"\xffrsp\x03\x28\xb5\x2f\xfd"[..]), Just(&b"\xffrsp\x02\x01k"[..]),
            ],
            rest in proptest::collection::vec(any::<u8>(), 0..60),
            times in 1..20usize,
            from_bytes in 0..200usize,
            compression in prop_oneof![Just(Compression::Lz4), (1..10u8).prop_map(|level| Compression::Zstd { level })],
            kept in prop_oneof![Just(Kept::default()), Just(COMPRESSED), Just(SEALED), Just(BOTH)],
        ) {
            let value = [begin, &rest.repeat(times)].concat();
            let form = Form { compression, ..form(from_bytes, &[key("k", 1)]) };
            let stored = stored(&form, kept, &value);
            let opened = opens(&form, &stored, value.len(), kept.sealed);
            prop_assert_eq!(&*opened.expect("a value"), &*value);
            let more = if kept.sealed { HEAD_BYTES + 2 + NONCE_BYTES + TAG_BYTES } else { 0 };
            prop_assert!(stored.len() <= value.len() + HEAD_BYTES + more);
        }

        /// Whatever stands at the server: no panic, and no more memory than was allowed.
        #[test]
        fn any_bytes_are_no_harm(
            kind in 0..5u8,
            stored in proptest::collection::vec(any::<u8>(), 0..80),
            sealed in any::<bool>(),
        ) {
            let form = form(16, &[key("k", 1)]);
            let mut stored = [&b"\xffrsp"[..], &[kind], &stored].concat();
            if sealed {
                // What somebody with the key could have meant to do us.
                stored = seal(&key("k", 1), &stored, [9; 24]).expect("sealed");
            }
            if let Ok(value) = opens(&form, &stored, 1_000, false) {
                prop_assert!(value.len() <= 1_000);
            }
        }
    }

    #[test]
    fn no_two_nonces_are_equal() {
        let mut entropy = Entropy::new([5; 32]);
        let mut other = Entropy::new([6; 32]);
        let mut seen = alloc::collections::BTreeSet::new();
        for _ in 0..5_000 {
            assert!(seen.insert(entropy.nonce()) && seen.insert(other.nonce()));
        }
    }
}
