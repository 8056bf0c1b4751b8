//! Latency histograms below each other with the same logarithmic axis, so that a shift of latencies is
//! visible.
//!
//! The height of a bar is its share of the histogram's requests, on an axis of its own. A bucket with a
//! single request among millions would be less than a pixel high. Because the tail matters, every bucket with
//! a request has a mark on the base line.

use maud::{Markup, html};

use super::contents::Section;
use super::lines::{percent, tick_class};
use super::parts::described;
use crate::output::axis::Axis;
use crate::output::format;
use crate::report::{Cell, Column, LatencyHistogram, Table};

/// Number of bars over the whole axis: enough to see two peaks, few enough to see each bar.
const BARS: f64 = 72.0;
/// Minimum distance of two labels, in percent, so that they do not overlap.
const MARKS_APART: f64 = 5.0;
/// Minimum distance of two labels on a narrow page, in percent.
const MARKS_APART_NARROW: f64 = 14.0;

/// Returns a section with all histograms of a report and a table of their percentiles; `None` if there are
/// none.
pub(super) fn section(histograms: &[LatencyHistogram]) -> Option<Section> {
    let filled: Vec<&LatencyHistogram> =
        histograms.iter().filter(|histogram| !histogram.bucket_us.is_empty()).collect();
    let last = filled.len().checked_sub(1)?;
    let edges = || filled.iter().flat_map(|histogram| &histogram.bucket_us);
    let least = edges().fold(f64::INFINITY, |least, edge| least.min(*edge));
    let most = edges().fold(0.0f64, |most, edge| most.max(*edge));
    let axis = Axis::latency(least / 1.3, most * 1.2);
    let drawn: Vec<Drawn> = filled.iter().map(|it| Drawn::of(it, &axis)).collect();
    let labels = drawn.iter().flat_map(|it| &it.shares.ticks).map(|tick| tick.label.len());
    let style = format!("--gutter:{}ch", labels.max().unwrap_or(1) + 3);
    let body = html! {
        figure.chart style=(style) {
            figcaption { "Share of requests by latency, logarithmic" }
            @for (index, drawn) in drawn.iter().enumerate() {
                (drawn.draw(&axis, index == last))
            }
        }
        (super::parts::captioned(&percentiles(histograms), true))
    };
    Some(Section { title: "Latency histograms".to_owned(), body })
}

/// A histogram, collected into bars.
struct Drawn<'a> {
    histogram: &'a LatencyHistogram,
    bins: Vec<Bin>,
    /// Vertical axis: shares of all requests, in percent.
    shares: Axis,
}

/// One bar: its edges in percent of the axis, its requests, and its upper edge in microseconds.
struct Bin {
    left: f64,
    right: f64,
    count: u64,
    until_us: f64,
}

fn bins(histogram: &LatencyHistogram, axis: &Axis) -> Vec<Bin> {
    let per_decade = BARS / axis.decades();
    let index = |us: f64| (us.max(1e-3).log10() * per_decade).floor();
    let edge = |index: f64| 10f64.powf(index / per_decade);
    let mut bins: Vec<(f64, u64)> = Vec::new();
    for (us, count) in histogram.bucket_us.iter().zip(&histogram.bucket_count) {
        let index = index(*us);
        match bins.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => bins.push((index, *count)),
        }
    }
    bins.into_iter()
        .map(|(index, count)| Bin {
            left: axis.place(edge(index)),
            right: axis.place(edge(index + 1.0)),
            count,
            until_us: edge(index + 1.0),
        })
        .collect()
}

impl Drawn<'_> {
    fn of<'a>(histogram: &'a LatencyHistogram, axis: &Axis) -> Drawn<'a> {
        let bins = bins(histogram, axis);
        let tallest = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        let shares = Axis::values(0.0, share(tallest, histogram.count), "%", 2);
        Drawn { histogram, bins, shares }
    }

    fn draw(&self, axis: &Axis, is_last: bool) -> Markup {
        let histogram = self.histogram;
        let name = format::heading(&histogram.name, "");
        let mean = format::span(histogram.mean_us / 1e6).replace("us", "\u{b5}s");
        // A number and its unit stay on one line.
        let mean = mean.replace(' ', "\u{a0}");
        let words = format!("{} requests, mean {mean}", format::count(histogram.count));
        html! {
            div.histogram {
                p { b { (name) } " " span.faint { (words) } }
                svg role="img" {
                    (described(&format!("Latency histogram: {name}"), &words))
                    @for tick in &self.shares.ticks {
                        @let y = percent(100.0 - tick.at);
                        line.rule x1="0" x2="100%" y1=(y) y2=(y) {}
                        text.tick x="0" dx="-8" y=(y) dy="0.32em" text-anchor="end" {
                            (tick.label) "\u{a0}%"
                        }
                    }
                    @for tick in &axis.ticks {
                        line.rule x1=(percent(tick.at)) x2=(percent(tick.at)) y1="0" y2="100%" {}
                    }
                    @for bin in &self.bins { (self.bar(bin)) }
                    line.base x1="0" x2="100%" y1="100%" y2="100%" {}
                    (marks(histogram, axis))
                    @if is_last {
                        @for (index, tick) in axis.ticks.iter().enumerate() {
                            text class=(tick_class(index, axis.ticks.len())) x=(percent(tick.at))
                                y="100%" dy="1.5em" text-anchor="middle" { (tick.label) }
                        }
                    }
                }
            }
        }
    }

    fn bar(&self, bin: &Bin) -> Markup {
        let share = share(bin.count, self.histogram.count);
        let height = self.shares.place(share);
        let until = format::span(bin.until_us / 1e6).replace("us", "\u{b5}s");
        html! {
            g.hover {
                rect.reach x=(percent(bin.left)) width=(percent(bin.right - bin.left)) y="0"
                    height="100%" {}
                rect.ink0 x=(percent(bin.left)) width=(percent(bin.right - bin.left))
                    y=(percent(100.0 - height)) height=(percent(height)) {}
                line.some x1=(percent(bin.left)) x2=(percent(bin.right)) y1="100%" y2="100%" {}
                title {
                    "up to " (until) "\n" (format::count(bin.count)) " requests, "
                    (format::significant(share)) " %"
                }
            }
        }
    }
}

/// Returns the share of `count` in `all`, in percent.
fn share(count: u64, all: u64) -> f64 {
    count as f64 / all.max(1) as f64 * 100.0
}

/// Draws the percentiles as lines, with labels if there is room.
fn marks(histogram: &LatencyHistogram, axis: &Axis) -> Markup {
    let [mut free, mut free_narrow] = [f64::NEG_INFINITY; 2];
    let marks: Vec<(f64, Option<(String, &str)>)> = histogram
        .percentiles
        .iter()
        .map(|percentile| {
            let at = axis.place(percentile.us);
            if at < free {
                return (at, None);
            }
            free = at + MARKS_APART;
            let class = if at < free_narrow { "tick odd" } else { "tick" };
            if at >= free_narrow {
                free_narrow = at + MARKS_APART_NARROW;
            }
            (at, Some((format!("p{}", percentile.percent), class)))
        })
        .collect();
    html! {
        @for (at, name) in marks {
            line.percentile x1=(percent(at)) x2=(percent(at)) y1="0" y2="100%" {}
            @if let Some((name, class)) = name {
                text class=(class) x=(percent(at)) y="0" dy="-0.35em" text-anchor="middle" {
                    (name)
                }
            }
        }
    }
}

/// Returns a table with a row for each histogram and a column for each percentile of any of them.
fn percentiles(histograms: &[LatencyHistogram]) -> Table {
    let all = || histograms.iter().flat_map(|histogram| &histogram.percentiles);
    let mut percents: Vec<f64> = all().map(|percentile| percentile.percent).collect();
    percents.sort_by(f64::total_cmp);
    percents.dedup();
    let mut columns =
        vec![Column::new("of", ""), Column::new("requests", ""), Column::new("mean", "us")];
    let names = percents.iter().map(|percent| format!("p{percent}"));
    columns.extend(names.map(|name| Column::new(name, "us")));
    let rows = histograms.iter().map(|histogram| {
        let mut row = vec![
            Cell::from(format::label(&histogram.name, "")),
            Cell::from(histogram.count),
            Cell::from(histogram.mean_us),
        ];
        row.extend(percents.iter().map(|percent| {
            let found = histogram.percentiles.iter().find(|own| own.percent == *percent);
            Cell::from(found.map(|percentile| percentile.us))
        }));
        row
    });
    Table { name: "percentiles".to_owned(), rows: rows.collect(), columns }
}
