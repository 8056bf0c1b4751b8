//! File operations that differ between operating systems.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::File;
use std::io;

#[cfg(unix)]
pub(super) use self::unix::{
    DELETES_ON_CLOSE, create_new, describe_kind, is_same_file, occupied, read_at, reopen, space,
    write_at,
};
#[cfg(windows)]
pub(super) use self::windows::{
    DELETES_ON_CLOSE, create_new, describe_kind, is_same_file, occupied, read_at, reopen, space,
    write_at,
};

use ssdlab_units::ByteLength;

/// Space of a file system.
pub(super) struct FileSystemSpace {
    /// Bytes that this user may still write.
    pub(super) free: ByteLength,
    /// Bytes in total.
    pub(super) total: ByteLength,
}

/// Reads at an offset until `buffer` is full.
pub(super) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match read_at(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                buffer = &mut buffer[length..];
                offset += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `buffer` at an offset.
pub(super) fn write_all_at(file: &File, mut buffer: &[u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match write_at(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                buffer = &buffer[length..];
                offset += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
