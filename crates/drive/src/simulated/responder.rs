//! Responders in virtual time: a simulated SSD, or a stack of them.
//!
//! Requests are submitted, time passes event by event, and answers come to a [`Client`], which may then
//! send other requests. Phases are run with a client whose type is known, so that the hot path has no
//! dynamic calls; a stack calls its members dynamically.

use ssdlab_model::attribution::Attribution;
use ssdlab_model::bad_blocks::SpareBlocks;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::format::FormatError;
use ssdlab_model::snapshot::{Encoder, SnapshotError};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use crate::recording::Recorder;

/// The last instant: no event is due after it.
pub(crate) const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Writes data durably (FUA).
    WriteThrough,
    /// Trims data. Without effect if [`Responder::passes_trim`] returns false.
    Trim,
    /// Makes all written data durable; the sectors have no meaning.
    Flush,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Kind of the request.
    pub kind: Kind,
    /// First sector.
    pub first: Sector,
    /// Number of sectors.
    pub count: SectorCount,
}

impl Request {
    /// A flush: makes all written data durable.
    pub const FLUSH: Request =
        Request { kind: Kind::Flush, first: Sector(0), count: SectorCount(0) };
}

/// A number by which the sender identifies a request. It may be used again when that request is answered.
/// Tags are small numbers, because tables are indexed by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u32);

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Tag of the request.
    pub tag: Tag,
    /// Moment at which the request was sent.
    pub sent: Instant,
    /// Moment at which the request is answered: now, or as soon as its data has crossed the link.
    pub at: Instant,
}

/// Receiver of requests.
pub trait Port {
    /// Sends a request at `at`, which must not be before the latest event.
    ///
    /// # Panics
    /// Panics if the range is empty, does not lie within the drive, or is no multiple of its blocks.
    fn submit(&mut self, at: Instant, tag: Tag, request: Request);
}

/// Sender of requests, which receives the answers.
pub trait Client {
    /// True if requests are sent by [`Client::answered`] alone, so that none is sent before the answer that
    /// it follows. The drive may look further ahead then.
    const SENDS_WHEN_ANSWERED: bool = false;

    /// Called when a request is answered. Others may be sent through `port`, not before `answer.at`. May
    /// return a sector that will be requested some requests from now: its map entry is prefetched into the
    /// processor's cache, and nothing else changes.
    fn answered(&mut self, port: &mut impl Port, answer: Answer) -> Option<Sector>;
}

/// A client that collects the answers.
impl Client for Vec<Answer> {
    fn answered(&mut self, _: &mut impl Port, answer: Answer) -> Option<Sector> {
        self.push(answer);
        None
    }
}

/// A drive, or a stack of drives, that answers requests in virtual time.
pub trait Responder {
    /// Returns the bytes that can be addressed.
    fn capacity(&self) -> ByteLength;

    /// Returns the size of the smallest aligned request.
    fn block_size(&self) -> ByteLength;

    /// Sends a request at `at`, which must not be before the latest event.
    ///
    /// # Panics
    /// Panics if the range is empty, does not lie within the drive, or is no multiple of its blocks.
    fn submit(&mut self, at: Instant, tag: Tag, request: Request);

    /// Returns the instant of the latest event.
    fn latest_event(&self) -> Instant;

    /// Returns the instant of the next event, or `None` if there will be none.
    fn next_due(&self) -> Option<Instant>;

    /// Processes the next event, if it is due until `until`, and adds the answers to `answers`. Returns
    /// true if an event was processed.
    fn advance(&mut self, until: Instant, answers: &mut Vec<Answer>) -> bool;

    /// Prefetches the map entry of `sector`, some requests before the sector is requested. Changes only the
    /// speed.
    fn prefetch(&self, _sector: Sector) {}

    /// Returns true if trim reaches a drive (which may ignore it).
    fn passes_trim(&self) -> bool;

    /// Passes an idle time of `duration` from `from` on. No request may be in flight.
    fn rest(&mut self, from: Instant, duration: Nanoseconds);

    /// Returns the counters of all operations since the drive was made; of a stack, the sum over its
    /// members.
    fn counters(&self) -> Counters;

    /// Returns the wear of the flash; of a stack, over all members.
    fn wear(&self) -> Wear;

    /// Returns the erased flash that can still be written before garbage collection begins; of a stack, the
    /// sum over its members.
    fn unused_flash(&self) -> ByteLength;

    /// Returns the blocks that are left to replace bad blocks. `None` if no block goes bad, or for a stack.
    fn spare_blocks(&self) -> Option<SpareBlocks> {
        None
    }

    /// Returns the number of flash pages on each die that a read of `length` from `first` on needs; `None`
    /// for a stack.
    fn pages_by_die(&self, _first: Sector, _length: ByteLength) -> Option<Vec<u32>> {
        None
    }

    /// Formats the drive: begins its map anew, without erasing anything. Returns the moment at which that
    /// is done.
    fn format(&mut self, _at: Instant) -> Result<Instant, FormatError> {
        Err(FormatError::Unsupported { what: "something before it" })
    }

    /// Formats the drive, and erases all blocks that were written. Returns the moment at which that is
    /// done.
    fn secure_erase(&mut self, at: Instant) -> Result<Instant, FormatError> {
        self.format(at)
    }

    /// Stores the drive for `duration` from `now` on, without power. Returns true if its data ages.
    fn store(&mut self, _now: Instant, _duration: Nanoseconds) -> bool {
        false
    }

    /// Returns the time of the requests by cause; of a stack, the sum over its members.
    fn attribution(&self) -> Attribution;

    /// Completes all work, so that the state can be saved; returns the moment at which that is done. No
    /// request may be in flight.
    fn shut_down(&mut self, at: Instant) -> Instant {
        self.submit_and_wait(at, Request::FLUSH)
    }

    /// Writes the state of a drive that was shut down.
    ///
    /// # Errors
    /// Returns an error if writing fails, or if the state cannot be saved, as that of a stack.
    fn save(&self, _to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        Err(SnapshotError::Unsupported { what: "something before it" })
    }

    /// Has pictures of the internal state taken from now on; of a stack, of each member.
    fn record_inside(&mut self, _recorder: &Recorder) {}

    /// Returns true if pictures are taken.
    fn is_recorded(&self) -> bool {
        false
    }

    /// Begins a protocol step of this name in the recording.
    fn begin_step(&mut self, _name: &str) {}

    /// Takes a picture if one is due, and copies lent tables once enough requests came. To be called after
    /// every few megabytes.
    fn record_if_due(&mut self) {}

    /// Sends a request at `at`, or now if `at` is past, and lets time pass until it is answered. No other
    /// request may be in flight. Returns the moment of the answer.
    fn submit_and_wait(&mut self, at: Instant, request: Request) -> Instant {
        let mut answers = Vec::with_capacity(1);
        self.submit(at.max(self.latest_event()), Tag(0), request);
        while answers.is_empty() {
            let was_processed = self.advance(LATEST, &mut answers);
            assert!(was_processed, "every request is answered");
        }
        answers[0].at
    }
}

/// A [`Responder`] that reports its answers to a client of any type.
pub trait StepResponder: Responder {
    /// Processes the next event, if it is due until `until`. Returns true if one was.
    fn step(&mut self, until: Instant, client: &mut impl Client) -> bool;
}
