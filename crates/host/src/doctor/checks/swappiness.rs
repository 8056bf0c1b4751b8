//! Check of swapping: how much it writes to the drive.

use crate::doctor::{Check, Context, Verdict};
use crate::format::capacity;
use ssdlab_units::ByteLength;

/// Bytes swapped out a day above which the check gives a notice: a tenth of the 40 GB a day that drives of the smallest
/// rated life (150 TB in ten years) are made for.
const HIGH_SWAP_PER_DAY: u64 = 4_000_000_000;

const WHY: &str = "A lower swappiness makes the kernel drop cached files instead of swapping, and \
    those are then read again: it saves writes and costs reads. Advice to set it to 1 or 5 comes \
    from the first SSDs. It should be changed where much is swapped out, not as a matter of course.";

pub(crate) fn check(context: &Context) -> Check {
    let facts = context.facts;
    let number = |name: &str| facts.number(&format!("/proc/sys/vm/{name}"));
    let Some(swappiness) = number("swappiness") else {
        return Check::new("swappiness", Verdict::Unknown, "vm.swappiness cannot be read");
    };
    let mut seen = format!("vm.swappiness is {swappiness}");
    if let Some(pressure) = number("vfs_cache_pressure") {
        seen += &format!(", vm.vfs_cache_pressure {pressure}");
    }
    let swaps: Vec<String> = facts
        .text("/proc/swaps")
        .map(|text| {
            text.lines()
                .skip(1)
                .filter_map(|it| it.split_whitespace().next())
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    let on_disk: Vec<&String> = swaps.iter().filter(|path| !path.contains("zram")).collect();
    if on_disk.is_empty() {
        let how =
            if swaps.is_empty() { "nothing is swapped to" } else { "only memory is swapped to" };
        return Check::new("swappiness", Verdict::Fine, format!("{seen}; {how}")).with_reason(WHY);
    }
    let a_day = swapped_out_per_day(context);
    seen += &match a_day {
        Some(bytes) => format!("; {} a day are swapped out", capacity(ByteLength::new(bytes))),
        None => "; how much is swapped out is not known".to_owned(),
    };
    if a_day.is_some_and(|bytes| bytes > HIGH_SWAP_PER_DAY) {
        return Check::new("swappiness", Verdict::Notice, seen)
            .with_reason(format!("Memory is short, and the drive pays for it. {WHY}"))
            .with_remedy(
                "More memory, or swap in compressed memory before that on the drive (zram). Else, \
                 'ssdlab doctor --fix swappiness' sets it to 10",
                Some("sysctl vm.swappiness=10".to_owned()),
            );
    }
    Check::new("swappiness", Verdict::Fine, seen).with_reason(WHY)
}

/// Returns the bytes swapped out a day, averaged since the system's start; `None` in its first hour.
fn swapped_out_per_day(context: &Context) -> Option<u64> {
    let text = context.facts.text("/proc/vmstat")?;
    let pages: u64 =
        text.lines().find_map(|line| line.strip_prefix("pswpout "))?.trim().parse().ok()?;
    let uptime: f64 = context.facts.text("/proc/uptime")?.split(' ').next()?.parse().ok()?;
    // Less than an hour says nothing about a day. Pages are 4 KiB on nearly all machines.
    (uptime > 3_600.0).then(|| (pages as f64 * 4096.0 / (uptime / 86_400.0)) as u64)
}
