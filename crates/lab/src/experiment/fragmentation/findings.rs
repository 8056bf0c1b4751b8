//! What the reads allow to say, and what they do not.

use super::{Protocol, READ_REQUEST, Reads, WRITE_BLOCK, mib_words, rest_words};
use crate::experiment::{Record, Settings};
use crate::report::Level;
use ssdlab_model::units::Nanoseconds;

/// Reads that differ by less than this share are taken as equal even where repeats agree better:
/// the published times are given to a tenth of a second of 2 to 11.
const LEAST_DIFFERENCE: f64 = 0.03;

/// From this factor on a slowdown is a problem, and from this one on a warning.
const PROBLEM: f64 = 2.0;
const WARNING: f64 = 1.2;

/// Adds the findings of a run, also of one that did not come to its end.
pub(super) fn conclude(
    protocol: &Protocol,
    reads: &[Reads],
    settings: &Settings,
    record: &mut Record,
) {
    let steps: Vec<&Reads> = reads.iter().filter(|step| !step.seconds.is_empty()).collect();
    let Some((fill, later)) = steps.split_first() else { return };
    let scattered: Vec<&Reads> =
        later.iter().copied().filter(|step| step.seconds.len() as u32 == protocol.reads).collect();
    let noise = noise(&steps).max(LEAST_DIFFERENCE);
    if let Some(last) = scattered.last().or(later.last()) {
        verdict(protocol, fill, last, noise, record);
        half_of_it(fill, &scattered, last, noise, protocol, record);
        after_rest(protocol, &steps, last, noise, record);
    }
    if noise > 0.1 {
        record.find(
            Level::Notice,
            "noisy",
            format!(
                "Repeated reads differed by up to {:.0} %; something else used the drive, or its \
                 speed is not steady. Smaller differences mean nothing here.",
                noise * 100.0
            ),
        );
    }
    if settings.shortened() {
        record.find(
            Level::Info,
            "shortened",
            "The protocol was shortened; compare these figures only with runs of the same \
             parameters."
                .to_owned(),
        );
    }
}

/// The largest spread of repeated reads of one state, as a share of the best.
fn noise(steps: &[&Reads]) -> f64 {
    steps
        .iter()
        .map(|step| step.seconds.iter().copied().fold(0.0, f64::max) / step.best() - 1.0)
        .fold(0.0, f64::max)
}

fn speed(protocol: &Protocol, step: &Reads) -> f64 {
    protocol.file.bytes() as f64 / 1e6 / step.best()
}

fn verdict(protocol: &Protocol, fill: &Reads, last: &Reads, noise: f64, record: &mut Record) {
    let factor = last.best() / fill.best();
    let (before, after) = (speed(protocol, fill), speed(protocol, last));
    if factor < 1.0 + noise {
        record.find(
            Level::Info,
            "reads-steady",
            format!(
                "Sequential reads stayed as fast after {} of random writes: {before:.0} MB/s \
                 before, {after:.0} MB/s after.",
                mib_words(last.written)
            ),
        );
    } else {
        let level = match factor {
            PROBLEM.. => Level::Problem,
            WARNING.. => Level::Warning,
            _ => Level::Notice,
        };
        let pages = match (fill.pages_per_request, last.pages_per_request) {
            (Some(before), Some(after)) => format!(
                " Flash page reads per {READ_REQUEST} request rose from {before:.0} to {after:.0}."
            ),
            _ => String::new(),
        };
        record.find(
            level,
            "reads-slower",
            format!(
                "Sequential reads became {factor:.1} times slower after {} of random writes: \
                 {before:.0} MB/s before, {after:.0} MB/s after.{pages}",
                mib_words(last.written)
            ),
        );
        record.find(
            Level::Info,
            "cause",
            "The file is still in one piece for the file system; it is scattered inside the \
             flash, so one request waits for several pages of the same die. Writing the file \
             anew in one go (a copy that replaces it) puts it in order again."
                .to_owned(),
        );
    }
}

/// Where at least half of the loss had come early.
fn half_of_it(
    fill: &Reads,
    scattered: &[&Reads],
    last: &Reads,
    noise: f64,
    protocol: &Protocol,
    record: &mut Record,
) {
    let loss = last.best() - fill.best();
    if loss < 2.0 * noise * fill.best() {
        return;
    }
    let early = scattered.iter().find(|step| step.best() - fill.best() >= loss / 2.0);
    if let Some(step) = early
        && step.written < last.written
    {
        let share = moved_share(protocol, step);
        record.find(
            Level::Notice,
            "early-loss",
            format!(
                "Half of the loss was there after {}, when {:.0} % of the {WRITE_BLOCK} blocks \
                 had been overwritten.",
                mib_words(step.written),
                share * 100.0
            ),
        );
    }
}

/// The share of blocks overwritten at least once: no block twice within a step, steps
/// independent of each other.
fn moved_share(protocol: &Protocol, step: &Reads) -> f64 {
    let mut untouched = 1.0;
    let mut written = ssdlab_model::units::ByteLength::ZERO;
    for &amount in &protocol.steps {
        written += amount;
        if written > step.written {
            break;
        }
        untouched *= 1.0 - amount.bytes() as f64 / protocol.file.bytes() as f64;
    }
    1.0 - untouched
}

fn after_rest(
    protocol: &Protocol,
    steps: &[&Reads],
    last: &Reads,
    noise: f64,
    record: &mut Record,
) {
    let Some(rested) = steps.last().filter(|step| !std::ptr::eq(**step, last)) else { return };
    if protocol.long_rest == Nanoseconds::ZERO || rested.written != last.written {
        return;
    }
    let rest = rest_words(protocol.long_rest);
    let slower = last.best() / steps[0].best() - 1.0 >= noise;
    let change = rested.best() / last.best() - 1.0;
    if change < -noise {
        record.find(
            Level::Notice,
            "recovery",
            format!(
                "After {rest} of rest the read was faster again: {:.0} instead of {:.0} MB/s.",
                speed(protocol, rested),
                speed(protocol, last)
            ),
        );
    } else if slower {
        record.find(
            Level::Info,
            "no-recovery",
            format!("No recovery at rest: after {rest} the file was read no faster."),
        );
    }
}
