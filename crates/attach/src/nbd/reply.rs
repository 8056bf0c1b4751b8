//! NBD replies: simple ones, or chunks if the client has asked for structured replies.

use super::protocol::*;
use super::request::Request;
use crate::engine::{Errno, Extent};

/// Bytes in a simple reply without data, in the header of a chunk, and in the header of a chunk with data.
const SIMPLE: usize = 16;
const CHUNK: usize = 20;
const DATA_CHUNK: usize = CHUNK + 8;

/// Outcome of the negotiation with a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Negotiated {
    /// True if replies are structured.
    pub(super) is_structured: bool,
    /// True if the client may ask for the allocation.
    pub(super) has_allocation_context: bool,
}

/// Header of a reply with data.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataHeader {
    bytes: [u8; DATA_CHUNK],
    length: usize,
}

impl DataHeader {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn simple(request: &Request, error: u32) -> [u8; SIMPLE] {
    let mut bytes = [0; SIMPLE];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&request.cookie);
    bytes
}

fn chunk(request: &Request, kind: u16, is_last: bool, length: u32) -> [u8; CHUNK] {
    let flags = if is_last { REPLY_FLAG_DONE } else { 0 };
    let mut bytes = [0; CHUNK];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&request.cookie);
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

impl Negotiated {
    /// Appends a reply for success without data.
    pub(super) fn done(self, request: &Request, output: &mut Vec<u8>) {
        if self.is_structured {
            output.extend(chunk(request, REPLY_NONE, true, 0));
        } else {
            output.extend(simple(request, 0));
        }
    }

    /// Appends a reply for an error.
    pub(super) fn failed(self, request: &Request, error: Errno, output: &mut Vec<u8>) {
        let error = number_of(error);
        if !self.is_structured {
            return output.extend(simple(request, error));
        }
        // A read error names its offset only if the read covers 4 KiB or less.
        let says_where = request.kind == CMD_READ && error == EIO && request.length <= 4096;
        let (kind, length) = if says_where { (REPLY_ERROR_OFFSET, 14) } else { (REPLY_ERROR, 6) };
        output.extend(chunk(request, kind, true, length));
        output.extend(error.to_be_bytes());
        // Length of the error message for people: there is none.
        output.extend(0u16.to_be_bytes());
        if says_where {
            output.extend(request.offset.to_be_bytes());
        }
    }

    /// Returns the header for all data of a read in one piece.
    pub(super) fn before_data(self, request: &Request) -> DataHeader {
        let mut head = DataHeader { bytes: [0; DATA_CHUNK], length: SIMPLE };
        if self.is_structured {
            head = data_head(request, true, request.offset, request.length);
        } else {
            head.bytes[..SIMPLE].copy_from_slice(&simple(request, 0));
        }
        head
    }

    /// Returns true if the reply to a read may contain holes instead of zeros.
    pub(super) fn may_leave_out_holes(self, request: &Request) -> bool {
        self.is_structured && !request.has(CMD_FLAG_DF)
    }

    /// Appends the reply to a read, with holes instead of zeros.
    pub(super) fn without_holes(
        self,
        request: &Request,
        data: &[u8],
        extents: &[Extent],
        output: &mut Vec<u8>,
    ) {
        let mut from = 0;
        for (index, extent) in extents.iter().enumerate() {
            let is_last = index + 1 == extents.len();
            let until = from + extent.length as usize;
            let offset = request.offset + from as u64;
            if extent.is_zero {
                output.extend(chunk(request, REPLY_OFFSET_HOLE, is_last, 12));
                output.extend(offset.to_be_bytes());
                output.extend((extent.length as u32).to_be_bytes());
            } else {
                let head = data_head(request, is_last, offset, extent.length as u32);
                output.extend(head.bytes());
                output.extend(&data[from..until]);
            }
            from = until;
        }
    }

    /// Appends the reply to a request for the allocation.
    pub(super) fn allocation(self, request: &Request, extents: &[Extent], output: &mut Vec<u8>) {
        let extents = if request.has(CMD_FLAG_REQ_ONE) { &extents[..1] } else { extents };
        output.extend(chunk(request, REPLY_BLOCK_STATUS, true, 4 + 8 * extents.len() as u32));
        output.extend(ALLOCATION_ID.to_be_bytes());
        for extent in extents {
            output.extend((extent.length as u32).to_be_bytes());
            let hole = if extent.is_hole { STATE_HOLE } else { 0 };
            let zero = if extent.is_zero { STATE_ZERO } else { 0 };
            output.extend((hole | zero).to_be_bytes());
        }
    }
}

fn data_head(request: &Request, is_last: bool, offset: u64, length: u32) -> DataHeader {
    let mut bytes = [0; DATA_CHUNK];
    bytes[..CHUNK].copy_from_slice(&chunk(request, REPLY_OFFSET_DATA, is_last, 8 + length));
    bytes[CHUNK..].copy_from_slice(&offset.to_be_bytes());
    DataHeader { bytes, length: DATA_CHUNK }
}

const EIO: u32 = 5;

/// Returns the protocol's number of an error.
fn number_of(error: Errno) -> u32 {
    match error {
        Errno::PERM | Errno::NOMEM | Errno::INVAL | Errno::NOSPC | Errno::OVERFLOW => {
            error.raw_os_error() as u32
        }
        // The protocol asks a read-only server for EPERM.
        Errno::ROFS => Errno::PERM.raw_os_error() as u32,
        Errno::DQUOT => Errno::NOSPC.raw_os_error() as u32,
        _ => EIO,
    }
}
