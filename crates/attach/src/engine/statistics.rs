//! Statistics of requests: count, bytes, and latencies on the drive's clock.

use hdrhistogram::Histogram;
use serde::Serialize;
use ssdlab_units::Nanoseconds;

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A trim.
    Trim,
}

/// Counts and latencies of one kind of request.
#[derive(Debug)]
struct KindRecord {
    requests: u64,
    bytes: u64,
    latencies: Histogram<u32>,
}

/// Recorded requests of all kinds, by `Kind`.
#[derive(Debug)]
pub(super) struct LatencyRecorder([KindRecord; 4]);

/// Latencies of one kind of request, in nanoseconds on the drive's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// Number of requests.
    pub requests: u64,
    /// Bytes that the requests covered.
    pub bytes: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum latency.
    pub max_ns: u64,
}

/// Statistics of all requests since the drive was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Reads.
    pub reads: LatencyFigures,
    /// Writes.
    pub writes: LatencyFigures,
    /// Flushes.
    pub flushes: LatencyFigures,
    /// Trims.
    pub trims: LatencyFigures,
}

/// Maximum latency that the histogram can tell apart: ten minutes.
const LATENCY_MAX: u64 = 600_000_000_000;

impl LatencyRecorder {
    pub(super) fn new() -> LatencyRecorder {
        LatencyRecorder([Kind::Read, Kind::Write, Kind::Flush, Kind::Trim].map(|_| KindRecord {
            requests: 0,
            bytes: 0,
            latencies: Histogram::new_with_bounds(1, LATENCY_MAX, 2).expect("sound bounds"),
        }))
    }

    #[inline]
    pub(super) fn note(&mut self, kind: Kind, bytes: u64, latency: Nanoseconds) {
        let recorded = &mut self.0[kind as usize];
        recorded.requests += 1;
        recorded.bytes += bytes;
        recorded.latencies.saturating_record(latency.nanos().max(1));
    }

    pub(super) fn statistics(&self) -> Statistics {
        let figures = |kind: Kind| {
            let KindRecord { requests, bytes, latencies } = &self.0[kind as usize];
            LatencyFigures {
                requests: *requests,
                bytes: *bytes,
                mean_ns: latencies.mean(),
                p50_ns: latencies.value_at_quantile(0.5),
                p90_ns: latencies.value_at_quantile(0.9),
                p99_ns: latencies.value_at_quantile(0.99),
                p999_ns: latencies.value_at_quantile(0.999),
                max_ns: latencies.max(),
            }
        };
        Statistics {
            reads: figures(Kind::Read),
            writes: figures(Kind::Write),
            flushes: figures(Kind::Flush),
            trims: figures(Kind::Trim),
        }
    }
}
