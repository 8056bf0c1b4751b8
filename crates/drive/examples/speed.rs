//! How fast the simulator is: 4 KiB uniform random writes and reads at depth 32, everything
//! timed, once collection is steady. Prints simulated requests per second of processor time, with
//! the write amplification and flash programs that go with them.
//!
//! `cargo run --release -p ssdlab-drive --example speed [-- 480]` (the argument adds the large
//! drive, which needs about 1.1 GiB of memory).

use ssdlab_drive::memory::LargePages;
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, PhaseResult, Region, Unobserved};
use ssdlab_model::Configuration;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::geometry::{Geometry, GeometryParameters};
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::timing::{Delivery, Timing, TransferRate};
use ssdlab_model::units::{ByteLength, GIB, KIB, MIB, Nanoseconds};

#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

/// 32 dies on 8 channels, two planes, 16 KiB pages, superblocks of 4,096 units; spare area as a
/// share of the logical capacity, blocks that are always free or open not counted.
fn configuration(capacity: ByteLength, spare_of_logical: f64) -> Configuration {
    let collection = CollectionParameters { low_water: 6, idle_high_water: 6, debt_max: 8 };
    let units_per_block = 4096;
    let logical_units = capacity.whole(KIB * 4) as u32;
    let usable = (f64::from(logical_units) * (1.0 + spare_of_logical)) as u32;
    let blocks = usable.div_ceil(units_per_block) + collection.low_water + 2;
    let geometry = Geometry::new(GeometryParameters {
        channels: 8,
        dies: 32,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 16,
        page_size: KIB * 16,
        unit_size: KIB * 4,
        dies_per_collection_unit: 32,
        collection_units: blocks,
        metadata_collection_units: 0,
        logical_units,
    })
    .expect("a sound geometry");
    assert_eq!(geometry.units_per_block(), units_per_block);
    Configuration {
        geometry,
        timing: Timing {
            page_read: Nanoseconds::from_micros(60),
            program: Nanoseconds::from_micros(600),
            erase: Nanoseconds::from_millis(3),
            channel: TransferRate::from_mb_per_second(800.0),
            link: TransferRate::from_mb_per_second(3300.0),
            link_full_duplex: true,
            delivery: Delivery::AnyOrder,
            command_latency: Nanoseconds::from_micros(10),
            command_occupancy: Nanoseconds::new(1_000),
        },
        buffer: BufferParameters {
            units: 1024,
            protected: false,
            idle_before_flush: Nanoseconds::from_millis(100),
        },
        read_ahead: ReadAheadParameters { window: 256, segment: 32, trigger: 2 },
        collection,
        trim: true,
        mechanisms: ssdlab_model::mechanisms::Mechanisms::default(),
    }
}

fn phase(name: &str, pattern: Pattern, block: ByteLength, mix: Mix, bytes: ByteLength) -> Phase {
    Phase {
        name: name.to_owned(),
        pattern,
        block_size: block,
        depth: 32,
        mix,
        region: Region::first(ByteLength::ZERO),
        amount: Amount::Bytes(bytes),
        rate: None,
        seed: 1,
        flush_at_end: false,
        interval: Nanoseconds::from_secs(1),
    }
}

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
    let configuration = configuration(capacity, spare);
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
}

fn main() {
    run(GIB * 8, 0.07);
    run(GIB * 8, 0.20);
    if std::env::args().nth(1).as_deref() == Some("480") {
        run(GIB * 480, 0.07);
    }
}
