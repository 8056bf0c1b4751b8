//! Estimate of the memory of a run on simulated drives, before the run begins.

mod available;

pub use available::available;

use ssdlab_units::ByteLength;

use crate::experiment::Plan;
use crate::target::Target;

/// Memory of a run besides that of its drives: the program, latencies, the report.
const PROCESS_OVERHEAD: ByteLength = ByteLength::new(64 << 20);

/// Estimated memory of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Memory for the whole run.
    pub throughout: ByteLength,
    /// Memory of each workload that runs in parallel with others.
    pub per_copy: ByteLength,
    /// Number of such workloads.
    pub copies: u32,
}

impl MemoryEstimate {
    /// Returns the memory of `plan` on `target`; `None` for a real drive.
    pub fn of(target: &Target, plan: &Plan) -> Option<MemoryEstimate> {
        let counted = plan.counted_writes();
        let is_timed = plan.writing.nanos() > 0;
        let drive = match is_timed {
            true => target.memory(plan.space, ByteLength::new(u64::MAX))?,
            false => target.memory(plan.space, counted)?,
        };
        let drives = plan.drives;
        Some(MemoryEstimate {
            throughout: PROCESS_OVERHEAD + drive * u64::from(drives.throughout),
            per_copy: drive * u64::from(drives.per_copy),
            copies: drives.copies,
        })
    }

    /// Returns the memory for opening `target`: a stack may write all of its members to synchronise them.
    /// `None` if opening takes almost no memory, such as for a saved drive, whose file is mapped.
    pub fn of_opening(target: &Target) -> Option<MemoryEstimate> {
        if let Target::Stack(_) = target {
            MemoryEstimate::of_preconditioning(target)
        } else {
            None
        }
    }

    /// Returns the memory for preconditioning a drive of `target`.
    pub fn of_preconditioning(target: &Target) -> Option<MemoryEstimate> {
        let all = ByteLength::new(u64::MAX);
        let drive = target.memory(all, all)?;
        Some(MemoryEstimate {
            throughout: PROCESS_OVERHEAD + drive,
            per_copy: ByteLength::ZERO,
            copies: 0,
        })
    }

    /// Returns the minimum memory of the run: with one workload after the other.
    pub fn least(&self) -> ByteLength {
        self.throughout + self.per_copy
    }

    /// Returns the number of workloads that may run in parallel in `available`: as many as `processors` if
    /// there is enough memory, and at least one.
    pub fn threads(&self, available: ByteLength, processors: usize) -> usize {
        let most = processors.max(1) as u64;
        let free_memory = available.bytes().saturating_sub(self.throughout.bytes());
        let fit = free_memory.checked_div(self.per_copy.bytes()).unwrap_or(most);
        fit.clamp(1, most) as usize
    }
}

impl Target {
    /// Returns the memory of the target's drives after `written` bytes in all were written to their first
    /// `area`. Members of a stack count as full, since the stack decides what is written to them. `None` for
    /// a real drive.
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

    /// Returns the target scaled down just enough that `need` fits into `available`; `None` if no scale fits.
    pub fn largest_scale_that_fits(
        &self,
        need: &MemoryEstimate,
        available: ByteLength,
    ) -> Option<String> {
        let scales = (1..=12).map(|power| 1_u32 << power);
        let fits = |divisor: &u32| need.least().bytes() / u64::from(*divisor) < available.bytes();
        let divisor = scales.into_iter().find(fits)?;
        let name = self.name_at_scale(divisor)?;
        Target::parse(&name).is_ok().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{self, Settings};

    const GIB: u64 = 1 << 30;

    fn need(text: &str, name: &str) -> MemoryEstimate {
        let target = Target::parse(text).unwrap();
        let experiment = experiment::named(name).unwrap();
        let settings = Settings::new(experiment, false, &[]).unwrap();
        let drive = target.open(&ssdlab_blockio::RealOptions::default()).unwrap();
        let plan = experiment.plan(&settings, &drive.description()).unwrap();
        MemoryEstimate::of(&target, &plan).unwrap()
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
        let need = MemoryEstimate {
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
            let need = MemoryEstimate::of_preconditioning(&target).unwrap();
            target.largest_scale_that_fits(&need, ByteLength::new(GIB))
        };
        assert_eq!(fitting("sim:toshiba-xg5").as_deref(), Some("sim:toshiba-xg5,scale=1/2"));
        let stack = fitting("raid1(sim:samsung-pm1725b;sim:samsung-pm1725b),sync=none").unwrap();
        assert!(stack.contains("scale=1/8;") && stack.ends_with(",sync=none"), "{stack}");
    }
}
