//! An experiment without a drive: what it would do, to be written as a script; and with results
//! that fio has brought back from that script, the report that it would have made.
//!
//! An experiment is written against [`Drive`], so that a drive which only takes notes learns the
//! protocol, and one which answers from notes puts the results into the very same report.

use ssdlab_drive::{
    Amount, Description, Drive, DriveError, DriveKind, Durability, ErrorKind, Inside, Latencies,
    Observer, Phase, PhaseResult, Rate, Region, ThroughputPoint,
};
use ssdlab_interchange::fio::json::{FioJob, FioRun, Interval};
use ssdlab_interchange::script::{Script, Step, Tag, step_name};
use ssdlab_model::units::{ByteLength, Instant, Nanoseconds};

use crate::error::LabError;
use crate::experiment::{self, Experiment, Record, Settings, Unwatched};
use crate::report::{Fact, Report};

/// The most steps of a script.
const MOST_STEPS: usize = 500;

/// Requests per second that a workload at full speed is taken to reach, so that a rate which is a
/// share of it can be told.
const PRETENDED_IOPS: f64 = 1_000_000.0;

/// fio reports no more often than this, and rounds are as long as it takes from one report to the
/// next.
const SHORTEST_ROUND: Nanoseconds = Nanoseconds::from_secs(1);

/// A drive on another machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Elsewhere {
    /// How it is named there.
    pub name: String,
    /// Whether it is a block device; otherwise a file to be made.
    pub is_device: bool,
    /// Bytes of the device; of a file, the most it may have.
    pub capacity: ByteLength,
}

/// A drive that takes notes, and answers from results where there are some.
struct Notes {
    elsewhere: Elsewhere,
    steps: Vec<Step>,
    space: ByteLength,
    now: Instant,
    /// The step that went at full speed last.
    peak: Option<usize>,
    /// Whether some steps are rounds.
    has_rounds: bool,
    /// What was asked for that cannot be: an experiment may go on without it, a script may not.
    cannot: Option<&'static str>,
    answers: Option<Vec<Answer>>,
}

/// What fio has measured of one step.
struct Answer {
    step: usize,
    result: PhaseResult,
    /// From one of fio's reports to the next.
    rounds: Vec<PhaseResult>,
}

impl Notes {
    fn new(elsewhere: Elsewhere) -> Notes {
        Notes {
            elsewhere,
            steps: Vec::new(),
            space: ByteLength::ZERO,
            now: Instant::START,
            peak: None,
            has_rounds: false,
            cannot: None,
            answers: None,
        }
    }

    fn note(&mut self, step: Step) -> Result<(), DriveError> {
        if self.steps.len() == MOST_STEPS {
            let message = format!("takes more than {MOST_STEPS} steps, too many for a script");
            return Err(DriveError::new(ErrorKind::Unsupported, message));
        }
        self.steps.push(step);
        Ok(())
    }

    /// What a phase is pretended to come to.
    fn pretended(&self, phase: &Phase) -> PhaseResult {
        let mut result = PhaseResult::begun(self.now);
        let speed = PRETENDED_IOPS;
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

    /// Notes a workload as a step.
    fn note_work(
        &mut self,
        phase: &Phase,
        of_peak: Option<(usize, f64)>,
    ) -> Result<(), DriveError> {
        phase.validate(self.elsewhere.capacity, ByteLength::new(512))?;
        if phase.rate.is_none() {
            self.peak = Some(self.steps.len());
        }
        self.note(Step::Work { phase: Box::new(phase.clone()), of_peak })
    }

    /// What was measured of the step noted last, where there are results.
    fn answer(&self, phase: &Phase) -> Result<Option<&Answer>, DriveError> {
        let Some(answers) = &self.answers else { return Ok(None) };
        let number = self.steps.len() - 1;
        let found = answers.iter().find(|answer| answer.step == number);
        found.map(Some).ok_or_else(|| {
            let message = format!("there is no result of step {}", step_name(number, phase));
            DriveError::new(ErrorKind::Io, message)
        })
    }

    fn unsupported<T>(&mut self, what: &'static str) -> Result<T, DriveError> {
        self.cannot.get_or_insert(what);
        let message = format!("{what}, which fio alone cannot do");
        Err(DriveError::new(ErrorKind::Unsupported, message))
    }
}

impl Drive for Notes {
    fn description(&self) -> Description {
        Description {
            kind: if self.elsewhere.is_device { DriveKind::Device } else { DriveKind::File },
            name: self.elsewhere.name.clone(),
            capacity: self.elsewhere.capacity,
            block_size: ByteLength::new(512),
            engine: "fio".to_owned(),
            measures_flash: true,
            began_new: false,
            caveats: Vec::new(),
            facts: Vec::new(),
        }
    }

    fn prepare(&mut self, length: ByteLength) -> Result<(), DriveError> {
        if length > self.elsewhere.capacity {
            let held = self.elsewhere.capacity;
            let message = format!("{length} are needed, and the target holds {held}");
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
            (Some(Rate::Open(rate)), Some(peak)) => Some((peak, rate / self.peak_rate(peak))),
            (Some(Rate::Open(_)), None) => {
                return self.unsupported("it needs arrivals at a rate of its own");
            }
            _ => None,
        };
        self.note_work(phase, of_peak)?;
        let result = match self.answer(phase)? {
            None => self.pretended(phase),
            Some(answer) => PhaseResult { started: self.now, ..answer.result.clone() },
        };
        self.now += result.elapsed;
        Ok(result)
    }

    /// One step as long as all rounds there may be: a script cannot tell when they are steady, but
    /// fio reports at the end of each, and from the results it is told as on any drive.
    fn run_rounds(
        &mut self,
        phase: &Phase,
        round: Nanoseconds,
        most: u64,
    ) -> Result<Option<Vec<PhaseResult>>, DriveError> {
        let all = Phase {
            amount: Amount::Time(round * most),
            interval: round.max(SHORTEST_ROUND),
            ..phase.clone()
        };
        self.has_rounds = true;
        self.note_work(&all, None)?;
        let (rounds, elapsed) = match self.answer(&all)? {
            None => (Vec::new(), round * most),
            Some(answer) => (answer.rounds.clone(), answer.result.elapsed),
        };
        self.now += elapsed;
        Ok(Some(rounds))
    }

    fn write_block(&mut self, _: Region, _: Durability, _: u64) -> Result<Nanoseconds, DriveError> {
        self.unsupported("it writes single blocks and waits for each")
    }

    fn flush(&mut self) -> Result<Nanoseconds, DriveError> {
        self.note(Step::Flush)?;
        Ok(Nanoseconds::ZERO)
    }

    fn trim(&mut self, region: Region) -> Result<Nanoseconds, DriveError> {
        self.note(Step::Trim(region))?;
        Ok(Nanoseconds::ZERO)
    }

    fn rest(&mut self, duration: Nanoseconds, _: &mut dyn Observer) -> Result<(), DriveError> {
        self.now += duration;
        self.note(Step::Rest(duration))
    }

    fn make_new(&mut self) -> Result<(), DriveError> {
        self.note(Step::MakeNew)
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

impl Notes {
    /// Requests a second of the step at full speed.
    fn peak_rate(&self, step: usize) -> f64 {
        let answered = self.answers.as_ref().and_then(|answers| {
            let found = answers.iter().find(|answer| answer.step == step)?;
            Some(found.result.requests as f64 / found.result.elapsed.seconds())
        });
        answered.unwrap_or(PRETENDED_IOPS)
    }
}

/// The protocol of `experiment` as steps for a script.
///
/// # Errors
/// When the experiment does what a script cannot, or does not fit on the target.
pub fn script(
    experiment: &dyn Experiment,
    settings: &Settings,
    seed: u64,
    elsewhere: &Elsewhere,
    tag: Tag,
) -> Result<Script, LabError> {
    let mut notes = Notes::new(elsewhere.clone());
    let cannot = |error: DriveError| match error.kind() {
        ErrorKind::Unsupported => LabError::Unsupported(format!("{}: {error}", experiment.name())),
        _ => LabError::Drive(error),
    };
    let plan = experiment.plan(settings, &notes.description())?;
    notes.prepare(plan.space).map_err(cannot)?;
    let mut record = Record::default();
    let outcome = experiment.run(settings, seed, &mut notes, &mut record, &mut Unwatched);
    outcome.map_err(|error| match error {
        LabError::Drive(error) => cannot(error),
        other => other,
    })?;
    if let Some(what) = notes.cannot {
        return notes.unsupported(what).map_err(cannot);
    }
    let mut remarks = Vec::new();
    if notes.has_rounds {
        remarks.push(
            "Where the protocol measures until a workload is steady, this measures as long as it \
             would at most; when it was steady is told from the results."
                .to_owned(),
        );
    }
    let is_open = |step: &Step| matches!(step, Step::Work { of_peak: Some(_), .. });
    if notes.steps.iter().any(is_open) {
        remarks.push(
            "fio counts latencies of arrivals from when a request is sent, not from its arrival."
                .to_owned(),
        );
    }
    if settings.shortened() {
        remarks.push("The protocol was changed or shortened.".to_owned());
    }
    Ok(Script {
        experiment: experiment.name().to_owned(),
        question: experiment.question().to_owned(),
        tag,
        target: elsewhere.name.clone(),
        is_device: elsewhere.is_device,
        space: notes.space,
        steps: notes.steps,
        has_rounds: notes.has_rounds,
        remarks,
    })
}

/// The tag that all jobs of these runs have, where they are those of a script step by step.
pub fn tag_of(runs: &[FioRun]) -> Option<Tag> {
    let mut jobs = runs.iter().flat_map(|run| &run.jobs);
    let tag = Tag::parse(jobs.next()?.description.as_deref()?)?;
    let is_same = |job: &FioJob| {
        job.description.as_deref().and_then(Tag::parse).is_some_and(|other| other == tag)
    };
    jobs.all(is_same).then_some(tag)
}

/// Puts results of a script's jobs into the report of the experiment that the script was made of;
/// `plain` is the report of the jobs as such, whose facts it takes over.
///
/// # Errors
/// When results are missing, or have no histograms (`json+`).
pub fn played_back(tag: &Tag, runs: &[FioRun], plain: Report) -> Result<Report, LabError> {
    let experiment = experiment::named(&tag.experiment)?;
    let settings = Settings::new(experiment, tag.quick, &tag.set)?;
    let answers = runs.iter().flat_map(|run| &run.jobs).map(answer).collect::<Result<_, _>>()?;
    let is_device = plain.target.kind == crate::report::TargetKind::Device;
    let capacity = tag.capacity;
    let mut notes = Notes::new(Elsewhere { name: plain.target.name.clone(), is_device, capacity });
    notes.answers = Some(answers);
    let outcome = crate::run(experiment, &settings, tag.seed, &mut notes, &mut Unwatched);
    if let Some(LabError::Drive(error)) = outcome.error {
        return Err(LabError::Unsupported(format!("{}: {error}", experiment.name())));
    }
    let mut report = outcome.report;
    report.target = plain.target;
    report
        .target
        .facts
        .push(Fact { name: "protocol".to_owned(), value: "run by an exported script".to_owned() });
    (report.host, report.started, report.cost) = (plain.host, plain.started, plain.cost);
    report.interrupted |= plain.interrupted;
    Ok(report)
}

/// The step that a job is the result of, and what it measured.
fn answer(job: &FioJob) -> Result<Answer, LabError> {
    let wrong = |why: &str| LabError::Unsupported(format!("job {}: {why}", job.name));
    let number = job.name.split('-').next().and_then(|number| number.parse::<usize>().ok());
    let number = number.and_then(|number| number.checked_sub(1));
    let step = number.ok_or_else(|| wrong("its name has no number of a step"))?;
    let [read, write, ..] = &job.sides;
    let longest = read.seconds.max(write.seconds);
    if longest <= 0.0 {
        return Err(wrong("it took no time that fio could measure"));
    }
    let mut result = PhaseResult::begun(Instant::START);
    result.elapsed = Nanoseconds::from_secs_f64(longest);
    result.requests = read.requests + write.requests;
    result.bytes_read = ByteLength::new(read.bytes);
    result.bytes_written = ByteLength::new(write.bytes);
    for (side, latencies) in
        [(read, &mut result.read_latencies), (write, &mut result.write_latencies)]
    {
        if side.requests > 0 && side.bins.is_empty() {
            return Err(wrong("it has no histogram; fio writes one with --output-format=json+"));
        }
        fill(&side.bins, latencies);
    }
    let mut before = 0.0;
    for &(seconds, mb_per_second) in &job.curve {
        let length = seconds - before;
        result.throughput.push(ThroughputPoint {
            until: Nanoseconds::from_secs_f64(seconds),
            bytes: ByteLength::new((mb_per_second * 1e6 * length) as u64),
            length: Nanoseconds::from_secs_f64(length),
        });
        before = seconds;
    }
    Ok(Answer { step, result, rounds: rounds(&job.intervals) })
}

/// A last report that follows so soon after the one before, as a share of an interval, is that of
/// the job's end, and no round.
const NO_ROUND: f64 = 0.5;

/// What came between fio's reports, as rounds.
fn rounds(intervals: &[Interval]) -> Vec<PhaseResult> {
    let usual = intervals.first().map_or(0.0, |first| first.seconds);
    let is_round = |interval: &&Interval| interval.seconds >= usual * NO_ROUND;
    intervals.iter().filter(is_round).map(round).collect()
}

fn round(interval: &Interval) -> PhaseResult {
    let [read, write, _] = &interval.parts;
    let mut result = PhaseResult::begun(Instant::START);
    result.elapsed = Nanoseconds::from_secs_f64(interval.seconds);
    result.requests = read.requests + write.requests;
    result.bytes_read = ByteLength::new(read.bytes);
    result.bytes_written = ByteLength::new(write.bytes);
    fill(&read.bins, &mut result.read_latencies);
    fill(&write.bins, &mut result.write_latencies);
    result
}

fn fill(bins: &[(u64, u64)], latencies: &mut Latencies) {
    for &(nanos, count) in bins {
        latencies.record_many(Nanoseconds::new(nanos), count);
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_interchange::script::Form;

    use super::*;

    fn elsewhere(is_device: bool) -> Elsewhere {
        let name = if is_device { "/dev/sdx" } else { "/mnt/new.dat" };
        let capacity = ByteLength::new(64 << 30);
        Elsewhere { name: name.to_owned(), is_device, capacity }
    }

    fn rehearsed(name: &str, is_device: bool) -> Result<Script, LabError> {
        rehearsed_with(name, is_device, true)
    }

    fn rehearsed_with(name: &str, is_device: bool, quick: bool) -> Result<Script, LabError> {
        let experiment = experiment::named(name).unwrap();
        let settings = Settings::new(experiment, quick, &[])?;
        let elsewhere = elsewhere(is_device);
        let (experiment_name, capacity) = (name.to_owned(), elsewhere.capacity);
        let tag = Tag { experiment: experiment_name, seed: 1, quick, capacity, set: Vec::new() };
        script(experiment, &settings, 1, &elsewhere, tag)
    }

    #[test]
    fn protocols_become_steps() {
        let script = rehearsed("fragmentation", false).unwrap();
        let works = script.steps.iter().filter(|step| matches!(step, Step::Work { .. })).count();
        // The fill, and three reads before and after each of four steps of writes.
        assert!(works >= 1 + 4 + 3, "{works}");
        assert!(script.space > ByteLength::ZERO);
        for name in ["blocksize", "random-write", "steady", "latency"] {
            let script = rehearsed(name, true).unwrap();
            assert!(!script.steps.is_empty(), "{name}");
        }
    }

    #[test]
    fn arrivals_are_shares_of_the_peak() {
        let script = rehearsed("latency", true).unwrap();
        let shares: Vec<f64> = script
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Work { of_peak, .. } => of_peak.map(|(_, share)| share),
                _ => None,
            })
            .collect();
        assert_eq!(shares.len(), 3);
        for (share, expected) in shares.iter().zip([0.5, 0.7, 0.9]) {
            assert!((share - expected).abs() < 0.01, "{shares:?}");
        }
    }

    #[test]
    fn rounds_become_one_long_step() {
        let script = rehearsed("steady", true).unwrap();
        assert!(script.steps.len() < 10, "{}", script.steps.len());
    }

    #[test]
    fn whole_passes_over_an_area_become_one_long_step_too() {
        for quick in [true, false] {
            let script = rehearsed_with("overprovision", true, quick).unwrap();
            assert!(script.has_rounds);
            // Two states: made new, filled, written to at random, trimmed in one of them, and four
            // operations.
            assert_eq!(script.steps.len(), 2 * 7 + 1);
            let sequential = script.steps.iter().find_map(|step| match step {
                Step::Work { phase, .. } if phase.name == "seq_write" => Some(phase),
                _ => None,
            });
            let limit = if quick { 60 } else { 2 * 3600 };
            // Whole rounds: a part of one more than the limit at most.
            let Amount::Time(time) = sequential.unwrap().amount else { panic!("not by time") };
            assert!((0.0..1.0).contains(&(time.seconds() - limit as f64)), "{time:?}");
        }
    }

    #[test]
    fn scripts_for_windows_are_grammatical_for_every_experiment_that_has_one() {
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).unwrap();
        let mut rendered = Vec::new();
        for experiment in experiment::all() {
            let name = experiment.name();
            for (is_device, quick) in [(true, true), (true, false), (false, true), (false, false)] {
                let Ok(script) = rehearsed_with(name, is_device, quick) else { continue };
                let text = script.render(Form::PowerShell).unwrap();
                let tree = parser.parse(&text, None).unwrap();
                let root = tree.root_node();
                assert!(!root.has_error(), "{name}: {}\n{text}", root.to_sexp());
                assert!(text.contains("NOT TRIED ON WINDOWS"), "{name}");
                rendered.push((name, is_device));
            }
        }
        for name in ["blocksize", "random-write", "steady", "latency", "overprovision"] {
            assert_eq!(rendered.iter().filter(|one| **one == (name, true)).count(), 2, "{name}");
        }
        for name in ["fragmentation", "latency"] {
            assert!(rendered.contains(&(name, false)), "{name} on a file");
        }
    }

    #[test]
    fn what_fio_cannot_do_is_said() {
        let error = rehearsed("barrier", true).unwrap_err();
        assert!(error.to_string().contains("fio alone cannot"), "{error}");
    }
}
