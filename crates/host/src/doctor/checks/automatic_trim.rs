//! Check of automatic TRIM: is free space trimmed, by one mechanism only, and when was the last run?

use super::regular_trim::{Covering, Regular, Timer};
use crate::doctor::{Check, Context, Verdict};
use crate::layers::{Layer, LayerKind, Stack};
use crate::words::{age, list, quoted};

const NAME: &str = "automatic-trim";

/// Longest time since the last run of fstrim, in seconds. systemd's timer runs once a week; after two weeks a run was
/// missed.
const TOO_LONG_AGO: u64 = 15 * 86_400;

/// Returns the mount option that trims blocks when they are freed (`discard`, `discard=...`), or `None`.
fn discards(layer: &Layer) -> Option<&str> {
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
    let regular = Regular::of(context.facts);
    let covering = regular.covering(context.facts, mount);
    let mut check = match (discards(layer), covering.is_any()) {
        (Some(option), false) => {
            let seen = format!("the mount option '{option}' trims what is freed at once");
            let check = Check::new(NAME, Verdict::Fine, seen);
            match covering.unknown.is_empty() {
                true => check,
                false => check.lacks(format!("whether {} trims it, too", list(&covering.unknown))),
            }
        }
        (Some(option), true) => both(layer, option, &covering),
        (None, true) => only_regular(context, &covering),
        (None, false) if !covering.unknown.is_empty() => {
            let seen =
                format!("whether anything trims it is not known: {}", list(&covering.unknown));
            Check::new(NAME, Verdict::Unknown, seen).lacks("what these trim: look there")
        }
        (None, false) => neither(&regular, &covering, &mount.point),
    };
    if reaches == Some(false) {
        check.verdict = check.verdict.min(Verdict::Notice);
        check.seen += "; it does nothing until TRIM gets through";
    }
    Some(check)
}

fn both(layer: &Layer, option: &str, covering: &Covering) -> Check {
    let seen = format!("both the mount option '{option}' and {} trim it", list(&covering.by));
    // btrfs discards in the background and in batches; this is the default since Linux 6.2.
    let is_btrfs =
        matches!(&layer.kind, LayerKind::FileSystem { file_system } if file_system == "btrfs");
    if is_btrfs && option == "discard=async" {
        return Check::new(NAME, Verdict::Fine, seen).because(
            "btrfs trims in the background and in batches; the second costs a little once a week, \
             and covers what the first gave up on.",
        );
    }
    let point = &layer.path;
    Check::new(NAME, Verdict::Notice, seen)
        .because(
            "Once is enough. The option trims at every commit, which makes deleting slower (1.35 \
             times in a published test); now and then is cheaper, and better for drives on which \
             TRIM is slow.",
        )
        .remedy(
            "Keep the regular one and drop the option; 'ssdlab doctor --fix automatic-trim' does, \
             in /etc/fstab with a copy, for the next start",
            Some(format!("mount -o remount,nodiscard {}", quoted(point))),
        )
}

fn only_regular(context: &Context, covering: &Covering) -> Check {
    let how = list(&covering.by);
    let is_timer_alone = covering.is_timer_alone();
    let Some(last) = covering.last_run.filter(|_| is_timer_alone) else {
        let seen = format!("{how} trims free space; when it did last is not known");
        // A timer that is enabled and has no stamp file has not run since it was installed.
        return Check::new(
            NAME,
            if is_timer_alone { Verdict::Notice } else { Verdict::Fine },
            seen,
        )
        .remedy("Run it once, and see what it says", Some("fstrim -av".to_owned()));
    };
    let ago = context.machine.time.saturating_sub(last);
    let seen = format!("{how} trims free space, last {} ago", age(ago));
    match ago > TOO_LONG_AGO {
        false => Check::new(NAME, Verdict::Fine, seen),
        true => Check::new(NAME, Verdict::Warning, seen)
            .because("It should run once a week. Free space that was not trimmed since is no over-provisioning.")
            .remedy(
                "See why it did not, and run it",
                Some(format!("systemctl status {0} {1}.service; fstrim -av", how, how.trim_end_matches(".timer"))),
            ),
    }
}

fn neither(regular: &Regular, covering: &Covering, point: &str) -> Check {
    let seen = match covering.passed_by.is_empty() {
        true => "nothing trims free space".to_owned(),
        false => format!("nothing trims free space here: {}", covering.passed_by.join("; ")),
    };
    let check = Check::new(NAME, Verdict::Warning, seen).because(
        "The drive keeps copying about what was deleted long ago, until somebody trims: that costs \
         over-provisioning, speed under writes, and life.",
    );
    match regular.timer() {
        Timer::On => check.remedy(
            "Give it a line in /etc/fstab without X-fstrim.notrim, which is what the timer goes by; or \
             once a week by cron",
            Some(format!(
                "printf '#!/bin/sh\\nfstrim %s\\n' {} > /etc/cron.weekly/fstrim && chmod +x \
                 /etc/cron.weekly/fstrim",
                quoted(&quoted(point))
            )),
        ),
        Timer::Masked => check.remedy(
            "Somebody has masked the timer or its service (a link to /dev/null, or an empty file); find \
             out why, and take that back",
            Some(
                "systemctl unmask fstrim.timer fstrim.service && systemctl enable --now fstrim.timer"
                    .to_owned(),
            ),
        ),
        Timer::Off => check.remedy(
            "Once a week, by systemd ('ssdlab doctor --fix automatic-trim' does it, and takes it back)",
            Some("systemctl enable --now fstrim.timer".to_owned()),
        ),
        Timer::Absent => check.remedy(
            "Once a week, by cron",
            Some(
                "printf '#!/bin/sh\\nfstrim -a\\n' > /etc/cron.weekly/fstrim && \
                 chmod +x /etc/cron.weekly/fstrim"
                    .to_owned(),
            ),
        ),
    }
    .remedy("And now, once", Some(format!("fstrim -v {}", quoted(point))))
}
