//! What the states side by side allow to say.

use super::state::{Sizes, State};
use super::{Measured, Operation};
use crate::experiment::Record;
use crate::output::format::significant;
use crate::report::Level;

/// Figures that differ by less than this share are taken as the same.
const SAME: f64 = 0.03;

/// From this factor on, what is lost without spare area is a problem.
const PROBLEM: f64 = 2.0;

/// Adds the findings of a run, also of one that did not come to its end. `planned` are the states
/// that this drive can be brought into, `on_copies` is whether each operation had a copy of it.
pub(super) fn conclude(
    sizes: &Sizes,
    planned: &[State],
    measured: &[Measured],
    on_copies: bool,
    record: &mut Record,
) {
    spare(measured, record);
    deviation(measured, record);
    reads(measured, record);
    not_steady(measured, record);
    states(sizes, measured, on_copies, record);
    if !measured.is_empty() && !planned.contains(&State::Raid1Full) {
        record.find(
            Level::Info,
            "no-pairs",
            "The states of two drives in RAID 1 were left out: the drive cannot be doubled, or not with \
             --make-new. Name the array itself to measure one."
                .to_owned(),
        );
    }
    if !measured.is_empty() && !planned.contains(&State::Trimmed) {
        record.find(
            Level::Notice,
            "no-trim",
            "The state trimmed was left out: trims do not get through to a drive that takes them."
                .to_owned(),
        );
    }
}

fn of(measured: &[Measured], state: State, operation: Operation) -> Option<&Measured> {
    measured.iter().find(|one| one.state == state && one.operation == operation)
}

/// Random writes with the least and with the most spare area.
fn spare(measured: &[Measured], record: &mut Record) {
    let writes: Vec<&Measured> =
        measured.iter().filter(|one| one.operation == Operation::RandWrite).collect();
    if writes.len() < 2 {
        return;
    }
    let by_speed = |a: &&&Measured, b: &&&Measured| a.figures.iops.total_cmp(&b.figures.iops);
    let (Some(slowest), Some(fastest)) =
        (writes.iter().min_by(by_speed), writes.iter().max_by(by_speed))
    else {
        return;
    };
    let factor = fastest.figures.iops / slowest.figures.iops;
    if factor < 1.0 + SAME {
        record.find(
            Level::Info,
            "spare-no-matter",
            "Random writes are as fast in every state: spare area makes no difference here."
                .to_owned(),
        );
        return;
    }
    let words = |one: &Measured| {
        let spare =
            one.spare.map_or(String::new(), |spare| format!(", {:.1} % spare", spare * 100.0));
        let amplification = one
            .figures
            .write_amplification
            .map_or(String::new(), |ratio| format!(", write amplification {}", significant(ratio)));
        let iops = significant(one.figures.iops);
        format!("{iops} IOPS in the state {}{spare}{amplification}", one.state.name())
    };
    let doubt = match slowest.is_steady && fastest.is_steady {
        true => "",
        false => " One of them at least was not steady, so that the factor is not to be relied on.",
    };
    let level = match (factor >= PROBLEM, doubt.is_empty()) {
        (true, true) => Level::Problem,
        (true, false) => Level::Warning,
        (false, _) => Level::Notice,
    };
    record.find(
        level,
        "spare-matters",
        format!(
            "Random writes differ by a factor of {} between the states: {}; {}.{doubt} Leave space \
             unwritten after a secure erase or TRIM, or trim what is free.",
            significant(factor),
            words(fastest),
            words(slowest)
        ),
    );
}

fn deviation(measured: &[Measured], record: &mut Record) {
    let full = of(measured, State::Raid1Full, Operation::RandWrite);
    let spare = of(measured, State::Raid1Spare, Operation::RandWrite);
    let Some((full, spare)) = full.zip(spare) else { return };
    let (before, after) = (full.figures.latency_deviation_us, spare.figures.latency_deviation_us);
    let verb = if after < before { "falls" } else { "does not fall" };
    record.find(
        Level::Info,
        "deviation",
        format!(
            "The standard deviation of the latencies of random writes in RAID 1 {verb} with spare \
             area: {} us without, {} us with it.",
            significant(before),
            significant(after)
        ),
    );
}

fn reads(measured: &[Measured], record: &mut Record) {
    let one = of(measured, State::Full, Operation::RandRead);
    let two = of(measured, State::Raid1Full, Operation::RandRead);
    let Some((one, two)) = one.zip(two) else { return };
    let factor = two.figures.iops / one.figures.iops;
    record.find(
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
        let Some(moving) = &one.moving else { continue };
        record.find(
            Level::Warning,
            "not-reached",
            format!(
                "{} in the state {} was not steady: {moving}. The figure shown is the mean of the \
                 later half, and not to be relied on.",
                one.operation.name(),
                one.state.name()
            ),
        );
    }
}

/// Each state by what was done to bring it about.
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
            "the first operation found it, and each after it what the one before had left: the \
             random writes follow sequential ones over the area"
        }
    };
    record.find(
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
    use ssdlab_model::units::{GIB, MIB};

    use super::*;
    use crate::experiment::rounds::Figures;

    /// Codes and levels of what is found of random writes at these IOPS.
    fn found(planned: &[State], measured: &[(State, f64, bool)]) -> Vec<(String, Level)> {
        let measured: Vec<Measured> = measured
            .iter()
            .map(|&(state, iops, is_steady)| Measured {
                state,
                operation: Operation::RandWrite,
                spare: None,
                figures: Figures { iops, ..Figures::default() },
                is_steady,
                moving: None,
                curve: Vec::new(),
            })
            .collect();
        let sizes = Sizes::of(GIB, MIB * 64);
        let mut record = Record::default();
        conclude(&sizes, planned, &measured, true, &mut record);
        record.findings.into_iter().map(|one| (one.code, one.level)).collect()
    }

    #[test]
    fn a_state_that_an_interrupted_run_did_not_come_to_is_not_called_impossible() {
        let codes = |planned: &[State]| {
            let found = found(planned, &[(State::Full, 100.0, true)]);
            found.into_iter().map(|(code, _)| code).collect::<Vec<_>>()
        };
        // One state alone says nothing of spare area either.
        assert!(codes(&State::ALL).is_empty());
        assert_eq!(codes(&[State::Full]), ["no-pairs", "no-trim"]);
    }

    #[test]
    fn a_factor_that_is_not_to_be_relied_on_is_no_problem_yet() {
        let of = |is_steady| {
            let measured = [(State::Full, 100.0, is_steady), (State::Trimmed, 400.0, true)];
            found(&State::ALL, &measured).remove(0)
        };
        assert_eq!(of(true), ("spare-matters".to_owned(), Level::Problem));
        assert_eq!(of(false), ("spare-matters".to_owned(), Level::Warning));
    }
}
