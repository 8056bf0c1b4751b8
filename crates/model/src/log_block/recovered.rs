//! Log blocks as they are found: by recovery after a power cut, and in a drive that is built used.

use super::{LogBlockSsd, OpenLog};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::recovery::FlashContents;
use crate::units::{BlockIndex, Instant, LogicalUnit};

impl<M: Mapping, D: Media> LogBlockSsd<M, D> {
    /// `block` is the latest random log block, of which `programs` program units are filled, or all.
    pub(crate) fn take_latest_log(&mut self, block: BlockIndex, programs: Option<u32>) {
        self.logs.push_back(block);
        if let Some(programs) = programs {
            let group = self.geometry().group_of(block);
            self.ssd.host.resume(group, block, programs);
            self.open_log = Some(OpenLog { block, programs });
        }
    }

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
