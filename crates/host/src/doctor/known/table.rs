//! Endurance and flash of drive models by their makers' documents: terabytes of 10^12 bytes that hosts may write under
//! the warranty.
//!
//! `rated` marks a figure that was read in a document, or in a publication that quotes it: `quoted_source` names that.
//! `unverified` marks a figure that was noted without reading it; `source` names the document that should have it.
//! `ssdlab doctor` reports which of the two a figure is.

mod intel;
mod kingston;
mod micron;
mod others;
mod samsung;
mod western_digital;

use super::{Endurance, Family, Size};

/// Returns the families of all makers.
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

/// Returns a size whose endurance was read, in TB of 10^12 bytes.
const fn rated(models: &'static [&'static str], sold_as: u64, rated_tb: u64) -> Size {
    size(models, sold_as, Endurance::Read { gb: rated_tb * 1_000 })
}

/// Returns a size whose endurance nobody has verified, in TB of 10^12 bytes.
const fn unverified(models: &'static [&'static str], sold_as: u64, rated_tb: u64) -> Size {
    unverified_gb(models, sold_as, rated_tb * 1_000)
}

/// Returns a size whose endurance nobody has verified, in GB of 10^9 bytes.
const fn unverified_gb(models: &'static [&'static str], sold_as: u64, rated_gb: u64) -> Size {
    size(models, sold_as, Endurance::Unverified { gb: rated_gb })
}

/// Returns a size for which the maker gave no endurance.
const fn unrated(models: &'static [&'static str], sold_as: u64) -> Size {
    size(models, sold_as, Endurance::NotGiven)
}

/// Returns a size with the flash in the drive, in GiB.
const fn raw(models: &'static [&'static str], sold_as: u64, raw_gib: u64) -> Size {
    Size { models, sold_as, raw_gib, endurance: Endurance::Unknown }
}
