//! A USB enclosure: its bridge takes commands up one by one, its link carries their data, and
//! what it does not know of, it drops.
//!
//! Data streams through: the link is taken from when the bridge has taken up the command, and a
//! request is answered when both the link and the drive are done with it.

use ssdlab_model::attribution::{Attribution, Parts};
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use super::UsbBridge;
use super::members::Kind;
use crate::simulated::Responder;
use crate::simulated::model::Model;

/// A drive behind a bridge.
#[derive(Clone)]
pub(super) struct Bridged {
    drive: Box<dyn Model>,
    bridge: UsbBridge,
    /// When the bridge can take up another command.
    ready: Instant,
    /// When the link is free, to the host and to the drive.
    to_host: Instant,
    to_drive: Instant,
    /// The time that requests take here rather than in the drive.
    own: Attribution,
}

impl Bridged {
    pub(super) fn new(drive: Box<dyn Model>, bridge: UsbBridge) -> Self {
        let start = Instant::START;
        let own = Attribution::default();
        Bridged { drive, bridge, ready: start, to_host: start, to_drive: start, own }
    }

    /// The bridge takes up a command that arrives at `at`; the instant it passes it on.
    fn take_up(&mut self, kind: Kind, at: Instant) -> Instant {
        let (free, per_command) = (self.ready.max(at), self.bridge.per_command);
        let parts = self.own(kind);
        parts.queue += free.since(at);
        parts.command += per_command;
        self.ready = free + per_command;
        self.ready
    }

    /// What requests of this kind take here; flushes count with trims.
    fn own(&mut self, kind: Kind) -> &mut Parts {
        match kind {
            Kind::Read => &mut self.own.reads,
            Kind::Write | Kind::WriteThrough => &mut self.own.writes,
            Kind::Trim => &mut self.own.others,
        }
    }

    /// A command is answered at `end`.
    fn answer(&mut self, end: Instant) -> Instant {
        if self.bridge.one_at_a_time {
            self.ready = self.ready.max(end);
        }
        end
    }

    fn transfer(&mut self, kind: Kind, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let start = self.take_up(kind, at);
        let link = if kind == Kind::Read { &mut self.to_host } else { &mut self.to_drive };
        *link = start.max(*link) + self.bridge.link.duration(count.length());
        let moved = *link;
        let done = kind.send(&mut *self.drive, start, first, count);
        // The drive's own time goes on meanwhile: what it does not cover is the link's.
        self.own(kind).link += moved.max(done).since(done);
        self.answer(done.max(moved))
    }
}

impl Responder for Bridged {
    fn capacity(&self) -> ByteLength {
        self.drive.capacity()
    }

    fn block_size(&self) -> ByteLength {
        self.drive.block_size()
    }

    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.transfer(Kind::Read, at, first, count)
    }

    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.transfer(Kind::Write, at, first, count)
    }

    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let kind = if self.bridge.flush { Kind::WriteThrough } else { Kind::Write };
        self.transfer(kind, at, first, count)
    }

    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let start = self.take_up(Kind::Trim, at);
        let end = if self.passes_trim() { self.drive.trim(start, first, count) } else { start };
        self.answer(end)
    }

    fn passes_trim(&self) -> bool {
        self.bridge.trim && self.drive.passes_trim()
    }

    fn flush(&mut self, at: Instant) -> Instant {
        let start = self.take_up(Kind::Trim, at);
        let end = if self.bridge.flush { self.drive.flush(start) } else { start };
        self.answer(end)
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        self.drive.rest(from, duration);
    }

    fn prefetch(&self, sector: Sector) {
        self.drive.prefetch(sector);
    }

    fn prefetch_for_write(&self, sector: Sector) {
        self.drive.prefetch_for_write(sector);
    }

    fn counters(&self) -> Counters {
        self.drive.counters()
    }

    fn wear(&self) -> Wear {
        self.drive.wear()
    }

    fn unused_flash(&self) -> ByteLength {
        self.drive.unused_flash()
    }

    fn attribution(&self) -> Attribution {
        let mut sum = self.drive.attribution();
        sum += self.own;
        sum
    }
}
