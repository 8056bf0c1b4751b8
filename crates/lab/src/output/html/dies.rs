//! Heat map of figures per die: a row of cells for each series, with a stronger colour for a greater value.

use maud::{Markup, html};

use super::parts::unit;
use crate::output::format;
use crate::report::Series;

/// Unit of `x` in series per die.
pub(super) const DIE: &str = "die";

/// Maximum opacity of a cell's colour in percent, so that its text stays readable.
const INK: f64 = 40.0;

/// Draws a row of cells for each of `series`, with its label.
pub(super) fn draw(title: &str, series: &[&Series], labels: &[String]) -> Markup {
    let most = series.iter().flat_map(|it| &it.y).copied().fold(f64::MIN_POSITIVE, f64::max);
    let share = |value: f64| value / most * INK;
    let dies = series.first().map_or(&[][..], |it| &it.x);
    html! {
        figure.chart {
            figcaption { (unit(&series[0].unit_y)) " by die; a stronger colour means more" }
            div.scroll tabindex="0" role="region" aria-label={ (title) " by die" } {
                table.heat {
                    thead { tr {
                        td {}
                        @for die in dies { th scope="col" { (words(*die)) } }
                    } }
                    tbody {
                        @for (series, label) in series.iter().zip(labels) { tr {
                            th scope="row" { (label) }
                            @for &value in &series.y {
                                td style={ "--share:" (format!("{:.1}", share(value))) } { (words(value)) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

fn words(value: f64) -> String {
    if value.fract() == 0.0 { format::count(value as u64) } else { format::significant(value) }
}
