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
const STEADY_AFTER_CAPACITIES: f64 = 2.0;

/// Capacities of random writes after which a drive that was not full is in steady state: all but `e^-6` of it
/// is written then.
const STEADY_AFTER_CAPACITIES_UNFILLED: f64 = 6.0;

/// Maximum relative difference at which the figures count as equal.
const EQUAL_WITHIN: f64 = 0.02;

/// Maximum share of the capacity that an area may leave out and still count as the whole drive: areas are
/// whole MiB. On a drive with 7 % over-provisioning that changes write amplification by 0.7 %.
const MAX_OMITTED_SHARE: f64 = 1.0 / 2000.0;

/// History of a drive, as far as theory depends on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteHistory {
    /// Units written randomly since the last other write or trim.
    random_units: u64,
    /// True if the whole drive was written before that.
    is_full: bool,
    /// Counters since steady state was reached.
    steady: Counters,
}

/// The experiment's own verdict on a workload that it measures until steady state. It overrides the number of
/// capacities written: figures and findings of theory follow it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SteadyVerdict {
    /// Steady, with the programs during steady state; `None` if nothing was written.
    Steady(Option<ProgramRatios>),
    /// Not steady.
    NotSteady,
}

/// Programs per host write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProgramRatios {
    /// Data programs per host write.
    amplification: f64,
    /// Share of padding in the data programs.
    padding: f64,
}

impl ProgramRatios {
    /// Returns the ratios of these counters; `None` before the first host write.
    pub(crate) fn of(counted: &Counters) -> Option<ProgramRatios> {
        let padding = counted.program_units_padding as f64 / counted.data_write_units() as f64;
        Some(ProgramRatios { amplification: counted.data_write_amplification()?, padding })
    }
}

/// Comparison of a drive's write amplification with theory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TheoryComparison {
    /// True if it replaces the last comparison of the same drive.
    pub(super) continues: bool,
    measured: ProgramRatios,
    expected: f64,
    /// Capacities of random writes so far; `needed` is the number for steady state.
    written: f64,
    needed: f64,
    /// The experiment's own verdict, if it has one.
    verdict: Option<SteadyVerdict>,
}

impl WriteHistory {
    /// Adds a phase to the history. Returns the comparison with theory if theory covers the phase and GC ran
    /// in it.
    pub(super) fn add_phase(
        &mut self,
        phase: &Phase,
        before: &Inside,
        after: &Inside,
    ) -> Option<TheoryComparison> {
        let counted = after.counters.since(&before.counters);
        let expectation = before.expectation?;
        let least = (expectation.capacity.bytes() as f64 * (1.0 - MAX_OMITTED_SHARE)) as u64;
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
                *self = WriteHistory { is_full, ..WriteHistory::default() };
            }
            return None;
        }
        let continues = self.random_units > 0;
        let needed =
            if self.is_full { STEADY_AFTER_CAPACITIES } else { STEADY_AFTER_CAPACITIES_UNFILLED };
        let written = self.random_units as f64 / units as f64;
        self.random_units += counted.host_write_units;
        if written >= needed {
            self.steady = self.steady.plus(&counted);
        }
        let counters = if written >= needed { &self.steady } else { &counted };
        if counters.program_units_collection == 0 {
            return None;
        }
        let expected = expectation.write_amplification;
        let (measured, verdict) = (ProgramRatios::of(counters)?, None);
        Some(TheoryComparison { continues, measured, expected, written, needed, verdict })
    }
}

impl TheoryComparison {
    fn deviation(&self) -> f64 {
        self.measured.amplification / self.expected - 1.0
    }

    /// Adopts the experiment's verdict, and its programs if it found steady state.
    pub(crate) fn apply_verdict(&mut self, verdict: SteadyVerdict) {
        if let SteadyVerdict::Steady(Some(measured)) = verdict {
            self.measured = measured;
        }
        self.verdict = Some(verdict);
    }

    fn is_steady(&self) -> bool {
        match self.verdict {
            Some(verdict) => matches!(verdict, SteadyVerdict::Steady(_)),
            None => self.written >= self.needed,
        }
    }

    fn add_finding(&self, record: &mut Record) {
        let TheoryComparison { expected, written, needed, .. } = self;
        let ProgramRatios { amplification: measured, padding } = self.measured;
        let figures = format!("Write amplification was {measured:.2}");
        if self.verdict == Some(SteadyVerdict::NotSteady) {
            let text = format!(
                "{figures} in the latest round; theory expects {expected:.2} of this drive once it is \
                 full and steady."
            );
            return record.add_finding(Level::Info, "theory-not-steady", text);
        }
        if !self.is_steady() {
            let text = format!(
                "{figures}, and theory expects {expected:.2} of this drive when it is full and \
                 steady. It may not be steady yet: {written:.1} times its capacity had been \
                 written at random before, of the {needed} that this takes."
            );
            return record.add_finding(Level::Info, "theory-not-steady", text);
        }
        if self.deviation().abs() <= EQUAL_WITHIN {
            let text = format!(
                "{figures} in steady state; theory expects {expected:.2} of this drive's \
                 collection and over-provisioning."
            );
            return record.add_finding(Level::Info, "theory-agrees", text);
        }
        let cause = if padding > EQUAL_WITHIN {
            format!(
                "program units completed with padding, {:.1} % of the data programmed",
                padding * 100.0
            )
        } else if measured < *expected {
            "less data on the drive than its capacity, or a smaller reserve of free flash than \
             assumed"
                .to_owned()
        } else {
            "more flash kept free or open than the reserve assumed".to_owned()
        };
        let text = format!(
            "{figures} in steady state where theory expects {expected:.2} ({:+.1} %). Likely \
             cause: {cause}.",
            self.deviation() * 100.0
        );
        record.add_finding(Level::Notice, "theory-differs", text);
    }
}

/// Adds a finding about the drive in steady state with the largest deviation from theory, or else about the
/// one with the most random writes.
pub(crate) fn conclude(comparisons: &[TheoryComparison], record: &mut Record) {
    let steady = comparisons.iter().filter(|it| it.is_steady());
    let furthest = steady.max_by(|a, b| a.deviation().abs().total_cmp(&b.deviation().abs()));
    let longest = comparisons.iter().max_by(|a, b| a.written.total_cmp(&b.written));
    if let Some(comparison) = furthest.or(longest) {
        comparison.add_finding(record);
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
        let (mut drive, mut history, mut record) =
            (drive(), WriteHistory::default(), Record::default());
        let mut comparison = None;
        let patterns = [(Pattern::Sequential, u64::from(fill)), (Pattern::Random, first)];
        for (pattern, capacities) in patterns.into_iter().chain([(Pattern::Random, second)]) {
            if capacities == 0 {
                continue;
            }
            let phase = phase(&drive, pattern, capacities);
            let before = drive.inside().expect("a simulated drive");
            drive.run_phase(&phase, &mut Unobserved).expect("it runs");
            let after = drive.inside().expect("a simulated drive");
            comparison = history.add_phase(&phase, &before, &after).or(comparison);
        }
        conclude(comparison.as_slice(), &mut record);
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
        let comparison = TheoryComparison {
            continues: false,
            measured: ProgramRatios { amplification: 4.0, padding: 0.1 },
            expected: 3.0,
            written: 3.0,
            needed: 2.0,
            verdict: None,
        };
        conclude(&[comparison], &mut record);
        assert_eq!(record.findings[0].code, "theory-differs");
        assert!(record.findings[0].text.contains("4.00 in steady state where theory expects 3.00"));
        assert!(record.findings[0].text.contains("padding, 10.0 %"));
    }

    #[test]
    fn the_verdict_of_the_experiment_goes_before_the_rule_of_thumb() {
        let comparison = |written| TheoryComparison {
            continues: false,
            measured: ProgramRatios { amplification: 4.0, padding: 0.0 },
            expected: 3.0,
            written,
            needed: 2.0,
            verdict: None,
        };
        let finding_of = |mut comparison: TheoryComparison, verdict| {
            comparison.apply_verdict(verdict);
            let mut record = Record::default();
            conclude(&[comparison], &mut record);
            record.findings.remove(0)
        };
        let steady = ProgramRatios { amplification: 3.01, padding: 0.0 };
        let early = finding_of(comparison(0.1), SteadyVerdict::Steady(Some(steady)));
        assert_eq!(early.code, "theory-agrees");
        assert!(early.text.contains("3.01 in steady state"), "{}", early.text);
        let late = finding_of(comparison(5.0), SteadyVerdict::NotSteady);
        assert_eq!(late.code, "theory-not-steady");
        assert!(!late.text.contains("capacities"), "{}", late.text);
    }
}
