//! Recordings of the inside of a drive: a picture with a slider if JavaScript is available, otherwise curves
//! and a table of moments.

use maud::{Markup, PreEscaped, html};

use super::contents::Section;
use super::{curves, embedded, parts};
use crate::output::{format, recording_table};
use crate::report::{Recording, Series};

/// Returns a section for each recording. `is_alone` is true if the page does not embed the report's JSON, so
/// that the picture needs its own data.
pub(super) fn sections(recordings: &[Recording], is_alone: bool) -> Vec<Section> {
    let is_only = recordings.len() == 1;
    let section = |(number, recording): (usize, &Recording)| Section {
        title: match is_only {
            true => "Inside the drive".to_owned(),
            false => format!("Inside drive {}: {}", number + 1, steps(recording)),
        },
        body: body(number, recording, is_alone),
    };
    recordings.iter().enumerate().map(section).collect()
}

/// Returns a short list of the steps of a recording.
fn steps(recording: &Recording) -> String {
    let names = || recording.steps.iter().map(|it| format::label(it, ""));
    match recording.steps.len() {
        0..=3 => names().collect::<Vec<_>>().join(", "),
        many => {
            let (first, last) = (names().next(), names().next_back());
            let ends = first.zip(last).map(|(first, last)| format!("{first} to {last}"));
            format!("{}, {many} steps", ends.unwrap_or_default())
        }
    }
}

/// Returns the position of each moment in the chart of a series, in percent. The script uses the positions to
/// mark the moment that is shown.
fn places(series: &Series, recording: &Recording) -> String {
    let places = curves::places(series, recording_table::positions(recording));
    places.iter().map(|place| format!("{place:.1}")).collect::<Vec<_>>().join(" ")
}

fn body(number: usize, recording: &Recording, is_alone: bool) -> Markup {
    let together = recording.blocks_per_cell;
    let what = match together {
        1 => "Each square is a block, which is collected and erased as a whole".to_owned(),
        _ => {
            format!(
                "Each square is {together} neighbouring blocks, each collected and erased as a \
                 whole"
            )
        }
    };
    html! {
        p.faint {
            (what) " (" (format::bytes(recording.block_bytes as f64)) "). "
            (format::count(recording.blocks.into())) " blocks, "
            (format::count(recording.pictures.len() as u64)) " moments of the run."
        }
        div.inside data-recording=(number) hidden {
            @if is_alone {
                script.recording type="application/json" { (PreEscaped(embedded(recording))) }
            }
        }
        @for series in recording_table::curves(recording) {
            @for curve in curves::sections(std::slice::from_ref(&series)) {
                div.over data-places=(places(&series, recording)) {
                    h3 { (curve.title) }
                    (curve.body)
                }
            }
        }
        @if let Some(table) = recording_table::table(recording) { (parts::table(&table)) }
    }
}
