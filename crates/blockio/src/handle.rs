//! An open file or block device that requests go to, however it was come by.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::ByteLength;

use super::course::Request;
use super::os;
use super::synchronous::Transfer;

/// What requests are sent to.
pub(super) struct Handle {
    pub(super) file: File,
    /// What errors call it.
    pub(super) shown: PathBuf,
    /// What comes before that name where a place in it is meant.
    place: &'static str,
}

/// How the file is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Past the page cache, in multiples of the alignment.
    Direct { alignment: ByteLength },
    /// Through the page cache.
    Buffered,
}

impl Handle {
    /// A file that was created in, or as, `shown`.
    pub(super) fn of_file(file: File, shown: &Path) -> Handle {
        Handle { file, shown: shown.to_owned(), place: "of the file in " }
    }

    /// A block device.
    pub(super) fn of_device(file: File, shown: &Path) -> Handle {
        Handle { file, shown: shown.to_owned(), place: "of " }
    }

    /// Returns the same file for one more thread to send requests to; nothing where all threads can share this one.
    ///
    /// # Errors
    /// When the system does not open it again.
    pub(super) fn for_another_thread(&self) -> Result<Option<Handle>, DriveError> {
        let opened = os::opened_anew(&self.file).map_err(|error| {
            io_error(format!("cannot open {} again", self.shown.display()), error)
        })?;
        Ok(opened.map(|file| Handle { file, shown: self.shown.clone(), place: self.place }))
    }

    /// Makes what was written durable.
    pub(super) fn sync_data(&self) -> Result<(), DriveError> {
        (self.file.sync_data())
            .map_err(|error| io_error(format!("flush of {}", self.shown.display()), error))
    }

    /// Writes all of `buffer` and waits until it would survive a power cut: the kernel asks for
    /// force unit access, or writes and flushes where the drive has none.
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

    /// Writes all of `buffer` and waits until it would survive a power cut; only Linux can.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn write_through(&self, _: &[u8], _: ByteLength) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns what a transfer that failed, or stopped short, is reported as.
    pub(super) fn transfer_error(
        &self,
        request: &Request,
        length: usize,
        outcome: io::Result<usize>,
    ) -> DriveError {
        let what = format!(
            "{} of {} at byte {} {}{}",
            if request.read { "read" } else { "write" },
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
            let done = if request.read {
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

/// An error of the system, sorted by what can be done about it.
pub(super) fn io_error(what: String, error: io::Error) -> DriveError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    DriveError::with_source(kind, what, error)
}

/// Alignments with which direct I/O may work, the smallest first; none where the file system
/// says that it does not do it.
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

/// Asks for direct I/O on an open file, so that every way of creating one can have it.
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

/// Does nothing: a file is created so.
#[cfg(windows)]
pub(super) fn set_direct(_: &File) -> io::Result<()> {
    Ok(())
}

/// Fails: a file that was created so stays so.
#[cfg(windows)]
pub(super) fn clear_direct(_: &File) -> io::Result<()> {
    let why = "the file system takes neither blocks of 512 nor of 4096 bytes past the cache";
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
