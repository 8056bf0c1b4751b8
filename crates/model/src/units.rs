//! The quantities of the model, each its own type, so that a logical unit cannot be passed where
//! a physical one is meant and no duration loses its unit.
//!
//! Mapping units are counted in 32 bits: at 4 KiB a unit that is 16 TiB of flash, and it is what
//! keeps the map at four bytes an entry.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

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
    /// No bytes.
    pub const ZERO: ByteLength = ByteLength(0);

    /// A length of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        ByteLength(bytes)
    }

    /// The length as a number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The length in MiB (2^20 bytes).
    pub fn mebibytes(self) -> f64 {
        self.0 as f64 / MIB.0 as f64
    }

    /// The length in GiB (2^30 bytes).
    pub fn gibibytes(self) -> f64 {
        self.0 as f64 / GIB.0 as f64
    }

    /// How many whole `unit`s fit.
    ///
    /// # Panics
    /// When `unit` is zero.
    pub const fn whole(self, unit: ByteLength) -> u64 {
        self.0 / unit.0
    }

    /// How many `unit`s cover the length.
    ///
    /// # Panics
    /// When `unit` is zero.
    pub const fn covering(self, unit: ByteLength) -> u64 {
        self.0.div_ceil(unit.0)
    }

    /// Whether the length is a whole number of `unit`s.
    ///
    /// # Panics
    /// When `unit` is zero.
    pub const fn is_multiple_of(self, unit: ByteLength) -> bool {
        self.0.is_multiple_of(unit.0)
    }
}

impl Add for ByteLength {
    type Output = ByteLength;
    fn add(self, other: ByteLength) -> ByteLength {
        ByteLength(self.0 + other.0)
    }
}

impl AddAssign for ByteLength {
    fn add_assign(&mut self, other: ByteLength) {
        self.0 += other.0;
    }
}

impl Sub for ByteLength {
    type Output = ByteLength;
    fn sub(self, other: ByteLength) -> ByteLength {
        ByteLength(self.0 - other.0)
    }
}

impl Mul<u64> for ByteLength {
    type Output = ByteLength;
    fn mul(self, factor: u64) -> ByteLength {
        ByteLength(self.0 * factor)
    }
}

impl Sum for ByteLength {
    fn sum<I: Iterator<Item = ByteLength>>(lengths: I) -> ByteLength {
        lengths.fold(ByteLength::ZERO, Add::add)
    }
}

impl fmt::Display for ByteLength {
    /// The largest binary unit that divides the length, or two decimals of the largest below it.
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

/// A span of simulated or measured time, in whole nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanoseconds(u64);

impl Nanoseconds {
    /// No time at all.
    pub const ZERO: Nanoseconds = Nanoseconds(0);

    /// A span of `ns` nanoseconds.
    pub const fn new(ns: u64) -> Self {
        Nanoseconds(ns)
    }

    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Nanoseconds(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Nanoseconds(ms * 1_000_000)
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Nanoseconds(s * 1_000_000_000)
    }

    /// A span of `s` seconds, rounded to the nearest nanosecond; negative and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Nanoseconds((s * 1e9).round() as u64)
    }

    /// The span as a number of nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The span in microseconds.
    pub fn micros(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - other`, or nothing where `other` is longer.
    pub const fn saturating_sub(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0.saturating_sub(other.0))
    }
}

impl From<std::time::Duration> for Nanoseconds {
    /// What is longer than 584 years becomes the longest span there is.
    fn from(duration: std::time::Duration) -> Self {
        Nanoseconds(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanoseconds> for std::time::Duration {
    fn from(span: Nanoseconds) -> Self {
        std::time::Duration::from_nanos(span.0)
    }
}

impl Add for Nanoseconds {
    type Output = Nanoseconds;
    fn add(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0 + other.0)
    }
}

impl AddAssign for Nanoseconds {
    fn add_assign(&mut self, other: Nanoseconds) {
        self.0 += other.0;
    }
}

impl Sub for Nanoseconds {
    type Output = Nanoseconds;
    fn sub(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0 - other.0)
    }
}

impl SubAssign for Nanoseconds {
    fn sub_assign(&mut self, other: Nanoseconds) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Nanoseconds {
    type Output = Nanoseconds;
    fn mul(self, factor: u64) -> Nanoseconds {
        Nanoseconds(self.0 * factor)
    }
}

impl Div<u64> for Nanoseconds {
    type Output = Nanoseconds;
    fn div(self, divisor: u64) -> Nanoseconds {
        Nanoseconds(self.0 / divisor)
    }
}

impl Sum for Nanoseconds {
    fn sum<I: Iterator<Item = Nanoseconds>>(spans: I) -> Nanoseconds {
        spans.fold(Nanoseconds::ZERO, Add::add)
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} ms", self.0 as f64 / 1e6),
            _ => write!(f, "{:.2} s", self.0 as f64 / 1e9),
        }
    }
}

/// An instant of a drive's own time: nanoseconds since the drive was made or opened.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The instant at which a drive's time begins.
    pub const START: Instant = Instant(0);

    /// The instant `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Self {
        Instant(ns)
    }

    /// Nanoseconds since the start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The later of two instants, for the hot path: without a branch, because which of two
    /// times comes first is a coin toss there.
    #[inline(always)]
    pub(crate) fn later(self, other: Instant) -> Instant {
        std::hint::select_unpredictable(self > other, self, other)
    }

    /// The span from `earlier` to this instant.
    ///
    /// # Panics
    /// When `earlier` is later than this instant: time that runs backwards is a wrong number.
    #[inline(always)]
    pub fn since(self, earlier: Instant) -> Nanoseconds {
        let since = self.0.checked_sub(earlier.0);
        Nanoseconds(since.expect("an instant lies before the one it is measured from"))
    }
}

impl Add<Nanoseconds> for Instant {
    type Output = Instant;
    fn add(self, span: Nanoseconds) -> Instant {
        Instant(self.0 + span.0)
    }
}

impl AddAssign<Nanoseconds> for Instant {
    fn add_assign(&mut self, span: Nanoseconds) {
        self.0 += span.0;
    }
}

/// The number of a logical sector of 512 bytes: how hosts address a drive, whatever it maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Sector(pub u64);

impl Sector {
    /// Bytes in a sector.
    pub const SIZE: ByteLength = ByteLength(512);

    /// The sector that begins `offset` bytes into the drive.
    ///
    /// # Panics
    /// When the offset is not a whole number of sectors.
    pub const fn at(offset: ByteLength) -> Sector {
        Sector(SectorCount::of(offset).0)
    }
}

/// A number of sectors of 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SectorCount(pub u64);

impl SectorCount {
    /// The sectors that `length` bytes fill.
    ///
    /// # Panics
    /// When the length is not a whole number of sectors.
    pub const fn of(length: ByteLength) -> SectorCount {
        assert!(length.is_multiple_of(Sector::SIZE), "lengths are whole sectors of 512 bytes");
        SectorCount(length.whole(Sector::SIZE))
    }

    /// The length in bytes.
    pub const fn length(self) -> ByteLength {
        ByteLength(self.0 * Sector::SIZE.0)
    }
}

impl Add<SectorCount> for Sector {
    type Output = Sector;
    fn add(self, count: SectorCount) -> Sector {
        Sector(self.0 + count.0)
    }
}

/// The number of a logical mapping unit: what the host addresses, divided by the unit's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct LogicalUnit(pub u32);

/// The number of a physical mapping unit: collection unit times units per collection unit, plus
/// the place in its write order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PhysicalUnit(pub u32);

/// The number of a collection unit: one superblock or one block, whichever the drive collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BlockIndex(pub u32);

/// The number of a die, counted over the whole drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DieIndex(pub u32);

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

    #[test]
    fn durations_print_with_their_unit() {
        assert_eq!(Nanoseconds::new(7).to_string(), "7 ns");
        assert_eq!(Nanoseconds::from_micros(60).to_string(), "60.0 us");
        assert_eq!(Nanoseconds::from_millis(3).to_string(), "3.00 ms");
        assert_eq!(Nanoseconds::from_secs(90).to_string(), "90.00 s");
    }

    #[test]
    #[should_panic(expected = "before the one it is measured from")]
    fn time_cannot_run_backwards() {
        Instant::START.since(Instant::from_nanos(1));
    }
}
