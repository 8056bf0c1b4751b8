//! Drives and their workloads: the trait `Drive`, phases of requests, and simulated drives.
//!
//! | role | type |
//! | --- | --- |
//! | takes requests | [`Drive`]: a simulated SSD or a stack of them ([`simulated`], [`stack`]); a real one elsewhere |
//! | one workload, in the vocabulary of fio | [`Phase`]; several at once, request by request: [`lanes`] |
//! | where requests go and when they arrive | [`addresses`], [`arrivals`] |
//! | what was measured | [`PhaseResult`], [`Latencies`] |
//! | watches a phase, and may end it | [`Observer`] |
//! | takes pictures of the inside of an SSD | [`recording`] |
//!
//! An experiment is written once against the trait. Time belongs to the drive: virtual for a model,
//! monotonic for a real one.
//!
//! ```
//! use ssdlab_drive::simulated::SimulatedDrive;
//! use ssdlab_drive::stack::Composition;
//! use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};
//! use ssdlab_model::profile::Profile;
//! use ssdlab_units::{KIB, MIB, Nanoseconds};
//!
//! let mut profile = Profile::named("generic-tlc")?;
//! profile.set("scale", "1/64")?;
//! let composition = Composition::Ssd(Box::new(profile.configuration()?));
//! let mut drive = SimulatedDrive::of("sim:generic-tlc", composition)?;
//!
//! let phase = Phase {
//!     name: "fill".to_owned(),
//!     pattern: Pattern::Sequential,
//!     block_size: KIB * 128,
//!     depth: 8,
//!     mix: Mix::WRITE,
//!     region: Region::first(MIB * 64),
//!     amount: Amount::Bytes(MIB * 64),
//!     rate: None,
//!     seed: 1,
//!     flush_at_end: true,
//!     interval: Nanoseconds::from_secs(1),
//! };
//! let filled = drive.run_phase(&phase, &mut Unobserved)?;
//! assert_eq!(filled.bytes_written, MIB * 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod addresses;
pub mod arrivals;
pub mod lanes;
pub mod measure;
pub mod memory;
pub mod phase;
pub mod recording;
pub mod simulated;
pub mod skew;
pub mod stack;

pub use ssdlab_error::{DriveError, ErrorKind};

pub use lanes::{Lane, LaneRequest, LaneResult, Operation, Source};
pub use measure::{Latencies, PhaseResult, ThroughputPoint};
pub use phase::{Amount, Mix, Pattern, Phase, Rate, Region};
pub use skew::Skew;
use ssdlab_error as error;

use serde::{Deserialize, Serialize};
use ssdlab_model::Expectation;
use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::health::Health;
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

/// Kind of drive that answers the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// The model, in virtual time.
    Simulated,
    /// A file that the run creates.
    File,
    /// A file that the run creates in a directory the user named.
    Directory,
    /// A block device.
    Device,
}

/// Description of a drive, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Kind of drive.
    pub kind: DriveKind,
    /// Name of the drive, as the user gave it.
    pub name: String,
    /// Bytes that can be addressed.
    pub capacity: ByteLength,
    /// Size of the smallest aligned request.
    pub block_size: ByteLength,
    /// Means by which requests reach the drive: "virtual time", "O_DIRECT, io_uring", ...
    pub engine: String,
    /// True if figures are those of flash as far as is known: not of memory, a host, a network,
    /// a rotating disk, the page cache, or a file system that scatters files by itself.
    pub measures_flash: bool,
    /// True if nothing had ever been written to the drive when it was opened, as far as is known.
    pub began_new: bool,
    /// Deviations from what a reader of the report would expect: a fallback taken, a cache in the way. One
    /// sentence each.
    pub caveats: Vec<String>,
    /// Facts about the drive as name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
}

/// Internal state of a drive; only a simulated drive can show it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// Unit of the counters: the drive's mapping unit.
    pub unit: ByteLength,
    /// Counters of the drive's operations since it was made.
    pub counters: Counters,
    /// Wear of the flash.
    pub wear: Wear,
    /// Erased flash beyond what garbage collection keeps free. Until it is written, nothing is collected.
    pub unused: ByteLength,
    /// Time of the requests by cause.
    pub attribution: Attribution,
    /// Wear of the drive as its health log states it; `None` for a stack.
    pub health: Option<Health>,
    /// Prediction of theory for the drive; `None` where there is no closed form.
    pub expectation: Option<Expectation>,
}

/// Progress of a phase. Drives report it several times a second at most.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes transferred in this phase so far.
    pub bytes_done: ByteLength,
    /// Bytes the phase will transfer; `None` if that is not known beforehand.
    pub bytes_total: Option<ByteLength>,
    /// The drive's time since the phase (or the rest) began.
    pub elapsed: Nanoseconds,
    /// The drive's time that the phase (or the rest) will take; `None` if that is not known beforehand.
    pub time_total: Option<Nanoseconds>,
}

/// Watches a phase: shows progress, and may end it.
pub trait Observer {
    /// Called from time to time while a phase or a rest runs. Returning [`Control::Cancel`] ends it with
    /// [`ErrorKind::Cancelled`].
    fn progress(&mut self, progress: &Progress) -> Control;
}

/// Answer of an observer: continue the phase, or end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Continue.
    Continue,
    /// End now, clean up, and keep the results so far.
    Cancel,
}

/// Moment at which a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// As soon as the drive has received the data.
    Cached,
    /// Once the data will survive a power cut (force unit access).
    Through,
}

/// Time of a health check: before or after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the first phase.
    Before,
    /// After the last phase.
    After,
}

/// A remark on a drive's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Stable name of the remark.
    pub code: &'static str,
    /// Text of the remark: a sentence or two.
    pub text: String,
}

/// An observer that ignores progress and never cancels.
pub struct Unobserved;

impl Observer for Unobserved {
    fn progress(&mut self, _: &Progress) -> Control {
        Control::Continue
    }
}

/// A drive from which others like it can be made, so that each of several workloads finds the same drive,
/// and finds it at the same time. Real drives are none.
pub trait Template: Sync {
    /// Returns another drive in exactly the state of this one.
    fn copy(&self) -> Box<dyn Drive + Send>;

    /// Returns another drive of the same kind, purged by the chosen method. If the method is not to purge,
    /// returns a drive in the state of this one.
    fn copy_purged(&self) -> Result<Box<dyn Drive + Send>, DriveError>;

    /// Returns two drives in RAID 1, each in exactly the state of this one: all data written to this drive
    /// was written to both.
    fn mirrored(&self) -> Box<dyn Drive + Send>;
}

/// A drive that takes requests.
///
/// Every method either does what it says or returns an error. A drive that cannot do something returns
/// [`ErrorKind::Unsupported`] and changes nothing.
pub trait Drive {
    /// Returns the description of the drive. That of a real drive may gain caveats as it is used.
    fn description(&self) -> Description;

    /// Makes the first `length` bytes addressable: a real drive on a file creates it (after
    /// checking free space), a model or a device only checks its capacity.
    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError>;

    /// Runs one workload on the drive and measures it.
    fn run_phase(
        &mut self,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<PhaseResult, DriveError>;

    /// Runs `phase` for at most `most` rounds of the length `round`, one after the other without a pause,
    /// and returns the result of each round. This is for drives that need all steps before the run begins,
    /// or that only hand out results measured elsewhere. All other drives return `None`, and the caller
    /// runs the rounds one by one.
    fn run_rounds(
        &mut self,
        _phase: &Phase,
        _round: Nanoseconds,
        _most: u64,
    ) -> Result<Option<Vec<PhaseResult>>, DriveError> {
        Ok(None)
    }

    /// Runs several workloads at the same time, each request by request; see [`lanes`]. Returns the result
    /// of each.
    fn run_lanes(
        &mut self,
        _lanes: Vec<Lane<'_>>,
        _observer: &mut dyn Observer,
    ) -> Result<Vec<LaneResult>, DriveError> {
        let message = "this drive cannot run workloads request by request";
        Err(DriveError::new(ErrorKind::Unsupported, message))
    }

    /// Writes one block and waits for the answer; returns the time that this took. It is meant for writes
    /// that are slow in any case: a phase writes many blocks at less cost to the host.
    fn write_block(
        &mut self,
        block: Region,
        durability: Durability,
        seed: u64,
    ) -> Result<Nanoseconds, DriveError> {
        if durability == Durability::Through {
            let message = "this drive cannot be written with FUA (force unit access)";
            return Err(DriveError::new(ErrorKind::Unsupported, message));
        }
        let phase = Phase {
            name: "one block".to_owned(),
            pattern: Pattern::Sequential,
            block_size: block.length,
            depth: 1,
            mix: Mix::WRITE,
            region: block,
            amount: Amount::Bytes(block.length),
            rate: None,
            seed,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        let result = self.run_phase(&phase, &mut Unobserved)?;
        Ok(result.write_latencies.mean().unwrap_or(result.elapsed))
    }

    /// Makes all answered writes durable; returns the time that this took.
    fn flush(&mut self) -> Result<Nanoseconds, DriveError>;

    /// Trims a region: it holds no data any more. Returns the time that this took.
    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError>;

    /// Sends no requests to the drive for `duration` of its own time.
    fn rest(
        &mut self,
        duration: Nanoseconds,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError>;

    /// Purges the drive by its purge method, so that it is as new.
    fn purge(&mut self) -> Result<(), DriveError>;

    /// Sets the purge method of a simulated drive. The method of a real drive was set when it was opened.
    fn set_purge_method(&mut self, how: simulated::PurgeMethod) -> Result<(), DriveError> {
        let message = format!("this drive cannot be {}", how.words());
        Err(DriveError::new(ErrorKind::Unsupported, message))
    }

    /// Returns the drive's own time.
    fn now(&self) -> Instant;

    /// Returns the internal state of the drive, or `None` if it cannot be seen.
    fn inside(&self) -> Option<Inside>;

    /// Returns the number of flash pages on each die that a read of `region` needs. `None` unless the drive
    /// is a single simulated SSD whose internal state is recorded.
    fn pages_by_die(&self, _region: Region) -> Option<Vec<u32>> {
        None
    }

    /// Returns the bytes of flash behind the addresses, or `None` if that is not known.
    fn physical_capacity(&self) -> Option<ByteLength> {
        None
    }

    /// Returns the bytes that the whole drive can address, of which a file or an area under test is only a
    /// part. `None` if that is not known.
    fn whole_capacity(&self) -> Option<ByteLength> {
        None
    }

    /// Called with true when measuring begins and with false when it ends. For a real drive, influences of
    /// the machine on the measurement (such as idle states of the processors) are kept away meanwhile, as
    /// far as possible.
    fn set_measuring(&mut self, _measuring: bool) {}

    /// Reads temperature, wear and errors of a real drive, for its description.
    fn read_health(&mut self, _when: When) {}

    /// Returns remarks on the drive's answers: that they came from elsewhere, or that they depend on the
    /// data. Called at the end of a run. On a real drive, data is written to its first addresses for that.
    fn examine(&mut self) -> Vec<Remark> {
        Vec::new()
    }

    /// Returns the drive as a template for other drives, or `None` if it cannot be one.
    fn template(&self) -> Option<&dyn Template> {
        None
    }

    /// Returns the drive as a simulated one, or `None` if it is not. For callers that need more of it than
    /// this trait has, such as a file system that keeps its own time.
    fn simulated(&mut self) -> Option<&mut simulated::SimulatedDrive> {
        None
    }

    /// Returns the directory in which a real drive's files are created, free of symbolic links. `None` if
    /// there is none.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }

    /// Removes whatever the run created (files); called at the end and after errors. Dropping a
    /// drive does the same, silently.
    fn clean_up(&mut self) -> Result<(), DriveError>;
}
