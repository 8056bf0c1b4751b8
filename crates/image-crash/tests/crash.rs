//! What was flushed is in every image that a crash of the host may leave.

use std::path::Path;
use std::sync::Arc;

use ssdlab_attach::drive;
use ssdlab_attach::image::Image;
use ssdlab_attach::store::Store;
use ssdlab_image_crash::crash::{Bounds, CrashPoints};
use ssdlab_image_crash::explore::{Plan, examine, explore};
use ssdlab_image_crash::history::{History, Step};
use ssdlab_image_crash::memory_storage::{Event, MemoryStorage};
use ssdlab_image_crash::pages::Pages;
use ssdlab_image_crash::setup::Setup;
use ssdlab_model::recovery::RecoveryError;
use ssdlab_units::Instant;

/// Images of each kind of drive.
const IMAGES: u64 = 3000;

/// Images of one history, about.
const IMAGES_OF_A_HISTORY: u64 = 400;

/// Numbers of histories from one seed to the next.
const HISTORIES_OF_A_SEED: u64 = 100;

/// Histories that begin with another number, `SSDLAB_SEED`; so many such beginnings are tried, `SSDLAB_SEEDS`.
fn seeds() -> std::ops::Range<u64> {
    let number = |variable| std::env::var(variable).map_or(1, |it| it.parse().expect("a number"));
    let first: u64 = number("SSDLAB_SEED");
    first..first + number("SSDLAB_SEEDS")
}

/// Opens images of the histories of one kind of drive.
fn explored(drive: &str) {
    explored_some(drive, IMAGES);
}

/// Opens so many images of the histories of one kind of drive, from each seed on.
fn explored_some(drive: &str, least: u64) {
    let setup = Setup::named(drive).expect("it is there");
    for seed in seeds() {
        let (mut images, mut number) = (0, (seed - 1) * HISTORIES_OF_A_SEED);
        while images < least {
            number += 1;
            let history = History::numbered(setup, number)
                .unwrap_or_else(|error| panic!("--drive {drive} --seed {number}: {error:#}"));
            let plan = if number % 4 == 0 { Plan::SHORT } else { Plan::LONG };
            let outcome = explore(&history, &plan, number, IMAGES_OF_A_HISTORY, None);
            images += outcome.images;
            if let Some(found) = outcome.finding {
                let most = format!("--most {IMAGES_OF_A_HISTORY}");
                let case = format!("crash --drive {drive} --seed {number} --only {}", found.image);
                panic!("{case} {most}: {}", found.what);
            }
        }
    }
}

#[test]
fn what_was_flushed_is_in_every_crash_image() {
    explored("plain");
    explored("plain-in-time");
}

#[test]
fn so_it_is_with_capacitors() {
    explored("protected");
    explored("protected-in-time");
    explored("coalescing");
}

#[test]
fn what_capacitors_saved_is_not_older_than_what_recovery_has_copied() {
    // Recovery has to make room, and crashes before what was saved is on the flash.
    let setup = Setup::named("protected").expect("it is there");
    let history = History::numbered(setup, 1027).expect("a life");
    let outcome = explore(&history, &Plan::LONG, 1027, IMAGES_OF_A_HISTORY, None);
    assert!(outcome.finding.is_none(), "{}", outcome.finding.expect("one").what);
}

#[test]
fn so_it_is_when_single_blocks_are_collected() {
    explored("single-blocks");
}

#[test]
fn so_it_is_without_a_write_cache() {
    explored("write-through");
}

#[test]
fn so_it_is_with_a_journal_of_the_map() {
    explored("journal");
}

#[test]
fn so_it_is_with_a_map_on_flash() {
    explored("map-on-flash");
}

#[test]
fn so_it_is_with_an_slc_cache() {
    explored("slc-cache");
}

#[test]
fn so_it_is_with_streams_of_hot_and_cold_data() {
    explored("streams");
}

#[test]
fn so_it_is_with_a_map_of_extents() {
    explored("extents");
}

#[test]
fn so_it_is_while_the_log_of_trims_is_condensed() {
    // It is long, and read whenever an image is opened.
    explored_some("many-trims", IMAGES / 10);
}

#[test]
fn so_it_is_with_low_over_provisioning() {
    explored("low-over-provisioning");
    explored("few-blocks");
}

/// Returns true if the drive in `image` has no room when all of its program units that hold are taken over.
fn is_without_room(image: &Pages) -> bool {
    let storage = Arc::new(MemoryStorage::new(image.clone()));
    let image = Image::open_storage(storage, Path::new("memory")).expect("an image");
    let configuration = image.configuration().clone();
    let mut store = Store::new(image);
    store.survey().expect("it can be read");
    let opened = drive::recover(&configuration, store, Instant::START);
    matches!(opened, Err(RecoveryError::NoRoom { .. }))
}

#[test]
fn a_drive_that_what_is_left_would_fill_opens_with_what_was_flushed() {
    // So many writes between two flushes that free blocks run out, and parts of all of them may be left.
    const UNFLUSHED: usize = 96;
    let setup = Setup::named("low-over-provisioning").expect("it is there");
    let mut steps = Vec::new();
    for writes in setup.gc_steps(0).expect("a drive").chunks(UNFLUSHED) {
        steps.extend_from_slice(writes);
        steps.push(Step::Flush);
    }
    let history = History::record(setup, &steps).expect("a life");
    let bounds = Bounds { all: 0, single: 0, random: 100 };
    let (mut crashes, mut oracle) =
        (CrashPoints::new(history.begin.clone(), &history.log), history.initial_oracle.clone());
    let (mut without_room, mut event) = (0, 0);
    while let Some(happened) = crashes.advance() {
        if let Event::Host(mark) = happened {
            oracle.note(mark);
        }
        event += 1;
        if !crashes.is_crash_point() {
            continue;
        }
        crashes.crash().images(&history.layout, bounds, event, |image| {
            if is_without_room(&image) {
                without_room += 1;
                let during_recovery = Some(Plan::LONG.during_recovery);
                if let Err(wrong) = examine(&image, &oracle, &history, during_recovery, event) {
                    panic!("after event {event}: {wrong}");
                }
            }
            true
        });
    }
    assert!(without_room > 10, "{without_room} images that would fill the drive");
}
