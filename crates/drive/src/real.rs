//! A real drive, reached through a file that the run creates on it and that has no name, so that
//! the system removes it however the run ends.
//!
//! Requests go past the page cache (O_DIRECT): one at a time by positioned reads and writes,
//! more than one through io_uring. Whatever of that a system lacks is replaced by the next best
//! thing, and the drive's description says so.

mod buffers;
mod course;
mod device;
mod file;
mod lanes;
pub mod place;
mod probe;
mod space;
mod surroundings;
mod synchronous;
mod target;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

pub use self::probe::{PROBE_LENGTH, run_on_nothing};

use std::io;
use std::path::Path;

use ssdlab_model::units::{ByteLength, Instant, Nanoseconds};

use self::buffers::Buffers;
use self::course::{Clock, Course, Watch};
use self::device::System;
use self::file::{Access, OwnFile, io_error};
use self::space::Room;
use self::surroundings::Surroundings;
use self::target::Target;
use crate::data::BlockData;
use crate::error::{DriveError, ErrorKind};
use crate::measure::PhaseResult;
use crate::phase::{Mix, Phase, Region};
use crate::{Description, Drive, Inside, Lane, LaneResult, Observer, Progress};

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
    /// it can be reached. It has no name, or loses it as soon as it is there, and so vanishes even
    /// when the process is killed. What exists is never touched.
    pub fn open(path: &Path, options: RealOptions) -> Result<RealDrive, DriveError> {
        let system = System::real();
        let target = Target::classify(path, &system)?;
        let file = OwnFile::create(&target)?;
        let access = choose_access(&target, &file, &options)?;
        let mut surroundings = Surroundings::of(&file.file, &system);
        if let Some(path) = file.path() {
            let why = "the file system does not let go of an open file's name";
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
        let mut course = Course::new(phase, self.sequence);
        if let Some(time) = at_most {
            course.end_by(time);
        }
        let outcome = self.run_course(&mut course, phase, observer);
        self.sequence = course.sequence();
        let (started, elapsed) = outcome?;
        Ok(course.finish(started, elapsed))
    }

    /// Runs the course with the engine for its depth; returns when it began and how long it
    /// took. Setting an engine up and taking it apart is not part of that.
    fn run_course(
        &mut self,
        course: &mut Course,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<(Instant, Nanoseconds), DriveError> {
        let mut caveat = None;
        let file = self.file()?;
        let data = BlockData::new(phase.seed);
        let mut watch = Watch::new(observer);
        let end = |clock: &Clock| {
            if phase.flush_at_end {
                file.sync_data()?;
            }
            Ok(clock.now())
        };
        let started;
        let elapsed;
        if phase.depth == 1 {
            let mut buffers = Buffers::new(1, phase.block_size)?;
            let buffer = buffers.get(0);
            let mut transfer = file;
            started = self.now();
            let clock = Clock::start();
            synchronous::run(course, &mut watch, &clock, &data, &mut transfer, buffer)?;
            elapsed = end(&clock)?;
        } else if let Some(why) = &self.no_uring {
            caveat = Some(threads_caveat(why, phase.depth));
            let buffers = threads::buffers(phase.depth, phase.block_size)?;
            started = self.now();
            let clock = Clock::start();
            threads::run(course, &mut watch, &clock, &data, file, buffers)?;
            elapsed = end(&clock)?;
        } else {
            #[cfg(target_os = "linux")]
            {
                let mut ring = uring::Ring::new(file, phase.depth, phase.block_size)?;
                if !ring.is_registered() {
                    caveat = Some(UNREGISTERED.to_owned());
                }
                started = self.now();
                let clock = Clock::start();
                ring.run(course, &mut watch, &clock, &data)?;
                elapsed = end(&clock)?;
            }
            #[cfg(not(target_os = "linux"))]
            unreachable!("there is always a reason for the lack of io_uring here");
        }
        if let Some(caveat) = caveat {
            self.add_caveat(caveat);
        }
        Ok((started, elapsed))
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
            let room = self.file().and_then(|file| Room::of(file, self.options.reserve));
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
            measures_flash: self.surroundings.measures_flash && self.access != Access::Buffered,
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
        let room = Room::of(file, self.options.reserve)?;
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

    fn run_lanes(
        &mut self,
        running: Vec<Lane<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<LaneResult>, DriveError> {
        crate::lanes::check(&running)?;
        self.forget_cache(Region::first(self.length))?;
        if lanes::is_capped(&running) {
            self.add_caveat(LANES_CAPPED.to_owned());
        }
        let (now, length, alignment) = (self.now(), self.length, self.alignment());
        let mut sequence = self.sequence;
        let place =
            lanes::Place { file: self.file()?, length, alignment, sequence: &mut sequence, now };
        let outcome = lanes::run(place, running, observer);
        self.sequence = sequence;
        outcome
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
        file.punch_hole(region)?;
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

    fn directory(&self) -> Option<&Path> {
        Some(&self.target.directory)
    }

    fn clean_up(&mut self) -> Result<(), DriveError> {
        self.length = ByteLength::ZERO;
        match self.file.take() {
            Some(mut file) => file.remove(),
            None => Ok(()),
        }
    }
}

const BUFFERED: &str = "the file system does not support direct I/O: figures are those of the page cache, which is \
     written out and dropped before each phase that reads";

const UNREGISTERED: &str = "the limit on locked memory is too low to register the buffers with io_uring: requests cost \
     a little more processor time";

const NO_DISCARD: &str = "the file system is mounted without discard: the drive does not hear of trimmed space until \
     the next fstrim";

const LANES_CAPPED: &str = "workloads that are run request by request have at most 64 requests in flight each: a higher \
     depth counts as 64";

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
