//! Check of the drive's temperature.

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};

/// Temperature that most makers allow in operation, in degrees Celsius (data sheets: 0 to 70 for flash, 0 to 60 for
/// spinning disks).
const MAX_FLASH_CELSIUS: i64 = 70;
const MAX_SPINNING_CELSIUS: i64 = 60;

/// Returns the temperature in degrees Celsius, by the kernel's sensor or, without a sensor, by SMART.
pub(in crate::doctor) fn of(context: &Context, drive: &Drive) -> Option<i64> {
    hwmon(context, drive).map(|(now, _)| now).or(drive.smart.temperature)
}

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let Some(now) = of(context, drive) else {
        return Check::new("temperature", Verdict::Unknown, "not known")
            .with_missing(drive.missing_text(context, "the temperature"));
    };
    let spins = drive.is_flash() == Some(false);
    let by_sensor = hwmon(context, drive).and_then(|(_, limit)| limit);
    let limits = [by_sensor, drive.smart.temperature_limit];
    let limit = limits.into_iter().flatten().find(|limit| (40..120).contains(limit));
    let limit = limit.unwrap_or(if spins { MAX_SPINNING_CELSIUS } else { MAX_FLASH_CELSIUS });
    let seen = format!("{now} C (allowed: {limit} C)");
    match now {
        now if now >= limit => Check::new("temperature", Verdict::Warning, seen)
            .with_reason(match spins {
                true => "Heat shortens the life of a disk.",
                false => {
                    "Drives slow down to cool, and hot flash keeps its data for a shorter time."
                }
            })
            .with_remedy("More air, a heat sink, another slot", None),
        now if now >= limit - 5 => Check::new("temperature", Verdict::Notice, seen)
            .with_reason("Close to the most that its maker allows."),
        _ => Check::new("temperature", Verdict::Fine, seen),
    }
}

/// Returns the temperature by the kernel's sensor and the limit that the kernel tells, in degrees Celsius. Any user can
/// read them.
fn hwmon(context: &Context, drive: &Drive) -> Option<(i64, Option<i64>)> {
    let device = format!("{}/device", drive.layer.directory);
    let places = [device.clone(), format!("{device}/hwmon")];
    let place = places.iter().find_map(|place| {
        let names = context.facts.list(place).ok()?;
        let name = names.iter().find(|name| {
            name.strip_prefix("hwmon").is_some_and(|rest| rest.parse::<u32>().is_ok())
        })?;
        Some(format!("{place}/{name}"))
    })?;
    let degrees = |name: &str| {
        let text = context.facts.text(&format!("{place}/{name}"))?;
        Some(text.parse::<i64>().ok()? / 1000)
    };
    Some((degrees("temp1_input")?, degrees("temp1_max")))
}
