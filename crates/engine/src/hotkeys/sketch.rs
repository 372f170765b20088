//! Which of very many keys come most often, in memory that does not grow with them: HeavyKeeper (Gong et al., USENIX ATC 2018).
//!
//! ```text
//!   key ─▶ hash ─▶ one cell in each row: the same tag? count + 1        another's? count − 1 with probability 1.08^−count; at 0 it is ours
//!                      └ the larger count is the key's estimate
//! ```
//! A cell that a frequent key has is hard to take away, and rare keys wear each other out. So an estimate is hardly ever too high, and of frequent
//! keys hardly too low.
//!
//! Own code and not the crate `heavykeeper`: that one needs `std`, counts with floating point numbers and owns its keys. This is some sixty lines.
//!
//! Not here: the names of the keys (`top`), and time.
//!
//! Invariant: [`ROWS`] × [`CELLS`] cells, whatever comes; the same keys in the same order with the same seed leave the same cells.

use alloc::vec;
use alloc::vec::Vec;

/// Cells that a key may stand in.
const ROWS: usize = 2;

/// Cells of a row, a power of two: 32 KiB for both rows.
const CELLS: usize = 2_048;

/// Bits of a hash that choose a cell.
const CELL_BITS: u32 = CELLS.trailing_zeros();

/// From this count on a cell is never taken away: the probability is below 2^−32.
const DECAYS: usize = 256;

/// Probability, in 2^−32, that a cell with this count loses one to another key.
static DECAY: [u32; DECAYS] = decays();

/// Who has a cell, and how much.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    tag: u32,
    count: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sketch {
    cells: Vec<Cell>,
}

impl Sketch {
    pub(crate) fn new() -> Self {
        Self { cells: vec![Cell::default(); ROWS * CELLS] }
    }

    /// The key with this hash came once more; what is estimated of it now. `random` gives one number for each cell that another key has.
    pub(crate) fn add(&mut self, hash: u64, mut random: impl FnMut() -> u32) -> u32 {
        let tag = tag(hash);
        let mut estimate = 0;
        for place in places(hash) {
            let cell = &mut self.cells[place];
            if cell.count > 0 && cell.tag != tag {
                let decays =
                    DECAY.get(cell.count as usize).is_some_and(|chance| random() < *chance);
                cell.count -= u32::from(decays);
            }
            if cell.count == 0 {
                *cell = Cell { tag, count: 1 };
            } else if cell.tag == tag {
                cell.count = cell.count.saturating_add(1);
            } else {
                continue;
            }
            estimate = estimate.max(cell.count);
        }
        estimate.max(1)
    }

    /// The key with this hash was counted elsewhere for a while: so often.
    pub(crate) fn put_back(&mut self, hash: u64, count: u32) {
        let tag = tag(hash);
        for place in places(hash) {
            let cell = &mut self.cells[place];
            if cell.count < count {
                *cell = Cell { tag, count };
            }
        }
    }

    /// Nothing came yet.
    pub(crate) fn clear(&mut self) {
        self.cells.fill(Cell::default());
    }
}

/// What tells keys of one cell apart.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Where a key may stand.
fn places(hash: u64) -> [usize; ROWS] {
    let cell = |row: usize| (hash >> (row as u32 * CELL_BITS)) as usize % CELLS + row * CELLS;
    [cell(0), cell(1)]
}

/// 1.08^−count as a part of 2^32, in whole numbers so that it is the same everywhere.
const fn decays() -> [u32; DECAYS] {
    let mut table = [u32::MAX; DECAYS];
    let mut count = 1;
    while count < DECAYS {
        table[count] = (table[count - 1] as u64 * 100 / 108) as u32;
        count += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use rapidhash::v3::rapidhash_v3;

    /// splitmix64: any will do.
    fn random(state: &mut u64) -> u32 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }

    #[test]
    fn frequent_keys_are_estimated_well_among_very_many_rare_ones() {
        let (mut sketch, mut state) = (Sketch::new(), 7);
        let mut estimates = [0; 4];
        for round in 0..200_000_u64 {
            let key = match round % 20 {
                0 => 0,
                1 if round % 40 == 1 => 1,
                2 if round % 200 == 2 => 2,
                _ => 10 + u64::from(random(&mut state)) % 50_000,
            };
            let estimate = sketch.add(rapidhash_v3(&key.to_le_bytes()), || random(&mut state));
            estimates[(key as usize).min(3)] = estimate;
        }
        for (estimate, true_count) in estimates.iter().zip([10_000, 5_000, 1_000]) {
            let low = true_count * 9 / 10;
            assert!((low..=true_count).contains(estimate), "{estimate} of {true_count}");
        }
        assert!(estimates[3] < 100, "a rare key: {}", estimates[3]);
    }

    #[test]
    fn what_was_counted_elsewhere_goes_on_from_there() {
        let mut sketch = Sketch::new();
        let hash = rapidhash_v3(b"key");
        assert_eq!(sketch.add(hash, || 0), 1);
        sketch.put_back(hash, 70);
        sketch.put_back(hash, 3);
        assert_eq!(sketch.add(hash, || 0), 71);
        sketch.clear();
        assert_eq!(sketch.add(hash, || 0), 1);
    }

    #[test]
    fn it_gets_ever_harder_to_lose_a_cell() {
        assert!(DECAY.windows(2).all(|pair| pair[1] < pair[0] || pair[0] == 0));
        assert_eq!(DECAY[DECAYS - 1] / 16, 0, "nothing is lost by the end of the table");
    }
}
