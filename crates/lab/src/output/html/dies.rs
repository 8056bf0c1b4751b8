//! A figure for each die: a row of cells for each series, the stronger the colour, the greater.

use maud::{Markup, html};

use super::parts::unit;
use crate::output::format;
use crate::report::Series;

/// The unit of the places of such series.
pub(super) const DIE: &str = "die";

/// The most ink behind a figure, in percent: dark and light letters can be read on it.
const INK: f64 = 40.0;

/// Returns the cells of `series`, with the words that stand before each row.
pub(super) fn draw(title: &str, series: &[&Series], labels: &[String]) -> Markup {
    let most = series.iter().flat_map(|it| &it.y).copied().fold(f64::MIN_POSITIVE, f64::max);
    let share = |value: f64| value / most * INK;
    let dies = series.first().map_or(&[][..], |it| &it.x);
    html! {
        figure.chart {
            figcaption { (unit(&series[0].unit_y)) " by die; the stronger the colour, the more" }
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
