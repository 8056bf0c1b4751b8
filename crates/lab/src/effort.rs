//! The processor time that a run on simulated drives takes, known roughly before it begins.
//!
//! Simulating is paid for by the program: so many are carried out as the flash can do in the time that
//! is measured, or as the bytes that are written come to with their write amplification. Reads cost
//! little beside them.

use std::time::Duration;

use ssdlab_model::Configuration;

use crate::experiment::Plan;
use crate::target::Target;

/// What a program operation costs, and each unit of it besides: between these lie 30 ns a unit (an XG5,
/// with 24 of them to a program) and 110 ns (an 840 Pro, with 4), as measured in steady state.
const PROGRAM_NS: f64 = 350.0;
const UNIT_NS: f64 = 20.0;

/// Capacities that a workload writes until it is steady, about.
const UNTIL_STEADY: f64 = 1.3;

/// Returns about how much processor time `plan` takes on `target`; `None` on a real drive, and on one that
/// was saved.
pub fn processor_time(plan: &Plan, target: &Target) -> Option<Duration> {
    let mut seconds = 0.0;
    for profile in target.profiles()? {
        seconds += on(plan, &profile.configuration().ok()?);
    }
    Some(Duration::from_secs_f64(seconds))
}

/// In seconds, on one drive.
fn on(plan: &Plan, drive: &Configuration) -> f64 {
    let geometry = &drive.geometry;
    let (unit, per_program) = (geometry.unit_size(), f64::from(geometry.units_per_program()));
    let amplification = drive.write_amplification_about();
    let programs = |bytes: f64| bytes / unit.bytes() as f64 / per_program;
    let once = programs(plan.sequential_writes.bytes() as f64)
        + amplification * programs((plan.random_writes + plan.large_random_writes).bytes() as f64);
    let a_second = f64::from(geometry.dies()) / drive.timing.program.seconds();
    let in_time = plan.writing.seconds() * a_second;
    let until_steady = UNTIL_STEADY * amplification * programs(plan.space.bytes() as f64);
    let timed = match plan.until_steady {
        0 => in_time,
        workloads => in_time.min(workloads as f64 * until_steady),
    };
    (once + timed) * (PROGRAM_NS + per_program * UNIT_NS) * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{self, Settings};

    fn seconds(text: &str, name: &str) -> f64 {
        let target = Target::parse(text).unwrap();
        let experiment = experiment::named(name).unwrap();
        let settings = Settings::new(experiment, false, &[]).unwrap();
        let drive = target.open(&ssdlab_blockio::RealOptions::default()).unwrap();
        let plan = experiment.plan(&settings, &drive.description()).unwrap();
        processor_time(&plan, &target).unwrap().as_secs_f64()
    }

    #[test]
    fn full_protocols_take_about_what_they_were_seen_to_take() {
        // Seen, on one machine: 40 s, and 270 to 1000 s.
        for (target, name, seen) in
            [("sim:toshiba-xg5", "steady", 40.0), ("sim:toshiba-xg5", "random-write", 450.0)]
        {
            let said = seconds(target, name);
            assert!((0.4..2.5).contains(&(said / seen)), "{name} on {target}: {said} s");
        }
        assert!(seconds("sim:toshiba-xg5", "fragmentation") < 2.0);
    }
}
