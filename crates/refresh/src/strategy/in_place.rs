//! Rewrite in place, for other file systems and whole devices: data is read and written back to the same
//! place with direct I/O while nobody else can write. Either the file system is frozen for some
//! milliseconds at a time, or the device is not mounted and opened exclusively.
//!
//! Blocks of zeros are left out: if they are unmapped on the drive, writing zeros would allocate them.

mod freeze_budget;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use self::freeze_budget::{CHUNK_MAX, FreezeBudget};
use super::{FreezeCounts, Outcome, SkipReason, Strategy};
use crate::buffer::Buffer;
use crate::extents::{self, Content, WriteBack};
use crate::freeze::Freezer;
use crate::overrun::OverrunGuard;
use crate::rate_limit::RateLimiter;
use crate::window::Span;
use crate::{DriveError, io};

/// Bytes of a block that is compared with zeros.
const BLOCK: u64 = 4096;

/// Number of freezes in a row, in which there was no time to rewrite anything, after which the rewrite
/// ends.
const EMPTY_FREEZES_MAX: u32 = 10;

/// Number of freezes in a row, longer than allowed, after which the rewrite ends: the limit cannot be
/// kept here.
const TOO_LONG_MAX: u32 = 3;

/// Share of the longest allowed freeze that freezing alone may take; above it the machine is too busy.
const FREEZE_TIME_SHARE: f64 = 0.5;

/// Pause after a freeze that was too long: its cause, such as a disk that stalls, is often over then. The
/// pause doubles with each further one in a row.
const RECOVERY_PAUSE: Duration = Duration::from_millis(500);

/// Share of the longest allowed freeze. If the kernel took longer than that to freeze the last time, the
/// time to freeze is estimated anew, grace periods included, before the next freeze.
const SLOW_TO_FREEZE: f64 = 0.25;

/// Longest wait for a machine that is too busy, and longest pause between two freezes.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Rewrites data in place.
#[derive(Debug)]
pub struct InPlaceRewrite {
    /// The device, open for direct I/O; exclusively unless its file system is frozen.
    device: File,
    /// The file to rewrite; `None` for the device itself.
    file: Option<File>,
    freezer: Option<Freezer>,
    buffer: Buffer,
    budget: FreezeBudget,
}

/// Returns the pause after a freeze of this length: at least as long as the freeze, and longer after
/// several in a row that did nothing or were too long. The pause is limited, so that a drive that hung
/// for an hour does not delay the refresh for another hour.
fn pause_after(freeze: Duration, empty_freezes: u32, too_long: u32) -> Duration {
    let pause = freeze.max(Duration::from_millis(1)).saturating_mul(1 + empty_freezes);
    let pause = match too_long {
        0 => pause,
        _ => pause.max(RECOVERY_PAUSE * (1 << (too_long - 1).min(8))),
    };
    pause.min(WAIT_MAX)
}

/// Returns the runs of blocks that are not all zeros.
fn runs_with_data(data: &[u8]) -> Vec<Span> {
    let mut runs: Vec<Span> = Vec::new();
    for (at, block) in (0..).step_by(BLOCK as usize).zip(data.chunks(BLOCK as usize)) {
        if block.iter().all(|&byte| byte == 0) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end() == at => last.length += block.len() as u64,
            _ => runs.push(Span::new(at, block.len() as u64)),
        }
    }
    runs
}

impl InPlaceRewrite {
    /// Rewrites a device that is open exclusively.
    pub fn exclusive(device: File) -> InPlaceRewrite {
        InPlaceRewrite::new(device, None, None, Duration::MAX)
    }

    /// Rewrites a device, or a file on it, with the file system frozen for at most `max_freeze` at a
    /// time.
    pub fn frozen(
        device: File,
        file: Option<File>,
        freezer: Freezer,
        max_freeze: Duration,
    ) -> InPlaceRewrite {
        InPlaceRewrite::new(device, file, Some(freezer), max_freeze)
    }

    fn new(
        device: File,
        file: Option<File>,
        freezer: Option<Freezer>,
        max_freeze: Duration,
    ) -> InPlaceRewrite {
        InPlaceRewrite {
            device,
            file,
            freezer,
            buffer: Buffer::new(CHUNK_MAX as usize),
            budget: FreezeBudget::new(max_freeze),
        }
    }

    /// Reads and writes back a chunk of the device. The file system has been frozen since `since`.
    /// Returns the bytes written; `None` if reading took all the time that is allowed: the chunk is not
    /// written then, because others have waited long enough.
    fn rewrite_chunk(
        &mut self,
        on_device: Span,
        since: Option<Instant>,
    ) -> Result<Option<u64>, DriveError> {
        let start = Instant::now();
        let data = &mut self.buffer[..on_device.length as usize];
        let at = on_device.offset;
        self.device
            .read_exact_at(data, at)
            .map_err(|error| io(format!("cannot read byte {at} of the device"), error))?;
        if since.is_some_and(|since| since.elapsed() > self.budget.max()) {
            self.budget.record_chunk(start.elapsed(), on_device.length);
            return Ok(None);
        }
        let mut written = 0;
        for run in runs_with_data(data) {
            let part = &data[run.offset as usize..run.end() as usize];
            let at = at + run.offset;
            self.device
                .write_all_at(part, at)
                .map_err(|error| io(format!("cannot write byte {at} of the device"), error))?;
            written += run.length;
        }
        self.budget.record_chunk(start.elapsed(), on_device.length);
        Ok(Some(written))
    }

    /// Returns the place of a part of the file on the device, from its beginning as far as it is
    /// contiguous; `None` if it does not begin with data there.
    fn on_device(&self, part: Span) -> Result<Option<Span>, DriveError> {
        let Some(file) = &self.file else { return Ok(Some(part)) };
        let found = extents::of(file, part, WriteBack::Skip)
            .map_err(|error| io("cannot read the extents of the data", error))?;
        let Some(extent) = found.first() else { return Ok(None) };
        let covered = extent.span.overlap(part);
        let fits = extent.content == Content::Data
            && covered.is_some_and(|it| it.offset == part.offset)
            && (extent.physical + part.offset - extent.span.offset).is_multiple_of(BLOCK);
        Ok(covered.filter(|_| fits).map(|covered| {
            Span::new(extent.physical + covered.offset - extent.span.offset, covered.length)
        }))
    }

    /// Rewrites a window from `at` on, as far as the time since `since` allows, or to its end if that is
    /// `None`. Returns the offset reached, the bytes written, and the reason if data was left.
    fn rewrite_part(
        &mut self,
        window: Span,
        mut at: u64,
        since: Option<Instant>,
    ) -> Result<(u64, u64, Option<SkipReason>), DriveError> {
        let (begin, mut written) = (at, 0);
        while at < window.end() {
            let chunk = since.map_or(CHUNK_MAX, |_| self.budget.chunk());
            let part = Span::new(at, chunk.min(window.end() - at));
            if let Some(since) = since
                && !self.budget.allows(since.elapsed(), part.length, at == begin)
            {
                break;
            }
            let Some(place) = self.on_device(part)? else {
                return Ok((part.end(), written, Some(SkipReason::Changed)));
            };
            // The rest of the last block of a file belongs to the file as well.
            let length = place.length.next_multiple_of(BLOCK).min(CHUNK_MAX);
            let Some(chunk) = self.rewrite_chunk(Span::new(place.offset, length), since)? else {
                break;
            };
            written += chunk.min(place.length);
            at += place.length;
            if let Some(since) = since {
                self.budget.grow(since.elapsed());
            }
        }
        Ok((at, written, None))
    }

    fn rewrite_exclusive(
        &mut self,
        window: Span,
        limiter: &mut RateLimiter,
        overrun_guard: &mut OverrunGuard,
    ) -> Result<Outcome, DriveError> {
        let mut sum = Outcome::default();
        for piece in window.chunks(CHUNK_MAX) {
            let (_, written, skipped) = self.rewrite_part(piece, piece.offset, None)?;
            sum.written += written;
            sum.skipped = sum.skipped.or(skipped);
            limiter.throttle(piece.length + written);
            overrun_guard.advance(piece.length);
        }
        Ok(sum)
    }

    fn rewrite_frozen(
        &mut self,
        freezer: &mut Freezer,
        window: Span,
        limiter: &mut RateLimiter,
        overrun_guard: &mut OverrunGuard,
    ) -> Result<Outcome, DriveError> {
        let mut sum = Outcome::default();
        let mut at = window.offset;
        let (mut empty_freezes, mut too_long) = (0, 0);
        while at < window.end() {
            if overrun_guard.is_overrun() {
                sum.skipped = Some(SkipReason::Overrun);
                break;
            }
            if !self.wait_until_freeze_is_short(freezer)? {
                sum.skipped = Some(SkipReason::Freeze);
                break;
            }
            let frozen = freezer.freeze()?;
            let outcome = self.rewrite_part(window, at, Some(frozen.since()));
            drop(frozen);
            let times = freezer.last;
            let is_too_long = self.budget.record_freeze(times);
            let (ended, written, skipped) = outcome?;
            sum.written += written;
            sum.skipped = sum.skipped.or(skipped);
            empty_freezes = if ended > at { 0 } else { empty_freezes + 1 };
            limiter.throttle(ended - at + written);
            overrun_guard.advance(ended - at);
            at = ended;
            too_long = if is_too_long { too_long + 1 } else { 0 };
            if empty_freezes >= EMPTY_FREEZES_MAX || too_long >= TOO_LONG_MAX {
                sum.skipped = Some(SkipReason::Freeze);
                break;
            }
            std::thread::sleep(pause_after(times.total, empty_freezes, too_long));
        }
        Ok(sum)
    }

    /// Waits until a freeze is expected to be short enough. Returns false if that takes too long.
    fn wait_until_freeze_is_short(&self, freezer: &Freezer) -> Result<bool, DriveError> {
        let since = Instant::now();
        let mut pause = Duration::from_millis(5);
        // Between freezes that were short enough, the next one will be short as well.
        let max = self.budget.max();
        let is_slow = freezer.last.freezing > max.mul_f64(SLOW_TO_FREEZE);
        let is_first = freezer.count == 0 || freezer.last.total > max || is_slow;
        while freezer.estimate_freeze_time(is_first)? > max.mul_f64(FREEZE_TIME_SHARE) {
            if since.elapsed() > WAIT_MAX {
                return Ok(false);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
        Ok(true)
    }
}

impl Strategy for InPlaceRewrite {
    fn rewrite(
        &mut self,
        window: Span,
        limiter: &mut RateLimiter,
        overrun_guard: &mut OverrunGuard,
    ) -> Result<Outcome, DriveError> {
        let outcome = match self.freezer.take() {
            Some(mut freezer) => {
                let outcome = self.rewrite_frozen(&mut freezer, window, limiter, overrun_guard);
                self.freezer = Some(freezer);
                outcome
            }
            None => self.rewrite_exclusive(window, limiter, overrun_guard),
        }?;
        rustix::fs::fdatasync(&self.device)
            .map_err(|error| io("cannot flush the device", error))?;
        Ok(outcome)
    }

    fn freezes(&self) -> Option<FreezeCounts> {
        self.freezer.as_ref().map(|freezer| FreezeCounts {
            count: freezer.count,
            allowed: self.budget.max(),
            longest: freezer.longest,
            too_long: self.budget.too_long,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_get_as_much_time_as_a_freeze_took_but_never_more_than_ten_seconds() {
        let of = Duration::from_millis;
        assert_eq!(pause_after(of(30), 0, 0), of(30));
        assert_eq!(pause_after(of(30), 2, 0), of(90));
        assert_eq!(pause_after(Duration::ZERO, 0, 0), of(1));
        assert_eq!(pause_after(of(60), 0, 1), of(500));
        assert_eq!(pause_after(of(60), 0, 2), of(1_000));
        let most = Duration::from_secs(10);
        for (empty_freezes, too_long) in [(0, 0), (0, 1), (9, 3), (9, 100)] {
            assert_eq!(pause_after(of(600_000), empty_freezes, too_long), most);
        }
        assert_eq!(pause_after(Duration::MAX, 9, 0), most);
    }

    fn endless() -> OverrunGuard {
        OverrunGuard::new(3 << 20, Duration::MAX)
    }

    #[test]
    fn zeros_are_not_written() {
        let mut data = vec![0; 5 * 4096];
        data[4096] = 1;
        data[3 * 4096 - 1] = 1;
        data[5 * 4096 - 1] = 1;
        assert_eq!(runs_with_data(&data), [Span::new(4096, 8192), Span::new(4 * 4096, 4096)]);
        assert!(runs_with_data(&[0; 8192]).is_empty());
    }

    #[test]
    fn where_reading_took_all_the_time_nothing_is_written_in_addition() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        let max = Duration::from_millis(5);
        let mut rewrite = InPlaceRewrite::new(file, None, None, max);
        let chunk = Span::new(0, 8192);
        let long_ago = Instant::now().checked_sub(max * 2).unwrap();
        assert_eq!(rewrite.rewrite_chunk(chunk, Some(long_ago)).unwrap(), None);
        assert_eq!(rewrite.rewrite_chunk(chunk, None).unwrap(), Some(8192));
    }

    #[test]
    fn what_is_read_and_what_is_written_counts_together() {
        let file = tempfile::tempfile().unwrap();
        let mut content = vec![7; 3 << 20];
        content[..1 << 20].fill(0);
        file.write_all_at(&content, 0).unwrap();
        let mut rewrite = InPlaceRewrite::exclusive(file);
        let rate = ssdlab_units::ByteLength::new(10 << 20);
        let start = Instant::now();
        let window = Span::new(0, 3 << 20);
        rewrite.rewrite(window, &mut RateLimiter::new(Some(rate)), &mut endless()).unwrap();
        // Three MiB are read, two are written.
        assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
    }

    #[test]
    fn a_device_of_our_own_is_rewritten_in_place_and_keeps_its_content() {
        let file = tempfile::tempfile().unwrap();
        let mut content = vec![7; 3 << 20];
        content[1 << 20..2 << 20].fill(0);
        file.write_all_at(&content, 0).unwrap();
        let mut rewrite = InPlaceRewrite::exclusive(file.try_clone().unwrap());
        let outcome = rewrite
            .rewrite(Span::new(0, 3 << 20), &mut RateLimiter::new(None), &mut endless())
            .unwrap();
        assert_eq!(outcome, Outcome { written: 2 << 20, skipped: None });
        let mut found = vec![0; 3 << 20];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == content);
    }
}
