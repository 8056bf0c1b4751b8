//! Implementation of the `ssdlab_drive::Drive` interface for real drives.

use std::io;
use std::path::Path;

use ssdlab_blockdev::smart;
use ssdlab_drive::measure::PhaseResult;
use ssdlab_drive::phase::{Phase, Region};
use ssdlab_drive::{
    Description, Drive, Durability, Inside, Lane, LaneResult, Observer, Progress, Remark, When,
};
use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::buffers::Buffers;
use super::file::OwnFile;
use super::free_space::FreeSpace;
use super::gate::OpenDevice;
use super::handle::{Access, Handle};
use super::medium::Medium;
use super::phase_runner::{Clock, ProgressReporter, Request};
use super::synchronous::Transfer;
use super::{RealDrive, choose_access, lanes};
use crate::data::BlockData;

impl Drive for RealDrive {
    /// Describes the drive. The capacity is the prepared length; before that, the largest length that
    /// could be prepared.
    fn description(&self) -> Description {
        let direct = match self.access {
            Access::Direct { .. } if cfg!(windows) => "unbuffered",
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
                    let space = file.and_then(|file| FreeSpace::of(file, self.options.reserve));
                    space.map_or(ByteLength::ZERO, |space| space.usable())
                }
            };
            alignment * usable.whole(alignment)
        };
        let mut caveats = self.environment.caveats.clone();
        if self.access == Access::Buffered {
            caveats.push(BUFFERED.to_owned());
        }
        caveats.extend_from_slice(&self.caveats);
        Description {
            kind: self.medium.kind(),
            name: self.medium.named().display().to_string(),
            capacity,
            block_size: self.alignment(),
            engine: format!("{direct}, {}", self.describe_engines()),
            measures_flash: self.environment.measures_flash && self.access != Access::Buffered,
            began_new: false,
            caveats,
            facts: self.facts(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        let alignment = self.alignment();
        if length == ByteLength::ZERO || !length.is_multiple_of(alignment) {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!("an area of {length} is not a multiple of {alignment}"),
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
        let space = FreeSpace::of(file, self.options.reserve)?;
        if length > space.usable() {
            return Err(DriveError::new(
                ErrorKind::NoSpace,
                format!(
                    "a file of {length} does not fit at {}: {} are free, of which {} must stay \
                     free; choose a smaller file size or another place",
                    self.medium.named().display(),
                    space.free,
                    space.reserve
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
        self.execute_phase(phase, None, observer)
    }

    fn run_lanes(
        &mut self,
        running: Vec<Lane<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<LaneResult>, DriveError> {
        ssdlab_drive::lanes::check(&running)?;
        self.drop_page_cache(Region::first(self.length))?;
        if lanes::is_capped(&running) {
            self.add_caveat(LANES_CAPPED.to_owned());
        }
        let (now, length, alignment) = (self.now(), self.length, self.alignment());
        let mut sequence = self.sequence;
        let target = lanes::LaneTarget {
            medium: &self.medium,
            length,
            alignment,
            sequence: &mut sequence,
            now,
        };
        let outcome = lanes::run(target, running, observer);
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
        let mut buffers = match self.write_buffer.take() {
            Some(buffers) if buffers.length() == block.length => buffers,
            _ => Buffers::new(1, block.length)?,
        };
        let buffer = buffers.get(0);
        let request = Request {
            offset: block.offset,
            is_read: false,
            sequence: self.sequence,
            intended: None,
        };
        self.sequence += 1;
        BlockData::new(seed).fill(buffer, block.offset, request.sequence);
        let mut handle = self.handle()?;
        let clock = Clock::start();
        match durability {
            Durability::Cached => handle.transfer(&request, buffer)?,
            Durability::Through => write_through(handle, &request, buffer)?,
        }
        let elapsed = clock.now();
        self.write_buffer = Some(buffers);
        Ok(elapsed)
    }

    /// Discards the region, or gives its space back to the file system, durably. It depends on the mount
    /// options if the drive is told; a caveat says so if it is not.
    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError> {
        self.check_region(region)?;
        let clock = Clock::start();
        self.medium.trim(region)?;
        let elapsed = clock.now();
        if self.environment.discards == Some(false) {
            self.add_caveat(NO_DISCARD.to_owned());
        }
        Ok(elapsed)
    }

    fn rest(
        &mut self,
        duration: Nanoseconds,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError> {
        self.idle_hold.release_during(|| rest(duration, observer))
    }

    fn purge(&mut self) -> Result<(), DriveError> {
        let Some(device) = self.medium.device() else {
            return Err(DriveError::new(
                ErrorKind::Unsupported,
                format!(
                    "{}: a drive cannot be purged through a file on it",
                    self.medium.named().display()
                ),
            ));
        };
        let outcome = self.options.purge.carry_out(device);
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

    fn whole_capacity(&self) -> Option<ByteLength> {
        self.environment.drive.as_ref().and_then(|drive| drive.whole_capacity())
    }

    fn set_measuring(&mut self, measuring: bool) {
        match measuring && self.options.hold_cpu_idle {
            true => self.idle_hold.acquire(),
            false => self.idle_hold.release(),
        }
    }

    fn read_health(&mut self, when: When) {
        let path = match (&self.medium, &self.environment.drive) {
            (Medium::Device(device), _) => device.device.clone(),
            (Medium::File { .. }, Some(drive)) => Path::new("/dev").join(&drive.disk),
            (Medium::File { .. }, None) => return,
        };
        let smart_data = &mut self.health[when as usize];
        if when == When::After || smart_data.is_none() {
            *smart_data = Some(smart::of(&path));
        }
    }

    fn examine(&mut self) -> Vec<Remark> {
        self.check_plausibility()
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

const NO_DISCARD: &str = "the file system is mounted without discard: the drive is not told of \
                          trimmed space until the next fstrim";

const LANES_CAPPED: &str = "workloads that are run request by request have at most 64 requests in flight each: a higher \
     depth counts as 64";

fn rest(duration: Nanoseconds, observer: &mut dyn Observer) -> Result<(), DriveError> {
    let clock = Clock::start();
    let mut reporter = ProgressReporter::new(observer);
    loop {
        let elapsed = clock.now();
        reporter.report(elapsed, || Progress {
            bytes_done: ByteLength::ZERO,
            bytes_total: None,
            elapsed,
            time_total: Some(duration),
        })?;
        if elapsed >= duration {
            return Ok(());
        }
        clock.wait_until(duration);
    }
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
            format!("{} does not support durable writes (RWF_DSYNC)", handle.shown.display()),
            error,
        ),
        _ => handle.transfer_error(request, buffer.len(), Err(error)),
    })
}
