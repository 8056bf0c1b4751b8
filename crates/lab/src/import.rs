//! Converts results of fio to a report with the same table as `job`, so that both can be compared.

use ssdlab_interchange::fio::JobFile;
use ssdlab_interchange::fio::json::{FioJob, FioRun, KindResult};

use crate::experiment::job_table::{self, JobRow, PERCENTILES};
use crate::experiment::{Experiment, Record, job};
use crate::report::{
    Cost, Fact, Host, LatencyHistogram, Level, Parameter, Percentile, Report, SCHEMA, Target,
    TargetKind,
};

/// Kinds of requests, in the order of a job's sides.
const KINDS: [&str; 4] = ["read", "write", "trim", "flush"];

/// Returns the report of one or more runs of fio. `origin` names their files.
pub fn report(runs: &[FioRun], origin: &str) -> Report {
    let mut record = Record::default();
    let mut rows = Vec::new();
    let jobs: Vec<(String, &FioJob)> = named(runs);
    for (name, job) in &jobs {
        add_job(name, job, &mut rows, &mut record);
        add_options(name, job, &mut record);
    }
    record.tables.push(job_table::table("jobs", &rows));
    job_table::conclude(&rows, &mut record);
    add_doubts(&jobs, &mut record);
    let file = Parameter { name: "file".to_owned(), value: origin.to_owned(), changed: false };
    Report {
        schema: SCHEMA.to_owned(),
        experiment: job::FioJob.name().to_owned(),
        target: target(runs, origin),
        seed: 0,
        parameters: [vec![file], record.parameters].concat(),
        shortened: false,
        interrupted: jobs.iter().any(|(_, job)| job.error != 0),
        host: Host {
            system: "not known: fio's JSON does not say".to_owned(),
            architecture: "not known".to_owned(),
            processors: 0,
            ssdlab: env!("CARGO_PKG_VERSION").to_owned(),
        },
        started: started(runs),
        tables: record.tables,
        series: record.series,
        histograms: record.histograms,
        findings: record.findings,
        cost: Cost {
            wall_seconds: wall_seconds(runs),
            cpu_seconds: jobs.iter().map(|(_, job)| job.cpu_seconds).sum(),
            simulated_seconds: None,
            requests: rows.iter().map(|row| row.requests).sum(),
            units: rows.iter().map(|row| row.bytes.div_ceil(4096)).sum(),
            peak_rss_bytes: 0,
        },
        ..empty_report()
    }
}

/// Returns an empty report, for the fields that fio's results do not have.
pub(crate) fn empty_report() -> Report {
    let text = r#"{"schema":"","experiment":"","target":{"kind":"file","name":"","capacity_bytes":0,
        "engine":"","caveats":[],"facts":[]},"seed":0,"parameters":[],"shortened":false,
        "interrupted":false,"host":{"system":"","architecture":"","processors":0,"ssdlab":""},
        "started":"","tables":[],"series":[],"histograms":[],"findings":[],"counters":null,
        "cost":{"wall_seconds":0,"cpu_seconds":0,"simulated_seconds":null,"requests":0,"units":0,
        "peak_rss_bytes":0}}"#;
    serde_json::from_str(text).expect("a report without anything in it is one")
}

/// Returns the jobs with unique names.
fn named(runs: &[FioRun]) -> Vec<(String, &FioJob)> {
    let mut named: Vec<(String, &FioJob)> = Vec::new();
    for job in runs.iter().flat_map(|run| &run.jobs) {
        let is_taken = |name: &str| named.iter().any(|(known, _)| known == name);
        let name = (1..)
            .map(|number| match number {
                1 => job.name.clone(),
                _ => format!("{} ({number})", job.name),
            })
            .find(|name| !is_taken(name))
            .expect("there are more numbers than jobs");
        named.push((name, job));
    }
    named
}

fn add_job(name: &str, job: &FioJob, rows: &mut Vec<JobRow>, record: &mut Record) {
    let longest = job.sides.iter().map(|side| side.seconds).fold(0.0, f64::max);
    for (side, operation) in job.sides.iter().zip(KINDS) {
        if side.requests == 0 {
            continue;
        }
        rows.push(JobRow {
            job: name.to_owned(),
            operation,
            requests: side.requests,
            bytes: side.bytes,
            seconds: if side.seconds > 0.0 { side.seconds } else { longest },
            mean_us: side.mean.map(us),
            percentiles_us: PERCENTILES.map(|percent| side.percentile(percent).map(us)),
        });
        record.histograms.extend(histogram(&format!("{}_{operation}", code(name)), side));
    }
    record.add_series(code(name), ("s", "MB/s"), &job.curve);
}

fn us(nanos: f64) -> f64 {
    nanos / 1e3
}

fn code(name: &str) -> String {
    name.to_lowercase().replace([' ', '.'], "_")
}

fn histogram(name: &str, side: &KindResult) -> Option<LatencyHistogram> {
    if side.bins.is_empty() {
        return None;
    }
    let percentiles = [50.0, 90.0, 99.0, 99.9, 99.99]
        .into_iter()
        .filter_map(|percent| Some(Percentile { percent, us: us(side.percentile(percent)?) }));
    Some(LatencyHistogram {
        name: name.to_owned(),
        count: side.requests,
        mean_us: us(side.mean?),
        percentiles: percentiles.collect(),
        bucket_us: side.bins.iter().map(|(nanos, _)| us(*nanos as f64)).collect(),
        bucket_count: side.bins.iter().map(|(_, count)| *count).collect(),
    })
}

/// Adds the job's options as parameters, in the form of a run of `job` if they are understood.
fn add_options(name: &str, job: &FioJob, record: &mut Record) {
    let given = || job.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    match JobFile::job_of_options(name, given()) {
        Ok(understood) => job::add_job_parameters(&understood, record),
        Err(_) => record.parameters.extend(given().map(|(key, value)| Parameter {
            name: format!("{name}.{key}"),
            value: value.to_owned(),
            changed: false,
        })),
    }
}

fn add_doubts(jobs: &[(String, &FioJob)], record: &mut Record) {
    for (name, job) in jobs.iter().filter(|(_, job)| job.error != 0) {
        let text = format!("Job {name} ended with system error {}.", job.error);
        record.add_finding(Level::Problem, "not-finished", text);
    }
    let buffered = |job: &FioJob| {
        let is = |key: &str, value: &str| job.options.get(key).is_some_and(|it| it == value);
        !is("direct", "1") && !is("buffered", "0") && !is("direct", "")
    };
    let names: Vec<String> =
        jobs.iter().filter(|(_, job)| buffered(job)).map(|(name, _)| name.clone()).collect();
    if !names.is_empty() {
        let text = format!(
            "fio's JSON does not show direct=1 for {}: if the page cache was used, the results \
             measure the machine's memory, at least in part.",
            names.join(", ")
        );
        record.add_finding(Level::Warning, "page-cache", text);
    }
    let is_completion = |side: &KindResult| side.requests > 0 && side.is_completion;
    if jobs.iter().any(|(_, job)| job.sides[..3].iter().any(is_completion)) {
        let text = "Percentiles are fio's clat, which excludes the submission of a request; means \
                    are its lat, which includes it.";
        record.add_finding(Level::Info, "completion-latency", text.to_owned());
    }
}

fn target(runs: &[FioRun], origin: &str) -> Target {
    let option = |key: &str| {
        runs.iter().flat_map(|run| &run.jobs).find_map(|job| job.options.get(key)).cloned()
    };
    let name = option("filename").or_else(|| option("directory"));
    let is_device =
        name.as_deref().is_some_and(|it| it.starts_with("/dev/") || it.contains("PhysicalDrive"));
    let version = runs.first().map_or("fio", |run| run.version.as_str());
    let engine = option("ioengine").unwrap_or_else(|| "its default engine".to_owned());
    Target {
        kind: if is_device { TargetKind::Device } else { TargetKind::File },
        name: name.unwrap_or_else(|| "a file of fio's".to_owned()),
        capacity_bytes: 0,
        engine: format!("{version}, {engine}"),
        caveats: vec![format!("measured by fio, and read from {origin}")],
        facts: vec![Fact { name: "measured by".to_owned(), value: version.to_owned() }],
    }
}

/// Returns the timestamp of the earliest run, RFC 3339; fio writes it at the end of the run.
fn started(runs: &[FioRun]) -> String {
    let first = runs.iter().map(|run| run.timestamp).min().unwrap_or(0);
    let at = jiff::Timestamp::from_second(first).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.0}")
}

/// Returns the total time of all groups of jobs, which run one after the other.
fn wall_seconds(runs: &[FioRun]) -> f64 {
    let mut groups: Vec<((usize, u32), f64)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for job in &run.jobs {
            let longest = job.sides.iter().map(|side| side.seconds).fold(0.0, f64::max);
            match groups.iter_mut().find(|(known, _)| *known == (index, job.group)) {
                Some((_, seconds)) => *seconds = seconds.max(longest),
                None => groups.push(((index, job.group), longest)),
            }
        }
    }
    groups.iter().map(|(_, seconds)| seconds).sum()
}
