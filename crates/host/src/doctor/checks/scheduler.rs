//! Check of the I/O scheduler: does it suit the drive?

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Verdict};
use crate::layers::LayerKind;

pub(super) fn check(drive: &Drive) -> Check {
    let layer = drive.layer;
    let Some(scheduler) = layer.limits.scheduler.as_deref() else {
        return Check::new("scheduler", Verdict::Unknown, "the kernel names no scheduler");
    };
    let to = |name: &str| format!("echo {name} > /sys/block/{}/queue/scheduler", layer.name);
    if drive.is_flash() != Some(true) {
        return Check::new("scheduler", Verdict::Fine, scheduler);
    }
    match (scheduler, &layer.kind) {
        ("bfq" | "cfq", LayerKind::Nvme) => Check::new("scheduler", Verdict::Notice, scheduler)
            .with_reason(
                "Sorting requests costs processor time for each, which a fast drive shows as fewer \
                 requests a second. It is worth that only where programs must share the drive fairly.",
            )
            .with_remedy("None at all, or mq-deadline", Some(to("none"))),
        ("cfq", _) => Check::new("scheduler", Verdict::Notice, scheduler)
            .with_reason("It waits between requests, for a head that does not move.")
            .with_remedy("One that does not wait", Some(to("deadline"))),
        (name, _) => Check::new("scheduler", Verdict::Fine, format!("{name}, which suits flash")),
    }
}
