//! Tables of lists, laid out as the reports lay out theirs: a rule under the head, nothing else.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};

use crate::terminal::Terminal;

/// A column's head, and what stands below it.
#[derive(Clone, Copy, Debug)]
pub enum Head {
    /// Words, from the left; long ones take several lines.
    Words(&'static str),
    /// A name, from the left, to be copied and so never broken.
    Name(&'static str),
    /// Numbers, to the right.
    Numbers(&'static str),
}

impl Head {
    fn cell(self, text: &str) -> Cell {
        let alignment = match self {
            Head::Words(_) | Head::Name(_) => CellAlignment::Left,
            Head::Numbers(_) => CellAlignment::Right,
        };
        Cell::new(plain(text)).set_alignment(alignment)
    }

    fn name(self) -> &'static str {
        match self {
            Head::Words(name) | Head::Name(name) | Head::Numbers(name) => name,
        }
    }
}

/// The table as text, a line a row where the terminal is wide enough.
pub fn lay_out(heads: &[Head], rows: &[Vec<String>], terminal: &Terminal) -> String {
    let rule = if terminal.ascii { '-' } else { '\u{2500}' };
    let style = TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule));
    let mut table = Table::new();
    table
        .force_no_tty()
        .load_style(style)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(terminal.width).unwrap_or(u16::MAX));
    table.set_header(heads.iter().map(|head| head.cell(head.name())));
    for row in rows {
        table.add_row(heads.iter().zip(row).map(|(head, text)| head.cell(text)));
    }
    for (index, head) in heads.iter().enumerate() {
        if let (Head::Name(_), Some(column)) = (head, table.column_mut(index)) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Without characters that a terminal would obey: names of targets are paths, and those may be
/// a stranger's.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
