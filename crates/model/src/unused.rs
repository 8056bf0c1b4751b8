//! Flash that writes can still go to without a copy: erased blocks that nothing keeps free.
//!
//! A drive collects once its free blocks run short, and from then on keeps about as many as it has. What
//! is free beyond that was never written, or not since the flash was erased as a whole. Until the host
//! has filled it, write amplification is 1 however little spare area there is: the drive is far from a
//! steady state, and looks steady.

use crate::log_block::LogBlockSsd;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::ssd::Ssd;
use crate::units::ByteLength;

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns the erased flash beyond the blocks that collection keeps free.
    pub fn unused_flash(&self) -> ByteLength {
        let cache = self.slc.as_ref().map_or(0, |slc| slc.reserved());
        self.in_blocks(self.free.len().saturating_sub(self.collector.kept_free() + cache))
    }

    fn in_blocks(&self, blocks: u32) -> ByteLength {
        self.geometry.unit_size() * (u64::from(blocks) * u64::from(self.geometry.units_per_block()))
    }
}

impl<M: Mapping, D: Media> LogBlockSsd<M, D> {
    /// Returns the flash that was never written. Its merges free a block for each they take, so that as
    /// many stay free as its data leaves.
    pub fn unused_flash(&self) -> ByteLength {
        let ssd = self.as_ssd();
        ssd.in_blocks(ssd.free.never_used())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, LogicalUnit};

    #[test]
    fn flash_is_used_up_by_writes_to_one_place_and_is_there_again_after_a_secure_erase() {
        for changes in [&[][..], &[("collection.policy", "fifo")], &[("collection.unit", "block")]]
        {
            let mut ssd = Ssd::new(&small_configuration(changes)).expect("a sound drive");
            let block = ssd.in_blocks(1);
            let all = ssd.in_blocks(ssd.geometry().blocks());
            let new = ssd.unused_flash();
            assert!(new < all && new > all - block * 64, "{changes:?}: {new} of {all}");
            let mut at = Instant::START;
            // A fiftieth of the drive, written over and over: nothing is copied, and nothing is steady
            // until the last erased block was taken.
            let part = ssd.geometry().logical_units() / 50;
            let (mut written, units) = (0, ssd.geometry().physical_units());
            while written < units {
                at = ssd.write(at, LogicalUnit(0), part);
                written += part;
                let erases = ssd.counters().erases;
                let unused = ssd.unused_flash();
                assert!(
                    erases == 0 || unused == ByteLength::ZERO,
                    "{changes:?}: {unused}, {erases}"
                );
            }
            assert_eq!(ssd.unused_flash(), ByteLength::ZERO, "{changes:?}");
            let at = ssd.shut_down(at);
            ssd.secure_erase(at).expect("it can be erased");
            assert_eq!(ssd.unused_flash(), new, "{changes:?}: erased, it is as new");
        }
    }

    #[test]
    fn a_drive_of_log_blocks_has_used_its_flash_once_each_block_was_written() {
        let configuration =
            small_configuration(&[("mapping.scheme", "log-block"), ("mapping.log_blocks", "4")]);
        let mut drive = LogBlockSsd::new(&configuration).expect("a sound drive");
        let per_block = drive.geometry().units_per_block();
        assert_eq!(drive.unused_flash(), drive.as_ssd().in_blocks(drive.geometry().blocks()));
        let mut at = Instant::START;
        for _ in 0..2 * drive.geometry().blocks() {
            at = drive.write(at, LogicalUnit(0), per_block);
        }
        assert_eq!(drive.unused_flash(), ByteLength::ZERO);
    }
}
