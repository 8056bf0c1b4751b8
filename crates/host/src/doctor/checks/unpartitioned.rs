//! Is there space outside all partitions, to be spare area?

use ssdlab_model::units::ByteLength;

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};
use crate::words::capacity;

const NAME: &str = "unpartitioned";

/// Tables of partitions, and what tools leave for alignment at both ends and in between.
const NOT_WORTH_IT: u64 = 64 << 20;
const MIB: u64 = 1 << 20;

pub(super) fn check(context: &Context, drive: &Drive) -> Option<Check> {
    let size = drive.size().bytes();
    let partitions = partitions(context, drive);
    if partitions.is_empty() || drive.is_flash() == Some(false) {
        return None;
    }
    let gaps = gaps(&partitions, size);
    let free: u64 = gaps.iter().map(|(from, to)| to - from).sum();
    if free < NOT_WORTH_IT {
        return Some(Check::new(NAME, Verdict::Fine, "all of it is in partitions"));
    }
    let share = free as f64 / size as f64 * 100.0;
    let seen =
        format!("{} ({share:.1} %) lie outside all partitions", capacity(ByteLength::new(free)));
    let takes = drive.layer.limits.takes_discards();
    let check = Check::new(NAME, Verdict::Notice, seen).because(
        "That is spare area if it was trimmed since it was last written, or never written. Whether \
         it was cannot be seen from outside: a drive made new (secure erase) or trimmed as a whole \
         before it was partitioned is fine.",
    );
    Some(match takes {
        Some(false) => check.lacks("whether it was ever written; this drive takes no TRIM here"),
        _ => check.lacks("whether it was ever trimmed").remedy(
            "Trim what lies outside all partitions. Compare the numbers with 'parted -l' before: \
             what is discarded is gone",
            Some(
                gaps.iter()
                    .map(|(from, to)| {
                        let path = &drive.layer.path;
                        format!("blkdiscard --offset {from} --length {} {path}", to - from)
                    })
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
        ),
    })
}

/// Beginnings and ends of all partitions, in bytes, sorted.
fn partitions(context: &Context, drive: &Drive) -> Vec<(u64, u64)> {
    let directory = &drive.layer.directory;
    let names = context.facts.list(directory).unwrap_or_default();
    let mut found: Vec<(u64, u64)> = names
        .iter()
        .filter(|name| name.starts_with(&drive.layer.name))
        .filter_map(|name| {
            let number = |part: &str| context.facts.number(&format!("{directory}/{name}/{part}"));
            number("partition")?;
            let start = number("start")?.checked_mul(512)?;
            // An extended partition of two sectors stands for all within it; those are listed.
            Some((start, start.checked_add(number("size")?.checked_mul(512)?)?))
        })
        .collect();
    found.sort_unstable();
    found
}

/// What no partition covers, less the tables at both ends, in whole MiB.
fn gaps(partitions: &[(u64, u64)], size: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = MIB;
    let end = size.saturating_sub(MIB);
    for &(from, to) in partitions.iter().chain([&(end, end)]) {
        let (first, last) = (at.div_ceil(MIB).saturating_mul(MIB), from.min(end) / MIB * MIB);
        if last > first && last - first >= 4 * MIB {
            gaps.push((first, last));
        }
        // A partition that claims to be longer than its drive ends with it.
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
