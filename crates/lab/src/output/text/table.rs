//! Tables for a terminal: a rule under the head and nothing else.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table as Drawn, TableStyle};

use super::paint::{Options, plain};
use crate::output::format::{ColumnFormat, without_empty_columns};
use crate::report::Table;

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
    drawn.to_string().lines().map(|line| format!(" {}", line.trim_end())).collect()
}

fn alignment(format: &ColumnFormat) -> CellAlignment {
    if format.is_numeric() { CellAlignment::Right } else { CellAlignment::Left }
}
