//! Encryption by the host (dm-crypt): every byte costs processor time on its way, and trim passes
//! only if it is allowed to.

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use super::Encryption;
use super::members::Kind;
use crate::simulated::Responder;
use crate::simulated::model::Model;

/// A drive under encryption.
#[derive(Clone)]
pub(super) struct Encrypted {
    drive: Box<dyn Model>,
    encryption: Encryption,
    /// When each processor is free.
    free: Vec<Instant>,
    /// The time that requests take here rather than in the drive.
    own: Attribution,
}

impl Encrypted {
    pub(super) fn new(drive: Box<dyn Model>, encryption: Encryption) -> Self {
        let free = vec![Instant::START; encryption.processors as usize];
        Encrypted { drive, encryption, free, own: Attribution::default() }
    }

    fn pass_on(&mut self, kind: Kind, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let duration = self.encryption.per_processor.duration(count.length());
        let processor = self.free.iter_mut().min().expect("some processor");
        *processor = at.max(*processor) + duration;
        let encrypting = processor.since(at);
        let is_read = kind == Kind::Read;
        let own = if is_read { &mut self.own.reads } else { &mut self.own.writes };
        own.command += duration;
        own.queue += encrypting - duration;
        kind.send(&mut *self.drive, at, first, count) + encrypting
    }
}

impl Responder for Encrypted {
    fn capacity(&self) -> ByteLength {
        self.drive.capacity()
    }

    fn block_size(&self) -> ByteLength {
        self.drive.block_size()
    }

    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.pass_on(Kind::Read, at, first, count)
    }

    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.pass_on(Kind::Write, at, first, count)
    }

    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.pass_on(Kind::WriteThrough, at, first, count)
    }

    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        if self.passes_trim() { self.drive.trim(at, first, count) } else { at }
    }

    fn passes_trim(&self) -> bool {
        self.encryption.trim && self.drive.passes_trim()
    }

    fn flush(&mut self, at: Instant) -> Instant {
        self.drive.flush(at)
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
