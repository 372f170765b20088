//! Random digits for passwords, and nonces of encrypted values.
//!
//! The engine has no source of its own: the worker hands some bytes in at the start, and these are stretched with SHA-256. What was given
//! out cannot be found from what is kept.
//!
//! Invariant: `Debug` shows nothing of it; no two calls give the same.

use alloc::vec::Vec;
use core::fmt;
use sha2::{Digest as _, Sha256};

/// See the module.
pub(crate) struct Entropy([u8; 32]);

impl Entropy {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// So many hexadecimal digits.
    pub(crate) fn hex(&mut self, digits: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(digits + 64);
        while text.len() < digits {
            let block = self.part(b"digits");
            self.0 = self.part(b"next").into();
            let nibbles = block.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            text.extend(nibbles.map(|nibble| b"0123456789abcdef"[usize::from(nibble)]));
        }
        text.truncate(digits);
        text
    }

    /// Bytes that no other call gives, here or in an engine that began with other bytes.
    pub(crate) fn nonce(&mut self) -> [u8; 24] {
        let block: [u8; 32] = self.part(b"nonce").into();
        self.0 = self.part(b"next").into();
        let mut nonce = [0; 24];
        nonce.copy_from_slice(&block[..24]);
        nonce
    }

    fn part(&self, what: &[u8]) -> sha2::digest::Output<Sha256> {
        Sha256::new().chain_update(self.0).chain_update(what).finalize()
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_differ_each_time_and_depend_on_the_seed() {
        let mut entropy = Entropy::new([7; 32]);
        let (one, other) = (entropy.hex(64), entropy.hex(64));
        assert!(one != other && one.len() == 64);
        assert_eq!(Entropy::new([7; 32]).hex(64), one);
        assert_ne!(Entropy::new([8; 32]).hex(64), one);
        assert_eq!(entropy.hex(5).len(), 5);
        assert_eq!(entropy.hex(1024).len(), 1024);
        assert!(entropy.hex(200).iter().all(u8::is_ascii_hexdigit));
    }
}
