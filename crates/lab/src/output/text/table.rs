//! Tables for a terminal: a rule under the head and nothing else.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Drawn,
    TableStyle, Width,
};

use super::paint::{Options, plain};
use crate::output::format::{ColumnFormat, without_empty_columns};
use crate::report::Table;

/// Characters that the first column gets before others, where its names are that long.
const FIRST_COLUMN_MOST: usize = 26;

/// The table as lines, without its name.
pub(super) fn lines(table: &Table, options: &Options) -> Vec<String> {
    let table = &without_empty_columns(table);
    let formats = ColumnFormat::of(table);
    let mut drawn = Drawn::new();
    let rule = if options.ascii { '-' } else { '\u{2500}' };
    drawn
        .force_no_tty()
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule)))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(options.width.saturating_sub(1)).unwrap_or(u16::MAX));
    drawn.set_header(formats.iter().map(|format| {
        let mut head = plain(&format.label);
        if !format.unit.is_empty() {
            head.push_str(&format!("\n{}", plain(&format.unit)));
        }
        Cell::new(head).set_alignment(alignment(format))
    }));
    for row in &table.rows {
        drawn.add_row(row.iter().zip(&formats).map(|(cell, format)| {
            Cell::new(plain(&format.cell(cell))).set_alignment(alignment(format))
        }));
    }
    // Names are what a reader looks for: the first column wraps last.
    let names = table.rows.iter().filter_map(|row| row.first());
    let widest = names.map(|cell| plain(&formats[0].cell(cell)).chars().count()).max();
    if let (Some(widest), Some(first)) = (widest, drawn.column_mut(0)) {
        let width = widest.min(FIRST_COLUMN_MOST).min(options.width / 3) as u16;
        // Two more for the cell's own margins.
        first.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 2)));
    }
    drawn.to_string().lines().map(|line| format!(" {}", line.trim_end())).collect()
}

fn alignment(format: &ColumnFormat) -> CellAlignment {
    if format.is_numeric() { CellAlignment::Right } else { CellAlignment::Left }
}
