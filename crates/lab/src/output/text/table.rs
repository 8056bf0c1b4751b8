//! Tables for a terminal, with a rule below the head. Words are never broken: a table that is too wide is
//! split into parts, each with the key columns.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Drawn,
    TableStyle, Width,
};

use super::paint::{Options, plain};
use crate::output::format::{ColumnFormat, without_empty_columns};
use crate::report::Table;

/// Maximum width that a text column gets before other columns.
const MAX_TEXT_WIDTH: usize = 26;

/// Margins of a cell, both sides together.
const MARGINS: usize = 2;
/// Width of the gap between two columns.
const GAP: usize = 1;

/// Returns the table as lines, without its name.
pub(super) fn lines(table: &Table, options: &Options) -> Vec<String> {
    let table = &without_empty_columns(table);
    let formats = ColumnFormat::of(table);
    let names = table.key_columns().min(table.columns.len());
    let widths: Vec<usize> =
        (0..formats.len()).map(|column| min_width(table, &formats, column)).collect();
    let mut lines = Vec::new();
    for part in column_groups(&widths, names, options.width.saturating_sub(1)) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(render_columns(table, &formats, &widths, &part, options));
    }
    lines
}

/// Returns the columns of each part: the key columns, and as many others as fit beside them.
fn column_groups(widths: &[usize], names: usize, width: usize) -> Vec<Vec<usize>> {
    let taken: usize = widths[..names].iter().map(|own| own + GAP).sum();
    let mut column_groups: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (column, own) in widths.iter().enumerate().skip(names) {
        if used.saturating_add(own + GAP) > width + GAP {
            column_groups.push((0..names).collect());
            used = taken;
        }
        used += own + GAP;
        column_groups.last_mut().expect("there is one by now").push(column);
    }
    if column_groups.is_empty() {
        column_groups.push((0..names).collect());
    }
    column_groups
}

/// Returns the minimum width of a column that breaks no word and no number.
fn min_width(table: &Table, formats: &[ColumnFormat], column: usize) -> usize {
    let format = &formats[column];
    let length = |text: &str| text.chars().count();
    let longest_word = |text: &str| text.split_whitespace().map(length).max().unwrap_or(0);
    let head = longest_word(&plain(&format.label)).max(length(&plain(&format.unit)));
    let cells = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| {
        let text = plain(&format.cell(cell));
        match format.is_numeric() {
            true => length(&text),
            false => longest_word(&text).max(length(&text).min(MAX_TEXT_WIDTH)).min(MAX_TEXT_WIDTH),
        }
    });
    cells.max().unwrap_or(0).max(head) + MARGINS
}

fn render_columns(
    table: &Table,
    formats: &[ColumnFormat],
    widths: &[usize],
    part: &[usize],
    options: &Options,
) -> Vec<String> {
    let mut drawn = Drawn::new();
    let rule = if options.ascii { '-' } else { '\u{2500}' };
    drawn
        .force_no_tty()
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule)))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(options.width.saturating_sub(1)).unwrap_or(u16::MAX));
    let formats: Vec<&ColumnFormat> = part.iter().map(|&column| &formats[column]).collect();
    drawn.set_header(formats.iter().map(|format| {
        let mut head = plain(&format.label);
        if !format.unit.is_empty() {
            head.push_str(&format!("\n{}", plain(&format.unit)));
        }
        Cell::new(head).set_alignment(alignment(format))
    }));
    for row in &table.rows {
        let cells = part.iter().zip(&formats).map(|(&column, format)| {
            Cell::new(plain(&format.cell(&row[column]))).set_alignment(alignment(format))
        });
        drawn.add_row(cells);
    }
    let whole: usize = part.iter().map(|&column| widths[column] + GAP).sum();
    let fits = whole <= options.width;
    for (index, &column) in part.iter().enumerate().filter(|_| fits) {
        if let Some(own) = drawn.column_mut(index) {
            let least = u16::try_from(widths[column]).unwrap_or(u16::MAX);
            own.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    drawn.to_string().lines().map(|line| format!(" {}", line.trim_end())).collect()
}

fn alignment(format: &ColumnFormat) -> CellAlignment {
    if format.is_numeric() { CellAlignment::Right } else { CellAlignment::Left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_repeat_the_names_and_hold_what_fits() {
        assert_eq!(column_groups(&[10, 5, 5, 5], 1, 80), [vec![0, 1, 2, 3]]);
        assert_eq!(column_groups(&[10, 5, 5, 5], 1, 22), [vec![0, 1, 2], vec![0, 3]]);
        assert_eq!(column_groups(&[10, 5, 5, 5], 1, 21).len(), 3);
        // A column that does not fit stands alone in its part.
        assert_eq!(column_groups(&[10, 50, 5], 1, 20), [vec![0, 1], vec![0, 2]]);
        assert_eq!(column_groups(&[10], 1, 20), [vec![0]]);
    }
}
