//! Common parts of all requests: arrival, admission, idle time and completion.

use std::cell::RefCell;
use std::time::Instant as HostInstant;

use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

use super::read::Segment;
use super::{Answer, Engine, Errno, Inner, Kind, Time, errno};
use crate::store::receive::Piece;

/// Buffers for requests, kept by each thread to avoid allocation.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) segments: Vec<Segment>,
    pub(super) sums: Vec<u32>,
    pub(super) pieces: Vec<Piece>,
}

crate::sync::thread_local! {
    pub(super) static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Returns the sectors that a range of bytes touches: the first and their number.
pub(super) fn sectors(offset: u64, length: u64) -> (Sector, SectorCount) {
    let size = Sector::SIZE.bytes();
    let (first, end) = (offset / size, (offset + length).div_ceil(size));
    (Sector(first), SectorCount(end - first))
}

impl Inner {
    /// Returns the arrival on the drive's clock of a request that came at `host_arrival`: not before the arrival of
    /// earlier requests. Returns an error if the drive is closed or without power.
    pub(super) fn begin_request(
        &mut self,
        engine: &Engine,
        host_arrival: HostInstant,
    ) -> Result<Instant, Errno> {
        if self.is_cut || self.is_closed {
            return Err(Errno::IO);
        }
        let at = engine.clock.drive_time(host_arrival, self.busy_until).max(self.latest);
        if engine.clock.time() == Time::Real {
            self.advance_to(at);
        }
        self.idle_until(at, engine);
        self.latest = at;
        self.carry_out_backlog();
        Ok(at)
    }

    /// Adds a request to the recording, if there is one.
    #[inline]
    pub(super) fn record(&mut self, kind: Kind, offset: u64, length: u64) {
        if let Some(iolog) = &mut self.iolog {
            iolog.note(kind, offset, length);
        }
    }

    /// Tells the model of the idle time since the last answer, if it is long enough for background work.
    pub(super) fn idle_until(&mut self, at: Instant, engine: &Engine) {
        let idle = engine.configuration.buffer.idle_before_flush;
        let is_idle = self.in_flight.count() == 0 && at > self.busy_until;
        if is_idle && at.since(self.busy_until) >= idle {
            // Idle-time gc of a read-only drive would have to be kept in memory.
            if !engine.read_only {
                self.model.idle(self.busy_until, at.since(self.busy_until));
            }
            self.busy_until = at;
        }
    }

    pub(super) fn record_answer(
        &mut self,
        kind: Kind,
        bytes: u64,
        arrived: Instant,
        at: Instant,
    ) -> Answer {
        self.busy_until = self.busy_until.max(at);
        self.recorder.note(kind, bytes, at.since(arrived));
        Answer { at }
    }

    /// Returns an error if a write is not taken. Call it before the model knows of the write.
    pub(super) fn admit_write(&mut self, engine: &Engine, at: Instant) -> Result<(), Errno> {
        if let Some(failed) = engine.group_commit.failed() {
            return Err(failed);
        }
        if self.model.store().has_failed_write() {
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

    /// Reads the current contents of a unit into `data`, for a read-modify-write.
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

/// Time without requests after which the drive counts as idle.
pub(super) const IDLE_AFTER: Nanoseconds = Nanoseconds::from_millis(10);

impl Engine {
    /// Returns EROFS if the drive is read-only.
    pub(super) fn check_writable(&self) -> Result<(), Errno> {
        if self.read_only { Err(Errno::ROFS) } else { Ok(()) }
    }

    pub(super) fn check_range(&self, offset: u64, length: u64) -> Result<(), Errno> {
        match offset.checked_add(length) {
            Some(end) if end <= self.capacity => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }
    /// Lets idle time pass on the drive, in real time; to be called now and then. Does nothing while another
    /// thread holds the lock: threads with requests do that work themselves.
    pub fn tick(&self) {
        let mut inner = match self.inner.try_lock() {
            Err(std::sync::TryLockError::WouldBlock) => return,
            taken => taken.expect("no request has panicked"),
        };
        if inner.is_cut || inner.is_closed || self.clock.time() != Time::Real {
            return;
        }
        let at = self.clock.now(inner.busy_until).max(inner.latest);
        inner.advance_to(at);
        if at.since(inner.latest) >= IDLE_AFTER {
            inner.idle_until(at, self);
            inner.carry_out_backlog();
        }
        self.release(inner);
    }
}
