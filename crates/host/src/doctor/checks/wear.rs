//! How much of its life has the drive used?

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let Some(used) = drive.smart.percentage_used else {
        return Check::new("wear", Verdict::Unknown, "not known")
            .lacks(drive.missing(context, "how much of its life is used"));
    };
    let mut seen = format!("{used} % of its rated life used");
    if let Some(years) = years_left(used, drive.smart.hours_on) {
        seen += &format!("; at the pace so far the rest lasts {years}");
    }
    let log = &drive.smartctl["nvme_smart_health_information_log"];
    let spare = |name: &str| log[name].as_u64().or_else(|| drive.health_log[name].as_u64());
    let spare = spare("available_spare").or_else(|| spare("avail_spare"));
    let threshold = log["available_spare_threshold"]
        .as_u64()
        .or_else(|| drive.health_log["spare_thresh"].as_u64());
    // Emulated ones say 0 of both.
    let spare = spare.filter(|&spare| spare > 0 || threshold.is_some_and(|least| least > 0));
    if let Some(spare) = spare {
        seen += &format!("; {spare} % of the spare blocks left");
    }
    let replace = |check: Check| check.remedy("Back up now, and replace it", None);
    if let (Some(spare), Some(threshold)) = (spare, threshold)
        && spare < threshold
    {
        return replace(Check::new("wear", Verdict::Problem, seen).because(format!(
            "Less than {threshold} % of the spare blocks: soon it can only be read."
        )));
    }
    let worn = "Rated life is what the maker answers for: after it, data may not last without \
                power as long as it should, and blocks fail sooner.";
    match used {
        100.. => replace(Check::new("wear", Verdict::Problem, seen).because(worn)),
        90.. => replace(Check::new("wear", Verdict::Warning, seen).because(worn)),
        80.. => Check::new("wear", Verdict::Notice, seen).because(worn),
        _ => Check::new("wear", Verdict::Fine, seen),
    }
}

/// In words, where there was enough of both to tell.
fn years_left(used: u64, hours: Option<u64>) -> Option<String> {
    let hours = hours.filter(|&hours| hours >= 1_000 && used >= 1)?;
    let left = 100_u64.saturating_sub(used);
    // Percents are whole ones, rounded by the drive as it likes: of one or two nothing exact comes.
    let years = left as f64 / used as f64 * hours as f64 / 8_766.0;
    Some(match years {
        years if years > 20.0 => "over 20 years of being on".to_owned(),
        years => format!("about {years:.1} years of being on"),
    })
}
