//! Result of a sweep: every run, the means of each point, and the findings.
//!
//! The JSON format is `ssdlab.sweep/1`; its schema is generated from these types and committed at
//! `docs/sweep.schema.json`. It has no times of this machine, so the same runs give the same bytes.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ssdlab_lab::report::{Finding, Parameter};

use crate::design::{Design, Sampling};
use crate::findings;
use crate::key::Key;
use crate::measure::{Measured, display_name, split_name};
use crate::statistics::Estimate;
use crate::vary::Dimension;

/// Name and version of a sweep's JSON format.
pub const SCHEMA: &str = "ssdlab.sweep/1";

/// The findings of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Always `ssdlab.sweep/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Version of ssdlab.
    pub ssdlab: String,
    /// The experiment's name.
    pub experiment: String,
    /// The targets, as they were named.
    pub targets: Vec<String>,
    /// The keys that were varied.
    pub dimensions: Vec<Dimension>,
    /// Choice of the points.
    pub sampling: Sampling,
    /// The seeds of the runs of each point.
    pub seeds: Vec<u64>,
    /// Other settings of the protocol.
    pub parameters: Vec<Parameter>,
    /// True if the protocol was the quick one.
    pub shortened: bool,
    /// True if the sweep was ended before all runs were made.
    pub interrupted: bool,
    /// The figures that the runs measured.
    pub measures: Vec<MeasureName>,
    /// The figures to look at, by place in `measures`, the most telling first.
    pub charted: Vec<usize>,
    /// The points, in the order of the grid.
    pub points: Vec<Point>,
    /// Sentences that the sweep stands behind, most important first.
    pub findings: Vec<Finding>,
}

/// A figure that runs measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureName {
    /// Its name, such as `steady[drift bound].mb_per_s`.
    pub name: String,
    /// Its unit; empty for a ratio or a count.
    pub unit: String,
    /// Its name in words.
    pub label: String,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The value of each key, in the order of `dimensions`.
    pub values: Vec<String>,
    /// The target as it would be named to `run`.
    pub target: String,
    /// The runs, in the order of `seeds`.
    pub runs: Vec<RunOfPoint>,
    /// The mean of each figure, in the order of `measures`; null where no run measured it.
    pub estimates: Vec<Option<Estimate>>,
}

/// One run of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunOfPoint {
    /// The seed.
    pub seed: u64,
    /// The key of its result; null where the point cannot be.
    pub key: Option<Key>,
    /// State of the run.
    pub state: State,
    /// Reason of the failure.
    pub error: Option<String>,
    /// The figures, in the order of `measures`; empty unless it is done.
    pub values: Vec<Option<f64>>,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was made.
    Done,
    /// It failed, or cannot be.
    Failed,
    /// The sweep was ended before it was made.
    Missing,
}

/// Outcome of a run during the execution of a sweep.
#[derive(Clone, Debug)]
pub(crate) enum RunState {
    Done(Measured),
    Failed(String),
    Missing,
}

/// Returns the JSON schema of a sweep, with a newline at its end.
pub fn schema() -> String {
    pretty(&schemars::schema_for!(Sweep))
}

fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("its keys are strings");
    text.push('\n');
    text
}

impl Sweep {
    /// Builds the result from the runs, which are in the order of points and seeds.
    pub(crate) fn new(
        design: &Design,
        keys: Vec<Option<Key>>,
        states: Vec<RunState>,
        interrupted: bool,
    ) -> Sweep {
        let measures = measure_names(&states);
        let places: HashMap<(&str, &str), usize> = measures
            .iter()
            .enumerate()
            .map(|(place, it)| ((it.name.as_str(), it.unit.as_str()), place))
            .collect();
        let seeds = design.seeds();
        let of_run = |(index, (key, state)): (usize, (Option<Key>, RunState))| {
            let (kind, error, values) = match state {
                RunState::Missing => (State::Missing, None, Vec::new()),
                RunState::Failed(why) => (State::Failed, Some(why), Vec::new()),
                RunState::Done(measured) => {
                    let mut values = vec![None; measures.len()];
                    for one in measured.measures {
                        values[places[&(one.name.as_str(), one.unit.as_str())]] = one.value;
                    }
                    (State::Done, None, values)
                }
            };
            RunOfPoint { seed: seeds[index % seeds.len()], key, state: kind, error, values }
        };
        let runs: Vec<RunOfPoint> = keys.into_iter().zip(states).enumerate().map(of_run).collect();
        let points: Vec<Point> = runs
            .chunks(seeds.len())
            .enumerate()
            .map(|(point, runs)| Point {
                values: design.values(point),
                // A point that cannot be run may have no name either.
                target: design.target_name(point).unwrap_or_default(),
                estimates: (0..measures.len()).map(|measure| estimate(runs, measure)).collect(),
                runs: runs.to_vec(),
            })
            .collect();
        let question = design.question();
        let set = question.set.iter().map(|(name, value)| Parameter {
            name: name.clone(),
            value: value.clone(),
            changed: true,
        });
        let mut sweep = Sweep {
            schema: SCHEMA.to_owned(),
            ssdlab: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: design.experiment().name().to_owned(),
            targets: question.targets.clone(),
            dimensions: design.dimensions().to_vec(),
            sampling: question.sampling,
            seeds,
            parameters: set.collect(),
            shortened: question.quick,
            interrupted,
            charted: Vec::new(),
            measures,
            points,
            findings: Vec::new(),
        };
        sweep.charted = sweep.choose_figures();
        sweep.findings = findings::findings(&sweep);
        sweep
    }

    /// Returns the sweep as indented JSON with a newline at its end.
    pub fn to_json(&self) -> String {
        pretty(self)
    }

    /// Selects the figures called `names` instead of those chosen by rule, and renews the findings.
    ///
    /// # Errors
    /// Returns a sentence that names a figure which no run has measured, and the figures that there are.
    pub fn select_figures(&mut self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        let mut charted = Vec::new();
        for name in names {
            let (mut found, mut by_column) = (None, Vec::new());
            for (place, one) in self.measures.iter().enumerate() {
                if one.name == *name {
                    found = Some(place);
                }
                if split_name(&one.name).2 == name.as_str() {
                    by_column.push(place);
                }
            }
            match (found, &by_column[..]) {
                (Some(place), _) => charted.push(place),
                (None, [first, ..]) => charted.push(*first),
                (None, []) => {
                    let known: Vec<&str> =
                        self.measures.iter().map(|it| it.name.as_str()).collect();
                    return Err(format!(
                        "no run measured '{name}'; there are: {}",
                        known.join(", ")
                    ));
                }
            }
        }
        self.charted = charted;
        self.findings = findings::findings(self);
        Ok(())
    }

    /// Returns the runs that failed, each with its point.
    pub fn failed(&self) -> impl Iterator<Item = (&Point, &RunOfPoint)> {
        self.runs().filter(|(_, run)| run.state == State::Failed)
    }

    /// Returns the number of completed runs, and the number of all runs.
    pub fn counts(&self) -> (usize, usize) {
        let done = self.runs().filter(|(_, run)| run.state == State::Done).count();
        (done, self.runs().count())
    }

    /// Returns every run with its point.
    pub fn runs(&self) -> impl Iterator<Item = (&Point, &RunOfPoint)> {
        self.points.iter().flat_map(|point| point.runs.iter().map(move |run| (point, run)))
    }

    /// Returns the figures to show: for each column of the first table with figures, the row in which points differ
    /// most. Rates come first, and a figure that is a fixed multiple of another is left out. Bytes and minutes are part
    /// of the protocol, not results.
    fn choose_figures(&self) -> Vec<usize> {
        const MAX_FIGURES: usize = 4;
        /// Factor by which points must differ more in a row for it to replace an earlier row.
        const REPLACEMENT_FACTOR: f64 = 1.1;
        let first = self.measures.first().map(|it| split_name(&it.name).0.to_owned());
        let mut chosen: Vec<(String, usize, f64)> = Vec::new();
        for (place, measure) in self.measures.iter().enumerate() {
            let (table, _, column) = split_name(&measure.name);
            let is_result = !["B", "GB", "min", "MiB"].contains(&measure.unit.as_str())
                && !column.starts_with("plus_minus");
            if Some(table) != first.as_deref() || !is_result {
                continue;
            }
            let spread = self.spread(place);
            match chosen.iter_mut().find(|(known, ..)| known == column) {
                Some(known) if spread > known.2 * REPLACEMENT_FACTOR => {
                    (known.1, known.2) = (place, spread)
                }
                Some(_) => {}
                None => chosen.push((column.to_owned(), place, spread)),
            }
        }
        let is_rate =
            |place: usize| ["MB/s", "IOPS", "1/s"].contains(&self.measures[place].unit.as_str());
        chosen.sort_by_key(|(_, place, _)| !is_rate(*place));
        let mut shown: Vec<usize> = Vec::new();
        for (_, place, _) in chosen {
            if shown.len() < MAX_FIGURES
                && !shown.iter().any(|&other| self.is_multiple_of(place, other))
            {
                shown.push(place);
            }
        }
        shown
    }

    /// Returns true if one figure is a fixed multiple of the other at all points, as IOPS and throughput are for
    /// requests of one length.
    fn is_multiple_of(&self, one: usize, other: usize) -> bool {
        let ratios: Vec<Option<f64>> = self
            .points
            .iter()
            .map(|point| Some(point.estimates[one]?.mean / point.estimates[other]?.mean))
            .collect();
        let Some(Some(first)) = ratios.first() else { return false };
        let is_fixed =
            |ratio: &Option<f64>| ratio.is_some_and(|ratio| (ratio / first - 1.0).abs() < 1e-9);
        ratios.len() > 1 && ratios.iter().all(is_fixed)
    }

    /// Returns the range of the points' means as a share of the greatest; -1 if there is none.
    fn spread(&self, measure: usize) -> f64 {
        let means = self.points.iter().filter_map(|it| it.estimates[measure]).map(|it| it.mean);
        let (low, high) = means.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        let most = low.abs().max(high.abs());
        if high >= low && most > 0.0 { (high - low) / most } else { -1.0 }
    }
}

/// Returns the mean of a figure over the runs that measured it.
fn estimate(runs: &[RunOfPoint], measure: usize) -> Option<Estimate> {
    let values: Vec<f64> =
        runs.iter().filter_map(|run| run.values.get(measure).copied().flatten()).collect();
    Estimate::of(&values)
}

/// Returns the names of all figures that any run has, in the order of points and seeds, which does not depend on time.
fn measure_names(states: &[RunState]) -> Vec<MeasureName> {
    let mut known: HashMap<(&str, &str), ()> = HashMap::new();
    let mut names = Vec::new();
    for state in states {
        let RunState::Done(measured) = state else { continue };
        for one in &measured.measures {
            if known.insert((&one.name, &one.unit), ()).is_none() {
                names.push(MeasureName {
                    name: one.name.clone(),
                    unit: one.unit.clone(),
                    label: display_name(&one.name, &one.unit),
                });
            }
        }
    }
    names
}
