//! An open file or block device that requests are sent to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::ByteLength;

use super::os;
use super::phase_runner::Request;
use super::synchronous::Transfer;

/// Target of requests.
pub(super) struct Handle {
    pub(super) file: File,
    /// Name of the target in error messages.
    pub(super) shown: PathBuf,
    /// Words before that name in messages about a place in the target.
    place: &'static str,
}

/// Access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Direct I/O, in multiples of the alignment.
    Direct { alignment: ByteLength },
    /// Through the page cache.
    Buffered,
}

impl Handle {
    /// Returns a handle of a file that was created in, or as, `shown`.
    pub(super) fn of_file(file: File, shown: &Path) -> Handle {
        Handle { file, shown: shown.to_owned(), place: "of the file in " }
    }

    /// Returns a handle of a block device.
    pub(super) fn of_device(file: File, shown: &Path) -> Handle {
        Handle { file, shown: shown.to_owned(), place: "of " }
    }

    /// Opens the same file again for requests of another thread; `None` if all threads can share this
    /// handle.
    ///
    /// # Errors
    /// Returns an error if the system does not open the file again.
    pub(super) fn reopen(&self) -> Result<Option<Handle>, DriveError> {
        let opened = os::reopen(&self.file).map_err(|error| {
            io_error(format!("cannot open {} again", self.shown.display()), error)
        })?;
        Ok(opened.map(|file| Handle { file, shown: self.shown.clone(), place: self.place }))
    }

    /// Flushes: makes all completed writes durable.
    pub(super) fn sync_data(&self) -> Result<(), DriveError> {
        (self.file.sync_data())
            .map_err(|error| io_error(format!("flush of {}", self.shown.display()), error))
    }

    /// Writes all of `buffer` and waits until the data would survive a power cut: the kernel uses force
    /// unit access (FUA), or writes and flushes if the drive has none.
    #[cfg(target_os = "linux")]
    pub(super) fn write_through(&self, buffer: &[u8], offset: ByteLength) -> io::Result<()> {
        use rustix::io::{Errno, ReadWriteFlags, pwritev2};

        let piece = [io::IoSlice::new(buffer)];
        loop {
            match pwritev2(&self.file, &piece, offset.bytes(), ReadWriteFlags::DSYNC) {
                Ok(length) if length == buffer.len() => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes all of `buffer` and waits until the data would survive a power cut; only Linux supports
    /// that.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn write_through(&self, _: &[u8], _: ByteLength) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the error for a transfer that failed or stopped short.
    pub(super) fn transfer_error(
        &self,
        request: &Request,
        length: usize,
        outcome: io::Result<usize>,
    ) -> DriveError {
        let what = format!(
            "{} of {} at byte {} {}{}",
            if request.is_read { "read" } else { "write" },
            ByteLength::new(length as u64),
            request.offset.bytes(),
            self.place,
            self.shown.display()
        );
        match outcome {
            Ok(short) => {
                DriveError::new(ErrorKind::Io, format!("{what} stopped after {short} bytes"))
            }
            Err(error) => io_error(what, error),
        }
    }
}

impl Transfer for &Handle {
    fn transfer(&mut self, request: &Request, buffer: &mut [u8]) -> Result<(), DriveError> {
        let offset = request.offset.bytes();
        loop {
            let done = if request.is_read {
                os::read_at(&self.file, buffer, offset)
            } else {
                os::write_at(&self.file, buffer, offset)
            };
            match done {
                Ok(length) if length == buffer.len() => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return Err(self.transfer_error(request, buffer.len(), outcome)),
            }
        }
    }
}

/// Returns an error of the system, with a kind by which the user can act.
pub(super) fn io_error(what: String, error: io::Error) -> DriveError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    DriveError::with_source(kind, what, error)
}

/// Returns alignments with which direct I/O may work, the smallest first; none if the file system reports
/// that it does not support direct I/O.
#[cfg(target_os = "linux")]
pub(super) fn alignments_to_try(file: &File) -> Vec<ByteLength> {
    use rustix::fs::{AtFlags, StatxFlags, statx};

    let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|facts| facts.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    match told {
        Some(facts) if facts.stx_dio_offset_align == 0 => Vec::new(),
        Some(facts) => {
            let alignment = facts.stx_dio_offset_align.max(facts.stx_dio_mem_align);
            vec![ByteLength::new(u64::from(alignment.max(512)))]
        }
        None => vec![ByteLength::new(512), ByteLength::new(4096)],
    }
}

#[cfg(windows)]
pub(super) fn alignments_to_try(_: &File) -> Vec<ByteLength> {
    vec![ByteLength::new(512), ByteLength::new(4096)]
}

#[cfg(not(any(target_os = "linux", windows)))]
pub(super) fn alignments_to_try(_: &File) -> Vec<ByteLength> {
    Vec::new()
}

/// Enables direct I/O on an open file, however the file was created.
#[cfg(target_os = "linux")]
pub(super) fn set_direct(file: &File) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    Ok(fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT)?)
}

#[cfg(target_os = "linux")]
pub(super) fn clear_direct(file: &File) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    Ok(fcntl_setfl(file, fcntl_getfl(file)? - OFlags::DIRECT)?)
}

/// Does nothing: on Windows a file is created for unbuffered I/O.
#[cfg(windows)]
pub(super) fn set_direct(_: &File) -> io::Result<()> {
    Ok(())
}

/// Returns an error: a file that was created for unbuffered I/O cannot be changed.
#[cfg(windows)]
pub(super) fn clear_direct(_: &File) -> io::Result<()> {
    let why = "the file system supports direct I/O neither in blocks of 512 nor of 4096 bytes";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

#[cfg(not(any(target_os = "linux", windows)))]
pub(super) fn set_direct(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(any(target_os = "linux", windows)))]
pub(super) fn clear_direct(_: &File) -> io::Result<()> {
    Ok(())
}
