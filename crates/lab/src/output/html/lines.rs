//! Curves over two axes.
//!
//! Every coordinate is a percentage of the plot, so that a chart takes whatever width there is
//! while its words keep their size; only the curve itself lies in a stretched drawing, with a
//! stroke that does not stretch. Each place along the curve has an invisible strip that shows
//! its numbers while the pointer is over it.

use std::fmt::Write;

use maud::{Markup, html};

use crate::output::format;
use crate::output::scale::Axis;

/// More strips than this are narrower than a pointer can aim.
const STRIPS_MAX: usize = 120;
/// Most strips of one of many small charts, of which a page may have dozens.
const STRIPS_SMALL_MAX: usize = 40;
/// Fewer points than this deserve a dot each.
const DOTS_MAX: usize = 30;

/// Curves to be drawn over the same axes.
pub(super) struct Chart<'a> {
    /// Its name.
    pub(super) name: String,
    /// What it shows, for those who cannot see it.
    pub(super) summary: String,
    /// The axis along the bottom.
    pub(super) x: Axis,
    /// The axis up the side.
    pub(super) y: Axis,
    /// Unit of the values, to be said with each number.
    pub(super) unit: &'a str,
    /// The curves; the index gives the colour.
    pub(super) curves: Vec<Curve<'a>>,
    /// True if it is one of many and should be small.
    pub(super) is_small: bool,
    /// What a place along the bottom is called.
    pub(super) name_place: &'a dyn Fn(f64) -> String,
}

/// One curve.
pub(super) struct Curve<'a> {
    /// Its name; empty where there is only one.
    pub(super) label: &'a str,
    /// Its points, from left to right.
    pub(super) points: Vec<(f64, f64)>,
    /// How well its values are known, from left to right; empty where that was not estimated.
    pub(super) band: Vec<Interval>,
}

/// The interval of a value.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    /// Where along the bottom it is.
    pub(super) place: f64,
    /// Its lower end.
    pub(super) low: f64,
    /// Its upper end.
    pub(super) high: f64,
}

impl<'a> Curve<'a> {
    /// A curve without intervals.
    pub(super) fn plain(label: &'a str, points: Vec<(f64, f64)>) -> Self {
        Curve { label, points, band: Vec::new() }
    }
}

impl Chart<'_> {
    /// The chart.
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

    /// The outline of a band: along its upper ends, and back along its lower ones.
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

    /// Returns true if a curve shows what lies under it: because its colour was used before, or
    /// because it runs over one drawn before.
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

    /// Returns where the strips are: at the points themselves, or evenly spread over too many.
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

/// The point of a curve nearest to a place; none where the curve has ended before.
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

/// This many marks have room beside each other on a telephone; of more, every other one is hidden there.
const MARKS_NARROW: usize = 3;

/// The class of the `index`th of `count` marks along the bottom.
pub(super) fn tick_class(index: usize, count: usize) -> &'static str {
    if index % 2 == 1 && count > MARKS_NARROW { "tick odd" } else { "tick" }
}

/// A percentage as SVG takes it.
pub(super) fn percent(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    format!("{rounded}%")
}

/// The names of the curves, in their colours.
pub(super) fn legend(labels: &[&str]) -> Markup {
    html! {
        ul.legend {
            @for (index, label) in labels.iter().enumerate() {
                li { span class={ "swatch ink" (index % 8) @if index >= 8 { " dashed" } } {} (label) }
            }
        }
    }
}
