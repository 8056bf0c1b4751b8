//! What one request costs the generator itself: every pattern, against a drive that does nothing.
//!
//! `cargo run --release -p ssdlab-blockio --example generator_overhead`. A directory as argument
//! measures 4 KiB random requests on the drive below it as well, after filling 1 GiB.

use std::path::Path;

use ssdlab_blockio::data::BlockData;
use ssdlab_blockio::{Engine, RealDrive, RealOptions, run_on_null_target};
use ssdlab_drive::{Amount, Drive, DriveError, Mix, Pattern, Phase, Region, Unobserved};
use ssdlab_units::{ByteLength, GIB, KIB, MIB, Nanoseconds};

fn phase(pattern: Pattern, mix: Mix, depth: u32, amount: Amount) -> Phase {
    Phase {
        name: "overhead".into(),
        pattern,
        block_size: KIB * 4,
        depth,
        mix,
        region: Region::first(GIB),
        amount,
        rate: None,
        seed: 1,
        flush_at_end: false,
        interval: Nanoseconds::from_secs(1),
    }
}

/// Processor time of this process so far, in nanoseconds.
fn processor_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The least of several tries: what else runs on the machine only adds.
fn cost(phase: &Phase) -> Result<f64, DriveError> {
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        let before = processor_nanos();
        let result = run_on_null_target(phase)?;
        let nanos = (processor_nanos() - before) as f64;
        least = least.min(nanos / result.requests as f64);
    }
    Ok(least)
}

const TRIES: u32 = 10;
const REQUESTS: u64 = 2_000_000;

fn on_null_target() -> Result<(), DriveError> {
    println!("ns of processor time a request, of 4 KiB, the least of {TRIES} tries");
    println!("pattern     reads  ns per request");
    for pattern in [Pattern::Sequential, Pattern::Random, Pattern::RandomOnce] {
        for read_percent in [100, 50, 0] {
            let amount = Amount::Bytes(KIB * 4 * REQUESTS);
            let cost = cost(&phase(pattern, Mix { read_percent }, 1, amount))?;
            println!("{:11} {read_percent:4} %  {cost:6.1}", format!("{pattern:?}"));
        }
    }
    println!("(writes include their data: every sector of every write is unlike any other)");
    Ok(())
}

fn data() {
    let data = BlockData::new(1);
    for length in [KIB * 4, MIB] {
        let mut buffer = vec![0; length.bytes() as usize];
        let times = (GIB * 4).whole(length);
        let clock = std::time::Instant::now();
        for sequence in 0..times {
            data.fill(&mut buffer, ByteLength::ZERO, sequence);
            std::hint::black_box(&mut buffer);
        }
        let speed = (GIB * 4).bytes() as f64 / 1e9 / clock.elapsed().as_secs_f64();
        println!("data in blocks of {length}: {speed:.1} GB/s");
    }
}

fn on_drive(path: &Path) -> Result<(), DriveError> {
    for engine in [Engine::Auto, Engine::Threads] {
        let options = RealOptions { engine, ..RealOptions::default() };
        let mut drive = RealDrive::open(path, options)?;
        drive.prepare(GIB)?;
        println!("{:#?}", drive.description());
        println!("probe: {:.0} MB/s", drive.probe_throughput()? / 1e6);
        let mut fill = phase(Pattern::Sequential, Mix::WRITE, 4, Amount::Bytes(GIB));
        fill.block_size = MIB;
        fill.flush_at_end = true;
        let result = drive.run_phase(&fill, &mut Unobserved)?;
        println!("fill: {:.0} MB/s", result.mb_per_second());
        for (mix, name) in [(Mix::READ, "read"), (Mix::WRITE, "write")] {
            for depth in [1, 8, 32] {
                let time = Amount::Time(Nanoseconds::from_secs(2));
                let phase = phase(Pattern::Random, mix, depth, time);
                let result = drive.run_phase(&phase, &mut Unobserved)?;
                let rate = result.requests as f64 / result.elapsed.seconds();
                println!("{name} at depth {depth}: {rate:.0} requests/s");
            }
        }
        println!("caveats at the end: {:?}", drive.description().caveats);
        drive.clean_up()?;
    }
    Ok(())
}

fn main() -> Result<(), DriveError> {
    on_null_target()?;
    data();
    match std::env::args_os().nth(1) {
        Some(path) => on_drive(Path::new(&path)),
        None => Ok(()),
    }
}
