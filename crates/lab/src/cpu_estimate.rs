//! Estimate of the processor time of a run on simulated drives, before the run begins.
//!
//! The cost is estimated from the number of programs: as many as the flash can execute in the measured time,
//! or as the written bytes need with their write amplification. Reads cost little in comparison.

use std::time::Duration;

use ssdlab_model::Configuration;
use ssdlab_units::ByteLength;

use crate::experiment::Plan;
use crate::precondition::Amounts;
use crate::target::Target;

/// Cost of a program operation, and additional cost of each of its units. Measured in steady state: 30 ns a
/// unit (an XG5, with 24 units in a program) to 110 ns (an 840 Pro, with 4).
const PROGRAM_NS: f64 = 350.0;
const UNIT_NS: f64 = 20.0;

/// Cost of placing a unit directly, on a drive far larger than the processor's caches.
const PLACEMENT_NS_PER_UNIT: f64 = 47.0;

/// Approximate number of capacities that a workload writes until steady state.
const WRITES_UNTIL_STEADY: f64 = 1.3;

/// Returns the estimated processor time of `plan` on `target`; `None` for a real drive, and if the target has
/// a saved drive.
pub fn cpu_time(plan: &Plan, target: &Target) -> Option<Duration> {
    let mut seconds = 0.0;
    for profile in target.profiles()? {
        seconds += seconds_on_drive(plan, &profile.configuration().ok()?);
    }
    Some(Duration::from_secs_f64(seconds))
}

/// Returns the seconds on one drive.
fn seconds_on_drive(plan: &Plan, drive: &Configuration) -> f64 {
    let random = plan.random_writes + plan.large_random_writes;
    let programs_per_second = f64::from(drive.geometry.dies()) / drive.timing.program.seconds();
    let most = plan.limit.map_or(f64::INFINITY, |limit| limit.seconds() * programs_per_second);
    let once = programs(drive, plan.sequential_writes) + random_programs(drive, random).min(most);
    let programs_in_time = plan.writing.seconds() * programs_per_second;
    let until_steady = WRITES_UNTIL_STEADY * random_programs(drive, plan.space);
    let timed = match plan.until_steady {
        0 => programs_in_time,
        workloads => programs_in_time.min(workloads as f64 * until_steady),
    };
    (once + timed) * seconds_per_program(drive)
}

/// Returns the number of program operations for `bytes`.
fn programs(drive: &Configuration, bytes: ByteLength) -> f64 {
    let per_program = f64::from(drive.geometry.units_per_program());
    bytes.bytes() as f64 / drive.geometry.unit_size().bytes() as f64 / per_program
}

/// Returns the number of program operations for `bytes` of random writes, GC copies included.
fn random_programs(drive: &Configuration, bytes: ByteLength) -> f64 {
    drive.write_amplification_about() * programs(drive, bytes)
}

/// Returns the seconds of processor time for a program operation.
fn seconds_per_program(drive: &Configuration) -> f64 {
    (PROGRAM_NS + f64::from(drive.geometry.units_per_program()) * UNIT_NS) * 1e-9
}

/// Returns the estimated time of preconditioning. Placing is shared by `processors`; writing runs on one.
pub fn of_preconditioning(drive: &Configuration, amounts: &Amounts, processors: usize) -> Duration {
    let programs = programs(drive, amounts.sequential) + random_programs(drive, amounts.random);
    let placed =
        amounts.placed.whole(drive.geometry.unit_size()) as f64 * PLACEMENT_NS_PER_UNIT * 1e-9;
    Duration::from_secs_f64(programs * seconds_per_program(drive) + placed / processors as f64)
}

#[cfg(test)]
mod tests {
    use ssdlab_units::Nanoseconds;

    use super::*;
    use crate::experiment::{self, Settings};

    fn seconds(text: &str, name: &str) -> f64 {
        let target = Target::parse(text).unwrap();
        let experiment = experiment::named(name).unwrap();
        let settings = Settings::new(experiment, false, &[]).unwrap();
        let drive = target.open(&ssdlab_blockio::RealOptions::default()).unwrap();
        let plan = experiment.plan(&settings, &drive.description()).unwrap();
        cpu_time(&plan, &target).unwrap().as_secs_f64()
    }

    #[test]
    fn full_protocols_take_about_what_they_were_seen_to_take() {
        // Measured on one machine: 40 s, and 270 to 1000 s.
        for (target, name, seen) in
            [("sim:toshiba-xg5", "steady", 40.0), ("sim:toshiba-xg5", "random-write", 450.0)]
        {
            let said = seconds(target, name);
            assert!((0.4..2.5).contains(&(said / seen)), "{name} on {target}: {said} s");
        }
        assert!(seconds("sim:toshiba-xg5", "fragmentation") < 2.0);
    }

    #[test]
    fn what_has_a_limit_of_time_takes_no_longer_than_that_allows() {
        let of = |random: u64, limit: Option<u64>| {
            let plan = Plan {
                random_writes: ByteLength::new(random),
                limit: limit.map(Nanoseconds::from_secs),
                ..Plan::default()
            };
            cpu_time(&plan, &Target::parse("sim:").unwrap()).unwrap()
        };
        let without = of(1 << 50, None);
        assert!(of(1 << 50, Some(60)) < without / 100);
        assert_eq!(of(1 << 50, Some(60)), of(1 << 51, Some(60)));
        assert_eq!(of(1 << 20, Some(60)), of(1 << 20, None));
    }

    #[test]
    fn a_used_drive_takes_about_what_it_was_seen_to_take() {
        // Measured on one processor: 50 s.
        let text = "sim:generic-tlc,capacity.logical=4TiB,capacity.physical=4.4TiB";
        let drive = Target::parse(text).unwrap().profiles().unwrap()[0].configuration().unwrap();
        let placed = drive.geometry.capacity();
        let amounts = Amounts { placed, ..Amounts::default() };
        let seconds = |processors| of_preconditioning(&drive, &amounts, processors).as_secs_f64();
        assert!((45.0..55.0).contains(&seconds(1)), "{}", seconds(1));
        assert!((22.0..28.0).contains(&seconds(2)), "{}", seconds(2));
        let random = Amounts { random: placed, ..Amounts::default() };
        let sequential = Amounts { sequential: placed, ..Amounts::default() };
        let of = |amounts| of_preconditioning(&drive, amounts, 2).as_secs_f64();
        assert!(of(&random) > 2.0 * of(&sequential) && of(&sequential) > 10.0);
    }
}
