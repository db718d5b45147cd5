//! CRC-32C of what is read in several parts at once.
//!
//! A CRC is the rest of a division of polynomials, so that of two pieces follows from those of each and the length of
//! the second: the first is multiplied by x for every bit that comes behind it. Powers of x are known beforehand, so that
//! takes one multiplication for each byte of the number that tells how long the second is.

use crc32c::crc32c_append;

use crate::database::Record;

/// A CRC-32C, and of how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Crc {
    pub(crate) crc: u32,
    pub(crate) len: usize,
}

impl Crc {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut crc = Self::default();
        crc.add(bytes);
        crc
    }

    /// Adds a record of the key space.
    pub(crate) fn add_record(&mut self, record: &Record<'_>) {
        self.add(&record.at.encode());
        self.add(record.value);
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.crc = crc32c_append(self.crc, bytes);
        self.len += bytes.len();
    }

    /// Adds the bytes that `next` is the CRC of.
    pub(crate) fn join(&mut self, next: Self) {
        self.crc = times(power_of_bytes(next.len), self.crc) ^ next.crc;
        self.len += next.len;
    }
}

/// Castagnoli's polynomial without its highest power. Bit 31 is the power 0, as everywhere here.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const ONE: u32 = 1 << 31;

/// x to the power of the bits that so many bytes have: for each byte of their number one factor, by its value.
static POWERS: [[u32; 256]; 8] = {
    let mut powers = [[ONE; 256]; 8];
    // x to the power of eight, of 256 times eight, and so on.
    let (mut place, mut of_one) = (0, ONE >> 8);
    while place < powers.len() {
        let (mut value, mut power) = (0, ONE);
        while value < 256 {
            #[allow(clippy::indexing_slicing, reason = "both are less than the lengths")]
            {
                powers[place][value] = power;
            }
            power = times(power, of_one);
            value += 1;
        }
        (place, of_one) = (place + 1, power);
    }
    powers
};

fn power_of_bytes(bytes: usize) -> u32 {
    let factors = POWERS.iter().zip(bytes.to_le_bytes()).filter(|&(_, value)| value > 0);
    let factors = factors.filter_map(|(powers, value)| powers.get(value as usize));
    factors.copied().reduce(times).unwrap_or(ONE)
}

/// The product of two polynomials. Without branches, for nobody could guess where these would go.
const fn times(one: u32, other: u32) -> u32 {
    let (mut product, mut shifted, mut bit) = (0, other, 31);
    loop {
        product ^= shifted & (one >> bit & 1).wrapping_neg();
        if bit == 0 {
            return product;
        }
        shifted = shifted >> 1 ^ (POLYNOMIAL & (shifted & 1).wrapping_neg());
        bit -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_crcs_are_those_of_the_whole() {
        let bytes: Vec<u8> = (0..100_000u32).map(|number| (number.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        for cut in [0, 1, 17, 4096, 65_537, 99_999, 100_000] {
            let (first, second) = bytes.split_at(cut);
            let mut joined = Crc::of(first);
            joined.join(Crc::of(second));
            assert_eq!(joined, Crc { crc: crc32c::crc32c(&bytes), len: bytes.len() }, "{cut}");
            assert_eq!(joined.crc, crc32c::crc32c_combine(Crc::of(first).crc, Crc::of(second).crc, second.len()));
        }
    }
}
