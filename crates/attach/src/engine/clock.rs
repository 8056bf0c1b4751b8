//! The drive's clock and the host's.

use std::time::{Duration, Instant as HostInstant};

use ssdlab_units::{Instant, Nanoseconds};

/// Relation between the time of the drive and that of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// Real time: a request takes as long as on the drive, whose clock runs with the host's.
    #[default]
    Real,
    /// Fast time: a request takes as long as the host needs. The drive's clock advances only by the duration of
    /// each request, one after the other, and by the host's pauses.
    Fast,
}

/// Shortest pause between requests that counts as idle time; shorter ones are overhead of the host.
const PAUSE: Duration = Duration::from_millis(2);

/// The mapping between both clocks.
#[derive(Debug)]
pub(super) struct Clock {
    time: Time,
    began: HostInstant,
    base: Instant,
    /// Fast time: arrival of the latest request, in nanoseconds since `began`.
    latest: std::sync::atomic::AtomicU64,
    /// Nanoseconds that requests have taken for hosts whose clock is not this machine's.
    waited: std::sync::atomic::AtomicU64,
}

impl Clock {
    /// Returns a clock that shows `base` at `began` of the host's clock, and before it.
    pub(super) fn new(time: Time, began: HostInstant, base: Instant) -> Clock {
        Clock { time, began, base, latest: 0.into(), waited: 0.into() }
    }

    pub(super) fn time(&self) -> Time {
        self.time
    }

    /// Returns the drive's time now. In fast time this is `busy_until`, the end of the latest request, plus the
    /// host's pause.
    pub(super) fn now(&self, busy_until: Instant) -> Instant {
        self.drive_time(HostInstant::now(), busy_until)
    }

    /// Returns the drive's time for a request that arrived at `host_arrival`.
    pub(super) fn drive_time(&self, host_arrival: HostInstant, busy_until: Instant) -> Instant {
        let elapsed = host_arrival.saturating_duration_since(self.began).as_nanos() as u64;
        match self.time {
            Time::Real => {
                let waited = self.waited.load(std::sync::atomic::Ordering::Relaxed);
                self.base + Nanoseconds::new(elapsed + waited)
            }
            Time::Fast => {
                let latest = self.latest.swap(elapsed, std::sync::atomic::Ordering::Relaxed);
                let pause = elapsed.saturating_sub(latest);
                if pause < PAUSE.as_nanos() as u64 {
                    return busy_until;
                }
                busy_until + Nanoseconds::new(pause)
            }
        }
    }

    /// Returns true if the clock runs only with the arrival times that requests bring, because `began` lies in
    /// the future.
    pub(super) fn runs_on_arrivals(&self) -> bool {
        self.began > HostInstant::now()
    }

    /// Adds the duration of a request to the drive's clock. For hosts that give arrival times without the time
    /// that they wait for answers; see `Clock::runs_on_arrivals`.
    pub(super) fn note_wait(&self, time: Nanoseconds) {
        self.waited.fetch_add(time.nanos(), std::sync::atomic::Ordering::Relaxed);
    }

    pub(super) fn deadline(&self, at: Instant) -> Option<HostInstant> {
        match self.time {
            Time::Fast => None,
            Time::Real => Some(self.began + Duration::from_nanos(at.since(self.base).nanos())),
        }
    }
}
