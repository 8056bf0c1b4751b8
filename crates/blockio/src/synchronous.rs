//! Synchronous engine: positioned reads and writes, one request at a time. At depth 1 no other engine is
//! faster; io_uring costs twice the processor time there.

use ssdlab_error::DriveError;
use ssdlab_units::ByteLength;

use super::payload::Payload;
use super::phase_runner::{Clock, PhaseRunner, ProgressReporter, Request, Step};

/// Executes requests one after the other.
pub(super) trait Transfer {
    /// Reads into `buffer` or writes it, completely, at the request's offset.
    fn transfer(&mut self, request: &Request, buffer: &mut [u8]) -> Result<(), DriveError>;
}

/// A target that answers immediately. The time of a phase on it is the cost of the request generator
/// itself.
pub(super) struct NullTarget;

impl Transfer for NullTarget {
    #[inline]
    fn transfer(&mut self, _: &Request, buffer: &mut [u8]) -> Result<(), DriveError> {
        std::hint::black_box(buffer);
        Ok(())
    }
}

/// Longest requests whose stamping takes less time than reading the clock.
pub(super) const QUICK_STAMP_MAX: ByteLength = ByteLength::new(16 << 10);

/// Runs a phase to its end; `clock` started with the phase.
pub(super) fn run(
    runner: &mut PhaseRunner,
    reporter: &mut ProgressReporter<'_>,
    clock: &Clock,
    payload: &mut Payload,
    transfer: &mut impl Transfer,
) -> Result<(), DriveError> {
    let is_short = payload.length() <= QUICK_STAMP_MAX;
    let mut now = clock.now();
    loop {
        match runner.next(now) {
            Step::Send(request) => {
                let (buffer, block) = payload.take_buffer(&request, 0);
                // Between the last answer and a request lie some nanoseconds of counting and stamping, less than
                // reading the clock takes.
                let sent = if request.is_read || is_short { now } else { clock.now() };
                transfer.transfer(&request, buffer)?;
                now = clock.now();
                payload.release(block);
                runner.record_completion(&request, sent, now);
            }
            Step::Wait(until) => {
                clock.wait_until(until);
                now = clock.now();
            }
            Step::Done => return Ok(()),
        }
        reporter.report(now, || runner.progress(now))?;
    }
}
