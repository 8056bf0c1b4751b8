//! The state of an image with its promise mark: one record in four slots.
//!
//! Generation `g` lies in slots `2 (g mod 2)` and `2 (g mod 2) + 1`: each generation has two copies, and the
//! generation before stays intact while the next is written. All four slots are written when the image is made,
//! so a slot without a valid state was damaged, or torn by a crash of the host.
//!
//! A state vouches for everything that was written up to its stamp: all of it was durable before the state was
//! written. A state at the beginning or end of an attachment, or for a new log of trims, is itself made
//! durable. A state that only records a finished `fdatasync` (the *promise mark*) is not: after a crash of the
//! host an older one may be found, after a crash of the program the latest is.

use std::io;

use super::host::HostFile;
use super::layout::{Layout, STATE_SIZE};
use super::trims::TrimPosition;

const MAGIC: u64 = u64::from_le_bytes(*b"SSDSTATE");

/// Bytes of a state: fourteen numbers and the checksum.
const USED: usize = 14 * 8 + 4;

/// Number of slots.
pub const SLOTS: u64 = 4;

/// The state of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Number of states that were written before; the slot with the largest counts.
    pub generation: u64,
    /// True if the image was closed in order: the checkpoint counts, and nothing was written since.
    pub is_clean: bool,
    /// The drive's clock when the drive was closed, in nanoseconds.
    pub clock: u64,
    /// Bytes in the checkpoint; 0 if there is none.
    pub checkpoint_length: u64,
    /// Checksum of the checkpoint.
    pub checkpoint_sum: u32,
    /// Number of times that the image was attached.
    pub attached: u64,
    /// Stamp up to which everything is durable.
    pub stamp: u64,
    /// Durable end of the log of trims in use.
    pub trims: TrimPosition,
    /// Generation of the latest durable buffer dump; 0 if there is none.
    pub dump: u64,
    /// Generation up to which dumps are void, because the drive was closed in order after them.
    pub dumps_void: u64,
}

/// Contents of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    /// The newest intact state; `None` if there is none.
    pub(super) newest: Option<State>,
    /// Number of damaged slots.
    pub(super) damaged: u32,
    /// True if both copies of a generation are damaged, perhaps of the newest.
    pub(super) is_generation_lost: bool,
}

impl State {
    /// Returns the state of a new image.
    pub fn new() -> State {
        State { generation: 1, ..State::default() }
    }

    fn encode(&self) -> [u8; USED] {
        let numbers = [
            MAGIC,
            self.generation,
            u64::from(self.is_clean),
            self.clock,
            self.checkpoint_length,
            self.checkpoint_sum.into(),
            self.attached,
            self.stamp,
            self.trims.log,
            self.trims.batches,
            self.trims.length,
            self.trims.chain.into(),
            self.dump,
            self.dumps_void,
        ];
        let mut bytes = [0; USED];
        for (number, place) in numbers.iter().zip(bytes.chunks_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[..USED - 4]);
        bytes[USED - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; USED]) -> Option<State> {
        let (numbers, sum) = bytes.split_at(USED - 4);
        if crc32fast::hash(numbers).to_le_bytes() != *sum {
            return None;
        }
        let (numbers, _) = numbers.as_chunks::<8>();
        let number = |index: usize| u64::from_le_bytes(numbers[index]);
        (number(0) == MAGIC).then(|| State {
            generation: number(1),
            is_clean: number(2) == 1,
            clock: number(3),
            checkpoint_length: number(4),
            checkpoint_sum: number(5) as u32,
            attached: number(6),
            stamp: number(7),
            trims: TrimPosition {
                log: number(8),
                batches: number(9),
                length: number(10),
                chain: number(11) as u32,
            },
            dump: number(12),
            dumps_void: number(13),
        })
    }

    /// Writes both copies of the state.
    ///
    /// # Errors
    /// Returns an error if writing fails; then the generation before it stays in force.
    pub(super) fn write(&self, file: &HostFile, layout: &Layout) -> io::Result<()> {
        let state = self.encode();
        // One call costs less than two, and the space between the copies is unused.
        let mut bytes = [0; STATE_SIZE as usize + USED];
        bytes[..USED].copy_from_slice(&state);
        bytes[STATE_SIZE as usize..].copy_from_slice(&state);
        let first = 2 * (self.generation % 2);
        file.write_all_at(&bytes, layout.state + first * STATE_SIZE)
    }

    /// Reads all slots.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub(super) fn read(file: &HostFile, layout: &Layout) -> io::Result<Slots> {
        let mut found = [None; SLOTS as usize];
        for (slot, found) in (0..).zip(&mut found) {
            let mut bytes = [0; USED];
            file.read_exact_at(&mut bytes, layout.state + slot * STATE_SIZE)?;
            *found = State::decode(&bytes).filter(|state| state.generation % 2 == slot / 2);
        }
        Ok(Slots {
            newest: found.iter().flatten().copied().max_by_key(|state| state.generation),
            damaged: found.iter().filter(|it| it.is_none()).count() as u32,
            is_generation_lost: found.chunks(2).any(|pair| pair.iter().all(|it| it.is_none())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_model::profile::{DEFAULT, Profile};

    fn state() -> State {
        let trims = TrimPosition { log: 3, batches: 4, length: 5, chain: 6 };
        let (clock, stamp, dump, dumps_void) = (5, 9, 8, 7);
        State {
            generation: 7,
            is_clean: true,
            clock,
            stamp,
            trims,
            dump,
            dumps_void,
            ..State::new()
        }
    }

    #[test]
    fn a_state_comes_back_and_a_torn_one_does_not() {
        let state = state();
        let mut bytes = state.encode();
        assert_eq!(State::decode(&bytes), Some(state));
        for at in 0..USED {
            bytes[at] ^= 0x10;
            assert_eq!(State::decode(&bytes), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }

    #[test]
    fn each_generation_has_two_copies_and_one_that_is_lost_is_noticed() {
        let profile = Profile::named(DEFAULT).expect("the default profile");
        let layout = Layout::of(&profile.configuration().expect("a sound profile"));
        let layout = layout.expect("a sound layout");
        let file = tempfile::tempfile().expect("a file");
        file.set_len(layout.end).expect("a sparse file");
        let file = HostFile::new(std::sync::Arc::new(file));
        for generation in 6..=7 {
            State { generation, ..state() }.write(&file, &layout).expect("room");
        }
        let newest = |damaged, is_generation_lost, generation| {
            let newest = Some(State { generation, ..state() });
            assert_eq!(
                State::read(&file, &layout).expect("slots"),
                Slots { newest, damaged, is_generation_lost }
            );
        };
        newest(0, false, 7);
        let slot = |slot: u64| layout.state + slot * STATE_SIZE;
        for one in [2, 3] {
            file.write_all_at(&[0; 512], slot(one)).expect("room");
            newest(1, false, 7);
            State { generation: 7, ..state() }.write(&file, &layout).expect("room");
        }
        file.write_all_at(&[1; 4096], slot(2)).expect("room");
        file.write_all_at(&[1; 4096], slot(3)).expect("room");
        newest(2, true, 6);
    }
}
