//! Check of automatic TRIM: is free space trimmed, by one mechanism only, and when was the last run?

use super::periodic_trim::{MountCoverage, PeriodicTrim, Timer};
use crate::doctor::{Check, Context, Verdict};
use crate::format::{elapsed, list, quoted};
use crate::layers::{Layer, LayerKind, Stack};

const NAME: &str = "automatic-trim";

/// Longest time since the last run of fstrim, in seconds. systemd's timer runs once a week; after two weeks a run was
/// missed.
const MAX_TRIM_INTERVAL: u64 = 15 * 86_400;

/// Returns the mount option that trims blocks when they are freed (`discard`, `discard=...`), or `None`.
fn discard_option(layer: &Layer) -> Option<&str> {
    let options = &layer.mount.as_ref()?.options;
    options
        .iter()
        .find(|option| *option == "discard" || option.starts_with("discard="))
        .map(String::as_str)
}

pub(in crate::doctor) fn check(
    context: &Context,
    stack: &Stack,
    reaches: Option<bool>,
) -> Option<Check> {
    let layer = stack.file_system().filter(|layer| !layer.below.is_empty())?;
    let mount = layer.mount.as_ref()?;
    if mount.is_read_only() {
        let seen = "mounted read-only, so that nothing is freed";
        return Some(Check::new(NAME, Verdict::Fine, seen));
    }
    let drives = stack.drives();
    let spins = !drives.is_empty() && drives.iter().all(|it| it.is_spinning());
    if spins && reaches == Some(false) {
        return Some(Check::new(NAME, Verdict::Fine, "the drives below spin, and need none"));
    }
    let periodic = PeriodicTrim::of(context.facts);
    let coverage = periodic.coverage(context.facts, mount);
    let mut check = match (discard_option(layer), coverage.is_any()) {
        (Some(option), false) => {
            let seen = format!("the mount option '{option}' trims what is freed at once");
            let check = Check::new(NAME, Verdict::Fine, seen);
            match coverage.unknown.is_empty() {
                true => check,
                false => {
                    check.with_missing(format!("whether {} trims it, too", list(&coverage.unknown)))
                }
            }
        }
        (Some(option), true) => both(layer, option, &coverage),
        (None, true) => only_periodic(context, &coverage),
        (None, false) if !coverage.unknown.is_empty() => {
            let seen =
                format!("whether anything trims it is not known: {}", list(&coverage.unknown));
            Check::new(NAME, Verdict::Unknown, seen).with_missing("what these trim: look there")
        }
        (None, false) => neither(&periodic, &coverage, &mount.point),
    };
    if reaches == Some(false) {
        check.verdict = check.verdict.min(Verdict::Notice);
        check.seen += "; it does nothing until TRIM gets through";
    }
    Some(check)
}

fn both(layer: &Layer, option: &str, coverage: &MountCoverage) -> Check {
    let seen = format!("both the mount option '{option}' and {} trim it", list(&coverage.by));
    // btrfs discards in the background and in batches; this is the default since Linux 6.2.
    let is_btrfs =
        matches!(&layer.kind, LayerKind::FileSystem { file_system } if file_system == "btrfs");
    if is_btrfs && option == "discard=async" {
        return Check::new(NAME, Verdict::Fine, seen).with_reason(
            "btrfs trims in the background and in batches; the second costs a little once a week, \
             and covers what the first gave up on.",
        );
    }
    let point = &layer.path;
    Check::new(NAME, Verdict::Notice, seen)
        .with_reason(
            "Once is enough. The option trims at every commit, which makes deleting slower (1.35 \
             times in a published test); now and then is cheaper, and better for drives on which \
             TRIM is slow.",
        )
        .with_remedy(
            "Keep the regular trim and drop the option; 'ssdlab doctor --fix automatic-trim' \
             changes /etc/fstab for the next boot, and keeps a copy",
            Some(format!("mount -o remount,nodiscard {}", quoted(point))),
        )
}

fn only_periodic(context: &Context, coverage: &MountCoverage) -> Check {
    let how = list(&coverage.by);
    let is_timer_alone = coverage.is_timer_alone();
    let Some(last) = coverage.last_run.filter(|_| is_timer_alone) else {
        let seen = format!("{how} trims free space; when it did last is not known");
        // A timer that is enabled and has no stamp file has not run since it was installed.
        return Check::new(
            NAME,
            if is_timer_alone { Verdict::Notice } else { Verdict::Fine },
            seen,
        )
        .with_remedy("Run it once, and see what it says", Some("fstrim -av".to_owned()));
    };
    let ago = context.machine.time.saturating_sub(last);
    let seen = format!("{how} trims free space, last {} ago", elapsed(ago));
    match ago > MAX_TRIM_INTERVAL {
        false => Check::new(NAME, Verdict::Fine, seen),
        true => Check::new(NAME, Verdict::Warning, seen)
            .with_reason("It should run once a week. Free space that was not trimmed since is no over-provisioning.")
            .with_remedy(
                "See why it did not, and run it",
                Some(format!("systemctl status {0} {1}.service; fstrim -av", how, how.trim_end_matches(".timer"))),
            ),
    }
}

fn neither(periodic: &PeriodicTrim, coverage: &MountCoverage, point: &str) -> Check {
    let seen = match coverage.uncovered_by.is_empty() {
        true => "nothing trims free space".to_owned(),
        false => format!("nothing trims free space here: {}", coverage.uncovered_by.join("; ")),
    };
    let check = Check::new(NAME, Verdict::Warning, seen).with_reason(
        "Until free space is trimmed, garbage collection keeps copying data that was deleted long \
         ago: that costs over-provisioning, speed under writes, and life.",
    );
    match periodic.timer() {
        Timer::On => check.with_remedy(
            "Add a line for it to /etc/fstab, which the timer reads, without X-fstrim.notrim; or \
             trim it once a week by cron",
            Some(format!(
                "printf '#!/bin/sh\\nfstrim %s\\n' {} > /etc/cron.weekly/fstrim && chmod +x \
                 /etc/cron.weekly/fstrim",
                quoted(&quoted(point))
            )),
        ),
        Timer::Masked => check.with_remedy(
            "The timer or its service is masked (a link to /dev/null, or an empty file); find out \
             why, and unmask it",
            Some(
                "systemctl unmask fstrim.timer fstrim.service && systemctl enable --now fstrim.timer"
                    .to_owned(),
            ),
        ),
        Timer::Off => check.with_remedy(
            "Trim once a week, by systemd ('ssdlab doctor --fix automatic-trim' does this, and \
             --undo reverts it)",
            Some("systemctl enable --now fstrim.timer".to_owned()),
        ),
        Timer::Absent => check.with_remedy(
            "Trim once a week, by cron",
            Some(
                "printf '#!/bin/sh\\nfstrim -a\\n' > /etc/cron.weekly/fstrim && \
                 chmod +x /etc/cron.weekly/fstrim"
                    .to_owned(),
            ),
        ),
    }
    .with_remedy("And now, once", Some(format!("fstrim -v {}", quoted(point))))
}
