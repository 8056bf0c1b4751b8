//! Storage stack below a directory: its mount, and the layers of block devices down to the drive.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ssdlab_error::{DriveError, ErrorKind};

use super::device::{DeviceNumber, System};
use super::mounts::{Mount, device_of, mount_of};
use super::node::{Node, NodeKind, Sysfs};

/// Kind of a layer of block devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// A partition of the next layer.
    Partition,
    /// A device mapper device (LVM, dm-crypt, ...).
    Mapper,
    /// A software RAID of the kernel (md).
    Raid,
    /// A loop device.
    Loop,
    /// A disk behind a USB bridge.
    Usb,
    /// Any other disk.
    Disk,
}

/// One block device on the way from a file system down to the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Usual name: of a device mapper device the name that was given to it, of others the kernel name.
    pub name: String,
    /// Kind of the layer.
    pub kind: LayerKind,
    /// Largest discard in bytes; 0 if the device takes none, `None` if the kernel does not say.
    pub discard_max: Option<u64>,
    /// Further detail: the kind of mapping, the RAID level, the file behind a loop device, or the model.
    pub detail: Option<String>,
    node: Node,
}

impl Layer {
    /// Describes the layer, for use in sentences.
    pub fn words(&self) -> String {
        let kind = match self.kind {
            LayerKind::Partition => "partition",
            LayerKind::Mapper => "device mapper",
            LayerKind::Raid => "md RAID",
            LayerKind::Loop => "loop device",
            LayerKind::Usb => "USB disk",
            LayerKind::Disk => "disk",
        };
        match &self.detail {
            Some(detail) => format!("{} ({kind}, {detail})", self.name),
            None => format!("{} ({kind})", self.name),
        }
    }

    /// Returns the device file.
    pub fn device(&self) -> &Path {
        Path::new(&self.node.file)
    }

    /// Returns the kernel name: `sda2`, `dm-0`.
    pub fn kernel_name(&self) -> &str {
        &self.node.name
    }

    /// Returns the reason why the times of reads from this layer reveal little about flash, as the end of
    /// a sentence; `None` if the layer may be flash.
    fn obstacle(&self, system: &System) -> Option<&'static str> {
        let name = &self.node.name;
        let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|it| name.starts_with(it));
        let text = |attribute: &str| {
            system.text(&format!("{}/{attribute}", self.node.disk())).unwrap_or_default()
        };
        match self.kind {
            // A simulated drive of this project that is attached.
            LayerKind::Loop if self.lies_on_attached_drive(system) => None,
            LayerKind::Loop => Some("is a file on another file system, whose cache may answer"),
            LayerKind::Disk if has_prefix(&["vd", "xvd"]) => Some("is a virtual disk"),
            LayerKind::Disk if has_prefix(&["nbd", "rbd", "drbd"]) => {
                Some("is reached over a network")
            }
            LayerKind::Disk if has_prefix(&["zram", "ram"]) => Some("lies in memory"),
            LayerKind::Disk if has_prefix(&["bcache"]) => Some("has a cache in front of it"),
            LayerKind::Disk | LayerKind::Usb => {
                let maker = format!("{} {}", text("device/vendor"), text("device/model"));
                if is_of_hypervisor(&maker) {
                    Some("is a virtual disk")
                } else if text("queue/rotational") == "1" {
                    Some("is a rotating disk")
                } else {
                    None
                }
            }
            LayerKind::Partition | LayerKind::Mapper | LayerKind::Raid => None,
        }
    }

    fn lies_on_attached_drive(&self, system: &System) -> bool {
        let file = self.detail.as_ref().and_then(|file| File::open(file).ok());
        let mount = file.and_then(|file| mount_of(&file, system));
        mount.is_some_and(|mount| is_of_attached_drive(&mount))
    }
}

/// Returns true if a mount has the file of an attached drive. The kernel shows the subtype only for
/// mounts by fusermount.
fn is_of_attached_drive(mount: &Mount) -> bool {
    ["fuse", "fuse.ssdlab"].contains(&mount.file_system.as_str())
        && mount.source == Path::new("ssdlab")
}

/// Returns true if a vendor and model are those of a virtual disk of a hypervisor or cloud.
fn is_of_hypervisor(maker: &str) -> bool {
    const WORDS: [&str; 9] = [
        "qemu",
        "vbox",
        "virtual",
        "vmware",
        "msft",
        "amazon elastic block",
        "persistentdisk",
        "nvme_card-pd",
        "xen",
    ];
    let maker = maker.to_lowercase();
    WORDS.iter().any(|word| maker.contains(word))
}

/// Returns the reason, as a sentence, why the times of reads from these layers reveal little about flash,
/// such as a virtual disk, a cache or a network in between; `None` if flash may be read directly.
pub fn why_flash_is_hidden(layers: &[Layer]) -> Option<String> {
    let system = System::real();
    if layers.is_empty() {
        return Some("The drive below is not known".to_owned());
    }
    layers.iter().find_map(|layer| Some(format!("{} {}", layer.name, layer.obstacle(&system)?)))
}

/// Returns the mount that an open file was reached through; `None` if the system does not report it.
pub fn mount_of_file(file: &File) -> Option<Mount> {
    mount_of(file, &System::real())
}

/// Returns the block device with this number, and those below it down to the lowest known; none if there
/// is no such device.
pub fn layers_below(number: DeviceNumber) -> Vec<Layer> {
    layers_of(number, &System::real())
}

/// A directory on a file system, with the storage stack below.
#[derive(Clone, Debug)]
pub struct Place {
    mount: Mount,
    number: DeviceNumber,
    layers: Vec<Layer>,
}

impl Place {
    /// Examines the storage stack below `directory`.
    ///
    /// # Errors
    /// Returns an error if the mount cannot be found, or does not lie on a block device.
    pub fn of(directory: &Path) -> Result<Place, DriveError> {
        Place::on(directory, &System::real())
    }

    fn on(directory: &Path, system: &System) -> Result<Place, DriveError> {
        let shown = directory.display();
        let file = File::open(directory).map_err(|error| {
            DriveError::with_source(ErrorKind::Io, format!("cannot open {shown}"), error)
        })?;
        let mount = mount_of(&file, system).ok_or_else(|| {
            let message = format!("cannot find out what is mounted at {shown}");
            DriveError::new(ErrorKind::Unsupported, message)
        })?;
        let number = device_of(&mount, system);
        let layers = layers_of(number, system);
        if layers.is_empty() {
            let message = format!(
                "{shown} lies on {} ({}), which has no block device below it",
                mount.file_system,
                mount.source.display()
            );
            return Err(DriveError::new(ErrorKind::Unsupported, message));
        }
        Ok(Place { mount, number, layers })
    }

    /// Returns the mount point of the file system.
    pub fn mount_point(&self) -> &Path {
        &self.mount.point
    }

    /// Returns the type of the file system: `ext4`, ...
    pub fn file_system(&self) -> &str {
        &self.mount.file_system
    }

    /// Returns true if the mount has an option, as the kernel shows it.
    pub fn has_option(&self, option: &str) -> bool {
        self.mount.options.iter().any(|known| known == option)
    }

    /// Returns the options of the mount and of the file system, as the kernel shows them.
    pub fn options(&self) -> &[String] {
        &self.mount.options
    }

    /// Returns the block devices from the one that the file system lies on down to the lowest known.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns the device file of the block device that the file system lies on.
    pub fn device(&self) -> PathBuf {
        PathBuf::from(&self.layers[0].node.file)
    }

    /// Returns true if the same file system is still mounted at the same place.
    pub fn is_still_there(&self) -> bool {
        let mounts = System::real().mounts().unwrap_or_default();
        mounts.iter().any(|it| it.point == self.mount.point && it.device == self.mount.device)
    }

    /// Examines the mount point again.
    ///
    /// # Errors
    /// As [`Place::of`].
    pub fn now(&self) -> Result<Place, DriveError> {
        Place::of(&self.mount.point)
    }

    /// Returns the major and minor number of the block device that the file system lies on, as `8:17`.
    pub fn number(&self) -> String {
        self.number.to_string()
    }

    /// Returns the number of flushes that the disk below has received since the system started; `None` if
    /// the kernel does not count them.
    pub fn flushes(&self) -> Option<u64> {
        let counts = |layer: &&Layer| {
            matches!(layer.kind, LayerKind::Disk | LayerKind::Usb | LayerKind::Loop)
        };
        let disk = self.layers.iter().find(counts)?;
        // Documentation/block/stat.rst: the 16th number.
        let text = fs::read_to_string(Path::new(&disk.node.directory).join("stat")).ok()?;
        text.split_whitespace().nth(15)?.parse().ok()
    }
}

/// Largest number of layers: a file system on a loop device on itself has no end.
const LAYERS_MAX: usize = 16;

fn layers_of(number: DeviceNumber, system: &System) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut next: Vec<Node> = Node::of_number(system, number).into_iter().collect();
    while let Some(node) = next.pop() {
        let seen = layers.iter().any(|layer| layer.node.directory == node.directory);
        if seen || layers.len() >= LAYERS_MAX {
            continue;
        }
        // A stack: the last node is examined first.
        next.extend(below(&node, system).into_iter().rev());
        layers.push(layer_of(node, system));
    }
    layers
}

fn layer_of(node: Node, system: &System) -> Layer {
    let is_usb = || node.directory.split('/').any(|part| part.starts_with("usb"));
    let model = || system.text(&format!("{}/device/model", node.directory));
    let (kind, detail) = match &node.kind {
        NodeKind::Partition => (LayerKind::Partition, None),
        // The identifier begins with the program that made it: CRYPT-LUKS2-..., LVM-...
        NodeKind::Mapper { id, .. } => {
            (LayerKind::Mapper, id.split_once('-').map(|(maker, _)| maker.to_lowercase()))
        }
        NodeKind::Raid { level } => (LayerKind::Raid, Some(level.clone())),
        NodeKind::Loop { file } => (LayerKind::Loop, Some(file.clone())),
        NodeKind::Disk if is_usb() => (LayerKind::Usb, model()),
        NodeKind::Disk => (LayerKind::Disk, model()),
    };
    let discard_max = system.text(&format!("{}/queue/discard_max_bytes", node.disk()));
    let discard_max = discard_max.and_then(|text| text.parse().ok());
    Layer { name: node.called().to_owned(), kind, discard_max, detail, node }
}

/// Returns the devices right below a device.
fn below(node: &Node, system: &System) -> Vec<Node> {
    let NodeKind::Loop { file } = &node.kind else {
        let directories = node.below(system);
        return directories.iter().map(|it| Node::at(system, it)).collect();
    };
    let mount = File::open(file).ok().and_then(|file| mount_of(&file, system));
    let number = mount.map(|mount| device_of(&mount, system));
    number.and_then(|number| Node::of_number(system, number)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn disks_of_hypervisors_are_known_by_vendor_or_model() {
        for maker in ["QEMU QEMU HARDDISK", " Amazon Elastic Block Store", "Msft Virtual Disk"] {
            assert!(is_of_hypervisor(maker), "{maker}");
        }
        for maker in ["ATA Samsung SSD 840", " KXG50ZNV512G NVMe TOSHIBA 512GB"] {
            assert!(!is_of_hypervisor(maker), "{maker}");
        }
        assert!(why_flash_is_hidden(&[]).is_some());
    }

    #[test]
    fn the_file_of_an_attached_drive_is_known_whoever_has_mounted_it() {
        let mount = |kind: &str, source: &str| {
            let line =
                format!("42 30 0:39 / /run/1.file rw,noatime - {kind} {source} rw,user_id=0");
            Mount::parse(line.as_bytes()).unwrap()
        };
        assert!(is_of_attached_drive(&mount("fuse", "ssdlab")));
        assert!(is_of_attached_drive(&mount("fuse.ssdlab", "ssdlab")));
        assert!(!is_of_attached_drive(&mount("fuse.sshfs", "host:")));
        assert!(!is_of_attached_drive(&mount("fuse", "/dev/sda1")));
        assert!(!is_of_attached_drive(&mount("ext4", "ssdlab")));
    }

    #[test]
    fn layers_are_found_from_the_file_system_down_to_the_drive() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        put(root, "devices/virtual/block/dm-0/dm/name", "backup");
        put(root, "devices/virtual/block/dm-0/dm/uuid", "CRYPT-LUKS2-0123");
        put(root, "devices/virtual/block/dm-0/queue/discard_max_bytes", "0");
        put(root, "devices/virtual/block/dm-0/dev", "253:0");
        let disk = "devices/pci0/usb2/2-1/block/sda";
        put(root, &format!("{disk}/queue/discard_max_bytes"), "1048576");
        put(root, &format!("{disk}/dev"), "8:0");
        put(root, &format!("{disk}/stat"), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 77 17");
        put(root, &format!("{disk}/sda2/partition"), "2");
        put(root, &format!("{disk}/sda2/dev"), "8:2");
        let sys = root.join("sys");
        fs::create_dir_all(sys.join("dev/block")).unwrap();
        let link = |number: &str, to: &str| {
            std::os::unix::fs::symlink(sys.join(to), sys.join("dev/block").join(number)).unwrap();
        };
        link("253:0", "devices/virtual/block/dm-0");
        link("8:0", disk);
        link("8:2", &format!("{disk}/sda2"));
        put(root, "devices/virtual/block/dm-0/slaves/sda2", "");
        fs::create_dir_all(sys.join("class/block")).unwrap();
        std::os::unix::fs::symlink(sys.join(disk).join("sda2"), sys.join("class/block/sda2"))
            .unwrap();
        let system = System { sys: sys.clone(), proc: root.join("proc"), ..System::real() };
        let layers = layers_of(DeviceNumber { major: 253, minor: 0 }, &system);
        let words: Vec<String> = layers.iter().map(Layer::words).collect();
        assert_eq!(words, ["backup (device mapper, crypt)", "sda2 (partition)", "sda (USB disk)"]);
        let most: Vec<_> = layers.iter().map(|layer| layer.discard_max).collect();
        assert_eq!(most, [Some(0), Some(1 << 20), Some(1 << 20)]);
    }
}
