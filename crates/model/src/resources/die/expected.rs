//! When what is booked will be over, if reads go on overtaking it as they lately have.

use super::Die;
use crate::units::{Instant, Nanoseconds};

/// Over how long the share of time that reads take is worked out.
const SHARE_WINDOW: Nanoseconds = Nanoseconds::from_millis(2);

impl Die {
    /// When booking number `booking` (promised to be over at `promised`) is to be expected to be
    /// over, seen from `at`: what is booked is known, and until it begins reads will come.
    #[inline(always)]
    pub(crate) fn expected_end(&mut self, booking: u32, promised: Instant, at: Instant) -> Instant {
        let Some(span) = self.known(booking) else {
            return promised;
        };
        self.work_out_read_share(at);
        // Fewer come in the time that they add: the host waits for this write meanwhile.
        let wait = match &self.suspender {
            None if span.start <= at => return span.end,
            None => span.start.since(at).nanos(),
            // Until it is over: then reads do not wait for what is in progress either.
            Some(_) => span.end.since(at.min(span.end)).nanos(),
        };
        span.end + Nanoseconds::new(wait * self.read_share / 256)
    }

    fn work_out_read_share(&mut self, at: Instant) {
        let (since, read_time) = self.seen;
        if at > since + SHARE_WINDOW {
            let reads = (self.read_time - read_time).nanos();
            self.read_share = (reads * 256 / at.since(since).nanos()).min(256);
            self.seen = (at, self.read_time);
        }
    }
}
