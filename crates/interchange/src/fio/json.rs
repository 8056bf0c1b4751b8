//! Reader of fio's results: `--output-format=json` or `json+`, from version 3 on.
//!
//! Text may precede the first brace (warnings, a notice of laying out files). With `--status-interval` several objects
//! follow each other. Each has the sums from the start, so the last one is the result, and those before it are points
//! of a curve.

mod intervals;

use std::collections::BTreeMap;

use serde::Deserialize;
use ssdlab_units::Nanoseconds;

use crate::error::{InputError, shown};
use intervals::IntervalRecorder;
pub use intervals::{Interval, KindSums};

/// Largest size of a result file, in bytes; larger files are not results of fio.
const MAX_RESULT_SIZE: usize = 256 << 20;

/// Last bucket of fio's histogram, in nanoseconds: longer latencies are counted in it, so a percentile in this bucket
/// has no meaning.
const LAST_BUCKET_NANOS: f64 = 17_112_760_320.0;

/// Result of one run of fio.
#[derive(Clone, Debug, PartialEq)]
pub struct FioRun {
    /// Version of fio, such as `fio-3.33`.
    pub version: String,
    /// Time of the run's end, in seconds since 1970.
    pub timestamp: i64,
    /// Results of the jobs; the copies of a job are merged.
    pub jobs: Vec<FioJob>,
}

/// Result of one job, over all its copies.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJob {
    /// Name of the job.
    pub name: String,
    /// Group of the job; jobs of one group ran at the same time.
    pub group: u32,
    /// Number of copies that were merged.
    pub copies: u32,
    /// Options of the job, those of `[global]` included.
    pub options: BTreeMap<String, String>,
    /// Description of the job, if it has one.
    pub description: Option<String>,
    /// Results of reads, writes, trims and flushes, in this order.
    pub sides: [KindResult; 4],
    /// Processor time that fio used for the job, in seconds.
    pub cpu_seconds: f64,
    /// Points of the throughput curve: seconds since the start, and MB/s since the point before.
    pub curve: Vec<(f64, f64)>,
    /// Results between one of fio's reports and the next: a single interval if there was only one report, none if
    /// copies were merged.
    pub intervals: Vec<Interval>,
    /// Number of the system's error that ended the job; 0 if there was none.
    pub error: i64,
}

/// Result of one kind of request of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindResult {
    /// Number of completed requests.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Running time in seconds.
    pub seconds: f64,
    /// Mean latency from submission to completion, in nanoseconds.
    pub mean: Option<f64>,
    /// Percentiles as fio reports them, as percent and nanoseconds; empty if copies were merged, because percentiles
    /// cannot be added.
    pub percentiles: Vec<(f64, f64)>,
    /// Histogram of json+: nanoseconds and number of requests; empty without json+.
    pub bins: Vec<(u64, u64)>,
    /// True if percentiles and histogram do not include the time of submission (`clat`).
    pub is_completion: bool,
}

impl KindResult {
    /// Returns the latency in nanoseconds that `percent` of the requests did not exceed; `None` if fio did not report
    /// it, if there are too few requests for this percentile, or if it is in the last bucket of fio's histogram.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let needed = 10.0 / (1.0 - percent / 100.0);
        if (self.requests as f64) < needed {
            return None;
        }
        let reported = self.percentiles.iter().find(|(at, _)| (at - percent).abs() < 1e-6);
        let value = match reported {
            Some((_, value)) => *value,
            None => self.percentile_of_bins(percent)?,
        };
        (value < LAST_BUCKET_NANOS).then_some(value)
    }

    fn percentile_of_bins(&self, percent: f64) -> Option<f64> {
        let total: u64 = self.bins.iter().map(|(_, count)| count).sum();
        let wanted = (total as f64 * percent / 100.0).ceil() as u64;
        let mut below = 0;
        let found = self.bins.iter().find(|(_, count)| {
            below += count;
            below >= wanted
        });
        found.map(|(nanos, _)| *nanos as f64)
    }

    /// Adds the results of another copy of the job, which ran at the same time.
    fn merge_copy(&mut self, other: KindResult) {
        if other.requests == 0 {
            return;
        }
        if self.requests == 0 {
            *self = other;
            return;
        }
        let (own, others) = (self.requests as f64, other.requests as f64);
        self.mean = match (self.mean, other.mean) {
            (Some(one), Some(two)) => Some((one * own + two * others) / (own + others)),
            _ => None,
        };
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.seconds = self.seconds.max(other.seconds);
        // Percentiles cannot be added; histograms can.
        self.percentiles.clear();
        if self.bins.is_empty() || other.bins.is_empty() {
            self.bins.clear();
            return;
        }
        let mut bins: BTreeMap<u64, u64> = self.bins.drain(..).collect();
        for (nanos, count) in other.bins {
            *bins.entry(nanos).or_insert(0) += count;
        }
        self.bins = bins.into_iter().collect();
    }
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default)]
    timestamp: i64,
    #[serde(default, rename = "global options")]
    global: BTreeMap<String, String>,
    #[serde(default)]
    jobs: Vec<JobOutput>,
}

#[derive(Deserialize)]
struct JobOutput {
    jobname: String,
    #[serde(default)]
    desc: Option<String>,
    #[serde(default)]
    groupid: u32,
    #[serde(default)]
    error: i64,
    #[serde(default, rename = "job options")]
    options: BTreeMap<String, String>,
    #[serde(default)]
    usr_cpu: f64,
    #[serde(default)]
    sys_cpu: f64,
    #[serde(default)]
    read: SideOutput,
    #[serde(default)]
    write: SideOutput,
    #[serde(default)]
    trim: SideOutput,
    #[serde(default)]
    sync: SideOutput,
    /// Reads, writes and trims together, instead of each (`unified_rw_reporting=1`) or in addition.
    #[serde(default)]
    mixed: Option<SideOutput>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SideOutput {
    io_bytes: u64,
    /// Running time in milliseconds.
    runtime: u64,
    total_ios: u64,
    lat_ns: Option<LatencyOutput>,
    clat_ns: Option<LatencyOutput>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LatencyOutput {
    mean: f64,
    #[serde(rename = "N")]
    count: u64,
    percentile: BTreeMap<String, f64>,
    bins: BTreeMap<String, u64>,
}

/// Reads the output of fio.
///
/// # Errors
/// Returns an error if the text contains no JSON of fio 3, with the line at which the JSON is broken.
pub fn parse(text: &str) -> Result<FioRun, InputError> {
    if text.len() > MAX_RESULT_SIZE {
        return Err(InputError::whole("is too large for a result of fio"));
    }
    let mut recorder = IntervalRecorder::default();
    let mut last = None;
    for_each_object(text, |output| {
        recorder.add_report(&output.jobs);
        last = Some(output);
    })?;
    let Some(last) = last else {
        return Err(InputError::whole(
            "holds no JSON output of fio (run fio with --output-format=json)",
        ));
    };
    check_version(&last.version)?;
    let mut jobs: Vec<FioJob> = Vec::new();
    for (job, intervals) in last.jobs.into_iter().zip(recorder.intervals()) {
        let job = to_fio_job(job, &last.global, intervals)?;
        match jobs.iter_mut().find(|known| (&known.name, known.group) == (&job.name, job.group)) {
            Some(known) => merge_copy(known, job),
            None => jobs.push(job),
        }
    }
    if jobs.is_empty() {
        return Err(InputError::whole("holds no job"));
    }
    Ok(FioRun { version: shown(&last.version), timestamp: last.timestamp, jobs })
}

/// Calls `callback` with the JSON objects of a file in order; text between them is skipped.
fn for_each_object(text: &str, mut callback: impl FnMut(Output)) -> Result<(), InputError> {
    let mut from = 0;
    while let Some(start) = next_object(text, from) {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Output>();
        match stream.next() {
            Some(Ok(output)) => callback(output),
            Some(Err(error)) => {
                let before = text[..start].matches('\n').count() as u64;
                let line = before + error.line().max(1) as u64;
                let lines = text.lines().count().max(1) as u64;
                return Err(InputError::at(
                    line.min(lines),
                    format!("is no JSON output of fio: {error}"),
                ));
            }
            None => break,
        }
        from = start + stream.byte_offset();
    }
    Ok(())
}

/// Returns the position of the next brace at the beginning of a line, leading whitespace aside.
fn next_object(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let blanks = line.len() - line.trim_start().len();
        if line[blanks..].starts_with('{') {
            return Some(at + blanks);
        }
        at += line.len();
    }
    None
}

fn check_version(version: &str) -> Result<(), InputError> {
    let major = version.strip_prefix("fio-").and_then(|rest| rest.split('.').next());
    match major.and_then(|major| major.parse::<u32>().ok()) {
        Some(3..) => Ok(()),
        _ => Err(InputError::whole(format!(
            "was written by '{}'; only JSON of fio 3 or later is read, since older versions use \
             other units",
            shown(version)
        ))),
    }
}

fn to_fio_job(
    job: JobOutput,
    global: &BTreeMap<String, String>,
    intervals: Vec<Interval>,
) -> Result<FioJob, InputError> {
    let mut options = global.clone();
    options.extend(job.options);
    let apart = job.read.total_ios + job.write.total_ios + job.trim.total_ios;
    if apart == 0 && job.mixed.is_some_and(|mixed| mixed.total_ios > 0) {
        return Err(InputError::whole(format!(
            "job '{}' reports reads and writes as one (unified_rw_reporting=1); run it without \
             that option",
            shown(&job.jobname)
        )));
    }
    let longest = [&job.read, &job.write, &job.trim].iter().map(|side| side.runtime).max();
    let seconds = longest.unwrap_or(0) as f64 / 1e3;
    let sides = [to_side(job.read)?, to_side(job.write)?, to_side(job.trim)?, to_side(job.sync)?];
    let [read, write, trim, mut flush] = sides;
    // fio reports no running time for flushes: take that of the job.
    flush.seconds = seconds;
    Ok(FioJob {
        name: shown(&job.jobname),
        group: job.groupid,
        copies: 1,
        options,
        description: job.desc.map(|text| text.chars().filter(|it| !it.is_control()).collect()),
        sides: [read, write, trim, flush],
        cpu_seconds: (job.usr_cpu + job.sys_cpu).max(0.0) / 100.0 * seconds,
        curve: intervals.iter().map(Interval::curve_point).collect(),
        intervals,
        error: job.error,
    })
}

fn merge_copy(known: &mut FioJob, other: FioJob) {
    known.copies += 1;
    known.cpu_seconds += other.cpu_seconds;
    known.error = if known.error == 0 { other.error } else { known.error };
    for (own, side) in known.sides.iter_mut().zip(other.sides) {
        own.merge_copy(side);
    }
    // Copies report at different moments, so their points cannot be added.
    known.curve.clear();
    known.intervals.clear();
}

fn to_side(side: SideOutput) -> Result<KindResult, InputError> {
    let total = side.lat_ns.unwrap_or_default();
    let completion = side.clat_ns.unwrap_or_default();
    let mean = (total.count > 0).then_some(total.mean).filter(|mean| mean.is_finite());
    let is_completion = total.percentile.is_empty() && total.bins.is_empty();
    let detailed = if is_completion { completion } else { total };
    let wrong = |what: &str| InputError::whole(format!("'{}' is no latency", shown(what)));
    let mut percentiles = Vec::new();
    for (percent, value) in &detailed.percentile {
        let percent: f64 = percent.parse().map_err(|_| wrong(percent))?;
        percentiles.push((percent, *value));
    }
    percentiles.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut bins = Vec::new();
    for (nanos, count) in &detailed.bins {
        let nanos: u64 = nanos.parse().map_err(|_| wrong(nanos))?;
        bins.push((nanos, *count));
    }
    bins.sort_unstable();
    let counted = bins.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
    if counted.is_none() {
        return Err(InputError::whole("counts more requests than there can be"));
    }
    let requests = side.total_ios.max(detailed.count);
    if counted != Some(requests) {
        bins.clear();
    }
    Ok(KindResult {
        requests,
        bytes: side.io_bytes,
        seconds: Nanoseconds::new(side.runtime.saturating_mul(1_000_000)).seconds(),
        mean,
        percentiles,
        bins,
        is_completion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(reads: u64, runtime: u64) -> String {
        format!(
            r#"{{"fio version":"fio-3.33","timestamp":5,"global options":{{"bs":"4k"}},"jobs":[
{{"jobname":"a","groupid":0,"job options":{{"rw":"read"}},"usr_cpu":10.0,"sys_cpu":15.0,
"read":{{"io_bytes":{},"runtime":{runtime},"total_ios":{reads},
"lat_ns":{{"mean":2000.0,"N":{reads}}},
"clat_ns":{{"mean":1900.0,"N":{reads},"percentile":{{"50.000000":1500,"99.000000":1800}},
"bins":{{"1500":{},"1800":1}}}}}}}}]}}"#,
            reads * 4096,
            reads - 1
        )
    }

    #[test]
    fn text_before_the_brace_is_passed_over() {
        let text =
            format!("fio: this platform {{odd}}\na: Laying out IO file\n{}\n", object(4000, 1000));
        let run = parse(&text).unwrap();
        let job = &run.jobs[0];
        assert_eq!((run.version.as_str(), run.timestamp), ("fio-3.33", 5));
        assert_eq!((job.options["bs"].as_str(), job.options["rw"].as_str()), ("4k", "read"));
        let read = &job.sides[0];
        assert_eq!((read.requests, read.mean, read.seconds), (4000, Some(2000.0), 1.0));
        assert_eq!(read.percentile(99.0), Some(1800.0));
        assert_eq!(job.cpu_seconds, 0.25);
        assert!(read.is_completion);
    }

    #[test]
    fn the_last_of_several_objects_counts_and_the_others_make_a_curve() {
        let text = format!("{}\n{}\n", object(1000, 1000), object(4000, 2000));
        let run = parse(&text).unwrap();
        assert_eq!(run.jobs[0].sides[0].requests, 4000);
        let curve: Vec<(f64, f64)> = run.jobs[0].curve.clone();
        assert_eq!(curve, [(1.0, 4.096), (2.0, 12.288)]);
    }

    #[test]
    fn copies_are_merged_by_their_bins_and_never_by_their_percentiles() {
        let one = object(1000, 1000);
        let jobs = one.find("\"jobs\":[").unwrap() + 8;
        let job = &one[jobs..one.len() - 2];
        let run = parse(&format!("{}{job},{job}]}}", &one[..jobs])).unwrap();
        assert_eq!((run.jobs.len(), run.jobs[0].copies), (1, 2));
        let read = &run.jobs[0].sides[0];
        assert_eq!(read.bins, [(1500, 1998), (1800, 2)]);
        assert!(read.percentiles.is_empty());
        assert_eq!(read.percentile(99.0), Some(1500.0));
    }

    #[test]
    fn a_percentile_without_the_samples_or_at_the_end_of_the_scale_is_not_given() {
        let side = KindResult {
            requests: 900,
            percentiles: vec![(50.0, 1.0), (99.0, 5.0), (90.0, 17_112_760_320.0)],
            ..KindResult::default()
        };
        assert_eq!(side.percentile(50.0), Some(1.0));
        assert_eq!(side.percentile(99.0), None);
        assert_eq!(side.percentile(90.0), None);
    }

    #[test]
    fn what_is_no_result_of_fio_3_is_said() {
        let old = object(10, 10).replace("fio-3.33", "fio-2.19");
        assert!(parse(&old).unwrap_err().why.contains("fio 3 or later"));
        assert!(parse("no brace").unwrap_err().why.contains("no JSON"));
        let unified = object(10, 10).replace("\"read\"", "\"mixed\"");
        assert!(parse(&unified).unwrap_err().why.contains("unified_rw_reporting"));
        let broken = format!("text\n{}", &object(10, 10)[..200]);
        assert!(parse(&broken).unwrap_err().line.is_some_and(|line| line >= 2));
    }
}
