//! Reads of several pieces: pages that are sensed, and data that is, or will be, in RAM.
//!
//! Pieces are sent to the host as the drive's [`Delivery`] says. The read is complete when the last
//! of them is there.

use ssdlab_units::{Instant, Nanoseconds};

use crate::completions::{ReadTime, Tag};
use crate::link::Link;
use crate::timing::Delivery;

/// Number of a read of several pieces, valid until the read is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ReadId(pub(crate) u32);

/// Number of a piece within its read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PieceIndex(pub(crate) u32);

/// Progress of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceState {
    Flash,
    Ram,
    Sent,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Nanoseconds that the piece occupies the link.
    link: u32,
    /// Nanoseconds for which the piece's page is sensed.
    sense: u32,
    state: PieceState,
}

/// A page that a read needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeededPage {
    pub(crate) die: u16,
    /// Number of the pages that are sensed together with this one.
    pub(crate) sense: u32,
    pub(crate) duration: u32,
    /// Codewords of the page that cross the channel.
    pub(crate) codewords: u16,
    pub(crate) piece: u32,
    pub(crate) is_issued: bool,
}

#[derive(Clone, Debug, Default)]
struct MultiPageRead {
    tag: u32,
    /// True if the read looks for its pages in the page registers of their dies.
    is_stream: bool,
    pieces: Vec<Piece>,
    needed: Vec<NeededPage>,
    unsent: u32,
    /// Number of pieces from the first on that are all sent.
    first_unsent: u32,
    in_flash: u32,
    /// Times of the page that was in RAM last.
    time: ReadTime,
}

/// All reads of several pieces in flight.
#[derive(Clone, Debug)]
pub(crate) struct MultiPageReads {
    reads: Vec<MultiPageRead>,
    free: Vec<u32>,
    delivery: Delivery,
}

impl MultiPageReads {
    pub(crate) fn new(delivery: Delivery) -> MultiPageReads {
        MultiPageReads { reads: Vec::new(), free: Vec::new(), delivery }
    }

    pub(crate) fn begin(&mut self, tag: Tag, is_stream: bool) -> ReadId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.reads.push(MultiPageRead::default());
            self.reads.len() as u32 - 1
        });
        let read = &mut self.reads[id as usize];
        (read.tag, read.is_stream) = (tag.0, is_stream);
        (read.unsent, read.first_unsent, read.in_flash) = (0, 0, 0);
        read.time = ReadTime::default();
        read.pieces.clear();
        read.needed.clear();
        ReadId(id)
    }

    /// Adds a piece that occupies the link for `link` nanoseconds, and whose page is sensed for `sense`
    /// nanoseconds.
    pub(crate) fn add_piece(
        &mut self,
        id: ReadId,
        link: u32,
        sense: u32,
        in_ram: bool,
    ) -> PieceIndex {
        let read = &mut self.reads[id.0 as usize];
        read.unsent += 1;
        read.in_flash += u32::from(!in_ram);
        let state = if in_ram { PieceState::Ram } else { PieceState::Flash };
        read.pieces.push(Piece { link, sense, state });
        PieceIndex(read.pieces.len() as u32 - 1)
    }

    pub(crate) fn add_needed(&mut self, id: ReadId, needed: NeededPage) {
        self.reads[id.0 as usize].needed.push(needed);
    }

    /// Takes out the list of the pages that a read needs, and returns it with `is_stream`.
    /// [`MultiPageReads::return_needed`] takes the list back.
    pub(crate) fn take_needed(&mut self, id: ReadId) -> (Vec<NeededPage>, bool) {
        let read = &mut self.reads[id.0 as usize];
        (std::mem::take(&mut read.needed), read.is_stream)
    }

    pub(crate) fn return_needed(&mut self, id: ReadId, needed: Vec<NeededPage>) {
        self.reads[id.0 as usize].needed = needed;
    }

    /// Returns true if a piece of a read can be sent immediately.
    pub(crate) fn has_in_ram(&self, id: ReadId) -> bool {
        let read = &self.reads[id.0 as usize];
        (read.in_flash as usize) < read.pieces.len()
    }

    /// Returns the nanoseconds for which the page of a piece is sensed.
    pub(crate) fn sense_of(&self, id: ReadId, piece: PieceIndex) -> u32 {
        self.reads[id.0 as usize].pieces[piece.0 as usize].sense
    }

    /// Limits the time that a piece waits for the sense of its page to `left` nanoseconds.
    pub(crate) fn limit_sense(&mut self, id: ReadId, piece: PieceIndex, left: u32) {
        let sense = &mut self.reads[id.0 as usize].pieces[piece.0 as usize].sense;
        *sense = left.min(*sense);
    }

    /// Notes that a piece is in RAM.
    pub(crate) fn note_in_ram(&mut self, id: ReadId, piece: PieceIndex, time: ReadTime) {
        let read = &mut self.reads[id.0 as usize];
        let piece = &mut read.pieces[piece.0 as usize];
        assert!(piece.state == PieceState::Flash, "a piece arrives once");
        piece.state = PieceState::Ram;
        read.in_flash -= 1;
        read.time = time;
    }

    /// Sends the pieces of a read that are ready. When nothing is left to be sent, returns the read's tag,
    /// the moment at which the host has all of it, and its times.
    pub(crate) fn deliver(
        &mut self,
        id: ReadId,
        link: &mut Link,
        now: Instant,
    ) -> Option<(Tag, Instant, ReadTime)> {
        let read = &mut self.reads[id.0 as usize];
        if read.unsent == 0 || self.delivery == Delivery::WhenComplete && read.in_flash > 0 {
            return None;
        }
        let mut end = now;
        let first = read.first_unsent as usize;
        for piece in &mut read.pieces[first..] {
            match piece.state {
                PieceState::Ram => {
                    piece.state = PieceState::Sent;
                    read.unsent -= 1;
                    end = link.send(now, Nanoseconds::new(piece.link.into()));
                }
                PieceState::Flash if self.delivery == Delivery::InOrder => break,
                PieceState::Flash | PieceState::Sent => {}
            }
        }
        let sent = read.pieces[first..].iter().take_while(|piece| piece.state == PieceState::Sent);
        read.first_unsent += sent.count() as u32;
        if read.unsent > 0 {
            return None;
        }
        self.free.push(id.0);
        Some((Tag(read.tag), end, read.time))
    }
}
