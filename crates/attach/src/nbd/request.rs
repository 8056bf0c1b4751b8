//! Decoding of NBD requests.

use std::io;

use super::protocol::*;

/// Bytes in a request without data.
pub(super) const HEADER: usize = 28;

/// Bytes from which on a request counts as large.
pub(super) const LARGE: u32 = 1 << 16;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) flags: u16,
    pub(super) kind: u16,
    pub(super) cookie: [u8; 8],
    pub(super) offset: u64,
    pub(super) length: u32,
}

impl Request {
    /// Decodes a request. Returns an error if it is none, or a write that is too long: its data would have to
    /// be read to find the next request.
    pub(super) fn decode(bytes: &[u8; HEADER]) -> io::Result<Request> {
        let (magic, rest) = bytes.split_at(4);
        if magic != REQUEST.to_be_bytes() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let number = |from: usize, length: usize| {
            rest[from..from + length].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let mut cookie = [0; 8];
        cookie.copy_from_slice(&rest[4..12]);
        let request = Request {
            flags: number(0, 2) as u16,
            kind: number(2, 2) as u16,
            cookie,
            offset: number(12, 8),
            length: number(20, 4) as u32,
        };
        if request.kind == CMD_WRITE && request.length > PAYLOAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(request)
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if other requests should be served while this one is carried out.
    pub(super) fn is_large(&self) -> bool {
        match self.kind {
            CMD_READ | CMD_WRITE => (LARGE..=PAYLOAD_MAX).contains(&self.length),
            // They carry no data, and may cover 4 GiB.
            CMD_TRIM | CMD_WRITE_ZEROES | CMD_BLOCK_STATUS => self.length >= LARGE,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_much_of_the_drive_is_large_whether_it_carries_data_or_not() {
        let request = |kind, length| Request { flags: 0, kind, cookie: [0; 8], offset: 0, length };
        for kind in [CMD_READ, CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES, CMD_BLOCK_STATUS] {
            assert!(!request(kind, 4096).is_large(), "{kind}");
            assert!(request(kind, 1 << 20).is_large(), "{kind}");
        }
        for kind in [CMD_TRIM, CMD_WRITE_ZEROES, CMD_BLOCK_STATUS] {
            assert!(request(kind, u32::MAX).is_large(), "{kind}");
        }
        assert!(!request(CMD_READ, u32::MAX).is_large(), "it is refused at once");
    }
}
