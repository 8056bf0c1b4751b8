//! Charts of curves, for series and for tables.
//!
//! Up to five curves are drawn over each other, each in a colour. Of more curves, each gets a small chart of
//! its own with the same axes.

use maud::{Markup, html};

use super::contents::Section;
use super::dies;
use super::lines::{Chart, Curve, legend};
use super::parts::unit;
use crate::compare::ComparedSeries;
use crate::output::axis::Axis;
use crate::output::chart::{Family, Grid, TableChart, without_unit};
use crate::output::format;
use crate::report::Series;

/// Maximum number of curves in one chart.
const OVERLAID_MAX: usize = 5;

/// Returns the smallest and the greatest of some numbers; (0, 1) if there are none.
pub(super) fn range(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = numbers
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), number| {
            (least.min(number), most.max(number))
        });
    if least > most { (0.0, 1.0) } else { (least, most) }
}

/// Returns the positions of `along` on the horizontal axis of a series' chart, in percent of its width.
pub(super) fn places(series: &Series, along: impl Iterator<Item = f64>) -> Vec<f64> {
    let (least, greatest) = range(series.x.iter().copied());
    let are_counted = are_whole(series.x.iter().copied());
    let axis = Axis::positions(least, greatest, &series.unit_x, 6, are_counted);
    along.map(|place| axis.place(place)).collect()
}

/// Returns true if all are whole numbers, such as passes or minutes.
fn are_whole(mut numbers: impl Iterator<Item = f64>) -> bool {
    numbers.all(|number| number.fract() == 0.0)
}

fn points(x: &[f64], y: &[f64]) -> Vec<(f64, f64)> {
    x.iter().copied().zip(y.iter().copied()).collect()
}

/// Returns a section for each family of series.
pub(super) fn sections(series: &[Series]) -> Vec<Section> {
    Family::all(series).iter().map(draw_family).collect()
}

fn draw_family(Family { title, series, labels }: &Family) -> Section {
    let (unit_x, unit_y) = (&*series[0].unit_x, &*series[0].unit_y);
    if unit_x == dies::DIE {
        return Section { title: title.clone(), body: dies::draw(title, series, labels) };
    }
    let x = range(series.iter().flat_map(|series| &series.x).copied());
    let y = range(series.iter().flat_map(|series| &series.y).copied());
    let are_counted = are_whole(series.iter().flat_map(|series| &series.x).copied());
    let curve =
        |index: usize, label| Curve::plain(label, points(&series[index].x, &series[index].y));
    let name_place = |place| place_words(place, unit_x);
    let chart = |curves, name: &str, is_small| Chart {
        name: name.to_owned(),
        summary: summary(y, unit_y, labels),
        x: Axis::positions(x.0, x.1, unit_x, if is_small { 4 } else { 6 }, are_counted),
        y: Axis::values(y.0, y.1, unit_y, if is_small { 3 } else { 4 }),
        unit: unit_y,
        curves,
        is_small,
        name_place: &name_place,
    };
    let body = html! {
        figure.chart {
            @if series.len() <= OVERLAID_MAX {
                @let is_alone = series.len() == 1;
                @if !is_alone {
                    (legend(&labels.iter().map(String::as_str).collect::<Vec<_>>()))
                }
                @let curves = (0..series.len())
                    .map(|index| curve(index, if is_alone { "" } else { &labels[index] }));
                (chart(curves.collect(), title, false).draw())
            } @else {
                @let axes = chart(Vec::new(), title, true);
                figcaption { (units(&axes)) ", all on the same axes" }
                div.multiples {
                    @for (index, label) in labels.iter().enumerate() {
                        div {
                            p { (label) }
                            (chart(vec![curve(index, "")], label, true).draw())
                        }
                    }
                }
            }
        }
    };
    Section { title: title.clone(), body }
}

/// Draws a table whose rows are steps of a size within groups: a curve for each group.
pub(super) fn grid(grid: &Grid) -> Markup {
    let names: Vec<&str> = grid.curves.iter().map(|curve| &*curve.name).collect();
    let curves: Vec<Curve> = grid
        .curves
        .iter()
        .map(|curve| Curve::plain(&curve.name, curve.points(&grid.steps)))
        .collect();
    let y = range(curves.iter().flat_map(|curve| &curve.points).map(|point| point.1));
    let marks: Vec<(f64, String)> =
        grid.steps.iter().map(|&step| (step, grid.step(step))).collect();
    let chart = Chart {
        name: grid.title.clone(),
        summary: summary(y, &grid.unit, &names),
        x: Axis::marked(&marks, grid.is_logarithmic()),
        y: Axis::values(y.0, y.1, &grid.unit, 4),
        unit: &grid.unit,
        curves,
        is_small: false,
        name_place: &|place| grid.step(place),
    };
    html! {
        figure.chart {
            figcaption { (without_unit(&grid.title, &grid.unit)) }
            (legend(&names))
            (chart.draw())
        }
    }
}

/// Returns the range of the values and the names of the curves.
pub(super) fn summary(
    (least, most): (f64, f64),
    unit_y: &str,
    curves: &[impl AsRef<str>],
) -> String {
    let names: Vec<&str> = curves.iter().map(AsRef::as_ref).collect();
    let range =
        format!("{} to {} {}", format::significant(least), format::significant(most), unit(unit_y));
    format!("{}: {}", range.trim_end(), names.join(", "))
}

fn place_words(place: f64, unit_x: &str) -> String {
    match unit_x {
        "B" => format::bytes(place),
        "s" => format!("at {}", format::span(place)),
        other => format!("at {} {}", format::significant(place), unit(other)),
    }
}

/// Draws a table whose rows are rising steps, as curves.
pub(super) fn steps(table: &TableChart) -> Markup {
    let names: Vec<&str> = table.measures.iter().map(|measure| &*measure.name).collect();
    let values = table.measures.iter().flat_map(|measure| &measure.values);
    let y = range(values.flatten().copied());
    let curve = |index: usize| {
        let label = if names.len() > 1 { names[index] } else { "" };
        let values = table.measures[index].values.iter().enumerate();
        let placed = values.filter_map(|(place, value)| Some((place as f64, (*value)?)));
        Curve::plain(label, placed.collect())
    };
    let chart = Chart {
        name: table.title.clone(),
        summary: summary(y, &table.unit, &names),
        x: Axis::steps(&table.categories, ""),
        y: Axis::values(y.0, y.1, &table.unit, 4),
        unit: &table.unit,
        curves: (0..names.len()).map(curve).collect(),
        is_small: false,
        name_place: &|place| table.categories[place as usize].clone(),
    };
    html! {
        figure.chart {
            figcaption { (without_unit(&table.title, &table.unit)) }
            @if names.len() > 1 { (legend(&names)) }
            (chart.draw())
        }
    }
}

/// Returns a section with the curves of several runs, a small chart for each name; `None` if there are none.
pub(super) fn compared(series: &[ComparedSeries], labels: &[&str]) -> Option<Section> {
    let body = html! {
        figure.chart {
            (legend(labels))
            div.multiples {
                @for one in series {
                    div { (overlaid(one, labels)) }
                }
            }
        }
    };
    (!series.is_empty()).then(|| Section { title: "Curves".to_owned(), body })
}

/// Draws the curves of all runs with one name.
fn overlaid(series: &ComparedSeries, labels: &[&str]) -> Markup {
    let x = range(series.curves.iter().flat_map(|curve| &curve.x).copied());
    let y = range(series.curves.iter().flat_map(|curve| &curve.y).copied());
    // Each run keeps its colour, even if another run has no such curve.
    let curves = labels.iter().map(|label| {
        let curve = series.curves.iter().find(|curve| curve.label == **label);
        Curve::plain(label, curve.map_or_else(Vec::new, |curve| points(&curve.x, &curve.y)))
    });
    let chart = Chart {
        name: format::heading(&series.name, ""),
        summary: summary(y, &series.unit_y, labels),
        x: Axis::positions(x.0, x.1, &series.unit_x, 4, false),
        y: Axis::values(y.0, y.1, &series.unit_y, 3),
        unit: &series.unit_y,
        curves: curves.collect(),
        is_small: true,
        name_place: &|place| place_words(place, &series.unit_x),
    };
    html! {
        p {
            (format::heading(&series.name, &series.unit_y))
            span.faint { ", " (units(&chart)) }
        }
        (chart.draw())
    }
}

/// Returns the units of both axes as shown, such as hours for long times.
fn units(chart: &Chart) -> String {
    format!("{} over {}", chart.y.caption, chart.x.caption).trim_start().to_owned()
}
