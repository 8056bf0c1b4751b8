//! Closed form of the write amplification of a drive and its host, if there is one.

use ssdlab_model::Configuration;
use ssdlab_model::precondition::Workload;
use ssdlab_model::profile::Profile;

use crate::host::Knobs;

/// State of the units that hold no data of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeSpace {
    /// Trimmed: the drive knows that they are free.
    Trimmed,
    /// Stale: they hold data that no file needs, and the drive keeps it.
    Stale,
}

/// Returns the write amplification of the steady state; `None` if theory has no closed form: for requests of
/// several units, flushes that pad program units, skew under other policies than FIFO, and stale data that is
/// never written again.
///
/// Trimmed free space makes the drive one of the used part alone.
pub(crate) fn write_amplification(
    profile: &Profile,
    configuration: &Configuration,
    knobs: &Knobs,
    free: FreeSpace,
) -> Option<f64> {
    if knobs.request_units != 1 || knobs.flush_every > 0 || knobs.is_sequential {
        return None;
    }
    let geometry = &configuration.geometry;
    let (units, used) = (geometry.logical_units(), knobs.used_units(geometry.logical_units()));
    let workload = match knobs.skew > 0.5 {
        true => Workload::HotCold { writes: knobs.skew, pages: 1.0 - knobs.skew },
        false => Workload::Uniform,
    };
    if used == units {
        return amplification(configuration, workload);
    }
    if free == FreeSpace::Stale {
        return None;
    }
    let bytes = (geometry.unit_size() * u64::from(used)).bytes();
    let mut part = profile.clone();
    part.set("capacity.logical", &bytes.to_string()).ok()?;
    amplification(&part.configuration().ok()?, workload)
}

fn amplification(configuration: &Configuration, workload: Workload) -> Option<f64> {
    configuration.expectation_under(workload).map(|it| it.write_amplification)
}
