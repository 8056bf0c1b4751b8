//! Findings about the throughput of random writes over time.

use ssdlab_units::Nanoseconds;

use super::throughput_history::FALL_SHARE;
use super::{Intervals, SizeResults};
use crate::experiment::text_format::{join_names, throughput};
use crate::experiment::{Record, Settings};
use crate::output::format::{significant, span};
use crate::report::Level;

/// Remaining share of the speed below which a fall is a problem.
const PROBLEM: f64 = 0.5;

/// Adds the findings of a run, even if it did not complete.
pub(super) fn conclude(
    written: &[SizeResults],
    intervals: Intervals,
    settings: &Settings,
    record: &mut Record,
) {
    fall_finding(written, record);
    fall_before_gc(written, intervals.minute, record);
    swing_finding(written, intervals.minute, record);
    record.add_shortened_finding(settings);
}

/// One request size whose speed fell.
struct Fall<'a> {
    written: &'a SizeResults,
    start: f64,
    later: f64,
    after: f64,
}

fn find_falls(written: &[SizeResults]) -> Vec<Fall<'_>> {
    let fall = |written: &'_ SizeResults| {
        let speed = &written.speed;
        Some((speed.start()?, speed.later_half()?, speed.fell_after()?))
    };
    written
        .iter()
        .filter_map(|written| {
            let (start, later, after) = fall(written)?;
            Some(Fall { written, start, later, after })
        })
        .collect()
}

fn fall_finding(written: &[SizeResults], record: &mut Record) {
    let falls = find_falls(written);
    if falls.is_empty() && !written.is_empty() {
        let sizes: Vec<String> = written.iter().map(|one| one.size.to_string()).collect();
        record.add_finding(
            Level::Info,
            "writes-steady",
            format!(
                "Random writes of {} kept at least {:.0} % of the speed of the new drive.",
                join_names(&sizes),
                FALL_SHARE * 100.0
            ),
        );
        return;
    }
    let Some(worst) =
        falls.iter().min_by(|a, b| (a.later / a.start).total_cmp(&(b.later / b.start)))
    else {
        return;
    };
    let words: Vec<String> = falls
        .iter()
        .map(|fall| {
            format!(
                "{} from {} to {} after {}",
                fall.written.size,
                throughput(fall.start),
                throughput(fall.later),
                if fall.after < 1.0 { "less than 1 s".to_owned() } else { span(fall.after) }
            )
        })
        .collect();
    let level = if worst.later / worst.start < PROBLEM { Level::Problem } else { Level::Warning };
    let others = match written.len() - falls.len() {
        0 => "",
        _ => "; the other sizes did not",
    };
    record.add_finding(
        level,
        "writes-slower",
        format!("The speed of random writes fell: {}{others}.", join_names(&words)),
    );
}

/// Adds a finding if the speed fell before GC relocated anything: the cause is not a lack of free blocks.
fn fall_before_gc(written: &[SizeResults], minute: Nanoseconds, record: &mut Record) {
    let is_early = |fall: &Fall| fall.after < minute.seconds();
    let early: Vec<Fall> = find_falls(written)
        .into_iter()
        .filter(|fall| is_early(fall) && fall.written.speed.relocated_in_first_minute == Some(0))
        .collect();
    if early.is_empty() {
        return;
    }
    let sizes: Vec<String> = early.iter().map(|fall| fall.written.size.to_string()).collect();
    let cause = if early.iter().all(|fall| fall.written.speed.compacted_in_first_minute > 0) {
        "but because the extent map outgrew the controller's memory, and from then on extent \
         compaction rewrites scattered fragments as one run before a write continues"
    } else {
        "but because the write cache was full, or because the logical-to-physical map outgrew the \
         controller's memory"
    };
    record.add_finding(
        Level::Notice,
        "before-collection",
        format!(
            "With {} it fell within the first {}, before garbage collection had moved a single \
             unit: not for lack of free blocks, {cause}.",
            join_names(&sizes),
            minute_text(minute)
        ),
    );
}

/// Returns "minute", or its length on a scaled drive.
fn minute_text(minute: Nanoseconds) -> String {
    match minute.seconds() {
        60.0 => "minute".to_owned(),
        seconds => span(seconds),
    }
}

fn swing_finding(written: &[SizeResults], minute: Nanoseconds, record: &mut Record) {
    let swings: Vec<String> = written
        .iter()
        .filter_map(|one| {
            let swing = one.speed.swing()?;
            Some(format!(
                "{} by {} ({} % of the mean)",
                one.size,
                throughput(swing.mb_per_second),
                significant(swing.share * 100.0)
            ))
        })
        .collect();
    if !swings.is_empty() {
        record.add_finding(
            Level::Info,
            "swings",
            format!(
                "In the later half the speed swings from one {} to the next, as a standard \
                 deviation: {}.",
                minute_text(minute),
                join_names(&swings)
            ),
        );
    }
}
