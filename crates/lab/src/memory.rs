//! The memory that a run on simulated drives takes, known before it begins.

mod available;

pub use available::available;

use ssdlab_units::ByteLength;

use crate::experiment::Plan;
use crate::target::Target;

/// What a run takes beyond that of its drives: the program, latencies, the report.
const BESIDES: ByteLength = ByteLength::new(64 << 20);

/// The memory of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Taken throughout.
    pub throughout: ByteLength,
    /// Taken by each workload that runs beside others.
    pub per_copy: ByteLength,
    /// How many such workloads there are.
    pub copies: u32,
}

impl Need {
    /// Returns the need of `plan` on `target`; `None` on a real drive, which takes none.
    pub fn of(target: &Target, plan: &Plan) -> Option<Need> {
        let counted = plan.counted_writes();
        let is_timed = plan.writing.nanos() > 0;
        let drive = match is_timed {
            true => target.memory(plan.space, ByteLength::new(u64::MAX))?,
            false => target.memory(plan.space, counted)?,
        };
        let drives = plan.drives;
        Some(Need {
            throughout: BESIDES + drive * u64::from(drives.throughout),
            per_copy: drive * u64::from(drives.per_copy),
            copies: drives.copies,
        })
    }

    /// Returns the need of opening `target`: a stack may write all of its members to make them agree. `None`
    /// where opening it takes next to nothing, as of a saved drive, whose file is mapped.
    pub fn of_opening(target: &Target) -> Option<Need> {
        if let Target::Stack(_) = target { Need::of_ageing(target) } else { None }
    }

    /// Returns the need of making a used drive of `target`.
    pub fn of_ageing(target: &Target) -> Option<Need> {
        let all = ByteLength::new(u64::MAX);
        let drive = target.memory(all, all)?;
        Some(Need { throughout: BESIDES + drive, per_copy: ByteLength::ZERO, copies: 0 })
    }

    /// Returns the least that the run can do with: one workload after the other.
    pub fn least(&self) -> ByteLength {
        self.throughout + self.per_copy
    }

    /// Returns how many workloads may run side by side in `available`: as many as `processors` where
    /// there is memory for them, and one at least.
    pub fn threads(&self, available: ByteLength, processors: usize) -> usize {
        let most = processors.max(1) as u64;
        let room = available.bytes().saturating_sub(self.throughout.bytes());
        let fit = room.checked_div(self.per_copy.bytes()).unwrap_or(most);
        fit.clamp(1, most) as usize
    }
}

impl Target {
    /// Returns the memory of its drives, once their first `area` was written, `written` in all. Members of a
    /// stack count as whole, for it depends on the stack what of them is written. `None` on a real drive.
    fn memory(&self, area: ByteLength, written: ByteLength) -> Option<ByteLength> {
        match self {
            Target::Simulated { profile, .. } => {
                Some(profile.configuration().ok()?.memory(area, written))
            }
            Target::Saved { saved, .. } => Some(saved.configuration().memory_when_full()),
            Target::Stack(stack) => {
                let all = ByteLength::new(u64::MAX);
                stack.members().iter().map(|member| member.memory(all, all)).sum()
            }
            Target::Path(_) => None,
        }
    }

    /// Returns the target at the largest scale at which `need` of it comes to no more than `available`.
    pub fn that_fits(&self, need: &Need, available: ByteLength) -> Option<String> {
        let scales = (1..=12).map(|power| 1_u32 << power);
        let fits = |divisor: &u32| need.least().bytes() / u64::from(*divisor) < available.bytes();
        let divisor = scales.into_iter().find(fits)?;
        let name = self.at_scale(divisor)?;
        Target::parse(&name).is_ok().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{self, Settings};

    const GIB: u64 = 1 << 30;

    fn need(text: &str, name: &str) -> Need {
        let target = Target::parse(text).unwrap();
        let experiment = experiment::named(name).unwrap();
        let settings = Settings::new(experiment, false, &[]).unwrap();
        let drive = target.open(&ssdlab_blockio::RealOptions::default()).unwrap();
        let plan = experiment.plan(&settings, &drive.description()).unwrap();
        Need::of(&target, &plan).unwrap()
    }

    #[test]
    fn a_run_that_touches_little_of_a_drive_needs_little() {
        let least = |name| need("sim:toshiba-xg5", name).least().gibibytes();
        assert!(least("fragmentation") < 0.1, "{}", least("fragmentation"));
        assert!((1.0..1.2).contains(&least("steady")), "{}", least("steady"));
        assert!((1.9..2.3).contains(&least("latency")), "{}", least("latency"));
    }

    #[test]
    fn as_many_workloads_run_side_by_side_as_there_is_memory_for() {
        let need = Need {
            throughout: ByteLength::new(GIB),
            per_copy: ByteLength::new(2 * GIB),
            copies: 4,
        };
        let threads = |gib| need.threads(ByteLength::new(gib * GIB), 8);
        assert_eq!([1, 3, 4, 5, 7, 100].map(threads), [1, 1, 1, 2, 3, 8]);
        assert_eq!(need.least().gibibytes(), 3.0);
    }

    #[test]
    fn a_scale_that_fits_is_named_for_drives_and_stacks() {
        let fitting = |text: &str| {
            let target = Target::parse(text).unwrap();
            let need = Need::of_ageing(&target).unwrap();
            target.that_fits(&need, ByteLength::new(GIB))
        };
        assert_eq!(fitting("sim:toshiba-xg5").as_deref(), Some("sim:toshiba-xg5,scale=1/2"));
        let stack = fitting("raid1(sim:samsung-pm1725b;sim:samsung-pm1725b),sync=none").unwrap();
        assert!(stack.contains("scale=1/8;") && stack.ends_with(",sync=none"), "{stack}");
    }
}
