//! Text parts of a page: findings, tables, lists of facts.

use maud::{Markup, html};

use crate::output::format::{self, ColumnFormat, NOTHING};
use crate::report::{Cell, Finding, Level, Table};

/// Maximum number of rows of a table that is not collapsed.
const ROWS_OPEN: usize = 60;

/// Returns a unit in typographic notation.
pub(super) fn unit(unit: &str) -> &str {
    match unit {
        "us" => "\u{b5}s",
        "x" => "\u{d7}",
        other => other,
    }
}

/// Returns the CSS class and the name of a level.
pub(super) fn level(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::Info => ("info", "Info"),
        Level::Notice => ("notice", "Notice"),
        Level::Warning => ("warning", "Warning"),
        Level::Problem => ("problem", "Problem"),
    }
}

/// Draws the first finding in large type, and the others below it.
pub(super) fn findings(findings: &[Finding]) -> Markup {
    let Some((first, others)) = findings.split_first() else {
        return html! {};
    };
    html! {
        section.findings aria-label="Findings" {
            p class={ "verdict " (level(first.level).0) } {
                (mark(first.level))
                (unbroken(&first.text))
            }
            @if !others.is_empty() {
                ul {
                    @for finding in others {
                        li class=(level(finding.level).0) { (mark(finding.level)) span { (unbroken(&finding.text)) } }
                    }
                }
            }
        }
    }
}

/// Keeps percent signs on the line of their numbers.
fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

fn mark(found: Level) -> Markup {
    html! { span.level { (level(found).1) } }
}

/// Draws name and description of a drawing for screen readers; they come first in an `svg` with `role="img"`.
pub(super) fn described(name: &str, words: &str) -> Markup {
    html! { title { (name) } desc { (words) } }
}

/// Draws a table with units in its head, below a heading with its name. The caption is for screen readers.
pub(super) fn table(table: &Table) -> Markup {
    captioned(table, false)
}

/// Draws a table with units in its head; its name stands above it if `shows_caption`.
pub(super) fn captioned(table: &Table, shows_caption: bool) -> Markup {
    let caption = format::heading(&table.name, "");
    if table.rows.is_empty() {
        return html! { p.faint { (caption) ": nothing was measured." } };
    }
    let table = &format::without_empty_columns(table);
    let rows = html! {
        div.scroll tabindex="0" role="region" aria-label={ "Table: " (caption) } { (grid(table, &caption, shows_caption)) }
    };
    if table.rows.len() <= ROWS_OPEN {
        return rows;
    }
    html! {
        details {
            summary { (caption) ", " (table.rows.len()) " rows" }
            (rows)
        }
    }
}

fn grid(table: &Table, caption: &str, shows_caption: bool) -> Markup {
    let formats = ColumnFormat::of(table);
    let keys = table.key_columns();
    html! {
        table {
            caption class=[(!shows_caption).then_some("hidden")] { (caption) }
            thead { tr {
                @for format in &formats {
                    th scope="col" class=[format.is_numeric().then_some("number")] {
                        (format.label)
                        @if !format.unit.is_empty() { span.unit { (unit(&format.unit)) } }
                    }
                }
            } }
            tbody {
                @for row in &table.rows { tr {
                    @for (index, (cell, format)) in row.iter().zip(&formats).enumerate() {
                        @let class = format.is_numeric().then_some("number");
                        @if index < keys {
                            th scope="row" class=[class] { (shown(cell, format)) }
                        } @else {
                            td class=[class] { (shown(cell, format)) }
                        }
                    }
                } }
            }
        }
    }
}

fn shown(cell: &Cell, format: &ColumnFormat) -> Markup {
    let text = format.cell(cell);
    html! {
        @if text == NOTHING {
            span.nothing title="not measured" { "\u{2013}" }
        } @else {
            (text)
        }
    }
}

/// Draws a heading and a list of names and values; nothing if the list is empty.
pub(super) fn facts<'a>(
    heading: &str,
    facts: impl IntoIterator<Item = (&'a str, String)>,
) -> Markup {
    let facts: Vec<_> = facts.into_iter().collect();
    html! {
        @if !facts.is_empty() {
            section {
                h3 { (heading) }
                dl {
                    @for (name, value) in facts {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
        }
    }
}
