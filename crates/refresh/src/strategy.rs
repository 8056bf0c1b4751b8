//! Ways to have data written anew without ever losing somebody else's write.

pub mod btrfs;
mod donor;
pub mod ext4;
pub mod frozen;
pub mod xfs;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::DriveError;
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
    /// What it is called in sentences.
    fn name(&self) -> &'static str;

    /// Windows that follow each other without a gap, from `stretch`'s beginning to its end, come
    /// next.
    fn announce(&mut self, stretch: Span) {
        let _ = stretch;
    }

    /// Has a window written anew, durably.
    ///
    /// # Errors
    /// When the file system or the drive fails; nothing is tried again then.
    fn rewrite(&mut self, window: Span, pace: &mut Pace) -> Result<Outcome, DriveError>;

    /// What was frozen; nothing where nothing ever is.
    fn freezes(&self) -> Option<Freezes> {
        None
    }
}
