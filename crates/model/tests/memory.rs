//! What a drive takes of memory against what is said beforehand. In a process of its own, so that
//! nothing else takes any meanwhile.

#![cfg(target_os = "linux")]

use ssdlab_model::ftl::Ssd;
use ssdlab_model::profile::Profile;
use ssdlab_units::{ByteLength, Instant, LogicalUnit};

/// Memory of this process that is there.
fn resident() -> u64 {
    let words = std::fs::read_to_string("/proc/self/statm").unwrap();
    words.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_drive_takes_the_memory_that_is_said_of_it() {
    for changes in [
        &[][..],
        &[("collection.unit", "block"), ("flash.dies", "64"), ("flash.pages_per_block", "96")],
        &[("collection.policy", "cost-benefit"), ("flash.pages_per_block", "48")],
    ] {
        let mut profile = Profile::named("generic-tlc").unwrap();
        profile.set("capacity.physical", "64GiB").unwrap();
        profile.set("spare", "7%").unwrap();
        for (key, value) in changes {
            profile.set(key, value).unwrap();
        }
        let configuration = profile.configuration().unwrap();
        let unit = configuration.geometry.unit_size();
        let units = configuration.geometry.logical_units();
        let before = resident();
        let mut drive = Ssd::new(&configuration).unwrap();
        let mut at = Instant::START;
        let mut written = 0;
        // A tenth of it, all of it, and as much again: the reverse map goes on when the map is full.
        for until in [units / 10, units, units * 2] {
            while written < until {
                at = drive.write(at, LogicalUnit(written % (units - 63)), 64);
                written += 64;
            }
            let area = unit * u64::from(written.min(units));
            let said = configuration.memory(area, unit * u64::from(written)).bytes() as f64;
            let taken = (resident() - before) as f64;
            println!("{changes:?} {}: {taken} of {said}", unit * u64::from(written));
            assert!((0.9..1.1).contains(&(taken / said)), "{changes:?}: {taken}, not {said}");
        }
        let full = configuration.memory_when_full();
        assert_eq!(full, configuration.memory(ByteLength::new(1 << 40), ByteLength::new(1 << 40)));
        drop(drive);
    }
}
