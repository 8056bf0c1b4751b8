//! HTML page of a sweep: a varied key on the x axis with confidence bands, a heat map for two keys, small multiples for
//! three, and the effect of each key for more.

use maud::{Markup, html};
use ssdlab_lab::output::html::figure::{
    Line, Mean, Page, Places, Plot, key, table, unit, unit_words, value_range,
};
use ssdlab_lab::output::significant;
use ssdlab_lab::report::{Cell, Column, Table};

use crate::design::Sampling;
use crate::effect::Effect;
use crate::findings::capitalize;
use crate::statistics::Estimate;
use crate::sweep::{Point, Sweep};
use crate::tables;

/// Strongest colour behind a figure in the heat map, in percent: dark and light text is still readable on it.
const MAX_TINT: f64 = 40.0;

/// Returns the page. It has no time and nothing of this machine, so the same runs give the same bytes.
pub fn render(sweep: &Sweep) -> String {
    let heading = sweep.targets.join("; ");
    let title = format!("sweep of {} on {heading}", sweep.experiment);
    let kicker = format!("ssdlab sweep \u{b7} {}", sweep.experiment);
    let (done, all) = sweep.counts();
    let meta = [
        format!("{} points", sweep.points.len()),
        match sweep.seeds.len() {
            1 => "one run each".to_owned(),
            count => format!("{count} runs each"),
        },
        format!("{done} of {all} runs made"),
    ];
    let mut badges = Vec::new();
    if sweep.shortened {
        badges.push((
            "Shortened.",
            "These figures are not comparable with published ones.".to_owned(),
        ));
    }
    if sweep.interrupted {
        badges.push(("Interrupted.", "These are the results until then.".to_owned()));
    }
    let mut sections: Vec<(String, Markup)> = sweep
        .charted
        .iter()
        .map(|&measure| {
            let label = &sweep.measures[measure].label;
            (capitalize(label), measure_section(sweep, measure))
        })
        .collect();
    sections.push(("How it was measured".to_owned(), conditions(sweep)));
    let page = Page {
        title: &title,
        kicker: &kicker,
        heading: &heading,
        meta: &meta,
        badges: &badges,
        findings: &sweep.findings,
        sections,
        file_name: &format!("sweep-{}", sweep.experiment),
    };
    page.render(sweep)
}

/// Returns the keys with more than one value, the one for the x axis first: numeric keys before names, then those with
/// most values.
fn axes(sweep: &Sweep) -> Vec<usize> {
    let mut axes: Vec<usize> =
        (0..sweep.dimensions.len()).filter(|&it| sweep.dimensions[it].values.len() > 1).collect();
    axes.sort_by_key(|&it| {
        let dimension = &sweep.dimensions[it];
        (dimension.numbers().is_none(), std::cmp::Reverse(dimension.values.len()))
    });
    axes
}

fn measure_section(sweep: &Sweep, measure: usize) -> Markup {
    let axes = axes(sweep);
    let figure = match (&axes[..], sweep.sampling) {
        ([], _) => html! {},
        ([only], _) => chart_of_one_key(sweep, measure, *only),
        ([x, curves], Sampling::Grid) => html! {
            (chart_of_two_keys(sweep, measure, *x, *curves))
            (heat_map(sweep, measure, *x, *curves))
        },
        ([x, curves, panels], Sampling::Grid) => {
            small_multiples(sweep, measure, *x, *curves, *panels)
        }
        (all, _) => main_effects(sweep, measure, all),
    };
    html! { (figure) (table(&tables::measure_table(sweep, measure))) }
}

/// Returns the places of a key's values on the axis, in the order of display, and the level at each.
fn places(sweep: &Sweep, dimension: usize) -> (Places, Vec<usize>) {
    let key = &sweep.dimensions[dimension];
    let order = key.order();
    let places = match key.numbers() {
        Some(numbers) => Places::Numbers(
            order.iter().map(|&level| (numbers[level], key.values[level].clone())).collect(),
        ),
        None => Places::Names(order.iter().map(|&level| key.values[level].clone()).collect()),
    };
    (places, order)
}

/// Returns the first point at which the keys in `at` have the given levels; in a grid all other keys have one value.
fn point_at<'a>(sweep: &'a Sweep, at: &[(usize, usize)]) -> Option<&'a Point> {
    sweep.points.iter().find(|point| {
        at.iter().all(|&(key, level)| point.values[key] == sweep.dimensions[key].values[level])
    })
}

fn to_mean(estimate: Option<Estimate>) -> Option<Mean> {
    estimate.map(|it| Mean { mean: it.mean, interval: it.interval })
}

/// Returns the curve over the key `x` at which the keys in `at` have the given levels.
fn curve(sweep: &Sweep, measure: usize, x: (usize, &[usize]), at: &[(usize, usize)]) -> Line {
    let points = x.1.iter().map(|&level| {
        let place: Vec<_> = at.iter().copied().chain([(x.0, level)]).collect();
        point_at(sweep, &place).and_then(|point| to_mean(point.estimates[measure]))
    });
    let label = at.first().map_or_else(String::new, |&(key, level)| {
        format!("{} = {}", sweep.dimensions[key].key, sweep.dimensions[key].values[level])
    });
    Line { label, points: points.collect() }
}

fn caption(sweep: &Sweep, measure: usize, x: usize) -> String {
    let unit = unit_words(&sweep.measures[measure].unit);
    let over = format!("over {}", sweep.dimensions[x].key);
    let band = if sweep.seeds.len() > 1 { ", with 95 % confidence bands of the mean" } else { "" };
    capitalize(format!("{unit} {over}{band}").trim_start())
}

fn chart_of_one_key(sweep: &Sweep, measure: usize, x: usize) -> Markup {
    let (places, order) = places(sweep, x);
    let lines = [curve(sweep, measure, (x, &order), &[])];
    line_chart(sweep, measure, x, &places, &lines)
}

fn chart_of_two_keys(sweep: &Sweep, measure: usize, x: usize, curves: usize) -> Markup {
    let (places, order) = places(sweep, x);
    let lines: Vec<Line> = sweep.dimensions[curves]
        .order()
        .into_iter()
        .map(|level| curve(sweep, measure, (x, &order), &[(curves, level)]))
        .collect();
    line_chart(sweep, measure, x, &places, &lines)
}

fn line_chart(sweep: &Sweep, measure: usize, x: usize, places: &Places, lines: &[Line]) -> Markup {
    let one = &sweep.measures[measure];
    let plot =
        Plot { name: &one.label, unit: &one.unit, places, lines, range: None, is_small: false };
    html! {
        figure.chart {
            figcaption { (caption(sweep, measure, x)) }
            (key(lines))
            (plot.draw())
        }
    }
}

/// Draws small charts with the same axes, one for each value of the key `panels`.
fn small_multiples(
    sweep: &Sweep,
    measure: usize,
    x: usize,
    curves: usize,
    panels: usize,
) -> Markup {
    let (places, order) = places(sweep, x);
    let one = &sweep.measures[measure];
    let of_panel = |panel: usize| -> Vec<Line> {
        let levels = sweep.dimensions[curves].order().into_iter();
        let at = |level| [(curves, level), (panels, panel)];
        levels.map(|level| curve(sweep, measure, (x, &order), &at(level))).collect()
    };
    let panels_in_order = sweep.dimensions[panels].order();
    let all: Vec<Vec<Line>> = panels_in_order.iter().map(|&panel| of_panel(panel)).collect();
    let range = value_range(&all.concat());
    let name = |panel: usize| {
        format!("{} = {}", sweep.dimensions[panels].key, sweep.dimensions[panels].values[panel])
    };
    html! {
        figure.chart {
            figcaption { (caption(sweep, measure, x)) ", all on the same axes" }
            (key(all.first().map_or(&[], |lines| lines)))
            div.multiples {
                @for (&panel, lines) in panels_in_order.iter().zip(&all) {
                    @let name = name(panel);
                    div {
                        p { (name) }
                        (Plot {
                            name: &name,
                            unit: &one.unit,
                            places: &places,
                            lines,
                            range: Some(range),
                            is_small: true,
                        }.draw())
                    }
                }
            }
        }
    }
}

/// Draws, for each key, the mean over all other keys at each of its values.
fn main_effects(sweep: &Sweep, measure: usize, axes: &[usize]) -> Markup {
    let one = &sweep.measures[measure];
    let charts: Vec<(usize, Places, Line)> = axes
        .iter()
        .filter_map(|&axis| {
            let effect = Effect::of(sweep, axis, measure)?;
            let (places, order) = places(sweep, axis);
            let mean = |level: &usize| {
                let place = effect.levels.iter().position(|it| it == level)?;
                to_mean(Some(effect.mean(place)))
            };
            let points = order.iter().map(mean).collect();
            Some((axis, places, Line { label: String::new(), points }))
        })
        .collect();
    let lines: Vec<Line> = charts.iter().map(|(_, _, line)| line.clone()).collect();
    let range = value_range(&lines);
    html! {
        figure.chart {
            figcaption {
                "mean over all other keys at each value of one, "
                @if !one.unit.is_empty() { "in " (unit(&one.unit)) ", " }
                "all on the same axis"
            }
            div.multiples {
                @for (axis, places, line) in &charts {
                    @let name = sweep.dimensions[*axis].key.as_str();
                    div {
                        p { (name) }
                        (Plot {
                            name,
                            unit: &one.unit,
                            places,
                            lines: std::slice::from_ref(line),
                            range: Some(range),
                            is_small: true,
                        }.draw())
                    }
                }
            }
        }
    }
}

/// Draws a cell for each pair of values; a stronger colour means a greater mean.
fn heat_map(sweep: &Sweep, measure: usize, x: usize, y: usize) -> Markup {
    let (columns, rows) = (sweep.dimensions[x].order(), sweep.dimensions[y].order());
    let at = |row: usize, column: usize| {
        point_at(sweep, &[(y, row), (x, column)]).and_then(|point| point.estimates[measure])
    };
    let means: Vec<f64> = sweep
        .points
        .iter()
        .filter_map(|point| point.estimates[measure].map(|estimate| estimate.mean))
        .collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let share =
        |mean: f64| if most > least { (mean - least) / (most - least) * MAX_TINT } else { 0.0 };
    let half = |estimate: &Estimate| {
        estimate.interval.map(|(low, high)| format!("\u{b1}{}", significant((high - low) / 2.0)))
    };
    let (x, y) = (&sweep.dimensions[x], &sweep.dimensions[y]);
    html! {
        figure.chart {
            figcaption { (y.key) " down, " (x.key) " across; a stronger colour means more" }
            div.scroll tabindex="0" role="region" aria-label={ "Heat map: " (sweep.measures[measure].label) } {
                table.heat {
                    thead { tr {
                        td {}
                        @for &column in &columns { th scope="col" { (x.values[column]) } }
                    } }
                    tbody {
                        @for &row in &rows { tr {
                            th scope="row" { (y.values[row]) }
                            @for &column in &columns {
                                @match at(row, column) {
                                    Some(estimate) => {
                                        @let share = share(estimate.mean);
                                        td style={ "--share:" (format!("{share:.1}")) } {
                                            (significant(estimate.mean)) " "
                                            @if let Some(half) = half(&estimate) { span.faint { (half) } }
                                        }
                                    },
                                    None => td style="--share:0" {
                                        span.nothing title="not measured" { "\u{2013}" }
                                    },
                                }
                            }
                        } }
                    }
                }
            }
        }
    }
}

fn conditions(sweep: &Sweep) -> Markup {
    let mut rows: Vec<(String, String)> = vec![("experiment".to_owned(), sweep.experiment.clone())];
    rows.extend(sweep.dimensions.iter().map(|it| (it.key.clone(), it.values.join("; "))));
    rows.extend(sweep.parameters.iter().map(|it| (it.name.clone(), it.value.clone())));
    let sampling = match sweep.sampling {
        Sampling::Grid => "all combinations".to_owned(),
        Sampling::Latin(points) => format!("Latin hypercube of {points}"),
        Sampling::Random(points) => format!("{points} at random"),
    };
    rows.push(("points".to_owned(), sampling));
    let seeds = sweep.seeds.first().zip(sweep.seeds.last());
    let seeds = seeds.map_or_else(String::new, |(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}, the same at each point"),
    });
    rows.push(("seeds".to_owned(), seeds));
    rows.push(("ssdlab".to_owned(), sweep.ssdlab.clone()));
    let facts = Table {
        name: "conditions".to_owned(),
        columns: vec![Column::new("what", ""), Column::new("value", "")],
        rows: rows
            .into_iter()
            .map(|(name, value)| vec![Cell::from(name), Cell::from(value)])
            .collect(),
    };
    let failed = Table {
        name: "runs_that_failed".to_owned(),
        columns: ["drive", "seed", "why"].map(|name| Column::new(name, "")).to_vec(),
        rows: sweep
            .failed()
            .map(|(point, run)| {
                vec![
                    Cell::from(point.target.as_str()),
                    Cell::from(run.seed.to_string()),
                    Cell::from(run.error.clone()),
                ]
            })
            .collect(),
    };
    html! {
        (table(&facts))
        @if !failed.rows.is_empty() { (table(&failed)) }
    }
}
