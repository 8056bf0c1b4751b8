//! How many instructions the simulator takes per request: what `speed` measures, on a small drive
//! and counted by valgrind instead of timed, so that a regression shows on a noisy machine.
//!
//! `cargo run --release -p ssdlab-drive --example instructions [-- DIRECTORY]` (callgrind's
//! profiles are kept in the directory, for `callgrind_annotate`). Cache misses are not counted:
//! the prefetching that hides them costs instructions and saves time.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use common::{configuration, phase};
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Drive, Mix, Pattern, Phase, PhaseResult, Region, Unobserved};
use ssdlab_units::{ByteLength, GIB, KIB, MIB};

/// Logical capacity of the drive.
const CAPACITY: ByteLength = GIB;

/// What is counted.
struct Workload {
    name: &'static str,
    /// Over-provisioning as a share of the logical capacity.
    spare: f64,
    pattern: Pattern,
    kib: u64,
    mix: Mix,
}

const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "4 KiB random writes, 7 % spare",
        spare: 0.07,
        pattern: Pattern::Random,
        kib: 4,
        mix: Mix::WRITE,
    },
    Workload {
        name: "4 KiB random writes, 20 % spare",
        spare: 0.20,
        pattern: Pattern::Random,
        kib: 4,
        mix: Mix::WRITE,
    },
    Workload {
        name: "4 KiB random reads",
        spare: 0.20,
        pattern: Pattern::Random,
        kib: 4,
        mix: Mix::READ,
    },
    Workload {
        name: "4 KiB random, 70 % reads",
        spare: 0.20,
        pattern: Pattern::Random,
        kib: 4,
        mix: Mix { read_percent: 70 },
    },
    Workload {
        name: "64 KiB random reads",
        spare: 0.20,
        pattern: Pattern::Random,
        kib: 64,
        mix: Mix::READ,
    },
    Workload {
        name: "1 MiB sequential writes",
        spare: 0.20,
        pattern: Pattern::Sequential,
        kib: 1024,
        mix: Mix::WRITE,
    },
];

fn run(drive: &mut SimulatedDrive, mut phase: Phase) -> PhaseResult {
    // Each phase has its own seed: reading in the order of writing would find data that lies
    // together.
    phase.seed = drive.now().nanos();
    phase.region = Region::first(CAPACITY);
    drive.run_phase(&phase, &mut Unobserved).expect("a sound phase")
}

/// The part that is counted; valgrind is told its name.
#[inline(never)]
fn counted_phase(drive: &mut SimulatedDrive, phase: Phase) -> PhaseResult {
    run(drive, phase)
}

/// Within valgrind: brings a drive into its steady state, then runs the workload. Prints requests,
/// units of 4 KiB and write amplification.
fn measured(workload: &Workload) {
    let configuration = configuration(CAPACITY, workload.spare);
    let mut drive = SimulatedDrive::new("instructions", configuration).expect("a sound drive");
    run(&mut drive, phase("fill", Pattern::Sequential, MIB, Mix::WRITE, CAPACITY));
    run(&mut drive, phase("scatter", Pattern::Random, KIB * 4, Mix::WRITE, CAPACITY));
    let before = drive.inside().expect("simulated").counters;
    let block = KIB * workload.kib;
    let measured = phase(workload.name, workload.pattern, block, workload.mix, CAPACITY);
    let result = counted_phase(&mut drive, measured);
    let counted = drive.inside().expect("simulated").counters.since(&before);
    let amplification = counted.write_amplification().unwrap_or(0.0);
    println!("{} {} {amplification}", result.requests, result.bytes().whole(KIB * 4));
}

/// Runs workload number `index` under callgrind and prints its line.
fn count(index: usize, profiles: Option<&Path>) -> Result<(), String> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let kept = profiles.map(|profiles| profiles.join(format!("callgrind.{index}")));
    let kept = kept.unwrap_or_else(|| PathBuf::from("/dev/null"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted_phase*"])
        .arg(format!("--callgrind-out-file={}", kept.display()))
        .arg(myself)
        .arg("--within")
        .arg(index.to_string())
        .output()
        .map_err(|error| format!("valgrind cannot be started ({error}); is it installed?"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("valgrind failed:\n{said}"));
    }
    let after_colon = |line: &str| line.split("Collected :").nth(1)?.trim().parse::<f64>().ok();
    let instructions = said.lines().find_map(after_colon).ok_or("no count from callgrind")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> =
        printed.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let [requests, units, amplification] = figures[..] else {
        return Err(format!("not three figures: {printed}"));
    };
    println!(
        "{:32} {:9.1} instructions per request, {:7.1} per 4 KiB; write amplification \
         {amplification:.2}",
        WORKLOADS[index].name,
        instructions / requests,
        instructions / units,
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [within, index] = &arguments[..]
        && within == "--within"
    {
        measured(&WORKLOADS[index.parse::<usize>().expect("a number")]);
        return ExitCode::SUCCESS;
    }
    let profiles = arguments.first().map(Path::new);
    for index in 0..WORKLOADS.len() {
        if let Err(error) = count(index, profiles) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
