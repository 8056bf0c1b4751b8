//! Estimates before a run: what it writes to a real drive, and how long it takes.

use std::time::Duration;

use ssdlab_blockio::{EXAMINE_BYTES_MAX, PROBE_LENGTH, RealDrive};
use ssdlab_drive::{Drive, DriveKind};
use ssdlab_lab::experiment::Plan;
use ssdlab_lab::precondition::Preconditioning;
use ssdlab_lab::{Target, cpu_estimate};
use ssdlab_model::Configuration;
use ssdlab_units::{ByteLength, Nanoseconds};

use crate::progress::approximate_duration;
use crate::terminal::Terminal;

/// Assumed throughput if the drive cannot be probed: most SATA drives reach it.
const ASSUMED_BYTES_PER_SECOND: f64 = 400e6;

/// Measures the throughput of the prepared drive, and prints what the run will write, the space it needs and the time
/// it takes; returns that time. `examined` is true if the run ends with a plausibility check of the drive, which writes
/// as well.
pub fn announce(
    plan: &Plan,
    drive: &mut RealDrive,
    examined: bool,
    terminal: &Terminal,
) -> Option<Duration> {
    if terminal.quiet {
        return None;
    }
    let probed = drive.probe_throughput().ok();
    let written = bytes_written(plan, probed, examined);
    let description = drive.description();
    let place = description.name;
    if let Some(words) = drive.describe_drive() {
        terminal.note(&format!("The drive: {words}."));
    }
    if !plan.is_writing() {
        terminal.note(&format!("This run only reads {place}, and writes nothing."));
    } else {
        let amount = amount_text(plan, written);
        let whereto = if description.kind == DriveKind::Device {
            format!("the first {} of {place}", plan.space)
        } else {
            let files = plan
                .files_description
                .clone()
                .unwrap_or_else(|| format!("a file of {}", plan.space));
            format!("{files} at {place}; it is removed at the end")
        };
        terminal.note(&format!("This run writes {amount} in all, to {whereto}."));
        if plan.writing > Nanoseconds::ZERO {
            terminal.note(
                "Some of that is written for a fixed time: it is more on a drive that is faster \
                 than a short probe has shown.",
            );
        }
    }
    if plan.is_writing()
        && let Some(words) = drive.describe_endurance(written)
    {
        terminal.note(&format!("For the drive: {words}."));
    }
    terminal.note(&duration_text(plan, probed));
    terminal.note("Ctrl-C ends it early and keeps what was measured until then.");
    Some(duration(plan, probed))
}

/// Processor time below which a run is not announced.
const MIN_ANNOUNCED_TIME: Duration = Duration::from_secs(15);

/// Bytes in a saved drive for each logical and each physical unit.
const SAVED_UNIT_SIZE: ByteLength = ByteLength::new(4);

/// Prints how long a run on simulated drives will take, if that is long, and returns that time. `threads` is the number
/// of workloads that may run in parallel; `shorter` is true if `--quick` would use a smaller drive.
pub fn announce_simulated(
    plan: &Plan,
    target: &Target,
    threads: usize,
    shorter: bool,
    terminal: &Terminal,
) -> Option<Duration> {
    let all = cpu_estimate::cpu_time(plan, target)?;
    let parallel = threads.min(plan.drives.copies as usize).max(1);
    let expected = all / parallel as u32;
    if all < MIN_ANNOUNCED_TIME {
        return None;
    }
    if !terminal.quiet {
        let on = match parallel {
            1 => String::new(),
            count => format!(", {} on {count} processors", approximate_duration(expected)),
        };
        let way_out = match shorter {
            true => "; --quick runs the same protocol on a smaller drive of the same kind",
            false => "",
        };
        let text = format!(
            "This takes about {} of processor time{on}{way_out}.",
            approximate_duration(all)
        );
        terminal.note(&text);
        terminal.note("Ctrl-C ends it early and keeps what was measured until then.");
    }
    Some(expected)
}

/// Prints how long preconditioning will take, if that is long, and returns that time.
pub fn announce_preconditioning(
    drive: &Configuration,
    preconditioning: &Preconditioning,
    terminal: &Terminal,
) -> Option<Duration> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let amounts = preconditioning.amounts(drive.geometry.capacity());
    let expected = cpu_estimate::of_preconditioning(drive, &amounts, processors);
    if expected < MIN_ANNOUNCED_TIME {
        return None;
    }
    if !terminal.quiet {
        let units = [drive.geometry.logical_units(), drive.geometry.physical_units()];
        let file = SAVED_UNIT_SIZE * units.into_iter().map(u64::from).sum::<u64>();
        terminal.note(&format!(
            "This takes about {}; then a file of about {} is written.",
            approximate_duration(expected),
            two_digits(file)
        ));
    }
    Some(expected)
}

/// Returns the bytes that the run writes, those of the probe before it and of the check after it included.
fn bytes_written(plan: &Plan, probed: Option<f64>, examined: bool) -> ByteLength {
    let bytes_per_second = probed.unwrap_or(ASSUMED_BYTES_PER_SECOND);
    let check = if examined { EXAMINE_BYTES_MAX } else { ByteLength::ZERO };
    plan.writes(bytes_per_second) + plan.space.min(PROBE_LENGTH) + check
}

/// Returns the amount in words: an upper bound, or an estimate if it depends on the drive's speed.
fn amount_text(plan: &Plan, written: ByteLength) -> String {
    if plan.writing > Nanoseconds::ZERO {
        format!("about {}", two_digits(written))
    } else {
        format!("at most {written}")
    }
}

/// Returns a length with two digits, the precision of an estimate.
fn two_digits(length: ByteLength) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| length.bytes() >= *unit).unwrap_or((1 << 10, "KiB"));
    let value = length.bytes() as f64 / unit as f64;
    let step = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(-1.0));
    let decimals = usize::from(step < 1.0);
    format!("{:.decimals$} {name}", (value / step).round() * step)
}

fn duration(plan: &Plan, probed: Option<f64>) -> Duration {
    plan.estimate(probed.unwrap_or(ASSUMED_BYTES_PER_SECOND)).into()
}

fn duration_text(plan: &Plan, probed: Option<f64>) -> String {
    let bytes_per_second = probed.unwrap_or(ASSUMED_BYTES_PER_SECOND);
    let whole = duration(plan, probed);
    let rests = Duration::from(plan.rests);
    let speed = format!("{:.0} MB/s", bytes_per_second / 1e6);
    let basis = match probed {
        Some(_) => format!("at the {speed} of a short probe"),
        None => format!("assuming {speed}, since a short probe failed"),
    };
    let resting = if rests.is_zero() {
        String::new()
    } else {
        format!(", {} of it at rest", approximate_duration(rests))
    };
    let sooner = if plan.until_steady > 0 { ", less if it is steady sooner" } else { "" };
    format!("It takes about {} {basis}{resting}{sooner}.", approximate_duration(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_units::MIB;

    #[test]
    fn the_short_try_is_part_of_what_is_written() {
        let plan = |space| Plan { sequential_writes: space, space, ..Plan::default() };
        assert_eq!(bytes_written(&plan(MIB * 16), None, false), MIB * 32);
        assert_eq!(bytes_written(&plan(MIB * 1024), None, false), MIB * 1152);
        assert_eq!(bytes_written(&plan(MIB * 16), None, true), MIB * 32 + EXAMINE_BYTES_MAX);
    }

    #[test]
    fn writing_for_a_time_writes_what_the_drive_takes_in_it() {
        let plan = Plan { writing: Nanoseconds::from_secs(10), ..Plan::default() };
        assert_eq!(bytes_written(&plan, Some(50e6), false), ByteLength::new(500_000_000));
    }

    #[test]
    fn only_an_amount_has_an_upper_bound() {
        let by_amount = Plan { sequential_writes: MIB * 400, ..Plan::default() };
        assert_eq!(amount_text(&by_amount, MIB * 528), "at most 528 MiB");
        let by_time = Plan { writing: Nanoseconds::from_secs(10), ..by_amount };
        assert_eq!(amount_text(&by_time, MIB * 23_398), "about 23 GiB");
        assert_eq!(two_digits(MIB * 1_234_567), "1.2 TiB");
        assert_eq!(two_digits(MIB * 235_000), "230 GiB");
        assert_eq!(two_digits(MIB * 1023), "1000 MiB");
    }

    #[test]
    fn what_is_no_small_random_write_has_its_own_time() {
        let plan = Plan {
            large_random_writes: ByteLength::new(1_000_000_000),
            fixed_time: Nanoseconds::from_secs(30),
            ..Plan::default()
        };
        assert!(duration_text(&plan, Some(100e6)).contains("about 50s"));
        assert!(plan.is_writing());
        assert_eq!(plan.writes(100e6), ByteLength::new(1_000_000_000));
        let ended = Plan { limit: Some(Nanoseconds::from_secs(7)), ..plan };
        assert!(duration_text(&ended, Some(100e6)).contains("about 7s"));
    }

    #[test]
    fn small_requests_write_less_in_the_same_time() {
        let writes = |kib: u64, depth: u32| {
            let timed_requests = (vec![ByteLength::new(kib << 10)], depth);
            let writing = Nanoseconds::from_secs(100);
            let plan = Plan { writing, timed_requests, ..Plan::default() };
            plan.writes(100e6).bytes() as f64 / 1e10
        };
        assert!((writes(4, 1) - 0.08).abs() < 0.001, "{}", writes(4, 1));
        assert!((writes(4, 32) - 0.736).abs() < 0.001, "{}", writes(4, 32));
        assert!(writes(1024, 4) > 0.98);
    }

    #[test]
    fn what_ends_when_it_is_steady_may_end_sooner() {
        let plan = Plan { reading: Nanoseconds::from_secs(60), until_steady: 1, ..Plan::default() };
        assert!(duration_text(&plan, None).contains("less if it is steady sooner"));
    }

    #[test]
    fn the_words_say_how_long_and_why() {
        let plan = Plan {
            sequential_writes: MIB * 400,
            rests: Nanoseconds::from_secs(30),
            ..Plan::default()
        };
        let words = duration_text(&plan, Some(100e6));
        assert_eq!(
            words,
            "It takes about 35s at the 100 MB/s of a short probe, 30s of it at rest."
        );
        assert!(duration_text(&plan, None).contains("assuming 400 MB/s"));
    }
}
