//! A block device as the kernel describes it below `/sys`, and what lies right below it. The one
//! reader of that, for the system that runs this program as for one that was captured.

use std::fs;
use std::path::{Path, PathBuf};

use super::device::{DeviceNumber, System};

/// What answers questions about `/sys`. Paths are as the kernel has them, whatever they lead to
/// here.
pub trait Sysfs {
    /// The text of a small file without blanks around it; nothing where it is empty or cannot be
    /// read.
    fn text(&self, path: &str) -> Option<String>;

    /// The names in a directory, sorted; none where it cannot be read.
    fn names(&self, directory: &str) -> Vec<String>;

    /// The path with all symbolic links followed; nothing where it leads nowhere.
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

/// What a block device is, as far as its directory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A partition.
    Partition,
    /// A device of the device mapper.
    Mapper {
        /// Its name under `/dev/mapper`.
        name: String,
        /// Its identifier, which begins with who made it: `CRYPT-LUKS2-...`, `LVM-...`.
        id: String,
    },
    /// A RAID of the kernel's.
    Raid {
        /// `raid1`, ...
        level: String,
    },
    /// A file that poses as a block device.
    Loop {
        /// The file.
        file: String,
    },
    /// Anything else.
    Disk,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's name of it.
    pub name: String,
    /// Where the kernel describes it.
    pub directory: String,
    /// Its number.
    pub number: Option<DeviceNumber>,
    /// Its device file.
    pub file: String,
    /// What it is.
    pub kind: NodeKind,
}

impl Node {
    /// The device that is described in a directory below `/sys/devices`.
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
        // `uevent` has its name where the kernel's name has a slash.
        let told = text("uevent").and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(str::to_owned)
        });
        let file = format!("/dev/{}", told.unwrap_or_else(|| name.replace('!', "/")));
        let number = text("dev").and_then(|text| DeviceNumber::parse(&text));
        Node { name, directory: directory.to_owned(), number, file, kind }
    }

    /// The device with this number.
    pub fn of_number(sysfs: &dyn Sysfs, number: DeviceNumber) -> Option<Node> {
        let directory = sysfs.resolve(&format!("/sys/dev/block/{number}"))?;
        Some(Node::at(sysfs, &directory))
    }

    /// The directory of the disk that has the queue of its requests: a partition's is its parent's.
    pub fn disk(&self) -> &str {
        let parent = self.directory.rsplit_once('/').filter(|_| self.kind == NodeKind::Partition);
        parent.map_or(&self.directory, |(parent, _)| parent)
    }

    /// Returns what people call it: a mapping by the name that was given to it, anything else by the kernel's name.
    pub fn called(&self) -> &str {
        match &self.kind {
            NodeKind::Mapper { name, .. } => name,
            _ => &self.name,
        }
    }

    /// The directories of the devices that it lies on. A loop device lies on a file, which is not
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
