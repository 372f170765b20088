//! What may go wrong in the simulated network, and how often.
//!
//! Chances are in parts per million. A connection takes the faults that hold for its destination when
//! it begins and keeps them; what a test wants at one exact moment it commands
//! ([`SimPeer::reset`](super::SimPeer::reset) and its like).
//!
//! Invariant: [`SimFaults::none`] loses nothing and cuts nothing, so a test that passes only there has
//! found something.

use super::rng::SimRng;

/// How unkind the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimFaults {
    /// Shortest and longest time of one delivery, in microseconds. Order within a direction is kept.
    pub delay_us: (u64, u64),
    /// One [`Event::Received`](crate::Event::Received) holds 1 to this many bytes, by chance. 1 is
    /// "every byte for itself"; `usize::MAX` never cuts.
    pub read_bytes_max: usize,
    /// The kernel takes 1 to this many bytes of a send at a time; the rest is in flight.
    pub write_bytes_max: usize,
    /// What was written in one go travels in pieces of 1 to this many bytes, each with its own delay.
    pub segment_bytes_max: usize,
    /// Bytes that one direction holds between writer and reader; when it is full, sends wait.
    pub socket_bytes_max: usize,
    /// A wait ends its batch early after an event, and the next wait goes on.
    pub split_batch_ppm: u32,
    /// A connect is refused.
    pub connect_refused_ppm: u32,
    /// A connect is never answered.
    pub connect_hangs_ppm: u32,
    /// The connection is reset in place of a delivery; both ends are told.
    pub reset_ppm: u32,
    /// A scripted peer stops reading for a while, decided at each delivery to it.
    pub stall_ppm: u32,
    /// Shortest and longest such while, in microseconds.
    pub stall_us: (u64, u64),
    /// Accepting fails for want of descriptors.
    pub accept_failed_ppm: u32,
}

impl SimFaults {
    /// A kind network: small equal delays, nothing cut, nothing broken, 256 KiB per direction.
    pub const fn none() -> Self {
        Self {
            delay_us: (50, 50),
            read_bytes_max: usize::MAX,
            write_bytes_max: usize::MAX,
            segment_bytes_max: usize::MAX,
            socket_bytes_max: 256 << 10,
            split_batch_ppm: 0,
            connect_refused_ppm: 0,
            connect_hangs_ppm: 0,
            reset_ppm: 0,
            stall_ppm: 0,
            stall_us: (0, 0),
            accept_failed_ppm: 0,
        }
    }

    /// Cuts and delays everything by chance, but breaks nothing: each kind of cut is switched on or
    /// off by the seed, as a run with everything on hides what only a single kind brings out.
    pub fn cutting(rng: &mut SimRng) -> Self {
        let mut faults = Self::none();
        let small = [1, 2, 3, 7, 16, 100, 1500];
        let pick = |rng: &mut SimRng| match rng.chance(500_000) {
            true => small[rng.between(0, small.len() as u64 - 1) as usize],
            false => usize::MAX,
        };
        faults.read_bytes_max = pick(rng);
        faults.write_bytes_max = pick(rng);
        faults.segment_bytes_max = pick(rng);
        faults.delay_us = (rng.between(0, 50), rng.between(50, 5_000));
        if rng.chance(500_000) {
            faults.socket_bytes_max = rng.between(1, 4096) as usize;
        }
        if rng.chance(500_000) {
            faults.split_batch_ppm = 200_000;
        }
        faults
    }

    /// [`SimFaults::cutting`], and connections also break, stall and fail to come, each kind by the
    /// seed.
    pub fn breaking(rng: &mut SimRng) -> Self {
        let mut faults = Self::cutting(rng);
        let rate = |rng: &mut SimRng, ppm_max| match rng.chance(500_000) {
            true => rng.between(1, ppm_max) as u32,
            false => 0,
        };
        faults.connect_refused_ppm = rate(rng, 300_000);
        faults.connect_hangs_ppm = rate(rng, 100_000);
        faults.reset_ppm = rate(rng, 5_000);
        faults.stall_ppm = rate(rng, 20_000);
        faults.accept_failed_ppm = rate(rng, 100_000);
        faults.stall_us = (100, 200_000);
        faults
    }
}

impl Default for SimFaults {
    fn default() -> Self {
        Self::none()
    }
}
