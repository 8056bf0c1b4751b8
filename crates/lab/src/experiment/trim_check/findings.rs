//! Findings about the contents of trimmed sectors.

use super::{JUST_TRIMMED, Observations, Verdict};
use crate::experiment::Record;
use crate::output::format::count;
use crate::report::Level;

pub(super) fn conclude(observed: &Observations, record: &mut Record) {
    let Some(verdict) = &observed.verdict else { return };
    let last = observed.moments.last().map(|(_, contents)| *contents).unwrap_or_default();
    let blocks = count(last.counted());
    let at_once = observed.moments.iter().find(|(when, _)| *when == JUST_TRIMMED);
    let at_once = at_once.map(|(_, contents)| *contents).unwrap_or_default();
    let (level, code, text) = match verdict {
        Verdict::Works { reads_as } => (
            Level::Info,
            "trim-works",
            format!(
                "TRIM works: the data of the deleted file is gone; its {blocks} blocks read as \
                 {reads_as}."
            ),
        ),
        Verdict::StoppedAtLayer { at, why } => (
            Level::Problem,
            "trim-does-not-work",
            format!(
                "TRIM does not reach the flash: it stops at {at}, {why}. All {blocks} blocks of \
                 the deleted file still hold its data. {}",
                next_step(at)
            ),
        ),
        Verdict::OldDataReadable => (
            Level::Warning,
            "trim-not-told",
            format!(
                "Every layer accepted the trim, but the {blocks} blocks of the deleted file still \
                 read as its data. Either the drive, or a bridge before it, ignores trims; or its \
                 reads after TRIM are not deterministic and it has not erased them yet. hdparm -I \
                 shows this (Deterministic read data after TRIM), nvme id-ns in dlfeat. Wait \
                 longer (--set wait=1h) and look again."
            ),
        ),
        Verdict::NotDeterministic => (
            Level::Warning,
            "no-deterministic-reads",
            format!(
                "TRIM reaches the drive, and its reads after TRIM are not deterministic: right \
                 after it {} blocks read as the old data; later, of {blocks}, {} as the old data, \
                 {} as zeros, {} as ones, {} as something else, and {} changed between two reads. \
                 Nothing that relies on zeros (RAID 5) may trim it.",
                count(at_once.old),
                count(last.old),
                count(last.zeros),
                count(last.ones),
                count(last.other),
                count(last.changed)
            ),
        ),
        Verdict::TooFew => (
            Level::Notice,
            "trim-not-told",
            format!(
                "{} blocks of the deleted file belong to other files already, and the other \
                 {blocks} are too few to judge by. Run it again while less is written to this file \
                 system.",
                count(last.taken)
            ),
        ),
    };
    record.add_finding(level, code, text);
    if last.taken > 0 && *verdict != Verdict::TooFew {
        let text = format!(
            "{} blocks were taken by other files meanwhile and do not count.",
            count(last.taken)
        );
        record.add_finding(Level::Info, "blocks-taken", text);
    }
    if let Some(trimmed) = observed.trimmed {
        let text = format!("fstrim trimmed {trimmed} of free space, including that of the file.");
        record.add_finding(Level::Info, "trimmed", text);
    }
}

/// Returns advice about a layer that stops trims.
fn next_step(at: &str) -> &'static str {
    if at.contains("crypt") {
        "Allow it: cryptsetup refresh --allow-discards --persistent, or discard in /etc/crypttab."
    } else if at.contains("RAID") || at.contains("raid") {
        "md passes it on RAID 5 and 6 only when told that the members read as zeros \
         (raid456.devices_handle_discard_safely)."
    } else if at.contains("usb") || at.contains("USB") {
        "Most USB bridges drop it; connect the drive directly, or use a bridge that takes UNMAP."
    } else if at.contains("loop") {
        "The file system that the loop device's file lies on has to punch holes (ext4, xfs, btrfs \
         do), and queue/discard_max_bytes must not be 0."
    } else if at == "drive" {
        "The drive itself ignores it; look for newer firmware."
    } else {
        "Fix it there, or leave part of the drive unwritten instead."
    }
}
