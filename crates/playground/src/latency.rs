//! Latencies of the latest requests, in buckets of equal width on a logarithmic scale.

use ssdlab_units::Nanoseconds;

/// Number of buckets in each doubling, as a power of two.
const SUB_BUCKET_BITS: u32 = 3;
/// Power of two in nanoseconds (1 us) below which all latencies share the first bucket.
const MIN_EXPONENT: u32 = 10;
/// Number of doublings: up to 17 s.
const DOUBLINGS: u32 = 24;
/// Number of buckets.
pub(crate) const BUCKETS: usize = (DOUBLINGS << SUB_BUCKET_BITS) as usize;
/// Number of requests in a full window.
const WINDOW: u32 = 50_000;

/// Counts of latencies: of the current window, and of the one before it.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    now: [u32; BUCKETS],
    before: [u32; BUCKETS],
    count: u32,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { now: [0; BUCKETS], before: [0; BUCKETS], count: 0 }
    }
}

impl Latencies {
    #[inline(always)]
    pub(crate) fn record(&mut self, latency: Nanoseconds) {
        if self.count == WINDOW {
            self.rotate_window();
        }
        self.now[bucket(latency.nanos())] += 1;
        self.count += 1;
    }

    #[cold]
    fn rotate_window(&mut self) {
        self.before = self.now;
        self.now = [0; BUCKETS];
        self.count = 0;
    }

    /// Returns the number of latencies in a bucket.
    fn count(&self, bucket: usize) -> u32 {
        self.now[bucket] + self.before[bucket]
    }

    /// Returns the counts of all buckets.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        (0..BUCKETS).map(|it| self.count(it))
    }

    /// Returns the latency in nanoseconds that a share `quantile` of the requests does not exceed, to
    /// one bucket (9 %); NaN without requests.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        let all: u64 = self.counts().map(u64::from).sum();
        let rank = (all as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return upper_bound(index);
            }
        }
        f64::NAN
    }
}

#[inline(always)]
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(1 << MIN_EXPONENT);
    let doubling = nanos.ilog2();
    let fine = (nanos >> (doubling - SUB_BUCKET_BITS)) & ((1 << SUB_BUCKET_BITS) - 1);
    let index = (u64::from(doubling - MIN_EXPONENT) << SUB_BUCKET_BITS) + fine;
    (index as usize).min(BUCKETS - 1)
}

/// Returns the latency in nanoseconds at which a bucket ends.
fn upper_bound(bucket: usize) -> f64 {
    let bucket = bucket as u64 + 1;
    let (doubling, fine) = (bucket >> SUB_BUCKET_BITS, bucket & ((1 << SUB_BUCKET_BITS) - 1));
    (((1 << SUB_BUCKET_BITS) + fine) << (doubling + u64::from(MIN_EXPONENT - SUB_BUCKET_BITS)))
        as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_lies_in_its_bucket() {
        for nanos in [1024u64, 1500, 30_000, 70_000, 1_300_000, 4_000_000_000] {
            let index = bucket(nanos);
            assert!(upper_bound(index) > nanos as f64, "{nanos}");
            assert!(index == 0 || upper_bound(index - 1) <= nanos as f64, "{nanos}");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_of_the_latest_requests() {
        let mut latencies = Latencies::default();
        assert!(latencies.quantile(0.5).is_nan());
        (0..WINDOW).for_each(|_| latencies.record(Nanoseconds::new(5_000_000)));
        for _ in 0..2 * WINDOW {
            latencies.record(Nanoseconds::new(30_000));
        }
        latencies.record(Nanoseconds::new(30_000));
        assert!(latencies.quantile(1.0) < 40_000.0, "the slow ones are long past");
    }
}
