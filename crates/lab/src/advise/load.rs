//! The measured workload of the advice, as a phase on a scaled-down drive.

use std::path::{Path, PathBuf};

use ssdlab_drive::{Amount, Description, Mix, Pattern, Phase, Region};
use ssdlab_interchange::InputError;
use ssdlab_interchange::fio::work::{Space, Work};
use ssdlab_interchange::fio::{Direction, Job, JobFile};
use ssdlab_units::{ByteLength, Nanoseconds};

use crate::error::LabError;

/// The measured workload.
#[derive(Clone, Debug)]
pub enum Load {
    /// Requests of a mapping unit at random addresses of the whole drive: the workload of closed forms.
    Units {
        /// Reads per hundred requests.
        read_percent: u8,
        /// Requests in flight.
        depth: u32,
    },
    /// Requests of one size on the whole drive.
    Blocks {
        /// Order of the blocks.
        pattern: Pattern,
        /// Length of a request; `None` for the mapping unit.
        block_size: Option<ByteLength>,
        /// Reads per hundred requests.
        read_percent: u8,
        /// Requests in flight.
        depth: u32,
    },
    /// A fio job.
    Job {
        /// Job file.
        path: PathBuf,
        /// The job.
        job: Box<Job>,
    },
}

/// Sizes that the phase of a load depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Mapping unit of the drive. A smaller write is a read-modify-write.
    pub(super) unit: ByteLength,
    /// Capacity of the full-size drive, if a scaled-down one is simulated.
    pub(super) whole: ByteLength,
}

impl Load {
    /// Reads the only job of a job file.
    ///
    /// # Errors
    /// Returns an error with the line if the file cannot be parsed, has more than one job, or uses an option
    /// that advice does not support.
    pub fn read(path: &Path) -> Result<Load, LabError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LabError::Read { path: path.to_owned(), source })?;
        let wrong = |source| LabError::Input { path: path.to_owned(), source };
        let file = JobFile::parse(&text).map_err(wrong)?;
        let mut jobs = file.jobs();
        let Some(job) = jobs.next() else {
            return Err(wrong(InputError::whole("it contains no job")));
        };
        if let Some(other) = jobs.next() {
            let why = "advice is for one job; leave the others out";
            return Err(wrong(InputError::at(other.line, why)));
        }
        let job = check_job(job).map_err(wrong)?;
        Ok(Load::Job { path: path.to_owned(), job: Box::new(job) })
    }

    /// Returns true if closed forms predict the write amplification of the load.
    pub(super) fn has_closed_form(&self) -> bool {
        matches!(self, Load::Units { .. })
    }

    /// Returns the names and values of the relevant settings.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let own = |name: &str, value: String| (name.to_owned(), value);
        match self {
            Load::Units { read_percent, depth } => {
                vec![own("read_percent", read_percent.to_string()), own("depth", depth.to_string())]
            }
            Load::Blocks { pattern, block_size, read_percent, depth } => vec![
                own("pattern", pattern_name(*pattern)),
                own("block_size", block_size.map_or("unit".to_owned(), |it| it.to_string())),
                own("read_percent", read_percent.to_string()),
                own("depth", depth.to_string()),
            ],
            Load::Job { job, .. } => {
                let settings = job.settings().into_iter();
                settings.map(|(name, value)| (format!("{}.{name}", job.name), value)).collect()
            }
        }
    }

    /// Returns the load as a phase on a scaled-down drive. A region is the same share of both drives.
    pub(super) fn phase(
        &self,
        drive: &Description,
        Sizes { unit, whole }: Sizes,
        seed: u64,
    ) -> Result<Phase, LabError> {
        let all = Region::first(unit * drive.capacity.whole(unit));
        let phase = |pattern, block_size: ByteLength, read_percent, depth| Phase {
            name: "advise".to_owned(),
            pattern,
            block_size,
            depth,
            mix: Mix { read_percent },
            region: Region::first(block_size * all.length.whole(block_size)),
            amount: Amount::Bytes(block_size),
            rate: None,
            seed,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        match self {
            Load::Units { read_percent, depth } => {
                Ok(phase(Pattern::Random, unit, *read_percent, *depth))
            }
            Load::Blocks { pattern, block_size, read_percent, depth } => {
                Ok(phase(*pattern, block_size.unwrap_or(unit), *read_percent, *depth))
            }
            Load::Job { path, job } => {
                let wrong = |source| LabError::Input { path: path.clone(), source };
                let space = Space { capacity: whole, unit: drive.block_size, is_fixed: true };
                let work = Work::new(job, space).map_err(wrong)?;
                let block = job.block_size;
                let share = |bytes: ByteLength| {
                    let scaled = bytes.bytes() as f64 / whole.bytes() as f64;
                    block
                        * ByteLength::new((scaled * all.length.bytes() as f64) as u64).whole(block)
                };
                let region = Region {
                    offset: share(work.region().offset),
                    length: share(work.region().length),
                };
                if region.length == ByteLength::ZERO {
                    let why = format!(
                        "its region is smaller than one block of {block} on the scaled-down drive"
                    );
                    return Err(wrong(InputError::at(job.line, why)));
                }
                let found = work.phase(seed, Nanoseconds::ZERO).ok_or_else(|| {
                    wrong(InputError::at(job.line, "it cannot be expressed as one workload"))
                })?;
                Ok(Phase { region, ..found })
            }
        }
    }
}

/// Returns the order of blocks as it can be typed.
fn pattern_name(pattern: Pattern) -> String {
    match pattern {
        Pattern::Sequential | Pattern::SequentialFrom(_) => "sequential".to_owned(),
        Pattern::Random => "random".to_owned(),
        Pattern::RandomOnce => "random-once".to_owned(),
        Pattern::Skewed(skew) => skew.to_string(),
    }
}

/// Returns the job without options that do not matter for advice: its duration, and the work before and after
/// it.
fn check_job(job: &Job) -> Result<Job, InputError> {
    let refuse = |why: &str| Err(InputError::at(job.line, why));
    match job.direction {
        Direction::Read => {
            return refuse("it writes nothing, so over-provisioning does nothing for it");
        }
        Direction::Trim => return refuse("it only trims; advice is for writes"),
        Direction::Write | Direction::Mixed(_) => {}
    }
    if job.flush_every.is_some() || job.think.is_some() {
        return refuse("advise does not support fsync and thinktime; leave them out");
    }
    if job.copies > 1 && !job.random {
        return refuse("advise does not support copies of a sequential job; leave numjobs out");
    }
    let mut job = job.clone();
    // Copies at random addresses of one region are equivalent to a higher queue depth.
    job.depth = job.depth.saturating_mul(job.copies);
    job.copies = 1;
    job.loops = 1;
    job.io_size = None;
    job.runtime = None;
    job.time_based = false;
    job.ramp = Nanoseconds::ZERO;
    job.flush_at_end = false;
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Load, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mix.fio");
        std::fs::write(&path, text).unwrap();
        Load::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_job_that_is_not_for_advice_is_refused_with_its_line() {
        let begin = "[global]\ndirect=1\nioengine=libaio\n";
        for (job, words) in [
            ("[a]\nrw=read\n", "writes nothing"),
            ("[a]\nrw=trim\n", "only trims"),
            ("[a]\nrw=randwrite\nfsync=1\n", "fsync"),
            ("[a]\nrw=write\nnumjobs=2\n", "numjobs"),
            ("[a]\nrw=write\n[b]\nrw=write\n", "one job"),
        ] {
            let error = read(&format!("{begin}{job}")).unwrap_err();
            assert!(error.contains(words) && error.contains("line"), "{error}");
        }
    }

    #[test]
    fn regions_keep_their_share_of_the_drive() {
        let text = "[a]\ndirect=1\nioengine=libaio\nrw=randwrite\nnorandommap\nbs=8k\noffset=25%\n\
                    size=50%\niodepth=8\nnumjobs=4\nruntime=60\nramp_time=5\n";
        let load = read(text).unwrap();
        let drive = drive();
        let whole = ByteLength::new(64 << 30);
        let sizes = Sizes { unit: ByteLength::new(4096), whole };
        let phase = load.phase(&drive, sizes, 1).unwrap();
        assert_eq!(phase.region.offset, ByteLength::new(1 << 28));
        assert_eq!(phase.region.length, ByteLength::new(1 << 29));
        assert_eq!((phase.pattern, phase.depth), (Pattern::Random, 32));
        assert_eq!(phase.block_size, ByteLength::new(8192));
        assert!(!load.has_closed_form());
    }

    #[test]
    fn requests_have_the_size_of_the_mapping_unit_and_not_of_a_sector() {
        let unit = ByteLength::new(16384);
        let sizes = Sizes { unit, whole: ByteLength::new(64 << 30) };
        let units = Load::Units { read_percent: 0, depth: 32 };
        let pattern = Pattern::Sequential;
        let blocks = Load::Blocks { pattern, block_size: None, read_percent: 0, depth: 32 };
        for load in [units, blocks] {
            assert_eq!(load.phase(&drive(), sizes, 1).unwrap().block_size, unit);
        }
    }

    fn drive() -> Description {
        Description {
            kind: ssdlab_drive::DriveKind::Simulated,
            name: String::new(),
            capacity: ByteLength::new(1 << 30),
            block_size: ByteLength::new(512),
            engine: String::new(),
            measures_flash: true,
            began_new: true,
            caveats: Vec::new(),
            facts: Vec::new(),
        }
    }
}
