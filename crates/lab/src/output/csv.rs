//! A report as files of comma-separated values (RFC 4180): one for each table, curve and histogram.

use std::fmt::Write;

use crate::report::{Cell, Report, Table};

/// A CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvFile {
    /// Name, such as `table-reads.csv`.
    pub name: String,
    /// Content.
    pub text: String,
}

/// The first line of `columns.csv`, which identifies a directory of these files.
pub const COLUMNS: &str = "table,column,unit";

/// Returns the files of a report. Column names are those of the JSON; `columns.csv` has the units.
pub fn files(report: &Report) -> Vec<CsvFile> {
    let mut files = Vec::new();
    let mut add = |kind: &str, name: &str, text: String| {
        let stem = format!("{kind}-{}", plain(name));
        let is_taken = |name: &str, files: &[CsvFile]| files.iter().any(|file| file.name == name);
        let mut name = format!("{stem}.csv");
        for number in 2.. {
            if !is_taken(&name, &files) {
                break;
            }
            name = format!("{stem}-{number}.csv");
        }
        files.push(CsvFile { name, text });
    };
    for table in &report.tables {
        add("table", &table.name, table_text(table));
    }
    for series in &report.series {
        let heads = [format!("x ({})", series.unit_x), format!("y ({})", series.unit_y)];
        let points = series.x.iter().zip(&series.y).map(|(x, y)| [number(*x), number(*y)]);
        add("series", &series.name, lines(&heads, points));
    }
    for histogram in &report.histograms {
        let heads = ["up_to_us".to_owned(), "requests".to_owned()];
        let buckets = histogram.bucket_us.iter().zip(&histogram.bucket_count);
        let rows = buckets.map(|(us, count)| [number(*us), count.to_string()]);
        add("histogram", &histogram.name, lines(&heads, rows));
    }
    let heads: Vec<String> = COLUMNS.split(',').map(str::to_owned).collect();
    let columns = report.tables.iter().flat_map(|table| {
        table
            .columns
            .iter()
            .map(|column| [table.name.clone(), column.name.clone(), column.unit.clone()])
    });
    files.push(CsvFile { name: "columns.csv".to_owned(), text: lines(&heads, columns) });
    files
}

fn table_text(table: &Table) -> String {
    let heads: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>());
    lines(&heads, rows)
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Boolean(value) => value.to_string(),
        Cell::Integer(value) => value.to_string(),
        Cell::Number(value) => number(*value),
        Cell::Text(text) => text.clone(),
    }
}

fn number(value: f64) -> String {
    value.to_string()
}

fn lines<Row: AsRef<[String]>>(heads: &[String], rows: impl Iterator<Item = Row>) -> String {
    let mut text = String::new();
    let mut line = |fields: &[String]| {
        for (index, field) in fields.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(text, "{comma}{}", quoted(field));
        }
        text.push_str("\r\n");
    };
    line(heads);
    rows.for_each(|row| line(row.as_ref()));
    text
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Returns a name in characters that are safe in a file name: names of jobs come from the user.
fn plain(name: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() || "_-".contains(it) { it } else { '_' };
    name.chars().take(80).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be_and_names_stay_in_their_directory() {
        let rows = [["a,b".to_owned(), "say \"x\"".to_owned()]];
        let text = lines(&["one".to_owned(), "two".to_owned()], rows.into_iter());
        assert_eq!(text, "one,two\r\n\"a,b\",\"say \"\"x\"\"\"\r\n");
        assert_eq!(plain("../a b"), "___a_b");
    }
}
