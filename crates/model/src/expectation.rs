//! Expected write amplification of a drive: the closed form of its policy, with its own over-provisioning.

use serde::{Deserialize, Serialize};

use crate::collection::CollectionParameters;
use crate::mapping::MappingScheme;
use crate::policy::{Pacing, VictimPolicy};
use crate::precondition::Workload;
use crate::ssd::Configuration;
use crate::units::ByteLength;
use crate::wear_levelling::LevellingParameters;
use ssdlab_theory::hot_cold::HotCold;
use ssdlab_theory::{SpareFactor, UnitsPerBlock, d_choices, fifo, greedy, random};

/// Fewest blocks for a closed form: with fewer, the choice of victims is a matter of luck.
const MIN_BLOCKS: u32 = 200;

/// Steady state of a drive that is full and written at random, unit by unit, over its whole capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Flash programs per host write, once steady.
    pub write_amplification: f64,
    /// Size of the writes for that.
    pub unit: ByteLength,
    /// Logical capacity, all of which has to be written.
    pub capacity: ByteLength,
}

impl Configuration {
    /// Returns the steady state that theory expects of the drive; `None` if there is no closed form: cost-benefit
    /// collection, victims by rotation, several write streams, pseudo-SLC caches, static wear levelling, bad blocks,
    /// other maps than a page map in RAM, and drives of few blocks.
    ///
    /// The blocks that pacing keeps free are not over-provisioning. Open blocks and the victim count for the part
    /// that is filled, which over time is all but half of the victim.
    pub fn expectation(&self) -> Option<Expectation> {
        self.expectation_under(Workload::Uniform)
    }

    /// Returns the steady state that theory expects of the drive under `workload`; for hot and cold units, `None`
    /// unless the policy is FIFO.
    pub fn expectation_under(&self, workload: Workload) -> Option<Expectation> {
        let (geometry, mechanisms) = (&self.geometry, &self.mechanisms);
        if mechanisms.mapping != MappingScheme::Page
            || mechanisms.streams.count > 1
            || mechanisms.rotation > 0.0
            || mechanisms.slc.is_some()
            || mechanisms.wear.bad_blocks.is_some()
            || matches!(mechanisms.wear.levelling, LevellingParameters::Static { .. })
            || geometry.blocks() < MIN_BLOCKS
        {
            return None;
        }
        let low_water = self.collection.low_water;
        let write_amplification = match mechanisms.pacing {
            Pacing::Paced => self.amplification(workload, 2 * low_water)?,
            Pacing::Bursty { high_water } => {
                self.amplification(workload, low_water + high_water)?
            }
            Pacing::Ratio { copies, high_water } => {
                let least = self.amplification(workload, 2 * low_water)?;
                let most = self.amplification(workload, 2 * high_water)?;
                (1.0 + copies.copies()).clamp(least, most.max(least))
            }
        };
        let (unit, capacity) = (geometry.unit_size(), geometry.capacity());
        Some(Expectation { write_amplification, unit, capacity })
    }

    /// Returns an estimate of the write amplification of random writes: the one that theory expects, or, if there is
    /// no closed form, that of FIFO with the same over-provisioning.
    pub fn write_amplification_about(&self) -> f64 {
        let geometry = &self.geometry;
        let (physical, logical) = (geometry.physical_units(), geometry.logical_units());
        let spare = SpareFactor::from_counts(physical.into(), logical.into());
        let of_fifo = || spare.map_or(1.0, fifo::write_amplification);
        self.expectation().map_or_else(of_fifo, |it| it.write_amplification)
    }

    /// Returns the write amplification by the closed form of a drive that keeps half of `twice_free` blocks free per
    /// group of dies.
    fn amplification(&self, workload: Workload, twice_free: u32) -> Option<f64> {
        let geometry = &self.geometry;
        let of_few_rows = 2 * CollectionParameters::blocks_for_few_rows(geometry);
        let halves_kept = geometry.groups() * (twice_free + of_few_rows) + 1;
        let usable = u64::from(geometry.physical_units())
            .checked_sub(u64::from(halves_kept) * u64::from(geometry.units_per_block()) / 2)?;
        let spare = SpareFactor::from_counts(usable, geometry.logical_units().into()).ok()?;
        let units = UnitsPerBlock::new(geometry.units_per_block()).ok()?;
        match (workload, self.mechanisms.victims) {
            (Workload::HotCold { writes, pages }, VictimPolicy::Fifo) => {
                Some(HotCold::new(writes, pages).ok()?.fifo_one_stream(spare))
            }
            (Workload::HotCold { .. }, _) => None,
            (Workload::Uniform, policy) => uniform(policy, spare, units),
        }
    }

    /// Returns the number of free blocks per group of dies in the steady state of random writes: the number at which
    /// garbage collection starts, the number at which it pauses, or, with a fixed ratio of copies, the number at
    /// which victims cost just that ratio.
    pub(crate) fn steady_state_free_blocks(&self) -> u32 {
        let low_water = self.collection.low_water;
        match self.mechanisms.pacing {
            Pacing::Paced => low_water,
            Pacing::Bursty { high_water } => high_water.max(low_water),
            Pacing::Ratio { copies, high_water } => {
                let costs_less = |free: &u32| {
                    let amplification = self.amplification(Workload::Uniform, 2 * free);
                    amplification.is_some_and(|it| it < 1.0 + copies.copies())
                };
                (low_water..high_water).find(|free| !costs_less(free)).unwrap_or(high_water)
            }
        }
    }
}

fn uniform(policy: VictimPolicy, spare: SpareFactor, units: UnitsPerBlock) -> Option<f64> {
    Some(match policy {
        VictimPolicy::Greedy => greedy::write_amplification(spare, units),
        VictimPolicy::Fifo => fifo::write_amplification(spare),
        VictimPolicy::Random => random::write_amplification(spare),
        VictimPolicy::DChoices(choices) => d_choices::write_amplification(spare, units, choices),
        VictimPolicy::CostBenefit => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::profile::{DEFAULT, Profile};

    fn expected(changes: &[(&str, &str)]) -> Option<f64> {
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        for (key, value) in changes {
            profile.set(key, value).expect("a sound value");
        }
        let configuration = profile.configuration().expect("a sound profile");
        configuration.expectation().map(|it| it.write_amplification)
    }

    #[test]
    fn each_policy_has_its_own_closed_form_and_more_spare_means_less() {
        let of = |policy, spare| {
            expected(&[("collection.policy", policy), ("spare", spare)]).expect("a closed form")
        };
        for spare in ["7%", "28%"] {
            assert!(of("greedy", spare) < of("fifo", spare));
            assert!(of("fifo", spare) < of("random", spare));
        }
        assert!(of("greedy", "28%") < of("greedy", "7%"));
    }

    #[test]
    fn without_a_closed_form_it_is_about_that_of_fifo() {
        let about = |changes: &[(&str, &str)]| {
            let mut profile = Profile::named(DEFAULT).expect("the default profile");
            for (key, value) in changes {
                profile.set(key, value).expect("a sound value");
            }
            profile.configuration().expect("a sound profile").write_amplification_about()
        };
        assert_eq!(about(&[]), expected(&[]).expect("a closed form"));
        let of_fifo = expected(&[("collection.policy", "fifo")]).expect("a closed form");
        let rough = about(&[("collection.rotation", "0.5")]);
        assert!((rough / of_fifo - 1.0).abs() < 0.1, "{rough} and {of_fifo}");
        assert!(about(&[("collection.rotation", "0.5"), ("spare", "28%")]) < rough / 2.0);
    }

    #[test]
    fn what_has_no_closed_form_is_expected_nothing_of() {
        assert_eq!(expected(&[("collection.policy", "cost-benefit")]), None);
        let two = [
            ("controller.power_loss_protection", "on"),
            ("streams.count", "2"),
            ("streams.hot_within", "0.1"),
        ];
        assert_eq!(expected(&two), None);
    }
}
