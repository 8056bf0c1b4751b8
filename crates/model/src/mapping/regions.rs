//! Queue of regions by their number of extents, the region with the most first.
//!
//! Buckets of doubly linked lists, as in [`crate::victim`]: a region's count changes by at most
//! two with a unit, and the fullest bucket is remembered, so both operations cost O(1).

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Region {
    next: u32,
    previous: u32,
    extents: u32,
}

/// The regions of a drive.
#[derive(Clone, Debug)]
pub(crate) struct RegionQueue {
    regions: Vec<Region>,
    /// First region of each bucket, by number of extents.
    heads: Vec<u32>,
    /// Number that no region's extents exceed.
    highest: u32,
}

impl RegionQueue {
    /// Returns `regions` regions of one extent each; a region can have at most `most` extents.
    pub(crate) fn new(regions: u32, most: u32) -> RegionQueue {
        let mut queue = RegionQueue {
            regions: vec![Region { next: NONE, previous: NONE, extents: 1 }; regions as usize],
            heads: vec![NONE; most as usize + 1],
            highest: 1,
        };
        for region in (0..regions).rev() {
            queue.link(region, 1);
        }
        queue
    }

    /// Returns the number of extents of `region`.
    pub(crate) fn count(&self, region: u32) -> u32 {
        self.regions[region as usize].extents
    }

    /// Adds `after - before` to the number of extents of `region`.
    #[inline(always)]
    pub(crate) fn change(&mut self, region: u32, before: u32, after: u32) {
        let had = self.regions[region as usize].extents;
        self.unlink(region, had);
        self.link(region, had + after - before);
    }

    /// Iterates over all regions, those with the fewest extents first; of equals the one that changed last comes
    /// first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = u32> + '_ {
        let some = |region: u32| (region != NONE).then_some(region);
        self.heads.iter().flat_map(move |&head| {
            std::iter::successors(some(head), move |&it| some(self.regions[it as usize].next))
        })
    }

    /// Restores the queue from `order`, which holds each region once in the order of `in_order`, and
    /// the number of extents of each region.
    pub(crate) fn rebuild(&mut self, order: &[u32], extents: &[u32]) {
        self.heads.fill(NONE);
        for &region in order.iter().rev() {
            self.link(region, extents[region as usize]);
        }
    }

    /// Returns the region with the most extents, and their number; of equals the one that changed last.
    pub(crate) fn most(&mut self) -> (u32, u32) {
        while self.heads[self.highest as usize] == NONE {
            self.highest -= 1;
        }
        (self.heads[self.highest as usize], self.highest)
    }

    #[inline(always)]
    fn link(&mut self, region: u32, extents: u32) {
        let head = std::mem::replace(&mut self.heads[extents as usize], region);
        self.regions[region as usize] = Region { next: head, previous: NONE, extents };
        if head != NONE {
            self.regions[head as usize].previous = region;
        }
        self.highest = self.highest.max(extents);
    }

    #[inline(always)]
    fn unlink(&mut self, region: u32, extents: u32) {
        let Region { next, previous, .. } = self.regions[region as usize];
        match previous {
            NONE => self.heads[extents as usize] = next,
            _ => self.regions[previous as usize].next = next,
        }
        if next != NONE {
            self.regions[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn it_agrees_with_a_plain_search() {
        let mut generator = Pcg64Mcg::seed_from_u64(5);
        let mut queue = RegionQueue::new(20, 64);
        let mut counts = [1u32; 20];
        for _ in 0..5_000 {
            let region = generator.random_range(0..20usize);
            let after = (counts[region] + generator.random_range(0..=4)).saturating_sub(2);
            let after = after.clamp(1, 64);
            queue.change(region as u32, counts[region], after);
            counts[region] = after;
            let (region, most) = queue.most();
            assert_eq!(Some(&most), counts.iter().max());
            assert_eq!(counts[region as usize], most);
            assert_eq!(queue.count(region), most);
        }
    }
}
