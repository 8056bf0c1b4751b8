//! Comparison of the measured write amplification with theory.
//!
//! A closed form covers one workload: single units written uniformly at random all over a full drive, until
//! steady state. Other phases are ignored. For such a phase the report compares the two figures, and names
//! the likely reason if they differ.

use ssdlab_drive::{Inside, Pattern, Phase};
use ssdlab_model::counters::Counters;
use ssdlab_units::ByteLength;

use super::Record;
use crate::report::Level;

/// Capacities of random writes after which a full drive is in steady state.
const STEADY_AFTER: f64 = 2.0;

/// Capacities of random writes after which a drive that was not full is in steady state: all but `e^-6` of it
/// is written then.
const STEADY_AFTER_FILLING: f64 = 6.0;

/// Maximum relative difference at which the figures count as equal.
const CLOSE: f64 = 0.02;

/// Maximum share of the capacity that an area may leave out and still count as the whole drive: areas are
/// whole MiB. On a drive with 7 % over-provisioning that changes write amplification by 0.7 %.
const LEFT_OUT: f64 = 1.0 / 2000.0;

/// History of a drive, as far as theory depends on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    /// Units written randomly since the last other write or trim.
    at_random: u64,
    /// True if the whole drive was written before that.
    is_full: bool,
    /// Counters since steady state was reached.
    steady: Counters,
}

/// The experiment's own verdict on a workload that it measures until steady state. It overrides the number of
/// capacities written: figures and findings of theory follow it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Steady, with the programs during steady state; `None` if nothing was written.
    Steady(Option<Programs>),
    /// Not steady.
    Moving,
}

/// Programs per host write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Programs {
    /// Data programs per host write.
    amplification: f64,
    /// Share of padding in the data programs.
    padding: f64,
}

impl Programs {
    /// Returns the ratios of these counters; `None` before the first host write.
    pub(crate) fn of(counted: &Counters) -> Option<Programs> {
        let padding = counted.program_units_padding as f64 / counted.data_write_units() as f64;
        Some(Programs { amplification: counted.data_write_amplification()?, padding })
    }
}

/// Comparison of a drive's write amplification with theory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judgement {
    /// True if it replaces the last comparison of the same drive.
    pub(super) continues: bool,
    measured: Programs,
    expected: f64,
    /// Capacities of random writes so far; `needed` is the number for steady state.
    written: f64,
    needed: f64,
    /// The experiment's own verdict, if it has one.
    verdict: Option<Verdict>,
}

impl Oracle {
    /// Adds a phase to the history. Returns the comparison with theory if theory covers the phase and GC ran
    /// in it.
    pub(super) fn note(
        &mut self,
        phase: &Phase,
        before: &Inside,
        after: &Inside,
    ) -> Option<Judgement> {
        let counted = after.counters.since(&before.counters);
        let expectation = before.expectation?;
        let least = (expectation.capacity.bytes() as f64 * (1.0 - LEFT_OUT)) as u64;
        let is_whole =
            phase.region.offset == ByteLength::ZERO && phase.region.length.bytes() >= least;
        let units = expectation.capacity.whole(expectation.unit);
        if phase.pattern != Pattern::Random || phase.block_size != expectation.unit || !is_whole {
            if counted.host_write_units > 0 || counted.host_trim_units > 0 {
                let all = phase.blocks() * phase.block_size.whole(expectation.unit);
                let writes_every_block =
                    phase.pattern.is_sequential() || phase.pattern == Pattern::RandomOnce;
                let is_filled = is_whole && writes_every_block;
                let is_full = self.is_full && counted.host_trim_units == 0
                    || is_filled && counted.host_write_units >= all;
                *self = Oracle { is_full, ..Oracle::default() };
            }
            return None;
        }
        let continues = self.at_random > 0;
        let needed = if self.is_full { STEADY_AFTER } else { STEADY_AFTER_FILLING };
        let written = self.at_random as f64 / units as f64;
        self.at_random += counted.host_write_units;
        if written >= needed {
            self.steady = self.steady.plus(&counted);
        }
        let judged = if written >= needed { &self.steady } else { &counted };
        if judged.program_units_collection == 0 {
            return None;
        }
        let expected = expectation.write_amplification;
        let (measured, verdict) = (Programs::of(judged)?, None);
        Some(Judgement { continues, measured, expected, written, needed, verdict })
    }
}

impl Judgement {
    fn deviation(&self) -> f64 {
        self.measured.amplification / self.expected - 1.0
    }

    /// Adopts the experiment's verdict, and its programs if it found steady state.
    pub(crate) fn decide(&mut self, verdict: Verdict) {
        if let Verdict::Steady(Some(measured)) = verdict {
            self.measured = measured;
        }
        self.verdict = Some(verdict);
    }

    fn is_steady(&self) -> bool {
        match self.verdict {
            Some(verdict) => matches!(verdict, Verdict::Steady(_)),
            None => self.written >= self.needed,
        }
    }

    fn tell(&self, record: &mut Record) {
        let Judgement { expected, written, needed, .. } = self;
        let Programs { amplification: measured, padding } = self.measured;
        let figures = format!("Write amplification was {measured:.2}");
        if self.verdict == Some(Verdict::Moving) {
            let text = format!(
                "{figures} in the latest round; theory expects {expected:.2} of this drive once it is \
                 full and steady."
            );
            return record.find(Level::Info, "theory-not-steady", text);
        }
        if !self.is_steady() {
            let text = format!(
                "{figures}, and theory expects {expected:.2} of this drive when it is full and \
                 steady. It is not yet known to be: {written:.1} capacities had been written at \
                 random before, and it takes {needed}."
            );
            return record.find(Level::Info, "theory-not-steady", text);
        }
        if self.deviation().abs() <= CLOSE {
            let text = format!(
                "{figures} in steady state; theory expects {expected:.2} of this drive's \
                 collection and over-provisioning."
            );
            return record.find(Level::Info, "theory-agrees", text);
        }
        let cause = if padding > CLOSE {
            format!(
                "program units that were completed with padding, {:.1} % of what was programmed",
                padding * 100.0
            )
        } else if measured < *expected {
            "less data on the drive than it can hold, or less of it kept free than is taken for \
             reserve"
                .to_owned()
        } else {
            "more of the flash kept free or open than is taken for reserve".to_owned()
        };
        let text = format!(
            "{figures} in steady state where theory expects {expected:.2} ({:+.1} %). Likely \
             cause: {cause}.",
            self.deviation() * 100.0
        );
        record.find(Level::Notice, "theory-differs", text);
    }
}

/// Adds a finding about the drive in steady state with the largest deviation from theory, or else about the
/// one with the most random writes.
pub(crate) fn conclude(judged: &[Judgement], record: &mut Record) {
    let steady = judged.iter().filter(|it| it.is_steady());
    let furthest = steady.max_by(|a, b| a.deviation().abs().total_cmp(&b.deviation().abs()));
    let longest = judged.iter().max_by(|a, b| a.written.total_cmp(&b.written));
    if let Some(judgement) = furthest.or(longest) {
        judgement.tell(record);
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::simulated::SimulatedDrive;
    use ssdlab_drive::{Amount, Drive, Mix, Region, Unobserved};
    use ssdlab_model::profile::{DEFAULT, Profile};
    use ssdlab_units::{MIB, Nanoseconds};

    use super::*;

    /// Returns a drive with many small blocks.
    fn drive() -> SimulatedDrive {
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        for (key, value) in [
            ("capacity.physical", "1G"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.pages_per_block", "24"),
            ("collection.metadata_units", "2"),
            ("spare", "15%"),
        ] {
            profile.set(key, value).expect("a sound value");
        }
        SimulatedDrive::new("small", profile.configuration().expect("sound")).expect("sound")
    }

    fn phase(drive: &SimulatedDrive, pattern: Pattern, capacities: u64) -> Phase {
        let inside = drive.inside().and_then(|it| it.expectation).expect("a closed form");
        let block_size = match pattern {
            Pattern::Random => inside.unit,
            _ => MIB,
        };
        // Areas of experiments are whole MiB, which is less than this drive.
        let whole = MIB * inside.capacity.whole(MIB);
        assert!(whole < inside.capacity);
        Phase {
            name: "a phase".to_owned(),
            pattern,
            block_size,
            depth: 8,
            mix: Mix::WRITE,
            region: Region::first(whole),
            amount: Amount::Bytes(whole * capacities),
            rate: None,
            seed: 1 + capacities,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    /// Returns the codes of the findings after a fill, if any, and two phases of random writes with these
    /// numbers of capacities.
    fn codes(fill: bool, first: u64, second: u64) -> Vec<String> {
        let (mut drive, mut oracle, mut record) = (drive(), Oracle::default(), Record::default());
        let mut judged = None;
        let patterns = [(Pattern::Sequential, u64::from(fill)), (Pattern::Random, first)];
        for (pattern, capacities) in patterns.into_iter().chain([(Pattern::Random, second)]) {
            if capacities == 0 {
                continue;
            }
            let phase = phase(&drive, pattern, capacities);
            let before = drive.inside().expect("a simulated drive");
            drive.run_phase(&phase, &mut Unobserved).expect("it runs");
            let after = drive.inside().expect("a simulated drive");
            judged = oracle.note(&phase, &before, &after).or(judged);
        }
        conclude(judged.as_slice(), &mut record);
        for finding in &record.findings {
            println!("{}", finding.text);
        }
        record.findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_steady_drive_agrees_with_theory_and_one_that_is_not_is_said_to_be_so() {
        assert_eq!(codes(true, 3, 1), ["theory-agrees"]);
        assert_eq!(codes(true, 1, 0), ["theory-not-steady"]);
        assert_eq!(codes(false, 2, 1), ["theory-not-steady"]);
        assert!(codes(true, 0, 0).is_empty(), "theory is about writes at random");
    }

    #[test]
    fn figures_that_part_are_given_with_a_likely_cause() {
        let mut record = Record::default();
        let judgement = Judgement {
            continues: false,
            measured: Programs { amplification: 4.0, padding: 0.1 },
            expected: 3.0,
            written: 3.0,
            needed: 2.0,
            verdict: None,
        };
        conclude(&[judgement], &mut record);
        assert_eq!(record.findings[0].code, "theory-differs");
        assert!(record.findings[0].text.contains("4.00 in steady state where theory expects 3.00"));
        assert!(record.findings[0].text.contains("padding, 10.0 %"));
    }

    #[test]
    fn the_verdict_of_the_experiment_goes_before_the_rule_of_thumb() {
        let judgement = |written| Judgement {
            continues: false,
            measured: Programs { amplification: 4.0, padding: 0.0 },
            expected: 3.0,
            written,
            needed: 2.0,
            verdict: None,
        };
        let told = |mut judgement: Judgement, verdict| {
            judgement.decide(verdict);
            let mut record = Record::default();
            conclude(&[judgement], &mut record);
            record.findings.remove(0)
        };
        let steady = Programs { amplification: 3.01, padding: 0.0 };
        let early = told(judgement(0.1), Verdict::Steady(Some(steady)));
        assert_eq!(early.code, "theory-agrees");
        assert!(early.text.contains("3.01 in steady state"), "{}", early.text);
        let late = told(judgement(5.0), Verdict::Moving);
        assert_eq!(late.code, "theory-not-steady");
        assert!(!late.text.contains("capacities"), "{}", late.text);
    }
}
