//! What drives tell of themselves.

use serde_json::{Value, json};
use ssdlab_host::Captured;
use ssdlab_host::doctor::Verdict;

use crate::machine::{MachineBuilder, mib};
use crate::{assert_verdict, outcome};

fn sata() -> MachineBuilder {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.partition_of("sda1", "sda", mib(1), (480 << 30) - (2 << 20));
    made.mount("/mnt", "ext4", "sda1", "rw,relatime");
    made
}

fn with_smart(data: &Value) -> Captured {
    let mut facts = sata().build();
    facts.set_output("smartctl", &["--json=c", "-x", "/dev/sda"], 4, &data.to_string());
    facts
}

fn attribute(id: u64, value: u64, raw: u64) -> Value {
    let name = match id {
        5 => "Reallocated_Sector_Ct",
        199 => "UDMA_CRC_Error_Count",
        _ => unreachable!("no test has it"),
    };
    json!({"id": id, "name": name, "value": value, "raw": {"value": raw}})
}

#[test]
fn wear_is_judged_by_what_the_drive_counts() {
    let check = |used: u64| {
        let data = json!({
            "endurance_used": {"current_percent": used}, "power_on_time": {"hours": 20_000},
        });
        outcome(&with_smart(&data), "/mnt", "wear")
    };
    assert_verdict(&check(10), Verdict::Fine, &["10 %", "over 20 years"]);
    assert_verdict(&check(50), Verdict::Fine, &["about 2.3 years"]);
    assert_verdict(&check(85), Verdict::Notice, &[]);
    assert_verdict(&check(95), Verdict::Warning, &["replace"]);
    assert_verdict(&check(104), Verdict::Problem, &["replace"]);
}

#[test]
fn what_only_root_may_ask_is_said_to_be_unknown() {
    let mut made = sata();
    made.facts.set_root(false);
    made.facts.set_output("smartctl", &["--json=c", "-x", "/dev/sda"], 2, "{}");
    for check in ["wear", "endurance", "errors", "temperature"] {
        let check = outcome(&made.build(), "/mnt", check);
        assert_verdict(&check, Verdict::Unknown, &["as root: "]);
    }
    // Who would not be told more as root is not told so.
    let mut mute = MachineBuilder::new();
    mute.virtual_disk("vda", true);
    mute.mount("/mnt", "ext4", "vda", "rw,relatime");
    mute.facts.set_root(false);
    let check = outcome(&mute.build(), "/mnt", "wear");
    assert_verdict(&check, Verdict::Unknown, &["has no SMART"]);
    assert!(!check.missing.unwrap().contains("as root"));
    // As root it is the program that is missing.
    let check = outcome(&sata().build(), "/mnt", "wear");
    assert_verdict(&check, Verdict::Unknown, &["smartctl is not installed"]);
}

#[test]
fn what_was_written_is_held_against_what_the_maker_rates() {
    let check = |model: &str, sectors: u64| {
        let mut facts = with_smart(&json!({
            "model_name": model, "logical_block_size": 512, "power_on_time": {"hours": 2400},
            "ata_smart_attributes": {"table": [
                {"id": 241, "name": "Total_LBAs_Written", "value": 99, "raw": {"value": sectors}},
            ]},
        }));
        // 1 TB as sold.
        let size =
            "/sys/devices/pci0000:00/0000:00:17.0/ata1/host1/target1:0:0/1:0:0:0/block/sda/size";
        facts.put(size, "1953525168");
        outcome(&facts, "/mnt", "endurance")
    };
    let evo = "Samsung SSD 870 EVO 1TB";
    assert_verdict(&check(evo, 200_000_000_000), Verdict::Fine, &["17.1 % of the 600 TB"]);
    assert_verdict(&check(evo, 1_000_000_000_000), Verdict::Notice, &["85.3 %"]);
    assert_verdict(&check(evo, 2_000_000_000_000), Verdict::Warning, &["170.7 %"]);
    assert_verdict(&check("No Name", 2_000_000_000_000), Verdict::Fine, &["not in the table"]);
}

#[test]
fn errors_and_failing_health_are_said() {
    let check = |data: &Value| outcome(&with_smart(data), "/mnt", "errors");
    let table = |rows: Value| {
        json!({"smart_status": {"passed": true},
                                     "ata_smart_attributes": {"table": rows}})
    };
    assert_verdict(&check(&table(json!([attribute(5, 100, 0)]))), Verdict::Fine, &[]);
    assert_verdict(&check(&table(json!([attribute(5, 90, 8)]))), Verdict::Warning, &["8 replaced"]);
    let cable = table(json!([attribute(5, 100, 0), attribute(199, 100, 12)]));
    assert_verdict(&check(&cable), Verdict::Notice, &["12 errors of the link", "cable"]);
    let failed = json!({"smart_status": {"passed": false}});
    assert_verdict(&check(&failed), Verdict::Problem, &["FAILED"]);
    let nvme = json!({"smart_status": {"passed": true},
                      "nvme_smart_health_information_log": {"critical_warning": 9}});
    assert_verdict(&check(&nvme), Verdict::Problem, &["spare blocks run out, read-only"]);
}

#[test]
fn heat_is_judged_by_the_sensor_that_all_may_read() {
    let check = |degrees: i64| {
        let mut made = sata();
        made.facts.set_root(false);
        made.set("sda", "device/hwmon/hwmon3/temp1_input", &(degrees * 1000).to_string());
        outcome(&made.build(), "/mnt", "temperature").verdict
    };
    assert_eq!([40, 66, 71].map(check), [Verdict::Fine, Verdict::Notice, Verdict::Warning]);
}

#[test]
fn a_write_cache_that_the_kernel_does_not_flush_is_found() {
    let mut made = sata();
    assert_verdict(&outcome(&made.build(), "/mnt", "write-cache"), Verdict::Fine, &["write back"]);
    made.set("sda", "queue/write_cache", "write through");
    assert_verdict(&outcome(&made.build(), "/mnt", "write-cache"), Verdict::Notice, &["-W1"]);
    made.set("sda", "device/scsi_disk/1:0:0:0/cache_type", "write back");
    assert_verdict(
        &outcome(&made.build(), "/mnt", "write-cache"),
        Verdict::Problem,
        &["write back'"],
    );

    let mut usb = MachineBuilder::new();
    usb.usb("sdb", "uas", "unmap");
    usb.mount("/mnt", "ext4", "sdb", "rw,relatime");
    usb.set("sdb", "queue/write_cache", "write through");
    assert_verdict(&outcome(&usb.build(), "/mnt", "write-cache"), Verdict::Warning, &["bridge"]);

    for (vwc, verdict) in [(0, Verdict::Fine), (1, Verdict::Problem)] {
        let mut nvme = MachineBuilder::new();
        nvme.nvme("nvme0n1");
        nvme.mount("/mnt", "ext4", "nvme0n1", "rw,relatime");
        nvme.set("nvme0n1", "queue/write_cache", "write through");
        let mut facts = nvme.build();
        let arguments = ["id-ctrl", "/dev/nvme0n1", "-o", "json"];
        facts.set_output("nvme", &arguments, 0, &json!({"vwc": vwc}).to_string());
        assert_eq!(outcome(&facts, "/mnt", "write-cache").verdict, verdict);
    }
}

const IDENTIFY: &str = "/dev/sda:\n\n\tModel Number:       Samsung SSD 840 PRO Series\n\
     \tNominal Media Rotation Rate: Solid State Device\n\
     \t   *\tData Set Management TRIM supported (limit 8 blocks)\n";

#[test]
fn what_trimmed_sectors_read_as_counts_where_parity_trusts_it() {
    let with = |line: &str, trusting: bool| {
        let mut made = MachineBuilder::new();
        made.sata("sda", true);
        made.sata("sdb", true);
        made.sata("sdc", true);
        if trusting {
            made.md("md0", "raid5", &["sda", "sdb", "sdc"], true);
        } else {
            made.md("md0", "raid1", &["sda", "sdb"], true);
        }
        made.mount("/mnt", "ext4", "md0", "rw,relatime");
        let mut facts = made.build();
        facts.set_output("hdparm", &["-I", "/dev/sda"], 0, &format!("{IDENTIFY}\t   *\t{line}\n"));
        let diagnosis = crate::examined(&facts, "/mnt");
        let drive = diagnosis.drives.iter().find(|drive| drive.drive == "sda").unwrap();
        drive.checks.iter().find(|check| check.check == "trim-reads").unwrap().clone()
    };
    let zeros = "Deterministic read ZEROs after TRIM";
    assert_verdict(&with(zeros, true), Verdict::Fine, &["zeros, at most 8 blocks of ranges"]);
    assert_verdict(
        &with("Deterministic read data after TRIM", true),
        Verdict::Problem,
        &["parity"],
    );
    assert_verdict(&with("", false), Verdict::Fine, &["anything"]);
}

#[test]
fn spare_area_is_told_where_the_flash_is_known() {
    let mut facts = sata().build();
    facts.set_output("hdparm", &["-I", "/dev/sda"], 0, IDENTIFY);
    // 480 GiB of 512 GiB.
    assert_verdict(&outcome(&facts, "/mnt", "spare-area"), Verdict::Fine, &["6.2 % of it spare"]);
    assert_verdict(
        &outcome(&sata().build(), "/mnt", "spare-area"),
        Verdict::Unknown,
        &["not in the table"],
    );
}

#[test]
fn space_outside_partitions_is_offered_as_spare_area() {
    let check = outcome(&sata().build(), "/mnt", "unpartitioned");
    assert_verdict(&check, Verdict::Fine, &[]);
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.partition_of("sda1", "sda", mib(1), 400 << 30);
    made.mount("/mnt", "ext4", "sda1", "rw,relatime");
    let check = outcome(&made.build(), "/mnt", "unpartitioned");
    let command = "parted -s /dev/sda mkpart ssdlab-unused-1 429497778176B 515395026943B";
    assert_verdict(&check, Verdict::Notice, &[command, "by-partlabel/ssdlab-unused-1", "16.7 %"]);
    // A member of an array: what the array knows of itself may lie there.
    let directory = made.directory("sda");
    made.facts.link(&format!("{directory}/holders/md126"), "/sys/devices/virtual/block/md126");
    let check = outcome(&made.build(), "/mnt", "unpartitioned");
    assert_verdict(&check, Verdict::Notice, &["a member of something"]);
    assert!(check.remedies.is_empty(), "{check:?}");
}

#[test]
fn what_lies_in_an_extended_partition_is_nobodys_spare_area() {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.partition_of("sda1", "sda", mib(1), 100 << 30);
    // The kernel shows two sectors of an extended partition; its logical ones have tables before them.
    let from = |gib: u64| mib(gib << 10);
    made.partition_of("sda2", "sda", from(200), 1024);
    made.set("sda2", "partition", "2");
    for (number, gib) in [(5, 210), (6, 300)] {
        let name = format!("sda{number}");
        made.partition_of(&name, "sda", from(gib), 50 << 30);
        made.set(&name, "partition", &number.to_string());
    }
    made.partition_of("sda3", "sda", from(400), 40 << 30);
    made.set("sda3", "partition", "3");
    made.mount("/mnt", "ext4", "sda1", "rw,relatime");
    let check = outcome(&made.build(), "/mnt", "unpartitioned");
    let command = check.remedies[0].command.as_deref().unwrap();
    let gaps: Vec<u64> = command
        .lines()
        .filter_map(|line| line.split(" ssdlab-unused-").nth(1)?.split(' ').nth(1))
        .map(|from| from.trim_end_matches('B').parse::<u64>().unwrap() >> 20)
        .collect();
    assert_eq!(gaps, [(100 << 10) + 1, 440 << 10], "{command}");
    assert!(!command.contains("--offset"), "{command}");
}

#[test]
fn schedulers_and_links_that_do_not_suit_are_named() {
    let mut made = MachineBuilder::new();
    made.nvme("nvme0n1");
    made.mount("/mnt", "ext4", "nvme0n1", "rw,relatime");
    assert_verdict(&outcome(&made.build(), "/mnt", "scheduler"), Verdict::Fine, &["none"]);
    made.set("nvme0n1", "queue/scheduler", "none mq-deadline [bfq]");
    assert_verdict(&outcome(&made.build(), "/mnt", "scheduler"), Verdict::Notice, &["echo none"]);
    for (part, text) in [
        ("current_link_speed", "8.0 GT/s PCIe"),
        ("max_link_speed", "8.0 GT/s PCIe"),
        ("current_link_width", "2"),
        ("max_link_width", "4"),
    ] {
        made.set("nvme0n1", &format!("device/device/{part}"), text);
    }
    assert_verdict(&outcome(&made.build(), "/mnt", "controller"), Verdict::Notice, &["2 lanes"]);

    let mut sata = sata();
    assert_verdict(&outcome(&sata.build(), "/mnt", "controller"), Verdict::Fine, &["ahci"]);
    let driver = "/sys/devices/pci0000:00/0000:00:17.0/driver";
    sata.facts.link(driver, "/sys/bus/pci/drivers/ata_piix");
    assert_verdict(&outcome(&sata.build(), "/mnt", "controller"), Verdict::Warning, &["AHCI"]);
}
