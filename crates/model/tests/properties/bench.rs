//! A host, what it believes, and a drive that is checked after every step.

use std::collections::HashMap;

use proptest::prelude::*;
use ssdlab_model::flush::WriteCache;
use ssdlab_model::mapping::Mapping;
use ssdlab_model::streams::StreamId;
use ssdlab_model::{Configuration, Ssd};
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

use crate::checked_media::{CheckedMedia, Versions};

/// What a host does. First and length are shares of the drive, out of 2^16 and 2^8.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Read {
        first: u16,
        units: u8,
    },
    Write {
        first: u16,
        units: u8,
    },
    Trim {
        first: u16,
        units: u8,
    },
    WriteFua {
        first: u16,
        units: u8,
    },
    /// A write and a trim by sectors, which need not be whole units.
    WriteSectors {
        first: u16,
        sectors: u8,
    },
    TrimSectors {
        first: u16,
        sectors: u8,
    },
    Flush,
    Rest {
        micros: u32,
    },
    /// Writes single units all over the drive, so that collection has work.
    Scatter {
        seed: u16,
    },
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<u16>(), 1..40u8).prop_map(|(first, units)| Step::Read { first, units }),
        6 => (any::<u16>(), 1..40u8).prop_map(|(first, units)| Step::Write { first, units }),
        1 => (any::<u16>(), 1..40u8).prop_map(|(first, units)| Step::Trim { first, units }),
        1 => (any::<u16>(), 1..40u8).prop_map(|(first, units)| Step::WriteFua { first, units }),
        4 => (any::<u16>(), 1..60u8)
            .prop_map(|(first, sectors)| Step::WriteSectors { first, sectors }),
        1 => (any::<u16>(), 1..60u8)
            .prop_map(|(first, sectors)| Step::TrimSectors { first, sectors }),
        1 => Just(Step::Flush),
        1 => (0..400_000u32).prop_map(|micros| Step::Rest { micros }),
        2 => any::<u16>().prop_map(|seed| Step::Scatter { seed }),
    ]
}

/// A drive, what its map says, and what the host believes.
pub struct Bench<M: Mapping> {
    pub ssd: Ssd<M, CheckedMedia>,
    map: Versions,
    /// The number of the latest write of each unit; none when it was trimmed or never written.
    believed: HashMap<LogicalUnit, u64>,
    writes: u64,
    now: Instant,
    units: u32,
    trim: bool,
    /// Whether a flush waits for the flash: not when capacitors protect the buffer.
    flush_waits: bool,
    streams: u32,
    /// Whether a plain write waits for the flash, too.
    write_through: bool,
}

impl<M: Mapping> Bench<M> {
    /// A drive whose map is what `mapping` makes of one that knows versions.
    pub fn new(configuration: &Configuration, mapping: impl Fn(Versions) -> M) -> Bench<M> {
        let units = configuration.geometry.logical_units();
        let map = Versions::new(units);
        let media = CheckedMedia::new(
            &configuration.geometry,
            map.clone(),
            !configuration.buffer.protected,
        );
        Bench {
            ssd: Ssd::with(configuration, mapping(map.clone()), media).expect("a sound drive"),
            map,
            believed: HashMap::new(),
            writes: 0,
            now: Instant::START,
            units,
            trim: configuration.trim,
            streams: configuration.mechanisms.streams.count,
            flush_waits: !configuration.buffer.protected,
            write_through: configuration.mechanisms.flush.write_cache == WriteCache::WriteThrough,
        }
    }

    fn range(&self, first: u16, units: u8) -> (u32, u32) {
        let first = ((u64::from(first) * u64::from(self.units)) >> 16) as u32;
        (first, u32::from(units).min(self.units - first))
    }

    fn sectors_per_unit(&self) -> u32 {
        1 << self.ssd.geometry().sectors_per_unit_shift()
    }

    /// The same in sectors.
    fn range_of_sectors(&self, first: u16, sectors: u8) -> (u32, u32) {
        let all = self.units * self.sectors_per_unit();
        let first = ((u64::from(first) * u64::from(all)) >> 16) as u32;
        (first, u32::from(sectors).min(all - first))
    }

    fn write(&mut self, first: u32, units: u32) -> Instant {
        let is_taken = self.believe(first..first + units);
        let end = self.ssd.write(self.now, LogicalUnit(first), units);
        if is_taken && self.write_through && self.flush_waits {
            self.check_durable_range(first, units, end);
        }
        end
    }

    fn write_fua(&mut self, first: u32, units: u32) -> Instant {
        let is_taken = self.believe(first..first + units);
        let unit = self.ssd.geometry().unit_size();
        let first_sector = Sector::at(unit * u64::from(first));
        let count = SectorCount::of(unit * u64::from(units));
        let end = self.ssd.write_fua_sectors(self.now, first_sector, count);
        if is_taken && self.flush_waits {
            self.check_durable_range(first, units, end);
        }
        end
    }

    /// The host is about to write `units`; whether the drive will take that.
    fn believe(&mut self, units: std::ops::Range<u32>) -> bool {
        if self.ssd.is_read_only() {
            return false;
        }
        let first = units.start;
        for unit in units {
            self.writes += 1;
            self.believed.insert(LogicalUnit(unit), self.writes);
            self.map.announce(LogicalUnit(unit));
        }
        if self.streams > 1 && !first.is_multiple_of(5) {
            self.ssd.hint_stream(StreamId((first % self.streams) as u8));
        }
        true
    }

    fn forget(&mut self, units: std::ops::Range<u32>) {
        if self.trim {
            for unit in units {
                self.believed.remove(&LogicalUnit(unit));
            }
        }
    }

    pub fn step(&mut self, step: Step) {
        let sent = self.now;
        let attributed = self.ssd.attribution();
        let end = match step {
            Step::Read { first, units } => {
                let (first, units) = self.range(first, units);
                self.ssd.read(sent, LogicalUnit(first), units)
            }
            Step::Write { first, units } => {
                let (first, units) = self.range(first, units);
                self.write(first, units)
            }
            Step::WriteFua { first, units } => {
                let (first, units) = self.range(first, units);
                self.write_fua(first, units)
            }
            Step::Trim { first, units } => {
                let (first, units) = self.range(first, units);
                self.forget(first..first + units);
                self.ssd.trim(sent, LogicalUnit(first), units)
            }
            Step::WriteSectors { first, sectors } => {
                let (first, sectors) = self.range_of_sectors(first, sectors);
                let per_unit = self.sectors_per_unit();
                let (unit, end) = (first / per_unit, (first + sectors).div_ceil(per_unit));
                let is_taken = self.believe(unit..end);
                let (first, count) = (Sector(first.into()), SectorCount(sectors.into()));
                let answered = self.ssd.write_sectors(sent, first, count);
                if is_taken && self.write_through && self.flush_waits {
                    self.check_durable_range(unit, end - unit, answered);
                }
                answered
            }
            Step::TrimSectors { first, sectors } => {
                let (first, sectors) = self.range_of_sectors(first, sectors);
                let per_unit = self.sectors_per_unit();
                self.forget(first.div_ceil(per_unit)..(first + sectors) / per_unit);
                let (first, count) = (Sector(first.into()), SectorCount(sectors.into()));
                self.ssd.trim_sectors(sent, first, count)
            }
            Step::Flush => {
                let end = self.ssd.flush(sent);
                if self.flush_waits {
                    self.check_durable(end);
                }
                end
            }
            Step::Rest { micros } => {
                let duration = Nanoseconds::from_micros(micros.into());
                self.ssd.rest(sent, duration);
                sent + duration
            }
            Step::Scatter { seed } => self.scatter(seed),
        };
        assert!(end >= sent, "{step:?} sent at {sent:?} is answered at {end:?}");
        let split = self.ssd.attribution().since(&attributed);
        if !matches!(step, Step::Rest { .. } | Step::Scatter { .. }) {
            let parts = split.reads.total() + split.writes.total() + split.others.total();
            assert_eq!(parts, end.since(sent), "the parts of {step:?}: {split:?}");
        }
        // Some requests follow at once, some when the one before is answered.
        if !matches!(step, Step::Write { .. } | Step::WriteSectors { .. })
            || self.writes.is_multiple_of(2)
        {
            self.now = end;
        }
        self.check();
    }

    fn scatter(&mut self, seed: u16) -> Instant {
        let mut end = self.now;
        let mut unit = u32::from(seed) % self.units;
        for _ in 0..self.units / 4 + 1 {
            end = end.max(self.write(unit, 1));
            unit = (unit + 7919) % self.units;
        }
        end
    }

    /// After every step: each unit is mapped to what the host wrote last, or to nothing.
    fn check(&self) {
        self.ssd.check_invariants();
        for unit in (0..self.units).map(LogicalUnit) {
            let believed = self.believed.get(&unit).copied();
            assert_eq!(self.map.current(unit), believed, "the version of {unit:?}");
        }
    }

    /// After a write that is durable when answered: the flash holds it.
    fn check_durable_range(&self, first: u32, units: u32, at: Instant) {
        for unit in (first..first + units).map(LogicalUnit) {
            assert!(self.ssd.media().is_durable(unit, at), "{unit:?} is lost if power is cut");
        }
    }

    /// After a flush: the flash holds what the host wrote last.
    fn check_durable(&self, at: Instant) {
        for &unit in self.believed.keys() {
            assert!(self.ssd.media().is_durable(unit, at), "{unit:?} is lost if power is cut");
        }
    }

    /// At the end: left alone for long enough, a drive has everything in its flash.
    pub fn finish(mut self) {
        self.now = self.ssd.flush(self.now).max(self.ssd.idle_from());
        let rest = Nanoseconds::from_secs(10);
        self.ssd.rest(self.now, rest);
        self.check();
        self.check_durable(self.now + rest);
        self.ssd.media().check_times();
    }
}
