//! Converts the requests of a trace to requests of the drive: their times and addresses.

use ssdlab_drive::{DriveError, ErrorKind, LaneRequest, Operation, Region, Source};
use ssdlab_interchange::trace::{Event, Reader};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::Protocol;

/// Mapping of recorded addresses to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressMap {
    /// Unchanged.
    Unchanged,
    /// Whole MiB are moved: `from` MiB of the trace share `to` MiB of the drive.
    Scaled { from: u64, to: u64 },
    /// Addresses beyond the end wrap around to the start.
    Wrapped,
}

/// Source of the requests of a trace.
pub(super) struct TraceSource<R> {
    pub(super) reader: Reader<R>,
    pub(super) protocol: Protocol,
}

impl<R: std::io::BufRead + Send> Source for TraceSource<R> {
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError> {
        loop {
            let event = self.reader.next_event().map_err(|error| {
                let what =
                    format!("{} has changed since it was checked", self.protocol.path.display());
                DriveError::with_source(ErrorKind::Usage, what, error)
            })?;
            let Some(event) = event else { return Ok(None) };
            if self.protocol.choice.limit.is_some_and(|limit| event.at >= limit) {
                return Ok(None);
            }
            if self.protocol.survey.counts(&event) {
                return Ok(Some(self.protocol.request(&event)));
            }
        }
    }
}

impl Protocol {
    fn request(&self, event: &Event) -> LaneRequest {
        let due = self
            .time_factor
            .map(|time_factor| Nanoseconds::new((event.at.nanos() as f64 * time_factor) as u64));
        let region = match event.operation {
            Operation::Flush => Region::first(ByteLength::ZERO),
            _ => self.region(event.region),
        };
        LaneRequest { due, pause: Nanoseconds::ZERO, operation: event.operation, region }
    }

    /// Returns the region of a recorded request on the drive, in whole blocks.
    fn region(&self, recorded: Region) -> Region {
        let (mib, unit) = (MIB.bytes(), self.unit.bytes());
        let offset = recorded.offset.bytes();
        let start = match self.map {
            AddressMap::Unchanged => offset,
            AddressMap::Scaled { from, to } => {
                let scaled = u128::from(offset / mib) * u128::from(to) / u128::from(from);
                scaled as u64 * mib + offset % mib
            }
            AddressMap::Wrapped => offset % self.area.bytes(),
        };
        let first = start / unit * unit;
        let end = (start + recorded.length.bytes()).div_ceil(unit) * unit;
        let length = (end - first).min(self.area.bytes());
        // A request that would reach beyond the end is moved in front of it.
        let first = first.min(self.area.bytes() - length);
        Region { offset: ByteLength::new(first), length: ByteLength::new(length) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ssdlab_interchange::trace::{Choice, Survey};

    use super::*;

    fn protocol(map: AddressMap, area_mib: u64) -> Protocol {
        let text = "0 0 0 8 0\n1000 0 8 8 1\n";
        let survey =
            Survey::of(Reader::new(text.as_bytes(), None).unwrap(), &Choice::default()).unwrap();
        Protocol {
            path: PathBuf::new(),
            choice: Choice::default(),
            survey,
            map,
            area: MIB * area_mib,
            space: MIB * area_mib,
            unit: ByteLength::new(4096),
            time_factor: None,
            depth: 1,
            fills: false,
            is_file: false,
        }
    }

    fn region(offset: u64, length: u64) -> Region {
        Region { offset: ByteLength::new(offset), length: ByteLength::new(length) }
    }

    #[test]
    fn scaled_requests_stay_inside_and_neighbours_stay_neighbours() {
        let scaled = protocol(AddressMap::Scaled { from: 1000, to: 10 }, 10);
        let place = |offset, length| scaled.region(region(offset, length));
        assert_eq!(place(500 << 20, 8192), region(5 << 20, 8192));
        let (one, next) = (place((500 << 20) + 4096, 4096), place((500 << 20) + 8192, 4096));
        assert_eq!(one.end(), next.offset);
        for offset in [0, 999 << 20, (1000 << 20) - 4096] {
            assert!(place(offset, 1 << 20).end() <= MIB * 10);
        }
    }

    #[test]
    fn odd_requests_are_widened_and_wrapped_ones_begin_again() {
        let kept = protocol(AddressMap::Unchanged, 10);
        assert_eq!(kept.region(region(512, 512)), region(0, 4096));
        assert_eq!(kept.region(region(4000, 200)), region(0, 8192));
        let wrapped = protocol(AddressMap::Wrapped, 10);
        assert_eq!(wrapped.region(region(12 << 20, 4096)), region(2 << 20, 4096));
        assert_eq!(wrapped.region(region((10 << 20) - 4096, 8192)).end(), MIB * 10);
    }
}
