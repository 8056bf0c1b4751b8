//! Real drives: [`RealDrive`] implements [`ssdlab_drive::Drive`] on a file that the run creates, or on a
//! block device.
//!
//! The file has no name, so that the system removes it however the run ends. A block device is opened for
//! writing only through a safety gate: [`Candidate`] shows what would be destroyed, and only the
//! [`Permit`] that it gives opens the device for writing.
//!
//! Requests use direct I/O (O_DIRECT): one at a time by positioned reads and writes (reads through
//! io_uring if the thread waits for the drive), more than one through io_uring. What a system lacks is
//! replaced by the next best, and the drive's description says so.
//!
//! [`data::BlockData`] generates the data of writes: no drive can compress it, and data that is read back
//! can be checked without remembering what was written.
//!
//! ```
//! use ssdlab_blockio::data::{BlockData, SECTOR};
//! use ssdlab_units::ByteLength;
//!
//! let data = BlockData::new(1);
//! let mut block = vec![0; 4096];
//! data.fill(&mut block, ByteLength::ZERO, 7);
//! assert!(data.verify(&block, ByteLength::ZERO).is_ok());
//! assert!(data.verify(&block, SECTOR).is_err(), "a block that lies elsewhere");
//! ```

#[cfg(target_os = "linux")]
mod aio;
mod buffers;
#[cfg(target_os = "linux")]
mod busy_poll;
mod cpu_idle;
pub mod data;
mod drive_impl;
mod engines;
mod environment;
mod file;
mod free_space;
mod gate;
mod handle;
mod lanes;
mod medium;
mod os;
mod payload;
mod phase_runner;
mod plausibility;
mod probe;
mod purge;
mod synchronous;
mod target;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

pub use self::cpu_idle::{CPU_IDLE_HELD, PROCESSORS};
pub use self::engines::Engine;
pub use self::gate::{Candidate, Permit, is_block_device};
pub use self::plausibility::EXAMINE_BYTES_MAX;
pub use self::probe::{PROBE_LENGTH, run_on_null_target};
pub use self::purge::PurgeMethod;

use std::path::Path;

use ssdlab_blockdev::smart::Smart;
use ssdlab_blockdev::{Identity, System};
use ssdlab_drive::Observer;
use ssdlab_drive::measure::PhaseResult;
use ssdlab_drive::phase::{Mix, Phase, Region};
use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::{ByteLength, Nanoseconds};

use self::buffers::Buffers;
use self::cpu_idle::{CpuIdleFiles, CpuIdleHold};
use self::engines::{prefers_aio, uring_unavailable_reason};
use self::environment::Environment;
use self::file::OwnFile;
use self::gate::OpenDevice;
use self::handle::{Access, Handle};
use self::medium::Medium;
use self::phase_runner::{Clock, PhaseRunner};
use self::plausibility::Plausibility;
use self::target::Target;

/// Options for a real drive.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// True if a file system without direct I/O is an error. Otherwise requests go through the page cache
    /// there, with a caveat.
    pub require_direct: bool,
    /// Space of the file system that must stay free; `None` for 1 GiB or 5 % of its size, whichever is
    /// more.
    pub reserve: Option<ByteLength>,
    /// I/O engine.
    pub engine: Engine,
    /// Purge method for a block device before the test.
    pub purge: PurgeMethod,
    /// True if the processors are kept from sleeping while measuring, if the kernel accepts such requests
    /// from this process.
    pub hold_cpu_idle: bool,
    /// True if a path that does not exist names a file to create. Otherwise such a path is an error,
    /// since it may be the mistyped name of a directory.
    pub create_file: bool,
}

impl Default for RealOptions {
    fn default() -> Self {
        RealOptions {
            require_direct: true,
            reserve: None,
            engine: Engine::default(),
            purge: PurgeMethod::default(),
            hold_cpu_idle: true,
            create_file: false,
        }
    }
}

/// A drive, by way of a file system or as a block device.
///
/// Reads of data that was never written (or was trimmed) are answered by the file system, without
/// touching the drive: fill a region before reading it.
pub struct RealDrive {
    medium: Medium,
    options: RealOptions,
    clock: Clock,
    access: Access,
    length: ByteLength,
    environment: Environment,
    /// Reason why io_uring is not available; `None` if it is.
    no_uring: Option<String>,
    /// True if Linux AIO is used instead of io_uring.
    prefers_aio: bool,
    /// Caveats that came up while the drive was used.
    caveats: Vec<String>,
    /// Number of the next write, over all phases, so that no two write the same data.
    sequence: u64,
    /// SMART data before and after the run, or the reason why it is not known.
    health: [Option<Result<Smart, String>>; 2],
    plausibility: Plausibility,
    /// Buffer of single writes.
    write_buffer: Option<Buffers>,
    idle_hold: CpuIdleHold,
}

impl RealDrive {
    /// Opens the drive below `path`: a directory, or with [`RealOptions::create_file`] a file that does
    /// not exist yet.
    ///
    /// An empty file is created directly, which shows if the place can be written to and if direct I/O
    /// works. The file has no name, or is unlinked as soon as it exists, and so disappears even when the
    /// process is killed. Existing files are never touched.
    pub fn open(path: &Path, options: RealOptions) -> Result<RealDrive, DriveError> {
        let system = System::real();
        let target = Target::classify(path, &system)?;
        target.check_wanted(options.create_file)?;
        let file = OwnFile::create(&target)?;
        let access = choose_access(&target, &file, &options)?;
        let mut environment = Environment::of(&file.handle.file, &system);
        if let Some(path) = file.path() {
            let why = "the file system cannot unlink an open file";
            let caveat = format!("{why}: a run that is killed leaves {} behind", path.display());
            environment.caveats.push(caveat);
        }
        let medium = Medium::File { target, file: Some(file) };
        Ok(RealDrive::from_parts(medium, access, environment, options))
    }

    /// Opens a block device exclusively, to destroy its contents.
    pub fn open_device(permit: Permit, options: RealOptions) -> Result<RealDrive, DriveError> {
        Ok(RealDrive::on_device(permit.open()?, options))
    }

    /// Opens the block device at `path` for reading only, even if it is in use.
    pub fn open_device_to_read(path: &Path, options: RealOptions) -> Result<RealDrive, DriveError> {
        Ok(RealDrive::on_device(OpenDevice::open_read_only(path)?, options))
    }

    fn on_device(device: OpenDevice, options: RealOptions) -> RealDrive {
        let block = device.identity.queue("logical_block_size").unwrap_or(512).max(512);
        let access = Access::Direct { alignment: ByteLength::new(block) };
        let environment = Environment::of_device(&device);
        RealDrive::from_parts(Medium::Device(device), access, environment, options)
    }

    fn from_parts(
        medium: Medium,
        access: Access,
        environment: Environment,
        options: RealOptions,
    ) -> RealDrive {
        RealDrive {
            prefers_aio: prefers_aio(&medium, access),
            medium,
            no_uring: uring_unavailable_reason(),
            options,
            clock: Clock::start(),
            access,
            length: ByteLength::ZERO,
            environment,
            caveats: Vec::new(),
            sequence: 0,
            health: [None, None],
            plausibility: Plausibility::default(),
            write_buffer: None,
            idle_hold: CpuIdleHold::new(CpuIdleFiles::real()),
        }
    }

    /// Names the drive that is measured, as far as the kernel knows it, and the file system on it: `vda,
    /// 256 GiB, ext4 on /`.
    pub fn describe_drive(&self) -> Option<String> {
        let drive = self.environment.drive.as_ref().map(Identity::short_description);
        let words: Vec<String> =
            drive.into_iter().chain(self.environment.mounted.clone()).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Returns an error if the block device cannot be purged by the chosen method, as far as that can be
    /// known without doing it.
    pub fn check_purge(&self) -> Result<(), DriveError> {
        self.medium.device().map_or(Ok(()), |device| self.options.purge.check(device))
    }

    /// Describes the share of the drive's rated endurance that `bytes` of writes use; `None` if no SMART
    /// data is known.
    pub fn describe_endurance(&self, bytes: ByteLength) -> Option<String> {
        let smart = self.health.iter().rev().flatten().find_map(|smart| smart.as_ref().ok());
        smart.map(|smart| smart.describe_endurance_share(bytes))
    }

    fn handle(&self) -> Result<&Handle, DriveError> {
        self.medium.handle()
    }

    /// Returns the length of the smallest aligned request.
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
                    "the region from {} to {} is not aligned to {alignment} within {}",
                    region.offset,
                    region.end(),
                    self.length
                ),
            ));
        }
        Ok(())
    }

    /// Runs a phase, for no longer than `at_most`.
    fn execute_phase(
        &mut self,
        phase: &Phase,
        time_limit: Option<Nanoseconds>,
        observer: &mut dyn Observer,
    ) -> Result<PhaseResult, DriveError> {
        self.handle()?;
        phase.validate(self.length, self.alignment())?;
        if phase.mix != Mix::READ {
            self.medium.check_writable()?;
        }
        if phase.mix != Mix::WRITE {
            self.drop_page_cache(phase.region)?;
        }
        let mut runner = PhaseRunner::new(phase, self.sequence);
        if let Some(time) = time_limit {
            runner.limit_time(time);
        }
        let outcome = self.run_with_engine(&mut runner, phase, observer);
        self.sequence = runner.sequence();
        let (started, elapsed) = outcome?;
        let result = runner.finish(started, elapsed);
        self.plausibility.record(&result);
        Ok(result)
    }

    /// Returns the facts known of the drive, with its SMART data before and after the run.
    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = self.environment.facts.clone();
        facts.extend(self.idle_hold.words().map(|words| (PROCESSORS.to_owned(), words.to_owned())));
        for (smart, when) in self.health.iter().zip(["before", "after"]) {
            let Some(smart) = smart else { continue };
            let words = match smart {
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

    /// If reads go through the page cache: writes dirty pages back and drops the cache, so that at least
    /// the first read of each block reaches the drive.
    fn drop_page_cache(&self, region: Region) -> Result<(), DriveError> {
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
                    self::handle::io_error(what, error.into())
                },
            )?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = region;
        Ok(())
    }
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
