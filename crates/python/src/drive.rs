//! Simulated drive that Python code runs phases and experiments on.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::prelude::*;
use ssdlab_drive::simulated::{PurgeMethod, SimulatedDrive};
use ssdlab_drive::{Drive as _, Region};
use ssdlab_lab::memory::MemoryEstimate;
use ssdlab_lab::precondition::{self, CacheFill, Preconditioning, State, Workload, WriteAmount};
use ssdlab_lab::report::ReportCounters;
use ssdlab_lab::run::{attribution_of, counters_of, health_of};
use ssdlab_lab::{LabError, Outcome, Target, experiment};
use ssdlab_model::profile::Profile;
use ssdlab_units::text::QuantityError;
use ssdlab_units::{Instant, Nanoseconds};

use crate::failure::{Failure, exception};
use crate::phase::{PhaseResult, Words, duration, length};
use crate::report::Report;
use crate::run::{Set, check_memory, deliver, run_on};
use crate::watch::Watch;

/// A simulated drive.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Drive(Mutex<Held>);

/// Drive with its origin and history.
#[derive(Clone)]
struct Held {
    drive: SimulatedDrive,
    /// Profile that the drive was made of; `None` for a stack.
    profile: Option<Box<Profile>>,
    /// Target by which the drive was opened.
    name: String,
    /// Description of what was done to the drive.
    history: String,
    /// True until something is done to the drive.
    is_untouched: bool,
}

impl Held {
    fn open(text: &str, seed: u64) -> Result<Held, Failure> {
        let target = Target::seeded(text, seed)?;
        let (profile, history) = match &target {
            Target::Simulated { profile, .. } => (Some(profile.clone()), "new".to_owned()),
            Target::Saved { saved, .. } => {
                (Some(Box::new(saved.profile().clone())), saved.history().to_owned())
            }
            Target::Stack(_) => (None, "new".to_owned()),
            Target::Path(path) => {
                return Err(Failure::usage(format!(
                    "{} is a path on a real drive; ssdlab.Drive takes simulated ones, such as \
                     sim:toshiba-xg5, and ssdlab.run(experiment, path) measures real ones",
                    path.display()
                )));
            }
        };
        if let Some(need) = MemoryEstimate::of_opening(&target) {
            check_memory(&target, &need)?;
        }
        let drive = target.open_simulated().expect("a target that is no path is simulated")?;
        let is_untouched = matches!(target, Target::Simulated { .. });
        Ok(Held { drive, profile, name: text.to_owned(), history, is_untouched })
    }

    fn counters(&self) -> ReportCounters {
        self.drive.inside().as_ref().map(counters_of).unwrap_or_default()
    }

    /// Adds to the history what was done to the drive.
    fn note(&mut self, what: &str) {
        self.is_untouched = false;
        // Repeated phases are listed once, to keep the history readable.
        if !self.history.ends_with(what) {
            self.history = format!("{}; then {what}", self.history);
        }
    }
}

/// Preconditioned state that is asked for, as Python passes it.
#[derive(FromPyObject)]
struct Past {
    #[pyo3(item)]
    state: String,
    #[pyo3(item)]
    written: Option<String>,
    #[pyo3(item)]
    hot: Option<String>,
    #[pyo3(item)]
    cache: Option<String>,
    #[pyo3(item)]
    stored_for: Option<String>,
    #[pyo3(item)]
    seed: u64,
}

impl Past {
    fn preconditioning(&self) -> Result<Preconditioning, Failure> {
        let named = |name: &'static str| {
            move |error: QuantityError| Failure::usage(format!("{name}: {error}"))
        };
        let usage = |words: &str| Err(Failure::usage(words));
        let state = match self.state.as_str() {
            "new" => State::New,
            "sequential" => State::Sequential,
            "random" => State::Random,
            "steady" => State::Steady,
            other => {
                return Err(Failure::usage(format!(
                    "there is no state '{other}'; there are: new, sequential, random, steady"
                )));
            }
        };
        if state == State::New && self.written.is_some() {
            return usage("written: nothing is written to a new drive");
        }
        if state != State::Steady && (self.hot.is_some() || self.cache.is_some()) {
            return usage("hot and cache: only the state steady takes them");
        }
        let written = self.written.as_deref().map(WriteAmount::parse).transpose();
        let stored = self.stored_for.as_deref().map(precondition::parse_storage_time).transpose();
        let hot = self.hot.as_deref().map(precondition::parse_hot_cold).transpose();
        Ok(Preconditioning {
            state,
            written: written.map_err(named("written"))?,
            stored_for: stored.map_err(named("stored_for"))?.unwrap_or(Nanoseconds::ZERO),
            workload: hot.map_err(named("hot"))?.unwrap_or(Workload::Uniform),
            cache: match self.cache.as_deref() {
                None | Some("empty") => CacheFill::Empty,
                Some("full") => CacheFill::Full,
                Some(other) => {
                    return Err(Failure::usage(format!("cache is '{other}', not empty or full")));
                }
            },
            seed: self.seed,
        })
    }
}

impl Drive {
    fn lock(&self) -> Result<MutexGuard<'_, Held>, Failure> {
        match self.0.try_lock() {
            Ok(held) => Ok(held),
            // The panic was reported already; the drive is in the state at which it was interrupted.
            Err(TryLockError::Poisoned(held)) => Ok(held.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Failure::usage(
                "another thread uses this drive right now; give each thread its own with copy()",
            )),
        }
    }

    /// Runs an action on the drive without holding the interpreter's lock. Raises the exception that ended it early.
    fn carry_out<T: Send>(
        &self,
        py: Python<'_>,
        callback: Option<Py<PyAny>>,
        action: impl FnOnce(&mut Held, &mut Watch) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let mut watch = Watch::new(callback);
        let done = py.detach(|| action(&mut *self.lock()?, &mut watch));
        let failure = match done {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        match watch.stopped(py).filter(|_| failure.is_cancelled()) {
            Some((error, false)) => Err(error),
            Some((error, true)) => {
                let words = "interrupted; the drive is in the state it had reached";
                let raised = exception(py, "Interrupted", words, None);
                raised.set_cause(py, Some(error));
                Err(raised)
            }
            None => Err(failure.into()),
        }
    }
}

#[pymethods]
impl Drive {
    /// Opens the drive that a target names.
    #[new]
    fn new(py: Python<'_>, text: &str, seed: u64) -> PyResult<Drive> {
        Ok(Drive(Mutex::new(py.detach(|| Held::open(text, seed))?)))
    }

    /// Another drive in the very same state.
    fn copy(&self, py: Python<'_>) -> PyResult<Drive> {
        let held = py.detach(|| self.lock().map(|held| held.clone()))?;
        Ok(Drive(Mutex::new(held)))
    }

    /// Returns what it says of itself, as JSON.
    fn description(&self) -> Result<String, Failure> {
        let held = self.lock()?;
        let description = held.drive.description();
        Ok(serde_json::json!({
            "name": held.name,
            "capacity_bytes": description.capacity.bytes(),
            "physical_bytes": held.drive.physical_capacity().map(|it| it.bytes()),
            "block_size": description.block_size.bytes(),
            "unit_size": held.drive.inside().map(|it| it.unit.bytes()),
            "history": held.history,
            "facts": description.facts,
            "seconds": held.drive.now().since(Instant::START).seconds(),
        })
        .to_string())
    }

    /// Returns what it has counted, how worn it is and where time went, as JSON.
    fn inside(&self) -> Result<String, Failure> {
        let held = self.lock()?;
        let inside = held.drive.inside();
        Ok(serde_json::json!({
            "counters": inside.as_ref().map(counters_of),
            "health": inside.and_then(|it| it.health).map(|health| health_of(&health)),
            "attribution": attribution_of(inside.as_slice()),
        })
        .to_string())
    }

    /// Brings a new drive into a used state.
    fn precondition(
        &self,
        py: Python<'_>,
        past: Past,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        self.carry_out(py, callback, |held, watch| {
            let preconditioning = past.preconditioning()?;
            let profile = match &held.profile {
                Some(profile) if held.is_untouched => profile.clone(),
                _ => {
                    return Err(Failure::usage(format!(
                        "{} cannot be preconditioned, as it is not a new drive of one profile; \
                         make one: ssdlab.Drive(\"sim:toshiba-xg5\").precondition(...)",
                        held.name
                    )));
                }
            };
            let target = Target::Simulated { name: held.name.clone(), profile: profile.clone() };
            let need = MemoryEstimate::of_preconditioning(&target);
            if let Some(need) = need.filter(|_| preconditioning.state != State::New) {
                check_memory(&target, &need)?;
            }
            let (drive, history) =
                precondition::precondition(&held.name, &profile, preconditioning, watch)?;
            (held.drive, held.history) = (drive, history);
            held.is_untouched = false;
            Ok(())
        })
    }

    /// Puts it through a phase.
    fn phase(
        &self,
        py: Python<'_>,
        words: Words,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<PhaseResult> {
        self.carry_out(py, callback, |held, watch| {
            let phase = words.phase(held.drive.description().capacity)?;
            let before = held.counters();
            held.note("phases of a program");
            let result = held.drive.run_phase(&phase, watch)?;
            Ok(PhaseResult::new(result, &before, &held.counters()))
        })
    }

    /// Makes all acknowledged writes durable; returns how many seconds that took.
    fn flush(&self, py: Python<'_>) -> PyResult<f64> {
        self.carry_out(py, None, |held, _| Ok(held.drive.flush()?.seconds()))
    }

    /// Tells it that a region holds nothing any more; returns how many seconds that took.
    fn trim(&self, py: Python<'_>, offset: &str, bytes: Option<&str>) -> PyResult<f64> {
        self.carry_out(py, None, |held, _| {
            let capacity = held.drive.description().capacity;
            let offset = length("offset", offset)?;
            let length = match bytes {
                Some(text) => length("length", text)?,
                None if offset < capacity => capacity - offset,
                None => {
                    let words =
                        format!("offset: {offset} is past the end of the drive ({capacity})");
                    return Err(Failure::usage(words));
                }
            };
            let took = held.drive.trim(Region { offset, length })?;
            held.note("trims");
            Ok(took.seconds())
        })
    }

    /// Leaves it alone.
    fn rest(&self, py: Python<'_>, time: &str, callback: Option<Py<PyAny>>) -> PyResult<()> {
        self.carry_out(py, callback, |held, watch| {
            Ok(held.drive.rest(duration("time", time)?, watch)?)
        })
    }

    /// Stores it without power.
    fn store_away(&self, py: Python<'_>, time: &str) -> PyResult<()> {
        self.carry_out(py, None, |held, _| {
            let time = precondition::parse_storage_time(time)
                .map_err(|error| Failure::usage(format!("time: {error}")))?;
            held.drive.store(time)?;
            held.note("stored without power");
            Ok(())
        })
    }

    /// Purges it.
    fn purge(&self, py: Python<'_>, how: &str) -> PyResult<()> {
        self.carry_out(py, None, |held, _| {
            let way = match how {
                "factory" => PurgeMethod::Factory,
                "discard" => PurgeMethod::Discard,
                "format" => PurgeMethod::Format,
                "secure-erase" => PurgeMethod::SecureErase,
                other => {
                    return Err(Failure::usage(format!(
                        "there is no purge method '{other}'; there are: factory, discard, format, \
                         secure-erase"
                    )));
                }
            };
            held.drive.set_purge_method(way)?;
            held.drive.purge()?;
            held.note(&format!("purged ({how})"));
            Ok(())
        })
    }

    /// Shuts it down and saves it.
    fn save(&self, py: Python<'_>, path: PathBuf, replace: bool) -> PyResult<()> {
        self.carry_out(py, None, |held, _| {
            let Some(profile) = &held.profile else {
                return Err(Failure::unsupported(format!(
                    "{} is a stack, and only single drives can be saved; save its members, and \
                     stack those",
                    held.name
                )));
            };
            precondition::check_save_path(Path::new(&path), replace).map_err(force_in_python)?;
            Ok(precondition::save(&mut held.drive, profile, &held.history, &path, replace)?)
        })
    }

    /// Runs an experiment on it, as it is, or purged first.
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        experiment: &str,
        set: Set,
        is_quick: bool,
        seed: u64,
        purge: bool,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Report> {
        let mut watch = Watch::new(callback);
        let outcome = py.detach(|| -> Result<Outcome, Failure> {
            let experiment = experiment::named(experiment)?;
            let held = &mut *self.lock()?;
            let way = if purge { PurgeMethod::Factory } else { PurgeMethod::Nothing };
            held.drive.set_purge_method(way)?;
            held.note(&format!("an experiment ({})", experiment.name()));
            run_on(experiment, &set, is_quick, seed, &mut held.drive, &mut watch)
        })?;
        deliver(py, outcome, watch)
    }
}

/// Replaces `--force` in an error by the argument `replace` of Python.
fn force_in_python(error: LabError) -> Failure {
    let words = crate::failure::chain(&error).replace("say --force", "say replace=True");
    let words = words.replace("even with --force", "even with replace=True");
    match error.kind() {
        ssdlab_drive::ErrorKind::Refused => Failure::refused(words),
        kind => Failure::of(kind, &error),
    }
}
