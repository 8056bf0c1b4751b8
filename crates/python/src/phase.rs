//! Result of a phase, and the description of a phase as Python passes it.

use pyo3::prelude::*;
use ssdlab_drive::{Amount, Mix, Pattern, Phase, Rate, Region, Skew};
use ssdlab_lab::report::ReportCounters;
use ssdlab_units::text::{QuantityError, parse_duration, parse_length};
use ssdlab_units::{ByteLength, Nanoseconds};

use crate::failure::Failure;
use crate::numbers::Numbers;

/// Latencies of requests of one kind.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Latencies(ssdlab_drive::Latencies);

#[pymethods]
impl Latencies {
    /// Requests counted.
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// The exact mean in microseconds.
    fn mean_us(&self) -> Option<f64> {
        self.0.mean().map(Nanoseconds::micros)
    }

    /// The latency that so many per cent did not exceed; nothing where too few requests were counted.
    fn percentile_us(&self, percent: f64) -> Result<Option<f64>, Failure> {
        if !(0.0..=100.0).contains(&percent) {
            return Err(Failure::usage(format!(
                "a percentile must be from 0 to 100, not {percent}"
            )));
        }
        Ok(self.0.percentile(percent).map(Nanoseconds::micros))
    }

    /// Upper edges in microseconds and counts of the filled buckets of the whole histogram.
    fn histogram(&self) -> (Numbers, Numbers) {
        let (mut edges, mut counts) = (Vec::new(), Vec::new());
        for step in self.0.histogram().iter_recorded() {
            edges.push(step.value_iterated_to() as f64 / 1e3);
            counts.push(step.count_at_value());
        }
        (Numbers::of(edges), Numbers::of(counts))
    }
}

/// Results of a phase.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct PhaseResult {
    result: ssdlab_drive::PhaseResult,
    counted: String,
}

impl PhaseResult {
    /// Creates the result; `before` and `after` are the drive's counters at both ends of the phase.
    pub fn new(
        result: ssdlab_drive::PhaseResult,
        before: &ReportCounters,
        after: &ReportCounters,
    ) -> PhaseResult {
        let counted = serde_json::json!({
            "host_writes": after.host_writes - before.host_writes,
            "host_reads": after.host_reads - before.host_reads,
            "flash_writes": after.flash_writes - before.flash_writes,
            "metadata_writes": after.metadata_writes - before.metadata_writes,
            "host_written_bytes": after.host_written_bytes - before.host_written_bytes,
            "flash_written_bytes": after.flash_written_bytes - before.flash_written_bytes,
            "collection_writes": after.collection_writes - before.collection_writes,
            "padding_writes": after.padding_writes - before.padding_writes,
            "flash_page_reads": after.flash_page_reads - before.flash_page_reads,
            "erases": after.erases - before.erases,
        });
        PhaseResult { result, counted: counted.to_string() }
    }
}

#[pymethods]
impl PhaseResult {
    /// Begin and length in seconds of the drive's time; requests; bytes read and written.
    fn figures(&self) -> (f64, f64, u64, u64, u64) {
        let it = &self.result;
        let started = it.started.since(ssdlab_units::Instant::START).seconds();
        let (read, written) = (it.bytes_read.bytes(), it.bytes_written.bytes());
        (started, it.elapsed.seconds(), it.requests, read, written)
    }

    /// Latencies of the reads.
    fn reads(&self) -> Latencies {
        Latencies(self.result.read_latencies.clone())
    }

    /// Latencies of the writes.
    fn writes(&self) -> Latencies {
        Latencies(self.result.write_latencies.clone())
    }

    /// Ends of the intervals in seconds since the phase began, and MB/s within each.
    fn throughput(&self) -> (Numbers, Numbers) {
        let points = &self.result.throughput;
        let until = points.iter().map(|it| it.until.seconds()).collect();
        let rate = points.iter().map(|it| it.mb_per_second()).collect();
        (Numbers::of(until), Numbers::of(rate))
    }

    /// Returns what the drive counted meanwhile, as JSON.
    fn counted(&self) -> &str {
        &self.counted
    }
}

/// Description of a phase, as Python passes it.
#[derive(FromPyObject)]
pub struct Words {
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    pattern: String,
    #[pyo3(item)]
    block_size: String,
    #[pyo3(item)]
    depth: u32,
    #[pyo3(item)]
    read_percent: u8,
    #[pyo3(item)]
    offset: String,
    #[pyo3(item)]
    length: Option<String>,
    #[pyo3(item)]
    amount: Option<String>,
    #[pyo3(item)]
    time: Option<String>,
    #[pyo3(item)]
    rate: Option<f64>,
    #[pyo3(item)]
    is_open: bool,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    flush_at_end: bool,
    #[pyo3(item)]
    interval: String,
}

/// Parses a length; `name` is for the error.
pub fn length(name: &str, text: &str) -> Result<ByteLength, Failure> {
    parse_length(text).map_err(|error| wrong(name, &error))
}

/// Parses a duration; `name` is for the error.
pub fn duration(name: &str, text: &str) -> Result<Nanoseconds, Failure> {
    parse_duration(text).map_err(|error| wrong(name, &error))
}

fn wrong(name: &str, error: &QuantityError) -> Failure {
    Failure::usage(format!("{name}: {error}"))
}

impl Words {
    /// Returns the phase, for a drive of `capacity` bytes.
    pub fn phase(self, capacity: ByteLength) -> Result<Phase, Failure> {
        let block_size = length("block_size", &self.block_size)?;
        let offset = length("offset", &self.offset)?;
        let whole = || {
            if block_size == ByteLength::ZERO || offset >= capacity {
                return ByteLength::ZERO;
            }
            block_size * (capacity - offset).whole(block_size)
        };
        let region_length = match &self.length {
            Some(text) => length("length", text)?,
            None => whole(),
        };
        let amount = match (&self.amount, &self.time) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage(
                    "amount and time contradict each other; give one of them",
                ));
            }
            (None, Some(text)) => Amount::Time(duration("time", text)?),
            (None, None) => Amount::Bytes(region_length),
            (Some(text), None) => Amount::Bytes(bytes(text, region_length, block_size)?),
        };
        let pattern = match self.pattern.as_str() {
            "sequential" => Pattern::Sequential,
            "random" => Pattern::Random,
            "random-once" => Pattern::RandomOnce,
            text => Pattern::Skewed(text.parse::<Skew>().map_err(|error| {
                Failure::usage(format!("pattern: {error}; or sequential, random, random-once"))
            })?),
        };
        let rate = match (self.rate, self.is_open) {
            (None, _) => None,
            (Some(rate), false) => Some(Rate::RequestsPerSecond(rate)),
            (Some(rate), true) => Some(Rate::Open(rate)),
        };
        Ok(Phase {
            name: self.name,
            pattern,
            block_size,
            depth: self.depth,
            mix: Mix { read_percent: self.read_percent },
            region: Region { offset, length: region_length },
            amount,
            rate,
            seed: self.seed,
            flush_at_end: self.flush_at_end,
            interval: duration("interval", &self.interval)?,
        })
    }
}

/// Parses a length, or a multiple of the region such as `2x`, which is rounded down to whole blocks.
fn bytes(text: &str, region: ByteLength, block: ByteLength) -> Result<ByteLength, Failure> {
    let Some(times) = text.trim().strip_suffix('x') else { return length("amount", text) };
    match times.trim().parse::<f64>() {
        Ok(times) if (0.0..=1000.0).contains(&times) && block > ByteLength::ZERO => {
            let bytes = ByteLength::new((region.bytes() as f64 * times) as u64);
            Ok(block * bytes.whole(block))
        }
        _ => Err(Failure::usage(format!(
            "amount: '{text}' is not an amount, such as 1G or 2x (times the region, up to 1000x)"
        ))),
    }
}
