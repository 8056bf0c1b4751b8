//! File operations of Linux and other Unix systems.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use ssdlab_units::ByteLength;

use super::FileSystemSpace;

/// Reads at an offset. Returns the number of bytes read.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Writes at an offset. Returns the number of bytes written.
pub(crate) fn write_at(file: &File, buffer: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(buffer, offset)
}

/// True if the system removes a file of [`create_new`] when it is closed.
pub(crate) const DELETES_ON_CLOSE: bool = false;

/// Creates a file, which must not exist yet, for its owner alone.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file again for another thread; `None`, because all threads can share one.
pub(crate) fn reopen(_: &File) -> io::Result<Option<File>> {
    Ok(None)
}

/// Returns the bytes that a file occupies on its drive.
pub(crate) fn occupied(file: &File) -> io::Result<ByteLength> {
    Ok(ByteLength::new(file.metadata()?.blocks() * 512))
}

/// Returns true if `there`, which was found at some path, belongs to this open file.
pub(crate) fn is_same_file(file: &File, there: &Metadata) -> io::Result<bool> {
    let own = file.metadata()?;
    Ok((there.dev(), there.ino()) == (own.dev(), own.ino()))
}

/// Returns the space of the file system that a file lies on.
pub(crate) fn space(file: &File, _: &Path) -> io::Result<FileSystemSpace> {
    let numbers = rustix::fs::fstatvfs(file)?;
    let of = |blocks: u64| ByteLength::new(blocks * numbers.f_frsize);
    Ok(FileSystemSpace { free: of(numbers.f_bavail), total: of(numbers.f_blocks) })
}

/// Returns words for a file type other than file, directory and block device.
pub(crate) fn describe_kind(kind: FileType) -> &'static str {
    if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "neither a file nor a directory"
    }
}
