//! The storage of an image: bytes of a fixed length, with holes, that can be made durable.
//!
//! The image is written through this trait only. On the host it is a file; a test puts memory in its place, and
//! then knows each state that a crash of the host may leave.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom, fallocate, flock, seek};
use rustix::io::Errno;

/// Bytes in which an image is stored.
///
/// Offsets and lengths are in bytes. Any number of threads calls at the same time. A write or punch that has
/// returned is seen by every read that begins later; it survives a crash of the host for certain only after a
/// [`Storage::sync`] that began later has returned. Until then any part of it may, whatever came after it.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Reads from `at` into `data`; returns the number of bytes read, 0 only at the end of the storage.
    ///
    /// # Errors
    /// Returns an error if the storage cannot be read there.
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes from the beginning of `data` to `at`; returns the number of bytes written.
    ///
    /// # Errors
    /// Returns an error if nothing could be written.
    fn write(&self, data: &[u8], at: u64) -> io::Result<usize>;

    /// Makes `length` bytes from `at` read as zeros, and frees their space if it can.
    ///
    /// # Errors
    /// Returns an error if the storage fails; some of the bytes may be zeros then.
    fn punch(&self, at: u64, length: u64) -> io::Result<()>;

    /// Makes all writes and punches before the call durable.
    ///
    /// # Errors
    /// Returns an error if some of them may not be durable. The next call may succeed without having made them
    /// durable.
    fn sync(&self) -> io::Result<()>;

    /// Returns the length of the storage, which does not change while an image is open.
    ///
    /// # Errors
    /// Returns an error if the length cannot be read.
    fn length(&self) -> io::Result<u64>;

    /// Returns the first stretch at or behind `at` that may hold other bytes than zeros: from its beginning or
    /// `at` to the next hole. `None` if all the rest is a hole. A storage that does not know its holes returns
    /// everything from `at` on.
    ///
    /// # Errors
    /// Returns an error if the storage cannot be searched.
    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>>;

    /// Returns the file that holds the bytes, for reading without a copy (`mmap`, `splice`); `None` if there is
    /// none.
    fn file(&self) -> Option<&File> {
        None
    }
}

/// A file that this process has locked. Dropping it unlocks it. Closing alone would not, while a child process
/// that is being started has a copy of the descriptor.
#[derive(Debug)]
pub(super) struct LockedFile(pub(super) File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // It fails only for an invalid descriptor.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Storage for LockedFile {
    #[inline]
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        Storage::read(&self.0, data, at)
    }

    #[inline]
    fn write(&self, data: &[u8], at: u64) -> io::Result<usize> {
        Storage::write(&self.0, data, at)
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        self.0.punch(at, length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.0.next_data(at)
    }

    fn file(&self) -> Option<&File> {
        self.0.file()
    }
}

impl Storage for File {
    #[inline]
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        self.read_at(data, at)
    }

    #[inline]
    fn write(&self, data: &[u8], at: u64) -> io::Result<usize> {
        self.write_at(data, at)
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(self, flags, at, length) {
            // The file system has no holes.
            Err(Errno::OPNOTSUPP) => write_zeros(self, at, length),
            outcome => Ok(outcome?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let from = match seek(self, SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(Errno::NXIO) => return Ok(None),
            // The file system cannot report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let until = match seek(self, SeekFrom::Hole(from)) {
            Ok(until) => until,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Storage::length(self)?,
            Err(error) => return Err(error.into()),
        };
        Ok((from < until).then_some(from..until))
    }

    fn file(&self) -> Option<&File> {
        Some(self)
    }
}

fn write_zeros(file: &File, from: u64, length: u64) -> io::Result<()> {
    let zeros = vec![0; length.min(1 << 20) as usize];
    let mut at = from;
    while at < from + length {
        let count = (from + length - at).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_written_where_a_file_has_no_holes() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&[7; 3 << 20], 0).expect("room");
        write_zeros(&file, 5, (2 << 20) + 7).expect("room");
        let mut bytes = vec![1; 3 << 20];
        file.read_exact_at(&mut bytes, 0).expect("it was written");
        let zeros = 5..(2 << 20) + 12;
        let is_right = |(at, &byte)| byte == if zeros.contains(&at) { 0 } else { 7 };
        assert!(bytes.iter().enumerate().all(is_right));
    }

    #[test]
    fn what_is_punched_reads_as_zeros_and_is_no_data() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(8 << 20).expect("a sparse file");
        file.write_all_at(&[7; 1 << 20], 0).expect("room");
        file.write_all_at(&[7; 1 << 20], 6 << 20).expect("room");
        file.punch(0, 1 << 20).expect("room");
        let mut bytes = vec![1; 1 << 20];
        file.read_exact_at(&mut bytes, 0).expect("it is there");
        assert!(bytes.iter().all(|&byte| byte == 0));
        let found = file.next_data(0).expect("it can be searched").expect("data follows");
        assert!(found == (0..8 << 20) || found == (6 << 20..7 << 20), "{found:?}");
        assert_eq!(Storage::length(&file).expect("a length"), 8 << 20);
    }
}
