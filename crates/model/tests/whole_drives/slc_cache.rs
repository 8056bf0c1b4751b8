//! The pseudo-SLC cache of a drive that was reviewed: the Samsung PM981 512 GB writes 25 GB at
//! 1800 MB/s, and below 600 MB/s after that.
//!
//! `cargo test --release -p ssdlab-model --test whole_drives slc_cache -- --nocapture` prints the rates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ssdlab_model::ftl::Ssd;
use ssdlab_model::profile::Profile;
use ssdlab_units::{Instant, KIB, Sector, SectorCount};

/// The profile of the 1 TB model with half of its flash, and a cache. Size and rates are published;
/// the SLC program time is fitted to 1800 MB/s (16 dies of two planes of 16 KiB). What follows when
/// the cache is full is folding while writing, at what the program time of the profile leaves
/// (more than 1350 us for a word line keep it below 600 MB/s).
const CHANGES: [(&str, &str); 10] = [
    ("capacity.logical", "512 GB"),
    ("capacity.physical", "512 GiB"),
    ("flash.dies", "16"),
    ("slc.size", "25 GB"),
    ("slc.space", "dynamic"),
    ("slc.when_full", "fold"),
    ("slc.bits", "3"),
    ("slc.program", "285us"),
    ("slc.page_read", "30us"),
    ("controller.write_buffer", "16 MiB"),
];

/// Writes `gigabytes` in order from `first` GB on, 256 KiB at a time, eight in flight; MB/s.
fn rate(ssd: &mut Ssd, now: &mut Instant, first: u64, gigabytes: u64) -> f64 {
    let size = KIB * 256;
    let requests = gigabytes * 1_000_000_000 / size.bytes();
    let start = *now;
    let mut free: BinaryHeap<Reverse<Instant>> = (0..8).map(|_| Reverse(start)).collect();
    let begin = Sector(first * 1_000_000_000 / size.bytes() * size.bytes() / 512);
    for request in 0..requests {
        let Reverse(at) = free.pop().unwrap();
        let sector = begin + SectorCount::of(size * request);
        free.push(Reverse(ssd.write_sectors(at, sector, SectorCount::of(size))));
        *now = at;
    }
    (size * requests).bytes() as f64 / now.since(start).seconds() / 1e6
}

#[test]
fn a_pm981_falls_to_a_third_when_its_cache_is_full() {
    let mut profile = Profile::named("samsung-pm981").unwrap();
    for (key, value) in CHANGES {
        profile.set(key, value).unwrap();
    }
    let mut ssd = Ssd::new(&profile.configuration().unwrap()).unwrap();
    let mut now = Instant::START;
    let cached = rate(&mut ssd, &mut now, 0, 24);
    rate(&mut ssd, &mut now, 24, 4);
    let full = rate(&mut ssd, &mut now, 28, 12);
    println!("in the cache {cached:.0} MB/s, beyond {full:.0} MB/s");
    assert!((cached / 1800.0 - 1.0).abs() < 0.05, "published: 1800 MB/s; {cached:.0}");
    assert!(full < 600.0 * 1.1, "published: below 600 MB/s; {full:.0}");
    assert!(full > 300.0, "{full:.0}");
}
