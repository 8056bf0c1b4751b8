//! What a run will do to a real drive, said before it does it.

use std::time::Duration;

use ssdlab_drive::real::{EXAMINED, PROBE_LENGTH, RealDrive};
use ssdlab_drive::{Drive, DriveKind};
use ssdlab_lab::experiment::Plan;
use ssdlab_model::units::ByteLength;

use crate::progress::about;
use crate::terminal::Terminal;

/// Taken where the drive does not let itself be tried: what most SATA drives reach.
const ASSUMED_BYTES_PER_SECOND: f64 = 400e6;

/// Tries how fast the prepared drive is, and says what the run will write, how much space it
/// needs and how long it takes; returns that time. `examined` is whether the run ends with a look
/// at how far the drive is to be believed, which writes as well.
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
    let written = writes(plan, probed, examined);
    let description = drive.description();
    let place = description.name;
    if !plan.is_writing() {
        terminal.note(&format!("This run only reads {place}, and writes nothing."));
    } else if description.kind == DriveKind::Device {
        terminal.note(&format!(
            "This run writes at most {written} in all, to the first {} of {place}.",
            plan.space
        ));
    } else {
        let made = plan.made.clone().unwrap_or_else(|| format!("a file of {}", plan.space));
        terminal.note(&format!(
            "This run writes at most {written} in all, to {made} at {place} that is removed at \
             the end."
        ));
    }
    if plan.is_writing()
        && let Some(words) = drive.endurance_words(written)
    {
        terminal.note(&format!("For the drive: {words}."));
    }
    terminal.note(&duration_words(plan, probed));
    terminal.note("Ctrl-C ends it early and keeps what was measured until then.");
    Some(duration(plan, probed))
}

/// What the run writes, with what the short try before it and the look after it do.
fn writes(plan: &Plan, probed: Option<f64>, examined: bool) -> ByteLength {
    let bytes_per_second = probed.unwrap_or(ASSUMED_BYTES_PER_SECOND);
    let look = if examined { EXAMINED } else { ByteLength::ZERO };
    plan.writes(bytes_per_second) + plan.space.min(PROBE_LENGTH) + look
}

fn duration(plan: &Plan, probed: Option<f64>) -> Duration {
    plan.estimate(probed.unwrap_or(ASSUMED_BYTES_PER_SECOND)).into()
}

fn duration_words(plan: &Plan, probed: Option<f64>) -> String {
    let bytes_per_second = probed.unwrap_or(ASSUMED_BYTES_PER_SECOND);
    let whole = duration(plan, probed);
    let rests = Duration::from(plan.rests);
    let speed = format!("{:.0} MB/s", bytes_per_second / 1e6);
    let basis = match probed {
        Some(_) => format!("at the {speed} that a short try has shown"),
        None => format!("assuming {speed}, for a short try has failed"),
    };
    let resting =
        if rests.is_zero() { String::new() } else { format!(", {} of it rests", about(rests)) };
    format!("It takes about {} {basis}{resting}.", about(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_model::units::{MIB, Nanoseconds};

    #[test]
    fn the_short_try_is_part_of_what_is_written() {
        let plan = |space| Plan { sequential_writes: space, space, ..Plan::default() };
        assert_eq!(writes(&plan(MIB * 16), None, false), MIB * 32);
        assert_eq!(writes(&plan(MIB * 1024), None, false), MIB * 1152);
        assert_eq!(writes(&plan(MIB * 16), None, true), MIB * 32 + EXAMINED);
    }

    #[test]
    fn writing_for_a_time_writes_what_the_drive_takes_in_it() {
        let plan = Plan { writing: Nanoseconds::from_secs(10), ..Plan::default() };
        assert_eq!(writes(&plan, Some(50e6), false), ByteLength::new(500_000_000));
    }

    #[test]
    fn the_words_say_how_long_and_why() {
        let plan = Plan {
            sequential_writes: MIB * 400,
            rests: Nanoseconds::from_secs(30),
            ..Plan::default()
        };
        let words = duration_words(&plan, Some(100e6));
        assert_eq!(
            words,
            "It takes about 35s at the 100 MB/s that a short try has shown, 30s of it rests."
        );
        assert!(duration_words(&plan, None).contains("assuming 400 MB/s"));
    }
}
