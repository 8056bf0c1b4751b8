//! Machines on which something trims free space by itself, or seems to.

use ssdlab_host::doctor::Verdict::{self, Fine, Notice, Unknown, Warning};

use crate::machine::{MachineBuilder, NOW, mib};
use crate::{assert_verdict, outcome};

const DAY: u64 = 86_400;
const UNITS: &str = "/usr/lib/systemd/system";
const ADMIN: &str = "/etc/systemd/system";

/// A machine with its verdict, and words that are said.
struct Case {
    name: &'static str,
    change: fn(&mut MachineBuilder),
    verdict: Verdict,
    words: &'static str,
}

fn case(
    name: &'static str,
    verdict: Verdict,
    words: &'static str,
    change: fn(&mut MachineBuilder),
) -> Case {
    Case { name, change, verdict, words }
}

fn put(made: &mut MachineBuilder, path: &str, text: &str) {
    made.facts.put(path, text);
}

fn program(made: &mut MachineBuilder, path: &str, line: &str) {
    made.facts.put_program(path, &format!("#!/bin/sh\n{line}\n"));
}

fn weekly(made: &mut MachineBuilder, line: &str) {
    program(made, "/etc/cron.weekly/fstrim", line);
}

fn drop_in(made: &mut MachineBuilder, place: &str, text: &str) {
    made.timer(3 * DAY);
    put(made, &format!("{place}/fstrim.service.d/local.conf"), text);
}

/// Another distribution than Debian.
fn distribution(made: &mut MachineBuilder, name: &str) {
    put(made, "/etc/os-release", &format!("NAME=\"x\"\nID={name}\n"));
}

/// A timer of somebody's own, with its service.
fn own_timer(made: &mut MachineBuilder, timer: &str, service: &str) {
    put(made, &format!("{ADMIN}/trim.timer"), timer);
    put(made, &format!("{ADMIN}/trim.service"), service);
    made.facts
        .link(&format!("{ADMIN}/timers.target.wants/trim.timer"), &format!("{ADMIN}/trim.timer"));
    made.facts.set_modified("/var/lib/systemd/timers/stamp-trim.timer", NOW - 2 * DAY);
}

fn by_systemd() -> Vec<Case> {
    vec![
        case("a timer that is off", Warning, "systemctl enable --now fstrim.timer", |_| {}),
        case(
            "a timer that is on",
            Fine,
            "fstrim.timer trims free space, last 3 days ago",
            |made| {
                made.timer(3 * DAY);
            },
        ),
        case("a timer that did not run for long", Warning, "40 days ago", |made| {
            made.timer(40 * DAY)
        }),
        case("a link of the vendor's", Fine, "fstrim.timer", |made| {
            let to = format!("{UNITS}/fstrim.timer");
            made.facts.link(&format!("{UNITS}/timers.target.wants/fstrim.timer"), &to);
            made.facts.set_modified("/var/lib/systemd/timers/stamp-fstrim.timer", NOW - DAY);
        }),
        case("a link of the vendor's that was taken away", Warning, "enable --now", |made| {
            let to = format!("{UNITS}/fstrim.timer");
            made.facts.link(&format!("{UNITS}/timers.target.wants/fstrim.timer"), &to);
            made.facts.link(&format!("{ADMIN}/timers.target.wants/fstrim.timer"), "/dev/null");
        }),
        case("a timer that another target wants", Fine, "fstrim.timer", |made| {
            let to = format!("{UNITS}/fstrim.timer");
            made.facts.link(&format!("{ADMIN}/multi-user.target.wants/fstrim.timer"), &to);
            made.facts.set_modified("/var/lib/systemd/timers/stamp-fstrim.timer", NOW - DAY);
        }),
        case("a masked timer", Warning, "systemctl unmask", |made| {
            made.timer(3 * DAY);
            made.facts.link(&format!("{ADMIN}/fstrim.timer"), "/dev/null");
        }),
        case("a timer masked until the next start", Warning, "systemctl unmask", |made| {
            made.timer(3 * DAY);
            made.facts.link("/run/systemd/system/fstrim.timer", "/dev/null");
        }),
        case("a timer masked by an empty file", Warning, "systemctl unmask", |made| {
            made.timer(3 * DAY);
            put(made, &format!("{ADMIN}/fstrim.timer"), "");
        }),
        case("a masked service", Warning, "systemctl unmask", |made| {
            made.timer(3 * DAY);
            made.facts.link(&format!("{ADMIN}/fstrim.service"), "/dev/null");
        }),
        case("a drop-in that replaces the command", Warning, "trims nothing", |made| {
            drop_in(made, ADMIN, "[Service]\nExecStart=\nExecStart=/bin/true\n");
        }),
        case("a drop-in that only tries", Warning, "--dry-run", |made| {
            drop_in(made, ADMIN, "[Service]\nExecStart=\nExecStart=/sbin/fstrim -av --dry-run\n");
        }),
        case("a drop-in that trims elsewhere", Warning, "trims /boot", |made| {
            drop_in(made, ADMIN, "[Service]\nExecStart=\nExecStart=/sbin/fstrim /boot\n");
        }),
        case("a drop-in that trims more", Fine, "fstrim.timer", |made| {
            put(made, "/etc/fstab", "/dev/sdb1 / ext4 defaults 0 1\n");
            drop_in(made, ADMIN, "[Service]\nExecStart=-/sbin/fstrim -av\n");
        }),
        case("a drop-in of the vendor's for all services", Fine, "fstrim.timer", |made| {
            made.timer(3 * DAY);
            put(made, &format!("{UNITS}/service.d/10-time.conf"), "[Service]\nTimeoutStopSec=9\n");
        }),
        case("a drop-in that hides the vendor's of that name", Fine, "fstrim.timer", |made| {
            drop_in(made, UNITS, "[Service]\nExecStart=\nExecStart=/bin/true\n");
            put(made, &format!("{ADMIN}/fstrim.service.d/local.conf"), "[Service]\n");
        }),
        case("a timer without its times", Warning, "has no schedule", |made| {
            made.timer(3 * DAY);
            put(made, &format!("{ADMIN}/fstrim.timer.d/never.conf"), "[Timer]\nOnCalendar=\n");
        }),
        case("a timer with other times", Fine, "fstrim.timer", |made| {
            made.timer(3 * DAY);
            let text = "[Timer]\nOnCalendar=\nOnCalendar=daily\n";
            put(made, &format!("{ADMIN}/fstrim.timer.d/daily.conf"), text);
        }),
        case(
            "a timer of somebody's own",
            Fine,
            "trim.timer trims free space, last 2 days ago",
            |made| {
                let service = "[Service]\nExecStart=/usr/sbin/fstrim -a\n";
                own_timer(made, "[Timer]\nOnCalendar=weekly\n", service);
            },
        ),
        case("a timer that starts another unit", Fine, "trim.timer", |made| {
            own_timer(made, "[Timer]\nOnBootSec=1h\nUnit=fstrim.service\n", "[Service]\n");
        }),
        case("a timer whose service is a script", Unknown, "trim.timer", |made| {
            program(made, "/usr/local/sbin/trim-all", "for d in $disks; do fstrim \"$d\"; done");
            let service = "[Service]\nExecStart=/usr/local/sbin/trim-all weekly\n";
            own_timer(made, "[Timer]\nOnCalendar=weekly\n", service);
        }),
        case("fstab that does not list it", Warning, "which has no line for it", |made| {
            made.timer(3 * DAY);
            put(made, "/etc/fstab", "/dev/sdb1 / ext4 defaults 0 1\n");
        }),
        case("fstab that leaves it out", Warning, "X-fstrim.notrim", |made| {
            made.timer(3 * DAY);
            put(made, "/etc/fstab", "/dev/sda1 /mnt ext4 X-fstrim.notrim 0 2\n");
        }),
        case("a timer and the option", Notice, "remount,nodiscard /mnt", |made| {
            made.timer(3 * DAY);
            made.remount("/mnt", "rw,relatime,discard");
        }),
        case("a masked timer and the option", Fine, "at once", |made| {
            made.timer(3 * DAY);
            made.facts.link(&format!("{ADMIN}/fstrim.timer"), "/dev/null");
            made.remount("/mnt", "rw,relatime,discard");
        }),
    ]
}

fn by_cron() -> Vec<Case> {
    vec![
        case("a script", Fine, "/etc/cron.weekly/fstrim", |made| weekly(made, "/sbin/fstrim -a")),
        case("a script that is not executable", Warning, "not executable", |made| {
            put(made, "/etc/cron.weekly/fstrim", "#!/bin/sh\nfstrim -a\n");
        }),
        case("a name that run-parts skips", Warning, "run-parts skips", |made| {
            program(made, "/etc/cron.weekly/fstrim.sh", "fstrim -a");
        }),
        case("that name on Fedora", Fine, "fstrim.sh", |made| {
            distribution(made, "fedora");
            program(made, "/etc/cron.weekly/fstrim.sh", "fstrim -a");
        }),
        case("that name where nothing is known", Unknown, "fstrim.sh", |made| {
            distribution(made, "own");
            program(made, "/etc/cron.weekly/fstrim.sh", "fstrim -a");
        }),
        case("a backup that no run-parts takes", Warning, "run-parts skips", |made| {
            distribution(made, "own");
            program(made, "/etc/cron.weekly/fstrim~", "fstrim -a");
        }),
        case("a table with a name that cron skips", Warning, "cron skips", |made| {
            put(made, "/etc/cron.d/fstrim.conf", "@weekly root fstrim -a\n");
        }),
        case("a table", Fine, "/etc/cron.d/fstrim", |made| {
            put(made, "/etc/cron.d/fstrim", "PATH=/sbin\n0 3 * * 0 root fstrim -a\n");
        }),
        case("a table of somebody who may not", Warning, "as nobody", |made| {
            put(made, "/etc/cron.d/fstrim", "0 3 * * 0 nobody fstrim -a\n");
        }),
        case("root's own table", Fine, "crontabs/root", |made| {
            put(made, "/var/spool/cron/crontabs/root", "0 3 * * 0 /sbin/fstrim /mnt\n");
        }),
        case("root's own table on Fedora", Fine, "/var/spool/cron/root", |made| {
            distribution(made, "fedora");
            put(made, "/var/spool/cron/root", "@weekly nice fstrim /mnt\n");
        }),
        case("anacron", Fine, "/etc/anacrontab", |made| {
            put(made, "/etc/anacrontab", "7 10 trim /sbin/fstrim -a\n");
        }),
        case("a script of Alpine", Fine, "/etc/periodic/weekly/fstrim", |made| {
            distribution(made, "alpine");
            program(made, "/etc/periodic/weekly/fstrim", "fstrim -a");
        }),
        case("cron that is not installed", Warning, "cron is not installed", |made| {
            weekly(made, "fstrim -a");
            made.facts.remove("/usr/sbin/cron");
        }),
        case("a try", Warning, "--dry-run", |made| weekly(made, "fstrim --dry-run -a")),
        case("a try in short", Warning, "--dry-run", |made| weekly(made, "fstrim -avn")),
        case("an echo", Warning, "nothing trims", |made| weekly(made, "echo fstrim -a")),
        case("a comment", Warning, "nothing trims", |made| weekly(made, "true # fstrim -a")),
        case("a word in quotes", Warning, "nothing trims", |made| {
            weekly(made, "logger 'done; fstrim -a'");
        }),
        case("a look for the program", Warning, "nothing trims", |made| {
            weekly(made, "command -v fstrim >/dev/null || exit 0");
        }),
        case("fstrim-all of Ubuntu 14.04", Unknown, "/etc/cron.weekly/fstrim", |made| {
            weekly(made, "exec fstrim-all");
        }),
        case("fstrim-all for all drives", Fine, "/etc/cron.weekly/fstrim", |made| {
            weekly(made, "exec fstrim-all --no-model-check");
        }),
        case("a loop", Unknown, "/etc/cron.weekly/fstrim", |made| {
            weekly(made, "for point in $points; do fstrim $point; done");
        }),
        case("another mount", Warning, "trims /boot", |made| weekly(made, "fstrim /boot")),
        case("several mounts", Fine, "/etc/cron.weekly/fstrim", |made| {
            weekly(made, "fstrim -v /boot; fstrim -v /mnt/ | logger");
        }),
        case("types that are others", Warning, "trims xfs,btrfs only", |made| {
            weekly(made, "fstrim -a -t xfs,btrfs");
        }),
        case("types that it is not", Fine, "/etc/cron.weekly/fstrim", |made| {
            weekly(made, "fstrim -a --types=noxfs,btrfs");
        }),
        case("a part", Unknown, "/etc/cron.weekly/fstrim", |made| {
            weekly(made, "fstrim -l 1G /mnt")
        }),
        case("the service, by cron", Fine, "/etc/cron.weekly/fstrim", |made| {
            weekly(made, "systemctl start fstrim.service");
        }),
        case("all but what fstab leaves out", Warning, "X-fstrim.notrim", |made| {
            put(made, "/etc/fstab", "/dev/sda1 /mnt ext4 X-fstrim.notrim 0 2\n");
            weekly(made, "fstrim -a");
        }),
        case("a timer and a script", Fine, "fstrim.timer and /etc/cron.weekly/fstrim", |made| {
            made.timer(3 * DAY);
            weekly(made, "fstrim -a");
        }),
    ]
}

#[test]
fn every_machine_gets_its_right_verdict_on_automatic_trim() {
    let cases: Vec<Case> = by_systemd().into_iter().chain(by_cron()).collect();
    assert!(cases.len() >= 40, "{} machines", cases.len());
    for Case { name, change, verdict, words } in cases {
        let mut made = MachineBuilder::new();
        made.sata("sda", true);
        made.partition("sda1", "sda", mib(1));
        made.mount("/mnt", "ext4", "sda1", "rw,relatime");
        change(&mut made);
        let check = outcome(&made.build(), "/mnt", "automatic-trim");
        let text = format!("{check:?}");
        assert_eq!(check.verdict, verdict, "{name}: {text}");
        assert!(text.contains(words), "{name}: no '{words}' in {text}");
    }
}

#[test]
fn of_units_a_capture_holds_the_settings_that_are_looked_at_alone() {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.mount("/mnt", "ext4", "sda", "rw,relatime");
    let service = "[Service]\nEnvironment=TOKEN=hush\nExecStart=/bin/backup --password hush\n";
    own_timer(&mut made, "[Timer]\nOnCalendar=weekly\n", service);
    let captured = ssdlab_host::capture(&made.build(), Some("/mnt")).unwrap();
    let kept = ssdlab_host::Facts::read(&captured, &format!("{ADMIN}/trim.service")).unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), "[Service]\n");
}

#[test]
fn drives_that_spin_need_no_trimming() {
    let mut made = MachineBuilder::new();
    made.sata("sda", false);
    made.set("sda", "queue/rotational", "1");
    made.mount("/mnt", "ext4", "sda", "rw,relatime");
    assert_verdict(
        &outcome(&made.build(), "/mnt", "automatic-trim"),
        Fine,
        &["spin, and need none"],
    );
}
