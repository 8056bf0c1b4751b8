//! Check of unpartitioned space, which can serve as over-provisioning.

use ssdlab_units::ByteLength;

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};
use crate::format::capacity;

const NAME: &str = "unpartitioned";

/// Bytes of free space below which none is reported: partition tables, and gaps that tools leave for alignment.
const MIN_REPORTED: u64 = 64 << 20;
const MIB: u64 = 1 << 20;

pub(super) fn check(context: &Context, drive: &Drive) -> Option<Check> {
    let size = drive.size().bytes();
    let partitions = partitions(context, drive);
    if partitions.is_empty() {
        return None;
    }
    let gaps = gaps(&partitions, size);
    let free: u64 = gaps.iter().map(|(from, to)| to - from).sum();
    if free < MIN_REPORTED {
        return Some(Check::new(NAME, Verdict::Fine, "all of it is in partitions"));
    }
    let share = free as f64 / size as f64 * 100.0;
    let seen =
        format!("{} ({share:.1} %) lie outside all partitions", capacity(ByteLength::new(free)));
    let takes = drive.layer.limits.takes_discards();
    let check = Check::new(NAME, Verdict::Notice, seen).with_reason(
        "That is over-provisioning if it was trimmed since it was last written, or never written. \
         That cannot be seen from outside: a drive that was purged (secure erase) or trimmed as a \
         whole before it was partitioned is fine.",
    );
    if takes == Some(false) {
        return Some(
            check.with_missing("whether it was ever written; this drive takes no TRIM here"),
        );
    }
    let check = check.with_missing("whether it was ever trimmed");
    let holders = context.facts.list(&format!("{}/holders", drive.layer.directory));
    if holders.is_ok_and(|holders| !holders.is_empty()) {
        // An array may keep its metadata outside the partitions, and writes it to all members.
        return Some(check.with_reason(
            "The drive as a whole is a member of something (an array, a volume): space outside its \
             partitions may belong to that, so it must not be trimmed here.",
        ));
    }
    Some(check.with_remedy(
        "Make a partition there, trim that, and delete it again. A tool for partitions knows what \
         else lies there, and others cannot be hit by a wrong number. The commands are for GPT; \
         elsewhere make the partition by hand",
        Some(trim_by_partitions(&drive.layer.path, &gaps)),
    ))
}

/// Returns shell commands that trim `gaps`. They find each partition by the name that they gave it, never by a number
/// that might be another partition's. Without a GPT, parted refuses the name, and nothing happens.
fn trim_by_partitions(path: &str, gaps: &[(u64, u64)]) -> String {
    let of_gap = |(number, (from, to)): (usize, &(u64, u64))| {
        let name = format!("ssdlab-unused-{number}");
        format!(
            "parted -s {path} mkpart {name} {from}B {}B && udevadm settle && blkdiscard \
             /dev/disk/by-partlabel/{name}",
            to - 1
        )
    };
    let mut commands: Vec<String> = (1..).zip(gaps).map(of_gap).collect();
    commands
        .push(format!("parted {path} print    # and 'rm' with the numbers of ssdlab-unused-..."));
    commands.join("\n")
}

/// Largest size that the kernel shows for an extended partition, in bytes: two sectors, or one large sector. The
/// logical partitions within it are shown separately; before each of them lies a table (EBR) that leads to the next.
const MAX_EXTENDED_SIZE: u64 = 4096;

/// Highest number of a primary or extended partition.
const MAX_PRIMARY_NUMBER: u64 = 4;

/// Returns the beginnings and ends of all partitions in bytes, sorted. The kernel does not tell the end of an extended
/// partition, so it is taken to reach to the next primary partition or to the end of the drive.
fn partitions(context: &Context, drive: &Drive) -> Vec<(u64, u64)> {
    let directory = &drive.layer.directory;
    let names = context.facts.list(directory).unwrap_or_default();
    let found: Vec<(u64, u64, u64)> = names
        .iter()
        .filter(|name| name.starts_with(&drive.layer.name))
        .filter_map(|name| {
            let number = |part: &str| context.facts.number(&format!("{directory}/{name}/{part}"));
            let start = number("start")?.checked_mul(512)?;
            let length = number("size")?.checked_mul(512)?;
            Some((number("partition")?, start, start.checked_add(length)?))
        })
        .collect();
    let until = |&(number, start, end): &(u64, u64, u64)| {
        if number > MAX_PRIMARY_NUMBER || end - start > MAX_EXTENDED_SIZE {
            return end;
        }
        let primaries = found.iter().filter(|it| it.0 <= MAX_PRIMARY_NUMBER && it.1 > start);
        primaries.map(|it| it.1).min().unwrap_or(u64::MAX)
    };
    let mut spans: Vec<(u64, u64)> = found.iter().map(|it| (it.1, until(it))).collect();
    spans.sort_unstable();
    spans
}

/// Returns the gaps between partitions in whole MiB, without the tables at both ends of the drive and gaps below 4 MiB.
fn gaps(partitions: &[(u64, u64)], size: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = MIB;
    let end = size.saturating_sub(MIB);
    for &(from, to) in partitions.iter().chain([&(end, end)]) {
        let (first, last) = (at.div_ceil(MIB).saturating_mul(MIB), from.min(end) / MIB * MIB);
        if last > first && last - first >= 4 * MIB {
            gaps.push((first, last));
        }
        // A partition that claims to be longer than the drive is cut at the drive's end.
        at = at.max(to.min(end));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_never_touch_a_partition_nor_the_tables_at_both_ends() {
        let gib = 1 << 30;
        let partitions = [(MIB, gib), (2 * gib + 512, 3 * gib)];
        let found = gaps(&partitions, 4 * gib);
        assert_eq!(found, [(gib, 2 * gib), (3 * gib, 4 * gib - MIB)]);
        assert_eq!(gaps(&[(MIB, 4 * gib)], 4 * gib), []);
    }
}
