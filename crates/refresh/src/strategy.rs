//! Methods to rewrite data without ever losing somebody else's write.

pub mod btrfs;
mod donor;
pub mod ext4;
pub mod in_place;
pub mod xfs;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::DriveError;
use crate::overrun::OverrunGuard;
use crate::rate_limit::RateLimiter;
use crate::window::Span;

/// Reason why a window, or a part of it, was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// Others had the data in use at each try.
    Busy,
    /// There is no free space to write the data anew.
    NoRoom,
    /// The free space is in smaller pieces than the data.
    WouldScatter,
    /// The data is not where it was any more.
    Changed,
    /// The file system did not move the data.
    NotMoved,
    /// Snapshots or copies share the data since, and the user did not agree to end that.
    Shared,
    /// A program has mapped the file for writing since.
    Mapped,
    /// Even the shortest freeze would take longer than allowed.
    Freeze,
    /// Even the smallest part holds writers up for longer than allowed.
    Hold,
    /// Others use the data so much that no end of the rewrite is in sight.
    Overrun,
}

impl SkipReason {
    /// Returns the reason in words.
    pub fn description(self) -> &'static str {
        match self {
            SkipReason::Busy => "in use by others at each try",
            SkipReason::NoRoom => "no free space for a new copy",
            SkipReason::WouldScatter => "the free space is more fragmented than the data",
            SkipReason::Changed => "moved or freed by others meanwhile",
            SkipReason::NotMoved => "not moved by the file system",
            SkipReason::Shared => "now shared with snapshots or copies",
            SkipReason::Mapped => "now mapped for writing by a program",
            SkipReason::Freeze => "a freeze would take longer than allowed",
            SkipReason::Hold => "the file system blocks writers longer than allowed",
            SkipReason::Overrun => "too slow beside other load",
        }
    }
}

impl SkipReason {
    /// Returns the reason, in words, why the rewrite should end here; `None` if it should continue with
    /// other windows. A window that was left for such a reason does not count as done, and --resume tries
    /// it again.
    pub fn abort_reason(self) -> Option<&'static str> {
        match self {
            SkipReason::NoRoom => {
                Some("the file system has too little free space for a new copy of the data")
            }
            SkipReason::Freeze => Some(
                "the file system cannot be frozen within --max-freeze; with less load it may be",
            ),
            SkipReason::Shared => Some(
                "a snapshot or copy (reflink) was made meanwhile, so a rewrite would take as much \
                 additional space; --shared allows that",
            ),
            SkipReason::Mapped => Some(
                "a program has mapped the file for writing meanwhile, and its stores could be \
                 lost; run refresh again to freeze the file system for moments instead",
            ),
            SkipReason::Hold => Some(
                "the file system blocks writers to the file longer than --max-freeze, even for the \
                 smallest part; with less load it may not",
            ),
            SkipReason::Overrun => Some(
                "other load slows the rewrite: at the rate of the last 15 s it would take more \
                 than two minutes and more than 20 times as long as alone; the rest is unchanged",
            ),
            SkipReason::Busy
            | SkipReason::WouldScatter
            | SkipReason::Changed
            | SkipReason::NotMoved => None,
        }
    }
}

/// Result for a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes that were rewritten.
    pub written: u64,
    /// Reason why the rest was not rewritten; `None` if there is no rest.
    pub skipped: Option<SkipReason>,
}

/// Freezes of a file system during a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreezeCounts {
    /// Number of freezes.
    pub count: u64,
    /// Longest allowed freeze.
    pub allowed: Duration,
    /// Longest freeze, from the request to freeze until the thaw.
    pub longest: Duration,
    /// Number of freezes that were longer than allowed.
    pub too_long: u64,
}

/// A method to rewrite windows.
pub trait Strategy {
    /// Announces that the windows to rewrite next follow each other without a gap, from the beginning of
    /// `run` to its end.
    fn announce(&mut self, run: Span) {
        let _ = run;
    }

    /// Rewrites a window durably.
    ///
    /// # Errors
    /// Returns an error if the file system or the drive fails; nothing is tried again then.
    fn rewrite(
        &mut self,
        window: Span,
        limiter: &mut RateLimiter,
        overrun_guard: &mut OverrunGuard,
    ) -> Result<Outcome, DriveError>;

    /// Returns the longest time for which writers of the file were held up; `None` if that is not
    /// measured.
    fn longest_hold(&self) -> Option<Duration> {
        None
    }

    /// Returns the program whose mapping of the file kept a window from being rewritten.
    fn mapped_by(&self) -> Option<&str> {
        None
    }

    /// Returns the freezes so far; `None` if this method does not freeze.
    fn freezes(&self) -> Option<FreezeCounts> {
        None
    }
}
