//! Results of a phase: bytes, time, latencies, throughput per interval.

use hdrhistogram::Histogram;
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

/// Maximum latency of the histogram; longer latencies are counted as this one.
const LATENCY_MAX: Nanoseconds = Nanoseconds::from_secs(3600);

/// Latencies of the requests of one kind, to three significant digits, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            histogram: Histogram::new_with_bounds(1, LATENCY_MAX.nanos(), 3)
                .expect("bounds and digits are allowed"),
            sum: 0,
        }
    }
}

impl Latencies {
    /// Counts one request that took `latency`.
    #[inline]
    pub fn record(&mut self, latency: Nanoseconds) {
        self.histogram.saturating_record(latency.nanos());
        self.sum += u128::from(latency.nanos());
    }

    /// Counts `count` requests that took `latency` each.
    pub fn record_many(&mut self, latency: Nanoseconds, count: u64) {
        self.histogram.saturating_record_n(latency.nanos(), count);
        self.sum += u128::from(latency.nanos()) * u128::from(count);
    }

    /// Adds the requests of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum += other.sum;
    }

    /// Returns the number of requests counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the exact mean, or `None` if there was no request.
    pub fn mean(&self) -> Option<Nanoseconds> {
        let count = u128::from(self.count());
        (count > 0).then(|| Nanoseconds::new((self.sum / count) as u64))
    }

    /// Returns the shortest latency, to three significant digits; zero if there was no request.
    pub fn least(&self) -> Nanoseconds {
        Nanoseconds::new(self.histogram.min())
    }

    /// Returns the latency that `percent` of the requests did not exceed, or `None` if fewer than 10 / (1 -
    /// p) requests were counted: such a figure cannot be defended.
    pub fn percentile(&self, percent: f64) -> Option<Nanoseconds> {
        let needed = 10.0 / (1.0 - percent / 100.0);
        (self.count() as f64 >= needed)
            .then(|| Nanoseconds::new(self.histogram.value_at_percentile(percent)))
    }

    /// Returns the histogram, in nanoseconds.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

/// Fast counters of latencies, which are added to [`Latencies`] at the end of a phase.
///
/// Latencies are counted in steps that are at least as fine as those of `Latencies`: 1024 to each power of
/// two (Tene's HDR histogram). The exponent and the first ten bits of the fraction of a floating-point
/// number identify the step, so that converting a latency to such a number gives its step.
#[derive(Clone, Debug)]
pub struct LatencyCounts {
    /// Counts by step, in 32 bits each, so that few cache lines are touched.
    counts: Vec<u32>,
    /// Steps whose count has overflowed, once for each 2^32 requests.
    overflowed: Vec<usize>,
    /// Number of latencies of zero, and of those longer than the maximum.
    zero: u64,
    longer: u64,
    /// Sum of the latencies in nanoseconds: its low 64 bits, and the rest.
    sum_low: u64,
    sum: u128,
}

/// Bits of a floating-point number's fraction below those that identify the step.
const STEP_SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - 10;

/// Number of the step of one nanosecond, if steps are counted from the floating-point number zero.
const FIRST_STEP: u64 = 1.0f64.to_bits() >> STEP_SHIFT;

impl LatencyCounts {
    /// Returns counters without requests.
    pub fn new() -> Self {
        let most = Self::step_of(LATENCY_MAX.nanos());
        let counts = vec![0; most as usize + 1];
        let overflowed = Vec::new();
        LatencyCounts { counts, overflowed, zero: 0, longer: 0, sum_low: 0, sum: 0 }
    }

    /// Counts one request that took `latency`.
    #[inline(always)]
    pub fn record(&mut self, latency: Nanoseconds) {
        let (sum, has_overflowed) = self.sum_low.overflowing_add(latency.nanos());
        self.sum_low = sum;
        if has_overflowed {
            self.carry_sum();
        }
        let step = Self::step_of(latency.nanos()) as usize;
        match self.counts.get_mut(step) {
            Some(count) => {
                *count = count.wrapping_add(1);
                if *count == 0 {
                    self.overflowed.push(step);
                }
            }
            None => self.record_extreme(latency),
        }
    }

    /// Returns the step of `nanos`; for zero, a number beyond all steps.
    #[inline(always)]
    fn step_of(nanos: u64) -> u64 {
        // Larger values than 2^63 ns (292 years) do not occur.
        ((nanos as i64 as f64).to_bits() >> STEP_SHIFT).wrapping_sub(FIRST_STEP)
    }

    #[cold]
    fn carry_sum(&mut self) {
        self.sum += 1 << u64::BITS;
    }

    #[cold]
    fn record_extreme(&mut self, latency: Nanoseconds) {
        if latency == Nanoseconds::ZERO {
            self.zero += 1;
        } else {
            self.longer += 1;
        }
    }

    /// Returns the number of requests counted.
    pub fn count(&self) -> u64 {
        let full = (self.overflowed.len() as u64) << u32::BITS;
        self.counts.iter().map(|&count| u64::from(count)).sum::<u64>()
            + full
            + self.zero
            + self.longer
    }

    /// Adds all counts to `latencies`.
    pub fn add_to(&self, latencies: &mut Latencies) {
        let nanos_of =
            |step: usize| f64::from_bits((FIRST_STEP + step as u64) << STEP_SHIFT) as u64;
        for (step, &count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            latencies.histogram.saturating_record_n(nanos_of(step), count.into());
        }
        for &step in &self.overflowed {
            latencies.histogram.saturating_record_n(nanos_of(step), 1 << u32::BITS);
        }
        for (nanos, count) in [(0, self.zero), (LATENCY_MAX.nanos(), self.longer)] {
            if count > 0 {
                latencies.histogram.saturating_record_n(nanos, count);
            }
        }
        latencies.sum += self.sum + u128::from(self.sum_low);
    }
}

impl Default for LatencyCounts {
    fn default() -> Self {
        Self::new()
    }
}

/// One point of a throughput series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThroughputPoint {
    /// End of the interval, since the phase began.
    pub until: Nanoseconds,
    /// Bytes whose requests ended within the interval.
    pub bytes: ByteLength,
    /// The interval's length; the last one of a phase may be shorter than the others.
    pub length: Nanoseconds,
}

impl ThroughputPoint {
    /// Returns the throughput in MB/s (10^6 bytes a second).
    pub fn mb_per_second(&self) -> f64 {
        self.bytes.bytes() as f64 / 1e6 / self.length.seconds()
    }
}

/// Result of one phase.
#[derive(Clone, Debug)]
pub struct PhaseResult {
    /// Moment at which the phase began, in the drive's time.
    pub started: Instant,
    /// Time from the first request sent to the last one answered (and flushed, if the phase asks for that).
    pub elapsed: Nanoseconds,
    /// Requests answered.
    pub requests: u64,
    /// Bytes read.
    pub bytes_read: ByteLength,
    /// Bytes written.
    pub bytes_written: ByteLength,
    /// Latencies of the reads.
    pub read_latencies: Latencies,
    /// Latencies of the writes.
    pub write_latencies: Latencies,
    /// Throughput per interval, in order of time; empty if the phase asked for none.
    pub throughput: Vec<ThroughputPoint>,
}

impl PhaseResult {
    /// Returns the result of a phase that begins at `started` and has measured nothing yet.
    pub fn begun(started: Instant) -> Self {
        PhaseResult {
            started,
            elapsed: Nanoseconds::ZERO,
            requests: 0,
            bytes_read: ByteLength::ZERO,
            bytes_written: ByteLength::ZERO,
            read_latencies: Latencies::default(),
            write_latencies: Latencies::default(),
            throughput: Vec::new(),
        }
    }

    /// Returns the bytes read and written.
    pub fn bytes(&self) -> ByteLength {
        self.bytes_read + self.bytes_written
    }

    /// Returns the mean throughput in MB/s (10^6 bytes a second).
    pub fn mb_per_second(&self) -> f64 {
        self.bytes().bytes() as f64 / 1e6 / self.elapsed.seconds()
    }
}

/// Collects bytes into intervals as requests end.
///
/// Requests may end slightly out of order; each counts in the interval it ended in.
#[derive(Clone, Debug)]
pub struct ThroughputMeter {
    interval: Nanoseconds,
    bytes: Vec<u64>,
    /// Start of the interval that the last request ended in, and its length. Nearly every request ends in
    /// the same interval as the request before it.
    current_start: u64,
    current_length: u64,
    /// Bytes of the current interval that are not yet added to `bytes`.
    current_bytes: u64,
}

impl ThroughputMeter {
    /// Returns a meter with intervals of the given length; zero keeps no series.
    pub fn new(interval: Nanoseconds) -> Self {
        ThroughputMeter {
            interval,
            bytes: vec![0],
            current_start: 0,
            current_length: interval.nanos(),
            current_bytes: 0,
        }
    }

    /// Counts `bytes` of a request that ended `at` after the phase began.
    #[inline]
    pub fn record(&mut self, at: Nanoseconds, bytes: ByteLength) {
        if at.nanos().wrapping_sub(self.current_start) < self.current_length {
            self.current_bytes += bytes.bytes();
        } else if self.interval != Nanoseconds::ZERO {
            self.record_in_other_interval(at, bytes);
        }
    }

    #[inline(never)]
    fn record_in_other_interval(&mut self, at: Nanoseconds, bytes: ByteLength) {
        self.add_current_interval();
        let index = (at.nanos() / self.interval.nanos()) as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        self.current_start = self.interval.nanos() * index as u64;
        self.current_bytes = bytes.bytes();
    }

    /// Adds the bytes of the current interval to `bytes`.
    fn add_current_interval(&mut self) {
        if self.interval != Nanoseconds::ZERO {
            let index = (self.current_start / self.interval.nanos()) as usize;
            self.bytes[index] += std::mem::take(&mut self.current_bytes);
        }
    }

    /// Returns the series of a phase that took `elapsed`. The last interval is cut where the phase ended;
    /// nothing is extrapolated.
    pub fn finish(mut self, elapsed: Nanoseconds) -> Vec<ThroughputPoint> {
        self.add_current_interval();
        if self.interval == Nanoseconds::ZERO || elapsed == Nanoseconds::ZERO {
            return Vec::new();
        }
        let count =
            (elapsed.nanos().div_ceil(self.interval.nanos()) as usize).max(self.bytes.len());
        (0..count)
            .map(|index| {
                let start = self.interval * index as u64;
                let until = (start + self.interval).min(elapsed.max(start + Nanoseconds::new(1)));
                ThroughputPoint {
                    until,
                    bytes: ByteLength::new(self.bytes.get(index).copied().unwrap_or(0)),
                    length: until - start,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_without_the_samples_is_not_given() {
        let mut latencies = Latencies::default();
        for us in 1..=999 {
            latencies.record(Nanoseconds::from_micros(us));
        }
        assert!(latencies.percentile(99.0).is_none());
        latencies.record(Nanoseconds::from_micros(1000));
        let p99 = latencies.percentile(99.0).expect("a thousand samples are enough");
        assert!((989.0..=992.0).contains(&p99.micros()), "{p99}");
        assert!(latencies.percentile(99.9).is_none());
    }

    #[test]
    fn latencies_counted_in_steps_are_those_recorded_one_by_one() {
        let (mut counts, mut one_by_one) = (LatencyCounts::new(), Latencies::default());
        let mut latency = 1u64;
        while latency < LATENCY_MAX.nanos() {
            for near in [latency - 1, latency, latency + 1] {
                counts.record(Nanoseconds::new(near));
                one_by_one.record(Nanoseconds::new(near));
            }
            latency += latency / 8 + 1;
        }
        let mut summed = Latencies::default();
        counts.add_to(&mut summed);
        assert!(summed.histogram() == one_by_one.histogram());
        assert_eq!(summed.mean(), one_by_one.mean());
    }

    #[test]
    fn a_step_that_overflows_is_counted_on() {
        let latency = Nanoseconds::from_micros(80);
        let mut counts = LatencyCounts::new();
        let step = LatencyCounts::step_of(latency.nanos()) as usize;
        counts.counts[step] = u32::MAX;
        for _ in 0..3 {
            counts.record(latency);
        }
        assert_eq!(counts.count(), (1 << 32) + 2);
        let mut summed = Latencies::default();
        counts.add_to(&mut summed);
        assert_eq!(summed.count(), counts.count());
    }

    #[test]
    fn the_mean_is_exact() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.mean(), None);
        latencies.record(Nanoseconds::new(1_000_001));
        latencies.record(Nanoseconds::new(3_000_001));
        assert_eq!(latencies.mean(), Some(Nanoseconds::new(2_000_001)));
    }

    #[test]
    fn the_series_adds_up_and_its_last_interval_is_cut() {
        let mut meter = ThroughputMeter::new(Nanoseconds::from_secs(1));
        meter.record(Nanoseconds::from_millis(500), ByteLength::new(10));
        meter.record(Nanoseconds::from_millis(2_500), ByteLength::new(20));
        let points = meter.finish(Nanoseconds::from_millis(2_750));
        assert_eq!(points.len(), 3);
        assert_eq!(points[1].bytes, ByteLength::ZERO);
        assert_eq!(points[2].length, Nanoseconds::from_millis(750));
        assert_eq!(points.iter().map(|p| p.bytes).sum::<ByteLength>(), ByteLength::new(30));
    }
}
