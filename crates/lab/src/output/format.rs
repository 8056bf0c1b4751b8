//! Formatting of numbers, units and names for people.
//!
//! Measurements of drives are precise to about three significant digits, so that many are shown; the JSON
//! keeps all digits. All numbers of a column have the same number of decimals if its range allows that, so
//! that they are easy to compare.

use crate::report::{Cell, Table, Target, TargetKind};

/// Shown in place of a value that was not measured.
pub(crate) const NOTHING: &str = "-";

/// Formats `value` with three significant digits and grouped thousands.
pub fn significant(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        NOTHING.to_owned()
    } else if size == 0.0 {
        "0".to_owned()
    } else if !(1e-4..1e15).contains(&size) {
        format!("{value:.2e}")
    } else {
        fixed(value, decimals_of(size))
    }
}

/// Returns the number of decimals that give `size` three significant digits.
fn decimals_of(size: f64) -> usize {
    (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize
}

/// Formats `value` with `decimals` decimals and grouped thousands.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let point = if fraction.is_empty() { "" } else { "." };
    // Minus zero is a rounding artefact.
    let zero = plain.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if value < 0.0 && !zero { "-" } else { "" };
    format!("{sign}{}{point}{fraction}", group(whole))
}

/// Formats a count with grouped thousands.
pub(crate) fn count(value: u64) -> String {
    group(&value.to_string())
}

/// Groups digits by commas if there are five or more.
fn group(digits: &str) -> String {
    if digits.len() < 5 {
        return digits.to_owned();
    }
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats bytes in the largest binary unit that is exact with at most four digits (5050 MiB, not 4.93 GiB),
/// or else rounded in the largest unit.
pub(crate) fn bytes(value: f64) -> String {
    const UNITS: [(&str, f64); 6] = [
        ("PiB", (1u64 << 50) as f64),
        ("TiB", (1u64 << 40) as f64),
        ("GiB", (1u64 << 30) as f64),
        ("MiB", (1u64 << 20) as f64),
        ("KiB", (1u64 << 10) as f64),
        ("B", 1.0),
    ];
    if value == 0.0 || !value.is_finite() {
        return significant(value);
    }
    let size = value.abs();
    let exact = UNITS.iter().find(|(_, unit)| size % unit == 0.0 && size / unit < 10_000.0);
    if let Some((name, unit)) = exact {
        return format!("{} {name}", value / unit);
    }
    let (name, unit) = UNITS.iter().find(|(_, unit)| size >= *unit).unwrap_or(&UNITS[5]);
    format!("{} {name}", significant(value / unit))
}

/// Returns the capacity of `target` as text; `None` if the target stands for several drives.
pub(crate) fn capacity(target: &Target) -> Option<String> {
    match (target.capacity_bytes, target.kind) {
        // A simulated drive has a capacity, so this is a sweep over drives.
        (0, TargetKind::Simulated) => None,
        // Imported results have no capacity.
        (0, _) => Some("capacity not known".to_owned()),
        (capacity, _) => Some(bytes(capacity as f64)),
    }
}

/// Formats a duration in a suitable unit.
pub fn span(seconds: f64) -> String {
    span_by(seconds, significant)
}

/// Formats an estimated duration with two significant digits.
pub(crate) fn rough_span(seconds: f64) -> String {
    span_by(seconds, rough)
}

fn span_by(seconds: f64, number: fn(f64) -> String) -> String {
    let size = seconds.abs();
    match size {
        0.0 => "0 s".to_owned(),
        _ if size < 1e-3 => format!("{} us", number(seconds * 1e6)),
        _ if size < 1.0 => format!("{} ms", number(seconds * 1e3)),
        _ if size < 120.0 => format!("{} s", number(seconds)),
        _ if size < 7_200.0 => format!("{} minutes", number(seconds / 60.0)),
        _ if size < 172_800.0 => format!("{} hours", number(seconds / 3_600.0)),
        _ => format!("{} days", number(seconds / 86_400.0)),
    }
}

/// Formats an estimate with two significant digits.
pub(crate) fn rough(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || !(1e-4..1e15).contains(&size) {
        return significant(value);
    }
    let exponent = size.log10().floor();
    let step = 10_f64.powf(exponent - 1.0);
    fixed((value / step).round() * step, (1.0 - exponent).max(0.0) as usize)
}

/// Returns a name of the report (`best_seconds`) as words, without the unit, which is shown elsewhere.
pub fn label(name: &str, unit: &str) -> String {
    let endings: &[&str] = match unit {
        "s" => &["_seconds", "_s"],
        "ms" => &["_milliseconds", "_ms"],
        "us" => &["_microseconds", "_us"],
        "min" => &["_minutes", "_min"],
        "B" => &["_bytes"],
        "GB" => &["_gb"],
        "MB/s" => &["_mb_per_second", "_mb_per_s"],
        "1/s" => &["_per_second", "_per_s"],
        "%" => &["_percent"],
        "IOPS" => &["_iops"],
        _ => &[],
    };
    // Users write the keys of profiles, so keys are left as they are.
    if is_key(name) {
        return name.to_owned();
    }
    // A name that consists of the unit only is shown as the unit.
    if endings.iter().any(|ending| *name == ending[1..]) {
        return unit.to_owned();
    }
    let short = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let mut words = String::with_capacity(short.len());
    for word in short.split(['_', ' ']) {
        if !words.is_empty() {
            // Names use an underscore for a decimal point: `p99_9`, `after_15_6_mib`.
            let digits = words.ends_with(is_digit) && word.starts_with(is_digit);
            words.push(if digits { '.' } else { ' ' });
        }
        words.push_str(match word {
            "sqlite" => "SQLite",
            "iops" => "IOPS",
            "fua" => "FUA",
            "raid1" => "RAID 1",
            "kib" => "KiB",
            "mib" => "MiB",
            "gib" => "GiB",
            "tib" => "TiB",
            other => other,
        });
    }
    words
}

/// Returns true if the name is a key of a profile, such as `flash.page_read`.
fn is_key(name: &str) -> bool {
    name.contains('.') && !name.contains(' ')
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

/// Returns the name of a unit for sentences.
pub(crate) fn unit_words(unit: &str) -> &str {
    match unit {
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "min" => "minutes",
        "B" => "bytes",
        "x" => "times",
        other => other,
    }
}

/// Returns the table without the columns that have no values at all, such as those of the inside of a real
/// drive. The JSON keeps these columns.
pub(crate) fn without_empty_columns(table: &Table) -> Table {
    let keeps: Vec<bool> = (0..table.columns.len())
        .map(|index| table.rows.iter().any(|row| row.get(index) != Some(&Cell::Null)))
        .collect();
    let mut shown = table.clone();
    let mut keep = keeps.iter();
    shown.columns.retain(|_| *keep.next().unwrap_or(&true));
    for row in &mut shown.rows {
        let mut keep = keeps.iter();
        row.retain(|_| *keep.next().unwrap_or(&true));
    }
    shown
}

/// Returns the label with a capital letter, for headings.
pub(crate) fn heading(name: &str, unit: &str) -> String {
    let label = label(name, unit);
    if is_key(name) {
        return label;
    }
    let mut letters = label.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Format of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    Words,
    Bytes,
    Fixed(usize),
    Significant,
}

/// Format of a column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnFormat {
    /// Heading.
    pub(crate) label: String,
    /// Unit in the heading; empty if the cells include the unit.
    pub(crate) unit: String,
    style: Style,
}

impl ColumnFormat {
    /// Returns the formats of a table's columns.
    pub(crate) fn of(table: &Table) -> Vec<ColumnFormat> {
        table
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = || table.rows.iter().filter_map(move |row| row.get(index));
                let style = style_of(&column.unit, cells);
                ColumnFormat {
                    label: label(&column.name, &column.unit),
                    unit: match style {
                        Style::Bytes => String::new(),
                        _ if label(&column.name, &column.unit) == column.unit => String::new(),
                        _ => column.unit.clone(),
                    },
                    style,
                }
            })
            .collect()
    }

    /// Returns true if the column holds numbers, which are aligned at the right.
    pub(crate) fn is_numeric(&self) -> bool {
        self.style != Style::Words
    }

    /// Formats a cell for use outside of its column, such as in a legend.
    pub(crate) fn name(&self, cell: &Cell) -> String {
        match cell {
            Cell::Boolean(true) => self.label.clone(),
            Cell::Boolean(false) => format!("no {}", self.label),
            cell => self.cell(cell),
        }
    }

    /// Formats a cell for use in its column.
    pub(crate) fn cell(&self, cell: &Cell) -> String {
        match cell {
            Cell::Null => NOTHING.to_owned(),
            Cell::Boolean(true) => "yes".to_owned(),
            Cell::Boolean(false) => "no".to_owned(),
            Cell::Text(text) => text.clone(),
            Cell::Integer(value) if self.style != Style::Bytes => count(*value),
            Cell::Integer(value) => bytes(*value as f64),
            Cell::Number(value) => self.number(*value),
        }
    }

    /// Formats a number of the column, without its unit except for bytes.
    pub(crate) fn number(&self, value: f64) -> String {
        match self.style {
            Style::Bytes => bytes(value),
            Style::Fixed(decimals) if value.is_finite() => fixed(value, decimals),
            Style::Fixed(_) | Style::Significant | Style::Words => significant(value),
        }
    }
}

/// Returns the format of a column: equal decimals if these give the smallest number two digits; otherwise
/// each number has its own.
fn style_of<'a, Cells>(unit: &str, cells: impl Fn() -> Cells) -> Style
where
    Cells: Iterator<Item = &'a Cell>,
{
    let sizes = || cells().filter_map(Cell::number).map(f64::abs);
    if sizes().next().is_none() {
        return Style::Words;
    }
    if unit == "B" {
        return Style::Bytes;
    }
    let largest = sizes().fold(0.0, f64::max);
    let smallest = sizes().filter(|size| *size > 0.0).fold(f64::INFINITY, f64::min);
    if largest == 0.0 {
        return Style::Significant;
    }
    let decimals = decimals_of(largest);
    if smallest >= 10f64.powi(1 - decimals as i32) {
        Style::Fixed(decimals)
    } else {
        Style::Significant
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ssdlab_units::text::{parse_duration, parse_length};

    proptest! {
        /// Sizes and durations in the notation of reports can be parsed.
        #[test]
        fn quantities_are_read_as_they_are_shown(number in 0..1_u64 << 60, shift in 0..60_u32) {
            let number = (number >> shift) as f64;
            let near = |read: f64, shown: f64| (read - shown).abs() <= 0.006 * shown + 512.0;
            let text = bytes(number);
            let length = parse_length(&text).map(|it| it.bytes() as f64);
            prop_assert!(length.clone().is_ok_and(|it| near(it, number)), "{}: {:?}", text, length);
            let number = (number / 4.0).floor();
            let text = span(number / 1e9);
            let time = parse_duration(&text).map(|it| it.seconds() * 1e9);
            prop_assert!(time.clone().is_ok_and(|it| near(it, number)), "{}: {:?}", text, time);
        }
    }
    use crate::report::Column;

    #[test]
    fn numbers_have_the_digits_that_can_be_defended() {
        assert_eq!(significant(1.895), "1.90");
        assert_eq!(significant(23.46), "23.5");
        assert_eq!(significant(2261.7), "2262");
        assert_eq!(significant(1_234_567.0), "1,234,567");
        assert_eq!(significant(0.012_34), "0.0123");
        assert_eq!(significant(-0.000_001), "-1.00e-6");
        assert_eq!(significant(f64::NAN), "-");
        assert_eq!(fixed(-0.001, 2), "0.00");
    }

    #[test]
    fn bytes_are_exact_where_four_digits_can_be() {
        assert_eq!(bytes(0.0), "0");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(5050.0 * 1048576.0), "5050 MiB");
        assert_eq!(bytes(4096.0 * 1048576.0), "4 GiB");
        assert_eq!(bytes(512_110_190_592.0), "477 GiB");
    }

    #[test]
    fn names_become_words() {
        assert_eq!(label("p99_9_us", "us"), "p99.9");
        assert_eq!(label("read_after_15_6_mib", ""), "read after 15.6 MiB");
        assert_eq!(label("50_mib_2", ""), "50 MiB 2");
        assert_eq!(label("flash.pages_per_block", ""), "flash.pages_per_block");
        assert_eq!(heading("flash.pages_per_block", ""), "flash.pages_per_block");
        assert_eq!(heading("iops", "1/s"), "IOPS");
        assert_eq!(label("raid1_full", ""), "RAID 1 full");
    }

    #[test]
    fn spans_choose_their_unit() {
        assert_eq!(span(0.000_085), "85.0 us");
        assert_eq!(span(1.2), "1.20 s");
        assert_eq!(span(300.0), "5.00 minutes");
        assert_eq!(span(14_760.0), "4.10 hours");
    }

    #[test]
    fn estimates_have_two_digits() {
        let roughly = [5.84, 57.7, 2020.0, 0.123, 10.04, 0.0].map(rough);
        assert_eq!(roughly, ["5.8", "58", "2000", "0.12", "10", "0"]);
        assert_eq!(rough_span(74.2 * 60.0), "74 minutes");
        assert_eq!(rough_span(5.16 * 60.0), "5.2 minutes");
    }

    #[test]
    fn a_column_keeps_its_decimals_unless_that_would_hide_a_small_number() {
        let column = |values: &[f64]| {
            let table = Table {
                name: "t".to_owned(),
                columns: vec![Column::new("best_seconds", "s")],
                rows: values.iter().map(|v| vec![Cell::Number(*v)]).collect(),
            };
            let format = ColumnFormat::of(&table).remove(0);
            assert_eq!(format.label, "best");
            table.rows.iter().map(|row| format.cell(&row[0])).collect::<Vec<_>>()
        };
        assert_eq!(column(&[1.9, 6.8]), ["1.90", "6.80"]);
        assert_eq!(column(&[0.002, 250.0]), ["0.00200", "250"]);
    }
}
