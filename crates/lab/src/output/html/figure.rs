//! Pages and figures of results that are more than one report, such as a sweep: curves with confidence bands,
//! small multiples, a page around them in the style of the reports.

use maud::{Markup, html};
use serde::Serialize;

use super::contents::{self, Section};
use super::curves::range;
use super::lines::{self, Chart, Curve, legend};
use super::parts;
use crate::output::format;
use crate::output::scale::Axis;
use crate::report::{Finding, Table};

/// A page that holds its own data and loads nothing.
pub struct Page<'a> {
    /// The title of the window.
    pub title: &'a str,
    /// The line above the heading.
    pub kicker: &'a str,
    /// The heading.
    pub heading: &'a str,
    /// Words below the heading.
    pub meta: &'a [String],
    /// Sentences to be read before any figure, each behind the word it begins with.
    pub badges: &'a [(&'a str, String)],
    /// The findings.
    pub findings: &'a [Finding],
    /// Headings, each with what stands below it.
    pub sections: Vec<(String, Markup)>,
    /// The name of the file that its data is saved as.
    pub file_name: &'a str,
}

impl Page<'_> {
    /// Returns the page as HTML, with `data` inside it as JSON.
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

/// Returns a table with units in its head; one of many rows is folded.
pub fn table(table: &Table) -> Markup {
    parts::table(table)
}

/// Returns a unit as print shows it.
pub fn unit(unit: &str) -> &str {
    parts::unit(unit)
}

/// Returns a unit in words, to stand in a sentence.
pub fn unit_words(unit: &str) -> &str {
    format::unit_words(unit)
}

/// Places along the bottom of a plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// Numbers that rise, each with the words of its mark.
    Numbers(Vec<(f64, String)>),
    /// Names, evenly spread.
    Names(Vec<String>),
}

/// From this ratio of the greatest to the least number on, places are logarithmic.
const LOGARITHMIC: f64 = 16.0;

/// Marks of a small chart are at least so far apart, in percent of its width.
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

    /// Returns where the `index`th place is.
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

/// A mean, and the ends of its confidence interval where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The lower and the upper end.
    pub interval: Option<(f64, f64)>,
}

/// A mean at each place, with its confidence interval where there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name; empty where it is the only one.
    pub label: String,
    /// Mean and interval at each place; `None` where nothing was measured.
    pub points: Vec<Option<Mean>>,
}

/// Curves with bands over the same axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot<'a> {
    /// Its name.
    pub name: &'a str,
    /// Unit of the values; empty for a ratio.
    pub unit: &'a str,
    /// The places along the bottom.
    pub places: &'a Places,
    /// The curves; the index gives the colour.
    pub lines: &'a [Line],
    /// The range of values to show, the same for charts that are to be compared; that of the lines unless
    /// given.
    pub range: Option<(f64, f64)>,
    /// True if it is one of many and should be small.
    pub is_small: bool,
}

/// Returns the range of the values of `lines`, bands included.
pub fn value_range(lines: &[Line]) -> (f64, f64) {
    let points = lines.iter().flat_map(|line| line.points.iter().flatten());
    range(points.flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.mean, point.mean));
        [point.mean, low, high]
    }))
}

/// Returns the names of lines in their colours; nothing for one line.
pub fn key(lines: &[Line]) -> Markup {
    let names: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    html! { @if names.len() > 1 { (legend(&names)) } }
}

impl Plot<'_> {
    /// Returns the chart.
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
