//! How much of the image is durable, and what the image may say of it.
//!
//! Every write to the image that anything depends on takes a stamp. A sync makes durable what was written
//! up to a stamp; then the image says so ([`Store::note_durable`]), with the ends that the logs had at that
//! stamp, and only then is anything answered or taken away that depends on it.

use std::collections::VecDeque;
use std::io;

use super::Store;
use crate::image::state::State;
use crate::image::trims::TrimPosition;

/// The ends of the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// The end of the log of trims.
    pub(super) trims: TrimPosition,
    /// Generation of the latest buffer dump.
    pub(super) dump: u64,
}

/// What was written, and how much of it is durable.
#[derive(Debug)]
pub(super) struct Progress {
    stamp: u64,
    durable: u64,
    /// The ends of the logs at the durable stamp.
    ends: Ends,
    /// Where they came to later, with the stamps of that, in order.
    later: VecDeque<(u64, Ends)>,
}

impl Progress {
    /// The progress that `state` vouches for.
    pub(super) fn new(state: State) -> Progress {
        let ends = Ends { trims: state.trims, dump: state.dump };
        Progress { stamp: state.stamp, durable: state.stamp, ends, later: VecDeque::new() }
    }

    /// The latest stamp.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The stamp up to which everything is durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Notes that something was written; returns its stamp.
    pub(super) fn wrote(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Notes that a log was written to; returns the stamp of that.
    pub(super) fn wrote_log(&mut self, change: impl FnOnce(&mut Ends)) -> u64 {
        let mut ends = self.latest_ends();
        change(&mut ends);
        self.stamp += 1;
        self.later.push_back((self.stamp, ends));
        self.stamp
    }

    /// The ends of the logs, durable or not.
    pub(super) fn latest_ends(&self) -> Ends {
        self.later.back().map_or(self.ends, |&(_, ends)| ends)
    }

    /// Returns true if all of the log of trims is durable.
    pub(super) fn are_trims_durable(&self) -> bool {
        self.latest_ends().trims == self.ends.trims
    }

    /// The ends of the logs at `stamp`.
    fn ends_at(&self, stamp: u64) -> Ends {
        let until = self.later.iter().take_while(|&&(at, _)| at <= stamp);
        until.last().map_or(self.ends, |&(_, ends)| ends)
    }

    /// Notes that everything up to `stamp` is durable.
    fn confirm(&mut self, stamp: u64) {
        self.ends = self.ends_at(stamp);
        self.later.retain(|&(at, _)| at > stamp);
        self.durable = self.durable.max(stamp);
    }

    /// Goes on from what an image holds that was not closed in order.
    pub(super) fn found(&mut self, stamp: u64, durable: u64) {
        self.stamp = self.stamp.max(stamp).max(durable);
        self.durable = self.durable.max(durable);
    }

    /// Takes the logs to end where they were found to.
    pub(super) fn found_ends(&mut self, ends: Ends) {
        self.ends = ends;
        self.later.clear();
    }
}

impl Store {
    /// Returns true if all records of trims in the image are known to be durable.
    pub fn are_trims_durable(&self) -> bool {
        self.progress.are_trims_durable()
    }

    /// Returns how many writes were made to the image.
    pub fn stamp(&self) -> u64 {
        self.progress.stamp()
    }

    /// Has the image say that everything is durable that was written up to `stamp`, as it is.
    ///
    /// # Errors
    /// Returns an error if that cannot be written; nothing is believed to be durable then that was not before.
    pub(super) fn vouch(&mut self, stamp: u64) -> io::Result<()> {
        if stamp <= self.progress.durable() {
            return Ok(());
        }
        let Ends { trims, dump } = self.progress.ends_at(stamp);
        self.image.promise(State { stamp, trims, dump, ..self.image.state() })?;
        self.confirm(stamp);
        Ok(())
    }

    fn confirm(&mut self, stamp: u64) {
        self.progress.confirm(stamp);
        if let Some(undurable) = &mut self.undurable {
            undurable.forget(stamp);
        }
    }

    /// Makes everything durable that was written to the image.
    ///
    /// # Errors
    /// Returns an error if the system fails it.
    pub fn sync(&mut self) -> io::Result<()> {
        self.finish_under_way()?;
        let stamp = self.stamp();
        if self.progress.durable() < stamp {
            self.image.file().sync_data()?;
        }
        self.note_durable(stamp)
    }

    /// Writes what the image says of itself, durably, with all that was written before.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written.
    pub fn set_state(&mut self, state: State) -> io::Result<()> {
        let ends = self.progress.latest_ends();
        self.set_state_with(state, ends)
    }

    /// Writes what the image says of itself and where its logs end, durably, with all that was written
    /// before.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written; the logs end where they did then.
    pub(super) fn set_state_with(&mut self, state: State, ends: Ends) -> io::Result<()> {
        self.finish_under_way()?;
        let stamp = self.progress.wrote();
        self.image.set_state(State { stamp, trims: ends.trims, dump: ends.dump, ..state })?;
        self.progress.found_ends(ends);
        self.confirm(stamp);
        self.note_durable(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_vouches_for_the_ends_that_the_logs_had_then() {
        let mut progress = Progress::new(State::new());
        let trims = |batches| TrimPosition { batches, ..TrimPosition::default() };
        progress.wrote();
        let early = progress.wrote_log(|ends| ends.dump = 1);
        progress.wrote();
        let late = progress.wrote_log(|ends| ends.trims = trims(4));
        assert_eq!(progress.ends_at(early - 1), Ends::default());
        assert_eq!(progress.ends_at(early), Ends { dump: 1, ..Ends::default() });
        assert_eq!(progress.ends_at(late - 1), Ends { dump: 1, ..Ends::default() });
        progress.confirm(late - 1);
        assert_eq!((progress.durable(), progress.stamp()), (late - 1, late));
        assert_eq!(progress.ends_at(late), Ends { dump: 1, trims: trims(4) });
        progress.confirm(late);
        progress.confirm(early);
        assert_eq!((progress.durable(), progress.ends), (late, Ends { dump: 1, trims: trims(4) }));
    }
}
