//! Layout of the file system on the drive: block groups, whose metadata is gathered for sixteen groups, and
//! the journal.

use ssdlab_units::{ByteLength, KIB, MIB};

use ssdlab_error::{DriveError, ErrorKind};

/// A block of the file system: ext4's 4 KiB.
pub(super) const BLOCK: ByteLength = ByteLength::new(4096);

/// Number of blocks in a group: the number of bits in one block of bitmap.
pub(super) const GROUP_BLOCKS: u64 = 8 * 4096;

/// Number of groups whose bitmaps and inode tables lie together (mkfs.ext4's `flex_bg`).
const FLEX: u64 = 16;

/// Number of inodes in a group, and in a block of the table: one for each 16 KiB of space, 256 bytes each.
const GROUP_INODES: u64 = 8192;
const INODES_PER_BLOCK: u64 = 16;
const TABLE_BLOCKS: u64 = GROUP_INODES / INODES_PER_BLOCK;

/// Number of group descriptors in a block: 64 bytes each.
const DESCRIPTORS_PER_BLOCK: u64 = 64;

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub(super) first: u64,
    pub(super) count: u64,
}

impl Extent {
    pub(super) fn end(self) -> u64 {
        self.first + self.count
    }
}

/// Layout of a file system, computed from its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    blocks: u64,
    groups: u64,
    descriptor_blocks: u64,
    journal_blocks: u64,
}

impl Layout {
    pub(super) fn new(length: ByteLength) -> Result<Layout, DriveError> {
        if length < MIB * 64 {
            let message =
                format!("a file system of {length} is too small; it needs at least 64 MiB");
            return Err(DriveError::new(ErrorKind::NoSpace, message));
        }
        let blocks = length.whole(BLOCK);
        let groups = blocks.div_ceil(GROUP_BLOCKS);
        // mkfs.ext4 makes a journal of 128 MiB from 16 GiB on, and of an eighth to a 128th below; here it is a
        // 64th, and at least 4 and at most 128 MiB.
        let journal_blocks = (blocks / 64).clamp((MIB * 4).whole(BLOCK), (MIB * 128).whole(BLOCK));
        let descriptor_blocks = groups.div_ceil(DESCRIPTORS_PER_BLOCK);
        Ok(Layout { blocks, groups, descriptor_blocks, journal_blocks })
    }

    pub(super) fn groups(&self) -> u64 {
        self.groups
    }

    /// Returns the blocks of a group; the last group may have fewer.
    pub(super) fn group(&self, group: u64) -> Extent {
        let first = group * GROUP_BLOCKS;
        Extent { first, count: GROUP_BLOCKS.min(self.blocks - first) }
    }

    /// Returns the superblock, which also holds the head of the list of orphans.
    pub(super) fn superblock(&self) -> u64 {
        0
    }

    /// Returns the block with the descriptor of a group.
    pub(super) fn descriptor(&self, group: u64) -> u64 {
        1 + group / DESCRIPTORS_PER_BLOCK
    }

    /// Returns the first block of the metadata that `group` shares with its neighbours, and the number of
    /// groups that share it.
    fn flex(&self, group: u64) -> (u64, u64) {
        let head = group / FLEX * FLEX;
        let first = head * GROUP_BLOCKS + if head == 0 { 1 + self.descriptor_blocks } else { 0 };
        (first, FLEX.min(self.groups - head))
    }

    pub(super) fn block_bitmap(&self, group: u64) -> u64 {
        self.flex(group).0 + group % FLEX
    }

    pub(super) fn inode_bitmap(&self, group: u64) -> u64 {
        let (first, count) = self.flex(group);
        first + count + group % FLEX
    }

    /// Returns the block of the inode table that holds an inode.
    pub(super) fn inode_block(&self, inode: u64) -> u64 {
        let (group, place) = (inode / GROUP_INODES, inode % GROUP_INODES);
        let (first, count) = self.flex(group);
        first + 2 * count + group % FLEX * TABLE_BLOCKS + place / INODES_PER_BLOCK
    }

    pub(super) fn group_of_inode(inode: u64) -> u64 {
        inode / GROUP_INODES
    }

    /// Returns the inodes of a group.
    pub(super) fn inodes(group: u64) -> std::ops::Range<u64> {
        group * GROUP_INODES..(group + 1) * GROUP_INODES
    }

    /// Returns the blocks of the journal, behind the metadata of the first groups.
    pub(super) fn journal(&self) -> Extent {
        let first = self.flex(0).0 + self.flex_length(0);
        Extent { first, count: self.journal_blocks }
    }

    fn flex_length(&self, head: u64) -> u64 {
        self.flex(head).1 * (2 + TABLE_BLOCKS)
    }

    /// Returns the blocks that no file can take.
    pub(super) fn reserved(&self) -> Vec<Extent> {
        let mut reserved = Vec::new();
        for head in (0..self.groups).step_by(FLEX as usize) {
            let start = head * GROUP_BLOCKS;
            let end = self.flex(head).0 + self.flex_length(head);
            reserved.push(Extent { first: start, count: end.min(self.blocks) - start });
        }
        reserved.push(self.journal());
        reserved
    }
}

/// Maximum size of a write that Linux makes of neighbouring pages (`max_sectors_kb` of most Serial ATA
/// drives).
pub(super) const MAX_REQUEST_SIZE: ByteLength = ByteLength::new(512 * KIB.bytes());
