//! Check of the drive's health report (SMART): errors and failing health.
//!
//! The check names every sign of trouble in the report, whatever the drive's own verdict is.

use ssdlab_blockdev::smart::{Counter, CriticalWarning, ErrorCause, Sign};

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};
use crate::format::elapsed;

const NAME: &str = "errors";

/// Power-on hours after which a logged error of the medium counts as past: a year. The damage it left is counted
/// elsewhere (pending and replaced sectors).
const PAST_ERROR_HOURS: u64 = 8_766;

/// ATA attributes of temperature: they exceed their threshold because of heat, not of age.
const TEMPERATURE_ATTRIBUTES: [u64; 2] = [190, 194];

/// Subject of a sign, which decides the advice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Concern {
    /// No advice.
    None,
    /// The link to the drive.
    Link,
    /// Heat.
    Heat,
    /// The medium or the drive as a whole.
    Drive,
}

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let smart = &drive.smart;
    if smart.passed.is_none() && smart.media_errors.is_none() && smart.signs.is_empty() {
        return Check::new(NAME, Verdict::Unknown, "not known")
            .with_missing(drive.missing_text(context, "whether the drive reports errors"));
    }
    let spins = drive.is_flash() == Some(false);
    let mut found: Vec<(Verdict, Concern, String)> =
        smart.signs.iter().filter_map(|sign| judge_sign(sign, spins)).collect();
    found.extend(critical_warnings(&smart.signs));
    // The worst first; signs with the same verdict stay in order.
    found.sort_by_key(|(verdict, _, _)| std::cmp::Reverse(*verdict));
    let Some(&(verdict, concern, _)) = found.first() else {
        return Check::new(NAME, Verdict::Fine, no_errors_text(drive));
    };
    let concern = found.iter().filter(|it| it.0 == verdict).map(|it| it.1).max().unwrap_or(concern);
    let seen: Vec<String> = found.into_iter().map(|(_, _, text)| text).collect();
    let check = Check::new(NAME, verdict, seen.join("; "));
    match (verdict, concern) {
        (Verdict::Problem, _) => check
            .with_reason("Data is in danger now.")
            .with_remedy("Back up now, and replace it", None),
        (Verdict::Warning, Concern::Heat) => check
            .with_reason("Drives slow down to cool, and heat shortens their life.")
            .with_remedy("More air, a heat sink, another slot", None),
        (Verdict::Warning, _) => check
            .with_reason(match spins {
                true => "Sectors have failed where data was. More may follow.",
                false => "Flash has failed where data was. More may follow.",
            })
            .with_remedy("Back up now, and replace it if the counts grow", None)
            .with_remedy(
                "An extended self-test reads all of it, in the background",
                Some(format!("smartctl -t long {}", drive.layer.path)),
            ),
        (_, Concern::Link) => check
            .with_reason(
                "The cause is a cable or plug rather than the drive; each error costs time.",
            )
            .with_remedy("If the count grows: another cable, another port", None),
        _ => check.with_reason("No harm by itself; worth a second look if the counts grow."),
    }
}

fn no_errors_text(drive: &Drive) -> String {
    let Some(test) = &drive.smart.self_test else { return "none reported".to_owned() };
    let when =
        test.hours_ago.map(|hours| format!(" {}", hours_ago_text(hours))).unwrap_or_default();
    match test.passed {
        true => format!("none reported; the last self-test passed{when}"),
        false => format!("none reported; an earlier self-test failed{when}"),
    }
}

/// Returns power-on hours in words.
fn hours_ago_text(hours: u64) -> String {
    format!("{} of power-on time ago", elapsed(hours.saturating_mul(3_600)))
}

/// Returns one outcome for all bits of NVMe's critical warning that are set, or `None` if no bit is set.
fn critical_warnings(signs: &[Sign]) -> Option<(Verdict, Concern, String)> {
    let set: Vec<CriticalWarning> = signs
        .iter()
        .filter_map(|sign| match sign {
            Sign::Critical(warning) => Some(*warning),
            _ => None,
        })
        .collect();
    if set.is_empty() {
        return None;
    }
    let text: Vec<&str> = set
        .iter()
        .map(|warning| match warning {
            CriticalWarning::Spare => "spare blocks run out",
            CriticalWarning::Temperature => "too hot or too cold",
            CriticalWarning::Reliability => "not reliable any more",
            CriticalWarning::ReadOnly => "read-only",
            CriticalWarning::Backup => "the backup of its volatile memory failed",
            CriticalWarning::PersistentMemory => "persistent memory is read-only",
            CriticalWarning::Other => "something that this program does not know",
        })
        .collect();
    let text = format!("the drive warns: {}", text.join(", "));
    Some(match set.iter().all(|warning| *warning == CriticalWarning::Temperature) {
        true => (Verdict::Warning, Concern::Heat, text),
        false => (Verdict::Problem, Concern::Drive, text),
    })
}

fn judge_sign(sign: &Sign, spins: bool) -> Option<(Verdict, Concern, String)> {
    Some(match sign {
        Sign::Critical(_) => return None,
        Sign::HealthFailed { said } => {
            let said = said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default();
            let text = format!("the drive says that its health FAILED{said}");
            (Verdict::Problem, Concern::Drive, text)
        }
        Sign::AttributeFailed { id, name, now, prefailure } => {
            let verdict = match (now, prefailure) {
                (true, true) => Verdict::Problem,
                (true, false) | (false, true) => Verdict::Warning,
                (false, false) => Verdict::Notice,
            };
            let when = if *now { "is" } else { "was" };
            let text = format!("attribute {id} ({name}) {when} beyond the maker's threshold");
            match TEMPERATURE_ATTRIBUTES.contains(id) {
                true => (verdict.min(Verdict::Warning), Concern::Heat, text),
                false => (verdict, Concern::Drive, text),
            }
        }
        Sign::Counted { counter, count } => judge_counter(*counter, *count, spins),
        Sign::LoggedErrors { count, hours_ago, cause } => {
            let is_past = hours_ago.is_some_and(|hours| hours > PAST_ERROR_HOURS);
            let (verdict, concern, what) = match cause {
                ErrorCause::Media if is_past => {
                    (Verdict::Notice, Concern::Drive, "unreadable data")
                }
                ErrorCause::Media => (Verdict::Warning, Concern::Drive, "unreadable data"),
                ErrorCause::Link => (Verdict::Notice, Concern::Link, "damage on the link"),
                ErrorCause::Refused => (Verdict::Notice, Concern::None, "refused commands"),
                ErrorCause::Unknown => (Verdict::Notice, Concern::None, "causes not told"),
            };
            let when = hours_ago.map(|hours| format!(", the newest {}", hours_ago_text(hours)));
            let many = if *count == 1 { "error" } else { "errors" };
            let text = format!("{count} {many} in its log: {what}{}", when.unwrap_or_default());
            (verdict, concern, text)
        }
        Sign::SelfTestFailed { said, hours_ago, is_newest } => {
            let when =
                hours_ago.map(|hours| format!(" {}", hours_ago_text(hours))).unwrap_or_default();
            let said = if said.is_empty() { "failed" } else { said };
            match is_newest {
                true => (
                    Verdict::Problem,
                    Concern::Drive,
                    format!("the last self-test failed{when} ({said})"),
                ),
                false => (
                    Verdict::Warning,
                    Concern::Drive,
                    format!(
                        "a self-test failed{when} ({said}), and no extended one has passed since"
                    ),
                ),
            }
        }
    })
}

fn judge_counter(counter: Counter, count: u64, spins: bool) -> (Verdict, Concern, String) {
    let (one, many) = match counter {
        Counter::Replaced if spins => ("replaced sector", "replaced sectors"),
        Counter::Replaced => ("replaced block or sector", "replaced blocks or sectors"),
        Counter::Pending => {
            ("sector that waits to be replaced", "sectors that wait to be replaced")
        }
        Counter::ReportedUncorrectable => (
            "uncorrectable error reported to the host",
            "uncorrectable errors reported to the host",
        ),
        Counter::OfflineUncorrectable => {
            ("sector that its own scan could not read", "sectors that its own scan could not read")
        }
        Counter::EndToEnd => {
            ("error inside the drive (end-to-end)", "errors inside the drive (end-to-end)")
        }
        Counter::ProgramFailures => {
            ("program of flash that failed", "programs of flash that failed")
        }
        Counter::EraseFailures => ("erase of flash that failed", "erases of flash that failed"),
        Counter::Link => ("error of the link, so far", "errors of the link, so far"),
        Counter::Media => ("media error", "media errors"),
        Counter::GrownDefects => ("grown defect", "grown defects"),
        Counter::UncorrectedReads => ("uncorrected error of reads", "uncorrected errors of reads"),
        Counter::UncorrectedWrites => {
            ("uncorrected error of writes", "uncorrected errors of writes")
        }
        Counter::UncorrectedVerifies => {
            ("uncorrected error of verifications", "uncorrected errors of verifications")
        }
    };
    let text = format!("{count} {}", if count == 1 { one } else { many });
    match counter {
        Counter::Link => (Verdict::Notice, Concern::Link, text),
        // The drive replaces flash blocks that fail; the check `wear` reports how many spare blocks are left.
        Counter::ProgramFailures | Counter::EraseFailures => (Verdict::Notice, Concern::None, text),
        _ => (Verdict::Warning, Concern::Drive, text),
    }
}
