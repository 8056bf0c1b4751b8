//! Requests in flight, by tag.

use super::host::{Command, RequestTag};
use super::parts::Parts;
use crate::data_time::DataTime;
use crate::ssd::Configuration;
use crate::trim::TrimParameters;
use crate::units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) command: Command,
    pub(super) sent: Instant,
}

/// Table of requests, and the times for which their commands keep the controller busy.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    requests: Vec<Request>,
    flush_overhead: Nanoseconds,
    trim: TrimParameters,
    data_time: DataTime,
    /// Controller occupancy and added latency per unit of a command, by `data_time`.
    occupancy_per_unit: Nanoseconds,
    latency_per_unit: Nanoseconds,
    sectors_per_unit_shift: u32,
    logical_units: u32,
}

impl Requests {
    pub(super) fn new(configuration: &Configuration) -> Requests {
        let data_time = configuration.mechanisms.data_time;
        Requests {
            requests: Vec::new(),
            flush_overhead: configuration.mechanisms.flush.overhead,
            trim: configuration.mechanisms.trim,
            data_time,
            occupancy_per_unit: data_time.occupancy(configuration.geometry.unit_size()),
            latency_per_unit: data_time.latency(configuration.geometry.unit_size()),
            sectors_per_unit_shift: configuration.geometry.sectors_per_unit_shift(),
            logical_units: configuration.geometry.logical_units(),
        }
    }

    /// Begins a request. Returns the time for which it keeps the controller busy beyond that of every command.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        sent: Instant,
        tag: RequestTag,
        command: Command,
    ) -> Nanoseconds {
        let place = tag.0 as usize;
        if place >= self.requests.len() {
            self.grow(place);
        }
        self.requests[place] = Request { command, sent };
        let (first, units, longer) = match command {
            Command::Read { first, units } | Command::Write { first, units, .. } => {
                (first, units, self.occupancy_per_unit * u64::from(units))
            }
            Command::Trim { first, units } => {
                let sectors = SectorCount(u64::from(units) << self.sectors_per_unit_shift);
                (first, units, self.trim.duration(sectors))
            }
            Command::ReadSectors { first, count } | Command::WriteSectors { first, count, .. } => {
                self.parts(first, count);
                return self.data_time.occupancy(count.length());
            }
            Command::Flush => return self.flush_overhead,
        };
        let is_within = u64::from(first.0) + u64::from(units) <= u64::from(self.logical_units);
        let is_empty = units == 0 && !matches!(command, Command::Trim { .. });
        assert!(!is_empty && is_within, "a request lies within the drive");
        longer
    }

    /// Returns the units of a range of sectors.
    pub(super) fn parts(&self, first: Sector, count: SectorCount) -> Parts {
        Parts::of(first, count, self.sectors_per_unit_shift, self.logical_units)
    }

    #[cold]
    fn grow(&mut self, place: usize) {
        let none = Request { command: Command::Flush, sent: Instant::START };
        self.requests.resize(place + 1, none);
    }

    #[inline(always)]
    pub(super) fn get(&self, tag: RequestTag) -> Request {
        self.requests[tag.0 as usize]
    }

    /// Returns the latency that the length of a request adds after its data, and the time for which its length
    /// keeps the controller busy beyond that of every command.
    #[inline(always)]
    pub(super) fn data_time(&self, command: &Command) -> (Nanoseconds, Nanoseconds) {
        match *command {
            Command::Read { units, .. } | Command::Write { units, .. } => {
                let units = u64::from(units);
                (self.latency_per_unit * units, self.occupancy_per_unit * units)
            }
            Command::ReadSectors { count, .. } | Command::WriteSectors { count, .. } => {
                let length = count.length();
                (self.data_time.latency(length), self.data_time.occupancy(length))
            }
            Command::Trim { .. } | Command::Flush => (Nanoseconds::ZERO, Nanoseconds::ZERO),
        }
    }

    /// Returns the number of bytes that a request moves.
    pub(super) fn moved(&self, tag: RequestTag) -> ByteLength {
        match self.get(tag).command {
            Command::Read { units, .. } | Command::Write { units, .. } => {
                SectorCount(u64::from(units) << self.sectors_per_unit_shift).length()
            }
            Command::ReadSectors { count, .. } | Command::WriteSectors { count, .. } => {
                count.length()
            }
            Command::Trim { .. } | Command::Flush => ByteLength::ZERO,
        }
    }

    /// Returns the trim parameters of the drive.
    pub(super) fn trim_parameters(&self) -> TrimParameters {
        self.trim
    }
}
