//! Who is told what the flash has done.

use ssdlab_units::{DieIndex, Instant, Nanoseconds};

use crate::copies::CopyNumber;
use crate::erase::EraseId;
use crate::nand::Nand;

/// A number by which the caller knows a command, a page or a program again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Tag(pub u32);

/// Where the time of a read went that was not spent waiting behind other reads.
///
/// Of a read of several pages it is that of the page which was in RAM last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTime {
    /// Sensing the page.
    pub sense: Nanoseconds,
    /// Moving its data over the channel.
    pub transfer: Nanoseconds,
    /// Waiting for a program of the host's, or for its suspension.
    pub blocked_by_program: Nanoseconds,
    /// Waiting for a copy's program or an erase, or for its suspension.
    pub blocked_by_background: Nanoseconds,
}

/// The flash translation layer, as the flash sees it: it decides what is done, and is told when it is done.
///
/// Each method may ask `nand` for more. Calls come in the order of time, with two exceptions. A read is
/// told as soon as it is certain when it will end, so that its `at` may lie in the future. And with
/// [`Completions::READS_COMMUTE`] a command may be fetched a little before earlier reads are told.
pub trait Completions: Sized {
    /// Declares that it makes no difference to [`Completions::fetched`] if reads that have ended within the
    /// last microseconds have been told, and that a command which follows the answer of a read is sent when
    /// that is with the host, or later. Then the engine, while it does nothing but reads, acts on commands
    /// ahead of transfers that end before them, by up to the time in which such a transfer can bring about
    /// another command, which makes reads faster.
    const READS_COMMUTE: bool = false;

    /// The controller acts on the command that was submitted with `tag`.
    fn fetched(&mut self, nand: &mut Nand, tag: Tag, at: Instant);

    /// All of a read is with the host at `at`.
    fn read(&mut self, nand: &mut Nand, tag: Tag, at: Instant, time: ReadTime);

    /// A page is in the controller's RAM.
    fn loaded(&mut self, _nand: &mut Nand, _tag: Tag, _at: Instant) {}

    /// A program is over.
    fn programmed(&mut self, nand: &mut Nand, tag: Tag, at: Instant);

    /// A program of copies is over. Those before it may still be under way, on other dies.
    fn copies_programmed(&mut self, _nand: &mut Nand, _copies: CopyNumber, _at: Instant) {}

    /// A die's part of an erase is over. [`Completions::erased`] follows that of the last die.
    fn erased_on(&mut self, _nand: &mut Nand, _erase: EraseId, _die: DieIndex, _at: Instant) {}

    /// An erase is over on all its dies, and its number is free for another.
    fn erased(&mut self, _nand: &mut Nand, _erase: EraseId, _at: Instant) {}

    /// An alarm that was set goes off.
    fn alarm(&mut self, _nand: &mut Nand, _tag: Tag, _at: Instant) {}
}
