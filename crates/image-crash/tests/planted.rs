//! Every mistake in the order of writing that is planted is found, within as many images as tests open of a drive
//! without one.

use ssdlab_image_crash::explore::{Plan, explore};
use ssdlab_image_crash::faults::Fault;
use ssdlab_image_crash::history::History;
use ssdlab_image_crash::setup::Setup;

/// Images of the drive with the mistake, at most.
const IMAGES: u64 = 15_000;

/// Images of one history, at most.
const IMAGES_OF_A_HISTORY: u64 = 1000;

/// Looks for `fault` in the histories of one kind of drive, until an image is wrong.
fn find(drive: &str, fault: Fault) {
    find_among(drive, fault, IMAGES_OF_A_HISTORY);
}

/// Looks for `fault` among so many images of each history of one kind of drive.
fn find_among(drive: &str, fault: Fault, images_of_a_history: u64) {
    let setup = Setup::named(drive).expect("it is there");
    let (mut images, mut number) = (0, 0);
    while images < IMAGES {
        number += 1;
        let mut history = History::numbered(setup, number).expect("a life without crashes");
        history.log = fault.plant(history.log, &history.layout);
        let outcome = explore(&history, &Plan::LONG, number, images_of_a_history, None);
        images += outcome.images;
        if let Some(found) = outcome.finding {
            println!("{fault:?}: history {number}, {images} images: {}", found.what);
            return;
        }
    }
    panic!("{fault:?} was not found in {images} images");
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
    find("plain", Fault::PunchBeforeSync);
    find("single-blocks", Fault::PunchBeforeSync);
}

#[test]
fn a_block_that_keeps_its_records_when_it_is_written_anew() {
    // Few images show it: none of the first 1,000 of each of fifteen histories did.
    find_among("plain", Fault::NeverPunched, 3 * IMAGES_OF_A_HISTORY);
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
