//! Findings about the states of a drive compared with each other.

use super::state::{Sizes, State};
use super::{Measured, Operation};
use crate::experiment::Record;
use crate::experiment::rounds::Figures;
use crate::output::format::significant;
use crate::report::Level;

/// Maximum relative difference at which figures count as equal.
const SAME: f64 = 0.03;

/// Slowdown without over-provisioning from which a finding is a problem.
const PROBLEM: f64 = 2.0;

/// Adds the findings of a run, even if it did not complete. `left_out` are the states that were asked for and that
/// this drive cannot be brought into. `on_copies` is true if each operation ran on a copy of the drive.
pub(super) fn conclude(
    sizes: &Sizes,
    left_out: &[State],
    measured: &[Measured],
    on_copies: bool,
    record: &mut Record,
) {
    spare(measured, record);
    deviation(measured, record);
    reads(measured, record);
    not_steady(measured, record);
    sags(measured, record);
    states(sizes, measured, on_copies, record);
    if !measured.is_empty() && left_out.iter().any(|state| state.is_pair()) {
        record.add_finding(
            Level::Info,
            "no-pairs",
            "The RAID 1 states were left out: this drive cannot be copied, or not with --purge. \
             Name the array itself to measure one."
                .to_owned(),
        );
    }
    if !measured.is_empty() && left_out.contains(&State::Trimmed) {
        record.add_finding(
            Level::Notice,
            "no-trim",
            "The state trimmed was left out: trims do not reach a drive that supports them."
                .to_owned(),
        );
    }
}

fn of(measured: &[Measured], state: State, operation: Operation) -> Option<&Measured> {
    measured.iter().find(|one| one.state == state && one.operation == operation)
}

/// Returns the figures of one operation in one state, if they are reliable.
fn figures_of(measured: &[Measured], state: State, operation: Operation) -> Option<&Figures> {
    of(measured, state, operation)?.figures.as_ref()
}

/// Adds a finding about random writes with the least and with the most over-provisioning. A pair that was only
/// filled in order does not count if the same pair was measured after random writes, like the other states.
fn spare(measured: &[Measured], record: &mut Record) {
    let has_used = of(measured, State::Raid1SpareUsed, Operation::RandWrite).is_some();
    let writes: Vec<(&Measured, &Figures)> = measured
        .iter()
        .filter(|one| one.operation == Operation::RandWrite)
        .filter(|one| one.state.is_overwritten() || !has_used)
        .filter_map(|one| Some((one, one.figures.as_ref()?)))
        .collect();
    if writes.len() < 2 {
        return;
    }
    let by_speed =
        |a: &&(&Measured, &Figures), b: &&(&Measured, &Figures)| a.1.iops.total_cmp(&b.1.iops);
    let (Some(slowest), Some(fastest)) =
        (writes.iter().min_by(by_speed), writes.iter().max_by(by_speed))
    else {
        return;
    };
    let factor = fastest.1.iops / slowest.1.iops;
    if factor < 1.0 + SAME {
        record.add_finding(
            Level::Info,
            "spare-no-matter",
            format!(
                "Random writes are as fast in each of the {} states measured: over-provisioning makes no \
                 difference here.",
                writes.len()
            ),
        );
        return;
    }
    let words = |(one, figures): &(&Measured, &Figures)| {
        let spare =
            one.spare.map_or(String::new(), |spare| format!(", {:.1} % spare", spare * 100.0));
        let amplification = figures
            .write_amplification
            .map_or(String::new(), |ratio| format!(", write amplification {}", significant(ratio)));
        let iops = significant(figures.iops);
        format!("{iops} IOPS in the state {}{spare}{amplification}", one.state.name())
    };
    let doubt = match slowest.0.is_steady() && fastest.0.is_steady() {
        true => "",
        false => " At least one of them was not steady, so do not rely on the factor.",
    };
    let level = match (factor >= PROBLEM, doubt.is_empty()) {
        (true, true) => Level::Problem,
        (true, false) => Level::Warning,
        (false, _) => Level::Notice,
    };
    record.add_finding(
        level,
        "spare-matters",
        format!(
            "Random writes differ by a factor of {} between the states: {}; {}.{doubt} Leave space \
             unwritten after a secure erase or TRIM, or trim free space.",
            significant(factor),
            words(fastest),
            words(slowest)
        ),
    );
}

fn deviation(measured: &[Measured], record: &mut Record) {
    let full = figures_of(measured, State::Raid1Full, Operation::RandWrite);
    let spare = figures_of(measured, State::Raid1SpareUsed, Operation::RandWrite)
        .or_else(|| figures_of(measured, State::Raid1Spare, Operation::RandWrite));
    let Some((full, spare)) = full.zip(spare) else { return };
    let (before, after) = (full.latency_deviation_us, spare.latency_deviation_us);
    let verb = if after < before { "falls" } else { "does not fall" };
    record.add_finding(
        Level::Info,
        "deviation",
        format!(
            "The standard deviation of the latencies of random writes in RAID 1 {verb} with \
             over-provisioning: {} us without, {} us with it.",
            significant(before),
            significant(after)
        ),
    );
}

fn reads(measured: &[Measured], record: &mut Record) {
    let one = figures_of(measured, State::Full, Operation::RandRead);
    let two = figures_of(measured, State::Raid1Full, Operation::RandRead);
    let Some((one, two)) = one.zip(two) else { return };
    let factor = two.iops / one.iops;
    record.add_finding(
        Level::Info,
        "raid-reads",
        format!(
            "Random reads from RAID 1 run at {} times those of one drive.",
            significant(factor)
        ),
    );
}

fn not_steady(measured: &[Measured], record: &mut Record) {
    for one in measured {
        let Some(unsteady) = &one.unsteady else { continue };
        let shown = match (&one.figures, unsteady.is_level) {
            (None, _) => "No mean is given, since the speed still changes",
            (Some(_), true) => "The figure shown is the mean of the later half, stable so far",
            (Some(_), false) => "Do not rely on the figure shown, the mean of the later half",
        };
        record.add_finding(
            Level::Warning,
            "not-reached",
            format!(
                "{} in the state {} was not steady: {}. {shown}.",
                one.operation.name(),
                one.state.name(),
                unsteady.words
            ),
        );
    }
}

/// Adds a finding for each operation with sags.
fn sags(measured: &[Measured], record: &mut Record) {
    for one in measured {
        let what = format!("In the state {}, {}", one.state.name(), one.operation.words());
        let words = one.lows.as_ref().and_then(|lows| lows.sag_sentence(&what, "IOPS"));
        if let Some(words) = words {
            record.add_finding(Level::Notice, "sags", words);
        }
    }
}

/// Adds a finding that describes each state by its preconditioning.
fn states(sizes: &Sizes, measured: &[Measured], on_copies: bool, record: &mut Record) {
    let named: Vec<String> = State::ALL
        .into_iter()
        .filter_map(|state| {
            let spare = of(measured, state, Operation::SeqRead)?.spare;
            Some(format!("{}: {}", state.name(), state.words(sizes, spare)))
        })
        .collect();
    if named.is_empty() {
        return;
    }
    let operations = match on_copies {
        true => "each operation found it",
        false => {
            "the first operation found it; each later one found what the one before had left: the \
             random writes follow sequential ones over the area"
        }
    };
    record.add_finding(
        Level::Info,
        "states",
        format!(
            "State before each test on the first {}, as {operations}. {}.",
            sizes.area_words(),
            named.join("; ")
        ),
    );
}

#[cfg(test)]
mod tests {
    use ssdlab_units::{GIB, MIB};

    use super::super::Unsteady;
    use super::*;

    /// Returns steady random writes with these IOPS; without figures if these are 0.
    fn writes(state: State, iops: f64) -> Measured {
        Measured {
            state,
            operation: Operation::RandWrite,
            spare: None,
            figures: (iops > 0.0).then(|| Figures { iops, ..Figures::default() }),
            unsteady: None,
            lows: None,
            curve: Vec::new(),
        }
    }

    /// Returns codes and levels of the findings about random writes with these IOPS.
    fn found(left_out: &[State], measured: &[(State, f64, bool)]) -> Vec<(String, Level)> {
        let measured: Vec<Measured> = measured
            .iter()
            .map(|&(state, iops, is_steady)| Measured {
                unsteady: (!is_steady)
                    .then(|| Unsteady { is_level: false, words: "it drifted".to_owned() }),
                ..writes(state, iops)
            })
            .collect();
        let sizes = Sizes::of(GIB, MIB * 64);
        let mut record = Record::default();
        conclude(&sizes, left_out, &measured, true, &mut record);
        record.findings.into_iter().map(|one| (one.code, one.level)).collect()
    }

    #[test]
    fn only_states_that_were_left_out_are_called_impossible() {
        let codes = |left_out: &[State]| {
            let found = found(left_out, &[(State::Full, 100.0, true)]);
            found.into_iter().map(|(code, _)| code).collect::<Vec<_>>()
        };
        // A single state says nothing about over-provisioning.
        assert!(codes(&[]).is_empty());
        let left_out = [State::Trimmed, State::Raid1Full, State::Raid1Spare];
        assert_eq!(codes(&left_out), ["no-pairs", "no-trim"]);
        assert_eq!(codes(&[State::Trimmed]), ["no-trim"]);
        assert_eq!(codes(&[State::Raid1Spare]), ["no-pairs"]);
    }

    #[test]
    fn a_pair_that_was_only_filled_is_not_set_against_overwritten_ones() {
        let words = |states: &[State]| {
            let measured: Vec<Measured> = states
                .iter()
                .zip([100.0, 900.0, 300.0])
                .map(|(&it, iops)| writes(it, iops))
                .collect();
            let mut record = Record::default();
            conclude(&Sizes::of(GIB, MIB * 64), &[], &measured, true, &mut record);
            record.findings.remove(0).text
        };
        let with_used = words(&[State::Raid1Full, State::Raid1Spare, State::Raid1SpareUsed]);
        assert!(with_used.contains("by a factor of 3.00 "), "{with_used}");
        let without = words(&[State::Raid1Full, State::Raid1Spare]);
        assert!(without.contains("by a factor of 9.00 "), "{without}");
    }

    #[test]
    fn a_factor_that_is_not_to_be_relied_on_is_no_problem_yet() {
        let of = |is_steady| {
            let measured = [(State::Full, 100.0, is_steady), (State::Trimmed, 400.0, true)];
            found(&[], &measured).remove(0)
        };
        assert_eq!(of(true), ("spare-matters".to_owned(), Level::Problem));
        assert_eq!(of(false), ("spare-matters".to_owned(), Level::Warning));
    }

    #[test]
    fn a_state_whose_speed_moves_is_set_against_no_other() {
        // The first state has no figures.
        let measured = [(State::Full, 0.0, false), (State::Trimmed, 400.0, true)];
        let codes: Vec<String> = found(&[], &measured).into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, ["not-reached"]);
    }
}
