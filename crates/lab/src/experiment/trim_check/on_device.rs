//! The check on a real drive: the file's sectors are read from the underlying block device.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ssdlab_blockdev::block_map::{
    MappedExtent, discarded, file_extents, free_space, trim_free_space,
};
use ssdlab_blockdev::place::Place;
use ssdlab_drive::{DriveError, ErrorKind, Region};
use ssdlab_units::ByteLength;

use super::super::phase_runner::PhaseRunner;
use super::super::temporary_directory::{TemporaryDirectory, io_error};
use super::blocks::{BLOCK, Content, fill};
use super::{Contents, JUST_TRIMMED, LayerTrim, Observations, Protocol, Verdict};
use crate::error::LabError;

/// File systems whose extents are addresses on their block device.
const SUPPORTED_FILE_SYSTEMS: [&str; 5] = ["ext4", "ext3", "ext2", "xfs", "f2fs"];

/// Length of reads from the block device.
const READ_LENGTH: usize = 1 << 20;

/// Minimum share of blocks with the same content for the content to count: a few blocks at the edges may lie
/// in a granule of the drive that is not wholly free.
const SAME_CONTENT_SHARE: f64 = 0.95;

/// Maximum time until the file's blocks are free; other files may have taken them.
const MAX_WAIT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Protocol {
    pub(super) fn measure_real(
        &self,
        directory: &Path,
        runner: &mut PhaseRunner,
        observed: &mut Observations,
    ) -> Result<(), LabError> {
        let place = Place::of(directory)?;
        if !SUPPORTED_FILE_SYSTEMS.contains(&place.file_system()) {
            return Err(LabError::Unsupported(format!(
                "{}: {} does not say where on the block device a file lies; this check works on {}",
                directory.display(),
                place.file_system(),
                SUPPORTED_FILE_SYSTEMS.join(", ")
            )));
        }
        for layer in place.layers() {
            observed.layers.push(LayerTrim {
                name: layer.words(),
                discard_max: layer.discard_max,
                takes_trim: layer.discard_max.map(|most| most > 0),
            });
        }
        let device = open_device(&place.device())?;
        runner.begin_step("writing, and reading where it lies", 0.1);
        let own = TemporaryDirectory::create(directory)?;
        let path = own.path().join("data");
        self.write(&path)?;
        own.sync()?;
        let file = File::open(&path).map_err(|error| io_error("cannot read it".into(), error))?;
        let mapped = file_extents(&file).map_err(|error| {
            io_error("the file system does not say where the file lies".to_owned(), error)
        })?;
        drop(file);
        let placed = whole_blocks(&mapped);
        let mut buffer = AlignedBuffer::new();
        let before = self.read_blocks(&device, &placed, &mut buffer, &[])?;
        observed.moments.push(("written", before.contents));
        runner.tally.bytes += self.size * 2;
        if before.contents.counted() == 0 || before.contents.old < before.contents.counted() {
            return Err(LabError::Unsupported(format!(
                "{}: {} of {} blocks of the file are not found where the file system says they \
                 are, on {}: it may encrypt or compress them",
                directory.display(),
                self.size.whole(ByteLength::new(BLOCK as u64)) - before.contents.old,
                self.size.whole(ByteLength::new(BLOCK as u64)),
                place.device().display()
            )));
        }
        fs::remove_file(&path).map_err(|error| io_error("cannot delete the file".into(), error))?;
        own.sync()?;
        let top = File::open(own.path())
            .map_err(|error| io_error("cannot open the directory".to_owned(), error))?;
        let span = bounding_region(&placed);
        let free_now = || free_space(&top, span).ok();
        let wait_until_free = || wait_until_free(&placed, free_now, || own.sync(), MAX_WAIT);
        let trims_by_itself = place.has_option("discard");
        // Blocks that are not free yet are not trimmed and do not count later. A mount with `discard` trims
        // blocks when they become free.
        let asked_for = wait_until_free()?.filter(|_| !trims_by_itself);
        let discarded_before = discarded(&device);
        let refused = match (trims_by_itself, trim_free_space(&top, span)) {
            (_, Ok(trimmed)) => {
                wait_until_discarded(&device, discarded_before, trimmed);
                observed.trimmed = Some(trimmed);
                None
            }
            // A mount with `discard` needs no fstrim.
            (true, Err(_)) => None,
            (false, Err(error)) => Some(error),
        };
        if let Some(error) = &refused
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            let why = match rustix::process::geteuid().is_root() {
                false => "fstrim takes root; run it with sudo",
                true => {
                    "not even root can trim it on this system, as in a container; run it outside \
                     of the container"
                }
            };
            let message = format!("{}: {why}", directory.display());
            return Err(LabError::Unsupported(message));
        }
        // While a file system trims blocks, it marks them as used.
        let free = wait_until_free()?;
        let seen_now = |free: &Option<Vec<Region>>, buffer: &mut AlignedBuffer| {
            self.read_blocks(&device, &placed, buffer, &[asked_for.as_deref(), free.as_deref()])
        };
        let at_once = seen_now(&free, &mut buffer)?;
        observed.moments.push((JUST_TRIMMED, at_once.contents));
        runner.tally.bytes += self.size;
        runner.rest(self.wait, 0.8)?;
        runner.begin_step("reading again", 0.1);
        let free = wait_until_free()?;
        let first = seen_now(&free, &mut buffer)?;
        // The free space is read again to find blocks that were allocated during the read.
        let mut second = seen_now(&free_now(), &mut buffer)?;
        second.contents.changed =
            first.each.iter().zip(&second.each).filter(|(one, two)| differ(**one, **two)).count()
                as u64;
        runner.tally.bytes += self.size * 2;
        observed.moments.push(("trimmed", second.contents));
        // A mount with `discard` may trim later than the check.
        let trims_later = place.options().iter().any(|it| it.starts_with("discard"));
        let at_once = (refused.is_none() && !trims_later).then_some(&at_once);
        let returned = at_once.is_some_and(|it| it.returned_old_data(&second));
        observed.verdict = Some(judge(&second.contents, returned, &place, refused));
        drop(top);
        own.remove()
    }

    fn write(&self, path: &Path) -> Result<(), LabError> {
        let what = || format!("cannot write {}", path.display());
        let written = (|| {
            let mut file = File::create_new(path)?;
            let mut buffer = vec![0; READ_LENGTH];
            let (blocks, per_read) =
                (self.size.bytes() / BLOCK as u64, (READ_LENGTH / BLOCK) as u64);
            for first in (0..blocks).step_by(per_read as usize) {
                let count = per_read.min(blocks - first);
                for (index, block) in (first..first + count).zip(buffer.chunks_exact_mut(BLOCK)) {
                    fill(block, self.seed, index);
                }
                io::Write::write_all(&mut file, &buffer[..count as usize * BLOCK])?;
            }
            file.sync_all()
        })();
        written.map_err(|error| io_error(what(), error))
    }

    /// Reads the blocks at their former places. Blocks that are not within each of `free` do not count; a
    /// `None` in `free` means that the free space is unknown and excludes no block.
    fn read_blocks(
        &self,
        device: &File,
        placed: &[MappedExtent],
        buffer: &mut AlignedBuffer,
        free: &[Option<&[Region]>],
    ) -> Result<BlockReads, LabError> {
        let mut reads = BlockReads::default();
        let mut old = [0; BLOCK];
        for run in placed {
            let length = run.on_device.length.bytes();
            for from in (0..length).step_by(READ_LENGTH) {
                let count = (length - from).min(READ_LENGTH as u64) as usize;
                let bytes = &mut buffer.bytes()[..count];
                read_at(device, bytes, run.on_device.offset.bytes() + from)?;
                for (number, block) in (0..).zip(bytes.chunks_exact(BLOCK)) {
                    let at = from + number * BLOCK as u64;
                    let on_device = run.on_device.offset.bytes() + at;
                    if free.iter().flatten().any(|free| !is_free_block(free, on_device)) {
                        reads.contents.taken += 1;
                        reads.each.push(None);
                        continue;
                    }
                    fill(&mut old, self.seed, (run.in_file.bytes() + at) / BLOCK as u64);
                    let content = Content::of(block, &old);
                    reads.contents.count(content, 1);
                    // A checksum is enough to detect changes.
                    let sum = block.iter().fold(0u64, |sum, &byte| {
                        sum.rotate_left(5).wrapping_mul(31) ^ u64::from(byte)
                    });
                    reads.each.push(Some((content, sum)));
                }
            }
        }
        Ok(reads)
    }
}

/// Result of one read of all blocks.
#[derive(Default)]
struct BlockReads {
    contents: Contents,
    /// Content and checksum of each block, in order; `None` for a block that does not count.
    each: Vec<Option<(Content, u64)>>,
}

impl BlockReads {
    /// Returns true if more than a few blocks have the old data here and something else in `later`.
    fn returned_old_data(&self, later: &BlockReads) -> bool {
        let old = |block: &Option<(Content, u64)>| block.is_some_and(|it| it.0 == Content::Old);
        let pairs = || self.each.iter().zip(&later.each);
        let counted = pairs().filter(|(one, two)| one.is_some() && two.is_some()).count();
        let lost = pairs().filter(|(one, two)| old(one) && two.is_some() && !old(two)).count();
        lost as f64 > counted as f64 * (1.0 - SAME_CONTENT_SHARE)
    }
}

/// Returns true if a block that counted in both reads has changed.
fn differ(one: Option<(Content, u64)>, two: Option<(Content, u64)>) -> bool {
    one.zip(two).is_some_and(|(one, two)| one != two)
}

fn is_free_block(free: &[Region], block: u64) -> bool {
    free.iter().any(|region| {
        region.offset.bytes() <= block && block + BLOCK as u64 <= region.end().bytes()
    })
}

/// Returns the free space when all blocks of the deleted file are free, or when `patience` has passed; `None`
/// if the free space is unknown.
///
/// A file system that has made a deletion durable may not have freed the blocks yet: ext4 frees them after
/// the commit, xfs in the background. Also, ext4 marks blocks as used while it trims them.
fn wait_until_free(
    placed: &[MappedExtent],
    mut ask: impl FnMut() -> Option<Vec<Region>>,
    mut sync: impl FnMut() -> Result<(), LabError>,
    patience: Duration,
) -> Result<Option<Vec<Region>>, LabError> {
    let began = Instant::now();
    loop {
        sync()?;
        let Some(free) = ask() else { return Ok(None) };
        let is_free = |run: &MappedExtent| {
            let (first, end) = (run.on_device.offset.bytes(), run.on_device.end().bytes());
            (first..end).step_by(BLOCK).all(|block| is_free_block(&free, block))
        };
        if placed.iter().all(is_free) || began.elapsed() >= patience {
            return Ok(Some(free));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until the device has discarded as much as the file system requested, or until `MAX_WAIT` has
/// passed: fstrim on xfs returns while its discards are in flight (from Linux 6.6).
fn wait_until_discarded(device: &File, before: Option<ByteLength>, asked_for: ByteLength) {
    let Some(before) = before else { return };
    let began = Instant::now();
    let is_done = || discarded(device).is_none_or(|now| now >= before + asked_for);
    while !is_done() && began.elapsed() < MAX_WAIT {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the whole blocks of the extents: only these can be compared.
fn whole_blocks(placed: &[MappedExtent]) -> Vec<MappedExtent> {
    let block = ByteLength::new(BLOCK as u64);
    let fits = |run: &&MappedExtent| {
        run.in_file.is_multiple_of(block) && run.on_device.offset.is_multiple_of(block)
    };
    let whole = |run: &MappedExtent| {
        let length = block * run.on_device.length.whole(block);
        MappedExtent { on_device: Region { length, ..run.on_device }, ..*run }
    };
    placed.iter().filter(fits).map(whole).collect()
}

/// Returns the region from the first block to the last one.
fn bounding_region(placed: &[MappedExtent]) -> Region {
    let first = placed.iter().map(|run| run.on_device.offset).min().unwrap_or(ByteLength::ZERO);
    let end = placed.iter().map(|run| run.on_device.end()).max().unwrap_or(first);
    Region { offset: first, length: end - first }
}

/// Returns the result of the check. `returned` is true if the old data was readable for a while after the
/// trim.
fn judge(
    contents: &Contents,
    returned: bool,
    place: &Place,
    refused: Option<io::Error>,
) -> Verdict {
    let counted = contents.counted();
    if counted < 16 || contents.taken > counted {
        return Verdict::TooFew;
    }
    let share = |count: u64| count as f64 / counted as f64;
    if contents.changed > 0 || returned {
        return Verdict::NotDeterministic;
    }
    if share(contents.zeros) >= SAME_CONTENT_SHARE {
        return Verdict::Works { reads_as: "zeros" };
    }
    if share(contents.ones) >= SAME_CONTENT_SHARE {
        return Verdict::Works { reads_as: "ones" };
    }
    let stopped = place.layers().iter().find(|layer| layer.discard_max == Some(0));
    if share(contents.old) >= SAME_CONTENT_SHARE {
        return match (stopped, refused) {
            (Some(layer), _) => Verdict::StoppedAtLayer {
                at: layer.words(),
                why: "it takes no discards (discard_max_bytes is 0)".to_owned(),
            },
            (None, Some(error)) => Verdict::StoppedAtLayer {
                at: place.layers()[0].words(),
                why: format!("fstrim was refused there: {error}"),
            },
            (None, None) => Verdict::OldDataReadable,
        };
    }
    // Decrypting zeros gives noise.
    let is_encrypted = place.layers().iter().any(|layer| layer.detail.as_deref() == Some("crypt"));
    if is_encrypted && share(contents.other) >= SAME_CONTENT_SHARE {
        return Verdict::Works { reads_as: "noise, as expected of zeros under encryption" };
    }
    Verdict::NotDeterministic
}

fn open_device(path: &Path) -> Result<File, LabError> {
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    options.open(path).map_err(|error| {
        let shown = path.display();
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let message = match rustix::process::geteuid().is_root() {
                    false => {
                        format!("{shown}: reading a block device takes root; run it with sudo")
                    }
                    true => format!(
                        "{shown}: not even root can read the block device on this system, as in a \
                         container; run it outside of the container"
                    ),
                };
                DriveError::new(ErrorKind::Unsupported, message).into()
            }
            _ => io_error(format!("cannot open {shown}"), error),
        }
    })
}

fn read_at(device: &File, bytes: &mut [u8], at: u64) -> Result<(), LabError> {
    use std::os::unix::fs::FileExt;
    device.read_exact_at(bytes, at).map_err(|error| {
        io_error(format!("cannot read {} bytes of the device at {at}", bytes.len()), error)
    })
}

/// Buffer for direct I/O, aligned to a block.
struct AlignedBuffer(Vec<u8>);

impl AlignedBuffer {
    fn new() -> AlignedBuffer {
        AlignedBuffer(vec![0; READ_LENGTH + BLOCK])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(BLOCK);
        &mut self.0[start..start + READ_LENGTH]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset: u64, length: u64) -> Region {
        Region { offset: ByteLength::new(offset), length: ByteLength::new(length) }
    }

    #[test]
    fn blocks_that_others_took_are_told_by_the_free_space() {
        let free = [region(0, 8192), region(16384, 4096)];
        assert!(is_free_block(&free, 4096) && is_free_block(&free, 16384));
        assert!(
            !is_free_block(&free, 8192)
                && !is_free_block(&free, 20480)
                && !is_free_block(&free, 6000)
        );
    }

    #[test]
    fn blocks_are_awaited_until_the_file_system_has_given_them_back() {
        let run = MappedExtent { in_file: ByteLength::ZERO, on_device: region(8192, 8192) };
        let wait = |answers: &[&[Region]], patience| {
            let (mut asked, mut synced) = (0, 0);
            let ask = || {
                let answer = answers.get(asked)?.to_vec();
                asked += 1;
                Some(answer)
            };
            let sync = || {
                synced += 1;
                Ok(())
            };
            let free = wait_until_free(&[run], ask, sync, patience).unwrap();
            (free, asked, synced)
        };
        let (none, half, all) = ([], [region(0, 12_288)], [region(4096, 16_384)]);
        let long = Duration::from_secs(60);
        assert_eq!(wait(&[&none, &half, &all, &none], long), (Some(all.to_vec()), 3, 3));
        assert_eq!(wait(&[&half, &all], Duration::ZERO), (Some(half.to_vec()), 1, 1));
        assert_eq!(wait(&[], long), (None, 0, 1), "nobody knows");
    }

    #[test]
    fn a_block_has_changed_only_where_it_counted_twice() {
        let (a, b) = (Some((Content::Zeros, 0)), Some((Content::Old, 7)));
        assert!(differ(a, b) && !differ(a, a) && !differ(a, None) && !differ(None, b));
    }

    #[test]
    fn old_data_that_is_gone_later_was_given_back_unless_it_was_little() {
        let read_blocks = |old: usize, taken: usize| BlockReads {
            contents: Contents::default(),
            each: (0..100)
                .map(|block| match block {
                    _ if block < taken => None,
                    _ if block < old => Some((Content::Old, block as u64)),
                    _ => Some((Content::Zeros, 0)),
                })
                .collect(),
        };
        assert!(read_blocks(100, 0).returned_old_data(&read_blocks(0, 0)));
        assert!(read_blocks(20, 0).returned_old_data(&read_blocks(10, 0)));
        assert!(!read_blocks(100, 0).returned_old_data(&read_blocks(100, 0)), "it is still there");
        assert!(!read_blocks(0, 0).returned_old_data(&read_blocks(0, 0)));
        assert!(!read_blocks(4, 0).returned_old_data(&read_blocks(0, 0)), "a few at the edges");
        assert!(!read_blocks(100, 0).returned_old_data(&read_blocks(100, 60)), "others took it");
    }

    #[test]
    fn parts_of_blocks_are_left_out() {
        let run = |in_file, offset, length| MappedExtent {
            in_file: ByteLength::new(in_file),
            on_device: region(offset, length),
        };
        let placed = [run(0, 4096, 10_000), run(512, 40_960, 4096), run(8192, 81_920, 4096)];
        let whole = whole_blocks(&placed);
        assert_eq!(whole, [run(0, 4096, 8192), run(8192, 81_920, 4096)]);
        assert_eq!(bounding_region(&whole), region(4096, 81_920));
    }
}
