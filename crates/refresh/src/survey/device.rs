//! A block device: whether it is mounted, and what of it is used.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use ssdlab_drive::phase::Region;
use ssdlab_drive::real::block_map::free_space;
use ssdlab_drive::real::{DeviceNumber, Mount, mounts};
use ssdlab_model::units::ByteLength;

use super::obstacle::refuse_swap;
use super::{Identity, Survey, Way};
use crate::window::Span;
use crate::{DriveError, io, refused, unsupported};

/// Looks at the block device at `path`, which has this number.
pub(super) fn of_device(path: &Path, number: u64) -> Result<Survey, DriveError> {
    let shown = path.display();
    let to_read = File::open(path).map_err(|error| io(format!("cannot open {shown}"), error))?;
    refuse_swap(path, &to_read)?;
    let mount = mount_of(number);
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let mut flags = OFlags::DIRECT;
    if mount.is_none() {
        // On a block device O_EXCL without O_CREAT asks for exclusive use.
        flags |= OFlags::EXCL;
    }
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => refused(format!(
            "{shown} is in use by something that cannot be frozen here (RAID, LVM, encryption, or \
             partitions that are mounted); refresh what lies on it instead; nothing was changed"
        )),
        Some(libc::EROFS) => unsupported(format!("{shown} is read-only; nothing was changed")),
        Some(libc::EPERM) if mount.is_some() => unsupported(format!(
            "this kernel does not let a mounted device be written to (bdev_allow_write_mounted); \
             unmount {shown}"
        )),
        _ => io(format!("cannot open {shown} for writing"), error),
    })?;
    let length = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
        .map_err(|error| io(format!("cannot see the size of {shown}"), error))?;
    let mut notes = Vec::new();
    let runs = match &mount {
        Some(mount) if is_read_only(mount) => {
            return Err(unsupported(format!(
                "{shown} is mounted read-only at {}; nothing was changed",
                mount.point.display()
            )));
        }
        Some(mount) => used_space(&mount.point, length, &mut notes),
        None => {
            notes.push(
                "It is not mounted, so nothing tells what of it is free; blocks of zeros are left \
                 out. fstrim before that has free space read as zeros."
                    .to_owned(),
            );
            vec![Span::new(0, length)]
        }
    };
    Ok(Survey {
        path: path.to_owned(),
        identity: Identity { file_system: format!("device {number:x}"), inode: 0 },
        file,
        length,
        way: if mount.is_some() { Way::Frozen } else { Way::Alone },
        lies_on: mount.as_ref().map_or_else(
            || "a block device that nobody else uses".to_owned(),
            |mount| format!("a block device, mounted at {}", mount.point.display()),
        ),
        runs,
        extents: Vec::new(),
        directory: mount.map(|mount| mount.point),
        device: Some(path.to_owned()),
        notes,
        block: 4096,
        reserve: 0,
    })
}

/// What of a device its file system uses.
fn used_space(point: &Path, length: u64, notes: &mut Vec<String>) -> Vec<Span> {
    let all = Region { offset: ByteLength::ZERO, length: ByteLength::new(length) };
    let free = File::open(point).and_then(|directory| free_space(&directory, all));
    let Ok(mut free) = free else {
        notes.push(
            "The file system does not say what is free; blocks of zeros are left out.".to_owned(),
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

/// Where the device of that number itself is mounted. Its source is looked at as well, since btrfs
/// has numbers of its own.
fn mount_of(number: u64) -> Option<Mount> {
    let wanted = DeviceNumber::from_raw(number);
    mounts::all().unwrap_or_default().into_iter().find(|mount| {
        let source = || fs::metadata(&mount.source);
        let is_it = |it: fs::Metadata| it.file_type().is_block_device() && it.rdev() == number;
        mount.device == wanted || source().is_ok_and(is_it)
    })
}

/// Whether nothing can be written there: the mount or the whole file system is read-only.
fn is_read_only(mount: &Mount) -> bool {
    mount.options.iter().any(|option| option == "ro")
}
