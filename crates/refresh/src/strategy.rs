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
            SkipReason::NoRoom => "no room to write it anew",
            SkipReason::WouldScatter => "the free space is in smaller pieces than the data",
            SkipReason::Changed => "moved or given up by others meanwhile",
            SkipReason::NotMoved => "not moved by the file system",
            SkipReason::Shared => "shared with snapshots or copies since",
            SkipReason::Mapped => "mapped by a program for writing since",
            SkipReason::Freeze => "the file system cannot be frozen so briefly",
            SkipReason::Hold => "the file system holds writers up for longer than allowed",
            SkipReason::Overrun => "others use it too much",
        }
    }
}

impl SkipReason {
    /// Returns the reason, in words, why the rewrite should end here; `None` if it should continue with
    /// other windows. A window that was left for such a reason does not count as done, and --resume tries
    /// it again.
    pub fn abort_reason(self) -> Option<&'static str> {
        match self {
            SkipReason::NoRoom => Some("there is no room on the file system to write data anew"),
            SkipReason::Freeze => Some(
                "the file system cannot be frozen as briefly as --max-freeze says; when less goes on \
                 it may be",
            ),
            SkipReason::Shared => Some(
                "a snapshot or copy (reflink) was made meanwhile, and written anew its data would \
                 take that much more room; with --shared that is done",
            ),
            SkipReason::Mapped => Some(
                "a program has mapped the file for writing meanwhile, and what it stores could be \
                 lost; refreshed anew, the file system is frozen for moments instead",
            ),
            SkipReason::Hold => Some(
                "the file system holds who writes to the file up for longer than --max-freeze says, \
                 also for the smallest part; when less goes on it may not",
            ),
            SkipReason::Overrun => Some(
                "others use it so much that at the rate of the last 15 s it would take more than two \
                 minutes and more than 20 times as long as on its own; what is not done is as it was",
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
