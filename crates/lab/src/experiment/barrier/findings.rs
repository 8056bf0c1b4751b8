//! Findings about the cost of durability, and a plausibility check of flush latencies.

use ssdlab_units::Nanoseconds;

use super::{Case, Measured, Pattern, inserts};
use crate::experiment::Record;
use crate::output::format::{significant, span};
use crate::report::Level;
use ssdlab_blockdev::place::Place;

/// Minimum time that flash on the market takes to program: SLC takes 200 to 300 us, the fastest (Z-NAND,
/// XL-FLASH) about 100 us with the transfer.
const MIN_PROGRAM_TIME: Nanoseconds = Nanoseconds::from_micros(75);

/// Slowdown from which the cost of durability is a warning.
const COSTLY_SLOWDOWN: f64 = 3.0;

/// Known behaviour of a simulated drive's flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownFlush {
    Nothing,
    /// Completed writes are durable without a flush.
    NotNeeded,
    /// The drive completes flushes without executing them.
    Ignored,
}

/// Adds the findings of a run, even if it did not complete.
pub(super) fn conclude(
    cases: &[(Case, Measured)],
    inserted: &[(inserts::Case, inserts::Measured)],
    known: KnownFlush,
    record: &mut Record,
) {
    check_plausibility(cases, known, record);
    let is_durable_without_flush = known == KnownFlush::NotNeeded;
    let is_lost =
        known == KnownFlush::Ignored || has_no_flush_arrived(cases) && !is_durable_without_flush;
    if is_lost {
        inserts_not_durable(inserted, record);
    } else {
        without_barriers(inserted, is_durable_without_flush, record);
        write_ahead_log(inserted, record);
    }
    durability_cost(cases, record);
    if !is_lost {
        group_commit(cases, record);
        fua_throughput(cases, record);
    }
}

/// Returns the case of a pattern with the smallest size.
fn smallest(cases: &[(Case, Measured)], pattern: Pattern) -> Option<&(Case, Measured)> {
    let own =
        cases.iter().filter(|(case, measured)| case.pattern == pattern && measured.writes > 0);
    own.min_by_key(|(case, _)| case.size)
}

/// Adds a finding about flushes that are too fast to be true, or that never reached the drive.
fn check_plausibility(cases: &[(Case, Measured)], known: KnownFlush, record: &mut Record) {
    let Some((case, measured)) = smallest(cases, Pattern::Flush(1)) else { return };
    let Some(mean) = measured.flushes.mean() else { return };
    let sent = measured.flushes.count();
    // The median is used: with a few slow flushes among many that take no time, the mean would look like
    // flash.
    let typical = measured.flushes.percentile(50.0).unwrap_or(mean);
    let took = if mean > typical * 2 {
        format!("{} in the median ({} on average)", span(typical.seconds()), span(mean.seconds()))
    } else {
        span(typical.seconds())
    };
    // The latency of a command by itself says nothing about the flash.
    let command = smallest(cases, Pattern::Write)
        .map_or(Nanoseconds::ZERO, |(_, plain)| plain.commits.least());
    let has_no_flush_arrived = measured.flushes_seen == Some(0);
    if known == KnownFlush::NotNeeded {
        let arrived = if has_no_flush_arrived { ", and none reached the drive" } else { "" };
        let text = format!(
            "Believable: completed writes are durable without a flush, since the write cache has \
             power-loss protection or is off. A flush after a write of {} takes {took}{arrived}.",
            case.size
        );
        record.add_finding(Level::Info, "believable", text);
    } else if has_no_flush_arrived {
        record.add_finding(
            Level::Problem,
            "not-believable",
            format!(
                "Not believable: none of {sent} flushes reached the drive; something on the way \
                 completes them ({took} each). Writes reported as durable are lost when power \
                 fails. Use another enclosure or path."
            ),
        );
    } else if known == KnownFlush::Ignored {
        let text = format!(
            "Not believable: this simulated drive completes flushes ({took} each) without \
             executing them (controller.flush). Writes reported as durable are lost when power \
             fails."
        );
        record.add_finding(Level::Problem, "not-believable", text);
    } else if typical.saturating_sub(command) < MIN_PROGRAM_TIME {
        record.add_finding(
            Level::Warning,
            "not-believable",
            format!(
                "Too fast to be true: a flush after a write of {} takes {took}, and a write alone \
                 {}. No flash is programmed in the difference. Either the write cache has \
                 power-loss protection, which the data sheet would say, or it is off, or the drive \
                 or something on the way to it completes flushes without executing them: then no \
                 write reported as durable here is durable.",
                case.size,
                span(command.seconds())
            ),
        );
    } else {
        record.add_finding(
            Level::Info,
            "believable",
            format!(
                "Believable: a flush after a write of {} takes {took}, long enough to program \
                 flash.",
                case.size
            ),
        );
    }
}

/// Returns the results of one way to insert.
fn inserts_of<'a>(
    inserted: &'a [(inserts::Case, inserts::Measured)],
    journal_mode: &str,
    synchronous: &str,
    barrier: bool,
) -> Option<&'a inserts::Measured> {
    let is_it = |case: &inserts::Case| {
        (case.journal_mode, case.synchronous, case.barrier) == (journal_mode, synchronous, barrier)
    };
    let found = inserted.iter().find(|(case, _)| is_it(case)).map(|(_, measured)| measured);
    found.filter(|measured| measured.inserts > 0)
}

/// Returns true if it is known that flushes do not reach the drive.
fn has_no_flush_arrived(cases: &[(Case, Measured)]) -> bool {
    let flushed = smallest(cases, Pattern::Flush(1));
    flushed.is_some_and(|(_, measured)| measured.flushes_seen == Some(0))
}

/// Adds a finding about SQLite on a drive that flushes do not reach.
fn inserts_not_durable(inserted: &[(inserts::Case, inserts::Measured)], record: &mut Record) {
    let Some(with) = inserts_of(inserted, "delete", "full", true) else { return };
    record.add_finding(
        Level::Problem,
        "sqlite-not-durable",
        format!(
            "SQLite with its defaults makes {} inserts a second and takes each for durable, but \
             none is: the speed is that of a mount without barriers.",
            significant(with.per_second())
        ),
    );
}

/// Adds a finding about SQLite with its defaults, with and without barriers.
fn without_barriers(
    inserted: &[(inserts::Case, inserts::Measured)],
    is_durable_without_flush: bool,
    record: &mut Record,
) {
    let with = inserts_of(inserted, "delete", "full", true);
    let Some(with) = with else { return };
    let rate = significant(with.per_second());
    let flushes = with
        .flushes_per_insert()
        .map_or(String::new(), |count| format!(", each with {} flushes", significant(count)));
    let Some(without) = inserts_of(inserted, "delete", "full", false) else {
        let text = format!(
            "SQLite with its defaults makes {rate} durable inserts a \
                            second{flushes}."
        );
        return record.add_finding(Level::Info, "sqlite", text);
    };
    let factor = without.per_second() / with.per_second();
    record.add_finding(
        if factor >= COSTLY_SLOWDOWN { Level::Warning } else { Level::Info },
        "sqlite-barriers",
        format!(
            "SQLite with its defaults makes {rate} durable inserts a second{flushes}; on a mount \
             without barriers (barrier=0) {} a second, {} times as many, {}.",
            significant(without.per_second()),
            significant(factor),
            if is_durable_without_flush {
                "durable on this drive as well"
            } else {
                "but neither they nor the database are sure to survive a power cut"
            }
        ),
    );
}

/// Adds a finding about the write-ahead log, which is faster and still durable.
fn write_ahead_log(inserted: &[(inserts::Case, inserts::Measured)], record: &mut Record) {
    let barrier = inserted.iter().any(|(case, _)| case.barrier);
    let delete = inserts_of(inserted, "delete", "full", barrier);
    let wal = inserts_of(inserted, "wal", "full", barrier);
    let (Some(delete), Some(wal)) = (delete, wal) else { return };
    let mut text = format!(
        "With a write-ahead log (journal_mode=wal), SQLite makes {} equally durable inserts a \
         second, {} times as many",
        significant(wal.per_second()),
        significant(wal.per_second() / delete.per_second())
    );
    match wal.flushes_per_insert() {
        Some(count) => {
            // The last block is written with FUA and needs no flush after it.
            let whose = if count >= 1.5 {
                "sent by the file system's commit before and after its last block"
            } else {
                "sent by the file system's commit before its last block, which is written with FUA"
            };
            text.push_str(&format!(": {} flushes for each, {whose}.", significant(count)));
        }
        None => text.push('.'),
    }
    record.add_finding(Level::Info, "sqlite-wal", text);
}

/// Adds a finding about cases that were not measured on a real mount.
pub(super) fn barriers_of_one_mount(barrier: bool, place: Option<&Place>, record: &mut Record) {
    let have = if barrier { "with" } else { "without" };
    let mut text = format!(
        "SQLite was measured {have} write barriers only: they are an option of the mount, which \
         was left as it is. Their maximum cost is the difference to synchronous=off, which never \
         flushes."
    );
    if place.and_then(Place::flushes).is_none() {
        text.push_str(" The kernel does not count the flushes of this drive.");
    }
    record.add_finding(Level::Notice, "one-mount", text);
}

/// Adds a finding if SQLite was not measured for lack of a file system.
pub(super) fn sqlite_left_out(record: &mut Record) {
    record.add_finding(
        Level::Notice,
        "no-sqlite",
        "SQLite was left out: it needs a file system. Name a directory on one that lies on the \
         drive."
            .to_owned(),
    );
}

fn durability_cost(cases: &[(Case, Measured)], record: &mut Record) {
    let both = smallest(cases, Pattern::Write).zip(smallest(cases, Pattern::Flush(1)));
    let Some(((case, without), (_, with))) = both else { return };
    let factor = without.per_second() / with.per_second();
    record.add_finding(
        if factor >= COSTLY_SLOWDOWN { Level::Warning } else { Level::Info },
        "durability-cost",
        format!(
            "Writes of {} are {} times faster without flushes: {} a second, and {} with a flush \
             after each.",
            case.size,
            significant(factor),
            significant(without.per_second()),
            significant(with.per_second())
        ),
    );
}

fn group_commit(cases: &[(Case, Measured)], record: &mut Record) {
    let (Some((case, alone)), Some((_, eight)), Some((_, many))) = (
        smallest(cases, Pattern::Flush(1)),
        smallest(cases, Pattern::Flush(8)),
        smallest(cases, Pattern::Flush(64)),
    ) else {
        return;
    };
    record.add_finding(
        Level::Info,
        "groups",
        format!(
            "With one flush for eight writes of {}, {} writes a second are durable, and {} with \
             one for sixty-four: {} and {} times as many as with a flush after each. Commit in \
             groups.",
            case.size,
            significant(eight.per_second()),
            significant(many.per_second()),
            significant(eight.per_second() / alone.per_second()),
            significant(many.per_second() / alone.per_second())
        ),
    );
}

fn fua_throughput(cases: &[(Case, Measured)], record: &mut Record) {
    if cases.iter().any(|(_, measured)| measured.unsupported) {
        record.add_finding(
            Level::Info,
            "no-fua",
            "FUA writes were left out: the path to the drive does not support them.".to_owned(),
        );
    }
    let both = smallest(cases, Pattern::Fua).zip(smallest(cases, Pattern::Flush(1)));
    let Some(((case, fua), (_, flush))) = both else { return };
    record.add_finding(
        Level::Info,
        "fua",
        format!(
            "With FUA, {} writes of {} a second are durable, {} as with a flush after each.",
            significant(fua.per_second()),
            case.size,
            ratio_text(fua.per_second() / flush.per_second())
        ),
    );
}

/// Returns a ratio in words.
fn ratio_text(ratio: f64) -> String {
    match significant(ratio) {
        same if same == "1.00" => "as many".to_owned(),
        times => format!("{times} times as many"),
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_units::ByteLength;

    use super::*;

    /// Returns the findings about writes and flushes that take these microseconds each.
    fn found(write: u64, flush: u64, known: KnownFlush) -> (String, String) {
        found_of(write, &[flush; 100], known)
    }

    fn found_of(write: u64, flushes: &[u64], known: KnownFlush) -> (String, String) {
        let case = |pattern| Case { pattern, size: ByteLength::new(4096), seed: 1 };
        let measured = |is_flushed: bool| {
            let mut measured = Measured { writes: 100, ..Measured::default() };
            for &flush in flushes {
                let commit = if is_flushed { write + flush } else { write };
                measured.commits.record(Nanoseconds::from_micros(commit));
                if is_flushed {
                    measured.flushes.record(Nanoseconds::from_micros(flush));
                }
            }
            measured
        };
        let cases =
            [(case(Pattern::Write), measured(false)), (case(Pattern::Flush(1)), measured(true))];
        let mut record = Record::default();
        check_plausibility(&cases, known, &mut record);
        let first = record.findings.remove(0);
        (first.code, first.text)
    }

    #[test]
    fn a_flush_is_believed_for_what_it_takes_beyond_a_command() {
        assert_eq!(found(30, 300, KnownFlush::Nothing).0, "believable");
        assert_eq!(found(30, 60, KnownFlush::Nothing).0, "not-believable");
        // A drive that is slow with every command has programmed nothing either.
        let (code, text) = found(170, 200, KnownFlush::Nothing);
        assert_eq!(code, "not-believable", "{text}");
        assert!(text.contains("takes 200 us, and a write alone 170 us"), "{text}");
    }

    #[test]
    fn a_few_slow_flushes_do_not_make_the_others_believable() {
        let mut flushes = [31; 100];
        flushes[..15].fill(4_000);
        let (code, text) = found_of(40, &flushes, KnownFlush::Nothing);
        assert_eq!(code, "not-believable", "{text}");
        assert!(text.contains("31.0 us in the median (626 us on average)"), "{text}");
    }

    #[test]
    fn a_drive_that_needs_no_flush_is_believed_whatever_one_takes() {
        let (code, text) = found(60, 61, KnownFlush::NotNeeded);
        assert_eq!(code, "believable");
        assert!(text.contains("durable without a flush"), "{text}");
        assert_eq!(found(30, 300, KnownFlush::NotNeeded).1, text.replace("61.0 us", "300 us"));
    }

    #[test]
    fn a_simulated_drive_that_ignores_flushes_is_not_believed_however_long_one_takes() {
        let (code, text) = found(30, 300, KnownFlush::Ignored);
        assert_eq!(code, "not-believable");
        assert!(text.contains("300 us each") && text.contains("controller.flush"), "{text}");
    }
}
