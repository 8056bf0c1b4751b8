//! Text for a terminal.

use ssdlab_lab::output::text::{Options, render, render_with};

use ssdlab_lab::report::{Cell, Column, Report, Table};

use crate::fixture::{PM983, XG5, fragmentation, unknown_experiment};

#[test]
fn a_report_for_a_wide_terminal() {
    insta::assert_snapshot!(render(&fragmentation("sim:xg5", &XG5), 120, false));
}

#[test]
fn a_report_for_80_columns() {
    insta::assert_snapshot!(render(&fragmentation("sim:xg5", &XG5), 80, false));
}

#[test]
fn a_report_in_ascii_of_a_shortened_interrupted_run_on_a_real_drive() {
    let mut report = fragmentation("/srv/data", &PM983);
    report.target.kind = ssdlab_lab::report::TargetKind::Directory;
    report.target.engine = "O_DIRECT, io_uring".to_owned();
    report.shortened = true;
    report.interrupted = true;
    report.parameters[0].value = "1GiB".to_owned();
    report.parameters[0].changed = true;
    report.counters = None;
    report.cost.simulated_seconds = None;
    report.cost.wall_seconds = 4000.0;
    report.tables[0].rows.truncate(3);
    report.tables[0].rows.iter_mut().for_each(|row| row[5] = ssdlab_lab::report::Cell::Null);
    let mut options = Options::new(80, false);
    options.ascii = true;
    options.more = Some("More: ssdlab show last --html report.html".to_owned());
    let text = render_with(&report, &options);
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn a_report_of_an_experiment_that_the_output_does_not_know() {
    insta::assert_snapshot!(render(&unknown_experiment(1.0), 80, false));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [60, 80, 100, 132] {
        for report in [fragmentation("sim:xg5", &XG5), unknown_experiment(1.0), many_columns()] {
            let text = render(&report, width, false);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let report = fragmentation("sim:xg5", &XG5);
    let colored = render(&report, 80, true);
    assert!(colored.contains("\x1b[1;33m"), "the warning stands out");
    let mut bare = String::new();
    let mut parts = colored.split("\x1b[");
    bare.push_str(parts.next().unwrap());
    for part in parts {
        bare.push_str(part.split_once('m').unwrap().1);
    }
    assert_eq!(bare, render(&report, 80, false));
}

#[test]
fn a_name_cannot_steer_the_terminal() {
    let mut report = fragmentation("sim:\x1b]0;owned\x07", &XG5);
    report.findings[0].text = "one\u{202e}two\x1b[2J".to_owned();
    report.tables[0].name = "a\x1b[31m".to_owned();
    report.tables[0].rows[0][0] = "b\x1b[31m\r".into();
    report.target.caveats = vec!["c\x1b[31m".to_owned()];
    report.parameters[0].value = "d\x1b[31m".to_owned();
    let text = render(&report, 80, false);
    let is_obeyed = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(!text.contains(is_obeyed), "{text:?}");
}

/// As `overprovision` has it: columns that do not fit beside each other on 80 columns.
fn many_columns() -> Report {
    let mut report = unknown_experiment(1.0);
    let columns = [
        ("state", ""),
        ("operation", ""),
        ("spare_percent", "%"),
        ("iops", "1/s"),
        ("mb_per_s", "MB/s"),
        ("latency_mean_us", "us"),
        ("latency_stddev_us", "us"),
        ("write_amplification", ""),
        ("steady", ""),
        ("state_before", ""),
    ];
    let row = |state: &str, operation: &str, iops: f64| {
        let words = "filled with sequential writes, then written at random over its whole capacity";
        vec![
            state.into(),
            operation.into(),
            27.24.into(),
            iops.into(),
            (iops * 0.004_096).into(),
            (32e6 / iops).into(),
            (9e6 / iops).into(),
            Cell::from(if operation == "rand_write" { Some(2.03) } else { None }),
            true.into(),
            words.into(),
        ]
    };
    report.tables[0] = Table {
        name: "states".to_owned(),
        columns: columns.map(|(name, unit)| Column::new(name, unit)).to_vec(),
        rows: vec![
            row("full", "seq_read", 520_000.0),
            row("full", "rand_write", 15_060.0),
            row("raid1_spare", "rand_write", 59_080.0),
        ],
    };
    report
}

#[test]
fn a_wide_table_breaks_no_word_on_80_columns() {
    insta::assert_snapshot!(render(&many_columns(), 80, false));
}

#[test]
fn a_wide_table_breaks_no_word_on_120_columns() {
    insta::assert_snapshot!(render(&many_columns(), 120, false));
}
