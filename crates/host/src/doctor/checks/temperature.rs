//! Is the drive too hot?

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};

/// What most makers allow in operation, in degrees Celsius (data sheets: 0 to 70).
const ALLOWED: i64 = 70;

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let sensor = sensor(context, drive);
    let told = sensor.map(|(now, _)| now).or(drive.smart.temperature);
    let Some(now) = told else {
        return Check::new("temperature", Verdict::Unknown, "not known")
            .lacks(drive.missing(context, "the temperature"));
    };
    let limit = sensor.and_then(|(_, limit)| limit).filter(|limit| (40..120).contains(limit));
    let limit = limit.unwrap_or(ALLOWED);
    let seen = format!("{now} C (allowed: {limit} C)");
    match now {
        now if now >= limit => Check::new("temperature", Verdict::Warning, seen)
            .because("Drives slow down to cool, and hot flash keeps its data for a shorter time.")
            .remedy("More air, a heat sink, another slot", None),
        now if now >= limit - 5 => Check::new("temperature", Verdict::Notice, seen)
            .because("Close to where drives slow down to cool."),
        _ => Check::new("temperature", Verdict::Fine, seen),
    }
}

/// What the kernel's sensor says and allows; all may read it.
fn sensor(context: &Context, drive: &Drive) -> Option<(i64, Option<i64>)> {
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
