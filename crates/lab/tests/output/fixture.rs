//! Reports with the figures of real drives, for tests of what is made of them.

use ssdlab_lab::report::*;

const MIB: u64 = 1 << 20;

/// Name, MiB written before, best seconds.
type Step = (&'static str, u64, f64);

/// A drive that use slows down much.
pub const XG5: [Step; 6] = [
    ("fill", 0, 1.9),
    ("50 MiB", 50, 2.46),
    ("250 MiB", 250, 3.7),
    ("1050 MiB", 1050, 5.912),
    ("5050 MiB", 5050, 6.8),
    ("after the long rest", 5050, 6.79),
];

/// A drive that use hardly slows down.
pub const PM983: [Step; 6] = [
    ("fill", 0, 3.3),
    ("50 MiB", 50, 3.31),
    ("250 MiB", 250, 3.4),
    ("1050 MiB", 1050, 3.38),
    ("5050 MiB", 5050, 3.4),
    ("after the long rest", 5050, 3.4),
];

/// A number with the digits a measurement has.
fn digits(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Returns what a run of `fragmentation` leaves behind.
pub fn fragmentation(target: &str, steps: &[Step]) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        experiment: "fragmentation".to_owned(),
        target: target_of(target),
        seed: 42,
        parameters: parameters(),
        shortened: false,
        interrupted: false,
        host: Host {
            system: "Linux 6.12.0".to_owned(),
            architecture: "x86_64".to_owned(),
            processors: 8,
            ssdlab: "0.1.0".to_owned(),
        },
        started: "2026-08-14T09:30:12Z".to_owned(),
        tables: vec![reads(steps)],
        series: series(steps),
        histograms: steps.iter().map(histogram).collect(),
        findings: findings(steps),
        counters: Some(counters()),
        health: None,
        attribution: Some(attribution()),
        recordings: Vec::new(),
        cost: Cost {
            wall_seconds: 1.234,
            cpu_seconds: 1.19,
            simulated_seconds: Some(14_760.0),
            requests: 1_359_872,
            units: 19_103_744,
            peak_rss_bytes: 88 * MIB,
        },
    }
}

fn target_of(name: &str) -> Target {
    let fact = |name: &str, value: &str| Fact { name: name.to_owned(), value: value.to_owned() };
    Target {
        kind: TargetKind::Simulated,
        name: name.to_owned(),
        capacity_bytes: 512_110_190_592,
        engine: "virtual time".to_owned(),
        caveats: vec![
            "The number of parallel units of this profile is fitted to published figures, not \
             taken from a data sheet."
                .to_owned(),
        ],
        facts: vec![
            fact("model", "Toshiba XG5 KXG50ZNV512G"),
            fact("interface", "NVMe, PCIe 3.0 x4"),
            fact("dies", "32 on 8 channels"),
            fact("flash page", "16 KiB, read in 60 us"),
            fact("over-provisioning", "7 % of physical"),
        ],
    }
}

fn parameters() -> Vec<Parameter> {
    let parameter = |name: &str, value: &str| Parameter {
        name: name.to_owned(),
        value: value.to_owned(),
        changed: false,
    };
    vec![
        parameter("file", "4GiB"),
        parameter("amounts", "50MiB,200MiB,800MiB,4000MiB"),
        parameter("rests", "10s,20s,30s"),
        parameter("long_rest", "1h"),
    ]
}

fn attribution() -> ReportAttribution {
    let parts = |parts: &[(&str, f64)]| {
        let part = |&(name, seconds): &(&str, f64)| TimePart { name: name.to_owned(), seconds };
        parts.iter().map(part).collect()
    };
    ReportAttribution {
        reads: parts(&[("command", 4.1), ("queue", 9.3), ("link", 20.4), ("flash read", 8.2)]),
        writes: parts(&[("command", 30.0), ("link", 4.0), ("program", 0.1)]),
        others: Vec::new(),
    }
}

fn reads(steps: &[Step]) -> Table {
    let column = Column::new;
    let row = |(name, written, seconds): &Step| {
        let slowdown = seconds / steps[0].2;
        vec![
            Cell::from(*name),
            Cell::from(written * MIB),
            Cell::from(*seconds),
            Cell::from(digits(4096.0 * 1.048_576 / seconds)),
            Cell::from(digits(slowdown)),
            Cell::from(digits((64.0 * slowdown).min(256.0))),
        ]
    };
    Table {
        name: "reads".to_owned(),
        columns: vec![
            column("step", ""),
            column("written_bytes", "B"),
            column("best_seconds", "s"),
            column("mean_mb_per_s", "MB/s"),
            column("slowdown", "x"),
            column("flash_page_reads_per_request", ""),
        ],
        rows: steps.iter().map(row).collect(),
    }
}

/// Three reads after every step and one after the long rest, a point each tenth of a second.
fn series(steps: &[Step]) -> Vec<Series> {
    let reads = steps.iter().flat_map(|step| {
        let count = if step.0 == "after the long rest" { 1 } else { 3 };
        (1..=count).map(move |read| (step, read))
    });
    reads
        .map(|((name, _, seconds), read)| {
            let seconds = seconds * (1.0 + 0.01 * f64::from(3 - read));
            let rate = 4096.0 * 1.048_576 / seconds;
            let count = (seconds * 10.0).ceil() as usize;
            let wave = |index: usize| ((index * 7919 + read as usize) % 13) as f64 / 13.0 - 0.5;
            Series {
                name: format!("read_throughput_{}_{read}", name.replace(' ', "_").to_lowercase()),
                unit_x: "s".to_owned(),
                unit_y: "MB/s".to_owned(),
                x: (1..=count).map(|index| digits((index as f64 * 0.1).min(seconds))).collect(),
                y: (1..=count).map(|index| digits(rate * (1.0 + 0.06 * wave(index)))).collect(),
            }
        })
        .collect()
}

/// Two humps around the mean latency of a step, and one straggler.
fn histogram((name, _, seconds): &Step) -> LatencyHistogram {
    let mean = seconds / 4096.0 * 1e6;
    let hump = |index: i32, center: f64, width: f64| {
        (-((f64::from(index) - center) / width).powi(2)).exp()
    };
    let mut bucket_us = Vec::new();
    let mut bucket_count = Vec::new();
    for index in -30..=60 {
        let height = 220.0 * hump(index, 0.0, 6.0) + 14.0 * hump(index, 26.0, 5.0);
        if height.round() > 0.0 {
            bucket_us.push(digits(mean * 1.02f64.powi(index)));
            bucket_count.push(height.round() as u64);
        }
    }
    bucket_us.push(digits(mean * 6.3));
    bucket_count.push(1);
    let percentile = |percent, factor: f64| Percentile { percent, us: digits(mean * factor) };
    LatencyHistogram {
        name: format!("read_{}", name.replace(' ', "_").to_lowercase()),
        count: bucket_count.iter().sum(),
        mean_us: digits(mean),
        percentiles: vec![
            percentile(50.0, 1.0),
            percentile(90.0, 1.12),
            percentile(99.0, 1.72),
            percentile(99.9, 2.1),
        ],
        bucket_us,
        bucket_count,
    }
}

fn findings(steps: &[Step]) -> Vec<Finding> {
    let finding = |level, code: &str, text: String| Finding { level, code: code.to_owned(), text };
    let slowdown = steps[steps.len().min(5) - 1].2 / steps[0].2;
    vec![
        finding(
            if slowdown > 1.5 { Level::Warning } else { Level::Info },
            "reads-slower",
            format!(
                "After 5050 MiB of random overwrites, reading the same file takes {slowdown:.2} \
                 times as long: {:.1} s instead of {:.1} s.",
                steps[steps.len().min(5) - 1].2,
                steps[0].2
            ),
        ),
        finding(
            Level::Notice,
            "no-recovery",
            "An hour of rest changed nothing: the drive does not tidy up in the background."
                .to_owned(),
        ),
        finding(
            Level::Info,
            "cure",
            "Rewriting the file in place, sequentially, would bring the speed back.".to_owned(),
        ),
    ]
}

fn counters() -> ReportCounters {
    ReportCounters {
        host_writes: 2_341_376,
        part_writes: 0,
        host_written_bytes: 0,
        flash_written_bytes: 0,
        host_reads: 16_777_216,
        flash_writes: 2_364_790,
        write_amplification: Some(1.01),
        metadata_writes: 0,
        data_write_amplification: Some(1.01),
        collection_writes: 22_900,
        merge_writes: 0,
        padding_writes: 514,
        flash_page_reads: 9_876_543,
        collection_page_reads: 8_120,
        merge_page_reads: 0,
        map_page_reads: 0,
        erases: 117,
        erases_min: 0,
        erases_mean: 0.114,
        erases_max: 2,
        trims: 1_048_576,
        flushes: 5,
    }
}

/// A run of an experiment that nothing here knows: rising sizes, two measurements of one unit.
pub fn unknown_experiment(factor: f64) -> Report {
    let mut report = fragmentation("sim:mlc-64", &PM983);
    report.experiment = "blocksize".to_owned();
    report.findings.truncate(1);
    report.findings[0].text = "Sequential reads reach 250 MB/s from 128 KiB on.".to_owned();
    report.histograms.clear();
    report.counters = None;
    let row = |power: u32| {
        let size = 512u64 << power;
        let rate = digits(factor * 250.0 * size as f64 / (size as f64 + 20_000.0));
        let random = (power > 2).then_some(digits(rate * 0.6));
        vec![
            Cell::from(size),
            Cell::from(rate),
            Cell::from(random),
            Cell::from(size.is_multiple_of(4096)),
        ]
    };
    report.tables = vec![
        Table {
            name: "throughput".to_owned(),
            columns: vec![
                Column::new("request_bytes", "B"),
                Column::new("sequential_mb_per_s", "MB/s"),
                Column::new("random_mb_per_s", "MB/s"),
                Column::new("aligned", ""),
            ],
            rows: (0..12).map(row).collect(),
        },
        Table {
            name: "empty".to_owned(),
            columns: vec![Column::new("nothing", "s")],
            rows: Vec::new(),
        },
    ];
    let minutes: Vec<f64> = (1..=240).map(f64::from).collect();
    report.series = ["new", "used"]
        .iter()
        .enumerate()
        .map(|(index, state)| Series {
            name: format!("write_throughput_{state}"),
            unit_x: "min".to_owned(),
            unit_y: "MB/s".to_owned(),
            y: minutes
                .iter()
                .map(|minute| {
                    let drop = (-minute / 12.0).exp() * (1.0 - index as f64 * 0.7);
                    digits(factor * (40.0 + 120.0 * drop + 6.0 * (minute * 0.7).sin()))
                })
                .collect(),
            x: minutes.clone(),
        })
        .collect();
    report
}
