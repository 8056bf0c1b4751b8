//! The drive's clock, and the host's.

use std::time::{Duration, Instant as HostInstant};

use ssdlab_units::{Instant, Nanoseconds};

/// How long a request takes for whoever asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// As long as on the drive: the clocks of host and drive run alike.
    #[default]
    Real,
    /// As long as the host needs. The drive's clock stands still while the host works, goes on
    /// by what each request takes, one after the other, and by the pauses that the host makes.
    Fast,
}

/// A pause of the host's that is longer than this is one, and not its own overhead.
const PAUSE: Duration = Duration::from_millis(2);

/// Both clocks.
#[derive(Debug)]
pub(super) struct Clock {
    time: Time,
    began: HostInstant,
    base: Instant,
    /// Fast: when the latest request came, in nanoseconds since `began`.
    latest: std::sync::atomic::AtomicU64,
    /// Nanoseconds for which hosts have waited whose clock is not this machine's.
    waited: std::sync::atomic::AtomicU64,
}

impl Clock {
    /// A clock that shows `base` at `began`, and until then.
    pub(super) fn new(time: Time, began: HostInstant, base: Instant) -> Clock {
        Clock { time, began, base, latest: 0.into(), waited: 0.into() }
    }

    pub(super) fn time(&self) -> Time {
        self.time
    }

    /// The drive's time now; the latest request was answered, or will be, at `busy_until`.
    pub(super) fn now(&self, busy_until: Instant) -> Instant {
        self.of(HostInstant::now(), busy_until)
    }

    /// The drive's time for a request that came at `came`.
    pub(super) fn of(&self, came: HostInstant, busy_until: Instant) -> Instant {
        let elapsed = came.saturating_duration_since(self.began).as_nanos() as u64;
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

    /// Returns true if it goes on only by what it is told of when requests come.
    pub(super) fn is_told(&self) -> bool {
        self.began > HostInstant::now()
    }

    /// Where it goes on only by what it is told: whoever tells it when requests come leaves out the time for which
    /// he waits, which was `time` for the latest of them.
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
