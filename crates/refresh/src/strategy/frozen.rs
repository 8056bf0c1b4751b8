//! Any other file system, and whole devices: what is read is written back to the same place, past
//! the page cache, while nobody else can write: the file system is frozen for some milliseconds at a
//! time, or the device is not mounted and opened for us alone.
//!
//! Blocks of zeros are left out: where the drive knows that nothing is there, writing zeros would
//! make it keep them as data.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::{Freezes, Left, Outcome, Strategy};
use crate::buffer::Buffer;
use crate::extents::{self, Content, Sync};
use crate::freeze::Freezer;
use crate::pace::Pace;
use crate::window::Span;
use crate::{DriveError, io};

/// The most that is read and written back at once.
const CHUNK_MAX: u64 = 1 << 20;

/// The least, and what is compared with zeros.
const CHUNK_MIN: u64 = 64 << 10;
const BLOCK: u64 = 4096;

/// Chunks by whose times the next one is judged.
const REMEMBERED: usize = 16;

/// How much longer than the longest of them a chunk may take.
const CAUTION: f64 = 1.5;

/// Freezes in a row in which there was no time for anything.
const IN_VAIN_MAX: u32 = 10;

/// Freezes in a row that lasted longer than allowed, after which it is given up: what was promised to
/// others cannot be kept here.
const TOO_LONG_MAX: u32 = 3;

/// Writes what it reads to the same place.
#[derive(Debug)]
pub struct Rewrite {
    /// The device, open for direct I/O, and for us alone where nothing is frozen.
    device: File,
    /// The file whose bytes are meant; of the device itself where there is none.
    file: Option<File>,
    freezer: Option<Freezer>,
    /// The longest that a freeze may last.
    max_freeze: Duration,
    buffer: Buffer,
    chunk: u64,
    /// Seconds that recent chunks took, and their bytes.
    recent: VecDeque<(f64, u64)>,
    too_long: u64,
}

/// Runs of blocks that hold something else than zeros.
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

impl Rewrite {
    /// Of a device that is open for us alone.
    pub fn alone(device: File) -> Rewrite {
        Rewrite::new(device, None, None, Duration::MAX)
    }

    /// Of a device, or of a file on it, with its file system frozen for at most `max_freeze`.
    pub fn frozen(
        device: File,
        file: Option<File>,
        freezer: Freezer,
        max_freeze: Duration,
    ) -> Rewrite {
        Rewrite::new(device, file, Some(freezer), max_freeze)
    }

    fn new(
        device: File,
        file: Option<File>,
        freezer: Option<Freezer>,
        max_freeze: Duration,
    ) -> Rewrite {
        Rewrite {
            device,
            file,
            freezer,
            max_freeze,
            buffer: Buffer::new(CHUNK_MAX as usize),
            chunk: CHUNK_MIN,
            recent: VecDeque::new(),
            too_long: 0,
        }
    }

    /// How long a chunk of so many bytes may take, by what recent ones took: a part that does not
    /// depend on the size cannot be told from these, so a small one may take as long as any.
    fn longest_expected(&self, bytes: u64) -> Duration {
        let longest = self
            .recent
            .iter()
            .map(|&(seconds, of)| seconds * (bytes as f64 / of as f64).max(1.0))
            .fold(0.0, f64::max);
        Duration::from_secs_f64(longest * CAUTION)
    }

    /// Reads and writes back a chunk of the device; returns the bytes written.
    fn rewrite_chunk(&mut self, on_device: Span) -> Result<u64, DriveError> {
        let start = Instant::now();
        let data = &mut self.buffer[..on_device.length as usize];
        let at = on_device.offset;
        self.device
            .read_exact_at(data, at)
            .map_err(|error| io(format!("cannot read byte {at} of the device"), error))?;
        let mut written = 0;
        for run in runs_with_data(data) {
            let part = &data[run.offset as usize..run.end() as usize];
            let at = at + run.offset;
            self.device
                .write_all_at(part, at)
                .map_err(|error| io(format!("cannot write byte {at} of the device"), error))?;
            written += run.length;
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((start.elapsed().as_secs_f64(), on_device.length));
        Ok(written)
    }

    /// Where a part of the file lies on the device; nothing where it is not all data there.
    fn on_device(&self, part: Span) -> Result<Option<Span>, DriveError> {
        let Some(file) = &self.file else { return Ok(Some(part)) };
        let found = extents::of(file, part, Sync::Not)
            .map_err(|error| io("cannot see where the data lies", error))?;
        let Some(extent) = found.first() else { return Ok(None) };
        let covered = extent.span.overlap(part);
        let fits = extent.content == Content::Data
            && covered.is_some_and(|it| it.offset == part.offset)
            && (extent.physical + part.offset - extent.span.offset).is_multiple_of(BLOCK);
        Ok(covered.filter(|_| fits).map(|covered| {
            Span::new(extent.physical + covered.offset - extent.span.offset, covered.length)
        }))
    }

    /// Goes on within a window from `at` as far as the time allows. Returns where it ended, what was
    /// written, and what stood in the way.
    fn go_on(
        &mut self,
        window: Span,
        mut at: u64,
        may_go_on: impl Fn(Duration) -> bool,
    ) -> Result<(u64, u64, Option<Left>), DriveError> {
        let mut written = 0;
        while at < window.end() {
            let part = Span::new(at, self.chunk.min(window.end() - at));
            if !may_go_on(self.longest_expected(part.length)) {
                break;
            }
            let Some(place) = self.on_device(part)? else {
                return Ok((part.end(), written, Some(Left::Changed)));
            };
            // Room behind the end of a file that is not whole blocks belongs to it as well.
            let length = place.length.next_multiple_of(BLOCK).min(CHUNK_MAX);
            written += self.rewrite_chunk(Span::new(place.offset, length))?.min(place.length);
            at += place.length;
            // As large as the time allows: in small pieces it would lie less well in the flash.
            let twice = (self.chunk * 2).min(CHUNK_MAX);
            if may_go_on(self.longest_expected(twice) * 4) {
                self.chunk = twice;
            }
        }
        Ok((at, written, None))
    }

    fn rewrite_alone(&mut self, window: Span, pace: &mut Pace) -> Result<Outcome, DriveError> {
        self.chunk = CHUNK_MAX;
        let (_, written, left) = self.go_on(window, window.offset, |_| true)?;
        pace.spend(written);
        Ok(Outcome { written, left })
    }

    fn rewrite_frozen(
        &mut self,
        freezer: &mut Freezer,
        window: Span,
        pace: &mut Pace,
    ) -> Result<Outcome, DriveError> {
        let mut sum = Outcome::default();
        let mut at = window.offset;
        let mut in_vain = 0;
        let mut too_long = 0;
        while at < window.end() {
            let max = self.max_freeze;
            let frozen = freezer.freeze()?;
            let since = Instant::now().checked_sub(frozen.elapsed()).unwrap_or_else(Instant::now);
            let outcome = self.go_on(window, at, |next| {
                let until_now = since.elapsed();
                !is_ended(until_now, next, max)
            });
            drop(frozen);
            let took = since.elapsed();
            let (ended, written, left) = outcome?;
            sum.written += written;
            sum.left = sum.left.or(left);
            in_vain = if ended > at { 0 } else { in_vain + 1 };
            at = ended;
            self.adapt(took);
            pace.spend(written);
            too_long = if took > max { too_long + 1 } else { 0 };
            if in_vain >= IN_VAIN_MAX || too_long >= TOO_LONG_MAX {
                sum.left = Some(Left::Freeze);
                break;
            }
            // Others get at least as much time as we took.
            std::thread::sleep(took.max(Duration::from_millis(1)) * (1 + in_vain));
        }
        Ok(sum)
    }

    /// The next chunk after a freeze that took so long.
    fn adapt(&mut self, took: Duration) {
        if took > self.max_freeze {
            self.too_long += 1;
            self.chunk = (self.chunk / 4).max(CHUNK_MIN);
        }
        if self.too_long > 0 && self.recent.len() == REMEMBERED {
            // One slow chunk must not keep everything from going on for ever.
            self.recent.pop_front();
        }
    }
}

/// Whether there is no time for a chunk that takes `next` any more.
fn is_ended(until_now: Duration, next: Duration, max: Duration) -> bool {
    until_now.saturating_add(next) > max
}

impl Strategy for Rewrite {
    fn name(&self) -> &'static str {
        match &self.freezer {
            Some(_) => "written back to where it lies, with the file system frozen for moments",
            None => "written back to where it lies, on a device that nobody else uses",
        }
    }

    fn rewrite(&mut self, window: Span, pace: &mut Pace) -> Result<Outcome, DriveError> {
        let outcome = match self.freezer.take() {
            Some(mut freezer) => {
                let outcome = self.rewrite_frozen(&mut freezer, window, pace);
                self.freezer = Some(freezer);
                outcome
            }
            None => self.rewrite_alone(window, pace),
        }?;
        rustix::fs::fdatasync(&self.device)
            .map_err(|error| io("cannot flush the device", error))?;
        Ok(outcome)
    }

    fn freezes(&self) -> Option<Freezes> {
        self.freezer.as_ref().map(|freezer| Freezes {
            count: freezer.count,
            longest: freezer.longest,
            too_long: self.too_long,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_device_of_our_own_is_rewritten_in_place_and_keeps_its_content() {
        let file = tempfile::tempfile().unwrap();
        let mut content = vec![7; 3 << 20];
        content[1 << 20..2 << 20].fill(0);
        file.write_all_at(&content, 0).unwrap();
        let mut rewrite = Rewrite::alone(file.try_clone().unwrap());
        let outcome = rewrite.rewrite(Span::new(0, 3 << 20), &mut Pace::new(None)).unwrap();
        assert_eq!(outcome, Outcome { written: 2 << 20, left: None });
        let mut found = vec![0; 3 << 20];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == content);
    }

    #[test]
    fn a_chunk_is_not_begun_when_the_freeze_could_get_too_long() {
        let max = Duration::from_millis(50);
        assert!(!is_ended(Duration::from_millis(20), Duration::from_millis(29), max));
        assert!(is_ended(Duration::from_millis(20), Duration::from_millis(31), max));
        let mut rewrite = Rewrite::alone(tempfile::tempfile().unwrap());
        rewrite.max_freeze = max;
        rewrite.recent.push_back((0.010, CHUNK_MAX));
        assert_eq!(rewrite.longest_expected(CHUNK_MIN), Duration::from_millis(15));
        assert_eq!(rewrite.longest_expected(2 * CHUNK_MAX), Duration::from_millis(30));
        rewrite.chunk = CHUNK_MAX;
        rewrite.adapt(Duration::from_millis(60));
        assert_eq!((rewrite.chunk, rewrite.too_long), (CHUNK_MAX / 4, 1));
        rewrite.adapt(Duration::from_millis(10));
        assert_eq!((rewrite.chunk, rewrite.too_long), (CHUNK_MAX / 4, 1));
    }
}
