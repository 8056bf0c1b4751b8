//! Pages and figures of results that combine several reports, such as a sweep: curves with confidence bands,
//! small multiples, and a page in the style of the reports.

use maud::{Markup, html};
use serde::Serialize;

use super::contents::{self, Section};
use super::curves::range;
use super::lines::{self, Chart, Curve, legend};
use super::parts;
use crate::output::axis::Axis;
use crate::output::format;
use crate::report::{Finding, Table};

/// A self-contained page that embeds its data.
pub struct Page<'a> {
    /// Title of the window.
    pub title: &'a str,
    /// Line above the heading.
    pub kicker: &'a str,
    /// Heading.
    pub heading: &'a str,
    /// Words below the heading.
    pub meta: &'a [String],
    /// Important remarks, each with the bold word that it begins with.
    pub badges: &'a [(&'a str, String)],
    /// Findings.
    pub findings: &'a [Finding],
    /// Sections: heading and content.
    pub sections: Vec<(String, Markup)>,
    /// Name of the file for saving the data.
    pub file_name: &'a str,
}

impl Page<'_> {
    /// Returns the page as HTML, with `data` embedded as JSON.
    pub fn render(self, data: &impl Serialize) -> String {
        let sections: Vec<Section> =
            self.sections.into_iter().map(|(title, body)| Section { title, body }).collect();
        let body = html! {
            header {
                p.kicker { (self.kicker) }
                h1 { (self.heading) }
                p.meta { @for words in self.meta { span { (words) } } }
                @for (word, sentence) in self.badges {
                    p.badge { b { (word) } " " (sentence) }
                }
            }
            main {
                (parts::findings(self.findings))
                (contents::draw(&sections))
            }
        };
        super::page(self.title, body, data, self.file_name)
    }
}

/// Draws a table with units in its head; a table with many rows is collapsed.
pub fn table(table: &Table) -> Markup {
    parts::table(table)
}

/// Returns a unit in typographic notation.
pub fn unit(unit: &str) -> &str {
    parts::unit(unit)
}

/// Returns a unit in words, for sentences.
pub fn unit_words(unit: &str) -> &str {
    format::unit_words(unit)
}

/// Positions on the horizontal axis of a plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// Rising numbers, each with the label of its tick.
    Numbers(Vec<(f64, String)>),
    /// Names, evenly spaced.
    Names(Vec<String>),
}

/// Ratio of the greatest to the least number from which the axis is logarithmic.
const LOGARITHMIC: f64 = 16.0;

/// Minimum distance of ticks in a small chart, in percent of its width.
const APART_SMALL: f64 = 30.0;

impl Places {
    fn axis(&self, is_small: bool) -> Axis {
        let mut axis = match self {
            Places::Names(names) => Axis::steps(names, ""),
            Places::Numbers(marks) => {
                let (low, high) = range(marks.iter().map(|(number, _)| *number));
                Axis::marked(marks, low > 0.0 && high / low >= LOGARITHMIC)
            }
        };
        if is_small {
            let mut last = f64::NEG_INFINITY;
            axis.ticks.retain(|tick| {
                let has_room = tick.at - last >= APART_SMALL;
                last = if has_room { tick.at } else { last };
                has_room
            });
        }
        axis
    }

    /// Returns the position with this index.
    fn at(&self, index: usize) -> f64 {
        match self {
            Places::Names(_) => index as f64,
            Places::Numbers(marks) => marks[index].0,
        }
    }

    fn words(&self, place: f64) -> String {
        match self {
            Places::Names(names) => names.get(place.round() as usize).cloned().unwrap_or_default(),
            Places::Numbers(marks) => {
                let mark = marks.iter().find(|(number, _)| *number == place);
                mark.map_or_else(String::new, |(_, words)| words.clone())
            }
        }
    }
}

/// A mean, with its confidence interval if there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Lower and upper end of the interval.
    pub interval: Option<(f64, f64)>,
}

/// A curve of means, with confidence intervals if there are any.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name; empty for the only curve of a plot.
    pub label: String,
    /// Mean and interval at each position; `None` if nothing was measured there.
    pub points: Vec<Option<Mean>>,
}

/// A chart of curves with confidence bands.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot<'a> {
    /// Name.
    pub name: &'a str,
    /// Unit of the values; empty for a ratio.
    pub unit: &'a str,
    /// Positions on the horizontal axis.
    pub places: &'a Places,
    /// Curves; the index determines the colour.
    pub lines: &'a [Line],
    /// Range of the vertical axis, for charts that are to be compared; `None` for the range of the lines.
    pub range: Option<(f64, f64)>,
    /// True for a small chart, one of many.
    pub is_small: bool,
}

/// Returns the range of the values of `lines`, including confidence bands.
pub fn value_range(lines: &[Line]) -> (f64, f64) {
    let points = lines.iter().flat_map(|line| line.points.iter().flatten());
    range(points.flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.mean, point.mean));
        [point.mean, low, high]
    }))
}

/// Draws the legend; nothing for one line.
pub fn key(lines: &[Line]) -> Markup {
    let names: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    html! { @if names.len() > 1 { (legend(&names)) } }
}

impl Plot<'_> {
    /// Draws the chart.
    pub fn draw(&self) -> Markup {
        let (least, most) = self.range.unwrap_or_else(|| value_range(self.lines));
        let curves = self.lines.iter().map(|line| {
            let placed = || {
                let places = line.points.iter().enumerate();
                places.filter_map(|(index, point)| Some((self.places.at(index), (*point)?)))
            };
            Curve {
                label: &line.label,
                points: placed().map(|(place, point)| (place, point.mean)).collect(),
                band: placed()
                    .filter_map(|(place, point)| {
                        let (low, high) = point.interval?;
                        Some(lines::Interval { place, low, high })
                    })
                    .collect(),
            }
        });
        let names: Vec<&str> = self.lines.iter().map(|line| line.label.as_str()).collect();
        let chart = Chart {
            name: self.name.to_owned(),
            summary: super::curves::summary((least, most), self.unit, &names),
            x: self.places.axis(self.is_small),
            y: Axis::values(least, most, self.unit, if self.is_small { 3 } else { 4 }),
            unit: self.unit,
            curves: curves.collect(),
            is_small: self.is_small,
            name_place: &|place| self.places.words(place),
        };
        chart.draw()
    }
}
