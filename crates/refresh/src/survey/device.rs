//! Survey of a block device: its mount, and the part of it that is used.

use std::fs::File;
use std::path::Path;

use rustix::fs::OFlags;
use ssdlab_blockdev::block_map::free_space;
use ssdlab_blockdev::place::{layers_below, why_flash_is_hidden};
use ssdlab_blockdev::{DeviceNumber, Mount};
use ssdlab_units::ByteLength;
use ssdlab_units::Region;

use super::{Identity, RewriteMethod, Survey};
use crate::health::Disks;
use crate::rewrite_target::{MountedDevice, RewriteTarget, find_mount, open};
use crate::window::Span;
use crate::{DriveError, io, refused, unsupported};

/// Surveys the block device at `path`, which has this device number.
pub(super) fn of_device(path: &Path, raw: u64) -> Result<Survey, DriveError> {
    let shown = path.display();
    let number = DeviceNumber::from_raw(raw);
    let found = find_mount(path, number)?;
    let mount = found.as_ref().map(|it| &it.mount);
    // On a block device O_EXCL without O_CREAT asks for exclusive use.
    let flags = if mount.is_none() { OFlags::EXCL } else { OFlags::empty() };
    let file = open(path, flags).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => refused(format!(
            "{shown} is in use by something that cannot be frozen here (RAID, LVM, encryption, or \
             partitions that are mounted); refresh what lies on it instead; nothing was changed"
        )),
        Some(libc::EROFS) => unsupported(format!("{shown} is read-only; nothing was changed")),
        Some(libc::EPERM) if mount.is_some() => unsupported(format!(
            "this kernel forbids writes to mounted devices (bdev_allow_write_mounted); unmount \
             {shown} first"
        )),
        _ => io(format!("cannot open {shown} for writing"), error),
    })?;
    let length = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
        .map_err(|error| io(format!("cannot see the size of {shown}"), error))?;
    let mut notes = Vec::new();
    let runs = match &found {
        Some(MountedDevice { mount, .. }) if is_read_only(mount) => {
            return Err(unsupported(format!(
                "{shown} is mounted read-only at {}; nothing was changed",
                mount.point.display()
            )));
        }
        Some(MountedDevice { file_system, .. }) => {
            used_space(&file_system.file, length, &mut notes)
        }
        None => {
            notes.push(
                "It is not mounted, so its free space is not known; blocks of zeros are left out. \
                 An fstrim before unmounting makes free space read as zeros."
                    .to_owned(),
            );
            notes.push(
                "No program may open it for writing until this is done: what it writes meanwhile \
                 could be lost."
                    .to_owned(),
            );
            vec![Span::new(0, length)]
        }
    };
    let file_system = found.as_ref().map(|it| &it.file_system);
    let cannot = |error| io(format!("cannot use {shown}"), error);
    let layers = layers_below(number);
    let rewrite_target =
        RewriteTarget::of_device(path, file.try_clone().map_err(cannot)?, number, file_system)?;
    Ok(Survey {
        path: path.to_owned(),
        identity: Identity { file_system: format!("device {raw:x}"), inode: 0 },
        file,
        length,
        method: if mount.is_some() { RewriteMethod::Frozen } else { RewriteMethod::Alone },
        lies_on: mount.map_or_else(
            || "a block device that nobody else uses".to_owned(),
            |mount| format!("a block device, mounted at {}", mount.point.display()),
        ),
        runs,
        extents: Vec::new(),
        directory: mount.map(|mount| mount.point.clone()),
        disks: Disks::of(&layers),
        hidden_flash: why_flash_is_hidden(&layers),
        notes,
        rewrite_target: Some(rewrite_target),
        block: 4096,
        reserve: 0,
    })
}

/// Returns the parts of a device that its file system uses. All of the device if the file system does not
/// report its free space.
fn used_space(directory: &File, length: u64, notes: &mut Vec<String>) -> Vec<Span> {
    let all = Region { offset: ByteLength::ZERO, length: ByteLength::new(length) };
    let Ok(mut free) = free_space(directory, all) else {
        notes.push(
            "The file system does not report its free space; blocks of zeros are left out."
                .to_owned(),
        );
        return vec![Span::new(0, length)];
    };
    free.sort_by_key(|region| region.offset.bytes());
    let mut used = Vec::new();
    let mut at = 0;
    for region in &free {
        let offset = region.offset.bytes().min(length);
        if offset > at {
            used.push(Span::new(at, offset - at));
        }
        at = at.max(region.end().bytes().min(length));
    }
    if at < length {
        used.push(Span::new(at, length - at));
    }
    let total: u64 = used.iter().map(|it| it.length).sum();
    notes.push(format!("{} of free space are left out.", ByteLength::new(length - total)));
    used
}

/// Returns true if the mount or the whole file system is read-only.
fn is_read_only(mount: &Mount) -> bool {
    mount.options.iter().any(|option| option == "ro")
}
