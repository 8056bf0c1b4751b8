//! Sweeps for Python: the design, which is checked before any run; the runs, made here or elsewhere; the result.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use ssdlab_blockio::is_block_device;
use ssdlab_drive::ErrorKind;
use ssdlab_lab::experiment;
use ssdlab_lab::report::Cost;
use ssdlab_lab::{machine, memory};
use ssdlab_sweep::tables::{self, ReportContext};
use ssdlab_sweep::{
    Cost as Takes, Design as Points, InvalidPoint, Key, Measured, Options, Results, SCHEMA,
    Sampling, Simulated, State, Sweep as Swept, SweepRequest, Varied, page,
};

use crate::failure::{Failure, exception};
use crate::numbers::Numbers;
use crate::phase::duration;
use crate::report::Report;
use crate::run::Set;
use crate::watch::Watch;

/// The points of a sweep.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Design {
    points: Points,
    /// Result of the check of all points, made when it is first needed: a worker of a cluster, which makes a few of the
    /// runs, never needs it.
    looked: OnceLock<(Vec<InvalidPoint>, Takes)>,
}

/// Design of a sweep, as Python passes it.
#[derive(FromPyObject)]
struct Asked {
    #[pyo3(item)]
    experiment: String,
    #[pyo3(item)]
    targets: Vec<String>,
    #[pyo3(item)]
    vary: Vec<(String, Vec<String>)>,
    #[pyo3(item)]
    set: Set,
    #[pyo3(item)]
    quick: bool,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    seeds: u32,
    #[pyo3(item)]
    points: Option<usize>,
    #[pyo3(item)]
    random: bool,
}

impl Asked {
    fn design(self) -> Result<Design, Failure> {
        let mut vary = Vec::new();
        for (key, values) in self.vary {
            if values.is_empty() || values.iter().any(|value| value.trim().is_empty()) {
                return Err(Failure::usage(format!(
                    "{key} has no values, or an empty one; write them as in vary={{\"spare\": \
                     [\"7%\", \"15%\", \"28%\"]}}"
                )));
            }
            vary.push(Varied { key, values });
        }
        let question = SweepRequest {
            experiment: experiment::named(&self.experiment)?,
            targets: self.targets,
            vary,
            set: self.set,
            quick: self.quick,
            seed: self.seed,
            seeds: self.seeds,
            sampling: match (self.points, self.random) {
                (None, _) => Sampling::Grid,
                (Some(points), true) => Sampling::Random(points),
                (Some(points), false) => Sampling::Latin(points),
            },
        };
        let points = Points::new(question).map_err(in_python)?;
        let devices = points.question().targets.iter().find(|it| is_block_device(Path::new(it)));
        if let Some(device) = devices {
            return Err(Failure::refused(format!(
                "{device} is a block device, which only the command line measures: ssdlab sweep"
            )));
        }
        Ok(Design { points, looked: OnceLock::new() })
    }
}

/// Replaces the program's options in an error by the arguments of Python.
fn in_python(error: ssdlab_sweep::SweepError) -> Failure {
    let words = crate::failure::chain(&error)
        .replace("--vary KEY=VALUE,VALUE,...", "vary={key: [value, ...]}")
        .replace("to one --vary", "at once")
        .replace("--vary target=", "vary={\"target\": ...}")
        .replace("--seeds N", "seeds=N")
        .replace("--seeds", "seeds=N")
        .replace("--points ", "points=")
        .replace("--resume", "resume=True");
    match error.kind() {
        ErrorKind::Usage => Failure::usage(words),
        kind => Failure::of(kind, &error),
    }
}

#[pymethods]
impl Design {
    /// Lays the points out.
    #[new]
    fn new(py: Python<'_>, question: Asked) -> PyResult<Design> {
        Ok(py.detach(|| question.design())?)
    }

    /// Points, runs, and about the seconds of a processor that they take.
    fn counts(&self, py: Python<'_>) -> (usize, usize, Option<f64>) {
        let (impossible, takes) = py.detach(|| self.look());
        let points = self.points.points().len() - impossible.len();
        let seconds = takes.processor.map(|it| it.as_secs_f64());
        (self.points.points().len(), points * self.points.seeds().len(), seconds)
    }

    /// The points that cannot be: their values in words, and why.
    fn impossible(&self, py: Python<'_>) -> Vec<(String, String)> {
        let (impossible, _) = py.detach(|| self.look());
        impossible.iter().map(|it| (self.points.words(it.point), it.why.clone())).collect()
    }

    /// The key of every run with its point and seed; those of points that cannot be are left out.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<(String, usize, u64)>> {
        let keys = py.detach(|| ssdlab_sweep::keys(&self.points, &self.look().0));
        let seeds = self.points.seeds();
        let with_place = keys.map_err(in_python)?.into_iter().enumerate();
        let known = with_place.filter_map(|(place, key)| {
            let (point, seed) = (place / seeds.len(), seeds[place % seeds.len()]);
            Some((key?.to_string(), point, seed))
        });
        Ok(known.collect())
    }

    /// The target of a point, and its value of each key.
    fn place(&self, point: usize) -> Result<(String, Vec<(String, String)>), Failure> {
        let keys = self.points.dimensions().iter().map(|it| it.key.clone());
        let values = keys.zip(self.points.values(point)).collect();
        Ok((self.points.target_name(point)?, values))
    }

    /// Makes the run called `key`, and returns what it measured as JSON, and its report. The key is made anew: on
    /// another machine a file of the same name may hold something else.
    fn run_one(
        &self,
        py: Python<'_>,
        key: &str,
        point: usize,
        seed: u64,
    ) -> PyResult<(String, Report)> {
        let mut watch = Watch::new(None);
        let made = py.detach(|| -> Result<_, Failure> {
            let found = Key::of(self.points.experiment(), &self.points.case(point, seed)?, seed)?;
            if found.as_str() != key {
                return Err(Failure::usage(
                    "this worker would make a different run: its files or its version of ssdlab \
                     differ",
                ));
            }
            Ok(ssdlab_sweep::run_one(&self.points, point, seed, &Simulated, &mut watch)?)
        });
        match (made, watch.stopped(py)) {
            (Ok(report), _) => {
                let measured = Measured::of(&report);
                let json = serde_json::to_string(&measured).expect("its keys are strings");
                Ok((json, Report::new(report)))
            }
            (Err(_), Some((error, _))) => Err(error),
            (Err(failure), None) => Err(failure.into()),
        }
    }

    /// Makes all runs that `out` does not hold.
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        jobs: Option<usize>,
        out: Option<PathBuf>,
        resume: bool,
        rest: &str,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Sweep> {
        let mut watch = Watch::new(callback);
        let swept = py.detach(|| -> Result<Sweep, Failure> {
            let out = out.as_deref();
            let results =
                out.map(|path| Results::open(path, resume)).transpose().map_err(in_python)?;
            let jobs = self.jobs(jobs)?;
            let clock = (Instant::now(), machine::cpu_seconds(), machine::now());
            let rest = Duration::from(duration("rest", rest)?);
            let options = Options { jobs, results: results.as_ref(), opener: &Simulated, rest };
            let swept = ssdlab_sweep::run(&self.points, &self.look().0, &options, &mut |now| {
                watch.look(now.share)
            })
            .map_err(in_python)?;
            Ok(Sweep::new(swept, clock))
        })?;
        match watch.stopped(py) {
            None => Ok(swept),
            Some((error, false)) => Err(error),
            Some((error, true)) => {
                let words = match out {
                    Some(_) => "interrupted; repeat the call with resume=True to continue",
                    None => {
                        "interrupted; .result holds the results until then; with out=DIRECTORY, \
                         resume=True could have continued the sweep"
                    }
                };
                let result = Bound::new(py, swept)?.into_any();
                let raised = exception(py, "Interrupted", words, Some(result));
                raised.set_cause(py, Some(error));
                Err(raised)
            }
        }
    }

    /// Puts together what `out` holds, and makes no run. `failed` says of runs by key why there are none.
    fn collect(
        &self,
        py: Python<'_>,
        out: PathBuf,
        failed: HashMap<String, String>,
    ) -> PyResult<Sweep> {
        let swept = py.detach(|| -> Result<Sweep, Failure> {
            let clock = (Instant::now(), machine::cpu_seconds(), machine::now());
            let results = Results::open(&out, true).map_err(in_python)?;
            let failed = failed
                .into_iter()
                .map(|(key, why)| Ok((read_key(&key)?, why)))
                .collect::<Result<HashMap<Key, String>, Failure>>()?;
            let swept = ssdlab_sweep::collect(&self.points, &self.look().0, &results, &failed);
            Ok(Sweep::new(swept.map_err(in_python)?, clock))
        })?;
        Ok(swept)
    }
}

impl Design {
    /// Returns the result of the check: the points that cannot be run, and what the others need.
    fn look(&self) -> &(Vec<InvalidPoint>, Takes) {
        self.looked.get_or_init(|| self.points.check())
    }

    /// Returns the number of runs at a time: `wanted`, or fewer if memory is short; 1 on real drives.
    fn jobs(&self, wanted: Option<usize>) -> Result<usize, Failure> {
        if self.points.is_real() {
            return Ok(1);
        }
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let wanted = wanted.unwrap_or(processors).max(1);
        let (Some(need), Some(available)) = (self.look().1.memory, memory::available()) else {
            return Ok(wanted);
        };
        match available.bytes() / need.least().bytes().max(1) {
            0 => Err(Failure::unsupported(format!(
                "a run of this sweep needs about {:.1} GiB of memory, and {:.1} GiB are available; \
                 quick=True takes a smaller drive of the same kind",
                need.least().gibibytes(),
                available.gibibytes()
            ))),
            fit => Ok(wanted.min(usize::try_from(fit).unwrap_or(usize::MAX))),
        }
    }
}

fn read_key(text: &str) -> Result<Key, Failure> {
    let is_key = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = is_key.then(|| serde_json::from_value(text.into()).ok()).flatten();
    key.ok_or_else(|| Failure::usage(format!("'{text}' is no key of a run")))
}

/// The directory of a sweep's results, filled from outside.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Kept(Results);

#[pymethods]
impl Kept {
    /// Opens the directory, and creates it where there is none.
    #[new]
    fn new(path: PathBuf, resume: bool) -> PyResult<Kept> {
        Ok(Kept(Results::open(&path, resume).map_err(in_python)?))
    }

    /// Returns true if the result of a run is there.
    fn holds(&self, key: &str) -> Result<bool, Failure> {
        Ok(self.0.load(&read_key(key)?).is_some())
    }

    /// Keeps what a run measured, as JSON.
    fn keep(&self, key: &str, measured: &str) -> Result<(), Failure> {
        let measured: Measured = serde_json::from_str(measured)
            .map_err(|error| Failure::usage(format!("this is not the result of a run: {error}")))?;
        self.0.store(&read_key(key)?, &measured).map_err(|error| Failure::of(ErrorKind::Io, &error))
    }
}

/// The result of a sweep.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Sweep {
    swept: Swept,
    started: String,
    cost: Cost,
}

/// Rows of points: values of the keys, target, and the runs with seed, key, state, error.
type Rows = Vec<(Vec<String>, String, Vec<(u64, Option<String>, &'static str, Option<String>)>)>;

impl Sweep {
    /// Creates a result; `clock` has the start of the sweep as an instant, as processor time, and as text.
    fn new(swept: Swept, clock: (Instant, f64, String)) -> Sweep {
        let cost = Cost {
            wall_seconds: clock.0.elapsed().as_secs_f64(),
            cpu_seconds: machine::cpu_seconds() - clock.1,
            peak_rss_bytes: machine::peak_memory().bytes(),
            ..Cost::default()
        };
        Sweep { swept, started: clock.2, cost }
    }
}

#[pymethods]
impl Sweep {
    /// Reads a result back; `origin` names its file in errors.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str, origin: &str) -> PyResult<Sweep> {
        let swept = py.detach(|| serde_json::from_str::<Swept>(text));
        let swept = swept
            .map_err(|error| Failure::usage(format!("{origin}: this is no sweep: {error}")))?;
        if swept.schema != SCHEMA {
            return Err(Failure::usage(format!(
                "{origin}: its schema is {:?}, and this version of ssdlab reads {SCHEMA:?}",
                swept.schema
            ))
            .into());
        }
        let counts = |it: &ssdlab_sweep::Point| {
            let whole = |run: &ssdlab_sweep::RunOfPoint| {
                run.values.is_empty() || run.values.len() == swept.measures.len()
            };
            it.values.len() == swept.dimensions.len()
                && it.estimates.len() == swept.measures.len()
                && it.runs.iter().all(whole)
        };
        if !swept.points.iter().all(counts) {
            let words = format!("{origin}: its points do not have a value for each key and figure");
            return Err(Failure::usage(words).into());
        }
        Ok(Sweep { swept, started: String::new(), cost: Cost::default() })
    }

    /// The JSON that `ssdlab sweep --json` prints.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.swept.to_json())
    }

    /// The JSON of everything but the points.
    fn head(&self) -> String {
        let head = Swept { points: Vec::new(), ..self.swept.clone() };
        head.to_json()
    }

    /// The result as a page.
    fn html(&self) -> String {
        page::render(&self.swept)
    }

    /// The result as a report, to be kept with those of runs.
    fn report(&self) -> Report {
        Report::new(tables::report(
            &self.swept,
            ReportContext {
                started: self.started.clone(),
                host: machine::host(),
                kind: None,
                cost: self.cost.clone(),
            },
        ))
    }

    /// Writes `sweep.json`, `runs.csv`, `means.csv` and `sweep.html`.
    fn write(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        let written = py.detach(|| {
            std::fs::create_dir_all(&directory)?;
            tables::write(&self.swept, &directory)
        });
        Ok(written.map_err(|error| {
            let words = format!("cannot write the results to {}", directory.display());
            Failure::of(ErrorKind::Io, &std::io::Error::other(format!("{words}: {error}")))
        })?)
    }

    /// The points with their runs.
    fn rows(&self) -> Rows {
        let state = |state| match state {
            State::Done => "done",
            State::Failed => "failed",
            State::Missing => "missing",
        };
        let points = self.swept.points.iter().map(|point| {
            let runs = point.runs.iter().map(|run| {
                let key = run.key.as_ref().map(ToString::to_string);
                (run.seed, key, state(run.state), run.error.clone())
            });
            (point.values.clone(), point.target.clone(), runs.collect())
        });
        points.collect()
    }

    /// Returns what was measured: a row for each run, a column for each figure.
    fn values(&self) -> Numbers {
        let measures = self.swept.measures.len();
        let mut all = Vec::new();
        for (_, run) in self.swept.runs() {
            let value = |measure| run.values.get(measure).copied().flatten().unwrap_or(f64::NAN);
            all.extend((0..measures).map(value));
        }
        Numbers::rows(all, measures)
    }

    /// Of one figure: mean, both ends of the interval and the number of runs, a row for each point.
    fn estimates(&self, measure: usize) -> Numbers {
        let mut all = Vec::new();
        for point in &self.swept.points {
            let Some(estimate) = point.estimates[measure] else {
                all.extend([f64::NAN, f64::NAN, f64::NAN, 0.0]);
                continue;
            };
            let (low, high) = estimate.interval.unwrap_or((f64::NAN, f64::NAN));
            all.extend([estimate.mean, low, high, f64::from(estimate.runs)]);
        }
        Numbers::rows(all, 4)
    }
}
