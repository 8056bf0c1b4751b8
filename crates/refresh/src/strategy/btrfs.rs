//! Rewrite on btrfs: the file system reads a range and writes it to a new place, under its own locks
//! (BTRFS_IOC_DEFRAG_RANGE). With the flag for no compression it also rewrites extents that could not be
//! merged with others.

use std::fs::File;

use rustix::io::Errno;

use super::{Outcome, SkipReason, Strategy};
use crate::extents::{self, Extent, WriteBack};
use crate::overrun::OverrunGuard;
use crate::rate_limit::RateLimiter;
use crate::window::Span;
use crate::{DriveError, io, system, unsupported};

/// Has btrfs rewrite ranges.
#[derive(Debug)]
pub struct Defragment {
    file: File,
    /// True if shared extents may be rewritten, after which they are shared no more.
    may_unshare: bool,
}

impl Defragment {
    /// Rewrites `file`, which was opened for reading and writing. `may_unshare` allows to rewrite extents
    /// that snapshots or copies share.
    pub fn new(file: File, may_unshare: bool) -> Defragment {
        Defragment { file, may_unshare }
    }

    fn extents(&self, window: Span) -> Result<Vec<Extent>, DriveError> {
        extents::of(&self.file, window, WriteBack::First)
            .map_err(|error| io("cannot read the extents of the data", error))
    }
}

/// Returns the bytes of a window that lie elsewhere than before.
fn bytes_moved(before: &[Extent], after: &[Extent], window: Span) -> u64 {
    let place = |extent: &Extent, at: u64| extent.physical.wrapping_add(at - extent.span.offset);
    let mut moved = 0;
    for now in after {
        let Some(now_span) = now.span.overlap(window) else { continue };
        let same: u64 = before
            .iter()
            .filter_map(|then| Some((then, then.span.overlap(now_span)?)))
            .filter(|(then, both)| place(then, both.offset) == place(now, both.offset))
            .map(|(_, both)| both.length)
            .sum();
        moved += now_span.length - same;
    }
    moved
}

impl Strategy for Defragment {
    fn rewrite(
        &mut self,
        window: Span,
        limiter: &mut RateLimiter,
        overrun_guard: &mut OverrunGuard,
    ) -> Result<Outcome, DriveError> {
        let before = self.extents(window)?;
        // A snapshot may have been made since the survey.
        if !self.may_unshare && before.iter().any(|it| it.is_shared) {
            return Ok(Outcome { written: 0, skipped: Some(SkipReason::Shared) });
        }
        match system::defragment(&self.file, window.offset, window.length) {
            Ok(()) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOSPC | Errno::DQUOT) => {
                    return Ok(Outcome { written: 0, skipped: Some(SkipReason::NoRoom) });
                }
                Some(Errno::AGAIN | Errno::BUSY | Errno::INTR) => {
                    return Ok(Outcome { written: 0, skipped: Some(SkipReason::Busy) });
                }
                Some(Errno::OPNOTSUPP | Errno::INVAL) => {
                    return Err(unsupported(
                        "this btrfs cannot rewrite a range without compression (Linux 6.16 can)",
                    ));
                }
                Some(Errno::PERM | Errno::ACCESS) => {
                    return Err(unsupported("btrfs rewrites a file only for its owner or root"));
                }
                _ => return Err(io("cannot have btrfs rewrite the data", error)),
            },
        }
        rustix::fs::fdatasync(&self.file).map_err(|error| io("cannot write back", error))?;
        let written = bytes_moved(&before, &self.extents(window)?, window);
        overrun_guard.advance(window.length);
        // Each byte is read as well.
        limiter.throttle(written * 2);
        let skipped = (written < window.length).then_some(SkipReason::NotMoved);
        Ok(Outcome { written, skipped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::Content;

    fn extent(offset: u64, length: u64, physical: u64) -> Extent {
        let span = Span::new(offset, length);
        Extent { span, physical, content: Content::Data, is_shared: false }
    }

    #[test]
    fn what_lies_elsewhere_is_counted_byte_by_byte() {
        let before = [extent(0, 100, 1000), extent(100, 100, 5000)];
        let after = [extent(0, 50, 1000), extent(50, 100, 9000), extent(150, 50, 5050)];
        assert_eq!(bytes_moved(&before, &after, Span::new(0, 200)), 100);
        assert_eq!(bytes_moved(&before, &after, Span::new(0, 60)), 10);
        assert_eq!(bytes_moved(&before, &before, Span::new(0, 200)), 0);
    }
}
