//! A drive that records requests as steps of a script instead of executing them, and answers from results if
//! there are any.

use ssdlab_drive::{
    Amount, Description, Drive, DriveError, DriveKind, Durability, ErrorKind, Inside, Lane,
    LaneResult, Observer, Phase, PhaseResult, Rate, Region,
};
use ssdlab_interchange::script::{Step, step_name};
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::ScriptTarget;
use super::step_results::StepResult;

/// Maximum number of steps in a script.
const MAX_STEPS: usize = 500;

/// Assumed requests per second of a workload at full speed. A rate that is a share of it can be recognised.
const ASSUMED_IOPS: f64 = 1_000_000.0;

/// Minimum length of a round: that of an interval between fio's reports.
const MIN_ROUND: Nanoseconds = Nanoseconds::from_secs(1);

/// A drive that records requests, and answers from results if there are any.
pub(super) struct RecordingDrive {
    script_target: ScriptTarget,
    pub(super) steps: Vec<Step>,
    pub(super) space: ByteLength,
    now: Instant,
    /// Index of the last step at full speed.
    peak: Option<usize>,
    /// True if some steps consist of rounds.
    pub(super) has_rounds: bool,
    /// First request that a script cannot express: an experiment may continue without it, a script may not.
    pub(super) unsupported_request: Option<&'static str>,
    pub(super) results: Option<Vec<StepResult>>,
}

impl RecordingDrive {
    pub(super) fn new(script_target: ScriptTarget) -> RecordingDrive {
        RecordingDrive {
            script_target,
            steps: Vec::new(),
            space: ByteLength::ZERO,
            now: Instant::START,
            peak: None,
            has_rounds: false,
            unsupported_request: None,
            results: None,
        }
    }

    fn record_step(&mut self, step: Step) -> Result<(), DriveError> {
        if self.steps.len() == MAX_STEPS {
            let message = format!("takes more than {MAX_STEPS} steps, too many for a script");
            return Err(DriveError::new(ErrorKind::Unsupported, message));
        }
        self.steps.push(step);
        Ok(())
    }

    /// Returns an assumed result of a phase.
    fn assumed_result(&self, phase: &Phase) -> PhaseResult {
        let mut result = PhaseResult::begun(self.now);
        let speed = ASSUMED_IOPS;
        let block = phase.block_size;
        (result.requests, result.elapsed) = match phase.amount {
            Amount::Time(time) => ((time.seconds() * speed) as u64, time),
            Amount::Bytes(bytes) => {
                let requests = bytes.whole(block);
                (requests, Nanoseconds::from_secs_f64(requests as f64 / speed))
            }
        };
        let moved = block * result.requests;
        let reads = u64::from(phase.mix.read_percent);
        result.bytes_read = ByteLength::new((moved.bytes() / 100).saturating_mul(reads));
        result.bytes_written = moved - result.bytes_read;
        result
    }

    /// Records a workload as a step.
    fn record_workload(
        &mut self,
        phase: &Phase,
        of_peak: Option<(usize, f64)>,
    ) -> Result<(), DriveError> {
        phase.validate(self.script_target.capacity, ByteLength::new(512))?;
        if phase.rate.is_none() {
            self.peak = Some(self.steps.len());
        }
        self.record_step(Step::Work { phase: Box::new(phase.clone()), of_peak })
    }

    /// Returns the result of the step recorded last; `None` without results.
    fn last_result(&self, phase: &Phase) -> Result<Option<&StepResult>, DriveError> {
        let Some(results) = &self.results else { return Ok(None) };
        let number = self.steps.len() - 1;
        let found = results.iter().find(|result| result.step == number);
        found.map(Some).ok_or_else(|| {
            let message = format!("there is no result of step {}", step_name(number, phase));
            DriveError::new(ErrorKind::Io, message)
        })
    }

    pub(super) fn unsupported<T>(&mut self, what: &'static str) -> Result<T, DriveError> {
        self.unsupported_request.get_or_insert(what);
        let message = format!("{what}, which fio alone cannot do");
        Err(DriveError::new(ErrorKind::Unsupported, message))
    }

    /// Returns the requests per second of the step at full speed.
    fn peak_iops(&self, step: usize) -> f64 {
        let answered = self.results.as_ref().and_then(|results| {
            let found = results.iter().find(|result| result.step == step)?;
            Some(found.result.requests as f64 / found.result.elapsed.seconds())
        });
        answered.unwrap_or(ASSUMED_IOPS)
    }
}

impl Drive for RecordingDrive {
    fn description(&self) -> Description {
        Description {
            kind: if self.script_target.is_device { DriveKind::Device } else { DriveKind::File },
            name: self.script_target.name.clone(),
            capacity: self.script_target.capacity,
            block_size: ByteLength::new(512),
            engine: "fio".to_owned(),
            measures_flash: true,
            began_new: false,
            caveats: Vec::new(),
            facts: Vec::new(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        if length > self.script_target.capacity {
            let capacity = self.script_target.capacity;
            let message = format!("{length} are needed, and the target holds {capacity}");
            return Err(DriveError::new(ErrorKind::NoSpace, message));
        }
        self.space = self.space.max(length);
        Ok(())
    }

    fn run_phase(
        &mut self,
        phase: &Phase,
        _: &mut dyn Observer,
    ) -> Result<PhaseResult, DriveError> {
        let of_peak = match (phase.rate, self.peak) {
            (Some(Rate::Open(rate)), Some(peak)) => Some((peak, rate / self.peak_iops(peak))),
            (Some(Rate::Open(_)), None) => {
                return self.unsupported("it needs requests to arrive at a fixed rate");
            }
            _ => None,
        };
        self.record_workload(phase, of_peak)?;
        let result = match self.last_result(phase)? {
            None => self.assumed_result(phase),
            Some(found) => PhaseResult { started: self.now, ..found.result.clone() },
        };
        self.now += result.elapsed;
        Ok(result)
    }

    fn run_lanes(
        &mut self,
        _: Vec<Lane<'_>>,
        _: &mut dyn Observer,
    ) -> Result<Vec<LaneResult>, DriveError> {
        self.unsupported("it runs several workloads at once and chooses each request itself")
    }

    /// Records one step as long as all rounds together, since a script cannot detect steady state. fio
    /// reports at the end of each round, and steady state is detected from the results as on any drive.
    fn run_rounds(
        &mut self,
        phase: &Phase,
        round: Nanoseconds,
        most: u64,
    ) -> Result<Option<Vec<PhaseResult>>, DriveError> {
        let all = Phase {
            amount: Amount::Time(round * most),
            interval: round.max(MIN_ROUND),
            ..phase.clone()
        };
        self.has_rounds = true;
        self.record_workload(&all, None)?;
        let (rounds, elapsed) = match self.last_result(&all)? {
            None => (Vec::new(), round * most),
            Some(found) => (found.rounds.clone(), found.result.elapsed),
        };
        self.now += elapsed;
        Ok(Some(rounds))
    }

    fn write_block(&mut self, _: Region, _: Durability, _: u64) -> Result<Nanoseconds, DriveError> {
        self.unsupported("it writes single blocks and waits for each")
    }

    fn flush(&mut self) -> Result<Nanoseconds, DriveError> {
        self.record_step(Step::Flush)?;
        Ok(Nanoseconds::ZERO)
    }

    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError> {
        self.record_step(Step::Trim(region))?;
        Ok(Nanoseconds::ZERO)
    }

    fn rest(&mut self, duration: Nanoseconds, _: &mut dyn Observer) -> Result<(), DriveError> {
        self.now += duration;
        self.record_step(Step::Rest(duration))
    }

    fn purge(&mut self) -> Result<(), DriveError> {
        self.record_step(Step::Purge)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn inside(&self) -> Option<Inside> {
        None
    }

    fn clean_up(&mut self) -> Result<(), DriveError> {
        Ok(())
    }
}
