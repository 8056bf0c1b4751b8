//! Comparison of several runs of one experiment.
//!
//! Runs of `fragmentation` get the table that its source published: a row for each drive, a column for the
//! best read after each step. For any other experiment, tables of one name are joined on their key columns,
//! and each measurement gets a table with a column for each run.

use serde::Serialize;

use crate::output::chart::Bars;
use crate::output::format;
use crate::report::{Cell, Column, Finding, Level, Report, Table, TargetKind};

mod differences;
mod fragmentation;
mod join;
mod remarks;
mod trend;

pub use trend::Trend;

/// The version of a comparison's JSON form.
pub const SCHEMA: &str = "ssdlab.comparison/1";

/// Several runs of one experiment side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Always `ssdlab.comparison/1`.
    pub schema: String,
    /// Experiment of all the runs.
    pub experiment: String,
    /// The runs, in the order given.
    pub runs: Vec<ComparedRun>,
    /// Findings: first the objections against comparing these runs, then the differences.
    pub findings: Vec<Finding>,
    /// The joined tables, most important first.
    pub tables: Vec<Table>,
    /// Curves that at least two of the runs have, by name.
    pub series: Vec<ComparedSeries>,
}

/// One of the runs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRun {
    /// Unique label of the run in the comparison.
    pub label: String,
    /// Kind of drive.
    pub kind: TargetKind,
    /// Target as the user named it.
    pub target: String,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// Seed of the random choices.
    pub seed: u64,
    /// True if the protocol was shortened.
    pub shortened: bool,
    /// True if the run was ended before the protocol was complete.
    pub interrupted: bool,
    /// First finding of the run.
    pub headline: Option<String>,
}

/// One curve, as several runs measured it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedSeries {
    /// Name.
    pub name: String,
    /// Unit of `x`.
    pub unit_x: String,
    /// Unit of `y`.
    pub unit_y: String,
    /// Curves of the runs that have it.
    pub curves: Vec<Curve>,
}

/// The curve of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The run's label.
    pub label: String,
    /// Places of the points.
    pub x: Vec<f64>,
    /// Measured values at those places.
    pub y: Vec<f64>,
}

/// Reason why reports cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than two reports were given.
    #[error("a comparison needs two reports or more, and {given} was given")]
    TooFew {
        /// Number of reports.
        given: usize,
    },
    /// The reports are of different experiments.
    #[error(
        "{label} is a run of {found}, {first_label} one of {expected}: only runs of one experiment can be compared"
    )]
    OtherExperiment {
        /// Label of the report that does not fit.
        label: String,
        /// Its experiment.
        found: String,
        /// Label of the first report.
        first_label: String,
        /// Experiment of the first report.
        expected: String,
    },
}

/// A report with its label in the comparison.
struct Labelled {
    label: String,
    report: Report,
}

impl Comparison {
    /// Compares reports, each given with a label. To labels that occur more than once, the differing
    /// parameters or a number are added. The reports must be consistent
    /// ([`check`](crate::output::json::check)).
    pub fn new(reports: Vec<(String, Report)>) -> Result<Comparison, CompareError> {
        if reports.len() < 2 {
            return Err(CompareError::TooFew { given: reports.len() });
        }
        let runs = labelled(reports);
        let first = &runs[0];
        if let Some(other) =
            runs.iter().find(|run| run.report.experiment != first.report.experiment)
        {
            return Err(CompareError::OtherExperiment {
                label: other.label.clone(),
                found: other.report.experiment.clone(),
                first_label: first.label.clone(),
                expected: first.report.experiment.clone(),
            });
        }
        let mut findings = remarks::remarks(&runs);
        let drives = fragmentation::drives(&runs);
        findings.extend(drives.as_ref().and_then(fragmentation::finding));
        let mut tables: Vec<Table> = drives.into_iter().collect();
        let is_shown = |table: &Table| !tables.is_empty() && fragmentation::repeats_drives(table);
        let joined: Vec<Table> =
            join::tables(&runs).into_iter().filter(|table| !is_shown(table)).collect();
        tables.extend(joined);
        tables.extend(join::latencies(&runs));
        if let Some((table, finding)) = differences::differences(&runs) {
            findings.push(finding);
            tables.extend((!table.rows.is_empty()).then_some(table));
        }
        Ok(Comparison {
            schema: SCHEMA.to_owned(),
            experiment: first.report.experiment.clone(),
            series: join::series(&runs),
            runs: runs.into_iter().map(compared_run).collect(),
            findings,
            tables,
        })
    }

    /// Returns the slowdown of each drive by preconditioning as bars; `None` if the experiment does not
    /// measure it.
    pub(crate) fn slowdown_bars(&self) -> Option<Bars> {
        self.tables.first().and_then(fragmentation::bars)
    }
}

/// Makes labels unique: adds the differing seed and parameters, or else a number.
fn labelled(reports: Vec<(String, Report)>) -> Vec<Labelled> {
    let mut labels: Vec<String> = Vec::with_capacity(reports.len());
    for (wanted, report) in &reports {
        let named_so = reports.iter().filter(|(other, _)| other == wanted).map(|(_, it)| it);
        let alike: Vec<&Report> = named_so.collect();
        let told = std::iter::once(wanted.clone()).chain(differences_to(report, &alike));
        let told = told.collect::<Vec<_>>().join(", ");
        let is_taken = |label: &String| labels.contains(label);
        let numbered = (2..).map(|number| format!("{told} ({number})"));
        let mut free = std::iter::once(told.clone()).chain(numbered).filter(|it| !is_taken(it));
        labels.push(free.next().expect("there are more numbers than runs"));
    }
    let runs = labels.into_iter().zip(reports);
    runs.map(|(label, (_, report))| Labelled { label, report }).collect()
}

/// Returns seed and parameters of a run that differ from those of any run of `alike`.
fn differences_to(report: &Report, alike: &[&Report]) -> Vec<String> {
    let mut told = Vec::new();
    if alike.iter().any(|other| other.seed != report.seed) {
        told.push(format!("seed {}", report.seed));
    }
    for parameter in &report.parameters {
        let value_in = |other: &Report| {
            let mut parameters = other.parameters.iter();
            parameters.find(|it| it.name == parameter.name).map(|it| it.value.clone())
        };
        if alike.iter().any(|other| value_in(other).as_ref() != Some(&parameter.value)) {
            told.push(format!("{}={}", parameter.name, parameter.value));
        }
    }
    told
}

fn compared_run(run: Labelled) -> ComparedRun {
    let headline = run.report.headline().map(str::to_owned);
    ComparedRun {
        label: run.label,
        kind: run.report.target.kind,
        target: run.report.target.name,
        started: run.report.started,
        seed: run.report.seed,
        shortened: run.report.shortened,
        interrupted: run.report.interrupted,
        headline,
    }
}
