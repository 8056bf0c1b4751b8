//! Tables for lists, in the layout of tables in reports: a rule below the head, and no other lines.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};

use crate::terminal::Terminal;

/// Head of a column, with the type of its cells.
#[derive(Clone, Copy, Debug)]
pub enum ColumnHead {
    /// Text, aligned left; long text takes several lines.
    Text(&'static str),
    /// Name, aligned left; it is never broken, so that it can be copied.
    Name(&'static str),
    /// Numbers, aligned right.
    Numbers(&'static str),
}

impl ColumnHead {
    fn cell(self, text: &str) -> Cell {
        let alignment = match self {
            ColumnHead::Text(_) | ColumnHead::Name(_) => CellAlignment::Left,
            ColumnHead::Numbers(_) => CellAlignment::Right,
        };
        Cell::new(without_control_characters(text)).set_alignment(alignment)
    }

    fn name(self) -> &'static str {
        match self {
            ColumnHead::Text(name) | ColumnHead::Name(name) | ColumnHead::Numbers(name) => name,
        }
    }
}

/// Least width of the last column; if there is less space, its text goes below the other cells.
const MIN_TEXT_WIDTH: usize = 24;
/// Space between two columns.
const COLUMN_GAP: usize = 3;

/// Returns the table as text, with one line for each row if the terminal is wide enough.
pub fn lay_out(heads: &[ColumnHead], rows: &[Vec<String>], terminal: &Terminal) -> String {
    let cell_width = |row: &Vec<String>, column: usize| row[column].chars().count() + COLUMN_GAP;
    let names: usize = (0..heads.len() - 1)
        .filter(|&column| matches!(heads[column], ColumnHead::Name(_)))
        .map(|column| rows.iter().map(|row| cell_width(row, column)).max().unwrap_or(0))
        .sum();
    if matches!(heads.last(), Some(ColumnHead::Text(_))) && names + MIN_TEXT_WIDTH > terminal.width
    {
        return rows.iter().map(|row| stacked(row, terminal.width)).collect();
    }
    in_columns(heads, rows, terminal)
}

/// Returns a row for a narrow terminal: the names, and the text below them.
fn stacked(row: &[String], width: usize) -> String {
    let (words, names) = row.split_last().expect("a table has columns");
    let mut text = without_control_characters(&names.join("  "));
    let mut used = usize::MAX;
    for word in without_control_characters(words).split_whitespace() {
        let length = word.chars().count() + 1;
        if used.saturating_add(length) > width {
            text.push_str("\n   ");
            used = 3;
        }
        text.push(' ');
        text.push_str(word);
        used += length;
    }
    text.push('\n');
    text
}

fn in_columns(heads: &[ColumnHead], rows: &[Vec<String>], terminal: &Terminal) -> String {
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
        if let (ColumnHead::Name(_), Some(column)) = (head, table.column_mut(index)) {
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

/// Replaces control characters, which a terminal would interpret: names of targets are paths, which may come from a
/// stranger.
fn without_control_characters(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [ColumnHead; 2] = [ColumnHead::Name("key"), ColumnHead::Text("source")];

    fn lines(width: usize) -> Vec<String> {
        let terminal = Terminal { width, color: false, ascii: true, quiet: true };
        let row = vec!["flash.pages_per_block".to_owned(), "what such drives have".to_owned()];
        lay_out(&HEADS, &[row], &terminal).lines().map(str::to_owned).collect()
    }

    #[test]
    fn names_are_never_broken_and_words_go_below_them_where_it_is_narrow() {
        assert!(lines(80)[2].contains("flash.pages_per_block   what such drives have"));
        assert_eq!(lines(24), ["flash.pages_per_block", "    what such drives", "    have"]);
    }
}
