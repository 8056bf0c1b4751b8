//! Simulated requests a second: a drive of 8 GiB in steady state (`NAND_GIB` has another), as many requests as
//! it has units.
//!
//! `cargo bench -p ssdlab-nand --bench throughput`

#[path = "../tests/drive/mod.rs"]
mod drive;
mod load;

use divan::Bencher;
use divan::counter::ItemsCount;
use load::{Load, steady};

fn main() {
    divan::main();
}

#[divan::bench(args = [(Load::Reads, 20), (Load::Writes, 20), (Load::Writes, 7), (Load::Mixed, 20), (Load::Mixed, 7)], sample_count = 5, sample_size = 1)]
fn requests(bencher: Bencher, (load, spare_percent): (Load, u32)) {
    let gib = std::env::var("NAND_GIB").map_or(8, |gib| gib.parse().expect("a number of GiB"));
    let requests = u64::from(gib) << 18;
    let mut engine = steady(gib, f64::from(spare_percent) / 100.0);
    bencher
        .counter(ItemsCount::new(requests))
        .bench_local(|| engine.run(load.workload(), requests));
}
