//! Fits a profile's three free parameters (page read, command latency, link rate) to the three
//! published columns of the fragmentation table, and prints the errors.
//!
//! `cargo run --release -p ssdlab-lab --example fit_fragmentation [NAME key=value ...]`
use ssdlab_drive::memory::LargePages;
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};
use ssdlab_model::profile::Profile;
use ssdlab_model::units::{ByteLength, GIB, KIB, MIB, Nanoseconds};

#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

const FILE: ByteLength = ByteLength::new(1 << 30);

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

/// Seconds to read 4 GiB at fill and after 50, 250, 1050, 5050 MiB.
fn columns(profile: &Profile) -> [f64; 5] {
    let mut drive = SimulatedDrive::new("fit", profile.configuration().unwrap()).unwrap();
    let mut run = |phase: &Phase| drive.run_phase(phase, &mut Unobserved).unwrap().elapsed;
    let scale = (GIB * 4).whole(FILE);
    run(&phase(Pattern::Sequential, MIB, Mix::WRITE, FILE, 1));
    let mut result = [0.0; 5];
    for (step, mib) in [0, 50, 200, 800, 4000].into_iter().enumerate() {
        if mib > 0 {
            let bytes = KIB * 4 * (MIB * mib).whole(KIB * 4 * scale);
            run(&phase(Pattern::RandomOnce, KIB * 4, Mix::WRITE, bytes, 100 + step as u64));
        }
        let read = run(&phase(Pattern::Sequential, MIB, Mix::READ, FILE, 1));
        result[step] = read.seconds() * scale as f64;
    }
    result
}

const PUBLISHED: [(&str, [f64; 3]); 10] = [
    ("intel-s3510", [10.7, 10.8, 10.8]),
    ("toshiba-xg5", [1.9, 3.7, 6.8]),
    ("samsung-pm963", [2.8, 3.5, 4.2]),
    ("samsung-pm983", [3.3, 3.4, 3.4]),
    ("samsung-pm981", [1.8, 2.1, 3.5]),
    ("samsung-pm1725b", [1.8, 2.0, 2.9]),
    ("micron-5200", [9.3, 10.4, 10.7]),
    ("samsung-pm883", [7.9, 8.1, 8.0]),
    ("intel-p3520", [5.8, 6.0, 5.8]),
    ("intel-p4500", [4.2, 4.3, 4.3]),
];

fn errors(columns: &[f64; 5], published: &[f64; 3]) -> [f64; 3] {
    [0, 2, 4]
        .map(|step| columns[step])
        .iter()
        .zip(published)
        .map(|(c, p)| c / p - 1.0)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = arguments.first().filter(|a| !a.contains('='));
    let sets: Vec<(&str, &str)> = arguments.iter().filter_map(|a| a.split_once('=')).collect();
    for (name, published) in PUBLISHED {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let make = |x: &[f64; 3]| {
            let mut profile = Profile::named(name).unwrap();
            profile.set("flash.page_read", &format!("{}ns", (x[0] * 1000.0) as u64)).unwrap();
            profile
                .set("controller.command_latency", &format!("{}ns", (x[1] * 1000.0) as u64))
                .unwrap();
            profile.set("link.mb_per_second", &format!("{}", x[2])).unwrap();
            for (k, v) in &sets {
                profile.set(k, v).unwrap();
            }
            profile
        };
        let low = [40.0, 5.0, published[0]];
        let low = [low[0], low[1], 4295.0 / published[0]];
        let high = [100.0, 400.0, 4295.0 / published[0] * 1.6];
        let cost = |x: &[f64; 3]| {
            let c = columns(&make(x));
            let e = errors(&c, &published);
            (
                e.iter().map(|e| e.abs()).fold(0.0, f64::max)
                    + e.iter().map(|e| e.abs()).sum::<f64>() / 10.0,
                c,
            )
        };
        let mut x = [70.0, 60.0, 4295.0 / published[0] * 1.1];
        let (mut best, mut at) = cost(&x);
        let mut step = [20.0, 60.0, 4295.0 / published[0] * 0.1];
        for _round in 0..14 {
            for dimension in 0..3 {
                for sign in [1.0, -1.0] {
                    let mut y = x;
                    y[dimension] = (x[dimension] + sign * step[dimension])
                        .clamp(low[dimension], high[dimension]);
                    // link and latency trade against each other at the fill
                    let (c, columns) = cost(&y);
                    if c < best {
                        best = c;
                        at = columns;
                        x = y;
                        break;
                    }
                }
            }
            for (first, second) in [(1, 2), (0, 1), (0, 2)] {
                for (s1, s2) in [(1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)] {
                    let mut y = x;
                    y[first] = (x[first] + s1 * step[first]).clamp(low[first], high[first]);
                    y[second] = (x[second] + s2 * step[second]).clamp(low[second], high[second]);
                    let (c, columns) = cost(&y);
                    if c < best {
                        best = c;
                        at = columns;
                        x = y;
                        break;
                    }
                }
            }
            for s in &mut step {
                *s *= 0.7;
            }
        }
        let e = errors(&at, &published);
        println!(
            "{name:16} page_read {:.1}us latency {:.1}us link {:.0} | {:.2} {:.2} {:.2} {:.2} {:.2} | {:+.1}% {:+.1}% {:+.1}%",
            x[0],
            x[1],
            x[2],
            at[0],
            at[1],
            at[2],
            at[3],
            at[4],
            e[0] * 100.,
            e[1] * 100.,
            e[2] * 100.
        );
    }
}
