//! Room to copy to, when there is little: what a power cut must leave of it, and how it is made after
//! one.
//!
//! A cut tears the programs that are under way. So the last places are not filled with what is left
//! without a place then, while its source cannot be erased either.

use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::policy::VictimPolicy;
use crate::ssd::Ssd;
use crate::units::{BlockIndex, Instant};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// The policy's next victim; or, where a power cut could leave too few places for what is valid
    /// on it, the next for which they are enough. Greedy has none that holds less.
    pub(super) fn take_victim_with_room(&mut self) -> Option<(BlockIndex, u32)> {
        let (block, valid) = self.flash.take_victim()?;
        if self.collector.policy == VictimPolicy::Greedy {
            return Some((block, valid));
        }
        let room = self.room_after_cut();
        if valid <= room {
            return Some((block, valid));
        }
        let Some(other) = self.flash.take_victim_below(room + 1) else {
            return Some((block, valid));
        };
        self.flash.put_back_victim(block);
        Some(other)
    }

    /// Units that can be copied although a power cut tears a program on each die they go to: what
    /// they are copied from is needed again then, and is the only block that can be erased. Any
    /// number, while there are two blocks to copy to.
    pub(crate) fn room_after_cut(&self) -> u32 {
        let erased = self.free.len() + self.collector.copies.emptied();
        if erased > 1 {
            return u32::MAX;
        }
        let torn = self.geometry.units_per_program() * self.geometry.stripe();
        let room =
            self.collector.stream.room_in_blocks() + erased * self.geometry.units_per_block();
        room.saturating_sub(torn)
    }

    /// After a power cut: makes sure that the host can take a block while collection keeps its
    /// reserve, but nothing can be relied on, and the block with the fewest valid units comes first,
    /// whatever the policy. Returns when that is so, on the flash as well: at `at`, where there is room.
    /// If it cannot be done, the units that are left to copy to and those to be copied.
    pub(crate) fn make_room_for_host(&mut self, at: Instant) -> Result<Instant, (u32, u32)> {
        let now = self.resources.now();
        let reserved = self.slc.as_ref().map_or(0, |slc| slc.reserved());
        let blocks = self.geometry.blocks();
        for step in 0..4 * blocks {
            if self.free.len() > self.collector.reserve + reserved {
                return Ok(if step == 0 { at } else { self.room_is_there_at(at) });
            }
            let fewest = self.fewest_valid();
            let room = self.room_for_copies();
            let copied = self.is_oldest_emptied_copied();
            let emptied = self.collector.copies.emptied() > 0;
            // What the host was to fill further is the last resort, when no block can be erased or
            // nothing is gained by that: a program unit is padded for each, and what is valid on one
            // block may fill another. One may stay in part empty, too, when copies go on there.
            let is_last_resort = !emptied || step >= 2 * blocks;
            let most = (room + self.host.room_in_blocks())
                .saturating_sub(self.geometry.units_per_program() - 1)
                .max(room);
            match fewest {
                Some((block, valid))
                    if !copied && (valid <= room || is_last_resort && valid <= most) =>
                {
                    self.flash.remove_victim(block);
                    self.begin_victim(block, valid);
                    while !self.finish_victim_if_empty() {
                        if valid > room {
                            self.take_over_from_host();
                        }
                        self.collect_program_unit(now);
                    }
                }
                _ if emptied => self.erase_oldest_emptied(),
                _ => return Err((most, fewest.map_or(0, |(_, valid)| valid))),
            }
        }
        Err((self.room_for_copies(), self.geometry.units_per_block()))
    }

    /// When the blocks that were freed can be written to. Until then what they held may be needed
    /// again: the host would fill the last block that is erased meanwhile, and leave none to copy to if
    /// power is cut once more.
    fn room_is_there_at(&mut self, at: Instant) -> Instant {
        self.pay_all_debt();
        self.resources.idle_from().max(at)
    }

    /// Has copies fill the blocks that the host was to fill further, when there is room for a
    /// program unit of them nowhere else.
    fn take_over_from_host(&mut self) {
        let units = self.geometry.units_per_program();
        if !self.free.is_empty() || self.collector.stream.can_take(units) {
            return;
        }
        if self.is_copying() {
            self.pad_collection_program();
        }
        for (group, block, programs) in self.host.give_up_blocks() {
            self.flash.set_state(block, BlockState::OpenForCollection);
            self.collector.stream.go_on(group, block, programs);
        }
    }

    /// The closed block with the fewest valid units; walks all of them.
    fn fewest_valid(&self) -> Option<(BlockIndex, u32)> {
        let blocks = (0..self.geometry.blocks()).map(BlockIndex);
        blocks
            .filter(|&block| self.flash.state(block) == BlockState::Closed)
            .map(|block| (block, self.flash.valid(block)))
            .min_by_key(|&(_, valid)| valid)
    }

    /// Units that can be copied before a block has to be erased.
    fn room_for_copies(&self) -> u32 {
        let in_free_blocks = self.free.len() * self.geometry.units_per_block();
        self.collector.stream.room_in_blocks() + in_free_blocks
    }
}
