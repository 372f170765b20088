//! Tests of the whole crate: scanners against the oracle, over every way in which bytes can arrive.
//!
//! The comparison itself is in `fuzzing`; here are the streams. What a single module promises is tested in
//! that module. Nothing here needs the network, the clock or a file but the committed fuzz seeds.

mod replies;
mod requests;
mod seeds;

use alloc::vec::Vec;
use proptest::prelude::*;

/// Sizes at which buffers tend to end: powers of two up to 64 KiB, two bytes around each.
fn boundary_sizes() -> Vec<usize> {
    (0..=16).flat_map(|power| (1_usize << power).saturating_sub(2)..=(1 << power) + 2).collect()
}

/// Sizes of the pieces in which a stream arrives; 0 stands for all that is left.
fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let size =
        prop_oneof![4 => 1_usize..12, 2 => 12_usize..300, 1 => Just(0), 1 => 300_usize..20_000];
    prop::collection::vec(size, 1..12)
}

/// A stream glued together from what the protocol is made of, in any order.
fn glued(words: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(words).prop_map(<[u8]>::to_vec);
    let noise = prop::collection::vec(any::<u8>(), 1..4);
    prop::collection::vec(prop_oneof![12 => word, 1 => noise], 0..24).prop_map(|all| all.concat())
}

/// A stream with some of its bytes overwritten, dropped or doubled.
fn mutated(stream: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let interesting = prop_oneof![3 => prop::sample::select(b"\r\n\0*$:0129-? \"'.;|".to_vec()), 1 => any::<u8>()];
    let edit = (any::<prop::sample::Index>(), 0..3_u8, interesting);
    (stream, prop::collection::vec(edit, 0..4)).prop_map(|(mut stream, edits)| {
        for (index, how, byte) in edits {
            if stream.is_empty() {
                break;
            }
            let at = index.index(stream.len());
            match how {
                0 => stream[at] = byte,
                1 => drop(stream.remove(at)),
                _ => stream.insert(at, byte),
            }
        }
        stream
    })
}

/// Calls `check` with the pieces of: everything at once, byte by byte, and every two cuts.
fn every_cut(len: usize, mut check: impl FnMut(&[usize])) {
    check(&[0]);
    check(&[1]);
    for first in 1..len {
        check(&[first, 0]);
        for second in 1..len - first {
            check(&[first, second, 0]);
        }
    }
}
