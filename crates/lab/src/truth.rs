//! Published figures of real drives, compared with the results of the profiles.
//!
//! Each drive has a file of its own, to which anybody can add figures: an experiment with its settings, and
//! the table, row and column of its report.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

use serde::Deserialize;
use ssdlab_blockio::RealOptions;
use ssdlab_units::ByteLength;

use crate::error::LabError;
use crate::experiment::{self, Experiment, Record, Settings, Watcher, parallel};
use crate::import::empty_report;
use crate::machine;
use crate::memory::{self, MemoryEstimate};
use crate::output::format::significant;
use crate::quick::quick;
use crate::report::{
    Cell, Column, Cost, Level, Parameter, Report, SCHEMA, Table, Target as Measured, TargetKind,
};
use crate::target::Target;

/// Bundled files: name of the drive and text of the file.
const BUNDLED: [(&str, &str); 32] = [
    ("adata-atom-50-1000", include_str!("../truth/adata-atom-50-1000.toml")),
    ("goodram-c50-120", include_str!("../truth/goodram-c50-120.toml")),
    ("intel-600p-512", include_str!("../truth/intel-600p-512.toml")),
    ("intel-660p-1000", include_str!("../truth/intel-660p-1000.toml")),
    ("intel-p3520", include_str!("../truth/intel-p3520.toml")),
    ("intel-p4500", include_str!("../truth/intel-p4500.toml")),
    ("intel-s3510", include_str!("../truth/intel-s3510.toml")),
    ("intel-sf2281-120", include_str!("../truth/intel-sf2281-120.toml")),
    ("kingston-v-64", include_str!("../truth/kingston-v-64.toml")),
    ("kioxia-cm7-r-3840", include_str!("../truth/kioxia-cm7-r-3840.toml")),
    ("micron-5200", include_str!("../truth/micron-5200.toml")),
    ("micron-7450-max-800", include_str!("../truth/micron-7450-max-800.toml")),
    ("micron-7450-pro-960", include_str!("../truth/micron-7450-pro-960.toml")),
    ("samsung-840-pro-512", include_str!("../truth/samsung-840-pro-512.toml")),
    ("samsung-970-evo-1000", include_str!("../truth/samsung-970-evo-1000.toml")),
    ("samsung-970-evo-500", include_str!("../truth/samsung-970-evo-500.toml")),
    ("samsung-970-pro-512", include_str!("../truth/samsung-970-pro-512.toml")),
    ("samsung-980-pro-1000", include_str!("../truth/samsung-980-pro-1000.toml")),
    ("samsung-pm1725b", include_str!("../truth/samsung-pm1725b.toml")),
    ("samsung-pm883", include_str!("../truth/samsung-pm883.toml")),
    ("samsung-pm963", include_str!("../truth/samsung-pm963.toml")),
    ("samsung-pm981", include_str!("../truth/samsung-pm981.toml")),
    ("samsung-pm983", include_str!("../truth/samsung-pm983.toml")),
    ("samsung-pm9a3-960", include_str!("../truth/samsung-pm9a3-960.toml")),
    ("sandisk-readycache-32", include_str!("../truth/sandisk-readycache-32.toml")),
    ("skhynix-gold-p31-1000", include_str!("../truth/skhynix-gold-p31-1000.toml")),
    ("skhynix-pe8110-960", include_str!("../truth/skhynix-pe8110-960.toml")),
    ("solidigm-d5-p5316-15360", include_str!("../truth/solidigm-d5-p5316-15360.toml")),
    ("solidigm-p5520-1920", include_str!("../truth/solidigm-p5520-1920.toml")),
    ("toshiba-xg5", include_str!("../truth/toshiba-xg5.toml")),
    ("wd-sn580-1000", include_str!("../truth/wd-sn580-1000.toml")),
    ("wd-sn640-960", include_str!("../truth/wd-sn640-960.toml")),
];

/// Errors larger than this, in percent, are named in a finding.
const MAX_ERROR_PERCENT: f64 = 10.0;

/// The published figures of one drive.
#[derive(Clone, Debug)]
pub struct Published {
    name: String,
    contents: Contents,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    /// Target, in the notation of `run`.
    target: String,
    #[serde(default)]
    run: Vec<Run>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    experiment: String,
    /// Target of this run, if it differs from that of the file, such as another capacity.
    target: Option<String>,
    /// True to run on a scaled-down drive, as `run --quick` does.
    #[serde(default)]
    quick: bool,
    /// Settings, `NAME=VALUE` each, as for `run --set`.
    #[serde(default)]
    set: Vec<String>,
    figure: Vec<Figure>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    name: String,
    table: String,
    /// Columns with their values that select the row.
    #[serde(default)]
    row: BTreeMap<String, toml::Value>,
    /// Selects a second row as `row` does the first: the figure is the value of the first row divided by that
    /// of the second.
    #[serde(default)]
    against: BTreeMap<String, toml::Value>,
    column: String,
    published: f64,
    unit: String,
    r#use: Use,
    source: String,
}

/// Use of a figure in making the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Use {
    /// A number of the profile was fitted to the figure.
    #[serde(rename = "fitted")]
    Fitted,
    /// Nothing was fitted to the figure.
    #[serde(rename = "held out")]
    HeldOut,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Use::Fitted => "fitted",
            Use::HeldOut => "held out",
        }
    }
}

impl Published {
    /// Parses the figures of one drive, which is called `name` in the report.
    ///
    /// # Errors
    /// Returns an error that names the line.
    pub fn parse(name: &str, text: &str) -> Result<Published, LabError> {
        let contents: Contents = toml::from_str(text)
            .map_err(|error| LabError::Figures { name: name.to_owned(), why: error.to_string() })?;
        let figures = || contents.run.iter().flat_map(|run: &Run| &run.figure);
        if let Some(figure) = figures().find(|it| !it.published.is_normal() || it.published < 0.0) {
            return Err(LabError::Figures {
                name: name.to_owned(),
                why: format!(
                    "figure '{}': published = {}: it must be above 0, since errors are relative \
                     to it",
                    figure.name, figure.published
                ),
            });
        }
        Ok(Published { name: name.to_owned(), contents })
    }

    /// Returns the bundled figures of all drives.
    pub fn bundled() -> Vec<Published> {
        let parse = |(name, text): &(&str, &str)| Published::parse(name, text);
        BUNDLED.iter().map(|one| parse(one).expect("bundled figures are sound")).collect()
    }

    /// Returns the name of the drive.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A published figure with the model's value.
struct ComparedFigure<'a> {
    drive: &'a str,
    figure: &'a Figure,
    model: f64,
}

impl ComparedFigure<'_> {
    /// Returns the error of the model, in percent of the published figure.
    fn error(&self) -> f64 {
        (self.model / self.figure.published - 1.0) * 100.0
    }
}

/// Runs all experiments that `drives` have figures of, and compares the results with the figures.
///
/// # Errors
/// Returns an error if a file refers to something that does not exist, or if the watcher ends the run.
pub fn compare(
    drives: &[Published],
    seed: u64,
    watcher: &mut dyn Watcher,
) -> Result<Report, LabError> {
    let (wall, cpu, started) = (Instant::now(), machine::cpu_seconds(), jiff::Timestamp::now());
    let runs = all_runs(drives, seed)?;
    watcher.step(&format!("{} experiments on {}", runs.len(), names(drives)), 1.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads_that_fit(&runs, memory::available(), processors)?;
    let weight = |run: &PreparedRun| run.drive_seconds.max(1.0);
    let (found, outcome) =
        parallel::run(&runs, weight, threads, watcher, &|run, watcher| match run
            .execute(seed, watcher)
        {
            Ok(found) => (found, Ok(())),
            Err(error) => (ModelValues::default(), Err(error)),
        });
    outcome?;
    let requests = found.iter().map(|it| it.requests).sum();
    let mut compared = Vec::new();
    for (run, found) in runs.iter().zip(found) {
        let both = run.figures.iter().zip(found.figures);
        compared.extend(both.map(|(figure, model)| ComparedFigure {
            drive: run.drive,
            figure,
            model,
        }));
    }
    let mut record = Record::default();
    conclude(&compared, &mut record);
    Ok(Report {
        schema: SCHEMA.to_owned(),
        experiment: "truth".to_owned(),
        target: Measured {
            kind: TargetKind::Simulated,
            name: names(drives),
            capacity_bytes: 0,
            engine: "virtual time".to_owned(),
            caveats: Vec::new(),
            facts: Vec::new(),
        },
        seed,
        parameters: vec![Parameter {
            name: "drives".to_owned(),
            value: drives.iter().map(Published::name).collect::<Vec<_>>().join(","),
            changed: drives.len() < BUNDLED.len(),
        }],
        host: machine::host(),
        started: format!("{started:.0}"),
        tables: vec![table(&compared), sources(&compared)],
        findings: record.findings,
        cost: Cost {
            wall_seconds: wall.elapsed().as_secs_f64(),
            cpu_seconds: machine::cpu_seconds() - cpu,
            simulated_seconds: None,
            requests,
            units: requests,
            peak_rss_bytes: machine::peak_memory().bytes(),
        },
        ..empty_report()
    })
}

fn names(drives: &[Published]) -> String {
    match drives {
        [one] => one.contents.target.clone(),
        _ => format!("{} drives", drives.len()),
    }
}

/// A run that figures are published of, ready to start.
struct PreparedRun<'a> {
    drive: &'a str,
    figures: &'a [Figure],
    experiment: &'static dyn Experiment,
    settings: Settings,
    target: Target,
    /// Memory that the run needs at most.
    memory: ByteLength,
    /// Seconds of the drive's time that the run takes at most, estimated; zero if not known.
    drive_seconds: f64,
}

/// Returns the number of threads for `runs`: as many as there are processors, if that many of the largest
/// runs fit into the memory that is `available`.
fn threads_that_fit(
    runs: &[PreparedRun],
    available: Option<ByteLength>,
    processors: usize,
) -> Result<usize, LabError> {
    let Some(available) = available else { return Ok(processors) };
    let mut by_memory: Vec<&PreparedRun> = runs.iter().collect();
    by_memory.sort_by_key(|it| Reverse(it.memory));
    let mut together = ByteLength::ZERO;
    for (count, run) in by_memory.iter().enumerate().take(processors) {
        together += run.memory;
        if together <= available {
            continue;
        }
        if count > 0 {
            return Ok(count);
        }
        return Err(LabError::Unsupported(format!(
            "{}: {} needs about {:.1} GiB of memory, and {:.1} GiB are available; 'quick = true' takes a smaller \
             drive of the same kind",
            run.drive,
            run.experiment.name(),
            run.memory.gibibytes(),
            available.gibibytes()
        )));
    }
    Ok(processors)
}

/// Prepares all runs of `drives` without starting any.
fn all_runs(drives: &[Published], seed: u64) -> Result<Vec<PreparedRun<'_>>, LabError> {
    let of_drive = |drive| drive_runs(drive, seed);
    let runs: Vec<Vec<PreparedRun>> = drives.iter().map(of_drive).collect::<Result<_, _>>()?;
    Ok(runs.into_iter().flatten().collect())
}

fn drive_runs(drive: &Published, seed: u64) -> Result<Vec<PreparedRun<'_>>, LabError> {
    let wrong = |why| LabError::Figures { name: drive.name.clone(), why };
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.to_owned())),
        None => Err(wrong(format!("set = '{text}': write NAME=VALUE"))),
    };
    let mut runs = Vec::new();
    for run in &drive.contents.run {
        let named = |error: LabError| wrong(error.to_string());
        let experiment = experiment::named(&run.experiment).map_err(named)?;
        let set: Vec<(String, String)> = run.set.iter().map(pair).collect::<Result<_, _>>()?;
        let target = run.target.as_ref().unwrap_or(&drive.contents.target);
        let target = Target::parse(target).map_err(named)?;
        if !matches!(target, Target::Simulated { .. } | Target::Stack(_)) {
            let why = "figures are compared with simulated drives only (sim:PROFILE)";
            return Err(wrong(why.to_owned()));
        }
        let (mut settings, target) = match run.quick {
            true => quick(experiment, target, seed, &set).map_err(named)?,
            false => (Settings::new(experiment, false, &set).map_err(named)?, target),
        };
        // The runs themselves are executed in parallel.
        settings.set_threads(1);
        let figures = &run.figure;
        let (memory, drive_seconds) = needs_of(experiment, &settings, &target).map_err(named)?;
        runs.push(PreparedRun {
            drive: &drive.name,
            figures,
            experiment,
            settings,
            target,
            memory,
            drive_seconds,
        });
    }
    Ok(runs)
}

/// Bytes that a drive writes in a second, for an estimate of the time that a run takes.
const USUAL_RATE: f64 = 500e6;

/// Returns the memory that a run needs with its workloads one after the other, and the seconds of the drive's time
/// that it takes at most. A stack may write to its members when it is opened, so its whole capacity counts, and it
/// has no estimate of the time.
fn needs_of(
    experiment: &dyn Experiment,
    settings: &Settings,
    target: &Target,
) -> Result<(ByteLength, f64), LabError> {
    if let Some(need) = MemoryEstimate::of_opening(target) {
        return Ok((need.least(), 0.0));
    }
    let drive = target.open(&RealOptions::default())?;
    let plan = experiment.plan(settings, &drive.description())?;
    let written = plan.sequential_writes + plan.random_writes + plan.large_random_writes;
    let seconds = (plan.writing + plan.reading).seconds() + written.bytes() as f64 / USUAL_RATE;
    let need = MemoryEstimate::of(target, &plan);
    Ok((need.map_or(ByteLength::ZERO, |need| need.least()), seconds))
}

/// Values of the model for the figures of a run, in their order, and the number of requests.
#[derive(Debug, Default)]
struct ModelValues {
    figures: Vec<f64>,
    requests: u64,
}

impl PreparedRun<'_> {
    fn execute(&self, seed: u64, watcher: &mut dyn Watcher) -> Result<ModelValues, LabError> {
        let mut drive = self.target.open(&RealOptions::default())?;
        let outcome =
            crate::run::run(self.experiment, &self.settings, seed, drive.as_mut(), watcher);
        if let Some(error) = outcome.error {
            return Err(error);
        }
        let value = |figure| value_of(&outcome.report, figure);
        let figures = self.figures.iter().map(value).collect::<Result<_, _>>();
        let figures =
            figures.map_err(|why| LabError::Figures { name: self.drive.to_owned(), why })?;
        Ok(ModelValues { figures, requests: outcome.report.cost.requests })
    }
}

/// Returns the value of a figure in a report, or an error if no row or more than one row matches.
fn value_of(report: &Report, figure: &Figure) -> Result<f64, String> {
    let named = format!("figure '{}'", figure.name);
    let table = report.table(&figure.table).ok_or_else(|| {
        let there = report.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>();
        format!(
            "{named}: {} has no table '{}'; it has {}",
            report.experiment,
            figure.table,
            there.join(", ")
        )
    })?;
    let column = |name: &str| {
        table.column(name).ok_or_else(|| {
            let there = table.columns.iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
            format!(
                "{named}: table {} has no column '{name}'; it has {}",
                table.name,
                there.join(", ")
            )
        })
    };
    let value = column(&figure.column)?;
    let unit = &table.columns[value].unit;
    if figure.against.is_empty()
        && COMPARABLE_UNITS.contains(&published_unit(unit))
        && published_unit(unit) != published_unit(&figure.unit)
    {
        return Err(format!(
            "{named}: column '{}' is in {}, and not in '{}'",
            figure.column,
            published_unit(unit),
            figure.unit
        ));
    }
    let of_row = |which: &str, row: &BTreeMap<String, toml::Value>| {
        let mut conditions = Vec::new();
        for (name, value) in row {
            conditions.push((column(name)?, value));
        }
        let mut rows = (table.rows.iter())
            .filter(|row| conditions.iter().all(|(index, value)| is_same(&row[*index], value)));
        let (Some(row), None) = (rows.next(), rows.next()) else {
            let rows = if conditions.is_empty() { "all rows" } else { "none or several rows" };
            let firsts = table.rows.iter().filter_map(|row| row.first()).map(shown);
            let mut there: Vec<String> = firsts.collect();
            there.dedup();
            return Err(format!(
                "{named}: '{which}' selects {rows} of table {}, not one; its rows begin with {}",
                table.name,
                there.join(", ")
            ));
        };
        row[value].number().ok_or_else(|| {
            format!("{named}: the row that '{which}' selects has no number in that column")
        })
    };
    let model = of_row("row", &figure.row)?;
    if figure.against.is_empty() {
        return Ok(model);
    }
    match of_row("against", &figure.against)? {
        0.0 => Err(format!("{named}: the row that 'against' selects has 0 in that column")),
        other => Ok(model / other),
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Null => "nothing".to_owned(),
        Cell::Boolean(value) => value.to_string(),
        Cell::Integer(value) => value.to_string(),
        Cell::Number(value) => significant(*value),
        Cell::Text(text) => format!("'{text}'"),
    }
}

/// Units of columns that published figures use.
const COMPARABLE_UNITS: [&str; 5] = ["IOPS", "MB/s", "us", "ms", "s"];

/// Returns the unit in the notation of published figures.
fn published_unit(unit: &str) -> &str {
    if unit == "1/s" { "IOPS" } else { unit }
}

fn is_same(cell: &Cell, value: &toml::Value) -> bool {
    match (cell, value) {
        (Cell::Text(text), toml::Value::String(value)) => text == value,
        (Cell::Boolean(cell), toml::Value::Boolean(value)) => cell == value,
        _ => {
            let value = value.as_float().or(value.as_integer().map(|it| it as f64));
            cell.number().zip(value).is_some_and(|(cell, value)| cell == value)
        }
    }
}

fn table(compared: &[ComparedFigure]) -> Table {
    let columns = [
        ("drive", ""),
        ("figure", ""),
        ("unit", ""),
        ("published", ""),
        ("model", ""),
        ("error_percent", "%"),
        ("use", ""),
    ];
    let row = |one: &ComparedFigure| {
        vec![
            Cell::from(one.drive),
            Cell::from(one.figure.name.clone()),
            Cell::from(one.figure.unit.clone()),
            Cell::from(one.figure.published),
            Cell::from(one.model),
            Cell::from(one.error()),
            Cell::from(one.figure.r#use.name()),
        ]
    };
    Table {
        name: "figures".to_owned(),
        columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
        rows: compared.iter().map(row).collect(),
    }
}

fn sources(compared: &[ComparedFigure]) -> Table {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for one in compared {
        let row = vec![Cell::from(one.drive), Cell::from(one.figure.source.clone())];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let columns = vec![Column::new("drive", ""), Column::new("source", "")];
    Table { name: "sources".to_owned(), columns, rows }
}

fn conclude(compared: &[ComparedFigure], record: &mut Record) {
    let part = |what: Use| {
        let errors: Vec<f64> = (compared.iter())
            .filter(|one| one.figure.r#use == what)
            .map(|one| one.error().abs())
            .collect();
        let near = errors.iter().filter(|error| **error <= MAX_ERROR_PERCENT).count();
        (!errors.is_empty()).then(|| {
            format!(
                "{near} of {} figures that were {} are met within {MAX_ERROR_PERCENT} %",
                errors.len(),
                what.name()
            )
        })
    };
    let parts: Vec<String> = [Use::Fitted, Use::HeldOut].into_iter().filter_map(part).collect();
    if !parts.is_empty() {
        record.add_finding(Level::Info, "truth", format!("{}.", parts.join("; ")));
    }
    let mut far: Vec<&ComparedFigure> =
        compared.iter().filter(|one| one.error().abs() > MAX_ERROR_PERCENT).collect();
    far.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
    for one in far {
        let text = format!(
            "{}, {}: the model has {}, published {} {} ({:+.0} %).",
            one.drive,
            one.figure.name,
            significant(one.model),
            significant(one.figure.published),
            one.figure.unit,
            one.error()
        );
        record.add_finding(Level::Notice, "far-off", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::NullWatcher;

    const SMALL: &str = r#"
        target = "sim:toshiba-xg5"
        [[run]]
        experiment = "fragmentation"
        set = ["file_size=64M"]
        [[run.figure]]
        name = "as filled"
        table = "reads"
        row = { step = "fill" }
        column = "slowdown"
        published = 0.8
        unit = "x"
        use = "held out"
        source = "a test"
    "#;

    fn error(text: &str) -> String {
        let published = Published::parse("mine", text);
        published.and_then(|it| compare(&[it], 1, &mut NullWatcher)).unwrap_err().to_string()
    }

    #[test]
    fn a_figure_stands_beside_what_the_model_makes_of_it() {
        let published = Published::parse("mine", SMALL).unwrap();
        let report = compare(&[published], 1, &mut NullWatcher).unwrap();
        let row = &report.table("figures").unwrap().rows[0];
        assert_eq!(row[0], Cell::from("mine"));
        assert_eq!((row[3].number(), row[4].number()), (Some(0.8), Some(1.0)));
        assert!((row[5].number().unwrap() - 25.0).abs() < 1e-9);
        let texts: Vec<&str> = report.findings.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts[0], "0 of 1 figures that were held out are met within 10 %.");
        assert_eq!(texts[1], "mine, as filled: the model has 1.00, published 0.800 x (+25 %).");
    }

    #[test]
    fn a_figure_may_be_the_ratio_of_two_rows() {
        let ratio = SMALL
            .replace("step = \"fill\"", "step = \"after 1h of rest\"")
            .replace("\"slowdown\"", "\"best_seconds\"")
            .replace("column =", "against = { step = \"fill\" }\ncolumn =");
        let value = |text: &str| {
            let published = Published::parse("mine", text).unwrap();
            let report = compare(&[published], 1, &mut NullWatcher).unwrap();
            report.table("figures").unwrap().rows[0][4].number().unwrap()
        };
        // The column `slowdown` of the table is that ratio, too.
        let slowdown = SMALL.replace("step = \"fill\"", "step = \"after 1h of rest\"");
        assert!(value(&slowdown) > 1.5);
        assert!((value(&ratio) / value(&slowdown) - 1.0).abs() < 1e-9);
        let wrong = ratio.replace("against = { step = \"fill\" }", "against = { step = 7 }");
        assert!(error(&wrong).contains("'against' selects none or several rows of table reads"));
    }

    #[test]
    fn what_a_file_names_wrongly_is_said_with_what_there_is() {
        for (good, bad, words) in [
            ("\"reads\"", "\"read\"", "fragmentation has no table 'read'; it has reads"),
            ("\"slowdown\"", "\"slow\"", "table reads has no column 'slow'; it has step"),
            ("step = \"fill\"", "step = \"none\"", "none or several rows of table reads"),
            ("row = { step = \"fill\" }", "", "all rows of table reads"),
            ("file_size=64M", "file_size", "write NAME=VALUE"),
            ("sim:toshiba-xg5", "/dev/null", "compared with simulated drives"),
            ("\"fragmentation\"", "\"fragmentatoin\"", "there is no experiment"),
            ("held out", "kept", "unknown variant `kept`"),
            ("column =", "colum =", "unknown field `colum`"),
            ("= 0.8", "= -0.8", "published = -0.8: it must be above 0"),
            ("column = \"slowdown\"", "column = \"best_seconds\"", "is in s, and not in 'x'"),
            ("= 0.8", "= 0", "published = 0: it must be above 0"),
            ("= 0.8", "= nan", "published = NaN"),
        ] {
            let error = error(&SMALL.replace(good, bad));
            assert!(error.contains(words), "{bad}: {error}");
        }
    }

    #[test]
    fn runs_are_made_side_by_side_as_far_as_their_memory_goes() {
        let drive = Published::parse("mine", SMALL).unwrap();
        let mut runs = drive_runs(&drive, 1).unwrap();
        assert!(runs[0].memory > ByteLength::new(64 << 20));
        let mib = |count: u64| ByteLength::new(count << 20);
        for memory in [100, 300, 200] {
            runs.push(drive_runs(&drive, 1).unwrap().pop().unwrap());
            runs.last_mut().unwrap().memory = mib(memory);
        }
        runs.remove(0);
        let threads = |available| threads_that_fit(&runs, Some(mib(available)), 3).unwrap();
        assert_eq!([300, 499, 500, 599, 600, 6000].map(threads), [1, 1, 2, 2, 3, 3]);
        assert_eq!(threads_that_fit(&runs, None, 3).unwrap(), 3);
        let error = threads_that_fit(&runs, Some(mib(299)), 3).unwrap_err().to_string();
        assert!(error.contains("mine: fragmentation needs about 0.3 GiB of memory"), "{error}");
    }

    #[test]
    fn every_bundled_file_is_sound_and_has_figures() {
        for drive in Published::bundled() {
            assert!(drive.contents.run.iter().all(|run| !run.figure.is_empty()), "{}", drive.name);
            let target = drive.contents.target.trim_start_matches("sim:");
            let profile = target.split(',').next().unwrap_or(target);
            assert!(drive.name.starts_with(profile), "{}: {target}", drive.name);
        }
    }
}
