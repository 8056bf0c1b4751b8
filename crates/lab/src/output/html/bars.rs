//! Horizontal bars as HTML, with names at the left and numbers at the right, for any width.

use maud::{Markup, html};

use super::lines::percent;
use super::parts::{described, unit};
use crate::output::chart::{Bar, Bars, Measure, TableChart};
use crate::output::format;

/// Draws a bar for each row, with the part added by preconditioning in another colour.
pub(super) fn draw(bars: &Bars) -> Markup {
    let is_aged = bars.rows.iter().any(|bar| bar.added > 0.0);
    html! {
        figure.chart {
            figcaption { (bars.title) }
            @if let Some((new, added)) = bars.parts.filter(|_| is_aged) {
                ul.legend {
                    li { span.swatch.new {} (new) }
                    li { span.swatch.added {} (added) }
                }
            }
            div.bars role="list" {
                @for bar in &bars.rows { (row(bar, bars)) }
            }
        }
    }
}

fn row(bar: &Bar, bars: &Bars) -> Markup {
    let share = |value: f64| percent(value.abs() / bars.longest() * 100.0);
    let value = bar.value.unwrap_or(0.0);
    let words = format!("{}: {} {}", bar.label, bar.text, unit(&bars.unit));
    let note = bar.note.replace(" x", "\u{d7}");
    html! {
        div.bar role="listitem" {
            span.name { (bar.label) }
            svg role="img" {
                (described(&bar.label, format!("{words} {note}").trim_end()))
                g.hover {
                    rect.track width="100%" height="100%" {}
                    rect.new width=(share(value - bar.added)) height="100%" {}
                    @if bar.added > 0.0 {
                        rect.added x=(share(value - bar.added)) width=(share(bar.added))
                            height="100%" {}
                    }
                    title {
                        (words)
                        @if bar.added > 0.0 { "\n" (format::significant(bar.added)) " " (unit(&bars.unit)) " of it added by use" }
                    }
                }
            }
            span.value { (bar.text) }
            span.note { (note) }
        }
    }
}

/// Draws several measurements of one unit: a group of bars for each row.
pub(super) fn grouped(chart: &TableChart) -> Markup {
    let all = chart.measures.iter().flat_map(|measure| &measure.values);
    let longest = all.flatten().fold(0.0f64, |most, value| most.max(value.abs()));
    let longest = if longest > 0.0 { longest } else { 1.0 };
    let names: Vec<&str> = chart.measures.iter().map(|measure| &*measure.name).collect();
    html! {
        figure.chart {
            figcaption { (chart.title) }
            (super::lines::legend(&names))
            div.groups role="list" {
                @for (index, category) in chart.categories.iter().enumerate() {
                    div.group role="listitem" aria-label=(category) {
                        span.name { (category) }
                        div {
                            @for (ink, measure) in chart.measures.iter().enumerate() {
                                (group_bar(ink, measure, category, index, longest))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn group_bar(ink: usize, measure: &Measure, category: &str, index: usize, longest: f64) -> Markup {
    let value = measure.values[index];
    let text = value.map_or_else(|| format::NOTHING.to_owned(), |value| measure.text(value));
    html! {
        div.one {
            svg role="img" {
                (described(&format!("{category}, {}", measure.name), &text))
                rect.track width="100%" height="100%" {}
                rect class={ "ink" (ink % 8) } height="100%"
                    width=(percent(value.unwrap_or(0.0).abs() / longest * 100.0)) {}
            }
            span.value { (text) }
        }
    }
}
