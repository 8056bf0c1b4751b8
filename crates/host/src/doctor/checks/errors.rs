//! Does the drive report errors or failing health?

use serde_json::Value;

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};

/// Bits of the critical warning, NVMe base specification, SMART / health information.
const CRITICAL: [&str; 6] = [
    "spare blocks run out",
    "too hot or too cold",
    "not reliable any more",
    "read-only",
    "the backup of its volatile memory failed",
    "persistent memory is read-only",
];

/// ATA's count of errors of the link: a matter of cables.
const LINK_ERRORS: u64 = 199;

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let smart = &drive.smart;
    if smart.passed.is_none() && smart.media_errors.is_none() {
        return Check::new("errors", Verdict::Unknown, "not known")
            .lacks(drive.missing(context, "whether the drive reports errors"));
    }
    let replace = |check: Check| check.remedy("Back up now, and replace it", None);
    let warnings = critical(drive);
    if smart.passed == Some(false) || !warnings.is_empty() {
        let what = match warnings.is_empty() {
            true => "the drive says that its health FAILED".to_owned(),
            false => format!("the drive warns: {}", warnings.join(", ")),
        };
        return replace(
            Check::new("errors", Verdict::Problem, what).because("Data is in danger now."),
        );
    }
    if let Some(errors) = smart.media_errors.filter(|&errors| errors > 0) {
        return replace(
            Check::new(
                "errors",
                Verdict::Warning,
                format!("{errors} media errors or replaced sectors"),
            )
            .because("Flash has failed where data was. More may follow."),
        );
    }
    if let Some(errors) = attribute(&drive.smartctl, LINK_ERRORS).filter(|&errors| errors > 0) {
        return Check::new(
            "errors",
            Verdict::Notice,
            format!("{errors} errors of the link, so far"),
        )
        .because("A cable or plug, rather than the drive; each costs time.")
        .remedy("If the count grows: another cable, another port", None);
    }
    Check::new("errors", Verdict::Fine, "none reported")
}

fn critical(drive: &Drive) -> Vec<&'static str> {
    let log = &drive.smartctl["nvme_smart_health_information_log"]["critical_warning"];
    let other = &drive.health_log["critical_warning"];
    let bits = [log, other, &other["value"]].into_iter().find_map(Value::as_u64).unwrap_or(0);
    let set = CRITICAL.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    set.map(|(_, words)| *words).collect()
}

fn attribute(smartctl: &Value, id: u64) -> Option<u64> {
    let table = smartctl["ata_smart_attributes"]["table"].as_array()?;
    table.iter().find(|row| row["id"].as_u64() == Some(id))?["raw"]["value"].as_u64()
}
