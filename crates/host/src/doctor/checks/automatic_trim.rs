//! Is free space trimmed by itself, once, and when was it last?

use crate::doctor::{Check, Context, Verdict};
use crate::facts::{Absent, Facts};
use crate::layers::{Layer, LayerKind, Stack};
use crate::words::{age, list, quoted};

const NAME: &str = "automatic-trim";

/// systemd's timer runs once a week; twice that means that a run was missed.
const TOO_LONG_AGO: u64 = 15 * 86_400;

/// Where systemd looks for what is to be started, the first counting most.
const UNITS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// What trims free space now and then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regular {
    /// Whether systemd's timer is on, where there is systemd.
    pub(crate) timer: Option<bool>,
    /// When that ran last, in seconds since 1970.
    pub(crate) last_run: Option<u64>,
    /// Files of cron that call fstrim.
    pub(crate) cron: Vec<String>,
}

impl Regular {
    pub(crate) fn of(facts: &dyn Facts) -> Regular {
        let is_there = |path: &str| facts.resolve(path).is_ok() || facts.read(path).is_ok();
        // Its files may lie about on a machine that systemd does not run (sd_booted(3)).
        let is_running = facts.list("/run/systemd/system") != Err(Absent::Missing);
        let is_installed = UNITS.iter().any(|place| is_there(&format!("{place}/fstrim.timer")));
        let wants = format!("{}/timers.target.wants", UNITS[0]);
        let is_on = || {
            // A link to a unit of a captured machine may lead nowhere: its name counts.
            let names = facts.list(&wants).unwrap_or_default();
            names.iter().any(|name| name == "fstrim.timer")
        };
        Regular {
            timer: (is_running && (is_installed || is_on())).then(is_on),
            last_run: facts.modified("/var/lib/systemd/timers/stamp-fstrim.timer").ok(),
            cron: cron(facts),
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        self.timer == Some(true) || !self.cron.is_empty()
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.timer == Some(true) {
            words.push("fstrim.timer".to_owned());
        }
        words.extend(self.cron.iter().cloned());
        words
    }
}

fn cron(facts: &dyn Facts) -> Vec<String> {
    let mut files = vec!["/etc/crontab".to_owned(), "/var/spool/cron/crontabs/root".to_owned()];
    for place in ["cron.d", "cron.hourly", "cron.daily", "cron.weekly", "cron.monthly"] {
        let names = facts.list(&format!("/etc/{place}")).unwrap_or_default();
        files.extend(names.iter().map(|name| format!("/etc/{place}/{name}")));
    }
    let calls = |path: &String| {
        let text = facts.text(path).unwrap_or_default();
        text.lines().any(|line| !line.trim_start().starts_with('#') && line.contains("fstrim"))
    };
    files.into_iter().filter(calls).collect()
}

/// Whether the mount trims what it frees, and how.
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
    let regular = Regular::of(context.facts);
    let mut check = match (discards(layer), regular.is_any()) {
        (Some(option), false) => {
            let seen = format!("the mount option '{option}' trims what is freed at once");
            Check::new(NAME, Verdict::Fine, seen)
        }
        (Some(option), true) => both(layer, option, &regular),
        (None, true) => only_regular(context, &regular),
        (None, false) => neither(&regular, &mount.point),
    };
    if reaches == Some(false) {
        let is_all_spinning = stack.drives().iter().all(|it| it.limits.is_rotational == Some(true));
        check.verdict = check.verdict.min(match is_all_spinning {
            true => Verdict::Fine,
            false => Verdict::Notice,
        });
        check.seen += "; it does nothing until TRIM gets through";
    }
    Some(check)
}

fn both(layer: &Layer, option: &str, regular: &Regular) -> Check {
    let seen = format!("both the mount option '{option}' and {} trim it", list(&regular.words()));
    // In the background and in batches; on by default since Linux 6.2.
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

fn only_regular(context: &Context, regular: &Regular) -> Check {
    let how = list(&regular.words());
    let is_timer_alone = regular.timer == Some(true) && regular.cron.is_empty();
    let Some(last) = regular.last_run.filter(|_| is_timer_alone) else {
        let seen = format!("{how} trims free space; when it did last is not known");
        // A timer that is on and has no stamp has not run since it was put there.
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
            .because("It should run once a week. Free space that was not trimmed since is no spare area.")
            .remedy(
                "See why it did not, and run it",
                Some("systemctl status fstrim.timer fstrim.service; fstrim -av".to_owned()),
            ),
    }
}

fn neither(regular: &Regular, point: &str) -> Check {
    let check = Check::new(NAME, Verdict::Warning, "nothing trims free space").because(
        "The drive keeps copying about what was deleted long ago, until somebody trims: that costs \
         spare area, speed under writes, and life.",
    );
    match regular.timer {
        Some(_) => check.remedy(
            "Once a week, by systemd ('ssdlab doctor --fix automatic-trim' does it, and takes it back)",
            Some("systemctl enable --now fstrim.timer".to_owned()),
        ),
        None => check.remedy(
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
