//! The table of published figures in the reference: errors may shrink, and not grow.
//!
//! `SSDLAB_WRITE_REFERENCE=1 cargo test -p ssdlab-lab --test truth` writes it anew.

use std::fmt::Write;
use std::path::Path;

use ssdlab_lab::experiment::NullWatcher;
use ssdlab_lab::report::{Cell, Report};
use ssdlab_lab::truth::{self, Published};

const HEAD: &str = "\
# Published figures, and the model's

This page is made from the program; a test keeps errors from growing. `ssdlab truth` shows the same table.
*Fitted* figures are those that a number of the profile was chosen for: that they are met says little. Nothing was
fitted to the others.

| drive | figure | published | model | error, % | |
| --- | --- | --- | --- | --- | --- |
";

/// An error may be so much larger than the one in the table, in percent of the published figure: what another
/// seed or rounding changes.
const ROUNDING: f64 = 0.6;

/// Rows as drive, figure, published, model, error, use.
fn rows(report: &Report) -> Vec<[String; 6]> {
    let number = |cell: &Cell| cell.number().unwrap();
    let text = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    };
    let table = report.table("figures").unwrap();
    let row = |row: &Vec<Cell>| {
        let model = number(&row[4]);
        let digits = if model < 100.0 { 2 } else { 0 };
        [
            text(&row[0]),
            format!("{}, {}", text(&row[1]), text(&row[2])),
            number(&row[3]).to_string(),
            format!("{model:.digits$}"),
            // Nothing is +0.0, on whichever side of it.
            format!("{:+.1}", (number(&row[5]) * 10.0).round() / 10.0 + 0.0),
            text(&row[6]),
        ]
    };
    table.rows.iter().map(row).collect()
}

/// The rows of a page, as they are written there.
fn written(page: &str) -> Vec<[String; 6]> {
    let lines = page.lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = |line: &str| {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        cells.try_into().unwrap()
    };
    lines.map(cells).collect()
}

#[test]
fn no_figure_is_further_off_than_the_reference_says() {
    let report = truth::compare(&Published::bundled(), 1, &mut NullWatcher).unwrap();
    let rows = rows(&report);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/truth.md");
    if std::env::var_os("SSDLAB_WRITE_REFERENCE").is_some() {
        let mut page = HEAD.to_owned();
        for row in &rows {
            writeln!(page, "| {} |", row.join(" | ")).unwrap();
        }
        page.push_str("\n## Sources\n\n");
        for row in &report.table("sources").unwrap().rows {
            let [Cell::Text(drive), Cell::Text(source)] = &row[..] else { panic!("{row:?}") };
            writeln!(page, "- {drive}: {source}").unwrap();
        }
        std::fs::write(&path, page).unwrap();
    }
    let kept = written(&std::fs::read_to_string(&path).unwrap());
    let named = |rows: &[[String; 6]]| -> Vec<[String; 3]> {
        rows.iter()
            .map(|[drive, figure, published, ..]| [drive, figure, published].map(String::clone))
            .collect()
    };
    assert_eq!(
        named(&rows),
        named(&kept),
        "the figures are others than the page's: SSDLAB_WRITE_REFERENCE=1 writes it anew"
    );
    for (now, kept) in rows.iter().zip(&kept) {
        let error = |row: &[String; 6]| row[4].parse::<f64>().unwrap().abs();
        assert!(
            error(now) <= error(kept) + ROUNDING,
            "{}, {}: {} % off, and {} % were reached before",
            now[0],
            now[1],
            now[4],
            kept[4]
        );
    }
}
