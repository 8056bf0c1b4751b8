//! Durability of the image: stamps of writes, and the promise mark in the state.
//!
//! Every write to the image that something depends on takes a stamp. A sync makes everything durable up to a
//! stamp. Then the image records that ([`Store::note_durable`]), with the ends of its logs at that stamp. Only
//! then are requests answered, or data removed, that depend on it.

use std::collections::VecDeque;
use std::io;

use super::Store;
use crate::image::state::State;
use crate::image::trims::TrimPosition;

/// Ends of the log of trims and of the buffer dumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogEnds {
    /// End of the log of trims.
    pub(super) trims: TrimPosition,
    /// Generation of the latest buffer dump.
    pub(super) dump: u64,
}

/// The latest stamp, and the stamp up to which everything is durable.
#[derive(Debug)]
pub(super) struct Stamps {
    stamp: u64,
    durable: u64,
    /// Ends of the logs at the durable stamp.
    ends: LogEnds,
    /// Later ends of the logs with their stamps, the smallest first.
    later: VecDeque<(u64, LogEnds)>,
}

impl Stamps {
    /// Returns the progress that `state` vouches for.
    pub(super) fn new(state: State) -> Stamps {
        let ends = LogEnds { trims: state.trims, dump: state.dump };
        Stamps { stamp: state.stamp, durable: state.stamp, ends, later: VecDeque::new() }
    }

    /// Returns the latest stamp.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns the stamp up to which everything is durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Notes a write to the image; returns its stamp.
    pub(super) fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Notes a write to a log, whose new end `change` sets; returns its stamp.
    pub(super) fn next_log_stamp(&mut self, change: impl FnOnce(&mut LogEnds)) -> u64 {
        let mut ends = self.latest_ends();
        change(&mut ends);
        self.stamp += 1;
        self.later.push_back((self.stamp, ends));
        self.stamp
    }

    /// Returns the ends of the logs, durable or not.
    pub(super) fn latest_ends(&self) -> LogEnds {
        self.later.back().map_or(self.ends, |&(_, ends)| ends)
    }

    /// Returns true if all of the log of trims is durable.
    pub(super) fn are_trims_durable(&self) -> bool {
        self.latest_ends().trims == self.ends.trims
    }

    /// Returns the ends of the logs at `stamp`.
    fn ends_at(&self, stamp: u64) -> LogEnds {
        let until = self.later.iter().take_while(|&&(at, _)| at <= stamp);
        until.last().map_or(self.ends, |&(_, ends)| ends)
    }

    /// Notes that everything up to `stamp` is durable.
    fn mark_durable(&mut self, stamp: u64) {
        self.ends = self.ends_at(stamp);
        self.later.retain(|&(at, _)| at > stamp);
        self.durable = self.durable.max(stamp);
    }

    /// Raises the latest and the durable stamp to those found in an image that was not closed in order.
    pub(super) fn raise_to(&mut self, stamp: u64, durable: u64) {
        self.stamp = self.stamp.max(stamp).max(durable);
        self.durable = self.durable.max(durable);
    }

    /// Sets the ends of the logs to those found in the image.
    pub(super) fn set_log_ends(&mut self, ends: LogEnds) {
        self.ends = ends;
        self.later.clear();
    }
}

impl Store {
    /// Returns true if all trim records in the image are known to be durable.
    pub fn are_trims_durable(&self) -> bool {
        self.stamps.are_trims_durable()
    }

    /// Returns the latest stamp: the number of writes to the image so far.
    pub fn stamp(&self) -> u64 {
        self.stamps.stamp()
    }

    /// Records in the image that everything up to `stamp` is durable. The caller has made it durable.
    ///
    /// # Errors
    /// Returns an error if the state cannot be written; then the durable stamp stays as it was.
    pub(super) fn record_durable(&mut self, stamp: u64) -> io::Result<()> {
        if stamp <= self.stamps.durable() {
            return Ok(());
        }
        let LogEnds { trims, dump } = self.stamps.ends_at(stamp);
        self.image.write_promise_mark(State { stamp, trims, dump, ..self.image.state() })?;
        self.mark_durable(stamp);
        Ok(())
    }

    fn mark_durable(&mut self, stamp: u64) {
        self.stamps.mark_durable(stamp);
        if let Some(undurable) = &mut self.undurable {
            undurable.forget(stamp);
        }
    }

    /// Makes all writes to the image durable, and removes data that is needed no longer.
    ///
    /// # Errors
    /// Returns an error if the sync fails, or if the state cannot be written.
    pub fn sync(&mut self) -> io::Result<()> {
        self.finish_step()?;
        let stamp = self.stamp();
        if self.stamps.durable() < stamp {
            self.image.file().sync_data()?;
        }
        self.note_durable(stamp)
    }

    /// Writes the state of the image, durably, with all earlier writes.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written.
    pub fn set_state(&mut self, state: State) -> io::Result<()> {
        let ends = self.stamps.latest_ends();
        self.set_state_with(state, ends)
    }

    /// Writes the state of the image and the ends of its logs, durably, with all earlier writes.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written; then the ends of the logs stay as they were.
    pub(super) fn set_state_with(&mut self, state: State, ends: LogEnds) -> io::Result<()> {
        self.finish_step()?;
        let stamp = self.stamps.next_stamp();
        self.image.set_state(State { stamp, trims: ends.trims, dump: ends.dump, ..state })?;
        self.stamps.set_log_ends(ends);
        self.mark_durable(stamp);
        self.note_durable(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_vouches_for_the_ends_that_the_logs_had_then() {
        let mut stamps = Stamps::new(State::new());
        let trims = |batches| TrimPosition { batches, ..TrimPosition::default() };
        stamps.next_stamp();
        let early = stamps.next_log_stamp(|ends| ends.dump = 1);
        stamps.next_stamp();
        let late = stamps.next_log_stamp(|ends| ends.trims = trims(4));
        assert_eq!(stamps.ends_at(early - 1), LogEnds::default());
        assert_eq!(stamps.ends_at(early), LogEnds { dump: 1, ..LogEnds::default() });
        assert_eq!(stamps.ends_at(late - 1), LogEnds { dump: 1, ..LogEnds::default() });
        stamps.mark_durable(late - 1);
        assert_eq!((stamps.durable(), stamps.stamp()), (late - 1, late));
        assert_eq!(stamps.ends_at(late), LogEnds { dump: 1, trims: trims(4) });
        stamps.mark_durable(late);
        stamps.mark_durable(early);
        assert_eq!((stamps.durable(), stamps.ends), (late, LogEnds { dump: 1, trims: trims(4) }));
    }
}
