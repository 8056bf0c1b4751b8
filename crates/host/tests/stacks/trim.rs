//! Where TRIM stops.

use ssdlab_host::doctor::Verdict;
use ssdlab_host::{Captured, layers};

use crate::machine::{MachineBuilder, mib};
use crate::{assert_verdict, outcome};

/// How far TRIM gets from /mnt: whether it works, and where it stops.
#[track_caller]
fn assert_trim(facts: &Captured, works: Option<bool>, stops_at: Option<&str>, verdict: Verdict) {
    let check = outcome(facts, "/mnt", "trim");
    let reach = check.reach.as_ref().unwrap();
    assert_eq!((reach.works, reach.stops_at.as_deref()), (works, stops_at), "{check:#?}");
    assert_eq!(check.verdict, verdict, "{check:#?}");
    if verdict >= Verdict::Warning {
        assert!(!check.remedies.is_empty() && !check.why.is_empty(), "{check:#?}");
    }
}

fn works(facts: &Captured) {
    assert_trim(facts, Some(true), None, Verdict::Fine);
}

fn stops(facts: &Captured, at: &str) {
    assert_trim(facts, Some(false), Some(at), Verdict::Problem);
}

fn with_partition() -> MachineBuilder {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.partition("sda1", "sda", mib(1));
    made
}

#[test]
fn a_plain_partition_passes_it() {
    let mut made = with_partition();
    made.mount("/mnt", "ext4", "sda1", "rw,relatime");
    works(&made.build());
    let tree = layers::stack_of(&made.build(), "/mnt").unwrap().to_text(true);
    assert_eq!(
        tree,
        "/mnt        ext4, rw,relatime\n\
         `- sda1     partition, 400 GiB, from 1 MiB, TRIM yes\n   \
            `- sda   SATA drive Samsung SSD 840, 480 GiB, TRIM yes\n"
    );
}

#[test]
fn nvme_and_disks_of_virtual_machines_pass_it_or_not() {
    let mut made = MachineBuilder::new();
    made.nvme("nvme0n1");
    made.partition("nvme0n1p1", "nvme0n1", mib(1));
    made.mount("/mnt", "xfs", "nvme0n1p1", "rw,relatime");
    works(&made.build());
    for takes in [true, false] {
        let mut made = MachineBuilder::new();
        made.virtual_disk("vda", takes);
        made.mount("/mnt", "ext4", "vda", "rw,relatime");
        match takes {
            // The host may drop what it takes: QEMU does unless told otherwise.
            true => {
                assert_trim(&made.build(), Some(true), None, Verdict::Notice);
                let check = outcome(&made.build(), "/mnt", "trim");
                assert_eq!(check.reach.unwrap().left_to_host, ["vda"]);
                let missing = check.missing.unwrap();
                assert!(
                    missing.contains("discard=unmap") && missing.contains("--proof"),
                    "{missing}"
                );
                let diagnosis = crate::examined(&made.build(), "/mnt");
                assert!(!diagnosis.prometheus().contains("trim_reaches_flash{"));
            }
            false => stops(&made.build(), "vda"),
        }
    }
    // An emulated drive looks like one, and says what it is.
    let mut made = with_partition();
    let directory = made.directory("sda");
    made.put(&directory, "device/model", "QEMU HARDDISK");
    made.mount("/mnt", "ext4", "sda1", "rw,relatime");
    assert_trim(&made.build(), Some(true), None, Verdict::Notice);
}

#[test]
fn caches_and_vdo_keep_discards_for_themselves() {
    for (feature, keeps) in [("1 no_discard_passdown", true), ("0", false)] {
        let mut made = with_partition();
        made.sata("sdb", true);
        let table = "cache DEVICE 8:1 8:2 128 1 writethrough smq 0";
        made.mapping("dm-0", "vg-lv_corig", "LVM-a", "linear DEVICE 0", &["sda1"], true);
        made.mapping("dm-1", "vg-lv", "LVM-b", table, &["sdb", "dm-0"], true);
        made.status(
            "vg-lv",
            &format!("cache 8 27/512 128 1/2 0 0 0 0 0 0 0 {feature} 2 smq 0 rw -"),
        );
        made.mount("/mnt", "ext4", "dm-1", "rw,relatime");
        match keeps {
            true => {
                stops(&made.build(), "vg-lv");
                let check = outcome(&made.build(), "/mnt", "trim");
                assert_verdict(&check, Verdict::Problem, &["lvconvert --uncache vg/lv"]);
            }
            false => works(&made.build()),
        }
        // Who may not read tables does not know.
        made.facts.set_root(false);
        assert_trim(&made.build(), None, None, Verdict::Unknown);
    }
    for is_root in [true, false] {
        let mut made = with_partition();
        made.mapping("dm-0", "vg-pool-vpool", "LVM-x-vpool", "vdo V4 DEVICE 1", &["sda1"], true);
        made.volume("dm-1", "vg-lv", "dm-0", true);
        made.mount("/mnt", "ext4", "dm-1", "rw,relatime");
        made.facts.set_root(is_root);
        stops(&made.build(), "vg-pool-vpool");
    }
}

#[test]
fn encryption_passes_it_only_when_told() {
    for told in [true, false] {
        let mut made = with_partition();
        made.luks("dm-0", "home", "sda1", told);
        made.volume("dm-1", "vg-lv", "dm-0", told);
        made.mount("/mnt", "ext4", "dm-1", "rw,relatime");
        if told {
            works(&made.build());
            continue;
        }
        stops(&made.build(), "home");
        let check = outcome(&made.build(), "/mnt", "trim");
        assert_verdict(
            &check,
            Verdict::Problem,
            &["cryptsetup refresh --allow-discards --persistent home", "allow_discards"],
        );
        // Who may not read tables sees the same.
        made.facts.set_root(false);
        stops(&made.build(), "home");
        // The volume was set up before encryption was told.
        made.facts.set_root(true);
        made.set("dm-0", "queue/discard_max_bytes", "4096");
        stops(&made.build(), "vg-lv");
        let check = outcome(&made.build(), "/mnt", "trim");
        assert_verdict(&check, Verdict::Problem, &["lvchange --refresh vg/lv"]);
    }
}

#[test]
fn a_mirror_passes_it_to_all_its_members_or_says_to_which_not() {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.sata("sdb", true);
    made.md("md0", "raid1", &["sda", "sdb"], true);
    made.mount("/mnt", "ext4", "md0", "rw,relatime");
    works(&made.build());
    made.set("sdb", "queue/discard_max_bytes", "0");
    assert_trim(&made.build(), Some(false), Some("sdb"), Verdict::Warning);
    let check = outcome(&made.build(), "/mnt", "trim");
    assert!(check.seen.contains("it does reach sda"), "{}", check.seen);
}

#[test]
fn parity_refuses_it_unless_told_that_all_drives_read_zeros() {
    for told in [true, false] {
        let mut made = MachineBuilder::new();
        for name in ["sda", "sdb", "sdc"] {
            made.sata(name, true);
        }
        made.md("md0", "raid5", &["sda", "sdb", "sdc"], told);
        made.mount("/mnt", "ext4", "md0", "rw,relatime");
        match told {
            true => works(&made.build()),
            false => {
                stops(&made.build(), "md0");
                let check = outcome(&made.build(), "/mnt", "trim");
                assert_verdict(&check, Verdict::Problem, &["devices_handle_discard_safely=Y"]);
            }
        }
    }
}

#[test]
fn two_layers_that_refuse_are_both_named_the_upper_first() {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.sata("sdb", true);
    made.sata("sdc", true);
    made.md("md0", "raid5", &["sda", "sdb", "sdc"], false);
    made.luks("dm-0", "secret", "md0", false);
    made.mount("/mnt", "ext4", "dm-0", "rw,relatime");
    stops(&made.build(), "secret");
    let reach = outcome(&made.build(), "/mnt", "trim").reach.unwrap();
    let names: Vec<&str> = reach.stops.iter().map(|stop| stop.layer.as_str()).collect();
    assert_eq!(names, ["secret", "md0"]);
}

#[test]
fn usb_bridges_pass_it_by_their_provisioning_mode() {
    let mut made = MachineBuilder::new();
    made.usb("sdb", "usb-storage", "full");
    made.mount("/mnt", "ext4", "sdb", "rw,relatime");
    stops(&made.build(), "sdb");
    let check = outcome(&made.build(), "/mnt", "trim");
    let command = "echo unmap > /sys/class/scsi_disk/7:0:0:0/provisioning_mode";
    assert_verdict(&check, Verdict::Problem, &[command, "provisioning_mode is full"]);
    let mut made = MachineBuilder::new();
    made.usb("sdb", "uas", "unmap");
    made.mount("/mnt", "ext4", "sdb", "rw,relatime");
    works(&made.build());
    let tree = layers::stack_of(&made.build(), "/mnt").unwrap().to_text(true);
    assert!(tree.contains("USB disk (uas)"), "{tree}");
}

#[test]
fn a_sas_drive_behind_a_host_bus_adapter_passes_it() {
    let mut made = MachineBuilder::new();
    made.sas("sda");
    made.mount("/mnt", "xfs", "sda", "rw,relatime");
    works(&made.build());
}

#[test]
fn a_raid_controller_is_seen_and_passes_none() {
    let mut made = MachineBuilder::new();
    made.raid_controller("sda", "megaraid_sas");
    made.mount("/mnt", "ext4", "sda", "rw,relatime");
    stops(&made.build(), "sda");
    let check = outcome(&made.build(), "/mnt", "trim");
    assert_verdict(&check, Verdict::Problem, &["megaraid_sas", "JBOD"]);
}

#[test]
fn a_loop_device_needs_the_file_system_below_to_trim() {
    for option in ["rw,relatime,discard", "rw,relatime"] {
        let mut made = with_partition();
        made.mount("/", "ext4", "sda1", option);
        made.facts.put("/images/disk", "");
        made.loop_device("loop0", "/images/disk", true);
        made.mount("/mnt", "ext4", "loop0", "rw,relatime");
        match option.contains("discard") {
            true => works(&made.build()),
            false => assert_trim(&made.build(), Some(false), Some("/"), Verdict::Notice),
        }
        let tree = layers::stack_of(&made.build(), "/mnt").unwrap();
        let names: Vec<&str> =
            tree.top.self_and_below().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["/mnt", "loop0", "/", "sda1", "sda"]);
    }
}

#[test]
fn btrfs_on_two_drives_needs_both() {
    let mut made = MachineBuilder::new();
    made.nvme("nvme0n1");
    made.nvme("nvme1n1");
    made.btrfs(&["nvme0n1", "nvme1n1"]);
    made.mount("/mnt", "btrfs", "nvme1n1", "rw,relatime,discard=async");
    works(&made.build());
    assert_eq!(layers::stack_of(&made.build(), "/mnt").unwrap().drives().len(), 2);
    made.set("nvme0n1", "queue/discard_max_bytes", "0");
    assert_trim(&made.build(), Some(false), Some("nvme0n1"), Verdict::Warning);
}

#[test]
fn a_thin_pool_may_keep_discards_to_itself() {
    for (status, expected) in [("discard_passdown", true), ("no_discard_passdown", false)] {
        let mut made = with_partition();
        let id = |suffix: &str| format!("LVM-0123456789abcdef0123456789abcdef{suffix}");
        made.partition("sda2", "sda", mib(500_000));
        made.mapping("dm-0", "vg-pool_tmeta", &id("-tmeta"), "linear DEVICE 2048", &["sda2"], true);
        made.mapping("dm-1", "vg-pool_tdata", &id("-tdata"), "linear DEVICE 2048", &["sda1"], true);
        let table = "thin-pool DEVICE 259:4 128 0 0";
        made.mapping("dm-2", "vg-pool-tpool", &id("-tpool"), table, &["dm-0", "dm-1"], true);
        made.status("vg-pool-tpool", &format!("thin-pool 1 19/1024 0/1600 - rw {status} error"));
        made.mapping("dm-3", "vg-thin", &id(""), "thin DEVICE 1", &["dm-2"], true);
        made.mount("/mnt", "ext4", "dm-3", "rw,relatime");
        match expected {
            true => works(&made.build()),
            false => {
                stops(&made.build(), "vg-pool-tpool");
                let check = outcome(&made.build(), "/mnt", "trim");
                let command = "lvchange --discards passdown vg/pool";
                assert_verdict(&check, Verdict::Problem, &[command]);
            }
        }
        // Only root may ask the pool.
        made.facts.set_root(false);
        assert_trim(&made.build(), None, None, Verdict::Unknown);
        let check = outcome(&made.build(), "/mnt", "trim");
        assert!(check.missing.unwrap().starts_with("as root: "));
    }
}

#[test]
fn what_has_no_drive_below_is_unknown_and_said() {
    let mut made = MachineBuilder::new();
    made.mount("/mnt", "nfs4", "server:/export", "rw,relatime");
    assert_trim(&made.build(), None, None, Verdict::Unknown);
    assert!(outcome(&made.build(), "/mnt", "trim").missing.unwrap().contains("another machine"));
    let mut made = MachineBuilder::new();
    made.zram("zram0");
    made.mount("/mnt", "ext4", "zram0", "rw,relatime");
    works(&made.build());
}

#[test]
fn drives_that_spin_need_none() {
    let mut made = MachineBuilder::new();
    made.sata("sda", false);
    made.set("sda", "queue/rotational", "1");
    made.mount("/mnt", "ext4", "sda", "rw,relatime");
    assert_trim(&made.build(), Some(false), Some("sda"), Verdict::Fine);
}

#[test]
fn file_systems_that_send_none_are_where_it_stops() {
    let mut made = with_partition();
    made.mount("/mnt", "reiserfs", "sda1", "rw,relatime");
    stops(&made.build(), "/mnt");
    let mut made = with_partition();
    made.mount("/mnt", "newfs", "sda1", "rw,relatime");
    assert_trim(&made.build(), None, None, Verdict::Unknown);
}

#[test]
fn a_device_without_a_medium_is_no_problem() {
    let mut made = MachineBuilder::new();
    made.loop_device("loop7", "/images/none", false);
    let directory = made.directory("loop7");
    made.facts.remove(&format!("{directory}/loop/backing_file"));
    made.set("loop7", "size", "0");
    let facts = made.build();
    let check = outcome(&facts, "/dev/loop7", "trim");
    assert_verdict(&check, Verdict::Unknown, &["loop7 has no file"]);
    let diagnosis = crate::examined(&facts, "/dev/loop7");
    assert_eq!(diagnosis.worst, Verdict::Fine, "{diagnosis:?}");
    assert!(diagnosis.drives.is_empty(), "{diagnosis:?}");
    let tree = layers::stack_of(&facts, "/dev/loop7").unwrap().to_text(true);
    assert!(tree.contains("loop device without a file"), "{tree}");
    // A reader without a card.
    let mut made = MachineBuilder::new();
    made.usb("sdb", "usb-storage", "full");
    made.set("sdb", "size", "0");
    let check = outcome(&made.build(), "/dev/sdb", "trim");
    assert_verdict(&check, Verdict::Unknown, &["sdb has no medium"]);
}

#[test]
fn no_name_at_all_is_refused() {
    let error = layers::stack_of(&with_partition().build(), "").unwrap_err().to_string();
    assert!(error.contains("there is no ''") && error.contains("/dev/sda"), "{error}");
}

#[test]
fn file_systems_by_fuse_are_told_by_what_lies_on_the_device() {
    for (found, works) in [("ntfs", Some(true)), ("exfat", None), ("", None)] {
        let mut made = with_partition();
        made.mount("/mnt", "fuseblk", "sda1", "rw,relatime,user_id=0");
        let number = made.number("sda1");
        made.facts.put(&format!("/run/udev/data/b{number}"), &format!("E:ID_FS_TYPE={found}\n"));
        let check = outcome(&made.build(), "/mnt", "trim");
        assert_eq!(check.reach.as_ref().unwrap().works, works, "{found}: {check:?}");
    }
}

#[test]
fn ext2_that_the_driver_of_ext4_serves_is_trimmed() {
    let mut made = with_partition();
    made.mount("/mnt", "ext2", "sda1", "rw,relatime");
    stops(&made.build(), "/mnt");
    made.facts.put("/sys/fs/ext4/sda1/delayed_allocation_blocks", "0");
    works(&made.build());
}

#[test]
fn a_bridge_that_can_unmap_and_is_not_asked_to_is_told_from_one_that_cannot() {
    let with = |bits: u8| {
        let mut made = MachineBuilder::new();
        made.usb("sdb", "uas", "full");
        made.mount("/mnt", "ext4", "sdb", "rw,relatime");
        let directory = made.directory("sdb");
        let page = vec![0, 0xb2, 0, 4, 0, bits, 0, 0];
        made.facts.put_bytes(&format!("{directory}/device/vpd_pgb2"), page);
        outcome(&made.build(), "/mnt", "trim")
    };
    let fix = "ssdlab doctor --fix trim /dev/sdb";
    assert_verdict(&with(0x80), Verdict::Problem, &["can unmap (LBPU is 1)", fix]);
    assert_verdict(&with(0x60), Verdict::Problem, &["cannot unmap (LBPU is 0)"]);
    // Without the kernel's copy, a program asks.
    let mut made = MachineBuilder::new();
    made.usb("sdb", "usb-storage", "full");
    made.mount("/mnt", "ext4", "sdb", "rw,relatime");
    let mut facts = made.build();
    let said = "Logical block provisioning VPD page (SBC):\n  Unmap command supported (LBPU): 1\n";
    facts.set_output("sg_vpd", &["--page=lbpv", "/dev/sdb"], 0, said);
    assert_verdict(&outcome(&facts, "/mnt", "trim"), Verdict::Problem, &[fix]);
}

#[test]
fn a_file_system_that_lies_on_itself_ends() {
    let mut made = MachineBuilder::new();
    made.facts.put("/mnt/disk", "");
    made.loop_device("loop0", "/mnt/disk", true);
    made.mount("/mnt", "ext4", "loop0", "rw,relatime,discard");
    let stack = layers::stack_of(&made.build(), "/mnt").unwrap();
    assert!(stack.top.self_and_below().len() < 10, "{}", stack.to_text(true));
}

#[test]
fn devices_are_found_by_all_their_names() {
    let mut made = with_partition();
    made.luks("dm-0", "home", "sda1", true);
    made.mount("/mnt", "ext4", "dm-0", "rw,relatime");
    let facts = made.build();
    for name in ["/mnt", "/dev/mapper/home", "/dev/dm-0", "dm-0"] {
        let names: Vec<String> = layers::stack_of(&facts, name)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .top
            .self_and_below()
            .iter()
            .map(|it| it.name.clone())
            .collect();
        assert_eq!(names, ["/mnt", "dm-0", "sda1", "sda"], "{name}");
    }
    assert_eq!(layers::stack_of(&facts, "/dev/sda1").unwrap().top.name, "sda1");
    let error = layers::stack_of(&facts, "/no/such").unwrap_err().to_string();
    assert!(error.contains("there is no '/no/such'"), "{error}");
}

#[test]
fn the_whole_machine_is_every_file_system_and_every_drive_without_one() {
    let mut made = with_partition();
    made.mount("/", "ext4", "sda1", "rw,relatime");
    made.mount("/again", "ext4", "sda1", "rw,relatime");
    made.nvme("nvme0n1");
    made.zram("zram0");
    let targets: Vec<String> =
        layers::all_stacks(&made.build()).into_iter().map(|stack| stack.target).collect();
    assert_eq!(targets, ["/", "/dev/nvme0n1"]);
}
