//! Callbacks from the flash to the translation layer, for operations that are complete.

use ssdlab_units::{DieIndex, Instant, Nanoseconds};

use crate::copies::CopyNumber;
use crate::erase::EraseId;
use crate::nand::Nand;

/// A number by which the caller identifies a command, a page or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Tag(pub u32);

/// Times of a read, except the time that it waited behind other reads.
///
/// For a read of several pages, the times of the page that was in RAM last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTime {
    /// Time to sense the page.
    pub sense: Nanoseconds,
    /// Time to transfer the data over the channel.
    pub transfer: Nanoseconds,
    /// Time spent waiting for a host program, or for its suspension.
    pub blocked_by_program: Nanoseconds,
    /// Time spent waiting for a copy's program or an erase, or for its suspension.
    pub blocked_by_background: Nanoseconds,
}

/// The flash translation layer, as the flash sees it: it issues operations, and is called when they are
/// complete.
///
/// Each method may ask `nand` for more operations. Calls come in the order of time, with two exceptions.
/// The end of a read is reported as soon as it is certain, so that its `at` may lie in the future. And with
/// [`Completions::reads_commute`] a command may be fetched shortly before earlier reads are reported.
pub trait Completions: Sized {
    /// Returns true if it makes no difference to [`Completions::fetched`] whether reads that ended within the last
    /// microseconds have been reported, and if a command that follows the answer of a read is sent when the
    /// host has that answer, or later. While only reads are in flight, the engine then acts on commands
    /// ahead of transfers that end before them, by at most the time in which such a transfer can lead to
    /// another command. This makes the simulation of reads faster.
    #[inline(always)]
    fn reads_commute(&self) -> bool {
        false
    }

    /// Called when the controller acts on the command that was submitted with `tag`.
    fn fetched(&mut self, nand: &mut Nand, tag: Tag, at: Instant);

    /// Called when it is known that the host has all data of a read at `at`.
    fn read(&mut self, nand: &mut Nand, tag: Tag, at: Instant, time: ReadTime);

    /// Called when a page is in the controller's RAM.
    fn loaded(&mut self, _nand: &mut Nand, _tag: Tag, _at: Instant) {}

    /// Called when a program is complete.
    fn programmed(&mut self, nand: &mut Nand, tag: Tag, at: Instant);

    /// Called when a program of copies is complete. Earlier ones may still be in flight, on other dies.
    fn copies_programmed(&mut self, _nand: &mut Nand, _copies: CopyNumber, _at: Instant) {}

    /// Called when one die has done its part of an erase. [`Completions::erased`] follows that of the last
    /// die.
    fn erased_on(&mut self, _nand: &mut Nand, _erase: EraseId, _die: DieIndex, _at: Instant) {}

    /// Called when an erase is complete on all its dies. Its number may be used again.
    fn erased(&mut self, _nand: &mut Nand, _erase: EraseId, _at: Instant) {}

    /// Called when an alarm goes off.
    fn alarm(&mut self, _nand: &mut Nand, _tag: Tag, _at: Instant) {}
}
