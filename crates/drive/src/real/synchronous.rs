//! The engine for one request at a time: positioned reads and writes. At depth 1 no other way is
//! faster; io_uring costs twice the processor time there.

use super::course::{Clock, Course, Request, Step, Watch};
use crate::data::BlockData;
use crate::error::DriveError;

/// Carries out one request after the other.
pub(super) trait Transfer {
    /// Reads into `buffer` or writes from it, all of it, at the request's offset.
    fn transfer(&mut self, request: &Request, buffer: &mut [u8]) -> Result<(), DriveError>;
}

/// Answers at once. What a phase takes on it is what the generator itself costs.
pub(super) struct Nothing;

impl Transfer for Nothing {
    #[inline]
    fn transfer(&mut self, _: &Request, buffer: &mut [u8]) -> Result<(), DriveError> {
        std::hint::black_box(buffer);
        Ok(())
    }
}

/// Runs a course to its end; `clock` started with the phase.
pub(super) fn run(
    course: &mut Course,
    watch: &mut Watch<'_>,
    clock: &Clock,
    data: &BlockData,
    transfer: &mut impl Transfer,
    buffer: &mut [u8],
) -> Result<(), DriveError> {
    let mut now = clock.now();
    loop {
        match course.next(now) {
            Step::Send(request) => {
                // Between the last answer and a read lie some nanoseconds of counting, less than
                // asking the clock takes. Before a write lies the making of its data.
                let sent = if request.read {
                    now
                } else {
                    data.fill(buffer, request.offset, request.sequence);
                    clock.now()
                };
                transfer.transfer(&request, buffer)?;
                now = clock.now();
                course.answered(&request, sent, now);
            }
            Step::Wait(until) => {
                clock.wait(until);
                now = clock.now();
            }
            Step::Done => return Ok(()),
        }
        watch.tell(now, || course.progress(now))?;
    }
}
