//! Two temperatures: a share `r` of the writes goes to a fraction `f` of the pages.
//!
//! If hot and cold pages share blocks, they have the same age at collection, and cold pages are copied again and
//! again. If they have blocks of their own, each stream sees uniform writes and over-provisioning of its own, and
//! write amplification depends on the split of the over-provisioning. Source for both: Desnoyers, "Analytic modeling
//! of SSD write performance", SYSTOR 2012 (journal version: ACM Transactions on Storage 10, 2014).

use super::fifo::spare_for;
use super::roots::{minimum_in_unit_interval, zero_of_increasing};
use super::{ParameterError, SpareFactor};

/// A workload of hot and cold pages; within each kind, writes are uniformly random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotCold {
    hot_writes: f64,
    hot_pages: f64,
}

/// Division of the over-provisioning between a stream of hot and a stream of cold pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Spare factor of the blocks that hold hot pages.
    pub hot: SpareFactor,
    /// Spare factor of the blocks that hold cold pages.
    pub cold: SpareFactor,
}

/// Split of the over-provisioning with the least write amplification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestSplit {
    /// Spare factor of each stream.
    pub split: Split,
    /// Hot stream's share of all over-provisioning, between 0 and 1.
    pub hot_spare_share: f64,
    /// Write amplification of the two streams together.
    pub write_amplification: f64,
}

impl HotCold {
    /// Returns a workload in which a share `hot_writes` (`r`) of the writes goes to a fraction `hot_pages` (`f`) of
    /// the pages: 0.8 and 0.2 is the usual 80/20. Both lie between 1e-9 and 1 - 1e-9.
    pub fn new(hot_writes: f64, hot_pages: f64) -> Result<Self, ParameterError> {
        for share in [hot_writes, hot_pages] {
            if !(1e-9..=1.0 - 1e-9).contains(&share) {
                return Err(ParameterError::HotShare(share));
            }
        }
        Ok(HotCold { hot_writes, hot_pages })
    }

    /// Returns the write amplification of FIFO collection with hot and cold pages in the same blocks: the solution of
    /// `A = r / (1 - e^(-r alpha / (f A))) + (1-r) / (1 - e^(-(1-r) alpha / ((1-f) A)))`.
    ///
    /// For every [`SpareFactor`]. The equation has one solution. Let `t = alpha / A` be the host writes per logical
    /// page during a block's life, and `z / (1 - e^-z) - 1` the spare of pages that are rewritten `z` times, with
    /// `z = t r / f` and `t (1-r) / (1-f)` for hot and cold pages. The equation says that this spare, averaged over
    /// all pages, is the spare of the drive; the average rises with `t`.
    pub fn fifo_one_stream(self, spare: SpareFactor) -> f64 {
        let (cold_writes, cold_pages) = (1.0 - self.hot_writes, 1.0 - self.hot_pages);
        let excess = |t: f64| {
            self.hot_pages * spare_for(t * self.hot_writes / self.hot_pages)
                + cold_pages * spare_for(t * cold_writes / cold_pages)
                - spare.spare_of_logical()
        };
        // The spare needed is between half of t and t, and A is at least 1.
        let least = spare.spare_of_logical();
        let most = spare.alpha().min(2.0 * least);
        spare.alpha() / zero_of_increasing(excess, least, most)
    }

    /// Returns the spare factors of two streams if the hot one has the share `hot_spare_share`, between 0 and 1, of
    /// all over-provisioning: `f alpha_h + (1-f) alpha_c = alpha`.
    pub fn split(self, spare: SpareFactor, hot_spare_share: f64) -> Result<Split, ParameterError> {
        if !(hot_spare_share > 0.0 && hot_spare_share < 1.0) {
            return Err(ParameterError::HotSpareShare(hot_spare_share));
        }
        let split = self.split_unchecked(spare, hot_spare_share);
        Ok(Split {
            hot: SpareFactor::from_spare_of_logical(split.hot.spare_of_logical())?,
            cold: SpareFactor::from_spare_of_logical(split.cold.spare_of_logical())?,
        })
    }

    /// Returns the write amplification with hot and cold pages in streams of their own:
    /// `A = r A(alpha_h) + (1-r) A(alpha_c)`, with `policy` for the `A` of a uniformly written stream.
    pub fn separate_streams(self, split: Split, policy: impl Fn(SpareFactor) -> f64) -> f64 {
        self.hot_writes * policy(split.hot) + (1.0 - self.hot_writes) * policy(split.cold)
    }

    /// Returns the split of the over-provisioning with the least [`separate_streams`](Self::separate_streams), if
    /// `policy` falls ever more slowly as the spare grows, as every policy here does.
    ///
    /// With little spare the split is near `sqrt(r f) : sqrt((1-r)(1-f))` for all policies, since then `A` is
    /// proportional to one over the spare. Calls `policy` about 80 times.
    pub fn best_split(self, spare: SpareFactor, policy: impl Fn(SpareFactor) -> f64) -> BestSplit {
        let amplification =
            |share| self.separate_streams(self.split_unchecked(spare, share), &policy);
        let hot_spare_share = minimum_in_unit_interval(amplification);
        BestSplit {
            split: self.split_unchecked(spare, hot_spare_share),
            hot_spare_share,
            write_amplification: amplification(hot_spare_share),
        }
    }

    fn split_unchecked(self, spare: SpareFactor, hot_spare_share: f64) -> Split {
        let spare = spare.spare_of_logical();
        let cold_spare_share = 1.0 - hot_spare_share;
        Split {
            hot: SpareFactor::from_positive_spare(spare * hot_spare_share / self.hot_pages),
            cold: SpareFactor::from_positive_spare(
                spare * cold_spare_share / (1.0 - self.hot_pages),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{fifo, random};
    use super::*;

    fn spare(of_logical: f64) -> SpareFactor {
        SpareFactor::from_spare_of_logical(of_logical).unwrap()
    }

    #[test]
    fn pages_of_one_temperature_are_uniform() {
        for of_logical in [1e-9, 0.07, 0.5, 100.0] {
            let uniform = fifo::write_amplification(spare(of_logical));
            let mixed = HotCold::new(0.3, 0.3).unwrap();
            let one = mixed.fifo_one_stream(spare(of_logical));
            assert!((one / uniform - 1.0).abs() < 1e-9);
            let best = mixed.best_split(spare(of_logical), fifo::write_amplification);
            assert!((best.write_amplification / uniform - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_answer_satisfies_the_published_equation() {
        for (r, f, of_logical) in [(0.8, 0.2, 0.07), (0.95, 0.01, 0.28), (0.999, 0.5, 0.01)] {
            let a = HotCold::new(r, f).unwrap().fifo_one_stream(spare(of_logical));
            let alpha = 1.0 + of_logical;
            let hot = r / (1.0 - (-r * alpha / (f * a)).exp());
            let cold = (1.0 - r) / (1.0 - (-(1.0 - r) * alpha / ((1.0 - f) * a)).exp());
            assert!(((hot + cold) / a - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_best_split_of_random_collection_is_the_square_root_rule() {
        // With A = alpha / (alpha - 1) the rule is exact: A - 1 is one over the spare.
        let mixed = HotCold::new(0.9, 0.05).unwrap();
        let best = mixed.best_split(spare(0.2), random::write_amplification);
        let (hot, cold) = ((0.9f64 * 0.05).sqrt(), (0.1f64 * 0.95).sqrt());
        assert!((best.hot_spare_share - hot / (hot + cold)).abs() < 1e-6);
    }

    #[test]
    fn a_split_keeps_all_the_spare() {
        let mixed = HotCold::new(0.8, 0.2).unwrap();
        let split = mixed.split(spare(0.07), 0.4).unwrap();
        let alpha = 0.2 * split.hot.alpha() + 0.8 * split.cold.alpha();
        assert!((alpha - 1.07).abs() < 1e-12);
    }

    #[test]
    fn shares_outside_their_range_are_refused() {
        assert_eq!(HotCold::new(0.0, 0.2), Err(ParameterError::HotShare(0.0)));
        assert_eq!(HotCold::new(0.8, 1.0), Err(ParameterError::HotShare(1.0)));
        assert!(HotCold::new(f64::NAN, 0.2).is_err());
        let mixed = HotCold::new(0.8, 0.2).unwrap();
        assert!(mixed.split(spare(0.07), 0.0).is_err());
        assert!(mixed.split(spare(0.07), 1.0).is_err());
    }
}
