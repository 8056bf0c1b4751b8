//! Addresses: what the host counts in sectors, the map in units, and the flash in dies and blocks.
//!
//! Mapping units are counted in 32 bits: at 4 KiB a unit that is 16 TiB of flash, and it is what
//! keeps the map at four bytes an entry.

use std::ops::Add;

use crate::ByteLength;

/// The number of a logical sector of 512 bytes: how hosts address a drive, whatever it maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Sector(pub u64);

impl Sector {
    /// Bytes in a sector.
    pub const SIZE: ByteLength = ByteLength::new(512);

    /// The sector that begins `offset` bytes into the drive.
    ///
    /// # Panics
    /// When the offset is not a whole number of sectors.
    #[inline]
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
    #[inline]
    pub const fn of(length: ByteLength) -> SectorCount {
        assert!(length.is_multiple_of(Sector::SIZE), "lengths are whole sectors of 512 bytes");
        SectorCount(length.whole(Sector::SIZE))
    }

    /// The length in bytes.
    #[inline]
    pub const fn length(self) -> ByteLength {
        ByteLength::new(self.0 * Sector::SIZE.bytes())
    }
}

impl Add<SectorCount> for Sector {
    type Output = Sector;
    #[inline]
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
