//! Directories: names, and the metadata blocks that creating and removing them changes.

use std::collections::BTreeMap;

use ssdlab_error::{DriveError, ErrorKind};

use super::inodes::{Entry, FileNumber, Inode, Kind};
use super::layout::{BLOCK, GROUP_BLOCKS, Layout};
use super::{FileSystem, no_space};

/// The root directory. (Its number on ext4 is 2; here inodes are counted from 0.)
const ROOT: FileNumber = FileNumber(0);

impl FileSystem<'_> {
    pub(super) fn make_root(&mut self) {
        let mut root =
            Inode::new(Kind::Directory { entries: BTreeMap::new(), used_bytes: vec![24] });
        let group = self.layout.journal().end() / GROUP_BLOCKS;
        let block = self.allocator.allocate(group, None, 1, 1).expect("a new file system has room");
        root.map(0, block);
        (root.size, root.disk_size) = (BLOCK.bytes(), BLOCK.bytes());
        self.inodes.insert(ROOT.0, root);
    }

    /// Returns the root directory.
    pub fn root(&self) -> FileNumber {
        ROOT
    }

    /// Returns the file or directory that is called `name` in a directory, or `None` if there is none.
    ///
    /// # Panics
    /// Panics if `directory` is not a directory, or was removed.
    pub fn find(&self, directory: FileNumber, name: &str) -> Option<FileNumber> {
        let Kind::Directory { entries, .. } = &self.inode(directory).kind else {
            panic!("not a directory")
        };
        entries.get(name).map(|entry| entry.file)
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// Returns an error if the name is taken, or if the file system is full.
    ///
    /// # Panics
    /// Panics if `directory` is not a directory, or was removed.
    pub fn create(&mut self, directory: FileNumber, name: &str) -> Result<FileNumber, DriveError> {
        let kind = Kind::File { content: Vec::new() };
        self.add(directory, name, kind, Layout::group_of_inode(directory.0))
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// Returns an error if the name is taken, or if the file system is full.
    ///
    /// # Panics
    /// Panics if `parent` is not a directory, or was removed.
    pub fn create_directory(
        &mut self,
        parent: FileNumber,
        name: &str,
    ) -> Result<FileNumber, DriveError> {
        // Directories in the root are spread over the groups (Orlov's allocator); others stay with their
        // parent.
        let group = if parent == ROOT {
            let groups = 0..self.layout.groups();
            let best = groups.rev().max_by_key(|&group| self.allocator.free_blocks(group));
            best.expect("some group")
        } else {
            Layout::group_of_inode(parent.0)
        };
        let kind = Kind::Directory { entries: BTreeMap::new(), used_bytes: vec![24] };
        let made = self.add(parent, name, kind, group)?;
        let group = Layout::group_of_inode(made.0);
        let block = self.allocator.allocate(group, None, 1, 1).ok_or_else(no_space)?;
        self.mark_bitmap_dirty(block);
        self.add_to_transaction(block.first);
        let inode = self.inode_mut(made);
        inode.map(0, block);
        (inode.size, inode.disk_size) = (BLOCK.bytes(), BLOCK.bytes());
        Ok(made)
    }

    fn add(
        &mut self,
        directory: FileNumber,
        name: &str,
        kind: Kind,
        group: u64,
    ) -> Result<FileNumber, DriveError> {
        if self.find(directory, name).is_some() {
            let message = format!("{name} exists in the simulated file system");
            return Err(DriveError::new(ErrorKind::Usage, message));
        }
        let file = self.free_inode(group)?;
        self.inodes.insert(file.0, Inode::new(kind));
        let group = Layout::group_of_inode(file.0);
        self.add_to_transaction(self.layout.inode_bitmap(group));
        self.add_to_transaction(self.layout.descriptor(group));
        self.mark_inode_dirty(file, true);
        self.enter(directory, name, file)?;
        Ok(file)
    }

    fn free_inode(&mut self, group: u64) -> Result<FileNumber, DriveError> {
        let groups = self.layout.groups();
        for step in 0..groups {
            let group = (group + step) % groups;
            let hint = self.inode_hints[group as usize];
            let inodes = hint..Layout::inodes(group).end;
            // Inodes in use, in order: the first gap is a free inode.
            let mut free = hint;
            for (&used, _) in self.inodes.range(inodes.clone()) {
                if used != free {
                    break;
                }
                free += 1;
            }
            if free < inodes.end {
                self.inode_hints[group as usize] = free + 1;
                return Ok(FileNumber(free));
            }
        }
        Err(no_space())
    }

    /// Enters a name into a directory.
    fn enter(
        &mut self,
        directory: FileNumber,
        name: &str,
        file: FileNumber,
    ) -> Result<(), DriveError> {
        let bytes = entry_bytes(name);
        let Kind::Directory { entries, used_bytes } = &mut self.inode_mut(directory).kind else {
            panic!("not a directory")
        };
        let found = used_bytes.iter().rposition(|used| used + bytes <= BLOCK.bytes());
        let block = found.unwrap_or(used_bytes.len());
        if found.is_none() {
            used_bytes.push(0);
        }
        used_bytes[block] += bytes;
        entries.insert(name.into(), Entry { file, block });
        if found.is_none() {
            self.grow_directory(directory, block as u64)?;
        }
        self.change_entry(directory, block);
        Ok(())
    }

    fn grow_directory(&mut self, directory: FileNumber, block: u64) -> Result<(), DriveError> {
        let after = self.inode(directory).extents.last().map(|last| last.extent.end() - 1);
        let group = Layout::group_of_inode(directory.0);
        let taken = self.allocator.allocate(group, after, 1, 1).ok_or_else(no_space)?;
        self.mark_bitmap_dirty(taken);
        let inode = self.inode_mut(directory);
        inode.map(block, taken);
        inode.size += BLOCK.bytes();
        inode.disk_size = inode.size;
        self.mark_inode_dirty(directory, false);
        Ok(())
    }

    fn change_entry(&mut self, directory: FileNumber, block: usize) {
        let places = self.inode(directory).places(block as u64, block as u64 + 1);
        if let [(_, _, Some(place))] = places[..] {
            self.add_to_transaction(place);
        }
        self.update_time_stamp(directory);
    }

    /// Removes a file, or a directory that is empty.
    ///
    /// # Errors
    /// Returns an error if there is no such name, or if it is a directory that is not empty.
    ///
    /// # Panics
    /// Panics if `directory` is not a directory, or was removed.
    pub fn remove(&mut self, directory: FileNumber, name: &str) -> Result<(), DriveError> {
        let wrong = |what: &str| Err(DriveError::new(ErrorKind::Usage, format!("{name} {what}")));
        let Some(file) = self.find(directory, name) else { return wrong("does not exist") };
        if let Kind::Directory { entries, .. } = &self.inode(file).kind
            && !entries.is_empty()
        {
            return wrong("is not empty");
        }
        let Kind::Directory { entries, used_bytes } = &mut self.inode_mut(directory).kind else {
            panic!("not a directory")
        };
        let entry = entries.remove(name).expect("it was there");
        used_bytes[entry.block] -= entry_bytes(name);
        self.change_entry(directory, entry.block);
        // Until its blocks are freed the file is an orphan, in a list that begins in the superblock.
        self.add_to_transaction(self.layout.superblock());
        self.mark_inode_dirty(file, true);
        self.free_blocks_from(file, 0);
        self.forget_dirty(file);
        self.inodes.remove(&file.0);
        let group = Layout::group_of_inode(file.0);
        let hint = &mut self.inode_hints[group as usize];
        *hint = file.0.min(*hint);
        self.add_to_transaction(self.layout.inode_bitmap(group));
        self.add_to_transaction(self.layout.descriptor(group));
        Ok(())
    }
}

/// Returns the bytes that a name takes in a directory: 8 and its length, rounded up to a multiple of 4.
fn entry_bytes(name: &str) -> u64 {
    (8 + name.len() as u64).next_multiple_of(4)
}
