//! A drive that maps by block answers requests of whole units.

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::log_block::LogBlockSsd;
use ssdlab_model::snapshot::{Encoder, SnapshotError};
use ssdlab_units::{ByteLength, Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

use super::responder::Responder;

/// The units that a range of sectors is.
fn units_of(drive: &LogBlockSsd, first: Sector, count: SectorCount) -> (LogicalUnit, u32) {
    let shift = drive.geometry().sectors_per_unit_shift();
    let part = (1 << shift) - 1;
    assert!((first.0 | count.0) & part == 0, "requests are whole units of this drive");
    (LogicalUnit((first.0 >> shift) as u32), (count.0 >> shift) as u32)
}

impl Responder for LogBlockSsd {
    fn capacity(&self) -> ByteLength {
        self.geometry().capacity()
    }

    fn block_size(&self) -> ByteLength {
        self.geometry().unit_size()
    }

    fn read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let (first, units) = units_of(self, first, count);
        LogBlockSsd::read(self, at, first, units)
    }

    fn write(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let (first, units) = units_of(self, first, count);
        LogBlockSsd::write(self, at, first, units)
    }

    fn write_through(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let (first, units) = units_of(self, first, count);
        LogBlockSsd::write_fua(self, at, first, units)
    }

    fn trim(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.trim_by_commands(at, first, count)
    }

    fn passes_trim(&self) -> bool {
        true
    }

    fn flush(&mut self, at: Instant) -> Instant {
        LogBlockSsd::flush(self, at)
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        LogBlockSsd::rest(self, from, duration);
    }

    fn store(&mut self, now: Instant, duration: Nanoseconds) -> bool {
        LogBlockSsd::store(self, Nanoseconds::new(now.nanos()), duration)
    }

    /// Its merges cost more than what could be hidden.
    fn prefetch(&self, _: Sector) {}

    fn prefetch_for_write(&self, _: Sector) {}

    fn counters(&self) -> Counters {
        LogBlockSsd::counters(self)
    }

    fn wear(&self) -> Wear {
        LogBlockSsd::wear(self)
    }

    fn unused_flash(&self) -> ByteLength {
        LogBlockSsd::unused_flash(self)
    }

    fn attribution(&self) -> Attribution {
        LogBlockSsd::attribution(self)
    }

    fn shut_down(&mut self, at: Instant) -> Instant {
        LogBlockSsd::shut_down(self, at)
    }

    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        LogBlockSsd::save(self, to)
    }
}
