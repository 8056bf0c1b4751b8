//! The FUSE protocol, byte by byte: linux/fuse.h, version 7.31 and later.

/// Bytes in the header of a request, and in that of a reply.
const IN_HEADER: usize = 40;
pub(super) const OUT_HEADER: usize = 16;

/// Bytes in a write request before its data.
const WRITE_IN: usize = 40;

/// Operation of a request, of those that are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// The kernel expects no reply.
    Forget,
    Attributes,
    SetAttributes {
        valid: u32,
        /// Valid if `valid` has [`SET_SIZE`].
        size: u64,
    },
    Open {
        flags: i32,
    },
    OpenDirectory,
    Read {
        offset: u64,
        size: u32,
    },
    ReadDirectory {
        offset: u64,
        size: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
        flags: i32,
    },
    Sync,
    Allocate {
        offset: u64,
        length: u64,
        mode: i32,
    },
    Statistics,
    /// Create, link, rename or remove an entry of the directory.
    ChangeDirectory,
    /// A handle of the file was closed.
    Release,
    /// An operation that needs only a reply without error.
    Nothing,
    /// The file system ends.
    Destroy,
    Unknown,
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// Number of the request, repeated in the reply.
    pub(super) unique: u64,
    /// Node number of the file or directory.
    pub(super) node: u64,
    pub(super) operation: Operation<'a>,
}

/// Bits of `valid` in [`Operation::SetAttributes`].
pub(super) const SET_MODE: u32 = 1;
pub(super) const SET_UID: u32 = 1 << 1;
pub(super) const SET_GID: u32 = 1 << 2;
pub(super) const SET_SIZE: u32 = 1 << 3;
pub(super) const SET_ACCESS_TIME: u32 = 1 << 4;
pub(super) const SET_CHANGE_TIME: u32 = 1 << 5;
/// Set if the file is open already (`ftruncate`), not for `open` with `O_TRUNC` itself.
pub(super) const BY_HANDLE: u32 = 1 << 6;

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..at + BYTES)?.try_into().ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(number(bytes, at)?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(number(bytes, at)?))
}

impl Request<'_> {
    /// Decodes a request; `None` if it is malformed.
    pub(super) fn decode(bytes: &[u8]) -> Option<Request<'_>> {
        let code = word(bytes, 4)?;
        let (unique, node) = (long(bytes, 8)?, long(bytes, 16)?);
        let body = bytes.get(IN_HEADER..)?;
        let place = || Some((long(body, 8)?, word(body, 16)?));
        let operation = match code {
            1 => Operation::Lookup { name: body.strip_suffix(&[0])? },
            2 | 42 => Operation::Forget,
            3 => Operation::Attributes,
            4 => Operation::SetAttributes { valid: word(body, 0)?, size: long(body, 16)? },
            6 | 8..=13 | 35 | 45 => Operation::ChangeDirectory,
            14 => Operation::Open { flags: word(body, 0)? as i32 },
            15 => place().map(|(offset, size)| Operation::Read { offset, size })?,
            16 => {
                let (offset, size) = place()?;
                let data = body.get(WRITE_IN..)?.get(..size as usize)?;
                Operation::Write { offset, data, flags: word(body, 32)? as i32 }
            }
            17 => Operation::Statistics,
            18 => Operation::Release,
            // Release of a directory; flush of a file, sent when it is closed.
            25 | 29 => Operation::Nothing,
            20 => Operation::Sync,
            27 => Operation::OpenDirectory,
            28 => place().map(|(offset, size)| Operation::ReadDirectory { offset, size })?,
            38 => Operation::Destroy,
            43 => Operation::Allocate {
                offset: long(body, 8)?,
                length: long(body, 16)?,
                mode: word(body, 24)? as i32,
            },
            _ => Operation::Unknown,
        };
        Some(Request { unique, node, operation })
    }
}

/// Returns the header of a reply with `length` bytes behind it. `error` is 0 or an errno.
pub(super) fn header(unique: u64, error: i32, length: usize) -> [u8; OUT_HEADER] {
    let mut bytes = [0; OUT_HEADER];
    bytes[..4].copy_from_slice(&((OUT_HEADER + length) as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&(-error).to_ne_bytes());
    bytes[8..].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// Attributes of a file or directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    pub(super) node: u64,
    pub(super) size: u64,
    /// File type and permissions.
    pub(super) mode: u32,
    pub(super) links: u32,
    pub(super) owner: (u32, u32),
}

/// Seconds for which the kernel may cache attributes: they never change.
const FOREVER: u64 = 3600;

/// Preferred I/O size in bytes, and bytes in a block of block counts.
const BEST: u32 = 4096;
const BLOCK: u64 = 512;

impl Attributes {
    fn encode(&self, bytes: &mut Vec<u8>) {
        for long in [self.node, self.size, self.size.div_ceil(BLOCK), 0, 0, 0] {
            bytes.extend(long.to_ne_bytes());
        }
        let (user, group) = self.owner;
        for word in [0, 0, 0, self.mode, self.links, user, group, 0, BEST, 0] {
            bytes.extend(word.to_ne_bytes());
        }
    }

    /// Appends the reply to a request for attributes.
    pub(super) fn attr_reply(&self, bytes: &mut Vec<u8>) {
        bytes.extend(FOREVER.to_ne_bytes());
        bytes.extend(0u64.to_ne_bytes());
        self.encode(bytes);
    }

    /// Appends the reply to a lookup.
    pub(super) fn entry_reply(&self, bytes: &mut Vec<u8>) {
        for long in [self.node, 0, FOREVER, FOREVER, 0] {
            bytes.extend(long.to_ne_bytes());
        }
        self.encode(bytes);
    }
}

/// Flags of an open file: no page cache (`FOPEN_DIRECT_IO`), concurrent writes
/// (`FOPEN_PARALLEL_DIRECT_WRITES`).
pub(super) const OPEN_DIRECT: u32 = 1 | 1 << 6;

/// Appends the reply to opening a file or directory.
pub(super) fn opened(flags: u32, bytes: &mut Vec<u8>) {
    bytes.extend(0u64.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
}

/// Appends the reply to a write: the number of bytes written.
pub(super) fn written(size: u32, bytes: &mut Vec<u8>) {
    bytes.extend(size.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
}

/// Appends the reply to `statfs`: zeros, but for the block size and the maximum length of a name.
pub(super) fn statistics(bytes: &mut Vec<u8>) {
    bytes.extend([0; 40]);
    for word in [BLOCK as u32, 255, BLOCK as u32, 0, 0, 0, 0, 0, 0, 0] {
        bytes.extend(word.to_ne_bytes());
    }
}

/// Appends a directory entry if it fits into `size` bytes; returns true if it did. `next` is the offset of the
/// entry after it.
pub(super) fn entry_of_directory(
    (node, next, is_directory, name): (u64, u64, bool, &[u8]),
    size: u32,
    bytes: &mut Vec<u8>,
) -> bool {
    let length = (24 + name.len()).next_multiple_of(8);
    if bytes.len() + length > size as usize {
        return false;
    }
    let end = bytes.len() + length;
    bytes.extend(node.to_ne_bytes());
    bytes.extend(next.to_ne_bytes());
    bytes.extend((name.len() as u32).to_ne_bytes());
    // Types as in `struct dirent`.
    let kind = if is_directory { libc::DT_DIR } else { libc::DT_REG };
    bytes.extend(u32::from(kind).to_ne_bytes());
    bytes.extend(name);
    bytes.resize(end, 0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(code: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((IN_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(code.to_ne_bytes());
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(2u64.to_ne_bytes());
        bytes.extend([0; 16]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn requests_are_told_apart_and_what_is_cut_short_is_none() {
        let body =
            [&[0; 8][..], &4096u64.to_ne_bytes(), &3u32.to_ne_bytes(), &[0; 20], b"abc"].concat();
        let bytes = request(16, &body);
        let found = Request::decode(&bytes).expect("a write");
        let operation = Operation::Write { offset: 4096, data: b"abc", flags: 0 };
        assert_eq!(found, Request { unique: 7, node: 2, operation });
        assert_eq!(Request::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Request::decode(&bytes[..30]), None);
        assert_eq!(
            Request::decode(&request(1, b"name\0")).map(|it| it.operation),
            Some(Operation::Lookup { name: b"name" })
        );
        let valid = SET_SIZE | BY_HANDLE;
        let body = [&valid.to_ne_bytes()[..], &[0; 12], &9u64.to_ne_bytes(), &[0; 64]].concat();
        assert_eq!(
            Request::decode(&request(4, &body)).map(|it| it.operation),
            Some(Operation::SetAttributes { valid, size: 9 })
        );
        assert_eq!(
            Request::decode(&request(999, b"")).map(|it| it.operation),
            Some(Operation::Unknown)
        );
    }

    #[test]
    fn replies_are_as_long_as_the_kernel_wants_them() {
        let attributes = Attributes { node: 2, size: 1, mode: 0o100_600, links: 1, owner: (0, 0) };
        let length = |fill: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            fill(&mut bytes);
            bytes.len()
        };
        assert_eq!(length(&|bytes| attributes.attr_reply(bytes)), 104);
        assert_eq!(length(&|bytes| attributes.entry_reply(bytes)), 128);
        assert_eq!(length(&|bytes| opened(0, bytes)), 16);
        assert_eq!(length(&|bytes| statistics(bytes)), 80);
        assert_eq!(header(9, 5, 3)[..8], [19i32.to_ne_bytes(), (-5i32).to_ne_bytes()].concat());
    }
}
