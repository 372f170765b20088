//! The three cyclic redundancy checks among the hash functions, with what libmemcached and twemproxy made of them.
//!
//! Not here: the fast CRC-16 of cluster slots. It is reused where the 16-bit form is asked for; the 32-bit form has no
//! blocks, as the bits above the checksum depend on each single step.
//!
//! Invariant: the lower 16 bits of the 32-bit form are the 16-bit form.

use super::Crc16Width;
use crate::route::slot;

/// CRC-16/XMODEM in a register of the given width.
pub(super) fn crc16(key: &[u8], width: Crc16Width) -> u32 {
    match width {
        Crc16Width::Bits16 => u32::from(slot::crc16(key)),
        // A step shifts the register by a byte and cuts nothing off above, so the bits that the checksum lost are still
        // there: of the four bytes of the register the upper two are the last ones that were shifted out.
        Crc16Width::Bits32 => key.iter().fold(0, |crc: u32, byte| {
            (crc << 8) ^ u32::from(slot::crc16(&[(crc >> 8) as u8 ^ byte]))
        }),
    }
}

/// CRC-32 (IEEE 802.3): twemproxy's `crc32a`.
pub(super) fn crc32(key: &[u8]) -> u32 {
    !key.iter().fold(!0, |crc: u32, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// What libmemcached calls CRC-32: fifteen bits out of the middle.
pub(super) fn crc32_libmemcached(key: &[u8]) -> u32 {
    (crc32(key) >> 16) & 0x7fff
}

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn published_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32_libmemcached(b"123456789"), 0x4bf4);
        assert_eq!(crc32(b""), 0);
    }

    proptest! {
        #[test]
        fn the_wide_crc16_ends_in_the_narrow_one(key in proptest::collection::vec(any::<u8>(), 0..40)) {
            let key: Vec<u8> = key;
            prop_assert_eq!(crc16(&key, Crc16Width::Bits32) as u16, slot::crc16(&key));
        }
    }
}
