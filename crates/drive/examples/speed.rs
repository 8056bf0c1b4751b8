//! How fast the simulator is: 4 KiB uniform random writes and reads at depth 32, everything
//! timed, once collection is steady. Prints simulated requests per second of processor time, with
//! the write amplification and flash programs that go with them.
//!
//! `cargo run --release -p ssdlab-drive --example speed [-- 480 | cached | extent]` (the argument
//! adds the large drive, which needs about 1.1 GiB of memory, one with a tenth of its map in RAM, or one with
//! a table of extents that takes half of the RAM of its map). On a machine with other work on it, count
//! instructions instead: the example `instructions`.

mod common;

use common::{configuration, phase, with_cached_map, with_extent_map};
use ssdlab_drive::memory::HugePageAllocator;
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Drive, Mix, Pattern, Phase, PhaseResult, Region, Unobserved};
use ssdlab_model::Configuration;
use ssdlab_units::{ByteLength, GIB, KIB, MIB};

#[global_allocator]
static ALLOCATOR: HugePageAllocator = HugePageAllocator;

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs a phase over the whole drive. Each has its own seed: reading in the order of writing
/// would find data that lies together.
fn measure(drive: &mut SimulatedDrive, mut phase: Phase) -> (PhaseResult, f64) {
    phase.seed = drive.now().nanos();
    phase.region = Region::first(drive.description().capacity);
    let before = cpu_seconds();
    let result = drive.run_phase(&phase, &mut Unobserved).expect("a sound phase");
    (result, cpu_seconds() - before)
}

fn run(capacity: ByteLength, spare: f64) {
    measure_all(configuration(capacity, spare), capacity, spare);
}

fn measure_all(configuration: Configuration, capacity: ByteLength, spare: f64) {
    let mut drive = SimulatedDrive::new("speed", configuration).expect("a sound drive");
    let block = KIB * 4;
    let fill = phase("fill", Pattern::Sequential, MIB, Mix::WRITE, capacity);
    let (filled, fill_cpu) = measure(&mut drive, fill);
    // Until the state no longer depends on the fill: two capacities at random.
    let scatter = phase("scatter", Pattern::Random, block, Mix::WRITE, capacity * 2);
    measure(&mut drive, scatter);
    let before = drive.inside().expect("simulated").counters;
    let writes = phase("writes", Pattern::Random, block, Mix::WRITE, capacity);
    let (written, write_cpu) = measure(&mut drive, writes);
    let counted = drive.inside().expect("simulated").counters.since(&before);
    let reads = phase("reads", Pattern::Random, block, Mix::READ, capacity * 2);
    let (read, read_cpu) = measure(&mut drive, reads);
    let large = phase("large reads", Pattern::Random, KIB * 64, Mix::READ, capacity);
    let (_, large_cpu) = measure(&mut drive, large);
    let per_cpu = |requests: u64, cpu: f64| requests as f64 / cpu / 1e6;
    println!(
        "{capacity}, {:.0} % spare of logical: {:.2} M writes/s of CPU (write amplification {:.3}, \
         {:.1} M programmed units/s, {:.0} simulated IOPS); {:.2} M reads/s of CPU ({:.0} simulated \
         IOPS); 64 KiB reads {:.1} M units/s; fill {:.1} M units/s",
        spare * 100.0,
        per_cpu(written.requests, write_cpu),
        counted.write_amplification().expect("units were written"),
        per_cpu(counted.flash_write_units(), write_cpu),
        written.requests as f64 / written.elapsed.seconds(),
        per_cpu(read.requests, read_cpu),
        read.requests as f64 / read.elapsed.seconds(),
        per_cpu(capacity.whole(block), large_cpu),
        per_cpu(filled.requests * 256, fill_cpu),
    );
    if counted.condensed_regions > 0 {
        println!(
            "  of each host write: {:.3} units programmed to condense, {:.3} to collect",
            counted.program_units_condensing as f64 / written.requests as f64,
            counted.program_units_collection as f64 / written.requests as f64,
        );
    }
    if counted.map_hits + counted.map_misses > 0 {
        println!(
            "  of each host write: {:.3} map hits, {:.3} map page reads, {:.3} map pages programmed, \
             {} collections of metadata blocks in all",
            counted.map_hits as f64 / written.requests as f64,
            counted.map_page_reads as f64 / written.requests as f64,
            counted.program_units_map as f64 / written.requests as f64,
            counted.map_collections,
        );
    }
}

fn main() {
    run(GIB * 8, 0.07);
    run(GIB * 8, 0.20);
    match std::env::args().nth(1).as_deref() {
        Some("480") => run(GIB * 480, 0.07),
        Some("cached") => {
            for spare in [0.07, 0.20] {
                let configuration = with_cached_map(configuration(GIB * 8, spare), 0.1);
                measure_all(configuration, GIB * 8, spare);
            }
        }
        Some("extent") => {
            for spare in [0.07, 0.20] {
                let configuration = with_extent_map(configuration(GIB * 8, spare), 0.5);
                measure_all(configuration, GIB * 8, spare);
            }
        }
        _ => {}
    }
}
