//! What was flushed is in every image that a crash of the host may leave.

use ssdlab_image_crash::explore::{Plan, explore};
use ssdlab_image_crash::history::History;
use ssdlab_image_crash::setup::Setup;

/// Images of each kind of drive.
const IMAGES: u64 = 5000;

/// Opens images of the histories of one kind of drive.
fn explored(drive: &str) {
    let setup = Setup::named(drive).expect("it is there");
    let (mut images, mut number) = (0, 0);
    while images < IMAGES {
        number += 1;
        let history = History::numbered(setup, number)
            .unwrap_or_else(|error| panic!("--drive {drive} --seed {number}: {error:#}"));
        let plan = if number % 4 == 0 { Plan::SHORT } else { Plan::LONG };
        let outcome = explore(&history, &plan, number, 400, None);
        images += outcome.images;
        if let Some(found) = outcome.finding {
            let case = format!("crash --drive {drive} --seed {number} --only {}", found.image);
            panic!("{case}: {}", found.what);
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
