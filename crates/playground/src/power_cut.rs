//! A power cut: the number of answered writes that are lost, and of those that were flushed before.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Lcg64Xsh32;
use ssdlab_model::mapping::{MappingScheme, PageMap};
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds};

use crate::drive::{Recording, Ssd};
use crate::host::Knobs;
use crate::playground::Setup;

/// Range of the number of writes before the cut.
const WRITES: std::ops::Range<u32> = 1000..3000;

/// Result of a power cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CutReport {
    /// Number of units that were written and answered before the cut.
    pub answered: u32,
    /// Number of these units whose latest answered data is lost.
    pub lost: u32,
    /// Number of the lost units whose data was flushed. An honest drive has none.
    pub lost_after_flush: u32,
    /// Seconds until the drive takes commands again.
    pub recovery_seconds: f64,
}

/// Writes to a small new drive, one request at a time, as `knobs` say; cuts its power soon after an answer;
/// powers the drive on, and compares.
///
/// # Errors
/// Returns an error if no such drive is possible, or if it has no page map in RAM.
pub fn cut_power(setup: &Setup, knobs: Knobs, seed: u64) -> Result<CutReport, String> {
    let mut setup = setup.clone();
    setup.changes.push(("scale".to_owned(), "1/8".to_owned()));
    let configuration = setup.configuration(seed)?.1;
    if configuration.mechanisms.mapping != MappingScheme::Page {
        return Err("the power cut is tried on drives that map by pages in RAM".to_owned());
    }
    let geometry = configuration.geometry.clone();
    let units = geometry.logical_units();
    let knobs = knobs.clamped(units);
    let mut generator = Lcg64Xsh32::seed_from_u64(seed);
    let map = || PageMap::new(units);
    let mut ssd = Ssd::with(&configuration, map(), Recording::new(&geometry))
        .map_err(|error| error.to_string())?;
    // Latest answered version of each unit, and the largest version that a flush has promised.
    let mut answered: HashMap<u32, u64> = HashMap::new();
    let (mut version, mut promised, mut at) = (0, 0, Instant::START);
    for write in 1..=generator.random_range(WRITES) {
        let places = units / knobs.request_units;
        let first = generator.random_range(0..places) * knobs.request_units;
        at = ssd.write(at, LogicalUnit(first), knobs.request_units);
        for unit in first..first + knobs.request_units {
            version += 1;
            answered.insert(unit, version);
        }
        if knobs.flush_every > 0 && write % knobs.flush_every == 0 {
            at = ssd.flush(at);
            promised = version;
        }
    }
    let off = at + Nanoseconds::new(generator.random_range(0..50_000));
    let flash = ssd.power_cut();
    let (ssd, recovery) =
        Ssd::open(&configuration, map(), flash, off).map_err(|error| error.to_string())?;
    let mut report = CutReport {
        answered: answered.len() as u32,
        lost: 0,
        lost_after_flush: 0,
        recovery_seconds: recovery.took.nanos() as f64 / 1e9,
    };
    for (unit, latest) in answered {
        let place = ssd.place_of(LogicalUnit(unit));
        if place.is_none_or(|place| ssd.media().version_at(place) < latest) {
            report.lost += 1;
            report.lost_after_flush += u32::from(latest <= promised);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(changes: &[(&str, &str)], flush_every: u32) -> Vec<CutReport> {
        let mut setup = Setup::named("generic-tlc");
        for (key, value) in [("scale", "1/64")].iter().chain(changes) {
            setup.changes.push(((*key).to_owned(), (*value).to_owned()));
        }
        let knobs = Knobs { flush_every, ..Knobs::default() };
        (0..5).map(|seed| cut_power(&setup, knobs, seed).expect("a sound drive")).collect()
    }

    #[test]
    fn a_power_cut_takes_answered_writes_and_never_flushed_ones() {
        let without = cut(&[], 0);
        assert!(without.iter().any(|it| it.lost > 0), "{without:?}");
        for reports in [&without, &cut(&[], 16), &cut(&[], 1)] {
            assert!(reports.iter().all(|it| it.lost_after_flush == 0), "{reports:?}");
        }
        assert!(cut(&[], 1).iter().all(|it| it.lost == 0), "each write was flushed");
    }

    #[test]
    fn capacitors_save_what_was_answered() {
        let reports = cut(&[("controller.power_loss_protection", "on")], 0);
        assert!(reports.iter().all(|it| it.lost == 0 && it.answered > 500), "{reports:?}");
    }

    #[test]
    fn a_drive_that_lies_about_flushes_is_found_out() {
        let reports = cut(&[("controller.flush", "ignored")], 16);
        assert!(reports.iter().any(|it| it.lost_after_flush > 0), "{reports:?}");
    }
}
