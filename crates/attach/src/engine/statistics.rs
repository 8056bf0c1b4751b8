//! What passed through: requests, bytes, latencies on the drive's clock.

use hdrhistogram::Histogram;
use serde::Serialize;
use ssdlab_units::Nanoseconds;

/// What kind of request.
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

/// Requests of one kind.
#[derive(Debug)]
struct Recorded {
    requests: u64,
    bytes: u64,
    latencies: Histogram<u32>,
}

/// All kinds.
#[derive(Debug)]
pub(super) struct Recorder([Recorded; 4]);

/// Latencies of one kind of request, in nanoseconds on the drive's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// Requests.
    pub requests: u64,
    /// Bytes that they were for.
    pub bytes: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 90 % took no longer.
    pub p90_ns: u64,
    /// 99 % took no longer.
    pub p99_ns: u64,
    /// 99.9 % took no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What passed through since the drive was attached.
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

/// The longest latency that is told apart: ten minutes.
const LATENCY_MAX: u64 = 600_000_000_000;

impl Recorder {
    pub(super) fn new() -> Recorder {
        Recorder([Kind::Read, Kind::Write, Kind::Flush, Kind::Trim].map(|_| Recorded {
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
            let Recorded { requests, bytes, latencies } = &self.0[kind as usize];
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
