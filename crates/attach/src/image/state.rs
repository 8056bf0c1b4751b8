//! What an image says of itself: whether it was closed in order, and what goes with that.

use std::io;

use super::host::HostFile;
use super::layout::{Layout, STATE_SIZE};

const MAGIC: u64 = u64::from_le_bytes(*b"SSDSTATE");

/// Bytes that are used: nine numbers and the checksum.
const USED: usize = 9 * 8 + 4;

/// A state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How many states were written before; the larger of two is the newer.
    pub generation: u64,
    /// Whether the checkpoint holds: nothing was written since.
    pub is_clean: bool,
    /// The drive's clock when this was written, in nanoseconds.
    pub clock: u64,
    /// Bytes of the checkpoint; zero when there is none.
    pub checkpoint_length: u64,
    /// Checksum of the checkpoint.
    pub checkpoint_sum: u32,
    /// Which trim log is in use, and the number that its batches carry: the log's number modulo two
    /// is its place.
    pub trim_log: u64,
    /// How often the image was attached.
    pub attached: u64,
    /// The largest stamp of any program unit when this was written.
    pub stamp: u64,
}

impl State {
    /// That of a new image.
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
            self.trim_log,
            self.attached,
            self.stamp,
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
            trim_log: number(6),
            attached: number(7),
            stamp: number(8),
        })
    }

    pub(super) fn write(&self, file: &HostFile, layout: &Layout) -> io::Result<()> {
        let place = layout.state + (self.generation % 2) * STATE_SIZE;
        file.write_all_at(&self.encode(), place)
    }

    /// The newer of the two that can be read.
    pub(super) fn read(file: &HostFile, layout: &Layout) -> io::Result<Option<State>> {
        let mut newest: Option<State> = None;
        for place in 0..2 {
            let mut bytes = [0; USED];
            file.read_exact_at(&mut bytes, layout.state + place * STATE_SIZE)?;
            let found = State::decode(&bytes);
            newest = newest.into_iter().chain(found).max_by_key(|state| state.generation);
        }
        Ok(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_a_torn_one_does_not() {
        let state = State { generation: 7, is_clean: true, clock: 5, stamp: 9, ..State::new() };
        let mut bytes = state.encode();
        assert_eq!(State::decode(&bytes), Some(state));
        for at in 0..USED {
            bytes[at] ^= 0x10;
            assert_eq!(State::decode(&bytes), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }
}
