//! The map journal: changes of the map, programmed to pages of the metadata blocks.
//!
//! A change takes eight bytes: a logical and a physical unit of four bytes each. A page is
//! programmed when a flush has to make changes durable, or when as many have come together as it
//! holds. Pages go round the dies; the metadata blocks are written in turn, together with the saved
//! map and records of trims, and each is erased before it is written again.
//!
//! A page waits for the data that its changes are about, so it is known of before it can be
//! programmed. (Copies change the map that is journalled only when they are programmed: until then
//! what they replace is still there, and no flush has to wait for them.) It does not hold its die until then: it is booked when something next looks at the
//! die and the page has become ready. Its end is promised when it is made: from what the die has to
//! do then, and from how much longer an earlier page had to wait because of what came meanwhile.
//! (The map itself is saved by [`crate::checkpoint`], where a profile asks for it.)

use crate::units::Nanoseconds;

/// How a drive journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalParameters {
    /// Programming one journal page. Less than a data program where the page is written as SLC.
    pub program: Nanoseconds,
}
