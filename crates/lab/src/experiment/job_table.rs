//! The table of jobs: throughput and latencies of workloads that ssdlab or another program ran.

use ssdlab_drive::{LaneResult, Latencies, ThroughputPoint};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::{Record, text_format};
use crate::report::{Cell, Column, Level, Table};

/// Results of one kind of request of one job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobRow {
    /// Name of the job.
    pub(crate) job: String,
    /// `read`, `write`, `trim` or `flush`.
    pub(crate) operation: &'static str,
    /// Requests completed.
    pub(crate) requests: u64,
    /// Bytes transferred or trimmed; 0 for flushes.
    pub(crate) bytes: u64,
    /// Elapsed time.
    pub(crate) seconds: f64,
    /// Mean latency.
    pub(crate) mean_us: Option<f64>,
    /// Latencies at the 50th, 99th and 99.9th percentile; `None` if there are too few requests.
    pub(crate) percentiles_us: [Option<f64>; 3],
}

/// Percentiles of the table.
pub(crate) const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Results of one job, over all its copies (numjobs).
#[derive(Clone, Debug)]
pub(super) struct JobResults {
    name: String,
    results: Vec<LaneResult>,
}

impl JobResults {
    pub(super) fn new(name: String, results: Vec<LaneResult>) -> JobResults {
        JobResults { name, results }
    }

    /// Adds the rows of the job to `rows`, and its latencies and throughput curve to the record.
    pub(super) fn add_to(&self, rows: &mut Vec<JobRow>, record: &mut Record) {
        let longest = self.results.iter().map(|one| one.phase.elapsed).max();
        let seconds = longest.map_or(0.0, Nanoseconds::seconds);
        let sum = |of: &dyn Fn(&LaneResult) -> ByteLength| self.results.iter().map(of).sum();
        let kinds: [(&'static str, ByteLength, Latencies); 4] = [
            ("read", sum(&|it| it.phase.bytes_read), self.merged(|it| &it.phase.read_latencies)),
            (
                "write",
                sum(&|it| it.phase.bytes_written),
                self.merged(|it| &it.phase.write_latencies),
            ),
            ("trim", sum(&|it| it.bytes_trimmed), self.merged(|it| &it.trims)),
            ("flush", ByteLength::ZERO, self.merged(|it| &it.flushes)),
        ];
        for (operation, bytes, latencies) in kinds {
            if latencies.count() == 0 {
                continue;
            }
            let at = |percent| latencies.percentile(percent).map(Nanoseconds::micros);
            rows.push(JobRow {
                job: self.name.clone(),
                operation,
                requests: latencies.count(),
                bytes: bytes.bytes(),
                seconds,
                mean_us: latencies.mean().map(Nanoseconds::micros),
                percentiles_us: PERCENTILES.map(at),
            });
            record.add_latencies(
                &format!("{}_{operation}", text_format::series_code(&self.name)),
                &latencies,
            );
        }
        let points = self.curve();
        record.add_series(text_format::series_code(&self.name), ("s", "MB/s"), &points);
    }

    /// Returns the number of reads, writes and trims per second, over all copies; `None` if nothing was
    /// measured.
    pub(super) fn per_second(&self) -> Option<f64> {
        let of = |one: &LaneResult| {
            let phase = &one.phase;
            phase.read_latencies.count() + phase.write_latencies.count() + one.trims.count()
        };
        let requests: u64 = self.results.iter().map(of).sum();
        let longest = self.results.iter().map(|one| one.phase.elapsed).max()?;
        (longest > Nanoseconds::ZERO).then(|| requests as f64 / longest.seconds())
    }

    /// Returns the mean number of requests in flight, over all copies: the sum of all latencies divided by
    /// the time (Little's law). `None` if nothing was measured.
    pub(super) fn in_flight(&self) -> Option<f64> {
        let of = |latencies: &Latencies| {
            let mean = latencies.mean().unwrap_or_default();
            latencies.count() as f64 * mean.seconds()
        };
        let sum = |one: &LaneResult| {
            let phase = &one.phase;
            let all = [&phase.read_latencies, &phase.write_latencies, &one.trims, &one.flushes];
            all.into_iter().map(of).sum::<f64>() / phase.elapsed.seconds()
        };
        let in_flight: f64 = self.results.iter().map(sum).sum();
        in_flight.is_finite().then_some(in_flight)
    }

    fn merged(&self, of: impl Fn(&LaneResult) -> &Latencies) -> Latencies {
        let mut all = Latencies::default();
        self.results.iter().for_each(|result| all.merge(of(result)));
        all
    }

    /// Returns throughput over time, summed over copies, which have equal intervals.
    fn curve(&self) -> Vec<(f64, f64)> {
        let mut curve: Vec<(f64, f64)> = Vec::new();
        for result in &self.results {
            for (index, point) in
                merge_short_last_interval(&result.phase.throughput).iter().enumerate()
            {
                let (at, mb) = (point.until.seconds(), point.mb_per_second());
                match curve.get_mut(index) {
                    Some((x, y)) => (*x, *y) = (x.max(at), *y + mb),
                    None => curve.push((at, mb)),
                }
            }
        }
        curve
    }
}

/// Returns the throughput points of a phase. A short last interval, with requests completed after the end of
/// the time, is merged into the one before: its own rate would be random.
pub(super) fn merge_short_last_interval(points: &[ThroughputPoint]) -> Vec<ThroughputPoint> {
    let mut points = points.to_vec();
    if let [.., before, last] = &mut points[..]
        && last.length < before.length
    {
        *before = ThroughputPoint {
            until: last.until,
            bytes: before.bytes + last.bytes,
            length: before.length + last.length,
        };
        points.pop();
    }
    points
}

/// Returns the table with a row for each of `rows`.
pub(crate) fn table(name: &str, rows: &[JobRow]) -> Table {
    let columns = [
        ("job", ""),
        ("operation", ""),
        ("mb_per_s", "MB/s"),
        ("iops", "1/s"),
        ("mean_us", "us"),
        ("p50_us", "us"),
        ("p99_us", "us"),
        ("p99_9_us", "us"),
        ("requests", ""),
        ("seconds", "s"),
    ];
    let cells = |row: &JobRow| {
        let per_second = |amount: f64| {
            Cell::from((row.requests >= MIN_REQUESTS_FOR_RATE).then(|| amount / row.seconds))
        };
        let mut cells = vec![
            Cell::from(row.job.as_str()),
            Cell::from(row.operation),
            if row.operation == "flush" { Cell::Null } else { per_second(row.bytes as f64 / 1e6) },
            per_second(row.requests as f64),
            Cell::from(row.mean_us),
        ];
        cells.extend(row.percentiles_us.iter().map(|us| Cell::from(*us)));
        cells.extend([Cell::from(row.requests), Cell::from(row.seconds)]);
        cells
    };
    Table {
        name: name.to_owned(),
        columns: columns.map(|(name, unit)| Column::new(name, unit)).to_vec(),
        rows: rows.iter().map(cells).collect(),
    }
}

/// Minimum number of requests for a rate; with fewer, a rate is random.
const MIN_REQUESTS_FOR_RATE: u64 = 10;

/// Adds a finding with the throughput of each job.
pub(crate) fn conclude(rows: &[JobRow], record: &mut Record) {
    let moved = rows.iter().filter(|row| row.bytes > 0 && row.seconds > 0.0);
    let parts: Vec<String> = moved
        .map(|row| {
            if row.requests < MIN_REQUESTS_FOR_RATE {
                let (job, operation, number) = (&row.job, row.operation, row.requests);
                let end = if number == 1 { "" } else { "s" };
                return format!("{job} made {number} {operation}{end}, too few for a rate");
            }
            let speed = text_format::throughput(row.bytes as f64 / 1e6 / row.seconds);
            let iops = crate::output::format::significant(row.requests as f64 / row.seconds);
            let verb = match row.operation {
                "read" => "read",
                "write" => "wrote",
                _ => "trimmed",
            };
            format!("{} {verb} {speed} ({iops} requests/s)", row.job)
        })
        .collect();
    if parts.is_empty() {
        return;
    }
    const MOST: usize = 4;
    let more = match parts.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!("; {more} more are in the table"),
    };
    let shown = &parts[..parts.len().min(MOST)];
    record.add_finding(Level::Info, "jobs", format!("{}{more}.", shown.join("; ")));
}
