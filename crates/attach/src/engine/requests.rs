//! What all requests have in common: when they arrive, whether they are taken, and their end.

use std::cell::RefCell;
use std::time::Instant as HostInstant;

use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

use super::read::Stretch;
use super::{Answer, Engine, Errno, Inner, Kind, Time, errno};
use crate::store::receive::Piece;

/// Lists that requests need, kept so that they need not allocate.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) stretches: Vec<Stretch>,
    pub(super) sums: Vec<u32>,
    pub(super) pieces: Vec<Piece>,
}

crate::sync::thread_local! {
    pub(super) static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Sectors that a range of bytes touches.
pub(super) fn sectors(offset: u64, length: u64) -> (Sector, SectorCount) {
    let size = Sector::SIZE.bytes();
    let (first, end) = (offset / size, (offset + length).div_ceil(size));
    (Sector(first), SectorCount(end - first))
}

impl Inner {
    /// Returns true if requests are taken, and the instant at which one arrives that came at
    /// `came`: not before one that was taken earlier.
    pub(super) fn begin(&mut self, engine: &Engine, came: HostInstant) -> Result<Instant, Errno> {
        if self.is_cut || self.is_closed {
            return Err(Errno::IO);
        }
        let at = engine.clock.of(came, self.busy_until).max(self.latest);
        if engine.clock.time() == Time::Real {
            self.pass_until(at);
        }
        self.rest_until(at, engine);
        self.latest = at;
        self.keep_up();
        Ok(at)
    }

    /// Notes a request in the recording, if there is one.
    #[inline]
    pub(super) fn record(&mut self, kind: Kind, offset: u64, length: u64) {
        if let Some(trace) = &mut self.trace {
            trace.note(kind, offset, length);
        }
    }

    /// Tells the model of the pause since it was last busy, if it was long enough to be one.
    pub(super) fn rest_until(&mut self, at: Instant, engine: &Engine) {
        let idle = engine.configuration.buffer.idle_before_flush;
        let is_idle = self.in_flight.count() == 0 && at > self.busy_until;
        if is_idle && at.since(self.busy_until) >= idle {
            // What is only read is not collected either: that would be kept in memory.
            if !engine.read_only {
                self.model.rest(self.busy_until, at.since(self.busy_until));
            }
            self.busy_until = at;
        }
    }

    pub(super) fn end(&mut self, kind: Kind, bytes: u64, arrived: Instant, at: Instant) -> Answer {
        self.busy_until = self.busy_until.max(at);
        self.recorder.note(kind, bytes, at.since(arrived));
        Answer { at }
    }

    /// Returns true if a write is taken; says so before the model knows of it.
    pub(super) fn admit_write(&mut self, engine: &Engine, at: Instant) -> Result<(), Errno> {
        if let Some(failed) = engine.syncer.failed() {
            return Err(failed);
        }
        if self.model.store().is_stuck() {
            self.carry_out().map_err(|error| errno(&error))?;
        }
        match &mut self.writes_left {
            Some(0) => {
                self.cut_power(engine, at);
                Err(Errno::IO)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// What a unit holds now, into `data`, for who writes a part of it.
    pub(super) fn read_unit(
        &mut self,
        engine: &Engine,
        unit: LogicalUnit,
        data: &mut [u8],
    ) -> Result<(), Errno> {
        let Some(place) = self.model.place_of(unit) else {
            data.fill(engine.blank);
            return Ok(());
        };
        let sum = self.model.store().read_unit(place, data).map_err(|it| errno(&it))?;
        if crc32fast::hash(data) == sum { Ok(()) } else { Err(Errno::IO) }
    }
}

/// How long no request has come when the drive is looked after instead.
pub(super) const AT_REST: Nanoseconds = Nanoseconds::from_millis(10);

impl Engine {
    /// Refuses what would change a drive that is only read.
    pub(super) fn check_writable(&self) -> Result<(), Errno> {
        if self.read_only { Err(Errno::ROFS) } else { Ok(()) }
    }

    pub(super) fn check_range(&self, offset: u64, length: u64) -> Result<(), Errno> {
        match offset.checked_add(length) {
            Some(end) if end <= self.capacity => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }
    /// Sees to what the drive does when nobody asks anything of it; to be called now and then. While
    /// requests come they see to it themselves, and need not wait for a thread that others may go before.
    pub fn tick(&self) {
        let mut inner = match self.inner.try_lock() {
            Err(std::sync::TryLockError::WouldBlock) => return,
            taken => taken.expect("no request has panicked"),
        };
        if inner.is_cut || inner.is_closed || self.clock.time() != Time::Real {
            return;
        }
        let at = self.clock.now(inner.busy_until).max(inner.latest);
        inner.pass_until(at);
        if at.since(inner.latest) >= AT_REST {
            inner.rest_until(at, self);
            inner.keep_up();
        }
        self.release(inner);
    }
}
