//! Checkpoints: the map in RAM, saved to flash piece by piece.
//!
//! While `mapping.checkpoint` bytes are programmed, the whole map is programmed once to the metadata blocks, a flash
//! page at a time and in turn. So after a power cut no piece of the saved map is older than that. Recovery reads the
//! saved map, the first page of each block (which tells whether the block was written since), and the spare areas of
//! all program units since the oldest piece. With a map journal ([`crate::journal`]), it reads the journal pages
//! instead, and only the spare areas of program units after the last journal page.
//!
//! The result of recovery is the same with and without checkpoints: if a piece of the map names a copy that was
//! erased since, that unit has a newer copy or was trimmed, and both are newer than the piece. So the model always
//! reads all spare areas, and works out how many of them the drive would have had to read.
//!
//! No maker has published how often its drives do this, or in pieces of what size: that a drive with its map in RAM
//! saves it while it works is assumed, and the rate is each profile's.

use crate::geometry::Geometry;
use crate::mapping::MappingScheme;
use crate::mapping::extent::EXTENT_SIZE;
use crate::mechanisms::Mechanisms;
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::units::ByteLength;

/// Bytes of an entry of the map.
const ENTRY: ByteLength = ByteLength::new(4);

/// Parameters of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointParameters {
    /// Number of units programmed while the whole map is saved once; at least one.
    pub every_units: u64,
}

/// Returns the number of flash pages that the whole map takes.
pub fn map_pages(geometry: &Geometry, mechanisms: &Mechanisms) -> u64 {
    let bytes = match mechanisms.mapping {
        MappingScheme::Extent => EXTENT_SIZE * u64::from(mechanisms.extents.extents_max),
        _ => ENTRY * u64::from(geometry.logical_units()),
    };
    bytes.covering(geometry.parameters().page_size).max(1)
}

/// Returns the number of flash pages of a metadata collection unit.
pub fn pages_per_metadata_unit(geometry: &Geometry) -> u64 {
    let shape = geometry.parameters();
    u64::from(shape.planes_per_die)
        * u64::from(shape.pages_per_block)
        * u64::from(shape.dies_per_collection_unit)
}

/// Progress of checkpoints.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoints {
    every_units: u64,
    map_pages: u64,
    /// Accumulated pages to save, times `every_units`.
    accumulated: u64,
    /// Number of pages saved so far.
    saved: u64,
}

impl Checkpoints {
    pub(crate) fn new(
        geometry: &Geometry,
        mechanisms: &Mechanisms,
        parameters: CheckpointParameters,
    ) -> Checkpoints {
        assert!(parameters.every_units > 0, "something is programmed between two checkpoints");
        Checkpoints {
            every_units: parameters.every_units,
            map_pages: map_pages(geometry, mechanisms),
            accumulated: 0,
            saved: 0,
        }
    }

    /// Returns the number of pages of the map to save after `units` more units were programmed.
    pub(crate) fn due_pages(&mut self, units: u32) -> u64 {
        self.accumulated += u64::from(units) * self.map_pages;
        let pages = self.accumulated / self.every_units;
        self.accumulated %= self.every_units;
        self.saved += pages;
        pages
    }

    /// Sets the number of pages that were saved before a power cut.
    pub(crate) fn continue_from(&mut self, saved: u64) {
        self.saved = saved;
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        to.long(self.accumulated)?;
        Ok(to.long(self.saved)?)
    }

    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.accumulated = from.long()? % self.every_units;
        self.saved = from.long()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::profile::Profile;
    use crate::units::{Instant, LogicalUnit, Nanoseconds};

    /// Returns the configuration of a drive of 64 MiB with these changes.
    fn configuration(changes: &[(&str, &str)]) -> Result<crate::Configuration, String> {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        let small = [
            ("capacity.logical", "64M"),
            ("capacity.physical", "160M"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.pages_per_block", "6"),
            ("collection.metadata_units", "8"),
            ("read_ahead.window", "0"),
        ];
        for (key, value) in small.iter().chain(changes) {
            profile.set(key, value).map_err(|error| error.to_string())?;
        }
        profile.configuration().map_err(|error| error.to_string())
    }

    #[test]
    fn the_map_is_saved_once_while_so_much_is_programmed() {
        let saving = configuration(&[("mapping.checkpoint", "32M")]).unwrap();
        let mut ssd = Ssd::new(&saving).unwrap();
        // 16,384 entries of four bytes in pages of 16 KiB.
        assert_eq!(map_pages(&saving.geometry, &saving.mechanisms), 4);
        let mut at = Instant::START;
        for first in (0..16_384).step_by(64) {
            at = ssd.write(at, LogicalUnit(first), 64);
        }
        ssd.rest(at, Nanoseconds::from_secs(1));
        assert_eq!(ssd.counters().checkpoint_pages, 8, "64 MiB were written");
        ssd.check_invariants();
        let mut without = Ssd::new(&configuration(&[]).unwrap()).unwrap();
        without.write(Instant::START, LogicalUnit(0), 16_384);
        assert_eq!(without.counters().checkpoint_pages, 0);
    }

    #[test]
    fn a_map_that_cannot_be_saved_is_refused() {
        let refused = |changes: &[(&str, &str)]| configuration(changes).unwrap_err();
        let every = ("mapping.checkpoint", "16M");
        let few = refused(&[every, ("collection.metadata_units", "2")]);
        assert!(few.contains("set collection.metadata_units=4"), "{few}");
        let cached = [every, ("mapping.scheme", "cached"), ("mapping.cache", "1M")];
        assert!(refused(&cached).contains("keeps the map on flash"));
        assert!(refused(&[("mapping.checkpoint", "1K")]).contains("less than a unit"));
    }
}
