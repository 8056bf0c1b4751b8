//! Lengths in bytes.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

/// A length in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteLength(u64);

/// 2^10 bytes.
pub const KIB: ByteLength = ByteLength(1 << 10);
/// 2^20 bytes.
pub const MIB: ByteLength = ByteLength(1 << 20);
/// 2^30 bytes.
pub const GIB: ByteLength = ByteLength(1 << 30);

impl ByteLength {
    /// Zero bytes.
    pub const ZERO: ByteLength = ByteLength(0);

    /// Returns a length of `bytes` bytes.
    #[inline]
    pub const fn new(bytes: u64) -> Self {
        ByteLength(bytes)
    }

    /// Returns the number of bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Returns the length in MiB (2^20 bytes).
    #[inline]
    pub fn mebibytes(self) -> f64 {
        self.0 as f64 / MIB.0 as f64
    }

    /// Returns the length in GiB (2^30 bytes).
    #[inline]
    pub fn gibibytes(self) -> f64 {
        self.0 as f64 / GIB.0 as f64
    }

    /// Returns the number of whole `unit`s that fit.
    ///
    /// # Panics
    /// Panics if `unit` is zero.
    #[inline]
    pub const fn whole(self, unit: ByteLength) -> u64 {
        self.0 / unit.0
    }

    /// Returns the number of `unit`s that cover the length.
    ///
    /// # Panics
    /// Panics if `unit` is zero.
    #[inline]
    pub const fn covering(self, unit: ByteLength) -> u64 {
        self.0.div_ceil(unit.0)
    }

    /// Returns true if the length is a whole number of `unit`s.
    ///
    /// # Panics
    /// Panics if `unit` is zero.
    #[inline]
    pub const fn is_multiple_of(self, unit: ByteLength) -> bool {
        self.0.is_multiple_of(unit.0)
    }
}

impl Add for ByteLength {
    type Output = ByteLength;
    #[inline]
    fn add(self, other: ByteLength) -> ByteLength {
        ByteLength(self.0 + other.0)
    }
}

impl AddAssign for ByteLength {
    #[inline]
    fn add_assign(&mut self, other: ByteLength) {
        self.0 += other.0;
    }
}

impl Sub for ByteLength {
    type Output = ByteLength;
    #[inline]
    fn sub(self, other: ByteLength) -> ByteLength {
        ByteLength(self.0 - other.0)
    }
}

impl Mul<u64> for ByteLength {
    type Output = ByteLength;
    #[inline]
    fn mul(self, factor: u64) -> ByteLength {
        ByteLength(self.0 * factor)
    }
}

impl Sum for ByteLength {
    #[inline]
    fn sum<I: Iterator<Item = ByteLength>>(lengths: I) -> ByteLength {
        lengths.fold(ByteLength::ZERO, Add::add)
    }
}

impl fmt::Display for ByteLength {
    /// Shows the length in the largest binary unit that it reaches, as a whole number or with two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, name) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            let unit = 1u64 << shift;
            if self.0 >= unit {
                return if self.0.is_multiple_of(unit) {
                    write!(f, "{} {name}", self.0 / unit)
                } else {
                    write!(f, "{:.2} {name}", self.0 as f64 / unit as f64)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_print_the_unit_a_person_would_choose() {
        assert_eq!(ByteLength::new(512).to_string(), "512 B");
        assert_eq!((KIB * 4).to_string(), "4 KiB");
        assert_eq!(ByteLength::new(1536 * 1024).to_string(), "1.50 MiB");
        assert_eq!((GIB * 2048).to_string(), "2 TiB");
    }
}
