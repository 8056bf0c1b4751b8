//! Ways to have data written anew without ever losing somebody else's write.

pub mod btrfs;
mod donor;
pub mod ext4;
pub mod frozen;
pub mod xfs;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::DriveError;
use crate::headway::Headway;
use crate::pace::Pace;
use crate::window::Span;

/// Why a window, or a part of it, was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// Somebody else had it in use at each try.
    Busy,
    /// There is no room for it to be written anew.
    NoRoom,
    /// The free space is in smaller pieces than the data.
    WouldScatter,
    /// It is not where it was any more.
    Changed,
    /// The file system did not move it.
    NotMoved,
    /// Snapshots or copies share it since, which nobody agreed to give up.
    Shared,
    /// A program has mapped the file for writing since.
    Mapped,
    /// Even the shortest freeze would take longer than allowed.
    Freeze,
    /// Even the smallest part holds writers up for longer than allowed.
    Hold,
    /// Others use it so much that there is no end in sight.
    Overrun,
}

impl Left {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Left::Busy => "in use by others at each try",
            Left::NoRoom => "no room to write it anew",
            Left::WouldScatter => "the free space is in smaller pieces than the data",
            Left::Changed => "moved or given up by others meanwhile",
            Left::NotMoved => "not moved by the file system",
            Left::Shared => "shared with snapshots or copies since",
            Left::Mapped => "mapped by a program for writing since",
            Left::Freeze => "the file system cannot be frozen so briefly",
            Left::Hold => "the file system holds writers up for longer than allowed",
            Left::Overrun => "others use it too much",
        }
    }
}

impl Left {
    /// Why it is better not to go on with other windows, in words; nothing where it is not. What was left
    /// so is not done, and is gone on with later.
    pub fn ends_all(self) -> Option<&'static str> {
        match self {
            Left::NoRoom => Some("there is no room on the file system to write data anew"),
            Left::Freeze => Some(
                "the file system cannot be frozen as briefly as --max-freeze says; when less goes on \
                 it may be",
            ),
            Left::Shared => Some(
                "a snapshot or copy (reflink) was made meanwhile, and written anew its data would \
                 take that much more room; with --shared that is done",
            ),
            Left::Mapped => Some(
                "a program has mapped the file for writing meanwhile, and what it stores could be \
                 lost; refreshed anew, the file system is frozen for moments instead",
            ),
            Left::Hold => Some(
                "the file system holds who writes to the file up for longer than --max-freeze says, \
                 also for the smallest part; when less goes on it may not",
            ),
            Left::Overrun => Some(
                "others use it so much that at the rate of the last 15 s it would take more than two \
                 minutes and more than 20 times as long as on its own; what is not done is as it was",
            ),
            Left::Busy | Left::WouldScatter | Left::Changed | Left::NotMoved => None,
        }
    }
}

/// What became of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes that were written anew.
    pub written: u64,
    /// Why the rest was not, where there is one.
    pub left: Option<Left>,
}

/// Freezes of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freezes {
    /// How many there were.
    pub count: u64,
    /// How long they may be.
    pub allowed: Duration,
    /// The longest, from the request to freeze until it was thawed.
    pub longest: Duration,
    /// How many were longer than allowed.
    pub too_long: u64,
}

/// A way to have windows written anew.
pub trait Strategy {
    /// Windows that follow each other without a gap, from `stretch`'s beginning to its end, come
    /// next.
    fn announce(&mut self, stretch: Span) {
        let _ = stretch;
    }

    /// Has a window written anew, durably.
    ///
    /// # Errors
    /// When the file system or the drive fails; nothing is tried again then.
    fn rewrite(
        &mut self,
        window: Span,
        pace: &mut Pace,
        headway: &mut Headway,
    ) -> Result<Outcome, DriveError>;

    /// The longest that who writes to the file was held up; nothing where that is not measured.
    fn longest_hold(&self) -> Option<Duration> {
        None
    }

    /// The program that kept a window from being rewritten by a mapping of the file.
    fn mapped_by(&self) -> Option<&str> {
        None
    }

    /// Returns what was frozen; nothing where nothing ever is.
    fn freezes(&self) -> Option<Freezes> {
        None
    }
}
