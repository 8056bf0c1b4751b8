//! Check of the write cache: does the kernel know of the drive's volatile write cache?
//!
//! The kernel sends flushes only to drives that it takes to have a write cache.

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};
use crate::layers::{LayerKind, scsi_disk};

pub(super) fn check(context: &Context, drive: &Drive) -> Check {
    let layer = drive.layer;
    let Some(mode) = layer.limits.write_cache.as_deref() else {
        return Check::new("write-cache", Verdict::Unknown, "the kernel does not say");
    };
    if mode == "write back" {
        return Check::new(
            "write-cache",
            Verdict::Fine,
            "write back: there is a cache, and it is flushed",
        );
    }
    let seen = format!("{mode}: no flushes are sent");
    let nvme_has = drive.controller.has_write_cache;
    let kernel_has = scsi_disk(context.facts, &layer.directory)
        .and_then(|disk| context.facts.text(&format!("{disk}/cache_type")))
        .map(|kind| kind.starts_with("write back"));
    if nvme_has == Some(true) || kernel_has == Some(true) {
        return Check::new(
            "write-cache",
            Verdict::Problem,
            format!("{seen}, and the drive has a cache"),
        )
        .with_reason(
            "Somebody set the kernel to that. When power fails, the data in the cache is lost, \
             though programs were told that it is safe.",
        )
        .with_remedy(
            "Let the kernel send flushes again",
            Some(format!("echo 'write back' > /sys/block/{}/queue/write_cache", layer.name)),
        );
    }
    match &layer.kind {
        LayerKind::Usb { .. } => Check::new("write-cache", Verdict::Warning, seen)
            .with_reason(
                "The bridge does not say whether there is a cache, so the kernel assumes none. If \
                 the drive has one, as nearly all have, a power cut loses what is in it.",
            )
            .with_remedy(
                "See what the drive behind it says; if it has a cache, use a bridge that passes \
                 flushes, or switch the cache off (slow)",
                Some(format!("hdparm -W {}", layer.path)),
            ),
        LayerKind::Sata if drive.identify.contains("*\tWrite cache") => Check::new(
            "write-cache",
            Verdict::Warning,
            format!("{seen}, and the drive has its cache on"),
        )
        .with_reason("A power cut loses what is in the cache."),
        LayerKind::Nvme if nvme_has.is_none() => Check::new("write-cache", Verdict::Fine, seen)
            .with_reason("The drive says that its cache loses nothing, or has none.")
            .with_missing(drive.missing_text(context, "whether the drive has a cache (VWC)")),
        LayerKind::Nvme => Check::new("write-cache", Verdict::Fine, seen).with_reason(
            "The drive says that its cache loses nothing (capacitors), or that it has none.",
        ),
        LayerKind::Sata => Check::new("write-cache", Verdict::Notice, seen)
            .with_reason(match drive.is_flash() {
                Some(false) => {
                    "The cache is off. Each write then waits for the disk, and small ones cannot be \
                     put in order: that costs speed."
                }
                _ => {
                    "The cache is off. Each write then waits for the flash, and small ones cannot be \
                     gathered: that costs speed, and wear where pages are filled only in part."
                }
            })
            .with_remedy(
                "Switch it on, if flushes are sent",
                Some(format!("hdparm -W1 {}", layer.path)),
            ),
        _ => Check::new("write-cache", Verdict::Fine, seen),
    }
}
