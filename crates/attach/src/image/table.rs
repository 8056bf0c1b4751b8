//! The block table: how often each part of a block was erased, in two copies.
//!
//! An entry is the number of erases and a checksum of that and of the part's number, 32 bits each; one
//! of a part that was never erased is zeros. The first copy is written first, nothing is programmed in a
//! part before both copies of its entry are durable, and who opens an image after a crash makes them alike
//! before anything is erased: intact copies differ by one at most.

use std::io;

use super::host::HostFile;
use super::layout::Layout;

/// Bytes of an entry.
pub(super) const ENTRY: u64 = 8;

/// How often each part was erased, as the image has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundErases {
    /// Of each part, by the copy that holds; zero where none does.
    pub erases: Vec<u32>,
    /// Parts of which a copy does not hold.
    pub damaged: Vec<u32>,
    /// Parts whose copies both hold, one of them without the latest erase.
    pub behind: Vec<u32>,
}

fn encode(part: u32, erases: u32) -> [u8; ENTRY as usize] {
    let mut bytes = [0; ENTRY as usize];
    bytes[..4].copy_from_slice(&erases.to_le_bytes());
    bytes[4..].copy_from_slice(&part.to_le_bytes());
    let sum = crc32fast::hash(&bytes);
    bytes[4..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(part: u32, entry: [u8; ENTRY as usize]) -> Option<u32> {
    let erases = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
    (entry == [0; ENTRY as usize] || entry == encode(part, erases)).then_some(erases)
}

/// Writes that `part` was erased `erases` times.
///
/// # Errors
/// Returns an error if writing fails.
pub fn write(file: &HostFile, layout: &Layout, part: u32, erases: u32) -> io::Result<()> {
    write_at(file, layout.erases_at(part), part, erases)
}

/// Writes that `part`, whose entries lie `at` these places, was erased `erases` times.
///
/// # Errors
/// Returns an error if writing fails.
pub fn write_at(file: &HostFile, at: [u64; 2], part: u32, erases: u32) -> io::Result<()> {
    at.into_iter().try_for_each(|at| file.write_all_at(&encode(part, erases), at))
}

/// Reads the table.
///
/// # Errors
/// Returns an error if reading fails.
pub fn read(file: &HostFile, layout: &Layout) -> io::Result<FoundErases> {
    let parts = layout.blocks * layout.stripe;
    let mut copies = [0, 1].map(|_| vec![0; ENTRY as usize * parts as usize]);
    for (at, copy) in layout.erases_at(0).into_iter().zip(&mut copies) {
        file.read_exact_at(copy, at)?;
    }
    let [one, other] = &copies;
    let (one, other) = (one.as_chunks().0, other.as_chunks().0);
    let mut found =
        FoundErases { erases: Vec::with_capacity(parts as usize), ..Default::default() };
    for (part, (&one, &other)) in (0..).zip(one.iter().zip(other)) {
        let (one, other) = (decode(part, one), decode(part, other));
        match one.zip(other).map(|(one, other)| one.abs_diff(other)) {
            Some(0) => {}
            Some(1) => found.behind.push(part),
            _ => found.damaged.push(part),
        }
        found.erases.push(one.max(other).unwrap_or(0));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_model::profile::{DEFAULT, Profile};

    #[test]
    fn an_entry_that_is_damaged_is_read_from_its_copy_and_named() {
        let profile = Profile::named(DEFAULT).expect("the default profile");
        let layout = Layout::of(&profile.configuration().expect("a sound profile"));
        let layout = layout.expect("a sound layout");
        let file = tempfile::tempfile().expect("a file");
        file.set_len(layout.end).expect("a sparse file");
        let file = HostFile::new(std::sync::Arc::new(file));
        write(&file, &layout, 3, 7).expect("room");
        let expect = |damaged: &[u32]| {
            let found = read(&file, &layout).expect("a table");
            assert_eq!((found.erases[2], found.erases[3], found.erases[4]), (0, 7, 0));
            assert_eq!(found.damaged, damaged);
        };
        expect(&[]);
        for at in layout.erases_at(3) {
            for byte in 0..ENTRY {
                let mut old = [0];
                file.read_exact_at(&mut old, at + byte).expect("a byte");
                file.write_all_at(&[old[0] ^ 0x80], at + byte).expect("room");
                expect(&[3]);
                file.write_all_at(&old, at + byte).expect("room");
            }
            // A sector of zeros says that none of its parts was ever erased.
            file.write_all_at(&[0; 8], at).expect("room");
            expect(&[3]);
            write(&file, &layout, 3, 7).expect("room");
        }
        // Only the first copy came to the disk.
        file.write_all_at(&encode(3, 6), layout.erases_at(3)[1]).expect("room");
        expect(&[]);
        assert_eq!(read(&file, &layout).expect("a table").behind, [3]);
    }
}
