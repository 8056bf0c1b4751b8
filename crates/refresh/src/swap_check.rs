//! Finds active swap on the rewrite target: the kernel writes to swap past the file system, so a freeze
//! does not stop that.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ssdlab_blockdev::{DeviceNumber, place};

/// The rewrite target and the active swap of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwapCheck<'a> {
    /// The block device.
    pub(crate) device: DeviceNumber,
    /// Device number of the file system on it, as the list of mounts shows it.
    pub(crate) super_block: DeviceNumber,
    /// Device and inode number of the file to rewrite; `None` if all of the device is rewritten.
    pub(crate) file: Option<(u64, u64)>,
    /// Active swap devices and files.
    pub(crate) names: &'a [PathBuf],
}

impl SwapCheck<'_> {
    /// Describes active swap on the target, or `None`.
    pub(crate) fn conflict(&self) -> Option<String> {
        self.names.iter().find_map(|name| {
            let shown = name.display();
            let lies_there = self.conflict_of(name).unwrap_or_else(|error| {
                Some(format!("{shown} is active swap and cannot be examined ({error})"))
            });
            lies_there.map(|what| format!("{what}; swapoff {shown} first"))
        })
    }

    fn conflict_of(&self, name: &Path) -> io::Result<Option<String>> {
        let found = fs::metadata(name)?;
        let shown = name.display();
        if found.file_type().is_block_device() {
            let is_it = DeviceNumber::from_raw(found.rdev()) == self.device;
            return Ok(is_it.then(|| format!("{shown} is in use as swap")));
        }
        let is_it = match self.file {
            Some(file) => file == (found.dev(), found.ino()),
            None => {
                let mount = place::mount_of_file(&File::open(name)?);
                let mount = mount.ok_or_else(|| io::Error::other("its mount is not known"))?;
                mount.device == self.super_block
            }
        };
        Ok(is_it.then(|| {
            format!(
                "{shown} lies there and is in use as swap, which the kernel writes without the \
                 file system"
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_file_on_it_is_found_and_so_is_one_that_cannot_be_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("swapfile");
        let file = File::create(&path).unwrap();
        let about = file.metadata().unwrap();
        let super_block = place::mount_of_file(&file).unwrap().device;
        let other = DeviceNumber { major: 4095, minor: 1 };
        let names = [path.clone()];
        let conflict = |super_block, file, names: &[PathBuf]| {
            SwapCheck { device: other, super_block, file, names }.conflict()
        };
        assert!(conflict(super_block, None, &names).unwrap().contains("lies there"));
        assert_eq!(conflict(other, None, &names), None);
        // If a file is rewritten, only swap on that file counts.
        assert_eq!(conflict(super_block, Some((about.dev(), 0)), &names), None);
        assert!(conflict(super_block, Some((about.dev(), about.ino())), &names).is_some());
        let gone = [directory.path().join("gone")];
        assert!(conflict(other, None, &gone).unwrap().contains("cannot be examined"));
    }
}
