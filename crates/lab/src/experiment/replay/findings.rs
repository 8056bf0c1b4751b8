//! Findings about a replay: changes to the trace, and whether the drive kept up.

use ssdlab_interchange::trace::Format;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::Protocol;
use super::requests::AddressMap;
use crate::experiment::{Record, job_table};
use crate::output::format;
use crate::report::Level;

/// Maximum of the elapsed time, as a multiple of the trace's duration. Beyond it the drive has not kept up.
const MAX_OVERRUN: f64 = 1.02;

/// Additional seconds that the last request may take.
const LAST_REQUEST_SECONDS: f64 = 0.01;

/// Adds the findings, with one about whether the drive kept up with the trace.
pub(super) fn conclude(protocol: &Protocol, rows: &[job_table::JobRow], record: &mut Record) {
    job_table::conclude(rows, record);
    let took = rows.first().map_or(0.0, |row| row.seconds);
    let Some(time) = protocol.time() else {
        if protocol.survey.duration == Nanoseconds::ZERO {
            let why = match protocol.survey.format {
                Format::Iolog2 => "The trace has no times",
                _ => "All requests of the trace have the same time",
            };
            let text = format!("{why}; it was replayed as fast as the drive can.");
            record.add_finding(Level::Notice, "no-times", text);
        }
        return;
    };
    if rows.is_empty() {
        return;
    }
    if !keeps_up(time.seconds(), took) {
        record.add_finding(
            Level::Warning,
            "not-kept-up",
            format!(
                "The drive did not keep up: requests that arrived within {} took it {}. Latencies \
                 grew with the backlog and show its length.",
                format::span(time.seconds()),
                format::span(took)
            ),
        );
    } else {
        let text = "The drive kept up with the times of the trace to its end. Latencies count from \
                    these times and include any backlog on the way.";
        record.add_finding(Level::Info, "kept-up", text.to_owned());
    }
}

/// Returns true if a drive that took `took` seconds for requests that arrive within `time` seconds kept up with them.
fn keeps_up(time: f64, took: f64) -> bool {
    took <= time * MAX_OVERRUN + LAST_REQUEST_SECONDS
}

/// Adds findings about the contents of the trace and the changes to its addresses and times.
pub(super) fn describe_trace(protocol: &Protocol, record: &mut Record) {
    let survey = &protocol.survey;
    let [reads, writes, trims, flushes] = survey.requests;
    let several = |number: u64, what: &str, end: &str| match number {
        1 => format!("1 {what}"),
        number => format!("{} {what}{end}", format::count(number)),
    };
    let duration = match survey.duration {
        Nanoseconds::ZERO => String::new(),
        duration => format!(" over {}", format::span(duration.seconds())),
    };
    let mut text = format!(
        "The trace ({}) holds {}{duration}: {} of {}, {} of {}",
        survey.format.name(),
        several(survey.count(), "request", "s"),
        several(reads, "read", "s"),
        ByteLength::new(survey.bytes[0]),
        several(writes, "write", "s"),
        ByteLength::new(survey.bytes[1]),
    );
    for (number, what, end) in [(trims, "trim", "s"), (flushes, "flush", "es")] {
        if number > 0 {
            text.push_str(&format!(", {}", several(number, what, end)));
        }
    }
    record.add_finding(Level::Info, "trace", format!("{text}."));
    match protocol.map {
        AddressMap::Unchanged => {}
        AddressMap::Scaled { from, to } => record.add_finding(
            Level::Notice,
            "addresses-scaled",
            format!(
                "Addresses reach to {} and were scaled to the {} under test in whole MiB: {from} \
                 of the trace share {to} of the drive; offsets within a MiB are unchanged.",
                survey.end, protocol.area
            ),
        ),
        AddressMap::Wrapped if survey.end > protocol.area => record.add_finding(
            Level::Notice,
            "addresses-wrapped",
            format!(
                "Addresses reach to {}; those beyond the {} under test wrap around to the start.",
                survey.end, protocol.area
            ),
        ),
        AddressMap::Wrapped => {}
    }
    if !survey.alignment.is_multiple_of(protocol.unit) {
        record.add_finding(
            Level::Notice,
            "requests-widened",
            format!(
                "Requests of the trace are aligned to {}; they were widened to the target's blocks \
                 of {}.",
                survey.alignment, protocol.unit
            ),
        );
    }
    if survey.went_back > 0 {
        let count = format::count(survey.went_back);
        let text = format!(
            "Times go back in {count} lines; those requests count as sent with the one before."
        );
        record.add_finding(Level::Info, "times-went-back", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_ends_much_later_than_its_requests_come_does_not_keep_up() {
        for (time, took) in [(0.2, 0.2), (0.2, 0.213), (0.000_1, 0.01), (60.0, 61.0)] {
            assert!(keeps_up(time, took), "{took} s for {time} s");
        }
        for (time, took) in [(0.2, 0.215), (1.0, 1.1), (60.0, 61.3)] {
            assert!(!keeps_up(time, took), "{took} s for {time} s");
        }
    }
}
