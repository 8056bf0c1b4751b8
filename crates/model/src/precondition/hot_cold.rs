//! Hot and cold units in one stream under FIFO: the content of blocks by age.

use std::collections::VecDeque;

use rand_pcg::Pcg64Mcg;

use super::plan::{BlockContent, binomial};
use ssdlab_theory::SpareFactor;
use ssdlab_theory::hot_cold::HotCold;

/// Hot and cold units under FIFO with one stream. A unit of a class that gets share `r` of the writes and is fraction
/// `f` of all units survives to share `t` of its block's way with probability `e^(-t r alpha / (f A))` (Desnoyers,
/// SYSTOR 2012; see `theory::hot_cold`).
///
/// That gives the number of units of each age, but not their blocks: the units that survive a block are colder than
/// the block was, and garbage collection writes them to one block or two, so that blocks differ the more the more
/// often their units were moved. So the queue of blocks is simulated in expectation, block by block, until cold units
/// have been rewritten.
pub(super) struct HotColdByAge {
    pub(super) amplification: f64,
    hot_written: f64,
    pub(super) hot_collected: f64,
    /// Rates at which hot and cold units are overwritten during the way of a block.
    dies: [f64; 2],
}

/// Lives of a cold unit to simulate, until the initial queue of blocks is forgotten.
const LIVES: f64 = 8.0;

/// Largest number of blocks closed in the simulation.
const CLOSED_MAX: f64 = 1e8;

/// Expected content of a block.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// Shares of its units that were hot and cold when the block was closed.
    units: [f64; 2],
    /// Number of blocks that had been closed when this block was closed.
    closed: f64,
}

impl HotColdByAge {
    pub(super) fn new(theory: HotCold, writes: f64, pages: f64, spare: SpareFactor) -> Self {
        let amplification = theory.fifo_one_stream(spare);
        let dies = |r: f64, f: f64| r * spare.alpha() / (f * amplification);
        let dies = [dies(writes, pages), dies(1.0 - writes, 1.0 - pages)];
        // Share of hot units among all programmed units; the formula says that the shares of hot and cold units add
        // up to one.
        let hot = writes / amplification / -(-dies[0]).exp_m1();
        let collected = 1.0 - 1.0 / amplification;
        let hot_collected = if collected > 0.0 {
            ((hot - writes / amplification) / collected).clamp(0.0, 1.0)
        } else {
            writes
        };
        HotColdByAge { amplification, hot_written: writes, hot_collected, dies }
    }

    /// Returns the shares of a block's units that survive when `closed` blocks have been closed, in a queue of
    /// `blocks`.
    fn living(&self, block: Expected, closed: f64, blocks: f64) -> [f64; 2] {
        let way = (closed - block.closed) / blocks;
        std::array::from_fn(|class| block.units[class] * (-self.dies[class] * way).exp())
    }

    /// Returns the queue of blocks in expectation, oldest first, and the number of blocks closed.
    fn queue(&self, blocks: u32) -> (VecDeque<Expected>, f64) {
        let length = f64::from(blocks);
        let by = |hot: f64, closed: f64| Expected { units: [hot, 1.0 - hot], closed };
        // The queue starts with host blocks and copy blocks in their average proportion.
        let mut by_host = 0.0;
        let mut queue: VecDeque<Expected> = (0..blocks)
            .map(|block| {
                by_host += 1.0 / self.amplification;
                let hot = if by_host >= 1.0 { self.hot_written } else { self.hot_collected };
                by_host -= f64::from(u8::from(by_host >= 1.0));
                by(hot, f64::from(block))
            })
            .collect();
        let mut closed = length;
        let (mut copies, mut host) = ([0.0; 2], 0.0);
        let slowest = self.dies[0].min(self.dies[1]);
        let until = (length * (1.0 + LIVES / slowest)).min(CLOSED_MAX);
        while closed < until {
            // The units that survive in a victim fill the block of copies, and the host writes as many units to its
            // own block as the victim gains.
            let victim = queue.pop_front().expect("the queue is never empty");
            let living = self.living(victim, closed, length);
            let all = living[0] + living[1];
            let fits = ((1.0 - copies[0] - copies[1]) / all).min(1.0);
            for class in 0..2 {
                copies[class] += living[class] * fits;
            }
            if fits < 1.0 {
                queue.push_back(Expected { units: copies, closed });
                copies = living.map(|living| living * (1.0 - fits));
                closed += 1.0;
            }
            host += 1.0 - all;
            if host >= 1.0 {
                queue.push_back(by(self.hot_written, closed));
                host -= 1.0;
                closed += 1.0;
            }
        }
        // The length of the queue is off by one block now and then.
        while queue.len() > blocks as usize {
            queue.pop_front();
        }
        while queue.len() < blocks as usize {
            queue.push_back(by(self.hot_written, closed));
        }
        (queue, closed)
    }

    pub(super) fn held(&self, blocks: u32, b: u32, generator: &mut Pcg64Mcg) -> Vec<BlockContent> {
        let (queue, closed) = self.queue(blocks);
        let block = |block: &Expected| {
            let [hot, cold] = self.living(*block, closed, f64::from(blocks));
            let all = binomial(b, (hot + cold).min(1.0), generator);
            let hot = binomial(all, hot / (hot + cold), generator);
            BlockContent { hot, cold: all - hot, ..BlockContent::default() }
        };
        queue.iter().map(block).collect()
    }

    /// Returns the first `units` units of a block of which the share `hot` is hot.
    pub(super) fn open(&self, units: u32, hot: f64) -> BlockContent {
        let hot = (f64::from(units) * hot).round() as u32;
        BlockContent { hot, cold: units - hot, ..BlockContent::default() }
    }
}
