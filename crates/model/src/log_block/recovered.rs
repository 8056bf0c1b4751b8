//! Log blocks as they are found: by recovery after a power cut, and in a drive that is built used.

use super::{LogBlockSsd, OpenLog};
use crate::age::{AgeError, FilledBlocks, Past};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::recovery::FlashContents;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, Instant, LogicalUnit};

impl LogBlockSsd {
    /// A full drive after random writes of single units for a long time.
    ///
    /// # Errors
    /// When it was written otherwise, or there is no such drive.
    pub fn aged(configuration: &Configuration, past: Past) -> Result<Self, AgeError> {
        let mut drive = LogBlockSsd::new(configuration)?;
        let FilledBlocks { data, logs, open_programs, group } =
            drive.ssd.tables().age_log_blocks(configuration, past)?;
        drive.data = data.into_iter().map(Some).collect();
        drive.logs = logs.into();
        let open = drive.logs.back().copied().zip(open_programs);
        drive.open_log = open.map(|(block, programs)| OpenLog { block, programs });
        drive.group = group;
        Ok(drive)
    }
}

impl<M: Mapping, D: Media> LogBlockSsd<M, D> {
    /// After a power cut: `block` is a random log block, in the order of `precondition` among others.
    pub(crate) fn take_over_log<T: Ord>(
        &mut self,
        block: BlockIndex,
        age: impl Fn(BlockIndex) -> T,
    ) {
        let place = self.logs.partition_point(|&other| age(other) < age(block));
        self.logs.insert(place, block);
    }

    /// After a power cut: reclaims log blocks from `at` on until there are no more than the drive
    /// has. If it has no block to merge into, the units that are to be merged.
    pub(crate) fn reclaim_surplus_logs(&mut self, at: Instant) -> Result<(), u32> {
        let mut ready = at;
        self.is_recovering = true;
        while self.logs.len() as u32 > self.log_blocks {
            // Each logical block may need a data block of its own, and a merge one in between.
            let without = self.data.iter().filter(|block| block.is_none()).count();
            if self.ssd.free.len() as usize <= without {
                return Err(self.ssd.flash.valid(self.logs[0]));
            }
            ready = self.reclaim_oldest_log(ready);
        }
        self.is_recovering = false;
        Ok(())
    }

    /// After a power cut: writes again what capacitors saved of the buffer, from `at` on.
    pub(crate) fn restore_units(&mut self, at: Instant, saved: &[LogicalUnit])
    where
        D: FlashContents,
    {
        let mut ready = at;
        for (index, &unit) in saved.iter().enumerate() {
            if self.ssd.host.room() == 0 {
                ready = self.begin_log_program(ready);
            }
            ready = self.ssd.restore_to_open_program(ready, index, unit);
            if self.ssd.host.room() == 0 {
                self.send_log_program(ready, 0);
            }
        }
    }
}
