//! Check of the drive's own over-provisioning: flash that the host cannot address.

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict, known};
use crate::format::capacity;

const NAME: &str = "spare-area";

const WHY: &str = "Garbage collection needs over-provisioning: under random writes, a drive with \
    7 % writes several times what it is sent, one with 28 % about twice ('ssdlab run \
    overprovision' shows it).";

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let size = drive.size();
    if drive.layer.kind == crate::LayerKind::Virtual {
        return Check::new(NAME, Verdict::Unknown, "a disk of a virtual machine")
            .with_missing("what its host has below it: look there");
    }
    let mut notes = Vec::new();
    // Free capacity of the NVM subsystem: what no namespace uses is spare as well.
    if let Some(free) = drive.controller.unallocated {
        notes.push(format!("{} in no namespace, so spare", capacity(free)));
    }
    let known = drive.model().and_then(|model| known::find(&model, size));
    if let Some(raw) = known.and_then(|known| known.raw()) {
        let hidden = raw.bytes().saturating_sub(size.bytes());
        let share = hidden as f64 / raw.bytes() as f64 * 100.0;
        let source = known.map_or("", |known| known.source());
        let mut seen = format!(
            "{} of flash, {} addressed: {share:.1} % of it spare ({source})",
            capacity(raw),
            capacity(size)
        );
        for note in notes {
            seen += &format!("; {note}");
        }
        return Check::new(NAME, Verdict::Fine, seen).with_reason(WHY);
    }
    let mut seen = format!("{} addressed", capacity(size));
    if let Some(whole) = drive.controller.capacity {
        seen += &format!(", of {} that the drive has for namespaces", capacity(whole));
    }
    for note in notes {
        seen += &format!("; {note}");
    }
    let check = Check::new(NAME, Verdict::Unknown, seen).with_reason(WHY);
    let missing = "how much flash is in it: this model is not in the table";
    match (drive.layer.kind == crate::LayerKind::Nvme, drive.no_health_reason.is_some()) {
        (true, true) if !context.machine.is_root => {
            check.with_missing(format!("{missing}; as root: what its namespaces leave"))
        }
        _ => check.with_missing(missing),
    }
}
