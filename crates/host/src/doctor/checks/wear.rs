//! Check of wear: the share of the rated life that is used, and the spare blocks that are left.

use ssdlab_blockdev::smart::Spare;

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let smart = &drive.smart;
    let mut seen = Vec::new();
    if let Some(used) = smart.percentage_used {
        seen.push(format!("{used} % of its rated life used"));
        let left = time_left(used, smart.hours_on);
        seen.extend(left.map(|left| format!("at the pace so far the rest lasts {left}")));
    }
    seen.extend(smart.spare.map(|spare| format!("{} % of the spare blocks left", spare.available)));
    let seen = seen.join("; ");
    let replace = |check: Check| check.with_remedy("Back up now, and replace it", None);
    if let Some(spare) = smart.spare.filter(Spare::is_short) {
        let least = spare.threshold.unwrap_or_default();
        return replace(Check::new("wear", Verdict::Problem, seen).with_reason(format!(
            "Less than {least} % of the spare blocks: soon it can only be read."
        )));
    }
    let Some(used) = smart.percentage_used else {
        let missing = drive.missing_text(context, "how much of its life is used");
        return match seen.is_empty() {
            true => Check::new("wear", Verdict::Unknown, "not known").with_missing(missing),
            false => Check::new("wear", Verdict::Fine, seen).with_missing(missing),
        };
    };
    let worn = "Beyond the life that the maker rates, data may not last without power as long as \
                it should, and blocks fail sooner.";
    match used {
        100.. => replace(Check::new("wear", Verdict::Problem, seen).with_reason(worn)),
        90.. => replace(Check::new("wear", Verdict::Warning, seen).with_reason(worn)),
        80.. => Check::new("wear", Verdict::Notice, seen).with_reason(worn),
        _ => Check::new("wear", Verdict::Fine, seen),
    }
}

const HOURS_A_YEAR: f64 = 8_766.0;

/// Returns the time until all of the rated life is used, in words; `None` if hours or wear are too few for an estimate.
fn time_left(used: u64, hours: Option<u64>) -> Option<String> {
    let hours = hours.filter(|&hours| hours >= 1_000 && (1..100).contains(&used))?;
    // The drive reports whole percents, rounded in its own way: an estimate from one or two percent is not exact.
    let left = (100 - used) as f64 / used as f64 * hours as f64;
    let (years, months, days) = (left / HOURS_A_YEAR, left / HOURS_A_YEAR * 12.0, left / 24.0);
    let text = match () {
        () if years > 20.0 => "over 20 years".to_owned(),
        () if years >= 2.0 => format!("about {years:.1} years"),
        () if months >= 2.0 => format!("about {months:.0} months"),
        () if days >= 2.0 => format!("about {days:.0} days"),
        () => "less than two days".to_owned(),
    };
    Some(format!("{text} of power-on time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_never_said_to_be_none() {
        let left = |used, hours| time_left(used, Some(hours)).unwrap();
        assert_eq!(left(1, 20_000), "over 20 years of power-on time");
        assert_eq!(left(50, 20_000), "about 2.3 years of power-on time");
        assert_eq!(left(90, 20_000), "about 3 months of power-on time");
        assert_eq!(left(99, 20_000), "about 8 days of power-on time");
        assert_eq!(left(99, 2_000), "less than two days of power-on time");
        assert_eq!(time_left(0, Some(20_000)), None);
        assert_eq!(time_left(100, Some(20_000)), None);
        assert_eq!(time_left(255, Some(20_000)), None);
        assert_eq!(time_left(50, Some(10)), None);
    }
}
