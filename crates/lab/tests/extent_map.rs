//! A drive whose map of extents outgrows its RAM (kingston-v-64) under the protocols of the test
//! that says so (KompyuterPress 01/2011), shortened; the full protocols give the same:
//!
//!     ssdlab run blocksize sim:kingston-v-64
//!     ssdlab run random-write sim:kingston-v-64

use ssdlab_blockio::RealOptions;
use ssdlab_lab::experiment::{self, NullWatcher, Settings};
use ssdlab_lab::report::{Cell, Report};
use ssdlab_lab::{Target, run};

fn run_on_kingston(name: &str, changes: &[(&str, &str)]) -> Report {
    let experiment = experiment::named(name).unwrap();
    let changes: Vec<(String, String)> =
        changes.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let settings = Settings::new(experiment, false, &changes).unwrap();
    let target = Target::parse("sim:kingston-v-64").unwrap();
    let mut drive = target.open(&RealOptions::default()).unwrap();
    let outcome = run(experiment, &settings, 1, drive.as_mut(), &mut NullWatcher);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    outcome.report
}

fn is_within_percent(value: f64, wanted: f64, percent: f64) -> bool {
    (value / wanted - 1.0).abs() <= percent / 100.0
}

#[test]
fn throughput_over_request_size_is_as_published_and_use_does_not_change_sequential_writes() {
    let report =
        run_on_kingston("blocksize", &[("sizes", "512,2K,4K,16K,64K,128K,1M"), ("time", "4s")]);
    let table = report.table("throughput").unwrap();
    let speed = |operation: &str, bytes: u64| {
        let row = table
            .rows
            .iter()
            .find(|row| row[0] == Cell::from(operation) && row[1].number() == Some(bytes as f64));
        row.unwrap()[2].number().unwrap()
    };
    const KIB: u64 = 1024;
    for (operation, published) in
        [("seq_read", 250.0), ("seq_write_new", 174.0), ("seq_write_used", 174.0)]
    {
        let at = |size| speed(operation, size);
        assert!(is_within_percent(at(128 * KIB), published, 3.0), "{operation}: {}", at(128 * KIB));
        assert!(is_within_percent(at(1024 * KIB), at(128 * KIB), 1.0), "{operation} is flat then");
        assert!(at(64 * KIB) < 0.97 * at(128 * KIB), "{operation}: {}", at(64 * KIB));
        assert!(at(4 * KIB) < at(16 * KIB) && at(16 * KIB) < at(64 * KIB), "{operation} grows");
    }
    for size in [512, 2048, 4096, 16 * KIB, 64 * KIB, 128 * KIB, 1024 * KIB] {
        let (new, used) = (speed("seq_write_new", size), speed("seq_write_used", size));
        assert!(is_within_percent(used, new, 3.0), "{size}: {new} when new, {used} when used");
    }
    for size in [4, 16, 64].map(|size| size * KIB) {
        assert!(speed("rand_read", size) < 0.9 * speed("seq_read", size), "{size}");
    }
}

#[test]
fn random_writes_fall_within_a_minute_because_the_table_is_full_and_swing_more_in_large_blocks() {
    let report = run_on_kingston("random-write", &[("time", "20m")]);
    let table = report.table("speed").unwrap();
    let column = |name: &str| -> Vec<f64> {
        let index = table.column(name).unwrap();
        table.rows.iter().map(|row| row[index].number().unwrap()).collect()
    };
    assert_eq!(column("request_bytes"), [4096.0, 16384.0, 65536.0, 262144.0]);
    assert!(column("fell_after_seconds").iter().all(|&after| after < 60.0));
    let swings = column("swing_mb_per_s");
    assert!(swings.is_sorted(), "{swings:?}");
    let why = report.findings.iter().find(|finding| finding.code == "before-collection").unwrap();
    assert!(why.text.contains("4 KiB, 16 KiB, 64 KiB and 256 KiB"), "{}", why.text);
    assert!(why.text.contains("extent map outgrew"), "{}", why.text);
}
