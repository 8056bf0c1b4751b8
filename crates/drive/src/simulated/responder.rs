//! What answers requests in virtual time: a simulated SSD, or a stack of them.
//!
//! The closed loop is generic over it, so that nothing is asked through a pointer on its hot
//! path. A stack asks its members through one, once per request.

use ssdlab_model::Ssd;
use ssdlab_model::attribution::Attribution;
use ssdlab_model::bad_blocks::SpareBlocks;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::make_new::FormatError;
use ssdlab_model::mapping::Mapping;
use ssdlab_model::media::Null;
use ssdlab_model::pending::{Step, Waiting};
use ssdlab_model::snapshot::{Encoder, SnapshotError};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data.
    Read,
    /// That data be kept.
    Write,
    /// That data be durable (FUA).
    WriteThrough,
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

/// Something that answers requests in virtual time.
///
/// Requests are handed over in the order of their time: `at` never lies before the `at` of an
/// earlier call. Ranges are not empty, lie within [`Responder::capacity`] and are whole multiples
/// of [`Responder::block_size`]; otherwise these calls panic.
pub trait Responder {
    /// Bytes that can be addressed.
    fn capacity(&self) -> ByteLength;

    /// The smallest aligned request.
    fn block_size(&self) -> ByteLength;

    /// Reads `count` sectors from `first` at `at`; returns when the last of them has arrived.
    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant;

    /// Writes `count` sectors from `first` at `at`; returns when the host is told it is done.
    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant;

    /// Writes sectors that are durable before the host is told so (FUA).
    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant;

    /// Begins one of the requests above. What begins step by step is gone on with when the step says
    /// so ([`ssdlab_model::pending`]), in the order of time with all other calls; that is exact where
    /// requests of several kinds are in flight. Who cannot do it answers at once.
    fn begin(&mut self, at: Instant, request: Request) -> Step {
        let Request { kind, first, count } = request;
        Step::Answered(match kind {
            Kind::Read => self.read(at, first, count),
            Kind::Write => self.write(at, first, count),
            Kind::WriteThrough => self.write_through(at, first, count),
            Kind::Flush => self.flush(at),
        })
    }

    /// Goes on with a request that has begun.
    fn go_on(&mut self, _waiting: Waiting) -> Step {
        unreachable!("nothing waits where all is answered at once")
    }

    /// Forgets what `count` sectors from `first` hold; returns when the host is told so. Where
    /// [`Responder::passes_trim`] says no, nothing is forgotten.
    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant;

    /// Returns true if trim gets as far as a drive (which may ignore it).
    fn passes_trim(&self) -> bool;

    /// Makes all writes that were answered durable; returns when the host is told so.
    fn flush(&mut self, at: Instant) -> Instant;

    /// Is left alone from `from` for `duration`.
    fn rest(&mut self, from: Instant, duration: Nanoseconds);

    /// Asks for the memory that tells where `sector` lies, some requests before it is asked for.
    /// Changes nothing but the speed.
    fn prefetch(&self, sector: Sector);

    /// Asks for what [`Responder::prefetch`] led to, for a sector that will be written soon.
    fn prefetch_for_write(&self, sector: Sector);

    /// What was done since it was made; of a stack, the sum over its members.
    fn counters(&self) -> Counters;

    /// How worn the flash is; of a stack, over all members.
    fn wear(&self) -> Wear;

    /// Erased flash that writes can still go to before anything is collected; of a stack, the sum over
    /// its members.
    fn unused_flash(&self) -> ByteLength;

    /// What is left to replace bad blocks; nothing where none goes bad, or of a stack.
    fn spare_blocks(&self) -> Option<SpareBlocks> {
        None
    }

    /// Begins its map anew, without erasing anything; returns when that is done.
    fn format(&mut self, _at: Instant) -> Result<Instant, FormatError> {
        Err(FormatError::Unsupported { what: "something before it, or with log blocks," })
    }

    /// Formats, and erases all blocks that were written to.
    fn secure_erase(&mut self, at: Instant) -> Result<Instant, FormatError> {
        self.format(at)
    }

    /// Is stored for `duration` from `now` on, without power; whether its data ages at all.
    fn store(&mut self, _now: Instant, _duration: Nanoseconds) -> bool {
        false
    }

    /// Where the time of its requests went; of a stack, the sum over its members.
    fn attribution(&self) -> Attribution;

    /// Ends all work, so that the state can be saved; returns when that is done.
    fn shut_down(&mut self, at: Instant) -> Instant {
        self.flush(at)
    }

    /// Writes the state of a drive that was shut down.
    ///
    /// # Errors
    /// When writing fails, or the state cannot be saved; of a stack, its members' can.
    fn save(&self, _to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        Err(SnapshotError::Unsupported { what: "something before it" })
    }
}

/// Drives whose flash keeps payload are asked by what keeps it, not from here.
impl<M: Mapping> Responder for Ssd<M, Null> {
    fn capacity(&self) -> ByteLength {
        self.geometry().capacity()
    }

    fn block_size(&self) -> ByteLength {
        Sector::SIZE
    }

    #[inline(always)]
    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.read_sectors(at, first, count)
    }

    #[inline(always)]
    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.write_sectors(at, first, count)
    }

    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.write_fua_sectors(at, first, count)
    }

    fn begin(&mut self, at: Instant, request: Request) -> Step {
        let Request { kind, first, count } = request;
        match kind {
            Kind::Read => self.begin_read(at, first, count),
            Kind::Write => self.begin_write(at, first, count, false),
            Kind::WriteThrough => self.begin_write(at, first, count, true),
            Kind::Flush => self.begin_flush(at),
        }
    }

    fn go_on(&mut self, waiting: Waiting) -> Step {
        Ssd::go_on(self, waiting)
    }

    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.trim_by_commands(at, first, count)
    }

    fn passes_trim(&self) -> bool {
        true
    }

    fn flush(&mut self, at: Instant) -> Instant {
        Ssd::flush(self, at)
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        Ssd::rest(self, from, duration);
    }

    #[inline(always)]
    fn prefetch(&self, sector: Sector) {
        self.prefetch_map_of_sector(sector);
    }

    #[inline(always)]
    fn prefetch_for_write(&self, sector: Sector) {
        self.prefetch_target_of_sector(sector);
    }

    fn counters(&self) -> Counters {
        Ssd::counters(self)
    }

    fn wear(&self) -> Wear {
        Ssd::wear(self)
    }

    fn unused_flash(&self) -> ByteLength {
        Ssd::unused_flash(self)
    }

    fn spare_blocks(&self) -> Option<SpareBlocks> {
        Ssd::spare_blocks(self)
    }

    fn format(&mut self, at: Instant) -> Result<Instant, FormatError> {
        Ssd::format(self, at)
    }

    fn secure_erase(&mut self, at: Instant) -> Result<Instant, FormatError> {
        Ssd::secure_erase(self, at)
    }

    fn store(&mut self, now: Instant, duration: Nanoseconds) -> bool {
        Ssd::store(self, Nanoseconds::new(now.nanos()), duration)
    }

    fn attribution(&self) -> Attribution {
        Ssd::attribution(self)
    }

    fn shut_down(&mut self, at: Instant) -> Instant {
        Ssd::shut_down(self, at)
    }

    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        Ssd::save(self, to)
    }
}
