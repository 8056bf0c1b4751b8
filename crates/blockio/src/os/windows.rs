//! File operations of Windows.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle};
use std::path::Path;

use ssdlab_units::ByteLength;
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_NO_BUFFERING, FILE_SHARE_DELETE, FILE_SHARE_READ,
    FILE_SHARE_WRITE, GetDiskFreeSpaceExW, ReOpenFile,
};

use super::FileSystemSpace;

/// Access that others have to the file of a run: its own threads open it, too.
const SHARED: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// Reads at an offset. Returns the number of bytes read.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Writes at an offset. Returns the number of bytes written.
pub(crate) fn write_at(file: &File, buffer: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(buffer, offset)
}

/// True if the system removes a file of [`create_new`] when it is closed. The file must keep its name
/// until then: a file that is about to be deleted cannot be opened again.
pub(crate) const DELETES_ON_CLOSE: bool = true;

/// Creates a file, which must not exist yet. Its I/O bypasses the system's cache, and the system removes
/// the file when it is closed, for whatever reason.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .share_mode(SHARED)
        .custom_flags(FILE_FLAG_NO_BUFFERING | FILE_FLAG_DELETE_ON_CLOSE)
        .open(path)
}

/// Opens a file again for another thread: on a file that is opened once, the system executes one request
/// at a time.
pub(crate) fn reopen(file: &File) -> io::Result<Option<File>> {
    let access = GENERIC_READ | GENERIC_WRITE;
    // SAFETY: the handle is open as long as `file` is borrowed.
    let handle =
        unsafe { ReOpenFile(file.as_raw_handle(), access, SHARED, FILE_FLAG_NO_BUFFERING) };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just opened, and nobody else has it.
    Ok(Some(unsafe { File::from_raw_handle(handle) }))
}

/// Returns the bytes that a file occupies on its drive: its length, since a run writes all of it.
pub(crate) fn occupied(file: &File) -> io::Result<ByteLength> {
    Ok(ByteLength::new(file.metadata()?.len()))
}

/// Returns true: nobody can replace a file that is open.
pub(crate) fn is_same_file(_: &File, _: &Metadata) -> io::Result<bool> {
    Ok(true)
}

/// Returns the space of the file system that a file at `path` lies on.
pub(crate) fn space(_: &File, path: &Path) -> io::Result<FileSystemSpace> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let name: Vec<u16> = directory.as_os_str().encode_wide().chain([0]).collect();
    let (mut free, mut total) = (0, 0);
    // SAFETY: the name ends with a zero, and both numbers outlive the call.
    let outcome = unsafe {
        GetDiskFreeSpaceExW(name.as_ptr(), &raw mut free, &raw mut total, std::ptr::null_mut())
    };
    if outcome == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(FileSystemSpace { free: ByteLength::new(free), total: ByteLength::new(total) })
}

/// Returns words for a file type other than file and directory.
pub(crate) fn describe_kind(_: FileType) -> &'static str {
    "neither a file nor a directory"
}
