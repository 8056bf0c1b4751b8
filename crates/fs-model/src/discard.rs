//! Trim of free blocks: after a transaction has committed (`discard`), or of all free space (`fstrim`).

use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::{ByteLength, Instant};

use super::FileSystem;
use super::layout::{BLOCK, Extent, GROUP_BLOCKS};

/// Merges neighbouring freed extents, as ext4 does within a group.
pub(super) fn merge_extents(mut freed: Vec<Extent>) -> Vec<Extent> {
    freed.sort_unstable();
    let mut merged: Vec<Extent> = Vec::new();
    for extent in freed {
        match merged.last_mut() {
            Some(last)
                if last.end() == extent.first && !extent.first.is_multiple_of(GROUP_BLOCKS) =>
            {
                last.count += extent.count;
            }
            _ => merged.push(extent),
        }
    }
    merged
}

impl FileSystem<'_> {
    /// Makes the blocks that a committed transaction has freed available again. With `discard` they are
    /// trimmed first, one extent after the other. Returns the moment at which that is done.
    pub(super) fn free_and_trim(
        &mut self,
        at: Instant,
        freed: &[Extent],
    ) -> Result<Instant, DriveError> {
        // A mount on a drive that takes no trim warns, and sends no trims.
        let trims = self.options.discard && self.queue.drive().passes_trim();
        let mut at = at;
        for &extent in freed {
            if trims {
                at = self.queue.trim(at, extent)?;
            }
            self.allocator.free(extent, trims);
        }
        Ok(at)
    }

    /// Trims the free space of every group in which blocks were freed since it was last trimmed. Returns
    /// the number of bytes trimmed. Runs shorter than `least` are left out.
    ///
    /// # Errors
    /// Returns an error if trim does not reach a drive.
    pub fn fstrim(&mut self, least: ByteLength) -> Result<ByteLength, DriveError> {
        if !self.queue.drive().passes_trim() {
            let message = "the discard operation is not supported: trim does not reach the drive";
            return Err(DriveError::new(ErrorKind::Unsupported, message));
        }
        let runs = self.allocator.take_untrimmed(least.covering(BLOCK).max(1));
        let mut trimmed = ByteLength::ZERO;
        for run in runs {
            let end = self.queue.trim(self.now, run)?;
            self.run_background_until(end)?;
            trimmed += BLOCK * run.count;
        }
        Ok(trimmed)
    }
}
