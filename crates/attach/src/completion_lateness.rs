//! Lateness of answers: how much later than the drive's time they were handed to the system.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Lateness of answers in real time, in nanoseconds: from the drive's time to the moment at which the answer
/// was handed to the system.
///
/// The drive's time counts from when the daemon had received the request, whatever it did meanwhile. The way of
/// the request to the daemon, and of the answer to the client, is not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Lateness {
    /// Number of answers.
    pub answers: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

/// Histogram of the lateness of answers.
#[derive(Debug)]
pub struct LatenessHistogram(Mutex<Histogram<u32>>);

impl Default for LatenessHistogram {
    fn default() -> LatenessHistogram {
        let longest = Duration::from_secs(60).as_nanos() as u64;
        LatenessHistogram(Mutex::new(
            Histogram::new_with_bounds(1, longest, 2).expect("sound bounds"),
        ))
    }
}

impl LatenessHistogram {
    fn lock(&self) -> std::sync::MutexGuard<'_, Histogram<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records answers that were due at `deadlines` and were sent at `sent`.
    pub fn record(&self, sent: Instant, deadlines: impl IntoIterator<Item = Instant>) {
        let mut histogram = self.lock();
        for deadline in deadlines {
            let late = sent.saturating_duration_since(deadline).as_nanos() as u64;
            histogram.saturating_record(late.max(1));
        }
    }

    /// Returns the figures so far.
    pub fn summary(&self) -> Lateness {
        let histogram = self.lock();
        Lateness {
            answers: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
        }
    }
}
