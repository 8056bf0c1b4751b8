//! Short probes of a drive beside the phases of an experiment: its approximate speed, a check of written
//! data, and the cost of the request generator.

use ssdlab_drive::Unobserved;
use ssdlab_drive::measure::PhaseResult;
use ssdlab_drive::phase::{Amount, Mix, Pattern, Phase, Region};
use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::{ByteLength, Instant, MIB, Nanoseconds};

use super::RealDrive;
use super::buffers::Buffers;
use super::medium::not_prepared;
use super::payload::Payload;
use super::phase_runner::{Clock, PhaseRunner, ProgressReporter, Request};
use super::synchronous::{self, NullTarget, Transfer};
use crate::data::{BlockData, SECTOR};

/// Largest number of bytes that [`RealDrive::probe_throughput`] moves in each direction.
pub const PROBE_LENGTH: ByteLength = ByteLength::new(MIB.bytes() * 128);
/// Longest time of each direction, but for the last request.
const PROBE_TIME: Nanoseconds = Nanoseconds::from_millis(500);

impl RealDrive {
    /// Estimates the throughput of the drive in bytes per second: sequential writes, then sequential
    /// reads of the same data, 1 MiB each, one at a time.
    ///
    /// Takes about a second at most, and writes at most 128 MiB to the beginning of the prepared region,
    /// which must be filled afterwards; a drive that may not be written to is only read. The result is
    /// the bytes of both divided by the time of both; on a drive with a write cache it shows that cache.
    pub fn probe_throughput(&mut self) -> Result<f64, DriveError> {
        let length = self.length.min(PROBE_LENGTH);
        let block_size = length.min(MIB);
        if length == ByteLength::ZERO {
            return Err(not_prepared());
        }
        let mut phase = Phase {
            name: "probe".into(),
            pattern: Pattern::Sequential,
            block_size,
            depth: 1,
            mix: Mix::WRITE,
            region: Region::first(length),
            amount: Amount::Bytes(block_size * length.whole(block_size)),
            rate: None,
            seed: 0,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        if self.medium.check_writable().is_err() {
            phase.mix = Mix::READ;
            let read = self.execute_phase(&phase, Some(PROBE_TIME), &mut Unobserved)?;
            return Ok(read.bytes().bytes() as f64 / read.elapsed.seconds());
        }
        let written = self.execute_phase(&phase, Some(PROBE_TIME), &mut Unobserved)?;
        phase.mix = Mix::READ;
        phase.amount = Amount::Bytes(written.bytes_written);
        phase.region = Region::first(written.bytes_written);
        let read = self.execute_phase(&phase, Some(PROBE_TIME), &mut Unobserved)?;
        let bytes = written.bytes() + read.bytes();
        Ok(bytes.bytes() as f64 / (written.elapsed + read.elapsed).seconds())
    }

    /// Reads a region back and checks that every sector of it has the data that phases with this seed
    /// wrote there. The error names the first sector that does not.
    pub fn verify(&mut self, region: Region, seed: u64) -> Result<(), DriveError> {
        self.check_region(region)?;
        self.drop_page_cache(region)?;
        let data = BlockData::new(seed);
        let mut buffers = Buffers::new(1, MIB)?;
        let mut file = self.handle()?;
        let mut offset = region.offset;
        while offset < region.end() {
            let length = (region.end() - offset).min(MIB);
            let buffer = &mut buffers.get(0)[..length.bytes() as usize];
            let request = Request { offset, is_read: true, sequence: 0, intended: None };
            file.transfer(&request, buffer)?;
            data.verify(buffer, offset).map_err(|mismatch| {
                let what =
                    format!("check of what was written to {}", self.medium.named().display());
                DriveError::with_source(ErrorKind::Io, what, mismatch)
            })?;
            offset += length;
        }
        Ok(())
    }
}

/// Runs a phase without a drive, one request at a time. Its time is the cost of the request generator
/// itself, and so the least that can be measured with it.
pub fn run_on_null_target(phase: &Phase) -> Result<PhaseResult, DriveError> {
    phase.validate(phase.region.end(), SECTOR)?;
    let mut payload = Payload::new(&BlockData::new(phase.seed), phase, 0)?;
    let mut runner = PhaseRunner::new(phase, 0);
    let mut observer = Unobserved;
    let mut reporter = ProgressReporter::new(&mut observer);
    let clock = Clock::start();
    synchronous::run(&mut runner, &mut reporter, &clock, &mut payload, &mut NullTarget)?;
    Ok(runner.finish(Instant::START, clock.now()))
}
