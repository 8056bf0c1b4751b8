//! A real drive, reached through a file that the run creates on it and that has no name, so that
//! the system removes it however the run ends; or as the block device that it is, once that was
//! confirmed (see [`Candidate`]).
//!
//! Requests go past the page cache (O_DIRECT): one at a time by positioned reads and writes (reads
//! through io_uring where the drive is waited for), more than one through io_uring. Whatever of that a system lacks is replaced by the next best
//! thing, and the drive's description says so.

#[cfg(target_os = "linux")]
mod aio;
mod believable;
#[cfg(target_os = "linux")]
pub mod block_map;
mod buffers;
mod course;
mod device;
mod file;
mod gate;
mod handle;
mod identity;
mod lanes;
#[cfg(target_os = "linux")]
mod look;
mod make_new;
mod medium;
pub mod mounts;
pub mod node;
pub mod openers;
mod payload;
pub mod place;
mod probe;
mod signatures;
pub mod smart;
mod space;
mod surroundings;
mod synchronous;
mod target;
mod threads;
pub mod tool;
#[cfg(target_os = "linux")]
mod uring;

pub use self::believable::EXAMINED;
pub use self::device::{DeviceNumber, loop_above, related};
pub use self::gate::{Candidate, Permit, is_block_device};
pub use self::make_new::MakeNew;
pub use self::mounts::Mount;
pub use self::probe::{PROBE_LENGTH, run_on_nothing};

use std::io;
use std::path::Path;

use ssdlab_model::units::{ByteLength, Instant, Nanoseconds};

use self::believable::Believable;
use self::buffers::Buffers;
use self::course::{Clock, Course, Request, Watch};
use self::device::System;
use self::file::OwnFile;
use self::gate::OpenDevice;
use self::handle::{Access, Handle, io_error};
use self::medium::Medium;
use self::payload::Payload;
use self::smart::Smart;
use self::space::Room;
use self::surroundings::Surroundings;
use self::synchronous::Transfer;
use self::target::Target;
use self::threads::Senders;
use crate::data::BlockData;
use crate::error::{DriveError, ErrorKind};
use crate::measure::PhaseResult;
use crate::phase::{Mix, Phase, Region};
use crate::{
    Description, Drive, Durability, Inside, Lane, LaneResult, Observer, Progress, Remark, When,
};

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
    /// How a block device is made new.
    pub make_new: MakeNew,
}

impl Default for RealOptions {
    fn default() -> Self {
        RealOptions {
            require_direct: true,
            reserve: None,
            io_uring: true,
            make_new: MakeNew::default(),
        }
    }
}

/// A drive behind a file system, or a block device.
///
/// Reading what was never written (or was trimmed) is answered by the file system, without
/// touching the drive: fill a region before it is read.
pub struct RealDrive {
    medium: Medium,
    options: RealOptions,
    clock: Clock,
    access: Access,
    length: ByteLength,
    surroundings: Surroundings,
    /// Why there is no io_uring, where there is none.
    no_uring: Option<String>,
    /// Whether Linux AIO takes the place of io_uring.
    without_workers: bool,
    /// What came up while the drive was used.
    caveats: Vec<String>,
    /// Number of the next write, over all phases, so that no two write the same.
    sequence: u64,
    /// What it says of itself before the run and after it, or why it says nothing.
    health: [Option<Result<Smart, String>>; 2],
    believable: Believable,
    /// The block of single writes.
    block: Option<Buffers>,
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
        let mut surroundings = Surroundings::of(&file.handle.file, &system);
        if let Some(path) = file.path() {
            let why = "the file system does not let go of an open file's name";
            let caveat = format!("{why}: a run that is killed leaves {} behind", path.display());
            surroundings.caveats.push(caveat);
        }
        let medium = Medium::File { target, file: Some(file) };
        Ok(RealDrive::at(medium, access, surroundings, options))
    }

    /// Opens a block device, to destroy what it holds, for nobody else meanwhile.
    pub fn open_device(permit: Permit, options: RealOptions) -> Result<RealDrive, DriveError> {
        Ok(RealDrive::on_device(permit.open()?, options))
    }

    /// Opens the block device at `path` for reading alone, whoever else uses it.
    pub fn open_device_to_read(path: &Path, options: RealOptions) -> Result<RealDrive, DriveError> {
        Ok(RealDrive::on_device(OpenDevice::to_read(path)?, options))
    }

    fn on_device(device: OpenDevice, options: RealOptions) -> RealDrive {
        let block = device.identity.queue("logical_block_size").unwrap_or(512).max(512);
        let access = Access::Direct { alignment: ByteLength::new(block) };
        let surroundings = Surroundings::of_device(&device);
        RealDrive::at(Medium::Device(device), access, surroundings, options)
    }

    fn at(
        medium: Medium,
        access: Access,
        surroundings: Surroundings,
        options: RealOptions,
    ) -> RealDrive {
        RealDrive {
            without_workers: is_without_workers(&medium, access),
            medium,
            no_uring: why_no_uring(&options),
            options,
            clock: Clock::start(),
            access,
            length: ByteLength::ZERO,
            surroundings,
            caveats: Vec::new(),
            sequence: 0,
            health: [None, None],
            believable: Believable::default(),
            block: None,
        }
    }

    /// Fails where the block device cannot be made new in the way that was asked for, as far as
    /// that can be told without doing it.
    pub fn check_make_new(&self) -> Result<(), DriveError> {
        self.medium.device().map_or(Ok(()), |device| self.options.make_new.check(device))
    }

    /// What share of its rated endurance `bytes` of writes are, in words; `None` where nothing is
    /// known of the drive at all.
    pub fn endurance_words(&self, bytes: ByteLength) -> Option<String> {
        let told = self.health.iter().rev().flatten().find_map(|told| told.as_ref().ok());
        told.map(|smart| smart.share_words(bytes))
    }

    fn handle(&self) -> Result<&Handle, DriveError> {
        self.medium.handle()
    }

    /// The smallest aligned request.
    fn alignment(&self) -> ByteLength {
        match self.access {
            Access::Direct { alignment } => alignment,
            Access::Buffered => crate::data::SECTOR,
        }
    }

    /// What sends requests, in words.
    fn engines(&self) -> String {
        let above = match (&self.no_uring, self.without_workers) {
            (None, false) => "io_uring, polled where that pays",
            (None, true) => "Linux AIO (requests to it may wait, so io_uring would need threads)",
            (Some(_), _) => "threads",
        };
        match self.looks_for_one(Mix::READ) {
            true => format!("positioned writes at depth 1, else {above}"),
            false => format!("positioned I/O at depth 1, above it {above}"),
        }
    }

    /// Whether a request that is alone goes through the engine for many as well, which can look
    /// for its answer. Through the page cache, and to a drive that works within the call, nothing
    /// is waited for. A write has to note the file's time now and then, and io_uring would hand it
    /// to a thread for that, which takes its time to run on a busy machine.
    fn looks_for_one(&self, mix: Mix) -> bool {
        let is_direct = matches!(self.access, Access::Direct { .. });
        mix == Mix::READ && is_direct && self.no_uring.is_none() && !self.without_workers
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
        self.handle()?;
        phase.validate(self.length, self.alignment())?;
        if phase.mix != Mix::READ {
            self.medium.check_writable()?;
        }
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
        let result = course.finish(started, elapsed);
        self.believable.note(&result);
        Ok(result)
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
        let file = self.handle()?;
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
        if phase.depth == 1 && !self.looks_for_one(phase.mix) {
            let mut payload = Payload::new(&data, phase, self.sequence)?;
            let mut transfer = file;
            started = self.now();
            let clock = Clock::start();
            synchronous::run(course, &mut watch, &clock, &mut payload, &mut transfer)?;
            elapsed = end(&clock)?;
        } else if let Some(why) = &self.no_uring {
            caveat = Some(threads_caveat(why, phase.depth));
            let Senders { threads, together } = Senders::one_a_request(phase.depth);
            let payloads = Payload::for_threads(&data, phase, self.sequence, threads)?;
            started = self.now();
            let clock = Clock::start();
            threads::run(course, &mut watch, &clock, file, payloads, together)?;
            elapsed = end(&clock)?;
        } else {
            #[cfg(target_os = "linux")]
            {
                let payload = Payload::new(&data, phase, self.sequence)?;
                if self.without_workers {
                    let mut queue = aio::Queue::new(file, phase.depth, payload)?;
                    started = self.now();
                    let clock = Clock::start();
                    let senders = Senders::one_a_processor(phase.depth);
                    let outcome = queue.run(course, &mut watch, &clock, senders.is_some())?;
                    if let (aio::Outcome::WantsSenders, Some(senders)) = (outcome, senders) {
                        drop(queue);
                        caveat = Some(in_call_caveat(senders.threads));
                        let Senders { threads, together } = senders;
                        let next = course.sequence();
                        let payloads = Payload::for_threads(&data, phase, next, threads)?;
                        threads::run(course, &mut watch, &clock, file, payloads, together)?;
                    }
                    elapsed = end(&clock)?;
                } else {
                    let mut ring = uring::Ring::new(file, phase.depth, payload)?;
                    if !ring.is_registered() {
                        caveat = Some(UNREGISTERED.to_owned());
                    }
                    started = self.now();
                    let clock = Clock::start();
                    ring.run(course, &mut watch, &clock)?;
                    elapsed = end(&clock)?;
                }
            }
            #[cfg(not(target_os = "linux"))]
            unreachable!("there is always a reason for the lack of io_uring here");
        }
        if let Some(caveat) = caveat {
            self.add_caveat(caveat);
        }
        Ok((started, elapsed))
    }

    /// What is known of the drive, with what it said of itself before and after.
    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = self.surroundings.facts.clone();
        for (told, when) in self.health.iter().zip(["before", "after"]) {
            let Some(told) = told else { continue };
            let words = match told {
                Ok(smart) => smart.words(),
                Err(why) => format!("not known: {why}"),
            };
            facts.push((format!("SMART {when}"), words));
        }
        facts
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
        let file = self.handle()?;
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
        let capacity = if self.length > ByteLength::ZERO {
            self.length
        } else {
            let alignment = self.alignment();
            let usable = match self.medium.device() {
                Some(device) => device.capacity(),
                None => {
                    let file = self.medium.file();
                    let room = file.and_then(|file| Room::of(file, self.options.reserve));
                    room.map_or(ByteLength::ZERO, |room| room.usable())
                }
            };
            alignment * usable.whole(alignment)
        };
        let mut caveats = self.surroundings.caveats.clone();
        if self.access == Access::Buffered {
            caveats.push(BUFFERED.to_owned());
        }
        caveats.extend_from_slice(&self.caveats);
        Description {
            kind: self.medium.kind(),
            name: self.medium.named().display().to_string(),
            capacity,
            block_size: self.alignment(),
            engine: format!("{direct}, {}", self.engines()),
            measures_flash: self.surroundings.measures_flash && self.access != Access::Buffered,
            caveats,
            facts: self.facts(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        let alignment = self.alignment();
        if length == ByteLength::ZERO || !length.is_multiple_of(alignment) {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!("an area of {length} is not a number of blocks of {alignment}"),
            ));
        }
        if let Some(device) = self.medium.device() {
            check_capacity(device, length)?;
            self.length = length;
            return Ok(());
        }
        if let Medium::File { target, file: slot @ None } = &mut self.medium {
            let file = OwnFile::create(target)?;
            self.access = choose_access(target, &file, &self.options)?;
            *slot = Some(file);
        }
        let file = self.medium.file()?;
        let room = Room::of(file, self.options.reserve)?;
        if length > room.usable() {
            return Err(DriveError::new(
                ErrorKind::NoSpace,
                format!(
                    "a file of {length} does not fit at {}: {} are free, and {} have to stay so; \
                     choose a smaller file size or another place",
                    self.medium.named().display(),
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
            lanes::Place { medium: &self.medium, length, alignment, sequence: &mut sequence, now };
        let outcome = lanes::run(place, running, observer);
        self.sequence = sequence;
        outcome
    }

    fn flush(&mut self) -> Result<Nanoseconds, DriveError> {
        let clock = Clock::start();
        self.handle()?.sync_data()?;
        Ok(clock.now())
    }

    fn write_block(
        &mut self,
        block: Region,
        durability: Durability,
        seed: u64,
    ) -> Result<Nanoseconds, DriveError> {
        self.check_region(block)?;
        self.medium.check_writable()?;
        let mut buffers = match self.block.take() {
            Some(buffers) if buffers.length() == block.length => buffers,
            _ => Buffers::new(1, block.length)?,
        };
        let buffer = buffers.get(0);
        let request =
            Request { offset: block.offset, read: false, sequence: self.sequence, intended: None };
        self.sequence += 1;
        BlockData::new(seed).fill(buffer, block.offset, request.sequence);
        let mut handle = self.handle()?;
        let clock = Clock::start();
        match durability {
            Durability::Cached => handle.transfer(&request, buffer)?,
            Durability::Through => write_through(handle, &request, buffer)?,
        }
        let elapsed = clock.now();
        self.block = Some(buffers);
        Ok(elapsed)
    }

    /// Discards the region, or gives its space back to the file system, durably. Whether the
    /// drive hears of that is up to the mount; a caveat says so where it does not.
    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError> {
        self.check_region(region)?;
        let clock = Clock::start();
        self.medium.trim(region)?;
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
        let Some(device) = self.medium.device() else {
            return Err(DriveError::new(
                ErrorKind::Unsupported,
                format!(
                    "{}: a drive cannot be made new through a file on it",
                    self.medium.named().display()
                ),
            ));
        };
        let outcome = self.options.make_new.carry_out(device);
        if let Err(error) = &outcome
            && error.kind() == ErrorKind::Unsupported
        {
            self.add_caveat(error.to_string());
        }
        outcome
    }

    fn now(&self) -> Instant {
        Instant::START + self.clock.now()
    }

    fn inside(&self) -> Option<Inside> {
        None
    }

    fn directory(&self) -> Option<&Path> {
        match &self.medium {
            Medium::File { target, .. } => Some(&target.directory),
            Medium::Device(_) => None,
        }
    }

    fn look_at_health(&mut self, when: When) {
        let path = match (&self.medium, &self.surroundings.drive) {
            (Medium::Device(device), _) => device.device.clone(),
            (Medium::File { .. }, Some(drive)) => Path::new("/dev").join(&drive.disk),
            (Medium::File { .. }, None) => return,
        };
        let told = &mut self.health[when as usize];
        if when == When::After || told.is_none() {
            *told = Some(smart::of(&path));
        }
    }

    fn examine(&mut self) -> Vec<Remark> {
        self.examine_answers()
    }

    fn clean_up(&mut self) -> Result<(), DriveError> {
        self.length = ByteLength::ZERO;
        match &mut self.medium {
            Medium::File { file, .. } => file.take().map_or(Ok(()), |mut file| file.remove()),
            Medium::Device(_) => Ok(()),
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

#[cfg(target_os = "linux")]
fn in_call_caveat(threads: u32) -> String {
    format!(
        "the drive carries requests out within the call that sends them, so that no more of them \
         are under way than there are processors to send them: {threads} at depths above that"
    )
}

fn check_capacity(device: &OpenDevice, length: ByteLength) -> Result<(), DriveError> {
    if length <= device.capacity() {
        return Ok(());
    }
    let what = format!(
        "{} holds {}, less than the area of {length}; choose a smaller area",
        device.named.display(),
        device.capacity()
    );
    Err(DriveError::new(ErrorKind::Usage, what))
}

fn write_through(handle: &Handle, request: &Request, buffer: &[u8]) -> Result<(), DriveError> {
    handle.write_through(buffer, request.offset).map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput => DriveError::with_source(
            ErrorKind::Unsupported,
            format!("{} takes no writes that are durable at once", handle.shown.display()),
            error,
        ),
        _ => handle.transfer_error(request, buffer.len(), Err(error)),
    })
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

/// Whether a device that is reached past the page cache makes io_uring hand each request to a
/// thread.
#[cfg(target_os = "linux")]
fn is_without_workers(medium: &Medium, access: Access) -> bool {
    match (access, medium.handle()) {
        (Access::Direct { alignment }, Ok(handle)) => aio::is_better_for(handle, alignment),
        _ => false,
    }
}

#[cfg(not(target_os = "linux"))]
fn is_without_workers(_: &Medium, _: Access) -> bool {
    false
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
