//! Loop devices for tests, taken away again, with what was done with them.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Place, is_root, skipped, unmount};

const MIB: usize = 1 << 20;

/// Returns true if a program of the system did what it was asked for.
pub fn did(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A loop device over a file of its own.
pub struct Loop {
    /// Its device file.
    pub device: String,
    /// What it lies on.
    pub backing: PathBuf,
}

impl Loop {
    /// `None`, said aloud, where there is none.
    pub fn new(test: &str, place: &Place, name: &str, mib: usize) -> Option<Loop> {
        if !is_root() {
            skipped(test, "not root, so there are no loop devices");
            return None;
        }
        let backing = place.path(name);
        // Something to lose.
        let bytes: Vec<u8> = (0..mib * MIB).map(|at| (at / 512 % 251) as u8 + 1).collect();
        fs::write(&backing, bytes).unwrap();
        let device = attach(&backing, &["--partscan"]);
        if device.is_none() {
            skipped(test, "no loop device can be set up here");
        }
        Some(Loop { device: device?, backing })
    }

    pub fn digest(&self) -> u64 {
        assert!(did("sync", &[]));
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(&self.backing).unwrap());
        hasher.finish()
    }
}

pub fn attach(backing: &Path, options: &[&str]) -> Option<String> {
    let mut command = Command::new("losetup");
    let command = command.args(["--find", "--show"]).args(options).arg(backing);
    let output = command.stderr(Stdio::null()).output().ok()?;
    let device = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    output.status.success().then_some(device)
}

fn detach(device: &str) {
    assert!(did("losetup", &["--detach", device]), "{device} stays attached");
}

impl Drop for Loop {
    fn drop(&mut self) {
        detach(&self.device);
    }
}

/// A loop device over another.
pub struct Above(pub String);

impl Drop for Above {
    fn drop(&mut self) {
        detach(&self.0);
    }
}

/// What is mounted there, which is unmounted before the device goes.
pub struct MountedAt<'a>(pub &'a str);

impl Drop for MountedAt<'_> {
    fn drop(&mut self) {
        assert!(unmount(self.0), "{} stays mounted", self.0);
    }
}

/// A device that is swapped to, which ends before the device goes.
pub struct SwapOn<'a>(pub &'a str);

impl Drop for SwapOn<'_> {
    fn drop(&mut self) {
        assert!(did("swapoff", &[self.0]), "{} stays swap space", self.0);
    }
}

/// The first partition of a loop device.
pub struct PartOf<'a>(pub &'a str);

impl Drop for PartOf<'_> {
    fn drop(&mut self) {
        assert!(did("delpart", &[self.0, "1"]), "the partition of {} stays", self.0);
    }
}
