//! Check of endurance: data written to the drive, compared with the TBW that the maker rates.

use ssdlab_units::ByteLength;

use crate::doctor::drive::Drive;
use crate::doctor::known::RatedEndurance;
use crate::doctor::{Check, Context, Verdict, known};
use crate::format::capacity;

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let Some(written) = drive.smart.written else {
        let check = Check::new("endurance", Verdict::Unknown, "how much was written is not known");
        return check.with_missing(match &drive.smart.unitless_writes {
            Some(writes) => format!(
                "the unit of attribute {} ({}), which counts {}: smartctl does not know it for \
                 this drive ('update-smart-drivedb' fetches newer drives)",
                writes.id, writes.name, writes.count
            ),
            None => drive.missing_text(context, "how much was written"),
        });
    };
    let mut seen = format!("{} written", capacity(written));
    if let Some(hours) = drive.smart.hours_on.filter(|&hours| hours >= 100) {
        let a_day = written.bytes() as f64 / (hours as f64 / 24.0);
        let drives = a_day / drive.size().bytes().max(1) as f64;
        seen +=
            &format!(", {:.1} GB per day of power-on time ({drives:.3} of the drive)", a_day / 1e9);
    }
    if let Some(flash) = drive.smart.flash_written.filter(|_| written.bytes() > 0) {
        let amplification = flash.bytes() as f64 / written.bytes() as f64;
        seen += &format!(
            "; {} written to the flash (write amplification {amplification:.2})",
            capacity(flash)
        );
    }
    let known = drive.model().and_then(|model| known::find(&model, drive.size()));
    let fine = |seen: String| Check::new("endurance", Verdict::Fine, seen);
    let Some((known, rated)) = known.and_then(|known| Some((known, known.rated_writes()?))) else {
        return fine(seen).with_missing(
            "what the maker rates: this model is not in the table; its data sheet has it",
        );
    };
    let of = |rated: ByteLength| {
        let share = written.bytes() as f64 / rated.bytes() as f64 * 100.0;
        (
            share,
            format!(
                "{seen}: {share:.1} % of the {:.0} TB it is rated for",
                rated.bytes() as f64 / 1e12
            ),
        )
    };
    match rated {
        RatedEndurance::NotGiven => fine(seen.clone())
            .with_missing(format!("what the maker rates: {}", known.quoted_source())),
        RatedEndurance::Verified(rated) => {
            let (share, seen) = of(rated);
            let seen = format!("{seen} ({})", known.quoted_source());
            match share {
                100.0.. => Check::new("endurance", Verdict::Warning, seen).with_reason(
                    "More than the maker's rating. The drive's own wear count says more (check \
                     wear).",
                ),
                80.0.. => Check::new("endurance", Verdict::Notice, seen)
                    .with_reason("Most of the maker's rating."),
                _ => fine(seen),
            }
        }
        RatedEndurance::Unverified(rated) => {
            let (share, seen) = of(rated);
            let seen = format!("{seen} by the project's table, unverified");
            let missing = format!("the maker's own figure: {}", known.source());
            match share {
                80.0.. => Check::new("endurance", Verdict::Notice, seen)
                    .with_reason(
                        "Most of the maker's rating, or more, by a figure that nobody has \
                         verified.",
                    )
                    .with_missing(missing),
                _ => fine(seen).with_missing(missing),
            }
        }
    }
}
