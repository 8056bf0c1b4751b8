//! Mistakes in opening an image: readers that do not check something.
//!
//! The image is changed so that a reader that checks everything accepts what the faulty reader would accept.

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

/// Makes the checksums in buffer dumps right, those of heads and units: the reader accepts any dump.
pub fn accept_any_dump(image: &mut Pages, layout: &Layout) {
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
                // The highest bits mark units without data.
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

/// Bytes of a state; the last four are its checksum (docs/FORMAT.md).
const STATE: usize = 116;

/// Replaces a state with a damaged copy by one that is older than the state before it, in both copies: the
/// reader falls back to the state before, with its tables.
pub fn use_older_state(image: &mut Pages, layout: &Layout) {
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
