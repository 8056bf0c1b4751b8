//! Addresses: sectors of the host, units of the map, and dies and blocks of the flash.
//!
//! Mapping units are counted in 32 bits: with 4 KiB units that is 16 TiB of flash, and it keeps entries of the map at
//! four bytes.

use std::ops::Add;

use crate::ByteLength;

/// Number of a logical sector of 512 bytes, by which hosts address a drive whatever its mapping unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Sector(pub u64);

impl Sector {
    /// Bytes in a sector.
    pub const SIZE: ByteLength = ByteLength::new(512);

    /// Returns the sector that begins `offset` bytes into the drive.
    ///
    /// # Panics
    /// Panics if the offset is not a whole number of sectors.
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
    /// Returns the number of sectors that `length` bytes fill.
    ///
    /// # Panics
    /// Panics if the length is not a whole number of sectors.
    #[inline]
    pub const fn of(length: ByteLength) -> SectorCount {
        assert!(length.is_multiple_of(Sector::SIZE), "lengths are whole sectors of 512 bytes");
        SectorCount(length.whole(Sector::SIZE))
    }

    /// Returns the length in bytes.
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

/// Number of a logical mapping unit: the host's address divided by the unit's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct LogicalUnit(pub u32);

/// Number of a physical mapping unit: collection unit times units per collection unit, plus the position in its write
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PhysicalUnit(pub u32);

/// Number of a collection unit: one superblock or one block, whichever the drive collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BlockIndex(pub u32);

/// Number of a die, counted over the whole drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DieIndex(pub u32);
