//! Every mistake in the order of writing that is planted is found, within as many images as tests open of a drive
//! without one.

use ssdlab_image_crash::explore::{Outcome, Plan, explore};
use ssdlab_image_crash::faults::Fault;
use ssdlab_image_crash::history::History;
use ssdlab_image_crash::setup::Setup;

/// Images of the drive with the mistake, at most.
const IMAGES: u64 = 15_000;

/// Images of one history, at most.
const IMAGES_OF_A_HISTORY: u64 = 1000;

/// So many images of one history that no moment is left out.
const NO_MOMENT_LEFT_OUT: u64 = 1 << 40;

/// Looks for `fault` in the histories of one kind of drive, until an image is wrong.
fn find(drive: &str, fault: Fault) {
    let setup = Setup::named(drive).expect("it is there");
    search(fault, |number| {
        let history = History::numbered(setup, number).expect("a life without planted mistakes");
        explore(&history.with_fault(fault), &Plan::LONG, number, IMAGES_OF_A_HISTORY, None)
    });
}

/// Looks for `fault` in drives that collect, by `plan` at every moment.
fn find_while_collecting(drive: &str, fault: Fault, plan: Plan) {
    let setup = Setup::named(drive).expect("it is there");
    search(fault, |number| {
        let steps = setup.gc_steps(number as u32 - 1).expect("a drive");
        let history = History::record(setup, &steps).expect("a life without planted mistakes");
        explore(&history.with_fault(fault), &plan, 1, NO_MOMENT_LEFT_OUT, None)
    });
}

/// Explores histories from number 1 on, until one is wrong.
fn search(fault: Fault, explored: impl Fn(u64) -> Outcome) {
    let mut images = 0;
    for number in 1.. {
        let outcome = explored(number);
        images += outcome.images;
        if let Some(found) = outcome.finding {
            println!("{fault:?}: history {number}, {images} images: {}", found.what);
            return;
        }
        assert!(images < IMAGES, "{fault:?} was not found in {images} images");
    }
}

#[test]
fn a_flush_without_a_sync() {
    find("plain", Fault::FlushWithoutSync);
    find("write-through", Fault::FlushWithoutSync);
}

#[test]
fn a_promise_that_is_marked_before_its_sync() {
    find("plain", Fault::PromiseBeforeSync);
    find("protected", Fault::PromiseBeforeSync);
}

#[test]
fn dumps_that_are_written_over_the_latest() {
    find("protected", Fault::OneSlotForDumps);
}

#[test]
fn a_dump_that_relies_on_what_is_durable_no_earlier_than_itself() {
    find("protected", Fault::DumpWithoutProgrammed);
}

#[test]
fn a_state_that_is_not_made_durable() {
    find("plain", Fault::StateNotSynced);
}

#[test]
fn a_block_that_is_punched_out_before_its_copies_are_durable() {
    find_while_collecting("plain", Fault::PunchBeforeSync, Plan::BY_REGION);
    find_while_collecting("single-blocks", Fault::PunchBeforeSync, Plan::BY_REGION);
}

#[test]
fn a_block_that_keeps_its_records_when_it_is_written_anew() {
    // Others keep so much erased for recovery that such blocks do not fill them.
    find_while_collecting("few-blocks", Fault::NeverPunched, Plan::KILLS);
}

#[test]
fn a_record_that_is_ahead_of_its_data() {
    find("plain", Fault::RecordBeforeData);
}

#[test]
fn a_record_that_says_that_it_is_durable() {
    find("plain", Fault::RecordClaimsDurable);
}

#[test]
fn trims_that_are_not_recorded_or_behind_their_flush() {
    find("plain", Fault::TrimsForgotten);
    find("plain", Fault::TrimsAfterSync);
}

#[test]
fn batches_of_trims_that_do_not_name_their_predecessor() {
    find("plain", Fault::TrimsUnchained);
}

#[test]
fn a_dump_that_is_believed_whatever_its_checksums_say() {
    find("protected", Fault::DumpUnchecked);
}
