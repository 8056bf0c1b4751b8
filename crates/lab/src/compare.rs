//! Several runs of one experiment side by side.
//!
//! For `fragmentation` that is the table its source published: a drive a row, its best read
//! after each step a column. For any other experiment, tables of one name are joined on the
//! columns that say what a row is about, and every measurement gets a table of its own with a
//! column per run.

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
    /// The experiment that all of them are runs of.
    pub experiment: String,
    /// The runs, in the order given.
    pub runs: Vec<ComparedRun>,
    /// What the comparison shows, after what stands against making it.
    pub findings: Vec<Finding>,
    /// The joined tables, most important first.
    pub tables: Vec<Table>,
    /// Curves that at least two of the runs have, by name.
    pub series: Vec<ComparedSeries>,
}

/// One of the runs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRun {
    /// What it is called in the comparison; no two are called the same.
    pub label: String,
    /// What kind of drive was measured.
    pub kind: TargetKind,
    /// How the user named the drive.
    pub target: String,
    /// When the run started.
    pub started: String,
    /// The seed of its random choices.
    pub seed: u64,
    /// True if its protocol was shortened.
    pub shortened: bool,
    /// True if it was ended before its protocol was through.
    pub interrupted: bool,
    /// Its first finding.
    pub headline: Option<String>,
}

/// One curve as several runs have measured it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedSeries {
    /// Its name.
    pub name: String,
    /// Unit of `x`.
    pub unit_x: String,
    /// Unit of `y`.
    pub unit_y: String,
    /// The curve of each run that has it.
    pub curves: Vec<Curve>,
}

/// The curve of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The run's label.
    pub label: String,
    /// Where the points lie.
    pub x: Vec<f64>,
    /// What was measured there.
    pub y: Vec<f64>,
}

/// Why reports cannot be put side by side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// There is nothing to compare with.
    #[error("a comparison needs two reports or more, and {given} was given")]
    TooFew {
        /// How many there were.
        given: usize,
    },
    /// They measured different things.
    #[error(
        "{label} is a run of {found}, {first_label} one of {expected}: only runs of one experiment can be compared"
    )]
    OtherExperiment {
        /// The report that does not fit.
        label: String,
        /// What it is a run of.
        found: String,
        /// The first report.
        first_label: String,
        /// What that is a run of.
        expected: String,
    },
}

/// A report with the label it has in the comparison.
struct Labelled {
    label: String,
    report: Report,
}

impl Comparison {
    /// Puts reports side by side, each with what to call it. A label given twice gets what differs, or a
    /// number.
    /// The reports must hold together ([`check`](crate::output::json::check)).
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
        let is_shown = |table: &Table| !tables.is_empty() && fragmentation::shows(table);
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

    /// Returns what use has done to each drive, where the experiment is about that.
    pub(crate) fn ageing(&self) -> Option<Bars> {
        self.tables.first().and_then(fragmentation::bars)
    }
}

/// Tells apart runs that are called the same: by what of them differs, or else by numbers.
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

/// Seed and parameters of a run that are not the same in all of `alike`.
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
