//! Operations on the drive's file and its directory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::protocol::{self, Attributes, Operation, Request};
use crate::engine::{Engine, Errno, Submitted, Time};
use crate::mapped_image::SendPieces;

/// Node number of the directory, and of the file.
const ROOT: u64 = 1;
const FILE: u64 = 2;

/// Bytes from which on a request takes long.
const LARGE: u32 = 1 << 16;

/// A drive as one file.
pub(super) struct Drive {
    pub(super) engine: Arc<Engine>,
    /// Name of the file.
    pub(super) name: String,
    /// Owner: user and group.
    pub(super) owner: (u32, u32),
    /// Number of open handles.
    pub(super) opened: Arc<AtomicU32>,
}

/// Outcome of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is done, or submitted to the drive.
    Done(Option<Submitted>),
    /// It failed.
    Failed(Errno),
    /// The kernel expects no reply.
    NoReply,
    /// The file system ends: no request follows.
    Over,
}

impl Drive {
    fn attributes(&self, node: u64) -> Option<Attributes> {
        let (kind, size, links) = match node {
            ROOT => (libc::S_IFDIR | 0o700, 0, 2),
            FILE => {
                let may = if self.engine.is_read_only() { 0o400 } else { 0o600 };
                (libc::S_IFREG | may, self.engine.capacity(), 1)
            }
            _ => return None,
        };
        Some(Attributes { node, size, mode: kind, links, owner: self.owner })
    }

    /// Returns true if other requests should be served while this one is carried out.
    pub(super) fn takes_long(&self, request: &Request<'_>) -> bool {
        match request.operation {
            Operation::Read { size, .. } => size >= LARGE,
            Operation::Write { data, flags, .. } => {
                data.len() >= LARGE as usize || self.engine.makes_durable(is_sync(flags))
            }
            Operation::Sync | Operation::Allocate { .. } => true,
            _ => false,
        }
    }

    /// Carries out a request that arrived at `host_arrival`, and puts the body of the reply into `data`. Data of a
    /// large read may be handed to `send` in place instead.
    pub(super) fn carry_out(
        &self,
        request: &Request<'_>,
        host_arrival: Instant,
        data: &mut Vec<u8>,
        send: Option<SendPieces<'_>>,
    ) -> Outcome {
        data.clear();
        let outcome = match request.operation {
            Operation::Forget => return Outcome::NoReply,
            Operation::Destroy => return Outcome::Over,
            Operation::Read { offset, size } => {
                self.read(host_arrival, offset, size, data, send).map(Some)
            }
            Operation::Write { offset, data: bytes, flags } => {
                self.write(host_arrival, offset, bytes, flags, data).map(Some)
            }
            Operation::Sync => self.engine.flush(host_arrival).map(Submitted::Answered).map(Some),
            Operation::Allocate { offset, length, mode } => {
                self.allocate(host_arrival, offset, length, mode).map(Some)
            }
            operation => self.describe(request.node, operation, data).map(|()| None),
        };
        match outcome {
            Ok(submitted) => Outcome::Done(submitted),
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Answers requests about file and directory that do not concern the drive.
    fn describe(
        &self,
        node: u64,
        operation: Operation<'_>,
        data: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        match operation {
            Operation::Lookup { name } => {
                let is_it = node == ROOT && name == self.name.as_bytes();
                let found = if is_it { self.attributes(FILE) } else { None };
                found.ok_or(Errno::NOENT)?.entry_reply(data);
            }
            Operation::Attributes => self.attributes(node).ok_or(Errno::NOENT)?.attr_reply(data),
            Operation::SetAttributes { valid, size } => {
                let attributes = self.attributes(node).ok_or(Errno::NOENT)?;
                may_set(&attributes, valid, size)?;
                attributes.attr_reply(data);
            }
            Operation::ChangeDirectory => return Err(Errno::PERM),
            Operation::Open { flags } => {
                if self.engine.is_read_only() && flags & libc::O_ACCMODE != libc::O_RDONLY {
                    return Err(Errno::ROFS);
                }
                self.opened.fetch_add(1, Ordering::Relaxed);
                protocol::opened(protocol::OPEN_DIRECT, data);
            }
            Operation::Release => {
                self.opened.fetch_sub(1, Ordering::Relaxed);
            }
            Operation::OpenDirectory => protocol::opened(0, data),
            Operation::ReadDirectory { offset, size } => self.list(node, offset, size, data)?,
            Operation::Statistics => protocol::statistics(data),
            Operation::Nothing => {}
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }

    fn list(&self, node: u64, offset: u64, size: u32, data: &mut Vec<u8>) -> Result<(), Errno> {
        if node != ROOT {
            return Err(Errno::NOTDIR);
        }
        let name = self.name.as_bytes();
        let entries = [(ROOT, true, &b"."[..]), (ROOT, true, b".."), (FILE, false, name)];
        for (next, (node, is_directory, name)) in (1..).zip(entries).skip(offset as usize) {
            if !protocol::entry_of_directory((node, next, is_directory, name), size, data) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the number of bytes from `offset` to the end of the drive.
    fn left(&self, offset: u64) -> u64 {
        self.engine.capacity().saturating_sub(offset)
    }

    fn read(
        &self,
        host_arrival: Instant,
        offset: u64,
        size: u32,
        data: &mut Vec<u8>,
        send: Option<SendPieces<'_>>,
    ) -> Result<Submitted, Errno> {
        let length = u64::from(size).min(self.left(offset)) as usize;
        data.resize(length, 0);
        let offset = offset.min(self.engine.capacity());
        match send {
            Some(send) if length >= LARGE as usize => {
                self.engine.read_or_send(host_arrival, offset, data, send).map(Submitted::Answered)
            }
            _ => self.engine.submit_read(host_arrival, offset, data),
        }
    }

    fn write(
        &self,
        host_arrival: Instant,
        offset: u64,
        bytes: &[u8],
        flags: i32,
        data: &mut Vec<u8>,
    ) -> Result<Submitted, Errno> {
        let left = self.left(offset);
        if left == 0 {
            return Err(Errno::NOSPC);
        }
        let bytes = &bytes[..(bytes.len() as u64).min(left) as usize];
        let (engine, fua) = (&self.engine, is_sync(flags));
        protocol::written(bytes.len() as u32, data);
        match engine.time() {
            Time::Real if !engine.makes_durable(fua) => {
                engine.submit_write(host_arrival, offset, bytes.into(), fua)
            }
            _ => engine.write(host_arrival, offset, bytes, fua).map(Submitted::Answered),
        }
    }

    fn allocate(
        &self,
        host_arrival: Instant,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<Submitted, Errno> {
        // Like a block device, the file does not grow; with `FALLOC_FL_KEEP_SIZE` the range is cut at its end.
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        if self.left(offset) == 0 || length > self.left(offset) && !keeps_size {
            return Err(Errno::INVAL);
        }
        let length = length.min(self.left(offset));
        let answer = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            // On a drive that drops trims, or whose trimmed data reads as ones, the hole would not read as
            // zeros.
            libc::FALLOC_FL_PUNCH_HOLE if self.engine.trims_read_zeros() => {
                self.engine.trim(host_arrival, offset, length, true)
            }
            libc::FALLOC_FL_ZERO_RANGE => self.engine.zero(host_arrival, offset, length, false),
            _ => Err(Errno::OPNOTSUPP),
        };
        answer.map(Submitted::Answered)
    }
}

/// Returns an error for attributes that the drive's file cannot have. Another length is refused, as `truncate`
/// of a block device is; `open` with `O_TRUNC` changes nothing, as there.
///
/// # Errors
/// `EINVAL` for another length, `EPERM` for an owner, permissions or times, which cannot be stored.
fn may_set(attributes: &Attributes, valid: u32, size: u64) -> Result<(), Errno> {
    use protocol::{
        BY_HANDLE, SET_ACCESS_TIME, SET_CHANGE_TIME, SET_GID, SET_MODE, SET_SIZE, SET_UID,
    };
    if valid & SET_SIZE != 0 {
        // From `open` with `O_TRUNC`. The kernel does not distinguish it from `truncate` by name to 0.
        let is_open = size == 0 && valid & BY_HANDLE == 0;
        return if size == attributes.size || is_open { Ok(()) } else { Err(Errno::INVAL) };
    }
    let never = SET_MODE | SET_UID | SET_GID | SET_ACCESS_TIME | SET_CHANGE_TIME;
    if valid & never != 0 { Err(Errno::PERM) } else { Ok(()) }
}

/// Returns true if a write has to be durable when it is answered.
fn is_sync(flags: i32) -> bool {
    flags & (libc::O_DSYNC | libc::O_SYNC) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{BY_HANDLE, SET_ACCESS_TIME, SET_CHANGE_TIME, SET_MODE, SET_SIZE};

    #[test]
    fn its_length_stays_and_only_an_open_that_truncates_is_not_told_so() {
        let attributes = Attributes { node: FILE, size: 4096, mode: 0, links: 1, owner: (0, 0) };
        let may = |valid, size| may_set(&attributes, valid, size);
        for other in [4095, 4097] {
            assert_eq!(may(SET_SIZE, other), Err(Errno::INVAL), "truncate");
        }
        for other in [0, 4095, 4097] {
            assert_eq!(may(SET_SIZE | BY_HANDLE, other), Err(Errno::INVAL), "ftruncate");
        }
        assert_eq!(may(SET_SIZE, 4096), Ok(()));
        assert_eq!(may(SET_SIZE, 0), Ok(()), "open with O_TRUNC");
        for valid in [SET_MODE, SET_ACCESS_TIME, SET_CHANGE_TIME | BY_HANDLE] {
            assert_eq!(may(valid, 0), Err(Errno::PERM));
        }
        assert_eq!(may(0, 0), Ok(()));
    }
}
