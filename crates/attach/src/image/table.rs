//! The block table: erase counts of all parts of blocks, in two copies.
//!
//! An entry is the erase count and a checksum of that and of the part's number, 32 bits each; all zeros for a
//! part that was never erased. The first copy is written first, and nothing is programmed in a part before both
//! copies of its entry are durable. After a crash, opening the image makes both copies equal before anything is
//! erased. So intact copies differ by one at most.

use std::io;

use super::host::HostFile;
use super::layout::Layout;

/// Bytes in an entry.
pub(super) const ENTRY: u64 = 8;

/// Erase counts of all parts, read from the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundErases {
    /// Erase count of each part, the larger of its intact copies; 0 if neither is intact.
    pub erases: Vec<u32>,
    /// Parts with a damaged copy.
    pub damaged: Vec<u32>,
    /// Parts with two intact copies, one of which lacks the latest erase.
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

/// Writes the erase count of `part`.
///
/// # Errors
/// Returns an error if writing fails.
pub fn write(file: &HostFile, layout: &Layout, part: u32, erases: u32) -> io::Result<()> {
    write_at(file, layout.erases_at(part), part, erases)
}

/// Writes the erase count of `part` to its entries `at` these offsets.
///
/// # Errors
/// Returns an error if writing fails.
pub fn write_at(file: &HostFile, at: [u64; 2], part: u32, erases: u32) -> io::Result<()> {
    at.into_iter().try_for_each(|at| file.write_all_at(&encode(part, erases), at))
}

/// Reads both copies of the table.
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
            // A sector of zeros means that none of its parts was ever erased.
            file.write_all_at(&[0; 8], at).expect("room");
            expect(&[3]);
            write(&file, &layout, 3, 7).expect("room");
        }
        // Only the first copy reached the disk.
        file.write_all_at(&encode(3, 6), layout.erases_at(3)[1]).expect("room");
        expect(&[]);
        assert_eq!(read(&file, &layout).expect("a table").behind, [3]);
    }
}
