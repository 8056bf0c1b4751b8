//! Rewrite target: a block device that is rewritten in place, and the proof that nobody else writes to
//! it.
//!
//! A rewrite in place writes back what it has read. A write of somebody else in between would be lost, so
//! the following is proved first: the file system that is frozen is the one on the device that is
//! written, whatever paths and mounts say by now; nothing there is swapped to; and no other program has
//! the device open. What cannot be proved is refused.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use ssdlab_blockdev::writers::Writer;
use ssdlab_blockdev::{DeviceNumber, Mount, find_writer_of, loop_above, mounts, place, related};

use crate::file_system::FileSystem;
use crate::stall::StallContext;
use crate::swap_check::SwapCheck;
use crate::{DriveError, refused, system, unsupported};

/// End of each refusal.
const UNCHANGED: &str = "nothing was changed";

/// A block device that is rewritten in place.
#[derive(Debug)]
pub struct RewriteTarget {
    /// The device, open for direct reads and writes.
    device: File,
    number: DeviceNumber,
    file_system: Option<FreezableFileSystem>,
    /// Device and inode number of the file to rewrite; `None` if all of the device is rewritten.
    file: Option<(u64, u64)>,
}

/// A file system that will be frozen.
#[derive(Debug)]
pub struct FreezableFileSystem {
    /// The file to rewrite, or a directory of the file system.
    pub file: File,
    /// Device number of the file system, as the list of mounts shows it.
    pub super_block: DeviceNumber,
}

/// Mount of a block device, with its file system.
#[derive(Debug)]
pub(crate) struct MountedDevice {
    pub(crate) mount: Mount,
    pub(crate) file_system: FreezableFileSystem,
}

fn cannot(what: String, error: io::Error) -> DriveError {
    DriveError::with_source(crate::ErrorKind::Unsupported, what, error)
}

impl FreezableFileSystem {
    /// Returns the file system of an open file or directory, or `None` if its mount is not known.
    fn of(file: File) -> Option<FreezableFileSystem> {
        let super_block = place::mount_of_file(&file)?.device;
        Some(FreezableFileSystem { file, super_block })
    }

    /// Returns the name of the file system, and the advice for the case that its drive does not answer.
    pub(crate) fn stall_context(&self) -> StallContext {
        let number = self.super_block;
        let device = fs::read_link(format!("/sys/dev/block/{number}")).ok();
        let device = device.and_then(|it| Some(it.file_name()?.to_string_lossy().into_owned()));
        let device = device.unwrap_or_else(|| format!("device {number}"));
        let kind = FileSystem::of(&self.file).ok();
        let name = kind.map_or_else(|| "the file system".to_owned(), FileSystem::name);
        let mut advice =
            "dmesg shows the errors of its drive; the refresh continues when the drive answers or \
             the kernel gives it up (if a mapped device is suspended: dmsetup resume)"
                .to_owned();
        if kind == Some(FileSystem::Xfs) {
            // By default xfs tries to write its metadata again for ever.
            let tries = format!("/sys/fs/xfs/{device}/error/metadata");
            advice.push_str(&format!(
                "; if the drive has failed, make xfs give up: echo 0 | tee {tries}/EIO/max_retries \
                 {tries}/default/max_retries"
            ));
        }
        StallContext { name: format!("{name} on {device}"), advice }
    }

    fn try_clone(&self) -> io::Result<FreezableFileSystem> {
        Ok(FreezableFileSystem { file: self.file.try_clone()?, super_block: self.super_block })
    }
}

impl RewriteTarget {
    /// Returns the device below an open file. Its file system will be frozen.
    ///
    /// # Errors
    /// Returns an error if it cannot be proved that nobody's write is lost.
    pub(crate) fn of_file(path: &Path, file: &File) -> Result<RewriteTarget, DriveError> {
        let shown = path.display();
        let look = |error| cannot(format!("cannot look at {shown}"), error);
        let about = file.metadata().map_err(look)?;
        let number = DeviceNumber::from_raw(about.dev());
        let not_known = || {
            unsupported(format!(
                "the block device below {shown} is not known; unmount its file system and refresh \
                 the device; {UNCHANGED}"
            ))
        };
        let file_system =
            FreezableFileSystem::of(file.try_clone().map_err(look)?).ok_or_else(not_known)?;
        if number.major == 0 || file_system.super_block != number {
            return Err(not_known());
        }
        let layers = place::layers_below(number);
        let below = layers.first().ok_or_else(not_known)?.device().to_owned();
        let device = open(&below, OFlags::empty()).map_err(|error| {
            let what = format!(
                "cannot open {} for writes that bypass the file system; {UNCHANGED}",
                below.display()
            );
            cannot(what, error)
        })?;
        check_device_number(&below, &device, number)?;
        let file = Some((about.dev(), about.ino()));
        let target = RewriteTarget { device, number, file_system: Some(file_system), file };
        target.check_exclusive()?;
        Ok(target)
    }

    /// Returns the target for an open block device, which nobody else uses, or whose file system will be
    /// frozen (`file_system`).
    ///
    /// # Errors
    /// As [`RewriteTarget::of_file`].
    pub(crate) fn of_device(
        path: &Path,
        device: File,
        number: DeviceNumber,
        file_system: Option<&FreezableFileSystem>,
    ) -> Result<RewriteTarget, DriveError> {
        check_device_number(path, &device, number)?;
        let file_system = file_system.map(FreezableFileSystem::try_clone).transpose();
        let file_system = file_system.map_err(|error| {
            cannot(format!("cannot duplicate a file descriptor; {UNCHANGED}"), error)
        })?;
        let target = RewriteTarget { device, number, file_system, file: None };
        target.check_exclusive()?;
        Ok(target)
    }

    /// Returns the device, open for direct reads and writes.
    ///
    /// # Errors
    /// Returns an error if there are no descriptors left.
    pub(crate) fn device(&self) -> io::Result<File> {
        self.device.try_clone()
    }

    /// Returns the file system that will be frozen; `None` if nobody else uses the device.
    pub(crate) fn freezable(&self) -> Option<&FreezableFileSystem> {
        self.file_system.as_ref()
    }

    /// Returns an error if somebody else might write to the device during a rewrite.
    ///
    /// # Errors
    /// The error names who it is, and what to do about it.
    pub(crate) fn check_exclusive(&self) -> Result<(), DriveError> {
        match self.other_writer() {
            None => Ok(()),
            Some(why) => Err(refused(format!("{why}; {UNCHANGED}"))),
        }
    }

    /// Describes who else might write to the device during a rewrite, or `None`.
    pub(crate) fn other_writer(&self) -> Option<String> {
        self.active_swap().or_else(|| self.other_opener())
    }

    /// Describes active swap on the target, or `None`. Costs next to nothing.
    pub(crate) fn active_swap(&self) -> Option<String> {
        // Nobody can swap to a device that is opened exclusively here, because swapon claims the device
        // as well.
        let file_system = self.file_system.as_ref()?;
        match mounts::swaps() {
            Err(error) => Some(format!("cannot read the list of active swap ({error})")),
            Ok(names) => {
                let (device, super_block) = (self.number, file_system.super_block);
                SwapCheck { device, super_block, file: self.file, names: &names }.conflict()
            }
        }
    }

    fn other_opener(&self) -> Option<String> {
        self.find_opener().unwrap_or_else(|error| {
            Some(format!("cannot see who else uses device {} ({error})", self.number))
        })
    }

    fn find_opener(&self) -> io::Result<Option<String>> {
        let is_alone = self.file_system.is_none();
        let devices = related(self.number)?;
        if let Some(name) = loop_above(&devices)? {
            return Ok(Some(format!(
                "/dev/{name} is a loop device on it, and writes to that bypass the refresh; \
                 refresh /dev/{name} instead, or detach it first (losetup --detach)"
            )));
        }
        Ok(match find_writer_of(self.number)? {
            Writer::Nobody => None,
            Writer::Program(words) => Some(format!(
                "{words}, and writes from there during the refresh could be lost; end that first"
            )),
            // A program that writes to the device of a mounted file system harms that file system anyway.
            Writer::NotAllVisible if !is_alone => None,
            Writer::NotAllVisible => Some(
                "not all programs are visible from here (a container?), so one of them may have \
                 the device open; run refresh on the host itself as root, or mount the device \
                 first"
                    .to_owned(),
            ),
        })
    }
}

/// Opens a block device for direct reads and writes.
pub(crate) fn open(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = (OFlags::DIRECT | more).bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Returns an error if `device` is not the block device with that number, whatever its name says.
fn check_device_number(path: &Path, device: &File, number: DeviceNumber) -> Result<(), DriveError> {
    let shown = path.display();
    let about = device
        .metadata()
        .map_err(|error| cannot(format!("cannot look at {shown}; {UNCHANGED}"), error))?;
    let found = DeviceNumber::from_raw(about.rdev());
    if about.file_type().is_block_device() && found == number {
        return Ok(());
    }
    Err(refused(format!(
        "{shown} is device {found}, not the expected block device {number}: device names have \
         changed ('udevadm trigger' corrects those in /dev); {UNCHANGED}"
    )))
}

/// Returns the mount of the block device with that number, or `None` if it is not mounted.
///
/// # Errors
/// Returns an error if the device is mounted, but its file system cannot be reached to be frozen.
pub(crate) fn find_mount(
    path: &Path,
    number: DeviceNumber,
) -> Result<Option<MountedDevice>, DriveError> {
    let mounts = mounts::all()
        .map_err(|error| cannot(format!("cannot read the list of mounts; {UNCHANGED}"), error))?;
    let mut covered = None;
    let mut read_only = None;
    for mount in mounts {
        // btrfs has device numbers of its own, and the name of its source proves nothing.
        let is_btrfs = mount.device.major == 0 && mount.file_system == "btrfs";
        if mount.device != number && !is_btrfs {
            continue;
        }
        match open_mount_point(&mount, number) {
            Some(file_system) if mount.options.iter().any(|it| it == "ro") => {
                read_only.get_or_insert(MountedDevice { mount, file_system });
            }
            Some(file_system) => return Ok(Some(MountedDevice { mount, file_system })),
            None if is_btrfs => {}
            None => covered = covered.or(Some(mount.point)),
        }
    }
    match (read_only, covered) {
        (Some(found), _) => Ok(Some(found)),
        (None, None) => Ok(None),
        (None, Some(point)) => Err(refused(format!(
            "{} is mounted at {}, but another file system is mounted over it there; unmount that \
             one, or refresh its files one by one; {UNCHANGED}",
            path.display(),
            point.display()
        ))),
    }
}

/// Opens the directory of a mount. Returns `None` if that does not lead to the file system on the block
/// device with that number.
fn open_mount_point(mount: &Mount, number: DeviceNumber) -> Option<FreezableFileSystem> {
    let flags = (OFlags::DIRECTORY | OFlags::NONBLOCK).bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(&mount.point).ok()?;
    let file_system = FreezableFileSystem::of(opened)?;
    let lies_there = if mount.device == number {
        let about = file_system.file.metadata().ok()?;
        DeviceNumber::from_raw(about.dev()) == number
    } else {
        btrfs_devices(&file_system.file)?.contains(&number)
    };
    (lies_there && file_system.super_block == mount.device).then_some(file_system)
}

/// Returns the block devices of the btrfs that a directory is on, or `None` if they cannot be found out.
pub(crate) fn btrfs_devices(directory: &File) -> Option<Vec<DeviceNumber>> {
    let id = system::btrfs_id(directory).ok()?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    let devices = PathBuf::from("/sys/fs/btrfs").join(parts.join("-")).join("devices");
    let numbers = fs::read_dir(devices).ok()?.filter_map(|entry| {
        DeviceNumber::parse(&fs::read_to_string(entry.ok()?.path().join("dev")).ok()?)
    });
    Some(numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn another_device_than_the_one_that_is_meant_is_refused() {
        let number = DeviceNumber { major: 253, minor: 3 };
        let null = File::open("/dev/null").unwrap();
        let error = check_device_number(Path::new("/dev/dm-3"), &null, number).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("nothing was changed"), "{error}");
    }

    #[test]
    fn a_mount_point_where_something_else_is_found_is_not_frozen() {
        // The directory there lies on another file system than the mount says.
        let line = b"36 35 253:3 / /dev/shm rw - ext4 /dev/vg/data rw";
        let mount = Mount::parse(line).unwrap();
        assert!(open_mount_point(&mount, DeviceNumber { major: 253, minor: 3 }).is_none());
        let line = b"36 35 0:999 / / rw - btrfs /dev/vg/data rw";
        let mount = Mount::parse(line).unwrap();
        assert!(open_mount_point(&mount, DeviceNumber { major: 253, minor: 3 }).is_none());
    }

    #[test]
    fn a_file_without_a_block_device_has_no_rewrite_target() {
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return };
        let path = directory.path().join("file");
        let file = File::create(&path).unwrap();
        let error = RewriteTarget::of_file(&path, &file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("nothing was changed"), "{error}");
    }
}
