//! Block devices as described below `/sys`, and the devices right below them in the stack. The only
//! reader of these directories, both for the running system and for a captured one.

use std::fs;
use std::path::{Path, PathBuf};

use super::device::{DeviceNumber, System};

/// Source of the contents of `/sys`. Paths are the kernel's, even if the files are kept elsewhere.
pub trait Sysfs {
    /// Returns the trimmed text of a small file; `None` if it is empty or cannot be read.
    fn text(&self, path: &str) -> Option<String>;

    /// Returns the names in a directory, sorted; none if it cannot be read.
    fn names(&self, directory: &str) -> Vec<String>;

    /// Returns the path with all symbolic links followed; `None` if it leads nowhere.
    fn resolve(&self, path: &str) -> Option<String>;
}

impl System {
    fn place_of(&self, path: &str) -> PathBuf {
        match Path::new(path).strip_prefix("/sys") {
            Ok(below) => self.sys.join(below),
            Err(_) => PathBuf::from(path),
        }
    }
}

impl Sysfs for System {
    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.place_of(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place_of(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn resolve(&self, path: &str) -> Option<String> {
        let found = fs::canonicalize(self.place_of(path)).ok()?;
        found.into_os_string().into_string().ok()
    }
}

/// Kind of a block device, by its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A partition.
    Partition,
    /// A device mapper device.
    Mapper {
        /// Name under `/dev/mapper`.
        name: String,
        /// Identifier, which begins with the program that made it: `CRYPT-LUKS2-...`, `LVM-...`.
        id: String,
    },
    /// A software RAID of the kernel (md).
    Raid {
        /// RAID level: `raid1`, ...
        level: String,
    },
    /// A loop device.
    Loop {
        /// File behind the loop device.
        file: String,
    },
    /// Anything else.
    Disk,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Kernel name of the device.
    pub name: String,
    /// Directory in which the kernel describes the device.
    pub directory: String,
    /// Device number.
    pub number: Option<DeviceNumber>,
    /// Device file.
    pub file: String,
    /// Kind of the device.
    pub kind: NodeKind,
}

impl Node {
    /// Returns the device that is described in a directory below `/sys/devices`.
    pub fn at(sysfs: &dyn Sysfs, directory: &str) -> Node {
        let name = directory.rsplit('/').next().unwrap_or_default().to_owned();
        let text = |part: &str| sysfs.text(&format!("{directory}/{part}"));
        let kind = if text("partition").is_some() {
            NodeKind::Partition
        } else if let Some(name) = text("dm/name") {
            NodeKind::Mapper { name, id: text("dm/uuid").unwrap_or_default() }
        } else if let Some(level) = text("md/level") {
            NodeKind::Raid { level }
        } else if let Some(file) = text("loop/backing_file") {
            NodeKind::Loop { file }
        } else {
            NodeKind::Disk
        };
        // `uevent` has the name of the device file, which contains a slash where the kernel name has `!`.
        let told = text("uevent").and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(str::to_owned)
        });
        let file = format!("/dev/{}", told.unwrap_or_else(|| name.replace('!', "/")));
        let number = text("dev").and_then(|text| DeviceNumber::parse(&text));
        Node { name, directory: directory.to_owned(), number, file, kind }
    }

    /// Returns the device with this number.
    pub fn of_number(sysfs: &dyn Sysfs, number: DeviceNumber) -> Option<Node> {
        let directory = sysfs.resolve(&format!("/sys/dev/block/{number}"))?;
        Some(Node::at(sysfs, &directory))
    }

    /// Returns the directory of the disk that has the request queue: for a partition, its parent.
    pub fn disk(&self) -> &str {
        let parent = self.directory.rsplit_once('/').filter(|_| self.kind == NodeKind::Partition);
        parent.map_or(&self.directory, |(parent, _)| parent)
    }

    /// Returns the usual name: of a device mapper device the name that was given to it, of others the
    /// kernel name.
    pub fn called(&self) -> &str {
        match &self.kind {
            NodeKind::Mapper { name, .. } => name,
            _ => &self.name,
        }
    }

    /// Returns the directories of the devices right below this one. The file behind a loop device is not
    /// among them.
    pub fn below(&self, sysfs: &dyn Sysfs) -> Vec<String> {
        match self.kind {
            NodeKind::Partition => vec![self.disk().to_owned()],
            NodeKind::Loop { .. } => Vec::new(),
            _ => {
                let names = sysfs.names(&format!("{}/slaves", self.directory));
                let by_name = |name: &String| sysfs.resolve(&format!("/sys/class/block/{name}"));
                names.iter().filter_map(by_name).collect()
            }
        }
    }
}
