//! Counters and measured values of a drive, as numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::drive::Drive;
use super::{Context, checks, known};

/// Counters and measured values of a drive; values that are not known are left out of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Values {
    /// Model, as the drive reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Temperature in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i64>,
    /// Share of the rated life that is used, in percent; may exceed 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u64>,
    /// Spare blocks that are left, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_percent: Option<u64>,
    /// Bytes that hosts have written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Bytes that were written to the flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_written_bytes: Option<u64>,
    /// Bytes that the maker rates the drive for (TBW), if the figure is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated_written_bytes: Option<u64>,
    /// Power-on hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// True if the drive reports that its health is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_passed: Option<bool>,
    /// Error counters, by their name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<&'static str, u64>,
}

impl Values {
    pub(super) fn of(context: &Context, drive: &Drive) -> Values {
        let smart = &drive.smart;
        let model = drive.model();
        let known = model.as_deref().and_then(|model| known::find(model, drive.size()));
        let rated = known.and_then(|known| match known.rated_writes()? {
            known::RatedEndurance::Verified(rated) => Some(rated),
            // Unverified figures are not used as values.
            known::RatedEndurance::NotGiven | known::RatedEndurance::Unverified(_) => None,
        });
        Values {
            model,
            temperature_celsius: checks::temperature::of(context, drive),
            used_percent: smart.percentage_used,
            spare_percent: smart.spare.map(|spare| spare.available),
            written_bytes: smart.written.map(|it| it.bytes()),
            flash_written_bytes: smart.flash_written.map(|it| it.bytes()),
            rated_written_bytes: rated.map(|it| it.bytes()),
            power_on_hours: smart.hours_on,
            health_passed: smart.passed,
            errors: smart.counts.iter().map(|(counter, count)| (counter.name(), *count)).collect(),
        }
    }
}
