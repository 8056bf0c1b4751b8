//! How the layers are used: options, timers, alignment, settings.

use ssdlab_host::doctor::{self, CHECKS, Verdict};

use crate::machine::{MachineBuilder, mib};
use crate::{assert_verdict, outcome};

const DAY: u64 = 86_400;

fn plain(options: &str) -> MachineBuilder {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.partition("sda1", "sda", mib(1));
    made.mount("/mnt", "ext4", "sda1", options);
    made
}

#[test]
fn free_space_should_be_trimmed_by_one_thing() {
    let check = |made: &MachineBuilder| outcome(&made.build(), "/mnt", "automatic-trim");
    assert_verdict(
        &check(&plain("rw,relatime")),
        Verdict::Warning,
        &["systemctl enable --now fstrim.timer"],
    );
    assert_verdict(&check(&plain("rw,relatime,discard")), Verdict::Fine, &["at once"]);

    let mut timer = plain("rw,relatime");
    timer.timer(3 * DAY);
    assert_verdict(&check(&timer), Verdict::Fine, &["fstrim.timer", "3 days ago"]);

    let mut late = plain("rw,relatime");
    late.timer(40 * DAY);
    assert_verdict(&check(&late), Verdict::Warning, &["40 days ago"]);

    let mut both = plain("rw,relatime,discard");
    both.timer(3 * DAY);
    assert_verdict(&check(&both), Verdict::Notice, &["remount,nodiscard /mnt"]);

    let mut cron = plain("rw,relatime");
    cron.facts.put_program("/etc/cron.weekly/fstrim", "#!/bin/sh\n/sbin/fstrim -a\n");
    assert_verdict(&check(&cron), Verdict::Fine, &["/etc/cron.weekly/fstrim"]);
    cron.facts.put_program("/etc/cron.weekly/fstrim", "#!/bin/sh\n# /sbin/fstrim -a\n");
    assert_verdict(&check(&cron), Verdict::Warning, &[]);

    let mut useless = plain("rw,relatime");
    useless.set("sda", "queue/discard_max_bytes", "0");
    assert_verdict(&check(&useless), Verdict::Notice, &["until TRIM gets through"]);

    assert_verdict(&check(&plain("ro,relatime")), Verdict::Fine, &["read-only"]);
}

#[test]
fn without_systemd_cron_is_the_remedy() {
    let mut made = plain("rw,relatime");
    let facts = made.build();
    assert!(outcome(&facts, "/mnt", "automatic-trim").remedies[0].words.contains("systemd"));
    made.facts = ssdlab_host::Captured::new(ssdlab_host::Facts::machine(&made.facts));
    made.sata("sda", true);
    made.mount("/mnt", "ext4", "sda", "rw");
    // Units that lie about where systemd does not run switch nothing on.
    let unit = "/usr/lib/systemd/system/fstrim.timer";
    made.facts.link("/etc/systemd/system/timers.target.wants/fstrim.timer", unit);
    let check = outcome(&made.build(), "/mnt", "automatic-trim");
    assert_verdict(&check, Verdict::Warning, &["cron.weekly"]);
}

#[test]
fn what_trims_other_file_systems_does_not_count_for_this_one() {
    let check = |made: &MachineBuilder| outcome(&made.build(), "/mnt", "automatic-trim");
    // The timer goes by fstab where that lists anything.
    let mut timer = plain("rw,relatime");
    timer.timer(3 * DAY);
    timer
        .facts
        .put("/etc/fstab", "/dev/sdb1 / ext4 defaults 0 1\n/dev/sda /mnt/ ext4 defaults 0 2\n");
    assert_verdict(&check(&timer), Verdict::Fine, &["fstrim.timer"]);
    timer.facts.put("/etc/fstab", "# nothing\n");
    assert_verdict(&check(&timer), Verdict::Fine, &["fstrim.timer"]);
    timer.facts.put("/etc/fstab", "/dev/sdb1 / ext4 defaults 0 1\n");
    assert_verdict(&check(&timer), Verdict::Warning, &["which has no line for it", "cron.weekly"]);
    timer.facts.put("/etc/fstab", "/dev/sda /mnt ext4 X-fstrim.notrim 0 2\n");
    assert_verdict(&check(&timer), Verdict::Warning, &["X-fstrim.notrim"]);
    // Mounted there as well, it is one file system.
    timer.mount("/other", "ext4", "sda1", "rw,relatime");
    timer.facts.put("/etc/fstab", "/dev/sda /other ext4 defaults 0 2\n");
    assert_verdict(&check(&timer), Verdict::Fine, &["fstrim.timer"]);
    // With the option it is trimmed all the same, and once.
    let mut option = plain("rw,relatime,discard");
    option.timer(3 * DAY);
    option.facts.put("/etc/fstab", "/dev/sdb1 / ext4 defaults 0 1\n");
    assert_verdict(&check(&option), Verdict::Fine, &["at once"]);

    let mut cron = plain("rw,relatime");
    for (line, verdict) in [
        ("fstrim /boot", Verdict::Warning),
        ("fstrim -v /boot; fstrim -v /mnt", Verdict::Fine),
        ("for point in $points; do fstrim $point; done", Verdict::Unknown),
        ("[ -x /sbin/fstrim ] || exit 0", Verdict::Warning),
    ] {
        cron.facts.put_program("/etc/cron.weekly/trim", &format!("#!/bin/sh\n{line}\n"));
        assert_verdict(&check(&cron), verdict, &[]);
    }
}

#[test]
fn of_what_cron_does_a_capture_holds_the_calls_of_fstrim_alone() {
    let mut made = plain("rw,relatime");
    let script = "#!/bin/sh\nTOKEN=hush backup\n/sbin/fstrim -a\n";
    made.facts.put_program("/etc/cron.weekly/all", script);
    made.facts.put("/etc/cron.daily/other", "#!/bin/sh\nPASSWORD=hush mail\n");
    let captured = ssdlab_host::capture(&made.build(), Some("/mnt")).unwrap();
    let of =
        |path: &str| String::from_utf8(ssdlab_host::Facts::read(&captured, path).unwrap()).unwrap();
    assert_eq!(of("/etc/cron.weekly/all"), "/sbin/fstrim -a\n");
    assert_eq!(of("/etc/cron.daily/other"), "");
}

#[test]
fn partitions_that_begin_in_the_middle_of_a_unit_are_found() {
    let at = |sector: u64| {
        let mut made = MachineBuilder::new();
        made.sata("sda", true);
        made.partition("sda1", "sda", sector);
        made.mount("/mnt", "ext4", "sda1", "rw,relatime");
        outcome(&made.build(), "/mnt", "alignment")
    };
    assert_verdict(&at(2048), Verdict::Fine, &["1 MiB"]);
    assert_verdict(&at(63), Verdict::Warning, &["byte 32256", "align-check"]);
    assert_verdict(&at(8), Verdict::Fine, &["not of 1 MiB"]);
}

#[test]
fn a_loop_device_that_begins_in_the_middle_of_a_block_of_its_file_is_found() {
    let at = |offset: &str| {
        let mut made = plain("rw,relatime");
        made.facts.put("/mnt/disk.img", "");
        made.loop_device("loop0", "/mnt/disk.img", true);
        made.set("loop0", "loop/offset", offset);
        made.mount("/loop", "ext4", "loop0", "rw,relatime");
        outcome(&made.build(), "/loop", "alignment")
    };
    assert_verdict(&at("32256"), Verdict::Warning, &["loop0 begins at byte 32256"]);
    assert_verdict(&at("1048576"), Verdict::Fine, &["loop0"]);
    assert!(!at("0").seen.contains("loop0"), "{:?}", at("0"));
}

#[test]
fn beginnings_add_up_through_the_layers() {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.partition("sda1", "sda", 63);
    // The volume begins so that both together are aligned again.
    made.luks("dm-0", "home", "sda1", true);
    let table = "linear DEVICE 1985";
    made.mapping("dm-1", "vg-lv", "LVM-x", table, &["dm-0"], true);
    made.mount("/mnt", "ext4", "dm-1", "rw,relatime");
    let check = outcome(&made.build(), "/mnt", "alignment");
    assert_verdict(&check, Verdict::Warning, &["sda1 begins at byte 32256", "home begins"]);
    assert!(!check.seen.contains("vg-lv"), "{}", check.seen);
    // Who may not read tables is told so.
    made.facts.set_root(false);
    let check = outcome(&made.build(), "/mnt", "alignment");
    assert!(check.missing.unwrap().contains("as root: where vg-lv and home begins"));
}

#[test]
fn file_systems_without_flushes_are_a_problem_unless_no_drive_has_a_cache() {
    let check = |made: &MachineBuilder| outcome(&made.build(), "/mnt", "barriers");
    assert_verdict(&check(&plain("rw,relatime")), Verdict::Fine, &[]);
    for option in ["nobarrier", "barrier=0"] {
        let made = plain(&format!("rw,relatime,{option}"));
        assert_verdict(&check(&made), Verdict::Problem, &[option, "remount,barrier /mnt"]);
    }
    let mut safe = plain("rw,relatime,nobarrier");
    safe.set("sda", "queue/write_cache", "write through");
    assert_verdict(&check(&safe), Verdict::Notice, &["needs none"]);
    let mut listed = plain("rw,relatime,nobarrier");
    listed.facts.put("/etc/fstab", "/dev/sda1 /mnt ext4 nobarrier 0 2\n");
    assert_verdict(&check(&listed), Verdict::Problem, &["--fix barriers"]);
}

#[test]
fn reads_that_write_are_found() {
    let check = |options| outcome(&plain(options).build(), "/mnt", "atime");
    assert_verdict(&check("rw,noatime"), Verdict::Fine, &[]);
    assert_verdict(&check("rw,relatime"), Verdict::Fine, &[]);
    assert_verdict(&check("rw"), Verdict::Warning, &["remount,relatime /mnt"]);
}

#[test]
fn the_kernel_must_know_trim_for_what_lies_on_the_drive() {
    let check = |release: &str, with_md: bool| {
        let mut made = MachineBuilder::new();
        made.sata("sda", true);
        made.sata("sdb", true);
        made.md("md0", "raid1", &["sda", "sdb"], true);
        made.mount("/mnt", "ext4", if with_md { "md0" } else { "sda" }, "rw,relatime");
        let mut machine = ssdlab_host::Facts::machine(&made.facts);
        machine.release = release.to_owned();
        let mut facts = made.build();
        facts.set_machine(machine);
        outcome(&facts, "/mnt", "kernel").verdict
    };
    assert_eq!(check("6.12.41", true), Verdict::Fine);
    assert_eq!(check("2.6.32", false), Verdict::Problem);
    assert_eq!(check("3.2.0-4-amd64", false), Verdict::Fine);
    assert_eq!(check("3.2.0-4-amd64", true), Verdict::Problem);
    assert_eq!(check("custom", true), Verdict::Unknown);
}

#[test]
fn swappiness_is_left_alone_unless_much_is_swapped_to_a_drive() {
    let mut made = plain("rw,relatime");
    assert_verdict(&outcome(&made.build(), "/mnt", "swappiness"), Verdict::Fine, &["60"]);
    made.facts.put("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 9 9 -2\n");
    made.facts.put("/proc/uptime", "86400.00 1.0\n");
    made.facts.put("/proc/vmstat", "pswpin 5\npswpout 1000\n");
    assert_verdict(&outcome(&made.build(), "/mnt", "swappiness"), Verdict::Fine, &["a day"]);
    made.facts.put("/proc/vmstat", "pswpin 5\npswpout 10000000\n");
    assert_verdict(&outcome(&made.build(), "/mnt", "swappiness"), Verdict::Notice, &["zram"]);
}

#[test]
fn every_check_that_is_listed_is_made_and_no_other() {
    let mut made = MachineBuilder::new();
    made.nvme("nvme0n1");
    made.sata("sda", true);
    made.partition("sda1", "sda", mib(1));
    made.mount("/", "ext4", "nvme0n1", "rw,relatime");
    made.mount("/mnt", "ext4", "sda1", "rw,relatime");
    let diagnosis = doctor::examine(&made.build(), None).unwrap();
    let mut made: Vec<&str> = diagnosis.all().map(|(_, check)| check.check).collect();
    made.sort_unstable();
    made.dedup();
    let mut listed = CHECKS.map(|(name, _)| name);
    listed.sort_unstable();
    assert_eq!(made, listed);
}
