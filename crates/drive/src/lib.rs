//! What takes requests, and what it is put through: the trait, the workloads, and simulated drives.
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

/// What kind of drive answers.
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

/// What a drive says of itself, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// What kind of drive this is.
    pub kind: DriveKind,
    /// How the user named it.
    pub name: String,
    /// Bytes that can be addressed.
    pub capacity: ByteLength,
    /// The smallest aligned request.
    pub block_size: ByteLength,
    /// How requests reach the drive: "virtual time", "O_DIRECT, io_uring", ...
    pub engine: String,
    /// True if figures are those of flash as far as is known: not of memory, a host, a network,
    /// a rotating disk, the page cache, or a file system that scatters files by itself.
    pub measures_flash: bool,
    /// True if nothing had ever been written to it when it was opened, as far as is known.
    pub began_new: bool,
    /// What is not as one would expect: a fallback taken, a cache in the way. One sentence each.
    pub caveats: Vec<String>,
    /// Facts about the drive as name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
}

/// The inside of a drive; only a simulated one can show it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// What its counters count: its mapping unit.
    pub unit: ByteLength,
    /// What the drive has done since it was made.
    pub counters: Counters,
    /// How worn its flash is.
    pub wear: Wear,
    /// Erased flash that collection does not keep free: until it is written, nothing is collected.
    pub unused: ByteLength,
    /// Where the time of its requests went.
    pub attribution: Attribution,
    /// How worn it is, in the words of the health log; nothing of a stack.
    pub health: Option<Health>,
    /// What theory expects of it, where there is a closed form.
    pub expectation: Option<Expectation>,
}

/// How far a phase has come. Drives report it several times a second at most.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes transferred in this phase so far.
    pub bytes_done: ByteLength,
    /// Bytes the phase will transfer, where that is known beforehand.
    pub bytes_total: Option<ByteLength>,
    /// The drive's time since the phase (or the rest) began.
    pub elapsed: Nanoseconds,
    /// The drive's time the phase (or the rest) will take, where that is known beforehand.
    pub time_total: Option<Nanoseconds>,
}

/// Watches a phase: shows progress, and may end it.
pub trait Observer {
    /// Called now and then while a phase or a rest runs. Returning [`Control::Cancel`] ends it
    /// with [`ErrorKind::Cancelled`].
    fn progress(&mut self, progress: &Progress) -> Control;
}

/// True if a phase goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// End now, clean up, keep what was measured.
    Cancel,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// As soon as the drive has the data.
    Cached,
    /// When it will survive a power cut (force unit access).
    Through,
}

/// Before or after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before its first phase.
    Before,
    /// After its last one.
    After,
}

/// Something that has to be said of a drive's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// A stable name of it.
    pub code: &'static str,
    /// A sentence or two.
    pub text: String,
}

/// An observer that looks away.
pub struct Unobserved;

impl Observer for Unobserved {
    fn progress(&mut self, _: &Progress) -> Control {
        Control::Continue
    }
}

/// A drive that others like it can be made from, so that each of several workloads finds the
/// same drive, and finds it at the same time. Real drives are none.
pub trait Template: Sync {
    /// Another drive in the very state that this one is in.
    fn copy(&self) -> Box<dyn Drive + Send>;

    /// Another drive of the same kind, made new in the way that was chosen; where that is not at all,
    /// in the state that this one is in.
    fn copy_new(&self) -> Result<Box<dyn Drive + Send>, DriveError>;

    /// Two drives in RAID 1, each in the very state that this one is in: what was written to this one
    /// was written to both.
    fn mirrored(&self) -> Box<dyn Drive + Send>;
}

/// Something that takes requests.
///
/// Every method either does what it says or returns an error; a drive that cannot do a thing
/// says so with [`ErrorKind::Unsupported`] and changes nothing.
pub trait Drive {
    /// Returns what the drive says of itself. For a real drive this may gain caveats as it is used.
    fn description(&self) -> Description;

    /// Makes the first `length` bytes addressable: a real drive on a file creates it (after
    /// checking free space), a model or a device only checks its capacity.
    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError>;

    /// Puts the drive through one workload and measures it.
    fn run_phase(
        &mut self,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<PhaseResult, DriveError>;

    /// Runs `phase` for at most `most` rounds of the length `round`, one after the other without a
    /// pause, and returns what each of them measured: for drives that have to be told everything
    /// before it begins, or that only hand out what was measured elsewhere. Every other drive says
    /// `None`, and is asked round by round.
    fn run_rounds(
        &mut self,
        _phase: &Phase,
        _round: Nanoseconds,
        _most: u64,
    ) -> Result<Option<Vec<PhaseResult>>, DriveError> {
        Ok(None)
    }

    /// Runs several workloads at once, each request by request; see [`lanes`]. Returns what each of
    /// them measured.
    fn run_lanes(
        &mut self,
        _lanes: Vec<Lane<'_>>,
        _observer: &mut dyn Observer,
    ) -> Result<Vec<LaneResult>, DriveError> {
        let message = "this drive runs no workloads request by request";
        Err(DriveError::new(ErrorKind::Unsupported, message))
    }

    /// Writes one block by itself and waits for it; returns how long that took. Meant for what is
    /// slow by nature: a phase writes many blocks at less cost to the host.
    fn write_block(
        &mut self,
        block: Region,
        durability: Durability,
        seed: u64,
    ) -> Result<Nanoseconds, DriveError> {
        if durability == Durability::Through {
            let message = "this drive is not written to with force unit access";
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

    /// Makes all acknowledged writes durable; returns how long that took.
    fn flush(&mut self) -> Result<Nanoseconds, DriveError>;

    /// Tells the drive that a region holds nothing any more; returns how long that took.
    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError>;

    /// Leaves the drive alone for `duration` of its own time.
    fn rest(
        &mut self,
        duration: Nanoseconds,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError>;

    /// Makes the drive as new: everything trimmed and erased.
    fn make_new(&mut self) -> Result<(), DriveError>;

    /// Says how a simulated drive is made new; a real one was told when it was opened.
    fn choose_make_new(&mut self, how: simulated::MakeNew) -> Result<(), DriveError> {
        let message = format!("this drive cannot be {}", how.words());
        Err(DriveError::new(ErrorKind::Unsupported, message))
    }

    /// The drive's own time.
    fn now(&self) -> Instant;

    /// The inside, where it can be seen.
    fn inside(&self) -> Option<Inside>;

    /// Returns how many flash pages of each die a read of `region` needs, of a single simulated SSD whose inside is
    /// recorded.
    fn pages_by_die(&self, _region: Region) -> Option<Vec<u32>> {
        None
    }

    /// Bytes of flash behind the addresses, where that is known.
    fn physical_capacity(&self) -> Option<ByteLength> {
        None
    }

    /// Returns the bytes that the whole drive can address, of which a file or an area under test is
    /// only a part; `None` where that is not known.
    fn whole_capacity(&self) -> Option<ByteLength> {
        None
    }

    /// Says that measuring begins or is over. Around a real drive, what else the machine would do
    /// meanwhile is kept from being measured, as far as it lets itself be kept.
    fn set_measuring(&mut self, _measuring: bool) {}

    /// Asks a real drive for its temperature, wear and errors, for its description.
    fn look_at_health(&mut self, _when: When) {}

    /// Returns what has to be said of the answers the drive gave: that they came from elsewhere, or that they depend on
    /// the data. To be asked at the end; a real drive is written to for that, at its beginning.
    fn examine(&mut self) -> Vec<Remark> {
        Vec::new()
    }

    /// The drive as one that others can be made from, where that can be done.
    fn template(&self) -> Option<&dyn Template> {
        None
    }

    /// The drive as a simulated one, for what needs more of it than this trait has: a file system
    /// that keeps its own time.
    fn simulated(&mut self) -> Option<&mut simulated::SimulatedDrive> {
        None
    }

    /// The directory in which a real drive's files are created, free of links.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }

    /// Removes whatever the run created (files); called at the end and after errors. Dropping a
    /// drive does the same, silently.
    fn clean_up(&mut self) -> Result<(), DriveError>;
}
