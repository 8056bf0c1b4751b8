//! The ways in which something is refreshed, for tests that disturb it.

use std::fs;
use std::path::PathBuf;

use crate::refresh::{MIB, Scene, XG5, text};
use crate::refresh_xfs::{exchanging, gives_up_when_the_drive_fails, has_exchange, is_sound_xfs};
use crate::support::{Place, has_devices, has_tools, tool};

/// Small: of a device all is read.
const SMALL: &str = "sim:toshiba-xg5,scale=1/512";

/// What is refreshed, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    kind: Kind,
    target: Target,
    options: &'static [&'static str],
}

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ext4,
    Btrfs,
    Xfs,
    /// That exchanges ranges of files.
    Exchanging,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    File,
    /// All of the device, while its file system is mounted.
    Device,
    /// All of the device, while it is not.
    Unmounted,
}

/// How long writers may be held up here: these tests share the machine with others, and are not about that.
pub(crate) const PATIENT: [&str; 2] = ["--max-freeze", "8s"];
const FROZEN: [&str; 3] = ["--frozen", PATIENT[0], PATIENT[1]];

impl Case {
    pub(crate) const EXT4: Case =
        Case { kind: Kind::Ext4, target: Target::File, options: &PATIENT };
    pub(crate) const EXT4_FROZEN: Case =
        Case { kind: Kind::Ext4, target: Target::File, options: &FROZEN };
    pub(crate) const BTRFS: Case = Case { kind: Kind::Btrfs, target: Target::File, options: &[] };
    pub(crate) const XFS_FROZEN: Case =
        Case { kind: Kind::Xfs, target: Target::File, options: &PATIENT };
    pub(crate) const XFS_EXCHANGED: Case =
        Case { kind: Kind::Exchanging, target: Target::File, options: &PATIENT };
    pub(crate) const DEVICE: Case =
        Case { kind: Kind::Ext4, target: Target::Device, options: &PATIENT };
    pub(crate) const DEVICE_UNMOUNTED: Case =
        Case { kind: Kind::Ext4, target: Target::Unmounted, options: &[] };

    /// Returns true if it can be tested here; says why not otherwise.
    pub(crate) fn is_possible(self, test: &str) -> bool {
        match self.kind {
            Kind::Ext4 => has_devices(test) && has_tools(test, &["mkfs.ext4", "e2fsck"]),
            Kind::Btrfs => has_devices(test) && has_tools(test, &["mkfs.btrfs", "btrfs"]),
            Kind::Xfs => has_devices(test) && has_tools(test, &["mkfs.xfs", "xfs_repair"]),
            Kind::Exchanging => has_exchange(test),
        }
    }

    /// A place for it.
    pub(crate) fn place(self) -> Place {
        Place::new(if self.target == Target::File { XG5 } else { SMALL })
    }

    /// A file of 12 MiB, filled, on a file system that is mounted.
    pub(crate) fn scene(self, place: &Place) -> Scene<'_> {
        let length = 12 * MIB;
        let mut scene = match self.kind {
            Kind::Ext4 => Scene::new(place, "ext4", length),
            Kind::Btrfs => Scene::new(place, "btrfs", length),
            Kind::Xfs => Scene::new(place, "xfs", length),
            Kind::Exchanging => exchanging(place, length),
        };
        if self.target != Target::File {
            // What a file system keeps for itself is refreshed as well, and takes time.
            scene.unmount();
            let few = ["-q", "-F", "-b", "4096", "-N", "256", "-J", "size=4"];
            tool("mkfs.ext4", &[&few[..], &[text(&scene.device())]].concat());
            scene.mount();
        }
        scene.fill();
        scene
    }

    /// For a drive whose power is going to be cut, once it is mounted.
    pub(crate) fn expect_failure(self, scene: &Scene<'_>) {
        if matches!(self.kind, Kind::Xfs | Kind::Exchanging) {
            gives_up_when_the_drive_fails(&scene.device());
        }
    }

    /// Returns true if the device is refreshed while it is not mounted.
    pub(crate) fn is_unmounted(self) -> bool {
        self.target == Target::Unmounted
    }

    fn target(self, scene: &Scene<'_>) -> PathBuf {
        match self.target {
            Target::File => scene.file.clone(),
            Target::Device | Target::Unmounted => scene.device(),
        }
    }

    /// Returns what the program is told for a refresh of all there is.
    pub(crate) fn arguments(self, scene: &Scene<'_>) -> Vec<String> {
        let target = self.target(scene);
        let first = ["refresh", text(&target), "--journal", "journal"];
        let all = ["--yes", "--all", "--window", "1M"];
        [&first[..], &all, self.options].concat().into_iter().map(str::to_owned).collect()
    }

    /// Returns the arguments that resume what an earlier refresh has left.
    pub(crate) fn arguments_to_resume(self, scene: &Scene<'_>) -> Vec<String> {
        let target = self.target(scene);
        let first = ["refresh", text(&target), "--journal", "journal", "--yes", "--resume"];
        [&first[..], self.options].concat().into_iter().map(str::to_owned).collect()
    }

    /// Has the file system checked while it is not mounted.
    pub(crate) fn check(self, scene: &Scene<'_>) {
        let device = scene.device();
        match self.kind {
            Kind::Ext4 => drop(tool("e2fsck", &["-fn", text(&device)])),
            Kind::Btrfs => drop(tool("btrfs", &["check", "--readonly", text(&device)])),
            Kind::Xfs => drop(tool("xfs_repair", &["-n", text(&device)])),
            Kind::Exchanging => is_sound_xfs(&device),
        }
    }
}

/// Has all that was written come to the drive, and forgets what memory knows of it.
pub(crate) fn forget_memory(scene: &Scene<'_>) {
    tool("sync", &["-f", text(&scene.point)]);
    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
}
