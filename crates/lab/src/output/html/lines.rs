//! Charts of curves over two axes.
//!
//! All coordinates are percentages of the plot, so that a chart adapts to any width while its text keeps its
//! size. Only the curve itself is a stretched drawing, with a stroke that does not stretch. Each position
//! along the curve has an invisible strip that shows its numbers while the pointer is over it.

use std::fmt::Write;

use maud::{Markup, html};

use crate::output::axis::Axis;
use crate::output::format;

/// Maximum number of strips: more would be too narrow for a pointer.
const STRIPS_MAX: usize = 120;
/// Maximum number of strips of a small chart, since a page may have dozens of these.
const STRIPS_SMALL_MAX: usize = 40;
/// Maximum number of points of a curve that are drawn as dots.
const DOTS_MAX: usize = 30;

/// A chart of curves over the same axes.
pub(super) struct Chart<'a> {
    /// Name.
    pub(super) name: String,
    /// Description for screen readers.
    pub(super) summary: String,
    /// Horizontal axis.
    pub(super) x: Axis,
    /// Vertical axis.
    pub(super) y: Axis,
    /// Unit of the values, shown with each number.
    pub(super) unit: &'a str,
    /// Curves; the index determines the colour.
    pub(super) curves: Vec<Curve<'a>>,
    /// True for a small chart, one of many.
    pub(super) is_small: bool,
    /// Function that names a position on the horizontal axis.
    pub(super) name_place: &'a dyn Fn(f64) -> String,
}

/// One curve.
pub(super) struct Curve<'a> {
    /// Name; empty for the only curve.
    pub(super) label: &'a str,
    /// Points, from left to right.
    pub(super) points: Vec<(f64, f64)>,
    /// Confidence intervals, from left to right; empty if there are none.
    pub(super) band: Vec<Interval>,
}

/// Confidence interval of a value.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    /// Position on the horizontal axis.
    pub(super) place: f64,
    /// Lower end.
    pub(super) low: f64,
    /// Upper end.
    pub(super) high: f64,
}

impl<'a> Curve<'a> {
    /// Returns a curve without confidence intervals.
    pub(super) fn plain(label: &'a str, points: Vec<(f64, f64)>) -> Self {
        Curve { label, points, band: Vec::new() }
    }
}

impl Chart<'_> {
    /// Draws the chart.
    pub(super) fn draw(&self) -> Markup {
        let widest = self.y.ticks.iter().map(|tick| tick.label.len()).max();
        let style = format!("--gutter:{}ch", widest.unwrap_or(1) + 1);
        html! {
            div class={ "plot" @if self.is_small { " small" } } style=(style) {
                @if !self.is_small { div.unit { (self.y.caption) } }
                svg role="img" {
                    (super::parts::described(&self.name, &self.summary))
                    (self.grid())
                    @for (index, curve) in self.curves.iter().enumerate() {
                        (self.curve(index, curve))
                    }
                    (self.strips())
                }
                div.place { @if !self.is_small { (self.x.caption) } }
            }
        }
    }

    fn grid(&self) -> Markup {
        html! {
            @for tick in &self.y.ticks {
                @let y = percent(100.0 - tick.at);
                line.rule x1="0" x2="100%" y1=(y) y2=(y) {}
                text.tick x="0" dx="-8" y=(y) dy="0.32em" text-anchor="end" { (tick.label) }
            }
            @for (index, tick) in self.x.ticks.iter().enumerate() {
                @let class = tick_class(index, self.x.ticks.len());
                line.mark x1=(percent(tick.at)) x2=(percent(tick.at)) y1="100%" y2="100%" {}
                text class=(class) x=(percent(tick.at)) y="100%" dy="1.5em"
                    text-anchor="middle" { (tick.label) }
            }
            line.base x1="0" x2="100%" y1="100%" y2="100%" {}
        }
    }

    fn curve(&self, index: usize, curve: &Curve) -> Markup {
        let mut path = String::new();
        for (position, (x, y)) in curve.points.iter().enumerate() {
            let letter = if position == 0 { 'M' } else { 'L' };
            let (x, y) = (self.x.place(*x) * 10.0, 1000.0 - self.y.place(*y) * 10.0);
            write!(path, "{letter}{x:.1} {y:.1}").expect("a string takes any text");
        }
        let has_dots = !self.is_small && curve.points.len() <= DOTS_MAX || curve.points.len() == 1;
        html! {
            svg.stretched aria-hidden="true" viewBox="0 0 1000 1000" preserveAspectRatio="none"
                width="100%" height="100%" {
                @if curve.band.len() > 1 {
                    path class={ "band ink" (index % 8) } d=(self.band(curve)) {}
                }
                path class={ "curve ink" (index % 8) @if self.is_dashed(index) { " dashed" } }
                    d=(path) {}
            }
            @if has_dots {
                @for (x, y) in &curve.points {
                    circle class={ "dot ink" (index % 8) } r="3" cx=(percent(self.x.place(*x)))
                        cy=(percent(100.0 - self.y.place(*y))) {}
                }
            }
        }
    }

    /// Returns the outline of a band: along its upper ends, and back along its lower ones.
    fn band(&self, curve: &Curve) -> String {
        let upper = curve.band.iter().map(|it| (it.place, it.high));
        let lower = curve.band.iter().rev().map(|it| (it.place, it.low));
        let mut path = String::new();
        for (position, (x, y)) in upper.chain(lower).enumerate() {
            let letter = if position == 0 { 'M' } else { 'L' };
            let (x, y) = (self.x.place(x) * 10.0, 1000.0 - self.y.place(y) * 10.0);
            write!(path, "{letter}{x:.1} {y:.1}").expect("a string takes any text");
        }
        path.push('Z');
        path
    }

    /// Returns true if a curve is dashed: its colour was used before, or it covers an earlier curve.
    fn is_dashed(&self, index: usize) -> bool {
        let covers = |below: &Curve, above: &Curve| {
            below.points.len() == above.points.len()
                && below.points.iter().zip(&above.points).all(|(a, b)| {
                    (self.x.place(a.0) - self.x.place(b.0)).abs() < 0.5
                        && (self.y.place(a.1) - self.y.place(b.1)).abs() < 0.5
                })
        };
        let curve = &self.curves[index];
        index >= 8 || self.curves[..index].iter().any(|below| covers(below, curve))
    }

    fn strips(&self) -> Markup {
        let places = self.places();
        let between = |a: f64, b: f64| (self.x.place(a) + self.x.place(b)) / 2.0;
        let last = places.len().saturating_sub(1);
        html! {
            @for (index, &place) in places.iter().enumerate() {
                @let left = if index == 0 { 0.0 } else { between(places[index - 1], place) };
                @let right = if index == last { 100.0 } else { between(place, places[index + 1]) };
                g.strip {
                    rect x=(percent(left)) width=(percent(right - left)) y="0" height="100%" {}
                    line x1=(percent(self.x.place(place))) x2=(percent(self.x.place(place)))
                        y1="0" y2="100%" {}
                    @for (ink, curve) in self.curves.iter().enumerate() {
                        @if let Some((x, y)) = nearest(curve, place) {
                            circle class={ "dot ink" (ink % 8) } r="4"
                                cx=(percent(self.x.place(x)))
                                cy=(percent(100.0 - self.y.place(y))) {}
                        }
                    }
                    title { (self.words_at(place)) }
                }
            }
        }
    }

    /// Returns the positions of the strips: at the points, or evenly spread if there are too many points.
    fn places(&self) -> Vec<f64> {
        let longest = self.curves.iter().max_by_key(|curve| curve.points.len());
        let Some(longest) = longest else {
            return Vec::new();
        };
        let points = &longest.points;
        let count = points.len().min(if self.is_small { STRIPS_SMALL_MAX } else { STRIPS_MAX });
        (0..count).map(|index| points[index * points.len() / count].0).collect()
    }

    fn words_at(&self, place: f64) -> String {
        let mut words = (self.name_place)(place);
        for curve in &self.curves {
            if let Some((x, y)) = nearest(curve, place) {
                let separator = if curve.label.is_empty() { "" } else { ": " };
                let (label, value) = (curve.label, format::significant(y));
                let unit = super::parts::unit(self.unit);
                write!(words, "\n{label}{separator}{value} {unit}")
                    .expect("a string takes any text");
                if let Some(one) = curve.band.iter().find(|one| one.place == x) {
                    let ends = [one.low, one.high].map(format::significant).join(" to ");
                    write!(words, ", 95 %: {ends}").expect("a string takes any text");
                }
            }
        }
        words
    }
}

/// Returns the point of a curve nearest to a position; `None` if the curve ended before.
fn nearest(curve: &Curve, place: f64) -> Option<(f64, f64)> {
    let points = &curve.points;
    let after = points.partition_point(|(x, _)| *x < place);
    if after == points.len() && points.len() > 1 {
        let step = points[points.len() - 1].0 - points[points.len() - 2].0;
        return points.last().copied().filter(|(x, _)| place - x <= step);
    }
    let candidates = points.get(after.saturating_sub(1)..)?.iter().take(2);
    candidates.min_by(|a, b| (a.0 - place).abs().total_cmp(&(b.0 - place).abs())).copied()
}

/// Number of ticks that fit beside each other on a telephone. If there are more, every other one is hidden
/// there.
const MARKS_NARROW: usize = 3;

/// Returns the CSS class of the tick `index` of `count` ticks on the horizontal axis.
pub(super) fn tick_class(index: usize, count: usize) -> &'static str {
    if index % 2 == 1 && count > MARKS_NARROW { "tick odd" } else { "tick" }
}

/// Formats a percentage for SVG.
pub(super) fn percent(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    format!("{rounded}%")
}

/// Draws the legend: the names of the curves in their colours.
pub(super) fn legend(labels: &[&str]) -> Markup {
    html! {
        ul.legend {
            @for (index, label) in labels.iter().enumerate() {
                li { span class={ "swatch ink" (index % 8) @if index >= 8 { " dashed" } } {} (label) }
            }
        }
    }
}
