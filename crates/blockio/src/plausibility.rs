//! Plausibility checks of a drive's answers: reads faster than the link carries, and writes that are
//! faster if the data is easy to compress.

use ssdlab_drive::Remark;
use ssdlab_drive::measure::PhaseResult;
use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::RealDrive;
use super::buffers::Buffers;
use super::phase_runner::{Clock, Request};
use super::synchronous::Transfer;
use crate::data::BlockData;

/// Largest number of bytes that [`ssdlab_drive::Drive::examine`] writes to a real drive.
pub const EXAMINE_BYTES_MAX: ByteLength = ByteLength::new(PIECE.bytes() * 2 * PAIRS as u64);

/// Bytes written at a time, by turns zeros and incompressible data.
const PIECE: ByteLength = ByteLength::new(MIB.bytes() * 8);
/// Number of such pairs.
const PAIRS: usize = 3;
/// Time after which a piece is cut short.
const PIECE_TIME: Nanoseconds = Nanoseconds::from_millis(250);
const REQUEST: ByteLength = ByteLength::new(256 << 10);

/// Ratio of speeds above which zeros are treated differently from other data.
const COMPRESSION_RATIO: f64 = 1.5;
/// Ratio of read speed to link speed above which reads did not come through the link.
const ABOVE_LINK: f64 = 1.05;
/// Shortest phase whose speed is meaningful.
const TIME_MIN: Nanoseconds = Nanoseconds::from_millis(100);

/// Measurements of phases so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plausibility {
    /// Fastest reads in bytes per second.
    fastest: f64,
}

impl Plausibility {
    /// Records a phase.
    pub(super) fn record(&mut self, result: &PhaseResult) {
        if result.elapsed >= TIME_MIN {
            let speed = result.bytes_read.bytes() as f64 / result.elapsed.seconds();
            self.fastest = self.fastest.max(speed);
        }
    }
}

impl RealDrive {
    /// Returns remarks on the drive's answers. Writes at most [`EXAMINE_BYTES_MAX`] to the beginning of the
    /// prepared region, if that may be written to.
    pub(super) fn check_plausibility(&mut self) -> Vec<Remark> {
        let mut remarks: Vec<Remark> = self.faster_than_link().into_iter().collect();
        let is_writable = self.medium.check_writable().is_ok() && self.handle().is_ok();
        if is_writable && self.length >= REQUEST {
            // An error here does not spoil the results that the run has measured.
            remarks.extend(self.compare_data().ok().flatten());
        }
        remarks
    }

    fn faster_than_link(&self) -> Option<Remark> {
        let link = self.environment.drive.as_ref()?.link.as_ref()?;
        let carried = link.bytes_per_second as f64;
        (self.plausibility.fastest > carried * ABOVE_LINK).then(|| Remark {
            code: "faster-than-link",
            text: format!(
                "Reads reached {:.0} MB/s, more than the link carries ({}, {:.0} MB/s): something \
                 on the host's side of the link answered, not the drive.",
                self.plausibility.fastest / 1e6,
                link.name,
                carried / 1e6
            ),
        })
    }

    /// Compares the speed of writing zeros with that of data without any pattern, by turns.
    fn compare_data(&mut self) -> Result<Option<Remark>, DriveError> {
        let mut buffers = Buffers::new(2, REQUEST)?;
        buffers.get(0).fill(0);
        let data = BlockData::new(u64::MAX);
        let (mut zeros, mut others) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            zeros.push(self.write_piece(buffers.get(0), None)?);
            others.push(self.write_piece(buffers.get(1), Some(&data))?);
        }
        Ok(compare_speeds(&zeros, &others))
    }

    /// Writes one piece and makes it durable. Returns its bytes per second, without the time to generate
    /// the data.
    fn write_piece(
        &mut self,
        buffer: &mut [u8],
        data: Option<&BlockData>,
    ) -> Result<f64, DriveError> {
        let most = PIECE.min(self.length).whole(REQUEST);
        let mut handle = self.handle()?;
        let (mut time, mut bytes) = (Nanoseconds::ZERO, ByteLength::ZERO);
        for index in 0..most {
            let request = Request {
                offset: REQUEST * index,
                is_read: false,
                sequence: self.sequence + index,
                intended: None,
            };
            if let Some(data) = data {
                data.fill(buffer, request.offset, request.sequence);
            }
            let clock = Clock::start();
            handle.transfer(&request, buffer)?;
            time += clock.now();
            bytes += REQUEST;
            if time > PIECE_TIME {
                break;
            }
        }
        let clock = Clock::start();
        handle.sync_data()?;
        time += clock.now();
        self.sequence += most;
        Ok(bytes.bytes() as f64 / time.seconds().max(1e-9))
    }
}

/// Returns a remark if even the slowest zeros were clearly faster than the fastest other data.
fn compare_speeds(zeros: &[f64], others: &[f64]) -> Option<Remark> {
    let mean = |speeds: &[f64]| speeds.iter().sum::<f64>() / speeds.len() as f64;
    let slowest = zeros.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = others.iter().copied().fold(0.0, f64::max);
    (slowest > fastest * COMPRESSION_RATIO).then(|| Remark {
        code: "compresses",
        text: format!(
            "Zeros are written {:.1} times faster than data without a pattern: the drive, or \
             something above it, compresses or skips such data. The figures here are for \
             incompressible data; tools that write zeros or repeat one block would show more.",
            mean(zeros) / mean(others)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_that_are_only_sometimes_faster_are_not_called_easier() {
        assert!(compare_speeds(&[300.0, 310.0, 290.0], &[100.0, 120.0, 90.0]).is_some());
        let text = compare_speeds(&[300.0; 3], &[100.0; 3]).unwrap().text;
        assert!(text.contains("3.0 times faster"), "{text}");
        assert!(compare_speeds(&[300.0, 310.0, 130.0], &[100.0, 120.0, 90.0]).is_none());
        assert!(compare_speeds(&[100.0; 3], &[100.0; 3]).is_none());
        assert!(compare_speeds(&[50.0; 3], &[100.0; 3]).is_none());
    }
}
