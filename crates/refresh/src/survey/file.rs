//! Survey of a file: its place, and the method by which it can be rewritten.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use ssdlab_blockdev::place::{Layer, Place, layers_below, why_flash_is_hidden};
use ssdlab_blockdev::writers::Writer;

use super::obstacle::{FLAG_JOURNAL_DATA, refuse_extents, refuse_flags, refuse_swap};
use super::{Consents, Identity, RewriteMethod, Survey};
use crate::baseline::reserve_of;
use crate::extents::{self, WriteBack, data_runs};
use crate::file_system::FileSystem;
use crate::health::Disks;
use crate::maps::FileMappings;
use crate::rewrite_target::{RewriteTarget, btrfs_devices};
use crate::window::Span;
use crate::{DriveError, ErrorKind, io, refused, system, unsupported};

/// Surveys the file at `path`.
pub(super) fn of_file(path: &Path, consents: Consents) -> Result<Survey, DriveError> {
    let shown = path.display();
    let cannot = |error| io(format!("cannot open {shown}"), error);
    let to_read = File::open(path).map_err(cannot)?;
    let file_system = FileSystem::of(&to_read)?;
    if let Some(why) = file_system.obstacle() {
        return Err(unsupported(format!("{shown} {why}; nothing was changed")));
    }
    let about = rustix::fs::fstatvfs(&to_read)
        .map_err(|error| io("cannot examine the file system", error))?;
    if about.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(unsupported(format!(
            "{shown} lies on a file system that is mounted read-only; nothing was changed"
        )));
    }
    refuse_swap(path, &to_read)?;
    let flags = system::flags(&to_read).unwrap_or(0);
    refuse_flags(path, flags)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| cannot_write(path, error))?;
    let found = file.metadata().map_err(cannot)?;
    let length = found.len();
    if length == 0 {
        return Err(DriveError::new(ErrorKind::Usage, format!("{shown} is empty")));
    }
    let extents = extents::of(&file, Span::new(0, length), WriteBack::First).map_err(|error| {
        let what = format!("{} does not report the extents of {shown}", file_system.name());
        DriveError::with_source(ErrorKind::Unsupported, what, error)
    })?;
    let (method, why) = choose_method(path, &file, file_system, flags, consents)?;
    let mut notes = refuse_extents(path, &extents, length, method, consents)?;
    notes.extend(why);
    let block = about.f_frsize.max(512);
    let rewrite_target = (method == RewriteMethod::Frozen)
        .then(|| RewriteTarget::of_file(path, &file))
        .transpose()?;
    let place = Place::of(path).ok();
    let directory = parent_directory(path, found.dev()).map_err(cannot)?;
    if directory.is_none() && !matches!(method, RewriteMethod::Frozen | RewriteMethod::Defragment) {
        return Err(unsupported(format!(
            "{shown} is mounted by itself (a bind mount), and moving data needs a temporary file \
             beside it; name it by its path on its own file system; nothing was changed"
        )));
    }
    let layers = layers_of(&file, file_system, place.as_ref());
    let total = about.f_blocks * about.f_frsize;
    Ok(Survey {
        path: path.to_owned(),
        identity: Identity { file_system: file_system_id(&file)?, inode: found.ino() },
        disks: Disks::of(&layers),
        hidden_flash: why_flash_is_hidden(&layers),
        file,
        length,
        method,
        lies_on: place.as_ref().map_or_else(
            || file_system.name(),
            |place| {
                let layers: Vec<String> = place.layers().iter().map(|it| it.words()).collect();
                format!("{} on {}", place.file_system(), layers.join(", "))
            },
        ),
        runs: data_runs(&extents, length),
        extents,
        directory,
        notes,
        rewrite_target,
        block,
        reserve: reserve_of(total),
    })
}

/// Returns the directory of a file; `None` if that lies on another file system, as with a file that is
/// mounted by itself.
fn parent_directory(path: &Path, file_system: u64) -> std::io::Result<Option<PathBuf>> {
    let path = fs::canonicalize(path)?;
    let Some(directory) = path.parent() else { return Ok(None) };
    let is_same = fs::metadata(directory)?.dev() == file_system;
    Ok(is_same.then(|| directory.to_owned()))
}

/// Returns the layers below a file. A mount of btrfs names only one of its devices, so those of a btrfs
/// are asked for.
fn layers_of(file: &File, file_system: FileSystem, place: Option<&Place>) -> Vec<Layer> {
    let members = (file_system == FileSystem::Btrfs).then(|| btrfs_devices(file)).flatten();
    match (members, place) {
        (Some(numbers), _) => numbers.into_iter().flat_map(layers_below).collect(),
        (None, Some(place)) => place.layers().to_vec(),
        (None, None) => Vec::new(),
    }
}

/// Returns the identifier of the file system of a file.
fn file_system_id(file: &File) -> Result<String, DriveError> {
    let about =
        rustix::fs::fstatvfs(file).map_err(|error| io("cannot examine the file system", error))?;
    Ok(format!("{:x}", about.f_fsid))
}

fn cannot_write(path: &Path, error: std::io::Error) -> DriveError {
    let shown = path.display();
    match error.raw_os_error() {
        Some(libc::ETXTBSY) => {
            refused(format!("{shown} is a running program, or swap; nothing was changed"))
        }
        Some(libc::EROFS) => unsupported(format!(
            "{shown} lies on a file system that is mounted read-only; nothing was changed"
        )),
        _ => io(format!("cannot open {shown} for writing"), error),
    }
}

/// Returns the method by which a file can be rewritten, and a reason for the user if xfs could have had a
/// better one.
fn choose_method(
    path: &Path,
    file: &File,
    file_system: FileSystem,
    flags: u32,
    consents: Consents,
) -> Result<(RewriteMethod, Option<String>), DriveError> {
    let method = match file_system {
        FileSystem::Btrfs if consents.frozen => {
            return Err(unsupported(format!(
                "{} lies on btrfs, which does not report its place on the device; leave --frozen \
                 out",
                path.display()
            )));
        }
        FileSystem::Btrfs => RewriteMethod::Defragment,
        _ if consents.frozen => RewriteMethod::Frozen,
        FileSystem::Ext4 if flags & FLAG_JOURNAL_DATA != 0 => RewriteMethod::Frozen,
        FileSystem::Ext4 => RewriteMethod::MoveExtents,
        FileSystem::Xfs => {
            return Ok(match why_xfs_does_not_exchange(path, file)? {
                None => (RewriteMethod::CommitRange, None),
                Some(why) => (
                    RewriteMethod::Frozen,
                    Some(format!("{why}, so the file system is frozen for moments instead.")),
                ),
            });
        }
        _ => RewriteMethod::Frozen,
    };
    Ok((method, None))
}

/// Returns the reason why xfs cannot exchange ranges of this file, or `None`.
fn why_xfs_does_not_exchange(path: &Path, file: &File) -> Result<Option<String>, DriveError> {
    if !matches!(system::xfs_exchanges_ranges(file), Ok(true)) {
        return Ok(Some(
            "This xfs cannot exchange ranges of files (mkfs.xfs -i exchange=1 makes one that can)"
                .to_owned(),
        ));
    }
    if system::start_commit(file).is_err() {
        return Ok(Some(
            "This kernel cannot exchange ranges of files that others write to (Linux 6.13 can)"
                .to_owned(),
        ));
    }
    let cannot = |error| io("cannot find the programs that have the file mapped", error);
    match FileMappings::of(file).map_err(cannot)?.find_writer().map_err(cannot)? {
        Writer::Nobody => Ok(None),
        Writer::Program(words) => Ok(Some(format!(
            "{words}, and xfs notices its stores too late when it exchanges ranges"
        ))),
        Writer::NotAllVisible => Err(unsupported(format!(
            "not all programs are visible from here (without root, or in a container), so one of \
             them may have {} mapped, and its stores could be lost; run refresh as root on the \
             host itself, or with --frozen; nothing was changed",
            path.display()
        ))),
    }
}
