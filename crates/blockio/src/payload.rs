//! Payload of the requests of a phase: memory for reads, and blocks for writes, whose data is made before
//! the phase begins ([`PremadeBlocks`]).

use std::collections::VecDeque;

use ssdlab_drive::phase::{Mix, Phase};
use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, KIB};

use super::buffers::Buffers;
use super::phase_runner::Request;
use crate::data::BlockData;
use crate::data::premade::PremadeBlocks;

/// Least memory of the blocks for writes, which are used by turns. More memory makes the data more
/// varied, but less of it stays in the processor's caches, which shows on drives in memory (zram takes a
/// tenth longer with 1 MiB of blocks, and not measurably longer with this size).
const WRITE_MEMORY_MIN: ByteLength = ByteLength::new(KIB.bytes() * 128);

/// Memory of the requests of a phase.
pub(super) struct Payload {
    buffers: Buffers,
    /// Number of buffers at the beginning that are for reads; those behind them hold blocks to be
    /// written.
    reads: u32,
    premade: PremadeBlocks,
    /// Blocks that no request uses, the longest unused first.
    free: VecDeque<u32>,
}

/// Block that a write in flight uses; `None` for a read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteBlock(Option<u32>);

impl Payload {
    /// Makes the payload of a phase with one sender. `sequence` is the number of its first write: phases
    /// that begin with different numbers never write the same data.
    pub(super) fn new(
        data: &BlockData,
        phase: &Phase,
        sequence: u64,
    ) -> Result<Payload, DriveError> {
        Payload::part_of(data, phase, phase.depth, [sequence, 0, 1])
    }

    /// Makes the payloads of `threads` threads that have one request in flight each.
    pub(super) fn for_threads(
        data: &BlockData,
        phase: &Phase,
        sequence: u64,
        threads: u32,
    ) -> Result<Vec<Payload>, DriveError> {
        let threads = u64::from(threads);
        (0..threads).map(|one| Payload::part_of(data, phase, 1, [sequence, one, threads])).collect()
    }

    /// Makes payload number `one` of the `all` payloads of a phase, for `depth` requests in flight.
    fn part_of(
        data: &BlockData,
        phase: &Phase,
        depth: u32,
        [sequence, one, all]: [u64; 3],
    ) -> Result<Payload, DriveError> {
        let length = phase.block_size;
        let reads = if phase.mix == Mix::WRITE { 0 } else { depth };
        let writes = if phase.mix == Mix::READ {
            0
        } else {
            let memory = WRITE_MEMORY_MIN.bytes() / all;
            depth.max(memory.div_ceil(length.bytes()) as u32)
        };
        let mut buffers = Buffers::new(reads + writes, length)?;
        let number = sequence.wrapping_mul(all) + one;
        let premade = PremadeBlocks::new(data, number, writes as usize, length.bytes() as usize);
        for block in 0..writes {
            premade.make(data, block as usize, buffers.get(reads + block));
        }
        Ok(Payload { buffers, reads, premade, free: (0..writes).collect() })
    }

    /// Returns the length of each request.
    pub(super) fn length(&self) -> ByteLength {
        self.buffers.length()
    }

    /// Returns all the memory, to register it with the kernel.
    #[cfg(target_os = "linux")]
    pub(super) fn whole(&self) -> (*mut u8, usize) {
        self.buffers.whole()
    }

    /// Returns the buffer for a request in `slot`: the slot's own for a read, or a block with the data to
    /// be written. The buffer belongs to the request until the block is given back.
    ///
    /// # Panics
    /// Panics if more requests are in flight than the payload was made for.
    #[inline]
    pub(super) fn take_buffer(&mut self, request: &Request, slot: u32) -> (&mut [u8], WriteBlock) {
        if request.is_read {
            assert!(slot < self.reads, "there is no buffer to read into in slot {slot}");
            return (self.buffers.get(slot), WriteBlock(None));
        }
        let block = self.free.pop_front().expect("there are as many blocks as requests");
        let buffer = self.buffers.get(self.reads + block);
        self.premade.renew(block as usize, buffer, request.offset.bytes(), request.sequence);
        (buffer, WriteBlock(Some(block)))
    }

    /// Takes back the block of a request that was answered.
    #[inline]
    pub(super) fn release(&mut self, block: WriteBlock) {
        self.free.extend(block.0);
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::phase::{Amount, Pattern, Region};
    use ssdlab_units::Nanoseconds;

    use super::*;

    fn phase(mix: Mix, depth: u32, block_size: ByteLength) -> Phase {
        Phase {
            name: "test".into(),
            pattern: Pattern::Random,
            block_size,
            depth,
            mix,
            region: Region::first(block_size),
            amount: Amount::Bytes(block_size),
            rate: None,
            seed: 1,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    fn request(is_read: bool, sequence: u64) -> Request {
        Request { offset: ByteLength::ZERO, is_read, sequence, intended: None }
    }

    #[test]
    fn blocks_are_written_by_turns_and_never_while_one_carries_them() {
        let data = BlockData::new(1);
        let mut payload = Payload::new(&data, &phase(Mix::WRITE, 4, KIB * 4), 0).unwrap();
        let mut order = Vec::new();
        let held = payload.take_buffer(&request(false, 0), 0).1;
        for sequence in 1..64 {
            let (buffer, block) = payload.take_buffer(&request(false, sequence), 1);
            assert_eq!(data.verify(buffer, ByteLength::ZERO), Ok((sequence, sequence)));
            order.push(block.0.unwrap());
            payload.release(block);
        }
        assert!(!order.contains(&held.0.unwrap()));
        assert_eq!((order[0], order[30], order[31]), (1, 31, 1));
    }

    #[test]
    fn reads_never_touch_what_is_to_be_written() {
        let data = BlockData::new(1);
        let mixed = Mix { read_percent: 50 };
        for length in [ByteLength::new(512), KIB * 4, KIB * 1024] {
            let mut payload = Payload::new(&data, &phase(mixed, 8, length), 0).unwrap();
            for slot in 0..8 {
                payload.take_buffer(&request(true, 0), slot).0.fill(0);
            }
            for sequence in 0..300 {
                let (buffer, block) = payload.take_buffer(&request(false, sequence), 0);
                assert_eq!(data.verify(buffer, ByteLength::ZERO), Ok((sequence, sequence)));
                payload.release(block);
            }
        }
    }

    #[test]
    fn phases_and_threads_with_one_seed_write_nothing_twice() {
        let data = BlockData::new(1);
        let phase = phase(Mix::WRITE, 4, KIB * 4);
        let mut all = Payload::for_threads(&data, &phase, 0, 4).unwrap();
        all.push(Payload::new(&data, &phase, 1000).unwrap());
        let mut words = std::collections::HashSet::new();
        for payload in &mut all {
            // Behind the stamp, which would differ even if nothing else did.
            let (buffer, _) = payload.take_buffer(&request(false, 7), 0);
            assert!(buffer[64..512].chunks_exact(8).all(|word| words.insert(word.to_vec())));
        }
    }
}
