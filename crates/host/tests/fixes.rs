//! Fixes on a root that is made up: what they change, and that it can be taken back.

#[path = "stacks/machine.rs"]
#[allow(dead_code)]
mod machine;

use std::fs;

use ssdlab_blockdev::DeviceNumber;
use ssdlab_host::facts::Machine;
use ssdlab_host::fix::{self, Change, SystemRoot};
use ssdlab_host::{Captured, HostError, Stack, layers};
use tempfile::TempDir;

const FSTAB: &str =
    "# mine\n/dev/sda1\t/      ext4 discard,nobarrier 0 1\n/dev/sdb1 /data xfs defaults 0 2\n";

struct Root {
    directory: TempDir,
    place: SystemRoot,
    facts: Captured,
}

impl Root {
    /// A machine with an ext4 at `/`, mounted so.
    fn new(options: &str) -> Root {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("etc")).unwrap();
        fs::write(directory.path().join("etc/fstab"), FSTAB).unwrap();
        let mut facts = Captured::new(Machine {
            system: "Linux 6.12".to_owned(),
            release: "6.12".to_owned(),
            architecture: "x86_64".to_owned(),
            time: 1,
            is_root: true,
        });
        let disk = "/sys/devices/block/sda";
        let number = DeviceNumber { major: 8, minor: 0 };
        facts.put(&format!("{disk}/dev"), "8:0");
        facts.link("/sys/dev/block/8:0", disk);
        facts.device("/dev/sda", number);
        let line = format!("30 1 8:0 / / {options} - ext4 /dev/sda rw\n");
        facts.put("/proc/self/mountinfo", &line);
        facts.put("/proc/sys/vm/swappiness", "60");
        facts.put("/lib/systemd/system/fstrim.timer", "[Timer]\nOnCalendar=weekly\n");
        let service = "[Service]\nExecStart=/sbin/fstrim --fstab --verbose\n";
        facts.put("/lib/systemd/system/fstrim.service", service);
        // Ten million pages swapped out in a day.
        facts.put("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 9 9 -2\n");
        facts.put("/proc/uptime", "86400.00 1.0\n");
        facts.put("/proc/vmstat", "pswpin 5\npswpout 10000000\n");
        facts.put("/run/systemd/system/.", "");
        let place = SystemRoot { root: directory.path().to_owned(), runs_programs: false };
        Root { directory, place, facts }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.directory.path().join(path)).ok()
    }

    fn stacks(&self) -> Vec<Stack> {
        vec![layers::stack_of(&self.facts, "/").unwrap()]
    }

    fn plan(&self, check: &str) -> Result<fix::Fix, HostError> {
        fix::plan(check, &self.facts, &self.stacks(), &self.place)
    }
}

#[test]
fn an_option_goes_out_of_fstab_and_comes_back() {
    let root = Root::new("rw,relatime,nobarrier");
    let fix = root.plan("barriers").unwrap();
    let words = fix.changes[0].describe();
    assert!(words.contains("- /dev/sda1\t/      ext4 discard,nobarrier 0 1"), "{words}");
    assert!(words.contains("+ /dev/sda1\t/      ext4 discard 0 1"), "{words}");
    assert_eq!(fix.then, ["mount -o remount,barrier /"]);
    let back = fix.changes[0].describe_undo();
    assert!(back.contains("- /dev/sda1\t/      ext4 discard 0 1"), "{back}");
    assert!(back.contains("+ /dev/sda1\t/      ext4 discard,nobarrier 0 1"), "{back}");
    assert_eq!(root.read("etc/fstab").unwrap(), FSTAB, "planning changes nothing");

    fix.apply(&root.place).unwrap();
    assert_eq!(root.read("etc/fstab").unwrap(), FSTAB.replace(",nobarrier", ""));
    assert_eq!(root.read("etc/fstab.ssdlab-backup").unwrap(), FSTAB);
    assert_eq!(fix::newest_fix(&root.place).unwrap(), fix);

    assert_eq!(fix::undo(&root.place).unwrap().fix, fix);
    assert_eq!(root.read("etc/fstab").unwrap(), FSTAB);
    assert_eq!(root.read("etc/fstab.ssdlab-backup"), None);
    let error = fix::undo(&root.place).unwrap_err();
    assert!(error.to_string().contains("no fix to undo"), "{error}");
}

#[test]
fn what_was_changed_since_is_left_as_it_is() {
    let root = Root::new("rw,relatime,nobarrier");
    let fix = root.plan("barriers").unwrap();
    // Between showing and doing.
    let file = root.directory.path().join("etc/fstab");
    fs::write(&file, "mine\n").unwrap();
    assert!(matches!(fix.apply(&root.place), Err(HostError::Refused(_))));
    assert_eq!(root.read("etc/fstab").unwrap(), "mine\n");
    // Nothing was done, so that there is nothing in the way of what was done before.
    assert!(fix::newest_fix(&root.place).is_err(), "{:?}", fix::newest_fix(&root.place));
    // Between doing and taking back.
    fs::write(&file, FSTAB).unwrap();
    fix.apply(&root.place).unwrap();
    fs::write(&file, "mine again\n").unwrap();
    assert!(matches!(fix::undo(&root.place), Err(HostError::Refused(_))));
    assert_eq!(root.read("etc/fstab").unwrap(), "mine again\n");
}

#[test]
fn the_timer_is_switched_on_where_nothing_trims_and_the_option_dropped_where_both_do() {
    let mut root = Root::new("rw,relatime,discard");
    let fix = root.plan("automatic-trim").unwrap();
    assert_eq!(fix.changes, [Change::Enable { unit: "fstrim.timer".to_owned() }]);
    let timer = "/lib/systemd/system/fstrim.timer";
    root.facts.link("/etc/systemd/system/timers.target.wants/fstrim.timer", timer);
    let fix = root.plan("automatic-trim").unwrap();
    fix.apply(&root.place).unwrap();
    assert_eq!(root.read("etc/fstab").unwrap(), FSTAB.replace("discard,", ""));
    assert_eq!(fix.then, ["mount -o remount,nodiscard /"]);
}

#[test]
fn a_setting_of_the_kernel_gets_a_file_of_its_own_that_goes_again() {
    let root = Root::new("rw,relatime");
    let fix = root.plan("swappiness").unwrap();
    assert!(fix.changes[1].describe().contains("it is 60 now"));
    let back: String = fix.changes.iter().map(fix::Change::describe_undo).collect();
    assert!(back.contains("90-ssdlab-swappiness.conf is removed"), "{back}");
    assert!(back.contains("sysctl vm.swappiness=60    # it was set to 10"), "{back}");
    fix.apply(&root.place).unwrap();
    let file = "etc/sysctl.d/90-ssdlab-swappiness.conf";
    assert!(root.read(file).unwrap().contains("vm.swappiness = 10"));
    assert!(root.plan("swappiness").unwrap_err().to_string().contains("nothing to fix"));
    fix::undo(&root.place).unwrap();
    assert_eq!(root.read(file), None);
}

#[test]
fn what_its_own_check_finds_fine_is_not_changed() {
    let mut root = Root::new("rw,relatime");
    root.facts.put("/proc/vmstat", "pswpin 5\npswpout 10\n");
    let why = root.plan("swappiness").unwrap_err().to_string();
    assert!(why.contains("nothing to fix: vm.swappiness is 60") && why.contains("fine"), "{why}");
    root.facts.put("/proc/swaps", "Filename Type Size Used Priority\n");
    assert!(root.plan("swappiness").is_err());
}

#[test]
fn a_masked_timer_is_not_switched_on() {
    let mut root = Root::new("rw,relatime");
    root.facts.link("/etc/systemd/system/fstrim.timer", "/dev/null");
    let why = root.plan("automatic-trim").unwrap_err().to_string();
    assert!(why.contains("systemctl unmask"), "{why}");
}

/// A disk behind a USB bridge, with its settings as files below the root.
fn usb(bits: u8) -> (Root, Vec<Stack>) {
    let mut made = machine::MachineBuilder::new();
    made.usb("sdb", "uas", "full");
    made.mount("/mnt", "ext4", "sdb", "rw,relatime");
    let directory = made.directory("sdb");
    made.facts.put_bytes(&format!("{directory}/device/vpd_pgb2"), vec![0, 0xb2, 0, 4, 0, bits]);
    let mut root = Root::new("rw,relatime");
    root.facts = made.build();
    let setting = root.directory.path().join("sys/class/scsi_disk/7:0:0:0");
    fs::create_dir_all(&setting).unwrap();
    fs::write(setting.join("provisioning_mode"), "full\n").unwrap();
    let stacks = vec![layers::stack_of(&root.facts, "/mnt").unwrap()];
    (root, stacks)
}

#[test]
fn a_bridge_that_can_unmap_gets_a_rule_that_goes_again() {
    let (root, stacks) = usb(0x80);
    let fix = fix::plan("trim", &root.facts, &stacks, &root.place).unwrap();
    let words: String = fix.changes.iter().map(Change::describe).collect();
    let rule = "ATTRS{idVendor}==\"152d\", ATTRS{idProduct}==\"0578\", ATTRS{serial}==\"DB00001\", \
                ATTR{provisioning_mode}=\"unmap\"";
    assert!(words.contains(rule), "{words}");
    let setting = "sys/class/scsi_disk/7:0:0:0/provisioning_mode";
    assert!(words.contains(&format!("echo unmap > /{setting}    # it is full now")), "{words}");
    let file = "etc/udev/rules.d/60-ssdlab-trim-152d-0578.rules";
    assert_eq!(root.read(file), None, "planning changes nothing");
    fix.apply(&root.place).unwrap();
    assert!(root.read(file).unwrap().contains(rule));
    assert_eq!(root.read(setting).as_deref(), Some("unmap"));
    let back: String = fix.changes.iter().rev().map(Change::describe_undo).collect();
    assert!(back.contains(&format!("echo full > /{setting}")), "{back}");
    assert_eq!(fix::undo(&root.place).unwrap().left, Vec::<String>::new());
    assert_eq!((root.read(file), root.read(setting).as_deref()), (None, Some("full")));
    // Somebody else's choice is left.
    fix.apply(&root.place).unwrap();
    fs::write(root.directory.path().join(setting), "writesame_16\n").unwrap();
    let left = fix::undo(&root.place).unwrap().left;
    assert!(matches!(&left[..], [one] if one.contains("is writesame_16 now")), "{left:?}");
    // A device that is gone has no setting.
    fs::write(root.directory.path().join(setting), "full\n").unwrap();
    fix.apply(&root.place).unwrap();
    fs::remove_file(root.directory.path().join(setting)).unwrap();
    assert_eq!(fix::undo(&root.place).unwrap().left, Vec::<String>::new());
}

#[test]
fn bridges_that_cannot_unmap_are_left_alone() {
    let (root, stacks) = usb(0x60);
    let error = fix::plan("trim", &root.facts, &stacks, &root.place).unwrap_err();
    assert!(error.to_string().contains("/dev/sdb says that it cannot unmap"), "{error}");
    let plain = Root::new("rw,relatime");
    let why = plain.plan("trim").unwrap_err().to_string();
    assert!(why.contains("none was found"), "{why}");
}

#[test]
fn what_cannot_be_fixed_is_said() {
    let root = Root::new("rw,noatime");
    let why = |check: &str| root.plan(check).unwrap_err().to_string();
    assert!(why("wear").contains("automatic-trim, atime, barriers, swappiness"), "{}", why("wear"));
    assert!(why("atime").contains("nothing to fix"), "{}", why("atime"));
    let strict = Root::new("rw");
    let fix = strict.plan("atime").unwrap();
    fix.apply(&strict.place).unwrap();
    assert!(strict.read("etc/fstab").unwrap().contains("ext4 discard,nobarrier,relatime 0 1"));
}

#[test]
fn where_the_mount_differs_from_fstab_the_way_out_is_said() {
    let strict = Root::new("rw");
    strict.plan("atime").unwrap().apply(&strict.place).unwrap();
    // The line is as it should be now, and nobody has mounted it anew.
    let why = strict.plan("atime").unwrap_err().to_string();
    assert!(why.contains("the line of /etc/fstab for / is right"), "{why}");
    assert!(why.contains("'mount -o remount,relatime /'"), "{why}");

    let unlisted = Root::new("rw,discard,nobarrier");
    let other = FSTAB.lines().filter(|line| !line.contains("sda1")).collect::<Vec<_>>().join("\n");
    fs::write(unlisted.directory.path().join("etc/fstab"), other).unwrap();
    for (check, option) in [("atime", "relatime"), ("barriers", "barrier")] {
        let why = unlisted.plan(check).unwrap_err().to_string();
        assert!(why.contains("no line of /etc/fstab mounts /"), "{why}");
        assert!(why.contains(&format!("'mount -o remount,{option} /'")), "{why}");
    }
    let fine = Root::new("rw,relatime");
    fs::write(fine.directory.path().join("etc/fstab"), "").unwrap();
    let why = fine.plan("barriers").unwrap_err().to_string();
    assert!(why.contains("nothing to fix: no mount and no line"), "{why}");
}

#[test]
fn what_was_secret_stays_so_and_links_stay_links() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let root = Root::new("rw,relatime,nobarrier");
    let etc = root.directory.path().join("etc");
    fs::create_dir(root.directory.path().join("real")).unwrap();
    let real = root.directory.path().join("real/fstab");
    fs::rename(etc.join("fstab"), &real).unwrap();
    std::os::unix::fs::symlink(&real, etc.join("fstab")).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    // Who is not root may not give files away.
    let is_given = std::os::unix::fs::chown(&real, Some(65534), Some(65534)).is_ok();
    root.plan("barriers").unwrap().apply(&root.place).unwrap();
    let rights = |path: &std::path::Path| {
        let found = fs::metadata(path).unwrap();
        (found.mode() & 0o7777, if is_given { found.uid() } else { 65534 })
    };
    assert!(fs::read_to_string(&real).unwrap().lines().all(|line| !line.contains("nobarrier")));
    assert!(fs::symlink_metadata(etc.join("fstab")).unwrap().is_symlink());
    assert_eq!(rights(&real), (0o640, 65534));
    assert_eq!(rights(&etc.join("fstab.ssdlab-backup")), (0o640, 65534));
    let notes = root.directory.path().join("var/lib/ssdlab/fixes.json");
    assert_eq!(fs::metadata(notes).unwrap().mode() & 0o7777, 0o600);
    fix::undo(&root.place).unwrap();
    assert_eq!(fs::read_to_string(&real).unwrap(), FSTAB);
    assert_eq!(rights(&real), (0o640, 65534));
}

#[test]
fn of_a_fix_that_fails_half_way_what_was_done_is_taken_back() {
    let root = Root::new("rw,relatime,nobarrier");
    let first = root.plan("barriers").unwrap();
    first.apply(&root.place).unwrap();
    let mut second = root.plan("swappiness").unwrap();
    // A name that is as long as one may be has no room for what is added to it meanwhile.
    let path = format!("etc/{}", "x".repeat(250));
    second.changes.push(Change::Write { path, before: None, after: "1".into() });
    assert!(second.apply(&root.place).is_err());
    let file = "etc/sysctl.d/90-ssdlab-swappiness.conf";
    assert!(root.read(file).is_some(), "it was half done");
    assert_eq!(fix::newest_fix(&root.place).unwrap().changes, second.changes[..2]);
    fix::undo(&root.place).unwrap();
    assert_eq!(fix::newest_fix(&root.place).unwrap(), first, "nothing is in the way of it");
    while fix::newest_fix(&root.place).is_ok() {
        fix::undo(&root.place).unwrap();
    }
    assert_eq!((root.read(file), root.read("etc/fstab").unwrap()), (None, FSTAB.to_owned()));
}

#[test]
fn a_setting_that_somebody_else_chose_since_is_left() {
    let root = Root::new("rw,relatime");
    root.plan("swappiness").unwrap().apply(&root.place).unwrap();
    fs::create_dir_all(root.directory.path().join("proc/sys/vm")).unwrap();
    let setting = root.directory.path().join("proc/sys/vm/swappiness");
    fs::write(&setting, "35\n").unwrap();
    let left = fix::undo(&root.place).unwrap().left;
    assert!(matches!(&left[..], [one] if one.contains("vm.swappiness is 35 now")), "{left:?}");
    root.plan("swappiness").unwrap().apply(&root.place).unwrap();
    fs::write(&setting, "10\n").unwrap();
    assert_eq!(fix::undo(&root.place).unwrap().left, Vec::<String>::new());
}
