//! What the cost of durability allows to say, and whether it can be true.

use ssdlab_model::units::Nanoseconds;

use super::{Case, Measured, Pattern};
use crate::experiment::Record;
use crate::output::format::{significant, span};
use crate::report::Level;

/// No flash that is sold programs faster than in about this time: SLC takes 200 to 300 us, the
/// fastest (Z-NAND, XL-FLASH) about 100 us with the transfer.
const PROGRAM_LEAST: Nanoseconds = Nanoseconds::from_micros(75);

/// From this factor on, what durability costs is a warning.
const COSTLY: f64 = 3.0;

/// Adds the findings of a run, also of one that did not come to its end.
pub(super) fn conclude(cases: &[(Case, Measured)], record: &mut Record) {
    believable(cases, record);
    cost(cases, record);
    groups(cases, record);
    through(cases, record);
}

/// The case of a pattern with the smallest size.
fn smallest(cases: &[(Case, Measured)], pattern: Pattern) -> Option<&(Case, Measured)> {
    let own =
        cases.iter().filter(|(case, measured)| case.pattern == pattern && measured.writes > 0);
    own.min_by_key(|(case, _)| case.size)
}

/// A flush that is too cheap to be true, or that never arrived.
fn believable(cases: &[(Case, Measured)], record: &mut Record) {
    let Some((case, measured)) = smallest(cases, Pattern::Flush(1)) else { return };
    let Some(mean) = measured.flushes.mean() else { return };
    let sent = measured.flushes.count();
    let took = span(mean.seconds());
    if measured.flushes_seen == Some(0) {
        record.find(
            Level::Problem,
            "not-believable",
            format!(
                "Not believable: of {sent} flushes none reached the drive; something on the way \
                 answers them ({took} each). What it calls durable is lost when power fails. Use \
                 another enclosure, or a path without it."
            ),
        );
    } else if mean < PROGRAM_LEAST {
        record.find(
            Level::Warning,
            "not-believable",
            format!(
                "Too cheap to be true: a flush after a write of {} takes {took}, less than any \
                 flash takes to be programmed. Either capacitors protect the write cache, which \
                 the data sheet would say (power-loss protection), or the drive, or something on \
                 the way to it, answers flushes without doing them.",
                case.size
            ),
        );
    } else {
        record.find(
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

fn cost(cases: &[(Case, Measured)], record: &mut Record) {
    let both = smallest(cases, Pattern::Write).zip(smallest(cases, Pattern::Flush(1)));
    let Some(((case, without), (_, with))) = both else { return };
    let factor = without.per_second() / with.per_second();
    record.find(
        if factor >= COSTLY { Level::Warning } else { Level::Info },
        "durability-cost",
        format!(
            "Writes of {} are {} times faster when nobody asks for durability: {} a second, and {} \
             with a flush after each.",
            case.size,
            significant(factor),
            significant(without.per_second()),
            significant(with.per_second())
        ),
    );
}

fn groups(cases: &[(Case, Measured)], record: &mut Record) {
    let (Some((case, alone)), Some((_, eight)), Some((_, many))) = (
        smallest(cases, Pattern::Flush(1)),
        smallest(cases, Pattern::Flush(8)),
        smallest(cases, Pattern::Flush(64)),
    ) else {
        return;
    };
    record.find(
        Level::Info,
        "groups",
        format!(
            "One flush for eight writes of {} makes {} durable a second, one for sixty-four {}: {} \
             and {} times as many as with a flush after each. Committing in groups is what helps.",
            case.size,
            significant(eight.per_second()),
            significant(many.per_second()),
            significant(eight.per_second() / alone.per_second()),
            significant(many.per_second() / alone.per_second())
        ),
    );
}

fn through(cases: &[(Case, Measured)], record: &mut Record) {
    if cases.iter().any(|(_, measured)| measured.unsupported) {
        record.find(
            Level::Info,
            "no-fua",
            "Writes with force unit access were left out: the drive is not reached in a way that \
             has them."
                .to_owned(),
        );
    }
    let both = smallest(cases, Pattern::Through).zip(smallest(cases, Pattern::Flush(1)));
    let Some(((case, through), (_, flush))) = both else { return };
    record.find(
        Level::Info,
        "fua",
        format!(
            "With force unit access {} writes of {} a second are durable, {} times as many as with \
             a flush after each.",
            significant(through.per_second()),
            case.size,
            significant(through.per_second() / flush.per_second())
        ),
    );
}
