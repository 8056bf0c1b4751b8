//! The layers between a path, mount or device and the drives below it.
//!
//! ```no_run
//! use ssdlab_host::{Live, layers};
//!
//! let stack = layers::of(&Live, "/home")?;
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

/// What a layer is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LayerKind {
    /// A file system, or a part of one.
    FileSystem {
        /// `ext4`, ...
        file_system: String,
    },
    /// A partition.
    Partition,
    /// A volume of LVM, or another part of devices in one piece or several.
    Linear,
    /// A volume in stripes over several devices.
    Striped,
    /// A volume that takes space from a pool when it is written.
    Thin,
    /// A pool that such volumes take their space from.
    ThinPool,
    /// Encryption (dm-crypt, LUKS).
    Crypt,
    /// A RAID of the device mapper's.
    MapperRaid,
    /// Anything else of the device mapper's.
    Mapper {
        /// What its table calls it, if the table could be read.
        target: Option<String>,
    },
    /// A RAID of the kernel's.
    Md {
        /// `raid1`, ...
        level: String,
        /// True if its metadata is the firmware's (Intel RST, DDF).
        is_firmware: bool,
    },
    /// A file that poses as a block device.
    Loop {
        /// The file; `None` where it is set up on none.
        file: Option<String>,
    },
    /// Compressed memory.
    Zram,
    /// A device with another as its cache.
    Bcache,
    /// A device on another machine (nbd, drbd, rbd).
    Network,
    /// A disk behind USB.
    Usb {
        /// `uas` or `usb-storage`.
        driver: Option<String>,
    },
    /// An NVMe drive.
    Nvme,
    /// A SATA drive.
    Sata,
    /// What a RAID controller shows of the drives behind it.
    HardwareRaid {
        /// Its driver.
        driver: String,
    },
    /// A SCSI or SAS disk.
    Scsi,
    /// A disk that a host of virtual machines gives.
    Virtual,
    /// An SD card or eMMC.
    Mmc,
    /// Any other disk.
    Disk,
}

/// What the kernel allows and advises for requests to a device, in bytes. Of a partition those of
/// its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// The most that one discard may have; 0 where it takes none.
    pub discard_max_bytes: Option<u64>,
    /// What discards have to be a multiple of.
    pub discard_granularity: Option<u64>,
    /// The smallest addressable unit.
    pub logical_block: Option<u64>,
    /// What the device writes without reading first, as far as it says.
    pub physical_block: Option<u64>,
    /// The smallest request it likes.
    pub minimum_io: Option<u64>,
    /// The request it likes best; 0 where it does not say.
    pub optimal_io: Option<u64>,
    /// How far its beginning is off a physical block.
    pub alignment_offset: Option<i64>,
    /// True if it says that it spins.
    pub is_rotational: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// `write back` or `write through`: whether the kernel sends it flushes.
    pub write_cache: Option<String>,
}

impl Limits {
    /// Returns true if discards are taken, where that is known.
    pub fn takes_discards(&self) -> Option<bool> {
        self.discard_max_bytes.map(|most| most > 0)
    }
}

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mounted {
    /// Where.
    pub point: String,
    /// What is mounted.
    pub source: String,
    /// Which directory of it: `/` but for bind mounts and subvolumes.
    pub root: String,
    /// The options of mount and file system, as the kernel shows them.
    pub options: Vec<String>,
}

impl Mounted {
    /// Returns true if an option is set.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// Returns true if nothing can be written.
    pub fn is_read_only(&self) -> bool {
        self.has("ro")
    }
}

/// One layer, with those below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The kernel's name of a device; of a file system where it is mounted.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub kind: LayerKind,
    /// The device file, or where the file system is mounted.
    pub path: String,
    /// What people call it: the name under `/dev/mapper`, the model of a drive.
    pub title: Option<String>,
    /// Major and minor number of a device.
    pub device: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// Where its data begins on the device below.
    pub offset_bytes: Option<u64>,
    /// True if it holds only what a layer above needs to know, and no data of the file system's.
    pub is_metadata: bool,
    /// Limits of its requests.
    pub limits: Limits,
    /// Of a file system: how it is mounted.
    pub mount: Option<Mounted>,
    /// What else is to be said of it.
    pub notes: Vec<String>,
    /// What it lies on.
    pub below: Vec<Layer>,
    /// Where the kernel describes it.
    #[serde(skip)]
    pub(crate) directory: String,
}

impl Layer {
    /// Returns what people call it: a mapping by the name it was given, anything else by the kernel's.
    pub fn called(&self) -> &str {
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

    /// Itself and all layers below it, from the top.
    pub fn all(&self) -> Vec<&Layer> {
        let mut found = vec![self];
        for layer in &self.below {
            found.extend(layer.all());
        }
        found
    }

    /// Returns true if nothing is known to lie below it, and it is a device.
    pub fn is_drive(&self) -> bool {
        self.below.is_empty() && !matches!(self.kind, LayerKind::FileSystem { .. })
    }

    /// Returns true if it is a drive that spins. USB bridges, RAID controllers and virtual disks
    /// say so of everything.
    pub fn is_spinning(&self) -> bool {
        let is_bridge = matches!(
            self.kind,
            LayerKind::Usb { .. } | LayerKind::HardwareRaid { .. } | LayerKind::Virtual
        );
        self.is_drive() && !is_bridge && self.limits.is_rotational == Some(true)
    }

    /// Returns true if it is a file system.
    pub fn is_file_system(&self) -> bool {
        matches!(self.kind, LayerKind::FileSystem { .. })
    }

    /// The size, where it is known.
    pub fn size(&self) -> Option<ByteLength> {
        self.size_bytes.map(ByteLength::new)
    }
}

/// What lies under a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// What was asked for.
    pub target: String,
    /// The layers, from the top.
    pub top: Layer,
}

impl Stack {
    /// The drives at the bottom, each once.
    pub fn drives(&self) -> Vec<&Layer> {
        let mut found: Vec<&Layer> = Vec::new();
        for layer in self.top.all() {
            if layer.is_drive() && !found.iter().any(|known| known.name == layer.name) {
                found.push(layer);
            }
        }
        found
    }

    /// The file system, where the target is a path or a mounted device.
    pub fn file_system(&self) -> Option<&Layer> {
        Some(&self.top).filter(|layer| layer.is_file_system())
    }

    /// The tree in words, a line a layer; `ascii` where a terminal has no lines to draw with.
    pub fn words(&self, ascii: bool) -> String {
        tree::words(&self.top, ascii)
    }
}

/// The layers under `target`: a directory or file, a device file, or the kernel's name of a
/// device.
///
/// # Errors
/// When there is no such thing.
pub fn of(facts: &dyn Facts, target: &str) -> Result<Stack, HostError> {
    target::of(facts, target)
}

/// The layers under every file system that lies on a block device, and the drives that no file
/// system lies on.
pub fn everything(facts: &dyn Facts) -> Vec<Stack> {
    target::everything(facts)
}
