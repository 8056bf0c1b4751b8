//! Static allocation: a unit is written to the group of dies that follows from its logical address.
//!
//! Consecutive flash pages of logical addresses go to consecutive groups. Each group has an open program unit of its
//! own, so that the write buffer has to survive a power cut, and free blocks, victims and copies are those of one
//! group: garbage collection takes its victims from the group that has the fewest free blocks, and copies stay in
//! their group. A group that is out of blocks (many of them may have gone bad) has its data written to others.

use std::ops::Range;

use super::{Context, Ftl};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::streams::StreamId;
use crate::units::{BlockIndex, LogicalUnit};

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Makes the group of dies of `unit` the one that the host's active stream fills. Returns the first unit after
    /// `unit` that belongs to another group.
    pub(super) fn select_group_of(&mut self, unit: LogicalUnit) -> LogicalUnit {
        let per_page = self.geometry.units_per_page();
        let page = unit.0 / per_page;
        self.select_host_group(page % self.geometry.groups());
        LogicalUnit((page + 1).saturating_mul(per_page))
    }

    /// Makes `group` the one that the host's active stream fills.
    pub(super) fn select_host_group(&mut self, group: u32) {
        let streams = self.streams.as_ref();
        let stream = streams.map_or(StreamId::default(), |streams| streams.active());
        self.placement.select_group(stream, group);
    }

    /// Makes a group that has room the one that the host fills, if the selected group has none.
    pub(super) fn select_group_with_room(&mut self) {
        let frontier = self.placement.frontier();
        let selected = frontier.group();
        let has_room =
            |group: u32| frontier.has_open_block(group) || self.blocks.free_of(group) > 0;
        let groups = self.geometry.groups();
        let group = (selected..groups).chain(0..selected).find(|&group| has_room(group));
        self.select_host_group(group.expect("some group has a free block"));
    }

    /// Returns the group with the fewest blocks that are free or reclaimed, and their number.
    pub(super) fn scarcest_group(&self) -> (u32, u32) {
        let blocks =
            |group| self.blocks.free_of(group) + self.collector.reclaimed_of(group, &self.geometry);
        let groups = (0..self.geometry.groups()).map(|group| (group, blocks(group)));
        groups.min_by_key(|&(_, blocks)| blocks).expect("a drive has a group of dies")
    }

    /// Returns true if the copies of `victim` go to another group than those before.
    pub(super) fn copies_change_group(&self, victim: BlockIndex) -> bool {
        self.placement.is_static()
            && self.geometry.group_of(victim) != self.collector.frontier.group()
    }

    /// Returns true if `units` copies have no place in their group of dies, and one of its blocks is reclaimed and
    /// waits to be erased.
    pub(super) fn is_group_of_copies_short(&self, units: u32) -> bool {
        let frontier = self.collector.frontier();
        let group = frontier.group();
        !frontier.can_take_in_group(units)
            && self.blocks.free_of(group) == 0
            && self.collector.reclaimed_of(group, &self.geometry) > 0
    }

    /// Takes the victim of the group that needs a block most. If no block of that group yields free space, takes a
    /// victim of any group, but only while the drive as a whole is short of blocks.
    pub(super) fn take_victim_of_group(&mut self) -> Option<(BlockIndex, u32)> {
        let full = self.geometry.units_per_block();
        let size = self.geometry.blocks_per_group();
        if self.collector.fruitless <= size {
            let group = self.collector.wanted_group.unwrap_or_else(|| self.scarcest_group().0);
            let within: Range<u32> = group * size..(group + 1) * size;
            if let Some((block, valid)) = self.take_victim_that_fits(Some(&within)) {
                if valid < full {
                    self.collector.fruitless = 0;
                    return Some((block, valid));
                }
                if !self.collector.seeks_gain {
                    self.collector.fruitless += 1;
                    return Some((block, valid));
                }
                self.blocks.table_mut().put_back_victim(block);
            }
        }
        self.collector.fruitless = 0;
        let is_short = self.blocks.free() + self.collector.reclaimed() < self.collector.low_water;
        if is_short { self.take_victim_that_fits(None) } else { None }
    }

    /// Collects in the group that the host is about to take a block of, until collection has its reserve there and
    /// one block is left, or nothing more is to be gained.
    pub(super) fn reclaim_block_of_group(&mut self, context: &mut Context<'_>) {
        let group = self.placement.frontier().group();
        let kept = self.collector.reserve / self.geometry.groups();
        if self.blocks.free_of(group) > kept {
            return;
        }
        self.collector.wanted_group = Some(group);
        for _ in 0..2 * self.geometry.blocks_per_group() {
            if self.blocks.free_of(group) > kept {
                break;
            }
            let has_reclaimed = self.collector.reclaimed() > 0;
            if self.is_oldest_reclaimed_copied()
                || has_reclaimed && !self.has_worthwhile_victim(context.nand)
            {
                self.free_oldest_reclaimed(context);
            } else if self.has_worthwhile_victim(context.nand) {
                self.complete_victim(context);
            } else {
                break;
            }
        }
        self.collector.wanted_group = None;
    }
}

#[cfg(test)]
mod tests {
    use crate::ftl::Ssd;
    use crate::ssd::tests::{small_configuration, worn};
    use crate::units::{BlockIndex, LogicalUnit};

    fn drive(allocation: &str, changes: &[(&str, &str)]) -> Ssd {
        let single = [
            ("collection.unit", "block"),
            ("controller.power_loss_protection", "on"),
            ("collection.allocation", allocation),
            ("flash.pages_per_block", "24"),
            ("capacity.logical", "256M"),
            ("capacity.physical", "384M"),
        ];
        let configuration = small_configuration(&[&single[..], changes].concat());
        Ssd::new(&configuration).expect("a sound drive")
    }

    /// Returns the number of units that lie on another group of dies than their addresses say.
    fn elsewhere(ssd: &Ssd) -> usize {
        let geometry = ssd.geometry();
        let is_elsewhere = |unit: &LogicalUnit| {
            let home = unit.0 / geometry.units_per_page() % geometry.groups();
            let place = ssd.place_of(*unit).expect("all units were written");
            geometry.group_of(geometry.block_of(place)) != home
        };
        (0..geometry.logical_units()).map(LogicalUnit).filter(is_elsewhere).count()
    }

    #[test]
    fn data_stays_on_the_dies_that_its_addresses_name() {
        let units = drive("static", &[]).geometry().logical_units();
        let fixed = worn(drive("static", &[]), units);
        let free = worn(drive("dynamic", &[]), units);
        assert_eq!(elsewhere(&fixed), 0);
        assert!(elsewhere(&free) > units as usize / 2);
        let amplification = |ssd: &Ssd| ssd.counters().write_amplification().expect("writes");
        let (fixed, free) = (amplification(&fixed), amplification(&free));
        // Half of a program unit is padding when collection turns to another group, and a block has eight.
        assert!(free > 1.5 && (1.0..1.12).contains(&(fixed / free)), "{fixed} and {free}");
    }

    #[test]
    fn requests_to_one_page_wear_one_group_of_dies() {
        let ssd = worn(drive("static", &[]), 4);
        assert_eq!(elsewhere(&ssd), 0);
        let mut of_groups = vec![0; ssd.geometry().groups() as usize];
        for block in (0..ssd.geometry().blocks()).map(BlockIndex) {
            of_groups[ssd.geometry().group_of(block) as usize] +=
                ssd.ftl.blocks.table().erases(block);
        }
        assert!(
            of_groups[0] > 50 && of_groups[1..].iter().all(|&erases| erases == 0),
            "{of_groups:?}"
        );
    }
}
