//! A real drive, reached through a file that the run creates on it and removes.
//!
//! Requests go past the page cache (O_DIRECT): one at a time by positioned reads and writes,
//! more than one through io_uring. Whatever of that a system lacks is replaced by the next best
//! thing, and the drive's description says so.

mod buffers;
mod course;
mod device;
mod file;
mod surroundings;
mod synchronous;
mod target;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::io;
use std::path::Path;

use ssdlab_model::units::{ByteLength, GIB, Instant, MIB, Nanoseconds};

use self::buffers::Buffers;
use self::course::{Clock, Course, Request, Watch};
use self::device::System;
use self::file::{Access, OwnFile, io_error};
use self::surroundings::Surroundings;
use self::synchronous::{Nothing, Transfer};
use self::target::Target;
use crate::data::BlockData;
use crate::error::{DriveError, ErrorKind};
use crate::measure::PhaseResult;
use crate::phase::{Amount, Mix, Pattern, Phase, Region};
use crate::{Description, Drive, Inside, Observer, Progress, Unobserved};

/// How a real drive is used.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// Whether a file system that does not do direct I/O is an error. Otherwise requests go
    /// through the page cache there, with a caveat.
    pub require_direct: bool,
    /// How much of the file system stays free; `None` for 1 GiB or 5 % of its size, whichever is
    /// more.
    pub reserve: Option<ByteLength>,
    /// Whether io_uring may be used.
    pub io_uring: bool,
}

impl Default for RealOptions {
    fn default() -> Self {
        RealOptions { require_direct: true, reserve: None, io_uring: true }
    }
}

/// The most that [`RealDrive::probe_throughput`] moves in each direction.
const PROBE_LENGTH: ByteLength = ByteLength::new(MIB.bytes() * 128);
/// The longest that it takes for each direction, but for the last request.
const PROBE_TIME: Nanoseconds = Nanoseconds::from_millis(500);

/// A drive behind a file system.
///
/// Reading what was never written (or was trimmed) is answered by the file system, without
/// touching the drive: fill a region before it is read.
pub struct RealDrive {
    target: Target,
    options: RealOptions,
    clock: Clock,
    /// `None` once cleaned up.
    file: Option<OwnFile>,
    access: Access,
    length: ByteLength,
    surroundings: Surroundings,
    /// Why there is no io_uring, where there is none.
    no_uring: Option<String>,
    /// What came up while the drive was used.
    caveats: Vec<String>,
    /// Number of the next write, over all phases, so that no two write the same.
    sequence: u64,
}

impl RealDrive {
    /// Opens the drive that `path` lies on: a directory, or a file that does not exist yet.
    ///
    /// An empty file is created at once, which shows whether the place can be written to and how
    /// it can be reached. In a directory it has no name where the file system allows that, and
    /// vanishes even when the process is killed. What exists is never touched.
    pub fn open(path: &Path, options: RealOptions) -> Result<RealDrive, DriveError> {
        let system = System::real();
        let target = Target::classify(path, &system)?;
        let file = OwnFile::create(&target)?;
        let access = choose_access(&target, &file, &options)?;
        let mut surroundings = Surroundings::of(&file.file, &system);
        if target.file_name.is_none()
            && let Some(path) = file.path()
        {
            let why = "the file system has no files without a name";
            let caveat = format!("{why}: a run that is killed leaves {} behind", path.display());
            surroundings.caveats.push(caveat);
        }
        Ok(RealDrive {
            surroundings,
            no_uring: why_no_uring(&options),
            target,
            options,
            clock: Clock::start(),
            file: Some(file),
            access,
            length: ByteLength::ZERO,
            caveats: Vec::new(),
            sequence: 0,
        })
    }

    /// Estimates how fast the drive moves data, in bytes a second: sequential writes, then
    /// sequential reads of the same, 1 MiB each, one at a time.
    ///
    /// Takes about a second at most, and writes at most 128 MiB to the beginning of the prepared
    /// region, which is to be filled afterwards. The figure is the bytes moved by both over the
    /// time of both; a drive with a write cache shows that cache.
    pub fn probe_throughput(&mut self) -> Result<f64, DriveError> {
        let length = self.length.min(PROBE_LENGTH);
        let block_size = length.min(MIB);
        if length == ByteLength::ZERO {
            return Err(not_prepared());
        }
        let mut phase = Phase {
            name: "probe".into(),
            pattern: Pattern::Sequential,
            block_size,
            depth: 1,
            mix: Mix::WRITE,
            region: Region::first(length),
            amount: Amount::Bytes(block_size * length.whole(block_size)),
            rate: None,
            seed: 0,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        let written = self.carry_out(&phase, Some(PROBE_TIME), &mut Unobserved)?;
        phase.mix = Mix::READ;
        phase.amount = Amount::Bytes(written.bytes_written);
        phase.region = Region::first(written.bytes_written);
        let read = self.carry_out(&phase, Some(PROBE_TIME), &mut Unobserved)?;
        let bytes = written.bytes() + read.bytes();
        Ok(bytes.bytes() as f64 / (written.elapsed + read.elapsed).seconds())
    }

    /// Reads a region back and checks that every sector of it holds what phases with this seed
    /// wrote there; the error names the first one that does not.
    pub fn verify(&mut self, region: Region, seed: u64) -> Result<(), DriveError> {
        self.check_region(region)?;
        self.forget_cache(region)?;
        let data = BlockData::new(seed);
        let mut buffers = Buffers::new(1, MIB)?;
        let mut file = self.file()?;
        let mut offset = region.offset;
        while offset < region.end() {
            let length = (region.end() - offset).min(MIB);
            let buffer = &mut buffers.get(0)[..length.bytes() as usize];
            let request = Request { offset, read: true, sequence: 0, intended: None };
            file.transfer(&request, buffer)?;
            data.verify(buffer, offset).map_err(|mismatch| {
                let what = format!("check of the file in {}", self.target.named.display());
                DriveError::with_source(ErrorKind::Io, what, mismatch)
            })?;
            offset += length;
        }
        Ok(())
    }

    fn file(&self) -> Result<&OwnFile, DriveError> {
        self.file.as_ref().ok_or_else(not_prepared)
    }

    /// The smallest aligned request.
    fn alignment(&self) -> ByteLength {
        match self.access {
            Access::Direct { alignment } => alignment,
            Access::Buffered => crate::data::SECTOR,
        }
    }

    fn check_region(&self, region: Region) -> Result<(), DriveError> {
        let alignment = self.alignment();
        if region.end() > self.length
            || !region.offset.is_multiple_of(alignment)
            || !region.length.is_multiple_of(alignment)
        {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!(
                    "the region from {} to {} does not lie on multiples of {alignment} within {}",
                    region.offset,
                    region.end(),
                    self.length
                ),
            ));
        }
        Ok(())
    }

    /// Runs a phase, for no longer than `at_most`.
    fn carry_out(
        &mut self,
        phase: &Phase,
        at_most: Option<Nanoseconds>,
        observer: &mut dyn Observer,
    ) -> Result<PhaseResult, DriveError> {
        self.file()?;
        phase.validate(self.length, self.alignment())?;
        if phase.mix != Mix::WRITE {
            self.forget_cache(phase.region)?;
        }
        let mut course = Course::new(phase, self.now(), self.sequence);
        if let Some(time) = at_most {
            course.end_by(time);
        }
        let outcome = self.run_course(&mut course, phase, observer);
        self.sequence = course.sequence();
        Ok(course.finish(outcome?))
    }

    /// Runs the course with the engine for its depth; returns how long it took.
    fn run_course(
        &mut self,
        course: &mut Course,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<Nanoseconds, DriveError> {
        let mut caveat = None;
        let file = self.file()?;
        let data = BlockData::new(phase.seed);
        let mut watch = Watch::new(observer);
        let clock;
        if phase.depth == 1 {
            let mut buffers = Buffers::new(1, phase.block_size)?;
            let mut transfer = file;
            clock = Clock::start();
            let buffer = buffers.get(0);
            synchronous::run(course, &mut watch, &clock, &data, &mut transfer, buffer)?;
        } else if let Some(why) = &self.no_uring {
            caveat = Some(threads_caveat(why, phase.depth));
            let buffers = threads::buffers(phase.depth, phase.block_size)?;
            clock = Clock::start();
            threads::run(course, &mut watch, &clock, &data, file, buffers)?;
        } else {
            #[cfg(target_os = "linux")]
            {
                let mut ring = uring::Ring::new(file, phase.depth, phase.block_size)?;
                if !ring.is_registered() {
                    caveat = Some(UNREGISTERED.to_owned());
                }
                clock = Clock::start();
                ring.run(course, &mut watch, &clock, &data)?;
            }
            #[cfg(not(target_os = "linux"))]
            unreachable!("there is always a reason for the lack of io_uring here");
        }
        if phase.flush_at_end {
            file.sync_data()?;
        }
        let elapsed = clock.now();
        if let Some(caveat) = caveat {
            self.add_caveat(caveat);
        }
        Ok(elapsed)
    }

    fn add_caveat(&mut self, caveat: String) {
        if !self.caveats.contains(&caveat) {
            self.caveats.push(caveat);
        }
    }

    /// Where reads go through the page cache: writes it out and drops it, so that at least the
    /// first read of each block is the drive's.
    fn forget_cache(&self, region: Region) -> Result<(), DriveError> {
        if self.access != Access::Buffered {
            return Ok(());
        }
        let file = self.file()?;
        file.sync_data()?;
        #[cfg(target_os = "linux")]
        {
            let length = std::num::NonZeroU64::new(region.length.bytes());
            let advice = rustix::fs::Advice::DontNeed;
            rustix::fs::fadvise(&file.file, region.offset.bytes(), length, advice).map_err(
                |error| {
                    let what = format!("dropping the cache of {}", file.shown.display());
                    io_error(what, error.into())
                },
            )?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = region;
        Ok(())
    }

    /// Space for the file, and what has to stay free beside it.
    fn room(&self, file: &OwnFile) -> Result<Room, DriveError> {
        let numbers = rustix::fs::fstatvfs(&file.file).map_err(|error| {
            let what = format!("cannot see the free space at {}", file.shown.display());
            io_error(what, error.into())
        })?;
        let free = ByteLength::new(numbers.f_bavail * numbers.f_frsize) + file.occupied()?;
        let twentieth = ByteLength::new(numbers.f_blocks / 20 * numbers.f_frsize);
        Ok(Room { free, reserve: self.options.reserve.unwrap_or(twentieth.max(GIB)) })
    }
}

struct Room {
    free: ByteLength,
    reserve: ByteLength,
}

impl Room {
    fn usable(&self) -> ByteLength {
        ByteLength::new(self.free.bytes().saturating_sub(self.reserve.bytes()))
    }
}

impl Drive for RealDrive {
    /// The capacity is the prepared length; before that, the most that could be prepared.
    fn description(&self) -> Description {
        let direct = match self.access {
            Access::Direct { .. } => "O_DIRECT",
            Access::Buffered => "page cache",
        };
        let above = match self.no_uring {
            None => "io_uring",
            Some(_) => "threads",
        };
        let capacity = if self.length > ByteLength::ZERO {
            self.length
        } else {
            let room = self.file().and_then(|file| self.room(file));
            room.map_or(ByteLength::ZERO, |room| {
                self.alignment() * room.usable().whole(self.alignment())
            })
        };
        let mut caveats = self.surroundings.caveats.clone();
        if self.access == Access::Buffered {
            caveats.push(BUFFERED.to_owned());
        }
        caveats.extend_from_slice(&self.caveats);
        Description {
            kind: self.target.kind(),
            name: self.target.named.display().to_string(),
            capacity,
            block_size: self.alignment(),
            engine: format!("{direct}, positioned I/O at depth 1, {above} above"),
            caveats,
            facts: self.surroundings.facts.clone(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        let alignment = self.alignment();
        if length == ByteLength::ZERO || !length.is_multiple_of(alignment) {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!("a file of {length} is not a number of blocks of {alignment}"),
            ));
        }
        if self.file.is_none() {
            let file = OwnFile::create(&self.target)?;
            self.access = choose_access(&self.target, &file, &self.options)?;
            self.file = Some(file);
        }
        let file = self.file()?;
        let room = self.room(file)?;
        if length > room.usable() {
            return Err(DriveError::new(
                ErrorKind::NoSpace,
                format!(
                    "a file of {length} does not fit at {}: {} are free, of which {} stay free; \
                     choose a smaller file size",
                    self.target.named.display(),
                    room.free,
                    room.reserve
                ),
            ));
        }
        file.set_length(length)?;
        self.length = length;
        Ok(())
    }

    fn run_phase(
        &mut self,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<PhaseResult, DriveError> {
        self.carry_out(phase, None, observer)
    }

    fn flush(&mut self) -> Result<Nanoseconds, DriveError> {
        let clock = Clock::start();
        self.file()?.sync_data()?;
        Ok(clock.now())
    }

    /// Gives the region's space back to the file system, durably. Whether the drive hears of it
    /// is up to the mount; a caveat says so where it does not.
    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError> {
        self.check_region(region)?;
        let file = self.file()?;
        let clock = Clock::start();
        punch_hole(file, region)?;
        let elapsed = clock.now();
        if self.surroundings.discards == Some(false) {
            self.add_caveat(NO_DISCARD.to_owned());
        }
        Ok(elapsed)
    }

    fn rest(
        &mut self,
        duration: Nanoseconds,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError> {
        let clock = Clock::start();
        let mut watch = Watch::new(observer);
        loop {
            let elapsed = clock.now();
            watch.tell(elapsed, || Progress {
                bytes_done: ByteLength::ZERO,
                bytes_total: None,
                elapsed,
                time_total: Some(duration),
            })?;
            if elapsed >= duration {
                return Ok(());
            }
            clock.wait(duration);
        }
    }

    fn make_new(&mut self) -> Result<(), DriveError> {
        Err(DriveError::new(
            ErrorKind::Unsupported,
            format!(
                "{}: a drive cannot be made new through a file on it",
                self.target.named.display()
            ),
        ))
    }

    fn now(&self) -> Instant {
        Instant::START + self.clock.now()
    }

    fn inside(&self) -> Option<Inside> {
        None
    }

    fn clean_up(&mut self) -> Result<(), DriveError> {
        self.length = ByteLength::ZERO;
        match self.file.take() {
            Some(mut file) => file.remove(),
            None => Ok(()),
        }
    }
}

/// Runs a phase against nothing at all, one request at a time: what it takes is what the
/// generator costs by itself, and so the least that can be measured with it.
pub fn run_on_nothing(phase: &Phase) -> Result<PhaseResult, DriveError> {
    phase.validate(phase.region.end(), crate::data::SECTOR)?;
    let mut buffers = Buffers::new(1, phase.block_size)?;
    let data = BlockData::new(phase.seed);
    let mut course = Course::new(phase, Instant::START, 0);
    let mut observer = Unobserved;
    let mut watch = Watch::new(&mut observer);
    let clock = Clock::start();
    let buffer = buffers.get(0);
    synchronous::run(&mut course, &mut watch, &clock, &data, &mut Nothing, buffer)?;
    Ok(course.finish(clock.now()))
}

const BUFFERED: &str = "the file system does not support direct I/O: figures are those of the page cache, which is \
     written out and dropped before each phase that reads";

const UNREGISTERED: &str = "the limit on locked memory is too low to register the buffers with io_uring: requests cost \
     a little more processor time";

const NO_DISCARD: &str = "the file system is mounted without discard: the drive does not hear of trimmed space until \
     the next fstrim";

fn threads_caveat(why: &str, depth: u32) -> String {
    let most = threads::MOST_THREADS;
    let capped = if depth > most {
        format!(", so that a depth above {most} counts as {most}")
    } else {
        String::new()
    };
    format!("{why}: above depth 1 requests are sent by at most {most} threads{capped}")
}

fn not_prepared() -> DriveError {
    DriveError::new(ErrorKind::Usage, "the drive was not prepared, or is cleaned up already")
}

fn choose_access(
    target: &Target,
    file: &OwnFile,
    options: &RealOptions,
) -> Result<Access, DriveError> {
    let access = file.choose_access()?;
    if access == Access::Buffered && options.require_direct {
        return Err(DriveError::new(
            ErrorKind::Unsupported,
            format!(
                "{}: the file system does not support direct I/O; --allow-buffered goes through \
                 the page cache, and then measures that as well",
                target.named.display()
            ),
        ));
    }
    Ok(access)
}

fn why_no_uring(options: &RealOptions) -> Option<String> {
    if !options.io_uring {
        return Some("io_uring is switched off".to_owned());
    }
    #[cfg(target_os = "linux")]
    let available = uring::available();
    #[cfg(not(target_os = "linux"))]
    let available: io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    let error: io::Error = available.err()?;
    Some(format!("io_uring is not available ({error})"))
}

#[cfg(target_os = "linux")]
fn punch_hole(file: &OwnFile, region: Region) -> Result<(), DriveError> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let (offset, length) = (region.offset.bytes(), region.length.bytes());
    fallocate(&file.file, flags, offset, length).map_err(|error| match error {
        Errno::OPNOTSUPP | Errno::NOSYS => cannot_trim(file),
        error => {
            let what = format!("trim of {} in {}", region.length, file.shown.display());
            io_error(what, error.into())
        }
    })?;
    // The space is free for good, and told to the drive, only when the file system committed it.
    let synced = file.file.sync_all();
    synced.map_err(|error| io_error(format!("flush of {}", file.shown.display()), error))
}

#[cfg(not(target_os = "linux"))]
fn punch_hole(file: &OwnFile, _: Region) -> Result<(), DriveError> {
    Err(cannot_trim(file))
}

fn cannot_trim(file: &OwnFile) -> DriveError {
    DriveError::new(
        ErrorKind::Unsupported,
        format!(
            "the file system at {} cannot take a part of a file out of use",
            file.shown.display()
        ),
    )
}
