//! Preconditioning of simulated drives: brings a drive into a defined state, and saves it.

use std::path::Path;

use ssdlab_drive::simulated::{SimulatedDrive, saved};
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Skew};
use ssdlab_model::precondition::PreconditionError;
pub use ssdlab_model::precondition::{CacheFill, Past, Workload};
use ssdlab_model::profile::Profile;
use ssdlab_units::text::{QuantityError, parse_duration, parse_length, parse_percent};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use crate::error::LabError;
use crate::experiment::{PhaseObserver, Watcher};

/// Queue depth of random writes.
const DEPTH: u32 = 32;

/// Maximum amount to write, in capacities; more does not change the state.
const MAX_CAPACITIES: f64 = 1_000.0;

/// State that a drive is brought into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never written.
    New,
    /// Written sequentially once in large requests.
    Sequential,
    /// Filled sequentially, and then written randomly unit by unit.
    Random,
    /// Full, in the steady state of random writes; computed from theory, without writing.
    Steady,
}

/// Amount to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteAmount {
    /// Multiple of the capacity.
    Capacities(f64),
    /// Bytes.
    Bytes(ByteLength),
}

impl WriteAmount {
    /// Parses `2x` (times the capacity) or a length.
    ///
    /// # Errors
    /// Returns an error if the text is neither.
    pub fn parse(text: &str) -> Result<WriteAmount, QuantityError> {
        let wrong = || QuantityError {
            text: text.to_owned(),
            expected: "an amount to write, such as 2x (times the capacity, up to 1000x) or 500 GB",
        };
        let Some(times) = text.trim().strip_suffix('x') else {
            return parse_length(text).map(WriteAmount::Bytes).map_err(|_| wrong());
        };
        let times = times.trim().parse::<f64>().ok();
        times
            .filter(|times| (0.0..=MAX_CAPACITIES).contains(times))
            .map(WriteAmount::Capacities)
            .ok_or_else(wrong)
    }

    /// Returns the amount in whole blocks of `block`, for a drive of `capacity`.
    fn on(self, capacity: ByteLength, block: ByteLength) -> ByteLength {
        let bytes = match self {
            WriteAmount::Capacities(times) => (capacity.bytes() as f64 * times) as u64,
            WriteAmount::Bytes(bytes) => bytes.bytes(),
        };
        block * ByteLength::new(bytes).whole(block)
    }
}

/// Maximum storage time of a drive.
const MAX_STORAGE_TIME: Nanoseconds = Nanoseconds::from_secs(100 * 365 * 24 * 3600);

/// Parses a storage time such as `365d`.
///
/// # Errors
/// Returns an error if the text is no duration, or longer than a hundred years.
pub fn parse_storage_time(text: &str) -> Result<Nanoseconds, QuantityError> {
    parse_duration(text).ok().filter(|&duration| duration <= MAX_STORAGE_TIME).ok_or_else(|| {
        QuantityError {
            text: text.to_owned(),
            expected: "a duration of up to 100 years, such as 90d or 1y",
        }
    })
}

/// Parses `80%:20%`: a share of the writes, and the share of the drive that they go to.
///
/// # Errors
/// Returns an error if the text has another form, or if a share is not between 0.1 and 99.9 %.
pub fn parse_hot_cold(text: &str) -> Result<Workload, QuantityError> {
    let wrong = || QuantityError {
        text: text.to_owned(),
        expected: "shares of the writes and of the drive, such as 80%:20%",
    };
    let (writes, pages) = text.split_once(':').ok_or_else(wrong)?;
    let share = |text: &str| {
        parse_percent(text).ok().filter(|share| (0.001..=0.999).contains(share)).ok_or_else(wrong)
    };
    Ok(Workload::HotCold { writes: share(writes)?, pages: share(pages)? })
}

/// Parameters of the preconditioning of a new drive.
#[derive(Clone, Copy, Debug)]
pub struct Preconditioning {
    /// State to bring the drive into.
    pub state: State,
    /// Amount to write: for a steady drive after the steady state is set up, otherwise to reach the state.
    /// `None` is one capacity, or nothing for a steady drive.
    pub written: Option<WriteAmount>,
    /// Storage time without power after the writes.
    pub stored_for: Nanoseconds,
    /// Workload of the steady state.
    pub workload: Workload,
    /// Content of the SLC cache in the steady state.
    pub cache: CacheFill,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Preconditioning {
    /// Returns the past writes that define the steady state.
    fn steady_history(&self) -> Past {
        Past { workload: self.workload, cache: self.cache, seed: self.seed }
    }
}

/// Bytes that preconditioning writes or places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// MappedExtent directly in the steady state of theory, without writing.
    pub placed: ByteLength,
    /// Bytes written sequentially.
    pub sequential: ByteLength,
    /// Bytes written randomly.
    pub random: ByteLength,
}

impl Preconditioning {
    /// Returns the amounts for a drive of `capacity`.
    pub fn amounts(&self, capacity: ByteLength) -> Amounts {
        let written = |or| self.written.map_or(or, |it| it.on(capacity, ByteLength::new(1)));
        let nothing = ByteLength::ZERO;
        let [placed, sequential, random] = match self.state {
            State::New => [nothing; 3],
            State::Sequential => [nothing, written(capacity), nothing],
            State::Random => [nothing, capacity, written(capacity)],
            State::Steady => [capacity, nothing, written(nothing)],
        };
        Amounts { placed, sequential, random }
    }
}

/// Creates a drive of `profile`, called `name`, and preconditions it. Returns the drive and a description of
/// its history.
///
/// # Errors
/// Returns an error if the profile is invalid, theory has no steady state for it, or the watcher ends the
/// run.
pub fn precondition(
    name: &str,
    profile: &Profile,
    preconditioning: Preconditioning,
    watcher: &mut dyn Watcher,
) -> Result<(SimulatedDrive, String), LabError> {
    let configuration = profile.configuration()?;
    let wrong = |why: String| LabError::Target { text: name.to_owned(), why };
    let mut drive = match preconditioning.state {
        State::Steady => {
            SimulatedDrive::preconditioned(name, configuration, preconditioning.steady_history())
                .map_err(|error| match error {
                    PreconditionError::NoTheory { .. } => LabError::Unsupported(format!(
                        "target '{name}': {error} (--state random --written 3x)"
                    )),
                    error => wrong(error.to_string()),
                })?
        }
        _ => SimulatedDrive::new(name, configuration).map_err(|error| wrong(error.to_string()))?,
    };
    let once = WriteAmount::Capacities(1.0);
    let mut history = match preconditioning.state {
        State::New => "new".to_owned(),
        State::Sequential => {
            let bytes = write(
                &mut drive,
                Pattern::Sequential,
                preconditioning.written.unwrap_or(once),
                preconditioning,
                watcher,
            )?;
            format!("written sequentially, {bytes} in requests of 1 MiB")
        }
        State::Random => {
            write(&mut drive, Pattern::Sequential, once, preconditioning, watcher)?;
            let bytes = write(
                &mut drive,
                Pattern::Random,
                preconditioning.written.unwrap_or(once),
                preconditioning,
                watcher,
            )?;
            format!("filled sequentially, then {bytes} written at random places, unit by unit")
        }
        State::Steady => {
            let writes = match preconditioning.workload {
                Workload::Uniform => "random writes".to_owned(),
                Workload::HotCold { writes, pages } => format!(
                    "random writes, {:.0} % of them to the first {:.0} % of the drive",
                    writes * 100.0,
                    pages * 100.0
                ),
            };
            let cache = match preconditioning.cache {
                CacheFill::Empty => "",
                CacheFill::Full => ", with a full cache",
            };
            let steady = format!("full, in the steady state of {writes}{cache}, computed directly");
            match preconditioning.written {
                None => steady,
                Some(written) => {
                    let pattern = write_pattern(preconditioning.workload);
                    let bytes = write(&mut drive, pattern, written, preconditioning, watcher)?;
                    let places = match preconditioning.workload {
                        Workload::Uniform => "at random places",
                        Workload::HotCold { .. } => "to the drive in these shares",
                    };
                    format!("{steady}; then {bytes} written {places}, unit by unit")
                }
            }
        }
    };
    if preconditioning.stored_for > Nanoseconds::ZERO {
        drive.store(preconditioning.stored_for)?;
        let days = preconditioning.stored_for.seconds() / 86_400.0;
        history.push_str(&format!("; then stored for {days:.0} days"));
    }
    Ok((drive, history))
}

/// Returns the order of blocks for writes of `workload` over a whole drive.
pub(crate) fn write_pattern(workload: Workload) -> Pattern {
    let parts = |share: f64| (share * 10_000.0).round() as u16;
    match workload {
        Workload::Uniform => Pattern::Random,
        Workload::HotCold { writes, pages } => {
            Pattern::Skewed(Skew::hot_and_cold(parts(writes), parts(pages)))
        }
    }
}

/// Writes `written` to the whole drive, and returns the number of bytes.
fn write(
    drive: &mut SimulatedDrive,
    pattern: Pattern,
    written: WriteAmount,
    preconditioning: Preconditioning,
    watcher: &mut dyn Watcher,
) -> Result<ByteLength, LabError> {
    let description = drive.description();
    // Writes smaller than a unit would be read-modify-writes.
    let unit = drive.inside().map_or(description.block_size, |inside| inside.unit);
    let capacity = description.capacity;
    let sequential = pattern == Pattern::Sequential;
    let block = if sequential { MIB.max(unit) } else { unit };
    // The end of the drive, less than a large block, is written unit by unit.
    let rest = if sequential { capacity - block * capacity.whole(block) } else { ByteLength::ZERO };
    let bytes = written.on(capacity, block);
    watcher.step(if sequential { "sequential writes" } else { "random writes" }, 0.5);
    let mut phase = Phase {
        name: "age".to_owned(),
        pattern,
        block_size: block,
        depth: if sequential { 1 } else { DEPTH },
        mix: Mix::WRITE,
        region: Region::first(capacity - rest),
        amount: Amount::Bytes(bytes),
        rate: None,
        seed: preconditioning.seed,
        flush_at_end: false,
        interval: Nanoseconds::ZERO,
    };
    if bytes > ByteLength::ZERO {
        drive.run_phase(&phase, &mut PhaseObserver::new(watcher))?;
    }
    if rest > ByteLength::ZERO && bytes >= phase.region.length {
        phase.block_size = unit;
        phase.region = Region { offset: capacity - rest, length: rest };
        phase.amount = Amount::Bytes(rest);
        drive.run_phase(&phase, &mut PhaseObserver::new(watcher))?;
    }
    Ok(bytes)
}

/// Checks that a drive can be saved at `path` without replacing a file against the user's will.
///
/// # Errors
/// Returns an error if a file exists at `path` that must not be replaced.
pub fn check_save_path(path: &Path, replace: bool) -> Result<(), LabError> {
    Ok(saved::refuse_existing(path, replace)?)
}

/// Shuts `drive` down and saves it; see [`saved::save`].
///
/// # Errors
/// Returns an error if a file exists that must not be replaced, the drive cannot be saved, or writing fails.
pub fn save(
    drive: &mut SimulatedDrive,
    profile: &Profile,
    history: &str,
    path: &Path,
    replace: bool,
) -> Result<(), LabError> {
    Ok(saved::save(drive, profile, history, path, replace)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::NullWatcher;
    use ssdlab_units::GIB;

    fn profile() -> Profile {
        let mut profile = Profile::named("toshiba-xg5").unwrap();
        for (key, value) in
            [("flash.pages_per_block", "12"), ("capacity.physical", "1G"), ("spare", "20%")]
        {
            profile.set(key, value).unwrap();
        }
        profile
    }

    fn preconditioned(state: State, written: Option<WriteAmount>) -> (SimulatedDrive, String) {
        precondition(
            "test",
            &profile(),
            Preconditioning {
                state,
                written,
                stored_for: Nanoseconds::ZERO,
                workload: Workload::Uniform,
                cache: CacheFill::Empty,
                seed: 1,
            },
            &mut NullWatcher,
        )
        .unwrap()
    }

    #[test]
    fn a_drive_is_written_as_its_history_says() {
        let units = profile().configuration().unwrap().geometry.logical_units();
        let written = |preconditioned: &(SimulatedDrive, String)| {
            let inside = preconditioned.0.inside().unwrap();
            inside.counters.host_written(inside.unit).whole(inside.unit)
        };
        assert_eq!(written(&preconditioned(State::New, None)), 0);
        assert_eq!(
            written(&preconditioned(State::Sequential, None)),
            u64::from(units),
            "to the last unit"
        );
        let twice = preconditioned(State::Random, Some(WriteAmount::Capacities(2.0)));
        assert_eq!(written(&twice), 3 * u64::from(units));
        assert!(twice.1.contains("1.60 GiB written at random"), "{}", twice.1);
        assert_eq!(twice.0.inside().unwrap().counters.host_part_units, 0, "unit by unit");
        let steady = preconditioned(State::Steady, None);
        assert_eq!(written(&steady), 0);
        assert!(steady.1.contains("computed directly"));
    }

    #[test]
    fn hot_shares_are_two_percentages() {
        let hot = Workload::HotCold { writes: 0.8, pages: 0.2 };
        assert_eq!(parse_hot_cold("80%:20%"), Ok(hot));
        for wrong in ["80%", "80:20", "0%:20%", "80%:100%"] {
            assert!(parse_hot_cold(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn amounts_are_capacities_or_lengths() {
        assert_eq!(WriteAmount::parse("2x"), Ok(WriteAmount::Capacities(2.0)));
        assert_eq!(WriteAmount::parse("1 GiB"), Ok(WriteAmount::Bytes(GIB)));
        for wrong in ["x", "-1x", "1e9x", "much"] {
            assert!(WriteAmount::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_theory_does_not_know_is_said_with_the_way_out() {
        let mut profile = profile();
        profile.set("collection.policy", "cost-benefit").unwrap();
        let preconditioning = Preconditioning {
            state: State::Steady,
            written: None,
            stored_for: Nanoseconds::ZERO,
            workload: Workload::Uniform,
            cache: CacheFill::Empty,
            seed: 1,
        };
        let error = precondition("test", &profile, preconditioning, &mut NullWatcher)
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("--state random"), "{error}");
    }
}
