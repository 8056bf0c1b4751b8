//! The map journal: changes of the map, programmed to pages of the metadata blocks.
//!
//! A change takes eight bytes: a logical and a physical unit of four bytes each. A page is programmed when a flush
//! has to make changes durable, or when the changes fill a page. Pages go round the dies; the metadata blocks are
//! written in turn, together with checkpoints and trim records, and each is erased before it is written again.
//!
//! A page waits for the data of its changes, so it is created before it can be programmed. (Copies change the
//! journalled map only when they are programmed: until then the data that they replace is still there, and no flush
//! has to wait for them.) The page does not occupy its die until then: its program is booked when the die is next
//! looked at and the page has become ready. The end of the program is promised when the page is created, from the
//! work of the die at that time, and from the delay that an earlier page had because of later work. (The map itself
//! is saved by [`crate::checkpoint`], if a profile asks for it.)

use crate::units::Nanoseconds;

/// Parameters of the map journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalParameters {
    /// Time to program one journal page. Less than a data program if the page is written in SLC mode.
    pub program: Nanoseconds,
}
