//! Findings about the slowdown of sequential reads, and its cause.

use super::{Protocol, READ_REQUEST, Reads, WRITE_BLOCK};
use crate::experiment::text_format::{duration as rest_words, mib as mib_words};
use crate::experiment::{Record, Settings};
use crate::report::Level;
use ssdlab_units::Nanoseconds;

/// Relative difference below which reads always count as equal: the published times have a resolution of a
/// tenth of a second, for 2 to 11 seconds.
const MIN_DIFFERENCE: f64 = 0.03;

/// Assumed uncertainty of a single read, since there is no other one to compare it with.
const SINGLE_READ_DIFFERENCE: f64 = 0.2;

/// Slowdowns from which a finding is a problem, and a warning.
const PROBLEM: f64 = 2.0;
const WARNING: f64 = 1.2;

/// Certainty that the inside of the drive's flash was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlashVisibility {
    /// The inside is visible, because the drive is simulated.
    Visible,
    /// The inside is not visible, but no other influence is known.
    Presumed,
    /// Something else is measured: memory, a host, a file system that fragments by itself.
    Elsewhere,
}

/// Adds the findings of a run, even if it did not complete.
pub(super) fn conclude(
    protocol: &Protocol,
    reads: &[Reads],
    settings: &Settings,
    inside: FlashVisibility,
    record: &mut Record,
) {
    let steps: Vec<&Reads> = reads.iter().filter(|step| !step.seconds.is_empty()).collect();
    let Some((fill, later)) = steps.split_first() else { return };
    let is_complete = |step: &&Reads| step.seconds.len() as u32 == protocol.reads;
    let mut scattered: Vec<&Reads> = later.iter().copied().filter(|step| !step.is_rested).collect();
    if scattered.iter().any(is_complete) {
        scattered.retain(is_complete);
    }
    let worst = scattered.iter().copied().max_by(|a, b| a.best().total_cmp(&b.best()));
    if let (Some(worst), Some(last)) = (worst, scattered.last()) {
        let comparison = Comparison::of(fill, worst, last);
        slowdown_finding(protocol, &comparison, inside, record);
        if comparison.slowdown() == Slowdown::Slower {
            cause_finding(&comparison, inside, record);
            early_half_finding(protocol, &comparison, &scattered, record);
        }
        if let Some(rested) = later.iter().find(|step| step.is_rested) {
            recovery_finding(protocol, fill, last, rested, record);
        }
    }
    if protocol.reads == 1 {
        record.add_finding(
            Level::Notice,
            "no-repeats",
            format!(
                "Each state was read once, so the variation between reads is unknown: differences \
                 below {:.0} % are ignored.",
                SINGLE_READ_DIFFERENCE * 100.0
            ),
        );
    }
    let spread = worst_spread(&steps);
    if spread > 0.1 {
        record.add_finding(
            Level::Notice,
            "noisy",
            format!(
                "Repeated reads of one state differed by up to {:.0} %; {}",
                spread * 100.0,
                match inside {
                    FlashVisibility::Visible => "the drive was still busy with earlier work.",
                    _ => "something else used the drive, or its speed is not steady.",
                }
            ),
        );
    }
    record.add_shortened_finding(settings);
}

/// Returns the largest spread of repeated reads of one state, as a share of the best.
fn worst_spread(steps: &[&Reads]) -> f64 {
    steps
        .iter()
        .map(|step| step.seconds.iter().copied().fold(0.0, f64::max) / step.best() - 1.0)
        .fold(0.0, f64::max)
}

/// Returns the uncertainty of the best read of a state: the relative difference of the second best read.
/// Later ones do not matter.
fn read_uncertainty(step: &Reads) -> f64 {
    let mut seconds = step.seconds.clone();
    seconds.sort_by(f64::total_cmp);
    match seconds[..] {
        [best, second, ..] => second / best - 1.0,
        // There is only one read after the long rest; the reads before show how well it repeats.
        _ if step.is_rested => 0.0,
        _ => SINGLE_READ_DIFFERENCE,
    }
}

/// Returns the relative difference that two states may have by chance.
fn chance_difference(a: &Reads, b: &Reads) -> f64 {
    read_uncertainty(a).max(read_uncertainty(b)).max(MIN_DIFFERENCE)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slowdown {
    Slower,
    AsFast,
    CannotTell,
}

/// The file as filled, its slowest state, and its state after all writes.
struct Comparison<'a> {
    fill: &'a Reads,
    worst: &'a Reads,
    last: &'a Reads,
    factor: f64,
    chance_difference: f64,
}

impl<'a> Comparison<'a> {
    fn of(fill: &'a Reads, worst: &'a Reads, last: &'a Reads) -> Self {
        let factor = worst.best() / fill.best();
        Comparison { fill, worst, last, factor, chance_difference: chance_difference(fill, worst) }
    }

    /// Returns the slowdown that remains after all writes, as a share of the time when new.
    fn remaining_slowdown(&self) -> f64 {
        self.last.best() / self.fill.best() - 1.0
    }

    /// Returns true if most of the slowdown disappeared after further writes. They scatter the file further,
    /// so something else must have been measured.
    fn has_recovered(&self) -> bool {
        self.remaining_slowdown() < (self.factor - 1.0) / 2.0
    }

    fn slowdown(&self) -> Slowdown {
        let slowdown = self.factor - 1.0;
        if slowdown >= self.chance_difference && !self.has_recovered() {
            Slowdown::Slower
        } else if slowdown <= MIN_DIFFERENCE {
            Slowdown::AsFast
        } else {
            Slowdown::CannotTell
        }
    }

    /// Returns the flash pages read per request before and after, if they are known and increased.
    fn page_reads(&self) -> Option<(f64, f64)> {
        let pages = self.fill.pages_per_request.zip(self.worst.pages_per_request);
        pages.filter(|(before, after)| *after > before * (1.0 + MIN_DIFFERENCE))
    }
}

fn speed(protocol: &Protocol, step: &Reads) -> f64 {
    protocol.file.bytes() as f64 / 1e6 / step.best()
}

fn slowdown_finding(
    protocol: &Protocol,
    comparison: &Comparison,
    inside: FlashVisibility,
    record: &mut Record,
) {
    // No other process uses a simulated drive.
    let repeat = match inside {
        FlashVisibility::Visible => "Repeat the run with longer rests: --set rest=1m",
        _ => "Repeat the run while nothing else uses the drive",
    };
    let &Comparison { fill, worst, factor, chance_difference, .. } = comparison;
    let (before, after) = (speed(protocol, fill), speed(protocol, worst));
    let amount = mib_words(worst.written);
    match comparison.slowdown() {
        Slowdown::AsFast => record.add_finding(
            Level::Info,
            "reads-steady",
            format!(
                "Sequential reads stayed as fast: {before:.0} MB/s before any random writes, \
                 {after:.0} MB/s in the slowest state, after {amount} of them."
            ),
        ),
        Slowdown::CannotTell if comparison.has_recovered() => record.add_finding(
            Level::Notice,
            "cannot-tell",
            format!(
                "Whether sequential reads became slower cannot be told: after {amount} of random \
                 writes they took {:.0} % longer ({before:.0} MB/s before, {after:.0} MB/s after), \
                 but only {:.0} % after {}, and more writes do not undo fragmentation. {repeat}.",
                (factor - 1.0) * 100.0,
                comparison.remaining_slowdown().max(0.0) * 100.0,
                mib_words(comparison.last.written)
            ),
        ),
        Slowdown::CannotTell => record.add_finding(
            Level::Notice,
            "cannot-tell",
            format!(
                "Whether sequential reads became slower cannot be told: after {amount} of random \
                 writes they took {:.0} % longer ({before:.0} MB/s before, {after:.0} MB/s after), \
                 and reads of one state may differ by that much ({:.0} %). {repeat}, with more \
                 reads per state: --set reads={}.",
                (factor - 1.0) * 100.0,
                chance_difference * 100.0,
                protocol.reads.saturating_mul(3)
            ),
        ),
        Slowdown::Slower => {
            let level = match factor {
                PROBLEM.. => Level::Problem,
                WARNING.. => Level::Warning,
                _ => Level::Notice,
            };
            let pages = comparison.page_reads().map_or(String::new(), |(before, after)| {
                format!(
                    " Flash page reads per {READ_REQUEST} request rose from {before:.0} to \
                     {after:.0}."
                )
            });
            // With one digit, a slowdown of 4 % would read "1.0 times".
            let slower = match factor {
                WARNING.. => format!("{factor:.1} times"),
                _ => format!("{:.0} %", (factor - 1.0) * 100.0),
            };
            record.add_finding(
                level,
                "reads-slower",
                format!(
                    "Sequential reads became {slower} slower after {amount} of random writes: \
                     {before:.0} MB/s before, {after:.0} MB/s after.{pages}"
                ),
            );
        }
    }
}

/// Adds a finding about the cause of slower reads: as a fact if the inside shows it, as a guess if only the
/// drive can be the reason and the slowdown is beyond doubt; otherwise adds nothing.
fn cause_finding(comparison: &Comparison, inside: FlashVisibility, record: &mut Record) {
    let beyond_doubt = comparison.factor >= WARNING
        && comparison.factor - 1.0 >= 2.0 * comparison.chance_difference;
    let text = match inside {
        FlashVisibility::Visible if comparison.page_reads().is_some() => {
            "The file is still in one piece for the file system; it is scattered inside the \
             flash, so one request waits for several pages of the same die. Writing the file \
             anew in one go (a copy that replaces it) puts it in order again."
        }
        FlashVisibility::Presumed if beyond_doubt => {
            "Likely cause: the file is still in one piece for the file system, but scattered \
             inside the flash, so that one request waits for several pages of the same die. If \
             so, writing the file anew in one go (a copy that replaces it) puts it in order \
             again."
        }
        _ => return,
    };
    record.add_finding(Level::Info, "cause", text.to_owned());
}

/// Adds a finding if at least half of the loss occurred at an early step.
fn early_half_finding(
    protocol: &Protocol,
    comparison: &Comparison,
    scattered: &[&Reads],
    record: &mut Record,
) {
    let &Comparison { fill, worst, chance_difference, .. } = comparison;
    let loss = worst.best() - fill.best();
    if loss < 2.0 * chance_difference * fill.best() {
        return;
    }
    let early = scattered.iter().find(|step| step.best() - fill.best() >= loss / 2.0);
    if let Some(step) = early
        && step.written < worst.written
    {
        let share = overwritten_share(protocol, step);
        record.add_finding(
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

/// Returns the share of blocks overwritten at least once. A step writes no block twice, and steps are
/// independent of each other.
fn overwritten_share(protocol: &Protocol, step: &Reads) -> f64 {
    let mut untouched = 1.0;
    let mut written = ssdlab_units::ByteLength::ZERO;
    for &amount in &protocol.steps {
        written += amount;
        if written > step.written {
            break;
        }
        untouched *= 1.0 - amount.bytes() as f64 / protocol.file.bytes() as f64;
    }
    1.0 - untouched
}

fn recovery_finding(
    protocol: &Protocol,
    fill: &Reads,
    last: &Reads,
    rested: &Reads,
    record: &mut Record,
) {
    if protocol.long_rest == Nanoseconds::ZERO || rested.written != last.written {
        return;
    }
    let rest = rest_words(protocol.long_rest);
    let may_differ = chance_difference(last, rested);
    let was_slower = Comparison::of(fill, last, last).slowdown() == Slowdown::Slower;
    let change = rested.best() / last.best() - 1.0;
    let (before, after) = (speed(protocol, last), speed(protocol, rested));
    if change < -may_differ {
        record.add_finding(
            Level::Notice,
            "recovery",
            format!(
                "After {rest} of rest the read was faster again: {after:.0} instead of \
                 {before:.0} MB/s."
            ),
        );
    } else if was_slower && change >= -MIN_DIFFERENCE {
        record.add_finding(
            Level::Info,
            "no-recovery",
            format!("No recovery at rest: after {rest} the file was read no faster."),
        );
    } else if was_slower {
        record.add_finding(
            Level::Notice,
            "recovery-unclear",
            format!(
                "Whether {rest} of rest helped cannot be told: {after:.0} instead of {before:.0} \
                 MB/s, where reads of one and the same state may differ by {:.0} %.",
                may_differ * 100.0
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::fragmentation::Fragmentation;
    use ssdlab_drive::Latencies;
    use ssdlab_units::{ByteLength, MIB};

    fn step(mib: u64, seconds: &[f64]) -> Reads {
        Reads {
            name: format!("after {mib} MiB"),
            written: MIB * mib,
            is_rested: false,
            seconds: seconds.to_vec(),
            pages_per_request: None,
            pages_by_die: None,
            latencies: Latencies::default(),
            curve: Vec::new(),
        }
    }

    fn rested(mib: u64, seconds: f64) -> Reads {
        Reads { is_rested: true, ..step(mib, &[seconds]) }
    }

    fn with_pages(pages: f64, reads: Reads) -> Reads {
        Reads { pages_per_request: Some(pages), ..reads }
    }

    /// Returns the codes and texts of the findings.
    fn found(reads: &[Reads], inside: FlashVisibility) -> Vec<(String, String)> {
        let count = reads[0].seconds.len().to_string();
        let set = [("reads".to_owned(), count)];
        let settings = Settings::new(&Fragmentation, false, &set).unwrap();
        let protocol = Protocol::new(&settings);
        let mut record = Record::default();
        conclude(&protocol, reads, &settings, inside, &mut record);
        let findings = record.findings.into_iter();
        let findings = findings.filter(|finding| finding.code != "shortened");
        findings.map(|finding| (finding.code, finding.text)).collect()
    }

    fn codes(reads: &[Reads], inside: FlashVisibility) -> Vec<String> {
        found(reads, inside).into_iter().map(|(code, _)| code).collect()
    }

    const STEADY: [f64; 3] = [2.0, 2.0, 2.01];

    #[test]
    fn the_cause_is_a_fact_only_where_it_is_seen() {
        let slow = [4.0, 4.0, 4.01];
        let seen = |pages| [with_pages(64.0, step(0, &STEADY)), with_pages(pages, step(50, &slow))];
        let cause_text = |reads: &[Reads], inside| {
            let found = found(reads, inside);
            found.into_iter().find(|(code, _)| code == "cause").map(|(_, text)| text)
        };
        assert!(
            cause_text(&seen(256.0), FlashVisibility::Visible)
                .unwrap()
                .starts_with("The file is still")
        );
        assert_eq!(cause_text(&seen(64.0), FlashVisibility::Visible), None);
        let unseen = [step(0, &STEADY), step(50, &slow)];
        assert!(
            cause_text(&unseen, FlashVisibility::Presumed).unwrap().starts_with("Likely cause: ")
        );
        assert_eq!(cause_text(&unseen, FlashVisibility::Elsewhere), None);
        let hardly = [step(0, &STEADY), step(50, &[2.2, 2.21, 2.22])];
        assert_eq!(codes(&hardly, FlashVisibility::Presumed), ["reads-slower"]);
        let doubtful = [step(0, &STEADY), step(50, &[2.6, 3.3, 3.4])];
        assert_eq!(codes(&doubtful, FlashVisibility::Presumed), ["reads-slower", "noisy"]);
    }

    #[test]
    fn one_bad_read_elsewhere_hides_no_slowdown() {
        let reads = [step(0, &[2.0, 2.0, 2.9]), step(50, &STEADY), step(250, &[2.3, 2.31, 2.32])];
        assert_eq!(codes(&reads, FlashVisibility::Elsewhere), ["reads-slower", "noisy"]);
        assert!(found(&reads, FlashVisibility::Elsewhere)[0].1.contains("became 15 % slower"));
    }

    #[test]
    fn a_slowdown_within_the_noise_is_neither_there_nor_absent() {
        let reads = [step(0, &[2.0, 2.3, 2.4]), step(50, &[2.2, 2.3, 2.3])];
        let found = found(&reads, FlashVisibility::Presumed);
        assert_eq!(found[0].0, "cannot-tell");
        assert!(found[0].1.contains("10 % longer") && found[0].1.contains("--set reads=9"));
        // A slowdown above 3 % is never "as fast"; one of up to 3 % always is.
        let quiet = |seconds: f64| {
            let reads = [step(0, &[2.0, 2.3, 2.3]), step(50, &[seconds; 3])];
            codes(&reads, FlashVisibility::Presumed)[0].clone()
        };
        assert_eq!(quiet(2.05), "reads-steady");
        assert_eq!(quiet(2.07), "cannot-tell");
        assert_eq!(quiet(2.4), "reads-slower");
    }

    #[test]
    fn single_reads_say_little_and_that_they_do() {
        let reads = [step(0, &[2.0]), step(50, &[2.3]), rested(50, 2.3)];
        assert_eq!(codes(&reads, FlashVisibility::Presumed), ["cannot-tell", "no-repeats"]);
        let reads = [step(0, &[2.0]), step(50, &[4.0]), rested(50, 4.0)];
        let expected = ["reads-slower", "cause", "no-recovery", "no-repeats"];
        assert_eq!(codes(&reads, FlashVisibility::Presumed), expected);
        let reads = [step(0, &[2.0]), step(50, &[4.0]), rested(50, 2.0)];
        let expected = ["reads-slower", "cause", "recovery", "no-repeats"];
        assert_eq!(codes(&reads, FlashVisibility::Presumed), expected);
        let reads = [step(0, &[2.0]), step(50, &[4.0]), rested(50, 3.6)];
        assert!(codes(&reads, FlashVisibility::Presumed).contains(&"recovery-unclear".to_owned()));
    }

    #[test]
    fn the_worst_state_is_named_and_half_of_it_only_of_a_loss() {
        let reads = [
            step(0, &STEADY),
            step(50, &[3.2, 3.2, 3.2]),
            step(250, &[4.0, 4.0, 4.0]),
            step(1050, &[3.0, 3.0, 3.0]),
        ];
        let found = found(&reads, FlashVisibility::Elsewhere);
        assert!(found[0].1.contains("2.0 times slower after 250 MiB"), "{found:?}");
        assert_eq!(found[1].0, "early-loss");
        assert!(found[1].1.contains("after 50 MiB"));

        let steady = [step(0, &STEADY), step(50, &[2.04; 3]), step(250, &[2.05; 3])];
        assert_eq!(codes(&steady, FlashVisibility::Visible), ["reads-steady"]);
        let unclear = [step(0, &[2.0, 2.5, 2.5]), step(50, &[2.3; 3]), step(250, &[2.4; 3])];
        assert_eq!(codes(&unclear, FlashVisibility::Visible), ["cannot-tell", "noisy"]);
    }

    #[test]
    fn a_slowdown_that_goes_back_with_further_writes_is_not_taken_for_one() {
        let went = |last: f64| {
            let reads = [step(0, &STEADY), step(250, &[2.64, 2.7, 2.7]), step(1050, &[last; 3])];
            found(&reads, FlashVisibility::Elsewhere).remove(0)
        };
        let (code, text) = went(2.09);
        assert_eq!(code, "cannot-tell");
        assert!(text.contains("took 32 % longer") && text.contains("only 4 % after"), "{text}");
        assert_eq!(went(1.9).0, "cannot-tell");
        assert_eq!(went(2.4).0, "reads-slower");
    }

    #[test]
    fn an_unfinished_state_counts_only_where_there_is_no_other() {
        let reads = [step(0, &STEADY), step(50, &[4.0])];
        assert_eq!(codes(&reads, FlashVisibility::Elsewhere), ["reads-slower"]);
        let reads = [step(0, &STEADY), step(50, &STEADY), step(250, &[9.0])];
        assert_eq!(codes(&reads, FlashVisibility::Elsewhere), ["reads-steady"]);
        assert_eq!(reads[2].written, ByteLength::new(250 << 20));
    }
}
