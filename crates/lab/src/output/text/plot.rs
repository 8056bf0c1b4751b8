//! Curves drawn with characters.

use super::paint::{Ink, Options, plain};
use crate::output::axis::Axis;
use crate::output::chart::{Family, Grid, without_unit};
use crate::output::format;

/// Number of rows of the plot.
const HEIGHT: usize = 11;
/// Approximate number of ticks on the horizontal axis.
const POSITIONS: usize = 5;
/// Approximate number of ticks on the vertical axis.
const VALUES: usize = 4;
/// Maximum width of the plot.
const WIDTH_MAX: usize = 72;
/// Maximum number of curves: more would hide each other.
const CURVES_MAX: usize = 5;
/// Minimum number of points in a curve.
const POINTS_MIN: usize = 12;

/// Characters of the curves.
const MARKS: [char; 8] =
    ['\u{25cf}', '\u{25cb}', '\u{25b2}', '\u{25c6}', '\u{25a0}', '+', 'x', '*'];
const MARKS_ASCII: [char; 8] = ['o', '*', '+', 'x', '#', '@', '%', '&'];
/// Colours of the curves.
const INKS: [Ink; 4] = [Ink::New, Ink::Added, Ink::Info, Ink::Problem];

/// Curves over a common pair of axes.
pub(super) struct Plot {
    title: String,
    /// Unit of the values.
    unit: String,
    /// Names and points; the position of a point is between 0 and 1.
    curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Positions and labels of the ticks on the horizontal axis.
    marks: Vec<(f64, String)>,
}

/// Returns round ticks on an axis from zero to `end`, the last with the unit.
fn round_marks(end: f64, unit: &str) -> Vec<(f64, String)> {
    let axis = Axis::positions(0.0, end, unit, POSITIONS, false);
    let caption = in_ascii(&axis.caption);
    let last = axis.ticks.len().saturating_sub(1);
    let places = axis.ticks.iter().enumerate().map(|(index, tick)| {
        let unit = if index == last { format!(" {caption}") } else { String::new() };
        (tick.at / 100.0, format!("{}{unit}", tick.label).trim_end().to_owned())
    });
    places.collect()
}

/// Returns a unit in ASCII.
fn in_ascii(caption: &str) -> String {
    caption.replace('\u{b5}', "u")
}

impl Plot {
    /// Returns the plot of a table's measurement over its steps.
    pub(super) fn of_grid(grid: &Grid) -> Plot {
        let curves = grid.curves.iter().map(|curve| {
            let points = curve.points(&grid.steps).into_iter();
            (curve.name.clone(), points.map(|(step, value)| (grid.place(step), value)).collect())
        });
        let marks = grid.steps.iter().map(|&step| (grid.place(step), grid.step(step)));
        Plot {
            title: without_unit(&grid.title, &grid.unit).to_owned(),
            unit: grid.unit.clone(),
            curves: curves.collect(),
            marks: marks.collect(),
        }
    }

    /// Returns a plot of the first family of series that can be drawn.
    pub(super) fn of_series(series: &[crate::report::Series]) -> Option<Plot> {
        let families = Family::all(series);
        let family = families.into_iter().find(|family| {
            let is_long = |one: &&crate::report::Series| one.x.len() >= POINTS_MIN;
            (1..=CURVES_MAX).contains(&family.series.len()) && family.series.iter().all(is_long)
        })?;
        let last = |one: &&crate::report::Series| one.x.last().copied();
        let end = family.series.iter().filter_map(last).fold(0.0_f64, f64::max);
        let curves = family.series.iter().zip(&family.labels).map(|(one, label)| {
            let points = one.x.iter().zip(&one.y).map(|(x, y)| (x / end, *y)).collect();
            (label.clone(), points)
        });
        (end > 0.0).then(|| Plot {
            title: family.title.clone(),
            unit: family.series[0].unit_y.clone(),
            curves: curves.collect(),
            marks: round_marks(end, &family.series[0].unit_x),
        })
    }

    /// Returns a plot of the first compared curve that can be drawn.
    pub(super) fn of_compared(series: &[crate::compare::ComparedSeries]) -> Option<Plot> {
        let one = series.iter().find(|one| {
            (1..=CURVES_MAX).contains(&one.curves.len())
                && one.curves.iter().all(|curve| curve.x.len() >= POINTS_MIN)
        })?;
        let ends = one.curves.iter().filter_map(|curve| curve.x.last().copied());
        let end = ends.fold(0.0_f64, f64::max);
        let curves = one.curves.iter().map(|curve| {
            let points = curve.x.iter().zip(&curve.y).map(|(x, y)| (x / end, *y)).collect();
            (curve.label.clone(), points)
        });
        (end > 0.0).then(|| Plot {
            title: format::heading(&one.name, ""),
            unit: one.unit_y.clone(),
            curves: curves.collect(),
            marks: round_marks(end, &one.unit_x),
        })
    }
}

/// Returns the plot as lines: title, legend, curves, axis.
pub(super) fn lines(plot: &Plot, options: &Options) -> Vec<String> {
    let most = plot.curves.iter().flat_map(|(_, points)| points).fold(0.0_f64, |a, b| a.max(b.1));
    if most <= 0.0 {
        return Vec::new();
    }
    let values = Axis::values(0.0, most, &plot.unit, VALUES);
    let row_of = |value: f64| HEIGHT - 1 - (value / 100.0 * (HEIGHT - 1) as f64).round() as usize;
    let mut labels = [""; HEIGHT];
    for tick in &values.ticks {
        labels[row_of(tick.at)] = &tick.label;
    }
    let gutter = labels.iter().map(|label| label.len()).max().unwrap_or(0) + 2;
    let width = options.width.saturating_sub(gutter + 4).clamp(16, WIDTH_MAX);
    let unit = in_ascii(&values.caption);
    let is_named = unit.is_empty() || plot.title.split([' ', ',']).any(|word| word == unit);
    let title = if is_named { plot.title.clone() } else { format!("{}, in {unit}", plot.title) };
    let mut lines = vec![options.paint(Ink::Heading, &plain(&title))];
    if plot.curves.len() > 1 {
        lines.extend(legend(plot, options));
    }
    let cells = cells(plot, &values, width);
    let (bar, corner) = if options.ascii { ('|', '+') } else { ('\u{2502}', '\u{2514}') };
    for (row, cells) in cells.iter().enumerate() {
        let label = labels[row];
        let drawn: String = cells.iter().map(|cell| draw(*cell, options)).collect();
        lines.push(format!("{label:>gutter$} {bar}{drawn}"));
    }
    let dash = if options.ascii { "-" } else { "\u{2500}" };
    lines.push(format!("{:gutter$} {corner}{}", "", dash.repeat(width)));
    lines.push(format!("{:gutter$}  {}", "", axis(&plot.marks, width)));
    lines
}

fn mark(index: usize, options: &Options) -> char {
    let marks = if options.ascii { &MARKS_ASCII } else { &MARKS };
    marks[index % marks.len()]
}

fn draw(cell: Option<usize>, options: &Options) -> String {
    match cell {
        None => " ".to_owned(),
        Some(curve) => options.paint(INKS[curve % INKS.len()], &mark(curve, options).to_string()),
    }
}

/// Returns the index of the curve at each character; the first one if several curves overlap.
fn cells(plot: &Plot, axis: &Axis, width: usize) -> Vec<Vec<Option<usize>>> {
    let mut cells = vec![vec![None; width]; HEIGHT];
    for (index, (_, points)) in plot.curves.iter().enumerate() {
        let step = 1.0 / (width - 1) as f64;
        let places = (0..width).map(|column| (column, column as f64 * step));
        for (column, place) in places {
            let Some(value) = value_at(points, place, step) else { continue };
            let height = (axis.place(value) / 100.0 * (HEIGHT - 1) as f64).round() as usize;
            let cell: &mut Option<usize> = &mut cells[HEIGHT - 1 - height][column];
            cell.get_or_insert(index);
        }
    }
    cells
}

/// Returns the mean of the points near a position, or interpolates between the nearest two if there are none.
fn value_at(points: &[(f64, f64)], place: f64, step: f64) -> Option<f64> {
    let near: Vec<f64> =
        points.iter().filter(|(x, _)| (x - place).abs() <= step / 2.0).map(|(_, y)| *y).collect();
    if !near.is_empty() {
        return Some(near.iter().sum::<f64>() / near.len() as f64);
    }
    let after = points.iter().position(|(x, _)| *x > place)?;
    let (x0, y0) = *points.get(after.checked_sub(1)?)?;
    let (x1, y1) = points[after];
    Some(y0 + (y1 - y0) * (place - x0) / (x1 - x0))
}

/// Returns the legend, wrapped to the width.
fn legend(plot: &Plot, options: &Options) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for (index, (name, _)) in plot.curves.iter().enumerate() {
        let name = plain(name);
        let needed = name.chars().count() + 5;
        if length > 0 && length + needed > options.width {
            lines.push(String::new());
            length = 0;
        }
        length += needed;
        let line = lines.last_mut().expect("there is always one");
        line.push_str(&format!("  {} {name} ", draw(Some(index), options)));
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Returns the labels below the axis, at their positions, without those that would touch.
fn axis(marks: &[(f64, String)], width: usize) -> String {
    let mut line: Vec<char> = vec![' '; width];
    // The last label is placed first: the end of an axis is the most important.
    let order = marks.iter().rev().take(1).chain(marks.iter().take(marks.len().max(1) - 1));
    for (place, text) in order {
        let text: Vec<char> = text.chars().collect();
        if text.len() > width {
            continue;
        }
        let middle = (place * (width - 1) as f64).round() as usize;
        let start = middle.saturating_sub(text.len() / 2).min(width - text.len());
        let around = start.saturating_sub(2)..(start + text.len() + 2).min(width);
        if line[around].iter().all(|letter| *letter == ' ') {
            line[start..start + text.len()].copy_from_slice(&text);
        }
    }
    line.into_iter().collect::<String>().trim_end().to_owned()
}
