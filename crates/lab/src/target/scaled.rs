//! Simulated drives scaled down, so that a whole protocol takes seconds.
//!
//! [`Profile`] says what does not change with the scale: rates, mean latencies, write amplification and
//! shares. This module holds the limits below which they do change.

use ssdlab_model::profile::Profile;
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::ByteLength;

use super::{StackTarget, Target};
use crate::error::LabError;

/// Drives larger than this are scaled down: in steady state all blocks go through the same cycle.
pub(crate) const MAX_SCALED_CAPACITY: ByteLength = ByteLength::new(16 << 30);

/// Minimum number of programs in an erase block of a scaled drive, on each die. In steady state an XG5 with
/// four of them takes 7 % fewer random writes a second than the full-size drive, a PM983 8 %; with eight both
/// are within 1 %.
const MIN_PROGRAMS_PER_BLOCK: u32 = 8;

/// Minimum number of blocks of a scaled drive. With fewer, chance has too much influence on the choice of
/// victims.
const MIN_BLOCKS: u32 = 400;

/// A scaled drive.
#[derive(Clone, Debug)]
pub struct ScaledTarget {
    /// Scaled target; its name includes the scale.
    pub target: Target,
    /// Full size divided by the scaled size.
    pub divisor: u32,
}

/// Returns true if a scaled drive has enough blocks, and enough programs in each block.
pub(crate) fn is_representative(geometry: &Geometry) -> bool {
    let programs = geometry.units_per_block() / geometry.stripe() / geometry.units_per_program();
    geometry.blocks() >= MIN_BLOCKS && programs >= MIN_PROGRAMS_PER_BLOCK
}

impl Target {
    /// Returns the target scaled down until it is simulated within seconds, seeded with `seed`; `None` if it
    /// is small already, has a saved drive, or is a path.
    ///
    /// # Errors
    /// Returns an error if the profile of the full-size drive is invalid.
    pub fn scaled_down(&self, seed: u64) -> Result<Option<ScaledTarget>, LabError> {
        let Some(profiles) = self.profiles() else { return Ok(None) };
        let mut largest = 0;
        for profile in profiles {
            largest = largest.max(profile.configuration()?.geometry.capacity().bytes());
        }
        let mut divisor = largest.div_ceil(MAX_SCALED_CAPACITY.bytes()).next_power_of_two() as u32;
        while divisor > 1 {
            if let Ok(mut target) = Target::parse(&self.scaled_name(divisor))
                && target.is_representative()
            {
                target.set_seed(seed);
                return Ok(Some(ScaledTarget { target, divisor }));
            }
            divisor /= 2;
        }
        Ok(None)
    }

    /// Returns true if the target is simulated, saved drives excluded, and each of its drives has at most
    /// `MAX_SCALED_CAPACITY`.
    pub(crate) fn is_small_enough(&self) -> bool {
        self.profiles().is_some_and(|profiles| {
            let fits = |it: &&Profile| {
                it.configuration().is_ok_and(|it| it.geometry.capacity() <= MAX_SCALED_CAPACITY)
            };
            profiles.iter().all(fits)
        })
    }

    /// Returns the name of the target scaled down further by `divisor`; `None` for a path or if it has a
    /// saved drive.
    pub(crate) fn name_at_scale(&self, divisor: u32) -> Option<String> {
        self.profiles().map(|_| self.scaled_name(divisor))
    }

    /// Returns the profiles of all drives of the target; `None` for a path or if it has a saved drive.
    pub(crate) fn profiles(&self) -> Option<Vec<&Profile>> {
        match self {
            Target::Simulated { profile, .. } => Some(vec![profile]),
            Target::Stack(stack) => {
                let members = stack.members().iter().map(Target::profiles);
                Some(members.collect::<Option<Vec<_>>>()?.concat())
            }
            Target::Saved { .. } | Target::Path(_) => None,
        }
    }

    fn is_representative(&self) -> bool {
        self.profiles().is_some_and(|profiles| {
            let fine =
                |it: &&Profile| it.configuration().is_ok_and(|it| is_representative(&it.geometry));
            profiles.iter().all(fine)
        })
    }

    /// Returns the name with each drive scaled down further by `divisor`.
    fn scaled_name(&self, divisor: u32) -> String {
        match self {
            Target::Simulated { name, .. } => {
                let is_scale = |part: &&str| {
                    part.split_once('=').is_some_and(|(key, _)| key.trim() == "scale")
                };
                let (scales, parts): (Vec<&str>, Vec<&str>) = name.split(',').partition(is_scale);
                let given = scales.first().and_then(|scale| scale.split_once("1/"));
                let given = given.and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(1);
                format!("{},scale=1/{}", parts.join(","), u64::from(divisor) * given)
            }
            Target::Stack(stack) => stack.name_of(|member: &Target| member.scaled_name(divisor)),
            Target::Saved { name, .. } => name.clone(),
            Target::Path(path) => path.display().to_string(),
        }
    }
}

impl StackTarget {
    /// Returns the text of the target with other names of its members.
    pub(super) fn name_of(&self, member: impl Fn(&Target) -> String) -> String {
        let members: Vec<String> = self.members().iter().map(member).collect();
        let options: Vec<String> =
            self.given_options().map(|(name, value)| format!(",{name}={value}")).collect();
        format!("{}({}){}", self.kind_name(), members.join(";"), options.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(text: &str) -> Option<(String, u32)> {
        let ScaledTarget { target, divisor } =
            Target::parse(text).unwrap().scaled_down(1).unwrap()?;
        Some((target.name(), divisor))
    }

    #[test]
    fn a_large_drive_is_made_small_and_a_small_one_is_left_alone() {
        let of = |name: &str, divisor| Some((name.to_owned(), divisor));
        assert_eq!(scaled("sim:"), of("sim:generic-tlc,scale=1/32", 32));
        assert_eq!(scaled("sim:,scale=1/16"), of("sim:,scale=1/32", 2));
        assert_eq!(
            scaled("sim:toshiba-xg5, scale = 1/2,spare=28%").map(|it| it.1),
            Some(16),
            "spaces are no matter"
        );
        assert_eq!(scaled("sim:,scale=1/32"), None);
        assert_eq!(
            scaled(
                "sim:,capacity.physical=2GiB,flash.dies=2,flash.channels=2,flash.pages_per_block=96,spare=20%"
            ),
            None
        );
    }

    #[test]
    fn members_of_a_stack_are_made_small_alike_and_its_options_stay() {
        let text = "raid1(sim:samsung-pm983;usb(sim:toshiba-xg5),flush=pass),sync=none";
        let (name, divisor) = scaled(text).unwrap();
        assert_eq!(
            name,
            format!(
                "raid1(sim:samsung-pm983,scale=1/{divisor};\
                 usb(sim:toshiba-xg5,scale=1/{divisor}),flush=pass),sync=none"
            )
        );
    }

    #[test]
    fn every_profile_can_be_made_small_enough() {
        for (name, _) in ssdlab_model::profile::embedded() {
            let target = Target::parse(&format!("sim:{name}")).unwrap();
            let Some(ScaledTarget { target, divisor }) = target.scaled_down(1).unwrap() else {
                assert!(target.is_small_enough(), "{name} is neither small nor made small");
                continue;
            };
            let profiles = target.profiles().unwrap();
            let geometry = profiles[0].configuration().unwrap().geometry;
            println!("{name}: 1/{divisor}, {}, {} blocks", geometry.capacity(), geometry.blocks());
            // A drive with hundreds of planes can only be as small as its superblocks allow.
            let dies = u64::from(geometry.dies());
            let most = (MAX_SCALED_CAPACITY * 4).max(ssdlab_units::MIB * (512 * dies));
            let program = geometry.units_per_program();
            let programs = geometry.units_per_block() / geometry.stripe() / program;
            let is_least = programs < 2 * MIN_PROGRAMS_PER_BLOCK;
            assert!(geometry.capacity() <= most || is_least, "{name}: {}", geometry.capacity());
        }
    }
}
