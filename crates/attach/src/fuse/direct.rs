//! Replies whose data goes to the kernel from where it lies.
//!
//! The crate that speaks the protocol takes a reply's data in one piece. What lies in the image in many
//! is sent here as the kernel wants it: a header of its own (`fuse_out_header` of linux/fuse.h), and
//! the pieces behind it, in one call.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use fuser::RequestId;
use rustix::io::writev;

/// Bytes of a reply before its data.
const HEADER: usize = 16;

/// The connection to the kernel that requests come from. It has to be the only one: a reply is taken
/// where its request was read.
#[derive(Debug, Default)]
pub(super) struct Direct(OnceLock<OwnedFd>);

impl Direct {
    /// Notes the connection, once there is one.
    pub(super) fn connect(&self, connection: &impl AsFd) -> io::Result<()> {
        let connection = connection.as_fd().try_clone_to_owned()?;
        self.0.set(connection).map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    /// Sends `data` in reply to `request`.
    pub(super) fn send(&self, request: RequestId, data: &[IoSlice<'_>]) -> io::Result<()> {
        let connection = self.0.get().ok_or(io::ErrorKind::NotConnected)?;
        let length = HEADER + data.iter().map(|it| it.len()).sum::<usize>();
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        header[8..].copy_from_slice(&request.0.to_ne_bytes());
        let mut pieces = Vec::with_capacity(1 + data.len());
        pieces.push(IoSlice::new(&header));
        pieces.extend_from_slice(data);
        // The kernel takes a reply whole or not at all.
        writev(connection, &pieces)?;
        Ok(())
    }
}
