//! Fits the three free parameters of a profile to the published fragmentation table.
//!
//! Three columns of that table are used: seconds to read 4 GiB at fill, after 250 and after 5050
//! MiB of random writes. Three numbers are free, each with its own mechanism: the page read (how
//! long a die is busy), the command latency (what every request pays) and the link rate (what
//! bounds a whole read). Whatever else a profile says stays as it is; `key=value` arguments try
//! another choice. The columns after 50 and 1050 MiB are printed as predictions and never used.
//!
//! `cargo run --release -p ssdlab-lab --example fit_fragmentation [NAME] [key=value ...]`

#[path = "../tests/published/table.rs"]
mod table;

use ssdlab_drive::memory::HugePageAllocator;
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};
use ssdlab_model::profile::Profile;
use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};
use table::PUBLISHED;

#[global_allocator]
static ALLOCATOR: HugePageAllocator = HugePageAllocator;

/// A smaller file than the published 4 GiB, for speed: amounts shrink with it, so the shares of
/// blocks moved, which is all that matters, are the same.
const FILE: ByteLength = ByteLength::new(512 << 20);
const PUBLISHED_FILE: ByteLength = ByteLength::new(4 << 30);
const STEPS_MIB: [u64; 5] = [0, 50, 200, 800, 4000];

/// Page reads that flash of these years has, in microseconds.
const PAGE_READ_US: (f64, f64) = (40.0, 100.0);
/// What a command may cost beyond data, in microseconds.
const LATENCY_US: (f64, f64) = (5.0, 400.0);

fn phase(pattern: Pattern, block: ByteLength, mix: Mix, bytes: ByteLength, seed: u64) -> Phase {
    Phase {
        name: "fit".to_owned(),
        pattern,
        block_size: block,
        depth: 1,
        mix,
        region: Region::first(FILE),
        amount: Amount::Bytes(bytes),
        rate: None,
        seed,
        flush_at_end: mix == Mix::WRITE,
        interval: Nanoseconds::ZERO,
    }
}

/// Seconds to read 4 GiB after each step.
fn columns(profile: &Profile) -> [f64; 5] {
    let configuration = profile.configuration().expect("a sound profile");
    let mut drive = SimulatedDrive::new("fit", configuration).expect("a sound drive");
    let mut run = |phase: &Phase| drive.run_phase(phase, &mut Unobserved).expect("it fits").elapsed;
    let scale = PUBLISHED_FILE.whole(FILE);
    run(&phase(Pattern::Sequential, MIB, Mix::WRITE, FILE, 1));
    STEPS_MIB.map(|mib| {
        if mib > 0 {
            let bytes = KIB * 4 * (MIB * mib).whole(KIB * 4 * scale);
            run(&phase(Pattern::RandomOnce, KIB * 4, Mix::WRITE, bytes, 100 + mib));
        }
        run(&phase(Pattern::Sequential, MIB, Mix::READ, FILE, 1)).seconds() * scale as f64
    })
}

/// Free parameters: page read in us, command latency in us, link in MB/s.
type Free = [f64; 3];

fn profile_with(name: &str, sets: &[(String, String)], free: &Free) -> Profile {
    let mut profile = Profile::named(name).expect("an embedded profile");
    let mut set = |key: &str, value: &str| profile.set(key, value).expect("a valid change");
    set("flash.page_read", &format!("{}ns", (free[0] * 1000.0) as u64));
    set("controller.command_latency", &format!("{}ns", (free[1] * 1000.0) as u64));
    set("link.mb_per_second", &free[2].to_string());
    for (key, value) in sets {
        set(key, value);
    }
    profile
}

fn errors(columns: &[f64; 5], published: &[f64; 3]) -> [f64; 3] {
    let used = [columns[0], columns[2], columns[4]];
    std::array::from_fn(|index| used[index] / published[index] - 1.0)
}

/// The largest error, and a little of the others.
fn cost(errors: &[f64; 3]) -> f64 {
    let largest = errors.iter().map(|error| error.abs()).fold(0.0, f64::max);
    largest + errors.iter().map(|error| error.abs()).sum::<f64>() / 10.0
}

/// A pattern search: along each axis and each pair of axes, with shrinking steps.
fn fit(name: &str, sets: &[(String, String)], published: &[f64; 3]) -> (Free, [f64; 5]) {
    let link = PUBLISHED_FILE.bytes() as f64 / 1e6 / published[0];
    let low = [PAGE_READ_US.0, LATENCY_US.0, link];
    let high = [PAGE_READ_US.1, LATENCY_US.1, link * 1.6];
    let mut at: Free = [70.0, 60.0, link * 1.1];
    let mut step = [20.0, 60.0, link * 0.1];
    let try_at = |free: &Free| {
        let columns = columns(&profile_with(name, sets, free));
        (cost(&errors(&columns, published)), columns)
    };
    let (mut best, mut best_columns) = try_at(&at);
    let directions: Vec<[f64; 3]> = (0..27)
        .map(|code| [code / 9 % 3, code / 3 % 3, code % 3].map(|digit| f64::from(digit) - 1.0))
        .filter(|d| (1..=2).contains(&d.iter().filter(|&&x| x != 0.0).count()))
        .collect();
    for _ in 0..12 {
        for direction in &directions {
            let next: Free = std::array::from_fn(|axis| {
                (at[axis] + direction[axis] * step[axis]).clamp(low[axis], high[axis])
            });
            let (next_cost, columns) = try_at(&next);
            if next_cost < best {
                (best, best_columns, at) = (next_cost, columns, next);
            }
        }
        step = step.map(|length| length * 0.65);
    }
    (at, best_columns)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = arguments.iter().find(|argument| !argument.contains('='));
    let sets: Vec<(String, String)> = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    println!(
        "name             read us  latency us  link MB/s | fill    50   250  1050  5050 | errors"
    );
    for (name, published) in PUBLISHED {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let (free, columns) = fit(name, &sets, &published);
        let errors = errors(&columns, &published).map(|error| format!("{:+.1}%", error * 100.0));
        println!(
            "{name:16} {:7.1} {:11.1} {:10.0} | {} | {}",
            free[0],
            free[1],
            free[2],
            columns.map(|seconds| format!("{seconds:5.2}")).join(" "),
            errors.join(" ")
        );
    }
}
