//! The published fragmentation table: three columns that the profiles were fitted to, each figure
//! within 8 %; no recovery at rest; and nothing changes when a file is written over once more.

#[path = "published/table.rs"]
mod table;

use ssdlab_blockio::RealOptions;
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};
use ssdlab_lab::experiment::{self, NullWatcher, Settings};
use ssdlab_lab::report::Report;
use ssdlab_lab::{Target, run};
use ssdlab_model::profile::Profile;
use ssdlab_units::{GIB, KIB, MIB, Nanoseconds};
use table::PUBLISHED;

fn run_on(target: &str, seed: u64) -> Report {
    let experiment = experiment::named("fragmentation").unwrap();
    let settings = Settings::new(experiment, false, &[]).unwrap();
    let mut drive = Target::parse(target).unwrap().open(&RealOptions::default()).unwrap();
    let outcome = run(experiment, &settings, seed, drive.as_mut(), &mut NullWatcher);
    assert!(outcome.error.is_none(), "{target}: {:?}", outcome.error);
    outcome.report
}

fn column(report: &Report, name: &str) -> Vec<f64> {
    let table = report.table("reads").unwrap();
    let index = table.column(name).unwrap();
    table.rows.iter().map(|row| row[index].number().unwrap()).collect()
}

#[test]
fn every_published_figure_is_met_within_eight_percent_and_rest_changes_nothing() {
    for (name, published) in PUBLISHED {
        let report = run_on(&format!("sim:{name}"), 7);
        let written = column(&report, "written_bytes");
        let mib: Vec<f64> = written.iter().map(|bytes| bytes / f64::from(1 << 20)).collect();
        assert_eq!(mib, [0.0, 50.0, 250.0, 1050.0, 5050.0, 5050.0], "{name}");
        let best = column(&report, "best_seconds");
        for (step, published) in [0, 2, 4].into_iter().zip(published) {
            let error = best[step] / published - 1.0;
            assert!(
                error.abs() <= 0.08,
                "{name}, step {step}: {:.2} s for {published}",
                best[step]
            );
        }
        assert!((best[5] / best[4] - 1.0).abs() < 0.01, "{name} does not recover at rest");
    }
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_seed_another() {
    let (one, two, other) =
        (run_on("sim:toshiba-xg5", 1), run_on("sim:toshiba-xg5", 1), run_on("sim:toshiba-xg5", 2));
    assert_eq!(one.tables, two.tables);
    assert_eq!(one.series, two.series);
    assert_eq!(one.histograms, two.histograms);
    assert_eq!(one.findings, two.findings);
    assert_ne!(one.histograms, other.histograms);
}

#[test]
fn writing_a_scattered_file_over_once_more_changes_nothing() {
    let configuration = Profile::named("toshiba-xg5").unwrap().configuration().unwrap();
    let mut drive = SimulatedDrive::new("toshiba-xg5", configuration).unwrap();
    let mut seconds = |pattern, mix, seed| {
        let phase = Phase {
            name: "test".to_owned(),
            pattern,
            block_size: if pattern == Pattern::Sequential { MIB } else { KIB * 4 },
            depth: 1,
            mix,
            region: Region::first(GIB),
            amount: Amount::Bytes(GIB),
            rate: None,
            seed,
            flush_at_end: mix == Mix::WRITE,
            interval: Nanoseconds::ZERO,
        };
        drive.run_phase(&phase, &mut Unobserved).unwrap().elapsed.seconds()
    };
    seconds(Pattern::Sequential, Mix::WRITE, 1);
    let new = seconds(Pattern::Sequential, Mix::READ, 1);
    seconds(Pattern::RandomOnce, Mix::WRITE, 2);
    let once = seconds(Pattern::Sequential, Mix::READ, 1);
    seconds(Pattern::RandomOnce, Mix::WRITE, 3);
    let twice = seconds(Pattern::Sequential, Mix::READ, 1);
    assert!(once > 3.0 * new, "{new} s when new, {once} s when scattered");
    assert!((twice / once - 1.0).abs() < 0.02, "{once} s, then {twice} s");
}
