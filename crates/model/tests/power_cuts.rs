//! Power cuts between any two things that happen and at random, on drives of every kind.
//!
//! The long run is 100,000 random histories:
//!
//!     cargo test -p ssdlab-model --release --test power_cuts -- --ignored --nocapture

#[path = "power_cuts/any_shape.rs"]
mod any_shape;
#[path = "power_cuts/drives.rs"]
mod drives;
#[path = "power_cuts/free_space.rs"]
mod free_space;
#[path = "power_cuts/histories.rs"]
mod histories;
#[path = "properties/log_blocks.rs"]
mod log_blocks;
#[path = "properties/drives.rs"]
mod shapes;

use std::ops::Range;

use drives::{KINDS, Kind, configuration_of};
use histories::random_histories;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::bad_blocks::BadBlockParameters;
use ssdlab_model::flush::{FlushHandling, WriteCache};
use ssdlab_model::power_cut::explore::shortest_failure;
use ssdlab_model::power_cut::faults::Fault;
use ssdlab_model::power_cut::history::{LeftOut, Operation, Step, When};
use ssdlab_model::power_cut::tested::Tested;
use ssdlab_model::streams::StreamParameters;
use ssdlab_units::{LogicalUnit, Nanoseconds};

#[test]
fn random_cuts_break_no_rule() {
    let met = random_histories(1, 4_000);
    assert_eq!(met.given_up, 0, "{met:?}");
    assert!(met.unreadable > 0 && met.saved > 0 && met.padded > 0 && met.to_erase > 0, "{met:?}");
    assert!(met.with_saved_map > 400, "{met:?}");
    assert!(met.in_recovery > 3_000 && met.own_programs > 0 && met.own_erases > 0, "{met:?}");
    assert!(met.compacted > 0 && met.filled_empty > 0, "{met:?}");
    assert!(met.merges > 0 && met.folded > 0 && met.with_streams > 0, "{met:?}");
    assert!(met.with_bad_blocks > 400 && met.failed_blocks > 100, "{met:?}");
    assert!(met.retired_blocks > 20 && met.read_only > 20, "{met:?}");
    assert!(met.levelled_apart > 40, "{met:?}");
    assert!(met.together > 1_000 && met.merged > 1_000, "{met:?}");
    assert!(met.of_kind.iter().all(|&histories| histories > 400), "{met:?}");
}

/// Among them is a cut after which every block that is copied fills another, padding included, until
/// copies go on where the host was to.
#[test]
fn a_drive_on_which_copies_gain_nothing_comes_up_as_well() {
    let met = random_histories(179, 5_000);
    assert_eq!(met.given_up, 0, "{met:?}");
}

/// Among them is a cut that finds one die far ahead of the others: only with the places that were skipped is there
/// room for the copies that make a block free.
#[test]
fn a_drive_comes_up_with_the_space_that_slow_dies_have_left() {
    let met = random_histories(110, 5_000);
    assert_eq!(met.given_up, 0, "{met:?}");
}

/// The parts of the long run, of 5,000 histories each: all of them, or those that
/// `SSDLAB_POWER_CUT_PARTS=FIRST..END` names.
fn parts() -> Range<u64> {
    let Ok(parts) = std::env::var("SSDLAB_POWER_CUT_PARTS") else { return 0..20 };
    let range = parts
        .split_once("..")
        .and_then(|(first, end)| Some(first.trim().parse().ok()?..end.trim().parse().ok()?));
    range.unwrap_or_else(|| panic!("SSDLAB_POWER_CUT_PARTS is a range as in 20..60, not '{parts}'"))
}

#[test]
#[ignore = "100,000 histories; the command is at the top of this file"]
fn a_hundred_thousand_random_cuts_break_no_rule() {
    let mut given_up = 0;
    for part in parts() {
        let met = random_histories(100 + part, 5_000);
        given_up += met.given_up;
        println!("part {part}: {met:?}");
    }
    assert_eq!(given_up, 0, "drives that had no block left to copy to after a cut");
}

/// Returns whether any of some short histories on some drives fails.
fn is_caught(
    kind: Kind,
    change: impl Fn(&mut Configuration),
    fault: Option<Fault>,
) -> Option<(usize, String)> {
    let mut generator = Pcg64Mcg::seed_from_u64(3);
    for _ in 0..200 {
        let mut configuration = configuration_of(&mut generator, kind);
        change(&mut configuration);
        let mut tested = Tested::new(&configuration, fault).expect("a sound drive");
        tested.age(&mut generator);
        let history: Vec<Step> =
            (0..60).map(|_| Step::random(&mut generator, tested.units())).collect();
        if tested.explore_briefly(&history).is_err() {
            let (history, failure) = shortest_failure(&tested, &history);
            return Some((history.len(), failure.finding.to_string()));
        }
    }
    None
}

#[test]
fn every_cut_of_short_histories_breaks_no_rule() {
    let mut generator = Pcg64Mcg::seed_from_u64(2);
    for kind in KINDS {
        let (mut drives, mut cuts, mut in_recovery) = (0, 0, 0);
        while drives < 4 || (drives < 12 && cuts <= 300) {
            drives += 1;
            let configuration = configuration_of(&mut generator, kind);
            let mut tested = Tested::new(&configuration, None).expect("a sound drive");
            tested.age(&mut generator);
            let history: Vec<Step> =
                (0..20).map(|_| Step::random(&mut generator, tested.units())).collect();
            match tested.explore(&history) {
                Ok(explored) => {
                    cuts += explored.cuts;
                    in_recovery += explored.cuts_in_recovery;
                }
                Err(failure) => panic!("{configuration:?}\n{history:?}\n{failure:?}"),
            }
        }
        println!("{kind:?}: {cuts} cuts, {in_recovery} more in recovery");
        assert!(cuts > 300 && in_recovery > 300, "{kind:?}: {cuts}, {in_recovery} in recovery");
    }
}

/// The buffer takes the write in several parts. The trim takes one away that no program unit holds yet.
#[test]
fn what_is_trimmed_between_the_parts_of_a_write_with_fua_is_not_older_than_the_write() {
    let mut generator = Pcg64Mcg::seed_from_u64(5);
    for kind in KINDS {
        for _ in 0..4 {
            let mut configuration = configuration_of(&mut generator, kind);
            volatile(&mut configuration);
            let mut tested = Tested::new(&configuration, None).expect("a sound drive");
            tested.age(&mut generator);
            for (place, later) in (0..12).zip([0, 20, 50, 200, 700].iter().cycle()) {
                let (first, later) = (LogicalUnit(8), Nanoseconds::from_micros(*later));
                let part = |first, units, without| Operation::WritePart {
                    first,
                    units,
                    without,
                    fua: true,
                };
                let trim = Operation::Trim { first: LogicalUnit(8 + place / 2), units: 1 };
                let history = [
                    (part(LogicalUnit(0), 4, LeftOut::First), When::Answered),
                    (part(first, 1 + place, LeftOut::Last), When::Later(Nanoseconds::ZERO)),
                    (trim, When::Later(later)),
                ];
                let history = history.map(|(operation, when)| Step { operation, when });
                if let Err(failure) = tested.explore_briefly(&history) {
                    panic!("{kind:?}, {configuration:?}\n{history:?}\n{failure:?}");
                }
            }
        }
    }
}

fn volatile(configuration: &mut Configuration) {
    configuration.buffer.protected = false;
    configuration.buffer.coalesced = 0;
    configuration.mechanisms.streams = StreamParameters::default();
    configuration.mechanisms.flush.write_cache = WriteCache::WriteBack;
}

#[test]
fn a_drive_that_ignores_flushes_is_caught() {
    let lie = |configuration: &mut Configuration| {
        volatile(configuration);
        configuration.mechanisms.flush.handling = FlushHandling::Ignored;
    };
    for kind in KINDS {
        let (steps, finding) = is_caught(kind, lie, None).expect("a lie is found");
        // A write and a flush, and perhaps one request more that no other can stand for.
        assert!(steps <= 3, "few requests show it: {kind:?}, {steps} steps, {finding}");
    }
}

#[test]
fn mistakes_in_recovery_are_caught() {
    let nothing = |_: &mut Configuration| {};
    for kind in KINDS {
        for fault in [
            Fault::IgnoreNumbers,
            Fault::ForgetUnreadable,
            Fault::ForgetTrims,
            Fault::ForgetSaved,
            Fault::EraseEarly,
        ] {
            let caught = match fault {
                Fault::EraseEarly => is_caught(kind, volatile, Some(fault)),
                _ => is_caught(kind, nothing, Some(fault)),
            };
            println!("{kind:?}, {fault:?}: {caught:?}");
            assert!(caught.is_some(), "{kind:?}: {fault:?} is found");
        }
    }
}

#[test]
fn a_table_of_bad_blocks_that_is_forgotten_is_missed() {
    let wears_out = |configuration: &mut Configuration| {
        configuration.mechanisms.wear.bad_blocks = Some(BadBlockParameters {
            life: 6,
            shape: 4.0,
            reserve: 9,
            retire_most: 0.5,
            threshold: 10,
        });
    };
    for kind in KINDS.into_iter().filter(|&kind| kind != Kind::LogBlocks) {
        let caught = is_caught(kind, wears_out, Some(Fault::ForgetBadBlocks));
        println!("{kind:?}: {caught:?}");
        assert!(caught.is_some(), "{kind:?}");
    }
}

#[test]
fn a_mistake_that_only_a_cut_during_recovery_shows_is_caught() {
    let mut generator = Pcg64Mcg::seed_from_u64(7);
    for _ in 0..200 {
        let configuration = configuration_of(&mut generator, Kind::LogBlocks);
        let fault = Some(Fault::KeepUnfinished);
        let mut tested = Tested::new(&configuration, fault).expect("a sound drive");
        tested.age(&mut generator);
        let history: Vec<Step> =
            (0..6).map(|_| Step::random(&mut generator, tested.units())).collect();
        assert!(tested.explore_briefly(&history).is_ok(), "it takes a cut during recovery");
        if let Err(failure) = tested.explore(&history) {
            assert!(failure.again_after.is_some() && !failure.went_on, "{failure:?}");
            let finding = failure.finding.to_string();
            return assert!(finding.contains("no block can be freed"), "{finding}");
        }
    }
    panic!("each cut costs the drive a block, and that is found");
}
