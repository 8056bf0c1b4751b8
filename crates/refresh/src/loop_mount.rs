//! A temporary file system for a test, on a loop device.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::system;

/// A mounted file system on a loop device. Dropping it unmounts the file system and deletes its image.
pub(crate) struct LoopMount {
    directory: TempDir,
}

/// Runs a tool. Returns true if it succeeded.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

impl LoopMount {
    /// Makes and mounts a file system of this kind; `None`, with a message that the test is skipped, if
    /// there cannot be one.
    pub(crate) fn new(kind: &str, test: &str) -> Option<LoopMount> {
        let made = LoopMount::try_new(kind);
        if made.is_none() {
            let why = format!("needs root, loop devices and mkfs.{kind}");
            let _ = writeln!(std::io::stderr(), "\nSKIPPED: {test}: {why}");
        }
        made
    }

    fn try_new(kind: &str) -> Option<LoopMount> {
        let directory = tempfile::tempdir_in("/dev/shm").ok()?;
        let mounted = LoopMount { directory };
        let (image, point) = (mounted.beside("image"), mounted.point());
        File::create(&image).ok()?.set_len(128 << 20).ok()?;
        std::fs::create_dir(&point).ok()?;
        let image = image.to_str()?;
        let options =
            if kind == "ext4" { &["-q", "-b", "4096", image][..] } else { &["-q", image] };
        let is_there = succeeds(&format!("mkfs.{kind}"), options)
            && succeeds("mount", &["-o", "loop", image, point.to_str()?]);
        is_there.then_some(mounted)
    }

    /// Returns the mount point.
    pub(crate) fn point(&self) -> PathBuf {
        self.beside("point")
    }

    /// Returns a path beside the mount point, which is removed together with the file system.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        let point = self.point();
        let point = point.to_str().unwrap();
        let is_mounted =
            || std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|all| all.contains(point));
        // A child that has just thawed the file system may still be running.
        for _ in 0..50 {
            if !is_mounted() || succeeds("umount", &[point]) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = writeln!(std::io::stderr(), "\n{point} stays mounted");
    }
}

/// A file system whose image lies on another one, which is frozen, so that requests hang as on a drive
/// that does not answer.
pub(crate) struct HungFileSystem {
    // In this order: the upper file system cannot be unmounted before the lower one is thawed.
    lower: File,
    pub(crate) point: PathBuf,
    _mounted: LoopMount,
}

impl HungFileSystem {
    pub(crate) fn new(test: &str) -> Option<HungFileSystem> {
        let mounted = LoopMount::new("ext4", test)?;
        let (image, point) = (mounted.point().join("image"), mounted.beside("upper"));
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        std::fs::create_dir(&point).unwrap();
        let (image, at) = (image.to_str().unwrap(), point.to_str().unwrap());
        assert!(succeeds("mkfs.ext4", &["-q", image]));
        assert!(succeeds("mount", &["-o", "loop", image, at]));
        std::fs::write(point.join("dirty"), vec![7; 1 << 20]).unwrap();
        let lower = File::open(mounted.point()).unwrap();
        system::freeze(lower.as_raw_fd()).unwrap();
        Some(HungFileSystem { lower, point, _mounted: mounted })
    }

    /// Thaws the lower file system, like a drive that answers again.
    pub(crate) fn recover(&self) {
        let _ = system::thaw(self.lower.as_raw_fd());
    }
}

impl Drop for HungFileSystem {
    fn drop(&mut self) {
        self.recover();
        succeeds("umount", &[self.point.to_str().unwrap()]);
    }
}
