//! fio options of a phase, for all formats of scripts.

use ssdlab_drive::{Amount, Pattern, Phase, Rate};
use ssdlab_units::Nanoseconds;

use super::Step;

/// Returns the name of a step's job: its number and the name of its phase.
pub fn step_name(number: usize, phase: &Phase) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
    };
    let words: String = phase.name.chars().map(plain).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    format!("{:03}-{}", number + 1, words.join("-"))
}

/// Returns the fio options of a phase as names and values. The engine, the target, and a rate that is a share of
/// another step's are added by each format. Bytes are written as plain numbers and times in microseconds, so that no
/// unit can be misunderstood. The drive is flushed at the end if the phase says so, or the step `next` is a flush: fio
/// flushes only what a job of it has written.
pub(super) fn fio_options_of(phase: &Phase, next: Option<&Step>) -> Vec<(&'static str, String)> {
    let reads = phase.mix.read_percent;
    let random = !phase.pattern.is_sequential();
    let kind = match (random, reads) {
        (false, 100) => "read",
        (false, 0) => "write",
        (false, _) => "rw",
        (true, 100) => "randread",
        (true, 0) => "randwrite",
        (true, _) => "randrw",
    };
    let mut options = vec![
        ("rw", kind.to_owned()),
        ("bs", phase.block_size.bytes().to_string()),
        ("iodepth", phase.depth.to_string()),
        ("offset", phase.region.offset.bytes().to_string()),
        ("size", (phase.block_size * phase.blocks()).bytes().to_string()),
    ];
    if !matches!(reads, 0 | 100) {
        options.push(("rwmixread", reads.to_string()));
    }
    match phase.amount {
        Amount::Bytes(bytes) if bytes == phase.block_size * phase.blocks() => {}
        Amount::Bytes(bytes) => options.push(("io_size", bytes.bytes().to_string())),
        Amount::Time(time) => {
            options.push(("time_based", "1".to_owned()));
            options.push(("runtime", micros(time)));
        }
    }
    if phase.pattern == Pattern::Random {
        options.push(("norandommap", "1".to_owned()));
    }
    if let Pattern::Skewed(skew) = phase.pattern {
        // Scripts are refused earlier if fio does not have this distribution.
        options.push(("random_distribution", skew.of_fio().unwrap_or_else(|| skew.to_string())));
    }
    if random {
        options.push(("randseed", phase.seed.to_string()));
    }
    if reads < 100 {
        options.push(("refill_buffers", "1".to_owned()));
    }
    match phase.rate {
        Some(Rate::RequestsPerSecond(rate)) => options.push(("rate_iops", whole(rate))),
        Some(Rate::BytesPerSecond(rate)) => options.push(("rate", whole(rate))),
        Some(Rate::Open(_)) => options.push(("rate_process", "poisson".to_owned())),
        None => {}
    }
    if phase.flush_at_end || matches!(next, Some(Step::Flush)) {
        options.push(("end_fsync", "1".to_owned()));
    }
    options
}

fn micros(time: Nanoseconds) -> String {
    format!("{}us", (time.nanos() / 1_000).max(1))
}

fn whole(rate: f64) -> String {
    format!("{}", rate.max(1.0) as u64)
}

/// Returns the seconds between two reports while a step runs, for its curve; `None` if no curve is wanted.
pub(super) fn status_interval(phase: &Phase) -> Option<u64> {
    let seconds = phase.interval.nanos() / 1_000_000_000;
    let Amount::Time(time) = phase.amount else { return None };
    (seconds > 0 && time > phase.interval).then_some(seconds)
}
