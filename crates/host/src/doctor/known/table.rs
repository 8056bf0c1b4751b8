//! Endurance and flash of drives, by their makers' documents: terabytes of 10^12 bytes that hosts may write, as
//! of the warranty.
//!
//! A figure is `rated` where it was read in a document or in a publication that quotes it, which `read_in`
//! names. It is `unverified` where it was noted down without: `source` is where it should be. Doctor says which.

mod intel;
mod kingston;
mod micron;
mod others;
mod samsung;
mod western_digital;

use super::{Endurance, Family, Size};

/// Returns all families.
pub(super) fn families() -> impl Iterator<Item = &'static Family> {
    let all = [
        samsung::FAMILIES,
        micron::FAMILIES,
        western_digital::FAMILIES,
        intel::FAMILIES,
        kingston::FAMILIES,
        others::FAMILIES,
    ];
    all.into_iter().flatten()
}

const fn size(models: &'static [&'static str], sold_as: u64, endurance: Endurance) -> Size {
    Size { models, sold_as, raw_gib: 0, endurance }
}

/// A size whose endurance was read, in TB of 10^12 bytes.
const fn rated(models: &'static [&'static str], sold_as: u64, rated_tb: u64) -> Size {
    size(models, sold_as, Endurance::Read { gb: rated_tb * 1_000 })
}

/// A size whose endurance nobody has verified, in TB of 10^12 bytes.
const fn unverified(models: &'static [&'static str], sold_as: u64, rated_tb: u64) -> Size {
    unverified_gb(models, sold_as, rated_tb * 1_000)
}

/// A size whose endurance nobody has verified, in GB of 10^9 bytes.
const fn unverified_gb(models: &'static [&'static str], sold_as: u64, rated_gb: u64) -> Size {
    size(models, sold_as, Endurance::Unverified { gb: rated_gb })
}

/// A size for which its maker gave no endurance.
const fn unrated(models: &'static [&'static str], sold_as: u64) -> Size {
    size(models, sold_as, Endurance::NotGiven)
}

/// A size with the flash that is in it, in GiB.
const fn raw(models: &'static [&'static str], sold_as: u64, raw_gib: u64) -> Size {
    Size { models, sold_as, raw_gib, endurance: Endurance::Unknown }
}
