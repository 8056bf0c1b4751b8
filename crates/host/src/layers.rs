//! The layers between a path, mount or device and the drives below it.
//!
//! ```no_run
//! use ssdlab_host::{Live, layers};
//!
//! let stack = layers::stack_of(&Live, "/home")?;
//! for drive in stack.drives() {
//!     println!("{} takes discards: {:?}", drive.name, drive.limits.takes_discards());
//! }
//! # Ok::<(), ssdlab_host::HostError>(())
//! ```

mod block;
mod file_system;
mod scsi;
mod target;
mod tree;

use serde::Serialize;
use ssdlab_units::ByteLength;

use crate::error::HostError;
use crate::facts::Facts;

pub(crate) use self::scsi::{can_unmap, provisioning_mode_file, scsi_disk, usb_bridge};

/// Type of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LayerKind {
    /// File system, or a part of one.
    FileSystem {
        /// Name of the file system: `ext4`, ...
        file_system: String,
    },
    /// Partition.
    Partition,
    /// Linear volume (LVM, dm-linear): one or several extents of devices.
    Linear,
    /// Volume striped over several devices.
    Striped,
    /// Thin volume, which takes space from a pool when it is written.
    Thin,
    /// Pool of thin volumes.
    ThinPool,
    /// Encryption (dm-crypt, LUKS).
    Crypt,
    /// RAID of the device mapper (dm-raid, dm-mirror).
    MapperRaid,
    /// Any other device of the device mapper.
    Mapper {
        /// Name of the target, if the table could be read.
        target: Option<String>,
    },
    /// RAID of the kernel's md driver.
    Md {
        /// Level: `raid1`, ...
        level: String,
        /// True if its metadata is the firmware's (Intel RST, DDF).
        is_firmware: bool,
    },
    /// Loop device: a file used as a block device.
    Loop {
        /// Path of the file; `None` if the device has none.
        file: Option<String>,
    },
    /// Compressed memory (zram).
    Zram,
    /// Device with another device as its cache (bcache).
    Bcache,
    /// Device on another machine (nbd, drbd, rbd).
    Network,
    /// Disk behind a USB bridge.
    Usb {
        /// Driver: `uas` or `usb-storage`.
        driver: Option<String>,
    },
    /// NVMe drive.
    Nvme,
    /// SATA drive.
    Sata,
    /// Volume of a hardware RAID controller.
    HardwareRaid {
        /// Driver of the controller.
        driver: String,
    },
    /// SCSI or SAS disk.
    Scsi,
    /// Disk that the host of a virtual machine provides.
    Virtual,
    /// SD card or eMMC.
    Mmc,
    /// Any other disk.
    Disk,
}

/// Limits and hints of the kernel for requests to a device, in bytes. For a partition they are those of its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Largest size of a discard; 0 if the device takes none.
    pub discard_max_bytes: Option<u64>,
    /// Size of which discards have to be a multiple.
    pub discard_granularity: Option<u64>,
    /// Smallest addressable unit.
    pub logical_block: Option<u64>,
    /// Unit that the device writes without read-modify-write, by its own report.
    pub physical_block: Option<u64>,
    /// Preferred smallest request.
    pub minimum_io: Option<u64>,
    /// Preferred request size; 0 if the device does not report one.
    pub optimal_io: Option<u64>,
    /// Offset of the device's beginning from a physical block.
    pub alignment_offset: Option<i64>,
    /// True if the device reports that it spins.
    pub is_rotational: Option<bool>,
    /// I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Mode of the cache: `write back` (the kernel sends flushes) or `write through` (it sends none).
    pub write_cache: Option<String>,
}

impl Limits {
    /// Returns true if the device takes discards; `None` if not known.
    pub fn takes_discards(&self) -> Option<bool> {
        self.discard_max_bytes.map(|most| most > 0)
    }
}

/// Mount of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mounted {
    /// Mount point.
    pub point: String,
    /// Source of the mount: a device, or a name.
    pub source: String,
    /// Directory of the file system that is mounted: `/` but for bind mounts and subvolumes.
    pub root: String,
    /// Options of the mount and of the file system, as the kernel shows them.
    pub options: Vec<String>,
}

impl Mounted {
    /// Returns true if an option is set.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// Returns true if the mount is read-only.
    pub fn is_read_only(&self) -> bool {
        self.has("ro")
    }
}

/// Layer of the storage stack, with those below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Kernel's name of a device, or the mount point of a file system.
    pub name: String,
    /// Type of the layer.
    #[serde(flatten)]
    pub kind: LayerKind,
    /// Path of the device file, or mount point of the file system.
    pub path: String,
    /// Name under `/dev/mapper`, or model of a drive, if any.
    pub title: Option<String>,
    /// Major and minor number of a device.
    pub device: Option<String>,
    /// Size of the device in bytes.
    pub size_bytes: Option<u64>,
    /// Offset of the layer's data on the device below, in bytes.
    pub offset_bytes: Option<u64>,
    /// True if the device holds only metadata of a layer above, and no data of the file system.
    pub is_metadata: bool,
    /// Limits of requests to the device.
    pub limits: Limits,
    /// Mount of a file system; `None` for a device.
    pub mount: Option<Mounted>,
    /// Further facts in words.
    pub notes: Vec<String>,
    /// Layers directly below this one.
    pub below: Vec<Layer>,
    /// Directory in sysfs that describes the device; empty for a file system.
    #[serde(skip)]
    pub(crate) directory: String,
}

impl Layer {
    /// Returns the name for people: of a device-mapper device the name under `/dev/mapper`, of others the kernel's.
    pub fn display_name(&self) -> &str {
        let is_mapping = matches!(
            self.kind,
            LayerKind::Linear
                | LayerKind::Striped
                | LayerKind::Thin
                | LayerKind::ThinPool
                | LayerKind::Crypt
                | LayerKind::MapperRaid
                | LayerKind::Mapper { .. }
        );
        self.title.as_deref().filter(|_| is_mapping).unwrap_or(&self.name)
    }

    /// Returns this layer and all layers below it, from the top.
    pub fn self_and_below(&self) -> Vec<&Layer> {
        let mut found = vec![self];
        for layer in &self.below {
            found.extend(layer.self_and_below());
        }
        found
    }

    /// Returns true if the layer is a device, and no layer below it is known.
    pub fn is_drive(&self) -> bool {
        self.below.is_empty() && !matches!(self.kind, LayerKind::FileSystem { .. })
    }

    /// Returns true if the layer is a spinning drive. USB bridges, RAID controllers and virtual disks report every
    /// drive as spinning, so they do not count.
    pub fn is_spinning(&self) -> bool {
        let is_bridge = matches!(
            self.kind,
            LayerKind::Usb { .. } | LayerKind::HardwareRaid { .. } | LayerKind::Virtual
        );
        self.is_drive() && !is_bridge && self.limits.is_rotational == Some(true)
    }

    /// Returns true if the layer is a file system.
    pub fn is_file_system(&self) -> bool {
        matches!(self.kind, LayerKind::FileSystem { .. })
    }

    /// Returns the size, or `None` if not known.
    pub fn size(&self) -> Option<ByteLength> {
        self.size_bytes.map(ByteLength::new)
    }
}

/// Layers below a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// Target that was asked for.
    pub target: String,
    /// Topmost layer, with those below it.
    pub top: Layer,
}

impl Stack {
    /// Returns the drives at the bottom, each once.
    pub fn drives(&self) -> Vec<&Layer> {
        let mut found: Vec<&Layer> = Vec::new();
        for layer in self.top.self_and_below() {
            if layer.is_drive() && !found.iter().any(|known| known.name == layer.name) {
                found.push(layer);
            }
        }
        found
    }

    /// Returns the file system, if the target is a path or a mounted device.
    pub fn file_system(&self) -> Option<&Layer> {
        Some(&self.top).filter(|layer| layer.is_file_system())
    }

    /// Returns the layers as a tree in text, one line for each layer; `ascii` is for terminals without line-drawing
    /// characters.
    pub fn to_text(&self, ascii: bool) -> String {
        tree::render(&self.top, ascii)
    }
}

/// Returns the layers below `target`: a directory or file, a device file, or the kernel's name of a device.
///
/// # Errors
/// Returns an error if the target does not exist.
pub fn stack_of(facts: &dyn Facts, target: &str) -> Result<Stack, HostError> {
    target::stack_of(facts, target)
}

/// Returns the layers below every file system that lies on a block device, and the drives without a file system.
pub fn all_stacks(facts: &dyn Facts) -> Vec<Stack> {
    target::all_stacks(facts)
}
