//! Mistakes of who opens an image: something is not checked.
//!
//! The image is changed so that a drive that checks everything takes it as one does that overlooks something.

use ssdlab_attach::image::layout::{Layout, STATE_SIZE};

use crate::faults::{ENTRY, HEAD, set_sum};
use crate::pages::Pages;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn read(image: &Pages, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    image.read(&mut bytes, at);
    bytes
}

/// Dumps of the buffer count whatever their checksums say: those of their heads and of their units are made right.
pub fn believe_dumps(image: &mut Pages, layout: &Layout) {
    for slot in 0..2 {
        let first = layout.dump + slot * layout.dump_size;
        for head_at in [first, first + layout.dump_head] {
            let head = read(image, head_at, HEAD);
            let units = number(&head[24..28]);
            if !head.starts_with(b"SSDSAVED") || units > layout.dump_units {
                continue;
            }
            let mut head = read(image, head_at, HEAD + ENTRY * units as usize);
            let data = first + 2 * layout.dump_head;
            for (index, entry) in (0..).zip(head[HEAD..].chunks_exact_mut(ENTRY)) {
                // The highest bits say that a unit has no data.
                if entry[15] & 0xc0 == 0 {
                    let bytes = read(image, data + index * layout.unit, layout.unit as usize);
                    entry[4..8].copy_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
                }
            }
            set_sum(&mut head);
            image.write(&head, head_at);
        }
    }
}

/// Bytes of a state, the last four of which are its checksum: docs/FORMAT.md.
const STATE: usize = 116;

/// Where one copy of a state does not hold, the state before it counts, with its tables: both copies become
/// one that is older than that.
pub fn fall_back(image: &mut Pages, layout: &Layout) {
    let slots = [0, 1, 2, 3].map(|slot| read(image, layout.state + slot * STATE_SIZE, STATE));
    let holds = |slot: usize| {
        let (numbers, sum) = slots[slot].split_at(STATE - 4);
        crc32fast::hash(numbers).to_le_bytes() == *sum
    };
    for (pair, other) in [(0, 2), (2, 0)] {
        if holds(pair) && holds(pair + 1) || !holds(other) {
            continue;
        }
        let mut older = slots[other].clone();
        let generation = number(&older[8..16]).saturating_sub(1);
        older[8..16].copy_from_slice(&generation.to_le_bytes());
        let sum = crc32fast::hash(&older[..STATE - 4]);
        older[STATE - 4..].copy_from_slice(&sum.to_le_bytes());
        for slot in [pair, pair + 1] {
            image.write(&older, layout.state + slot as u64 * STATE_SIZE);
        }
    }
}
