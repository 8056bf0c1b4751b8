//! What answers requests in virtual time: a simulated SSD, or a stack of them.
//!
//! Requests are submitted, time passes event by event, and answers come to a [`Client`], which may send
//! others then. Phases are run with a client whose type is known, so that nothing is asked through a
//! pointer on their hot path; a stack asks its members through one.

use ssdlab_model::attribution::Attribution;
use ssdlab_model::bad_blocks::SpareBlocks;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::make_new::FormatError;
use ssdlab_model::snapshot::{Encoder, SnapshotError};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use crate::recording::Recorder;

/// As late as anything is: nothing is due behind it.
pub(crate) const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data.
    Read,
    /// That data be kept.
    Write,
    /// That data be durable (FUA).
    WriteThrough,
    /// That data be forgotten. Where [`Responder::passes_trim`] says no, nothing is.
    Trim,
    /// That all data that was written be durable; the sectors mean nothing.
    Flush,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub kind: Kind,
    /// Where it begins.
    pub first: Sector,
    /// How long it is.
    pub count: SectorCount,
}

impl Request {
    /// That all data that was written be durable.
    pub const FLUSH: Request =
        Request { kind: Kind::Flush, first: Sector(0), count: SectorCount(0) };
}

/// The number by which its sender knows a request; free for another when that one is answered. Small
/// numbers, since tables are kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u32);

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request.
    pub tag: Tag,
    /// When it was sent.
    pub sent: Instant,
    /// When it is answered: now, or as soon as its data has crossed the link.
    pub at: Instant,
}

/// Where requests are sent.
pub trait Port {
    /// Sends a request at `at`, which lies not before the latest event.
    ///
    /// # Panics
    /// When the range is empty, does not lie within the drive, or is no multiple of its blocks.
    fn submit(&mut self, at: Instant, tag: Tag, request: Request);
}

/// Who sends requests and is answered.
pub trait Client {
    /// Declares that requests are sent by [`Client::answered`] alone, so none before the answer that it
    /// follows. The drive may look further ahead then.
    const SENDS_WHEN_ANSWERED: bool = false;

    /// A request is answered; others may be sent through `port`, not before `answer.at`. May return a sector
    /// that will be asked for some requests from now: its map entry is fetched into the processor's cache,
    /// and nothing else changes.
    fn answered(&mut self, port: &mut impl Port, answer: Answer) -> Option<Sector>;
}

/// A client that takes down what is answered.
impl Client for Vec<Answer> {
    fn answered(&mut self, _: &mut impl Port, answer: Answer) -> Option<Sector> {
        self.push(answer);
        None
    }
}

/// Something that answers requests in virtual time.
pub trait Responder {
    /// Bytes that can be addressed.
    fn capacity(&self) -> ByteLength;

    /// The smallest aligned request.
    fn block_size(&self) -> ByteLength;

    /// Sends a request at `at`, which lies not before the latest event.
    ///
    /// # Panics
    /// When the range is empty, does not lie within the drive, or is no multiple of its blocks.
    fn submit(&mut self, at: Instant, tag: Tag, request: Request);

    /// Returns the instant of the latest event.
    fn latest_event(&self) -> Instant;

    /// Returns the instant at which the next thing happens, if anything will.
    fn next_due(&self) -> Option<Instant>;

    /// Lets the next thing happen, if it is due until `until`, and takes down what is answered. Returns whether
    /// anything happened.
    fn advance(&mut self, until: Instant, answers: &mut Vec<Answer>) -> bool;

    /// Asks for the memory that tells where `sector` lies, some requests before it is asked for.
    /// Changes nothing but the speed.
    fn prefetch(&self, _sector: Sector) {}

    /// Returns true if trim gets as far as a drive (which may ignore it).
    fn passes_trim(&self) -> bool;

    /// Is left alone from `from` for `duration`, with no request under way.
    fn rest(&mut self, from: Instant, duration: Nanoseconds);

    /// Returns what was done since it was made; of a stack, the sum over its members.
    fn counters(&self) -> Counters;

    /// Returns how worn the flash is; of a stack, over all members.
    fn wear(&self) -> Wear;

    /// Erased flash that writes can still go to before anything is collected; of a stack, the sum over
    /// its members.
    fn unused_flash(&self) -> ByteLength;

    /// Returns what is left to replace bad blocks; nothing where none goes bad, or of a stack.
    fn spare_blocks(&self) -> Option<SpareBlocks> {
        None
    }

    /// Returns how many flash pages of each die a read of `length` from `first` on needs; `None` of a stack.
    fn pages_by_die(&self, _first: Sector, _length: ByteLength) -> Option<Vec<u32>> {
        None
    }

    /// Begins its map anew, without erasing anything; returns when that is done.
    fn format(&mut self, _at: Instant) -> Result<Instant, FormatError> {
        Err(FormatError::Unsupported { what: "something before it" })
    }

    /// Formats, and erases all blocks that were written to.
    fn secure_erase(&mut self, at: Instant) -> Result<Instant, FormatError> {
        self.format(at)
    }

    /// Is stored for `duration` from `now` on, without power; whether its data ages at all.
    fn store(&mut self, _now: Instant, _duration: Nanoseconds) -> bool {
        false
    }

    /// Returns where the time of its requests went; of a stack, the sum over its members.
    fn attribution(&self) -> Attribution;

    /// Ends all work, so that the state can be saved; returns when that is done. No request is under way.
    fn shut_down(&mut self, at: Instant) -> Instant {
        self.answer_to(at, Request::FLUSH)
    }

    /// Writes the state of a drive that was shut down.
    ///
    /// # Errors
    /// When writing fails, or the state cannot be saved; of a stack, its members' can.
    fn save(&self, _to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        Err(SnapshotError::Unsupported { what: "something before it" })
    }

    /// Has pictures of its inside taken from now on; of a stack, of each member.
    fn record_inside(&mut self, _recorder: &Recorder) {}

    /// Returns true if pictures are taken.
    fn is_recorded(&self) -> bool {
        false
    }

    /// Notes in its pictures that what follows is a step of this name.
    fn begin_step(&mut self, _name: &str) {}

    /// Takes a picture if it is time for one. To be called after every few megabytes.
    fn look_inside(&mut self) {}

    /// Sends a request at `at`, or now if that is past, when no other is under way, and lets time pass until
    /// it is answered; returns when that is.
    fn answer_to(&mut self, at: Instant, request: Request) -> Instant {
        let mut answers = Vec::with_capacity(1);
        self.submit(at.max(self.latest_event()), Tag(0), request);
        while answers.is_empty() {
            let has_happened = self.advance(LATEST, &mut answers);
            assert!(has_happened, "every request is answered");
        }
        answers[0].at
    }
}

/// A [`Responder`] whose events are told to a client of any type.
pub trait Steps: Responder {
    /// Lets the next thing happen, if it is due until `until`. Returns whether one was.
    fn step(&mut self, until: Instant, client: &mut impl Client) -> bool;
}
