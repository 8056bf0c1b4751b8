//! A machine that is made up: its devices described as the kernel describes them.

use ssdlab_blockdev::DeviceNumber;
use ssdlab_host::facts::Machine;
use ssdlab_host::{Captured, Facts};

/// Seconds since 1970 at which all these machines are looked at.
pub const NOW: u64 = 1_760_000_000;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A machine under construction.
pub struct MachineBuilder {
    pub facts: Captured,
    mounts: String,
    tables: String,
    statuses: String,
    devices: u32,
}

impl MachineBuilder {
    /// A machine of today with systemd, whose timer is off, and nothing to store on.
    pub fn new() -> MachineBuilder {
        let machine = Machine {
            system: "Linux 6.12.41".to_owned(),
            release: "6.12.41".to_owned(),
            architecture: "x86_64".to_owned(),
            time: NOW,
            is_root: true,
        };
        let mut made = MachineBuilder {
            facts: Captured::new(machine),
            mounts: String::new(),
            tables: String::new(),
            statuses: String::new(),
            devices: 0,
        };
        let timer = "[Unit]\nDescription=x\n[Timer]\nOnCalendar=weekly\nPersistent=true\n";
        made.facts.put("/usr/lib/systemd/system/fstrim.timer", timer);
        let command = "/sbin/fstrim --listed-in /etc/fstab:/proc/self/mountinfo --verbose";
        let service = format!("[Service]\nType=oneshot\nExecStart={command}\n");
        made.facts.put("/usr/lib/systemd/system/fstrim.service", &service);
        made.facts.put("/usr/sbin/cron", "");
        made.facts.put("/etc/os-release", "PRETTY_NAME=\"x\"\nID=debian\n");
        made.facts.put("/run/systemd/system/.", "");
        made.facts.put("/proc/sys/vm/swappiness", "60\n");
        made.facts.put("/proc/sys/vm/vfs_cache_pressure", "100\n");
        made.facts.put("/proc/swaps", "Filename Type Size Used Priority\n");
        made.mount("/tmp", "tmpfs", "tmpfs", "rw,relatime");
        made
    }

    /// A device at `directory`; returns its name.
    fn device(&mut self, directory: &str, size: u64) -> String {
        let name = directory.rsplit('/').next().unwrap().to_owned();
        self.devices += 1;
        let number = DeviceNumber { major: 259, minor: self.devices };
        self.put(directory, "dev", &number.to_string());
        self.put(directory, "size", &(size / 512).to_string());
        self.put(directory, "alignment_offset", "0");
        self.put(directory, "uevent", &format!("DEVNAME={name}\nDEVTYPE=disk"));
        self.facts.link(&format!("/sys/class/block/{name}"), directory);
        self.facts.link(&format!("/sys/dev/block/{number}"), directory);
        self.facts.device(&format!("/dev/{name}"), number);
        name
    }

    pub fn put(&mut self, directory: &str, part: &str, text: &str) {
        self.facts.put(&format!("{directory}/{part}"), &format!("{text}\n"));
    }

    pub fn directory(&self, name: &str) -> String {
        self.facts.resolve(&format!("/sys/class/block/{name}")).unwrap()
    }

    /// Changes what the kernel says of a device.
    pub fn set(&mut self, name: &str, part: &str, text: &str) {
        let directory = self.directory(name);
        self.put(&directory, part, text);
    }

    /// The number of a device, as `259:3`.
    pub fn number(&self, name: &str) -> String {
        self.facts.text(&format!("{}/dev", self.directory(name))).unwrap()
    }

    fn queue(&mut self, name: &str, discard: bool) {
        self.set(name, "queue/discard_max_bytes", if discard { "2147450880" } else { "0" });
        self.set(name, "queue/discard_granularity", if discard { "512" } else { "0" });
        self.set(name, "queue/logical_block_size", "512");
        self.set(name, "queue/physical_block_size", "4096");
        self.set(name, "queue/rotational", "0");
        self.set(name, "queue/scheduler", "none [mq-deadline] bfq");
        self.set(name, "queue/write_cache", "write back");
    }

    fn disk(&mut self, directory: &str, discard: bool) -> String {
        let name = self.device(directory, 480 * GIB);
        self.queue(&name, discard);
        self.facts.link(&format!("/sys/block/{name}"), directory);
        name
    }

    /// A SATA drive behind AHCI.
    pub fn sata(&mut self, name: &str, discard: bool) {
        let port = u32::from(name.as_bytes()[2] - b'a') + 1;
        let controller = "/sys/devices/pci0000:00/0000:00:17.0";
        self.facts.link(&format!("{controller}/driver"), "/sys/bus/pci/drivers/ahci");
        let place = format!("{controller}/ata{port}/host{port}/target{port}:0:0/{port}:0:0:0");
        let directory = format!("{place}/block/{name}");
        self.disk(&directory, discard);
        self.put(&directory, "device/vendor", "ATA");
        self.put(&directory, "device/model", "Samsung SSD 840");
    }

    pub fn nvme(&mut self, name: &str) {
        let controller = name.trim_end_matches("n1");
        let directory = format!("/sys/devices/pci0000:00/0000:01:00.0/nvme/{controller}/{name}");
        self.disk(&directory, true);
        self.put(&directory, "device/model", "Fast One 1TB");
        self.set(name, "queue/scheduler", "[none] mq-deadline");
    }

    /// A disk behind a USB bridge; `mode` is how discards are sent to it.
    pub fn usb(&mut self, name: &str, driver: &str, mode: &str) {
        let interface = "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0";
        self.facts.link(&format!("{interface}/driver"), &format!("/sys/bus/usb/drivers/{driver}"));
        let directory = format!("{interface}/host7/target7:0:0/7:0:0:0/block/{name}");
        self.disk(&directory, mode != "full");
        let bridge = "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1";
        self.put(bridge, "idVendor", "152d");
        self.put(bridge, "idProduct", "0578");
        self.put(bridge, "serial", "DB00001");
        self.put(&directory, "device/vendor", "JMicron");
        self.put(&directory, "device/model", "Generic");
        self.put(&directory, "device/scsi_disk/7:0:0:0/provisioning_mode", mode);
        self.set(name, "queue/rotational", "1");
    }

    /// A SAS drive behind a host bus adapter.
    pub fn sas(&mut self, name: &str) {
        let place =
            "/sys/devices/pci0000:00/0000:03:00.0/host9/port-9:0/end_device-9:0/target9:0:0";
        let directory = format!("{place}/9:0:0:0/block/{name}");
        self.disk(&directory, true);
        self.put(&directory, "device/vendor", "SEAGATE");
        self.put(&directory, "device/model", "XS960SE70004");
        self.facts.put("/sys/class/scsi_host/host9/proc_name", "mpt3sas");
    }

    /// A disk that a RAID controller shows.
    pub fn raid_controller(&mut self, name: &str, driver: &str) {
        let directory =
            format!("/sys/devices/pci0000:00/0000:02:00.0/host0/target0:2:0/0:2:0:0/block/{name}");
        self.disk(&directory, false);
        self.put(&directory, "device/vendor", "LSI");
        self.put(&directory, "device/model", "MR9271-8i");
        self.facts.put("/sys/class/scsi_host/host0/proc_name", driver);
    }

    /// A disk of a virtual machine.
    pub fn virtual_disk(&mut self, name: &str, discard: bool) {
        let directory = format!("/sys/devices/pci0000:00/0000:00:04.0/virtio1/block/{name}");
        self.disk(&directory, discard);
    }

    /// A partition of `disk` that begins at a sector.
    pub fn partition(&mut self, name: &str, disk: &str, start: u64) {
        self.partition_of(name, disk, start, 400 * GIB);
    }

    pub fn partition_of(&mut self, name: &str, disk: &str, start: u64, size: u64) {
        let directory = format!("{}/{name}", self.directory(disk));
        self.device(&directory, size);
        self.put(&directory, "partition", "1");
        self.put(&directory, "start", &start.to_string());
    }

    /// A device on others.
    fn stacked(&mut self, name: &str, below: &[&str], discard: bool) -> String {
        let directory = format!("/sys/devices/virtual/block/{name}");
        self.disk(&directory, discard);
        for slave in below {
            let to = self.directory(slave);
            self.facts.link(&format!("{directory}/slaves/{slave}"), &to);
            let holder = format!("{to}/holders/{name}");
            self.facts.link(&holder, &directory);
        }
        directory
    }

    /// A device of the device mapper with its table; `DEVICE` in that is the number of the first
    /// device below.
    pub fn mapping(
        &mut self,
        name: &str,
        title: &str,
        id: &str,
        table: &str,
        below: &[&str],
        discard: bool,
    ) {
        let directory = self.stacked(name, below, discard);
        self.put(&directory, "dm/name", title);
        self.put(&directory, "dm/uuid", id);
        let number = self.number(below[0]);
        let table = table.replace("DEVICE", &number);
        self.tables += &format!("{title}: 0 838860800 {table}\n");
        self.facts.link(&format!("/dev/mapper/{title}"), &format!("/dev/{name}"));
    }

    /// LUKS2, with its data 16 MiB in.
    pub fn luks(&mut self, name: &str, title: &str, below: &str, allow_discards: bool) {
        let options = if allow_discards { " 1 allow_discards" } else { "" };
        let table = format!("crypt aes-xts-plain64 :64:logon:key 0 DEVICE 32768{options}");
        let id = format!("CRYPT-LUKS2-0123456789abcdef-{title}");
        self.mapping(name, title, &id, &table, &[below], allow_discards);
    }

    /// A linear volume of LVM.
    pub fn volume(&mut self, name: &str, title: &str, below: &str, discard: bool) {
        let id = "LVM-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        self.mapping(name, title, id, "linear DEVICE 2048", &[below], discard);
    }

    /// What `dmsetup status` says of a device.
    pub fn status(&mut self, title: &str, words: &str) {
        self.statuses += &format!("{title}: 0 838860800 {words}\n");
    }

    pub fn md(&mut self, name: &str, level: &str, members: &[&str], discard: bool) {
        let directory = self.stacked(name, members, discard);
        self.put(&directory, "md/level", level);
        self.put(&directory, "md/metadata_version", "1.2");
        for member in members {
            self.put(&directory, &format!("md/dev-{member}/offset"), "264192");
        }
        if matches!(level, "raid5" | "raid6") {
            let parameter = "/sys/module/raid456/parameters/devices_handle_discard_safely";
            self.facts.put(parameter, if discard { "Y\n" } else { "N\n" });
        }
    }

    pub fn loop_device(&mut self, name: &str, file: &str, discard: bool) {
        let directory = self.stacked(name, &[], discard);
        self.put(&directory, "loop/backing_file", file);
        self.put(&directory, "loop/offset", "0");
    }

    pub fn zram(&mut self, name: &str) {
        self.stacked(name, &[], true);
    }

    /// Members of a btrfs.
    pub fn btrfs(&mut self, devices: &[&str]) {
        for name in devices {
            let to = self.directory(name);
            self.facts.link(&format!("/sys/fs/btrfs/4f2c/devices/{name}"), &to);
        }
    }

    /// A mount of a device, by its name, or of anything else.
    pub fn mount(&mut self, point: &str, kind: &str, source: &str, options: &str) {
        let number = self.facts.device_number(&format!("/dev/{source}"));
        let number = match (kind, number) {
            // These have numbers of their own.
            ("btrfs", _) | (_, Err(_)) => "0:40".to_owned(),
            (_, Ok(number)) => number.to_string(),
        };
        let source = match number == "0:40" && kind != "btrfs" {
            true => source.to_owned(),
            false => format!("/dev/{source}"),
        };
        let id = 100 + self.mounts.lines().count();
        self.mounts += &format!("{id} 1 {number} / {point} {options} - {kind} {source} rw\n");
        self.facts.put(&format!("{point}/."), "");
    }

    /// Mounts what is mounted there with other options.
    pub fn remount(&mut self, point: &str, options: &str) {
        let change = |line: &str| {
            let mut fields: Vec<&str> = line.split(' ').collect();
            if fields[4] == point {
                fields[5] = options;
            }
            fields.join(" ") + "\n"
        };
        self.mounts = self.mounts.lines().map(change).collect();
    }

    /// Switches systemd's timer on; it ran `ago` seconds ago.
    pub fn timer(&mut self, ago: u64) {
        let unit = "/usr/lib/systemd/system/fstrim.timer";
        self.facts.link("/etc/systemd/system/timers.target.wants/fstrim.timer", unit);
        self.facts.set_modified("/var/lib/systemd/timers/stamp-fstrim.timer", NOW - ago);
    }

    /// The machine as it is now.
    pub fn build(&self) -> Captured {
        let mut facts = self.facts.clone();
        facts.put("/proc/self/mountinfo", &self.mounts);
        if facts.machine().is_root && !self.tables.is_empty() {
            facts.set_output("dmsetup", &["table"], 0, &self.tables);
            facts.set_output("dmsetup", &["status"], 0, &self.statuses);
        } else if !self.tables.is_empty() {
            facts.set_output("dmsetup", &["table"], 1, "");
            facts.set_output("dmsetup", &["status"], 1, "");
        }
        facts
    }
}

/// Sectors of this many MiB.
pub fn mib(count: u64) -> u64 {
    count * MIB / 512
}
