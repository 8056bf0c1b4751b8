//! Instructions a request, counted under valgrind, which a noisy machine does not change: 100,000
//! requests to a drive of 1 GiB in steady state. Needs valgrind and `cargo install gungraun-runner`.
//!
//! `cargo bench -p ssdlab-nand --bench instructions`

#![expect(missing_docs, reason = "the macros make items that have no place for documentation")]

#[path = "../tests/drive/mod.rs"]
mod drive;
mod load;

use std::hint::black_box;

use drive::Engine;
use gungraun::prelude::*;
use load::{Load, steady};

fn prepared(load: Load, spare: f64) -> (Engine, Load) {
    (steady(1, spare), load)
}

#[library_benchmark]
#[bench::reads(prepared(Load::Reads, 0.20))]
#[bench::writes_at_20_percent(prepared(Load::Writes, 0.20))]
#[bench::writes_at_7_percent(prepared(Load::Writes, 0.07))]
#[bench::mixed_at_20_percent(prepared(Load::Mixed, 0.20))]
fn requests((mut engine, load): (Engine, Load)) -> Engine {
    engine.run(black_box(load.workload()), 100_000);
    engine
}

library_benchmark_group!(name = engine; benchmarks = requests);
main!(library_benchmark_groups = engine);
