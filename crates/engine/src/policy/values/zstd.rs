//! What zstd works with, kept by an engine from one value to the next: to make it anew for each would take several times as long as a small value does.
//!
//! ```text
//!   value ─▶ compress ─▶ one frame, which tells the value's length        frame ─▶ length within `room`? possible at all? ─▶ memory of that length ─▶ open
//! ```
//! The library is zstd's own, in C, as what is known of its behaviour with bytes of others is known of it: values stand where others may write. Of these bytes it
//! gets a frame as a whole and memory of the length that we looked at, so that it needs no window of its own, whatever the frame says of one.
//!
//! Not here: what stands around a frame (`stored`).
//!
//! Invariant: no memory is taken for what a frame says before that was found to be allowed and possible; what is kept has a bound.

use crate::limits::{ZSTD_LEVEL_BYTES_MAX, ZSTD_LEVEL_MAX};
use alloc::vec::Vec;
use zstd_safe::{CCtx, CParameter, DCtx};

/// The most that one block makes.
const BLOCK_BYTES: u64 = 128 << 10;

/// The least that such a block takes: its head, and one byte that is repeated.
const BLOCK_BYTES_MIN: u64 = 4;

/// See the module.
#[derive(Default)]
pub(crate) struct Zstd {
    writes: Option<CCtx<'static>>,
    reads: Option<DCtx<'static>>,
}

impl Zstd {
    /// Frames end with four bytes by which what was changed is noticed, and is not shown as if somebody had written it.
    fn begin() -> Option<CCtx<'static>> {
        let mut writes = CCtx::try_create()?;
        writes.set_parameter(CParameter::ChecksumFlag(true)).ok().map(|_| writes)
    }

    /// A value as a frame. `None`: that would not be smaller.
    pub(super) fn compress(&mut self, level: u8, value: &[u8]) -> Option<Vec<u8>> {
        let mut writes = self.writes.take().or_else(Self::begin)?;
        let mut frame = Vec::with_capacity(value.len());
        let level = match value.len() {
            ..=ZSTD_LEVEL_BYTES_MAX => level.clamp(1, ZSTD_LEVEL_MAX),
            // Compression stops the worker: level 9 would take some 3 s for 60 MiB.
            _ => 1,
        };
        writes.set_parameter(CParameter::CompressionLevel(i32::from(level))).ok()?;
        let done = writes.compress2(&mut frame, value);
        self.writes = Some(writes);
        done.ok().map(|_| frame)
    }

    /// The value that a frame was made of, which may have `room` bytes. `None`: it is no frame, or more than one, or too large.
    pub(super) fn open(&mut self, frame: &[u8], room: usize) -> Option<Vec<u8>> {
        let len = zstd_safe::get_frame_content_size(frame).ok()??;
        let possible = (frame.len() as u64 / BLOCK_BYTES_MIN).saturating_mul(BLOCK_BYTES);
        let len = usize::try_from(len).ok().filter(|len| *len <= room)?;
        if len as u64 > possible || zstd_safe::find_frame_compressed_size(frame) != Ok(frame.len())
        {
            return None;
        }
        let mut reads = self.reads.take().or_else(DCtx::try_create)?;
        let mut value = Vec::with_capacity(len);
        let done = reads.decompress(&mut value, frame);
        self.reads = Some(reads);
        (done.is_ok() && value.len() == len).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ZSTD_KEPT_BYTES;
    use proptest::prelude::*;

    fn text(len: usize) -> Vec<u8> {
        b"{\"id\":17,\"name\":\"somebody\"},".iter().copied().cycle().take(len).collect()
    }

    #[test]
    fn a_large_value_is_compressed_at_the_fastest_level() {
        let mut zstd = Zstd::default();
        let text = |bytes: usize| -> Vec<u8> {
            (0_u32..)
                .flat_map(|n| alloc::format!("{}", n.wrapping_mul(0x9e37_79b1)).into_bytes())
                .take(bytes)
                .collect()
        };
        for (bytes, is_fastest) in [(ZSTD_LEVEL_BYTES_MAX, false), (ZSTD_LEVEL_BYTES_MAX + 1, true)]
        {
            let value = text(bytes);
            let [fastest, wanted] =
                [1, 9].map(|level| zstd.compress(level, &value).expect("a frame"));
            assert_eq!(fastest == wanted, is_fastest, "{bytes}");
            assert_eq!(zstd.open(&wanted, bytes), Some(value));
        }
    }

    #[test]
    fn each_level_makes_a_frame_that_is_read_and_remembers_nothing() {
        let mut zstd = Zstd::default();
        let value = text(20_000);
        for level in [0, 1, 3, ZSTD_LEVEL_MAX, 255] {
            let frame = zstd.compress(level, &value).expect("a frame");
            assert!(frame.len() < 500, "{}", frame.len());
            assert_eq!(zstd.open(&frame, value.len()).as_ref(), Some(&value));
            // Nothing of the one before is in it: others can read it.
            assert_eq!(Zstd::default().open(&frame, value.len()).as_ref(), Some(&value));
            assert_eq!(Zstd::default().compress(level, &value).as_ref(), Some(&frame));
        }
        let mut noise: Vec<u8> = (0..1_000u64).map(|n| ((n * n * 7_919) >> 5) as u8).collect();
        noise.extend((0..1_000u64).map(|n| ((n * n * 104_729) >> 7) as u8));
        assert!(zstd.compress(1, &noise).is_none_or(|frame| frame.len() < noise.len()));
    }

    #[test]
    fn what_a_frame_says_is_no_reason_to_take_memory() {
        let mut zstd = Zstd::default();
        let value = text(3_000);
        let frame = zstd.compress(3, &value).expect("a frame");
        assert_eq!(zstd.open(&frame, 2_999), None, "there is a bound");
        assert_eq!(zstd.open(&frame[..frame.len() - 1], 3_000), None);
        assert_eq!(
            zstd.open(&[&frame[..], &frame].concat(), 6_000),
            None,
            "one, and nothing behind it"
        );
        assert_eq!(zstd.open(&[&frame[..], b"x"].concat(), 6_000), None);
        assert_eq!(zstd.open(b"", 10), None);
        // A head that says 4 GiB, and one that says 2^64 - 1, before a block that is empty.
        let heads = [
            &b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff\x01\x00\x00"[..],
            b"\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00",
        ];
        for head in heads {
            assert_eq!(zstd.open(head, usize::MAX), None);
        }
        // A window of 2 GiB is none that is taken: the value stands in one piece.
        let wide = b"\x28\xb5\x2f\xfd\x80\xa8\x03\x00\x00\x00\x19\x00\x00abc";
        assert_eq!(zstd.open(wide, 10).as_deref(), Some(&b"abc"[..]));
        assert!(zstd.reads.as_ref().is_some_and(|reads| reads.sizeof() <= ZSTD_KEPT_BYTES));
        // One that does not tell its length is none of ours.
        assert_eq!(zstd.open(b"\x28\xb5\x2f\xfd\x00\x58\x19\x00\x00abc", 10), None);
        // 128 KiB of one byte, from four bytes: as much as there can be.
        let most = b"\x28\xb5\x2f\xfd\xa0\x00\x00\x02\x00\x03\x00\x10a";
        assert_eq!(zstd.open(most, 1 << 20).map(|value| value.len()), Some(128 << 10));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        for bytes in [1 << 10, 16 << 10, 64 << 10, ZSTD_LEVEL_BYTES_MAX, 8 << 20] {
            let value = text(bytes);
            let mut zstd = Zstd::default();
            for level in 1..=ZSTD_LEVEL_MAX {
                let frame = zstd.compress(level, &value).expect("a frame");
                assert_eq!(zstd.open(&frame, value.len()).as_ref(), Some(&value));
                let kept = zstd.writes.as_ref().map_or(0, |writes| writes.sizeof());
                assert!(kept <= ZSTD_KEPT_BYTES, "{bytes} {level}: {kept}");
            }
            assert!(zstd.reads.is_some_and(|reads| reads.sizeof() <= ZSTD_KEPT_BYTES));
        }
    }

    proptest! {
        /// Whatever was changed of a frame: no panic, and it is not shown, unless what was changed means nothing.
        #[test]
        fn a_damaged_frame_is_no_harm(
            len in 1..3_000usize,
            level in 1..=ZSTD_LEVEL_MAX,
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<proptest::sample::Index>(),
            is_cut in any::<bool>(),
            room in 0..4_000usize,
        ) {
            let mut zstd = Zstd::default();
            let Some(mut frame) = zstd.compress(level, &text(len)) else { return Ok(()) };
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if is_cut {
                frame.truncate(cut.index(frame.len()));
            }
            if let Some(value) = zstd.open(&frame, room) {
                prop_assert!(value.len() <= room && value == text(len));
            }
            // It goes on as if nothing had been.
            let frame = zstd.compress(level, &text(2_000)).expect("a frame");
            prop_assert_eq!(zstd.open(&frame, 2_000), Some(text(2_000)));
        }

        /// Nor are bytes that were never a frame, behind what frames begin with.
        #[test]
        fn any_bytes_are_no_harm(
            is_marked in any::<bool>(),
            rest in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let begin = if is_marked { &b"\x28\xb5\x2f\xfd"[..] } else { b"" };
            if let Some(value) = Zstd::default().open(&[begin, &rest].concat(), 1_000) {
                prop_assert!(value.len() <= 1_000);
            }
        }
    }
}
