//! Advice on over-provisioning: measures a workload in steady state at several amounts of over-provisioning,
//! with its effect on write amplification, speed, latencies and life.

mod load;
mod trial;

use std::fmt::Write as _;
use std::time::Instant;

use ssdlab_model::precondition::Workload;

pub use self::load::Load;
use self::trial::{SpareResult, measure_spare, profile_of};
use crate::error::LabError;
use crate::experiment::{Record, Watcher};
use crate::import::empty_report;
use crate::machine;
use crate::report::{
    Cell, Column, Cost, Fact, Level, Parameter, Report, SCHEMA, Table, Target as Measured,
    TargetKind,
};
use crate::target::spare_description;

/// Default amounts of over-provisioning to try, in percent of physical capacity.
pub const SPARES: [f64; 7] = [7.0, 10.0, 15.0, 20.0, 28.0, 35.0, 50.0];

/// Erase cycles if the profile has none: the usual rating of client drives with TLC flash.
const ASSUMED_CYCLES: u32 = 1_000;

/// Minimum gain of speed per percent of over-provisioning, in percent, that justifies the lost capacity.
const MIN_GAIN_PERCENT: f64 = 2.0;

/// Parameters of the advice.
#[derive(Clone, Debug)]
pub struct Request {
    /// Target: `sim:PROFILE`, with changes.
    pub target: String,
    /// Amounts of over-provisioning to try, in percent of physical capacity, rising.
    pub spares: Vec<f64>,
    /// Distribution of the writes: uniform, or hot and cold.
    pub workload: Workload,
    /// Measured workload.
    pub load: Load,
    /// Rated erase cycles of the flash; `None` for those of the profile.
    pub cycles: Option<u32>,
    /// Seed of the random choices.
    pub seed: u64,
    /// Instructions for setting the over-provisioning on a real drive, in order, a sentence each.
    pub how: Vec<String>,
}

/// Measures all amounts of over-provisioning.
///
/// # Errors
/// Returns an error if the drive cannot have one of the amounts, or if the watcher ends the run.
pub fn advise(request: &Request, watcher: &mut dyn Watcher) -> Result<Report, LabError> {
    let wall = Instant::now();
    let cpu = machine::cpu_seconds();
    let started = jiff::Timestamp::now();
    let (whole, _) = profile_of(&request.target, request.seed)?;
    let cycles = whole.configuration()?.mechanisms.wear.pe_cycles;
    let used = request.cycles.or(cycles).unwrap_or(ASSUMED_CYCLES);
    let mut results = Vec::new();
    for &spare in &request.spares {
        results.push(measure_spare(request, spare, used, request.spares.len(), watcher)?);
    }
    let mut record = Record::default();
    conclude(&results, request.workload, &mut record);
    if request.cycles.or(cycles).is_none() {
        record.add_finding(
            Level::Notice,
            "cycles-assumed",
            format!(
                "Life is calculated with {used} erase cycles, since the profile names none; set \
                 those of the flash with --cycles. The ratios between the rows do not depend on \
                 it."
            ),
        );
    }
    if results.iter().any(|it| it.scatter.is_none()) {
        record.add_finding(
            Level::Info,
            "scatter-left-out",
            "The drive was scaled down, with erase blocks smaller by the same factor. This \
             preserves rates and means, but not the spread of latencies, so deviation and p99 are \
             left out. scale=1/1 in the target simulates the full-size drive, which takes minutes \
             and memory."
                .to_owned(),
        );
    }
    for (number, step) in (1..).zip(&request.how) {
        record.add_finding(Level::Info, "how", format!("{number}. {step}"));
    }
    record.tables.push(table(&results));
    let curve = |of: fn(&SpareResult) -> f64| -> Vec<(f64, f64)> {
        results.iter().map(|it| (it.spare, of(it))).collect()
    };
    let percent = "% of physical";
    record.add_series(
        "write_amplification".to_owned(),
        (percent, "programs per write"),
        &curve(|it| it.write_amplification),
    );
    record.add_series("iops".to_owned(), (percent, "1/s"), &curve(|it| it.iops));
    record.add_series("life".to_owned(), (percent, "TB"), &curve(|it| it.life / 1e12));
    let geometry = whole.configuration()?.geometry;
    Ok(Report {
        schema: SCHEMA.to_owned(),
        experiment: "advise".to_owned(),
        target: Measured {
            kind: TargetKind::Simulated,
            name: request.target.clone(),
            capacity_bytes: geometry.capacity().bytes(),
            engine: "virtual time".to_owned(),
            caveats: Vec::new(),
            facts: vec![
                Fact { name: "profile".to_owned(), value: whole.summary().to_owned() },
                Fact {
                    name: "over-provisioning as sold".to_owned(),
                    value: spare_description(&geometry),
                },
            ],
        },
        seed: request.seed,
        parameters: parameters(request, used),
        host: machine::host(),
        started: format!("{started:.0}"),
        tables: record.tables,
        series: record.series,
        findings: record.findings,
        cost: Cost {
            wall_seconds: wall.elapsed().as_secs_f64(),
            cpu_seconds: machine::cpu_seconds() - cpu,
            simulated_seconds: Some(results.iter().map(|it| it.simulated).sum()),
            requests: results.iter().map(|it| it.requests).sum(),
            units: results.iter().map(|it| it.requests).sum(),
            peak_rss_bytes: machine::peak_memory().bytes(),
        },
        ..empty_report()
    })
}

fn parameters(request: &Request, cycles: u32) -> Vec<Parameter> {
    let workload = match request.workload {
        Workload::Uniform => "uniform".to_owned(),
        Workload::HotCold { writes, pages } => {
            format!("{:.0}%:{:.0}%", writes * 100.0, pages * 100.0)
        }
    };
    let spares: Vec<String> = request.spares.iter().map(|it| format!("{it}%")).collect();
    let mut all = vec![("spares".to_owned(), spares.join(",")), ("writes".to_owned(), workload)];
    all.extend(request.load.settings());
    all.push(("cycles".to_owned(), cycles.to_string()));
    all.into_iter().map(|(name, value)| Parameter { name, value, changed: false }).collect()
}

fn table(results: &[SpareResult]) -> Table {
    let columns = [
        ("spare", "%"),
        ("capacity", "GB"),
        ("write_amplification", ""),
        ("theory", ""),
        ("iops", "1/s"),
        ("mean", "us"),
        ("deviation", "us"),
        ("p99", "us"),
        ("life", "TB"),
    ];
    let rows = results.iter().map(|it| {
        vec![
            it.spare.into(),
            shown(it).capacity_gb.into(),
            round_to_places(it.write_amplification, 3).into(),
            it.theory.map(|theory| round_to_places(theory, 3)).into(),
            shown(it).iops.into(),
            round_to_places(it.mean_us, 1).into(),
            it.scatter.map(|scatter| round_to_places(scatter.deviation_us, 1)).into(),
            it.scatter.map(|scatter| round_to_places(scatter.p99_us, 1)).into(),
            shown(it).life_tb.into(),
        ]
    });
    Table {
        name: "spare".to_owned(),
        columns: columns.into_iter().map(|(name, unit)| Column::new(name, unit)).collect(),
        rows: rows.collect::<Vec<Vec<Cell>>>(),
    }
}

/// Figures of a row, rounded as in the table. Sentences use these, so that a ratio in a sentence equals that
/// of the two rows.
struct Shown {
    capacity_gb: f64,
    iops: f64,
    life_tb: f64,
}

fn shown(it: &SpareResult) -> Shown {
    Shown {
        capacity_gb: round_to_shown_digits(it.capacity / 1e9),
        iops: round_to_shown_digits(it.iops),
        life_tb: round_to_shown_digits(it.life / 1e12),
    }
}

/// Rounds `value` to the three digits that outputs show, or to a whole number if that has more digits.
fn round_to_shown_digits(value: f64) -> f64 {
    if value <= 0.0 {
        return value;
    }
    round_to_places(value, (2 - value.log10().floor() as i32).max(0))
}

fn round_to_places(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

/// Returns the index of the row after which more over-provisioning brings too little per percent.
fn last_worthwhile(results: &[SpareResult]) -> usize {
    let per_percent = |pair: &[SpareResult]| {
        let percents = pair[1].spare - pair[0].spare;
        ((pair[1].iops / pair[0].iops).powf(1.0 / percents) - 1.0) * 100.0
    };
    results
        .windows(2)
        .rposition(|pair| per_percent(pair) >= MIN_GAIN_PERCENT)
        .map_or(0, |at| at + 1)
}

fn conclude(results: &[SpareResult], workload: Workload, record: &mut Record) {
    let (Some(first), Some(best)) = (results.first(), results.get(last_worthwhile(results))) else {
        return;
    };
    let is_last = results.last().is_some_and(|last| last.spare <= best.spare);
    let mut text = if is_last {
        format!("{} % of the flash, the most that was tried, is best for this workload", best.spare)
    } else {
        format!("{} % of the flash as over-provisioning is enough for this workload", best.spare)
    };
    if best.spare > first.spare {
        let (least, most) = (shown(first), shown(best));
        let _ = write!(
            text,
            ": {:.1} times the requests a second and {:.1} times the life of {} %, for {:.0} GB of \
             capacity",
            most.iops / least.iops,
            most.life_tb / least.life_tb,
            first.spare,
            least.capacity_gb - most.capacity_gb
        );
    }
    text.push_str(&if is_last {
        ". More may still be worth it: --spare tries other shares.".to_owned()
    } else {
        format!(
            ". Beyond it, each further percent brings less than {MIN_GAIN_PERCENT} % more \
                 speed."
        )
    });
    record.add_finding(Level::Notice, "spare-enough", text);
    let gap = |it: &SpareResult| it.theory.map(|theory| (it.of_data / theory - 1.0) * 100.0);
    let gaps: Vec<f64> = results.iter().filter_map(gap).collect();
    if let Some(widest) = gaps.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())) {
        record.add_finding(
            Level::Info,
            "against-theory",
            format!(
                "Write amplification of the model is within {:.1} % of the closed form for {}.",
                widest.abs(),
                match workload {
                    Workload::Uniform => "uniform random writes",
                    Workload::HotCold { .. } => "hot and cold writes under FIFO collection",
                }
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_units::ByteLength;

    use super::*;
    use crate::experiment::NullWatcher;

    fn result_of(spare: f64, iops: f64) -> SpareResult {
        SpareResult {
            spare,
            capacity: 1e9,
            write_amplification: 2.0,
            of_data: 2.0,
            theory: None,
            iops,
            mean_us: 1.0,
            scatter: None,
            life: iops,
            simulated: 1.0,
            requests: 1,
        }
    }

    #[test]
    fn enough_is_where_a_further_percent_brings_little() {
        let rows = [
            result_of(7.0, 100.0),
            result_of(10.0, 200.0),
            result_of(20.0, 300.0),
            result_of(30.0, 330.0),
        ];
        assert_eq!(last_worthwhile(&rows), 2);
        assert_eq!(last_worthwhile(&[result_of(7.0, 100.0), result_of(28.0, 101.0)]), 0);
    }

    #[test]
    fn what_is_said_of_two_rows_is_what_they_come_to() {
        // Rounded to a tenth of a TB, these lives would be 0.2 and 0.3.
        let of = |spare, iops, life| SpareResult { life, ..result_of(spare, iops) };
        let rows = [of(7.0, 1000.4, 0.2049e12), of(28.0, 2449.0, 0.3471e12)];
        let mut record = Record::default();
        conclude(&rows, Workload::Uniform, &mut record);
        let text = &record.findings[0].text;
        let table = table(&rows);
        let ratio = |name: &str| {
            let column = table.column(name).unwrap();
            let of = |row: usize| table.rows[row][column].number().unwrap();
            format!("{:.1} times", of(1) / of(0))
        };
        assert!(text.contains(&ratio("life")) && text.contains(&ratio("iops")), "{text}");
        assert_eq!(ratio("life"), "1.7 times");
    }

    #[test]
    fn hot_and_cold_writes_are_measured_as_such_and_held_against_their_own_theory() {
        let load = Load::Units { read_percent: 0, depth: 32 };
        let of = |workload| {
            let target = "sim:,scale=1/512,collection.policy=fifo".to_owned();
            let request = Request { target, workload, spares: vec![28.0], ..request(load.clone()) };
            advise(&request, &mut NullWatcher).unwrap()
        };
        let hot = of(Workload::HotCold { writes: 0.9, pages: 0.1 });
        let uniform = of(Workload::Uniform);
        let figures = |report: &Report| {
            (number(report, 0, "write_amplification"), number(report, 0, "theory"))
        };
        let ((found, theory), (of_uniform, _)) = (figures(&hot), figures(&uniform));
        assert!((found / theory - 1.0).abs() < 0.03, "{found} against {theory}");
        assert!((found / of_uniform - 1.0).abs() > 0.1, "{found} and {of_uniform}");
        let text = &hot.findings.iter().find(|it| it.code == "against-theory").unwrap().text;
        assert!(text.contains("hot and cold writes"), "{text}");
    }

    fn request(load: Load) -> Request {
        Request {
            target: "sim:,scale=1/512".to_owned(),
            spares: vec![7.0, 28.0],
            workload: Workload::Uniform,
            load,
            cycles: None,
            seed: 1,
            how: vec!["Do this.".to_owned()],
        }
    }

    #[test]
    fn how_latencies_scatter_is_left_out_where_blocks_were_made_smaller() {
        let load = Load::Units { read_percent: 0, depth: 32 };
        let request = Request { target: "sim:".to_owned(), spares: vec![28.0], ..request(load) };
        let report = advise(&request, &mut NullWatcher).unwrap();
        let table = report.table("spare").unwrap();
        for name in ["deviation", "p99"] {
            assert_eq!(table.rows[0][table.column(name).unwrap()].number(), None, "{name}");
        }
        assert!(report.findings.iter().any(|it| it.code == "scatter-left-out"));
    }

    fn number(report: &Report, row: usize, name: &str) -> f64 {
        let table = report.table("spare").unwrap();
        table.rows[row][table.column(name).unwrap()].number().unwrap()
    }

    #[test]
    fn sequential_writes_deserve_no_spare_area_and_no_theory_is_claimed() {
        let load = Load::Blocks {
            pattern: ssdlab_drive::Pattern::Sequential,
            block_size: Some(ByteLength::new(1 << 20)),
            read_percent: 0,
            depth: 4,
        };
        let report = advise(&request(load), &mut NullWatcher).unwrap();
        for row in 0..2 {
            let found = number(&report, row, "write_amplification");
            assert!(found < 1.1, "{found}");
        }
        let text = &report.findings.iter().find(|it| it.code == "spare-enough").unwrap().text;
        assert!(text.starts_with("7 %"), "{text}");
        assert!(!report.findings.iter().any(|it| it.code == "against-theory"));
    }

    #[test]
    fn more_spare_is_less_work_for_the_flash_and_more_life_as_theory_says() {
        let request = request(Load::Units { read_percent: 0, depth: 32 });
        let report = advise(&request, &mut NullWatcher).unwrap();
        let number = |row, name| number(&report, row, name);
        for row in 0..2 {
            let (found, theory) = (number(row, "write_amplification"), number(row, "theory"));
            assert!((found / theory - 1.0).abs() < 0.03, "{found} against {theory}");
        }
        assert!(number(1, "iops") > 1.5 * number(0, "iops"));
        for name in ["mean", "p99"] {
            assert!(number(1, name) < number(0, name), "{name}: {}", number(1, name));
        }
        assert!(number(1, "life") > 1.5 * number(0, "life"));
        assert_eq!(report.series.len(), 3);
        assert!(report.findings.iter().any(|it| it.text == "1. Do this."));
        assert!(report.findings.iter().any(|it| it.code == "cycles-assumed"));
    }
}
