//! A drive that was aged at once and one that was written until it was steady are the same drive:
//! in write amplification and in how many valid units its blocks hold, and they stay so.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::age::Workload;
use ssdlab_model::profile::{DEFAULT, Profile};
use ssdlab_model::units::{Instant, LogicalUnit};
use ssdlab_model::{Configuration, Ssd};

/// A drive of 2,048 blocks of 64 units, 12 % of them spare, with changes of its profile.
fn configuration(changes: &[(&str, &str)]) -> Configuration {
    let mut profile = Profile::named(DEFAULT).expect("the default profile");
    let small = [
        ("capacity.physical", "512M"),
        ("collection.metadata_units", "0"),
        ("flash.page_size", "4K"),
        ("flash.channels", "2"),
        ("flash.dies", "4"),
        ("flash.planes_per_die", "1"),
        ("flash.pages_per_shot", "1"),
        ("flash.pages_per_block", "16"),
        ("controller.write_buffer", "256K"),
        ("read_ahead.window", "0"),
    ];
    for (key, value) in small.iter().chain(changes).chain(&[("spare", "12%")]) {
        profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    profile.check().unwrap_or_else(|error| panic!("{error}"));
    profile.configuration().unwrap()
}

/// A drive under random writes.
struct Bench {
    workload: Workload,
    ssd: Ssd,
    now: Instant,
    generator: Pcg64Mcg,
}

impl Bench {
    fn write(&mut self, units: u32) {
        let logical = self.ssd.geometry().logical_units();
        for _ in 0..units {
            let range = match self.workload {
                Workload::Uniform => 0..logical,
                Workload::HotCold { writes, pages } => {
                    let hot = (f64::from(logical) * pages).round() as u32;
                    if self.generator.random_bool(writes) { 0..hot } else { hot..logical }
                }
            };
            let unit = LogicalUnit(self.generator.random_range(range));
            self.now = self.ssd.write(self.now, unit, 1);
        }
    }

    /// Write amplification and the mean shares of blocks by valid units over two capacities.
    fn measure(&mut self) -> (f64, Vec<f64>) {
        const SAMPLES: u32 = 40;
        let before = self.ssd.counters();
        let mut shares = vec![0.0; self.ssd.geometry().units_per_block() as usize + 1];
        for _ in 0..SAMPLES {
            self.write(2 * self.ssd.geometry().logical_units() / SAMPLES);
            let blocks = self.ssd.blocks_by_valid_units();
            let all: u32 = blocks.iter().sum();
            for (share, blocks) in shares.iter_mut().zip(blocks) {
                *share += f64::from(blocks) / f64::from(all) / f64::from(SAMPLES);
            }
        }
        let counted = self.ssd.counters().since(&before);
        (counted.write_amplification().expect("units were written"), shares)
    }
}

/// The largest difference between two distributions (Kolmogorov's distance).
fn distance(one: &[f64], other: &[f64]) -> f64 {
    let mut sum = 0.0;
    one.iter().zip(other).fold(0.0, |most, (one, other)| {
        sum += one - other;
        f64::max(most, f64::abs(sum))
    })
}

fn shares(ssd: &Ssd) -> Vec<f64> {
    let blocks = ssd.blocks_by_valid_units();
    let all = f64::from(blocks.iter().sum::<u32>());
    blocks.into_iter().map(|blocks| f64::from(blocks) / all).collect()
}

/// Prints how far a directly aged drive is from one that was written `capacities` times, and
/// fails where it is more than 1 %.
fn agree(changes: &[(&str, &str)], capacities: u32) {
    agree_under(Workload::Uniform, changes, capacities);
}

fn agree_under(workload: Workload, changes: &[(&str, &str)], capacities: u32) {
    let configuration = configuration(changes);
    let generator = Pcg64Mcg::seed_from_u64(7);
    let ssd = Ssd::aged(&configuration, workload, 1).unwrap();
    ssd.check_invariants();
    let new = shares(&ssd);
    let mut aged = Bench { workload, ssd, now: Instant::START, generator: generator.clone() };
    let mut ssd = Ssd::new(&configuration).unwrap();
    let mut now = Instant::START;
    for unit in (0..ssd.geometry().logical_units()).step_by(8) {
        let units = 8.min(ssd.geometry().logical_units() - unit);
        now = ssd.write(now, LogicalUnit(unit), units);
    }
    let mut written = Bench { workload, ssd, now, generator };
    written.write(capacities * written.ssd.geometry().logical_units());
    let (expected, expected_shares) = written.measure();
    let (found, found_shares) = aged.measure();
    aged.ssd.check_invariants();
    let amplification = found / expected - 1.0;
    let at_first = distance(&new, &expected_shares);
    let later = distance(&found_shares, &expected_shares);
    println!(
        "{workload:?}, {changes:?}: write amplification {found:.4} and {expected:.4} ({:+.2} %); blocks by valid \
         units differ by {:.2} % at first, {:.2} % over two capacities",
        amplification * 100.0,
        at_first * 100.0,
        later * 100.0
    );
    assert!(amplification.abs() < 0.01, "{changes:?}");
    assert!(at_first < 0.02 && later < 0.01, "{changes:?}");
}

#[test]
fn greedy_is_aged_at_once_as_by_writing() {
    agree(&[], 6);
    agree(&[("collection.unit", "block"), ("flash.pages_per_block", "64")], 6);
}

#[test]
fn fifo_is_aged_at_once_as_by_writing() {
    agree(&[("collection.policy", "fifo")], 6);
}

#[test]
fn hot_and_cold_units_are_aged_at_once_as_by_writing() {
    let workload = Workload::HotCold { writes: 0.8, pages: 0.2 };
    // A cold unit is written once in four capacities, and until then its block remembers the fill.
    agree_under(workload, &[("collection.policy", "fifo")], 24);
}

#[test]
fn drawn_victims_are_aged_at_once_as_by_writing() {
    // Victims that are drawn leave more to chance: a larger drive has less of it.
    agree(&[("collection.policy", "random"), ("capacity.physical", "1G")], 8);
    agree(&[("collection.policy", "d-choices"), ("collection.choices", "2")], 8);
    agree(&[("collection.policy", "d-choices"), ("collection.choices", "10")], 8);
}
