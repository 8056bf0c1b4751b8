//! How late answers are.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// How much later than the drive would have answered answers were on their way, in nanoseconds.
///
/// The drive's time counts from when the daemon had received the request, whatever it did meanwhile.
/// What it took the host to bring the request here, and takes it to bring the answer to who waits, is
/// no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Lateness {
    /// Answers that were waited for.
    pub answers: u64,
    /// Half of them were no later.
    pub p50_ns: u64,
    /// 99 % were no later.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

/// Takes down how late answers are.
#[derive(Debug)]
pub struct Recorder(Mutex<Histogram<u32>>);

impl Default for Recorder {
    fn default() -> Recorder {
        let longest = Duration::from_secs(60).as_nanos() as u64;
        Recorder(Mutex::new(Histogram::new_with_bounds(1, longest, 2).expect("sound bounds")))
    }
}

impl Recorder {
    fn lock(&self) -> std::sync::MutexGuard<'_, Histogram<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes answers that were due at `deadlines` and were sent at `sent`.
    pub fn note(&self, sent: Instant, deadlines: impl IntoIterator<Item = Instant>) {
        let mut histogram = self.lock();
        for deadline in deadlines {
            let late = sent.saturating_duration_since(deadline).as_nanos() as u64;
            histogram.saturating_record(late.max(1));
        }
    }

    /// Returns how late they were so far.
    pub fn figures(&self) -> Lateness {
        let histogram = self.lock();
        Lateness {
            answers: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
        }
    }
}
