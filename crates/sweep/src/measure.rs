//! Figures of one run, by name: every number in the tables of its report, percentiles, and write amplification.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ssdlab_lab::output::{label, significant};
use ssdlab_lab::report::{Cell, Finding, Report, Table};

/// One figure of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// Its name, such as `steady[drift bound].mb_per_s`.
    pub name: String,
    /// Its unit; empty for a ratio or a count.
    pub unit: String,
    /// Its value; `None` where it was not measured, or nothing can be said of it.
    pub value: Option<f64>,
}

/// Figures and findings of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Figures, in the order of the report.
    pub measures: Vec<Measure>,
    /// Findings, in the order of the report.
    pub findings: Vec<Finding>,
}

impl Measured {
    /// Returns the figures of a report.
    pub fn of(report: &Report) -> Measured {
        let mut measures: Vec<Measure> = report.tables.iter().flat_map(measures_of_table).collect();
        for histogram in &report.histograms {
            for percentile in &histogram.percentiles {
                measures.push(Measure {
                    name: format!("latency[{}].p{}", histogram.name, percentile.percent),
                    unit: "us".to_owned(),
                    value: Some(percentile.us),
                });
            }
        }
        if let Some(counters) = &report.counters {
            let whole = [
                ("write_amplification", "", counters.write_amplification),
                ("flash_written", "B", Some(counters.flash_written_bytes as f64)),
                ("erases", "", Some(counters.erases as f64)),
            ];
            measures.extend(whole.map(|(name, unit, value)| Measure {
                name: format!("whole_run.{name}"),
                unit: unit.to_owned(),
                value,
            }));
        }
        Measured { measures, findings: report.findings.clone() }
    }
}

fn measures_of_table(table: &Table) -> Vec<Measure> {
    let keys = table.key_columns();
    let is_number = |column: usize| {
        table.rows.iter().any(|row| row.get(column).and_then(Cell::number).is_some())
    };
    let columns: Vec<usize> = (keys..table.columns.len()).filter(|&it| is_number(it)).collect();
    let mut measures = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for row in &table.rows {
        let words: Vec<String> = row.iter().take(keys).map(cell_text).collect();
        let mut key = words.join(", ");
        // Rows with the same words are numbered in their order.
        let alike = seen.iter().filter(|other| **other == key).count();
        seen.push(key.clone());
        if alike > 0 {
            key = format!("{key} ({})", alike + 1);
        }
        for &column in &columns {
            let Column { name, unit } = &table.columns[column];
            measures.push(Measure {
                name: format!("{}[{key}].{name}", table.name),
                unit: unit.clone(),
                value: row.get(column).and_then(Cell::number),
            });
        }
    }
    measures
}

use ssdlab_lab::report::Column;

fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Integer(number) => number.to_string(),
        Cell::Number(number) => significant(*number),
        Cell::Boolean(value) => if *value { "yes" } else { "no" }.to_owned(),
        Cell::Null => "-".to_owned(),
    }
}

/// Returns the parts of a name: table, row and column.
pub(crate) fn split_name(name: &str) -> (&str, &str, &str) {
    let (rest, column) = name.rsplit_once('.').unwrap_or(("", name));
    match rest.split_once('[') {
        Some((table, row)) => (table, row.strip_suffix(']').unwrap_or(row), column),
        None => (rest, "", column),
    }
}

/// Returns a name in words: column, row and table.
pub(crate) fn display_name(name: &str, unit: &str) -> String {
    let (table, row, column) = split_name(name);
    let column = label(column, unit);
    let place = [row, table].into_iter().filter(|part| !part.is_empty());
    let place: Vec<String> = place.map(|part| label(part, "")).collect();
    if place.is_empty() { column } else { format!("{column} ({})", place.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_table_has_a_name_that_leads_back_to_it() {
        let row =
            |name: &str, value: f64| vec![Cell::from(name), Cell::from(true), Cell::from(value)];
        let table = Table {
            name: "steady".to_owned(),
            columns: vec![
                Column::new("rule", ""),
                Column::new("ok", ""),
                Column::new("mb_per_s", "MB/s"),
            ],
            rows: vec![row("drift 0.5", 125.0), row("other", f64::NAN), row("other", 3.0)],
        };
        let measures = measures_of_table(&table);
        let names: Vec<&str> = measures.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names[0], "steady[drift 0.5].mb_per_s");
        assert_eq!(measures[0].value, Some(125.0));
        assert_eq!(measures[1].value, None);
        assert_eq!(names[1..], ["steady[other].mb_per_s", "steady[other (2)].mb_per_s"]);
        assert_eq!(split_name(names[0]), ("steady", "drift 0.5", "mb_per_s"));
        assert_eq!(display_name(names[0], "MB/s"), "MB/s (drift 0.5, steady)");
        assert_eq!(
            display_name("whole_run.write_amplification", ""),
            "write amplification (whole run)"
        );
    }
}
