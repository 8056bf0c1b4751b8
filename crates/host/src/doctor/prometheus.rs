//! Metrics of a diagnosis in Prometheus' text format.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Diagnosis, DriveDiagnosis, Verdict};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CheckLabels {
    subject: String,
    check: String,
    verdict: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TargetLabels {
    target: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DriveLabels {
    drive: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModelLabels {
    drive: String,
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    drive: String,
    kind: String,
}

/// Metric of a drive: its name, its help text, and the function that reads its value.
type DriveMetric = (&'static str, &'static str, fn(&DriveDiagnosis) -> Option<f64>);

/// Converts percent to a ratio, Prometheus' convention.
fn ratio(percent: u64) -> f64 {
    percent as f64 / 100.0
}

const DRIVE_METRICS: [DriveMetric; 8] = [
    ("temperature_celsius", "Temperature of the drive", |it| {
        it.values.temperature_celsius.map(|degrees| degrees as f64)
    }),
    (
        "used_ratio",
        "Share of the rated life that is used, by the drive's count; may exceed 1",
        |it| it.values.used_percent.map(ratio),
    ),
    ("spare_ratio", "Share of the spare blocks that is left", |it| {
        it.values.spare_percent.map(ratio)
    }),
    ("written_bytes", "Bytes that hosts have written to the drive", |it| {
        it.values.written_bytes.map(|bytes| bytes as f64)
    }),
    ("flash_written_bytes", "Bytes that were written to the flash", |it| {
        it.values.flash_written_bytes.map(|bytes| bytes as f64)
    }),
    ("rated_written_bytes", "Bytes that hosts may write, by the maker's data sheet", |it| {
        it.values.rated_written_bytes.map(|bytes| bytes as f64)
    }),
    ("power_on_seconds", "Time that the drive has been on", |it| {
        it.values.power_on_hours.map(|hours| hours as f64 * 3_600.0)
    }),
    ("health_passed", "Whether the drive says that its health is good", |it| {
        it.values.health_passed.map(|passed| f64::from(u8::from(passed)))
    }),
];

/// Adds the metrics of all drives; values that a drive does not report are left out.
fn register_drive_metrics(diagnosis: &Diagnosis, registry: &mut Registry) {
    let info = Family::<ModelLabels, Gauge>::default();
    let errors = Family::<ErrorLabels, Gauge<f64, AtomicU64>>::default();
    registry.register("drive_info", "A drive that was looked at; always 1", info.clone());
    for (name, help, figure) in DRIVE_METRICS {
        let family = Family::<DriveLabels, Gauge<f64, AtomicU64>>::default();
        for found in &diagnosis.drives {
            if let Some(value) = figure(found) {
                family.get_or_create(&DriveLabels { drive: found.drive.clone() }).set(value);
            }
        }
        registry.register(format!("drive_{name}"), help, family);
    }
    for found in &diagnosis.drives {
        let model = found.values.model.clone().unwrap_or_default();
        info.get_or_create(&ModelLabels { drive: found.drive.clone(), model }).set(1);
        for (kind, count) in &found.values.errors {
            let labels = ErrorLabels { drive: found.drive.clone(), kind: (*kind).to_owned() };
            errors.get_or_create(&labels).set(*count as f64);
        }
    }
    registry.register("drive_errors", "Errors that the drive has counted, by their kind", errors);
}

/// Returns the severity of a verdict as a number. `Unknown` is -1, so that alerts on bad outcomes do not fire for it.
fn severity(verdict: Verdict) -> i64 {
    match verdict {
        Verdict::Fine => 0,
        Verdict::Unknown => -1,
        Verdict::Notice => 1,
        Verdict::Warning => 2,
        Verdict::Problem => 3,
    }
}

pub(super) fn text(diagnosis: &Diagnosis) -> String {
    let mut registry = Registry::with_prefix("ssdlab_doctor");
    let outcomes = Family::<CheckLabels, Gauge>::default();
    let reach = Family::<TargetLabels, Gauge>::default();
    let worst: Gauge = Gauge::default();
    let time: Gauge = Gauge::default();
    registry.register(
        "check",
        "Outcome of a check: -1 unknown, 0 fine, 1 notice, 2 warning, 3 problem",
        outcomes.clone(),
    );
    registry.register(
        "trim_reaches_flash",
        "Whether TRIM gets from the target down to all drives; left out where that is not known",
        reach.clone(),
    );
    registry.register(
        "worst",
        "The worst outcome of all, as in ssdlab_doctor_check",
        worst.clone(),
    );
    registry.register("time_seconds", "When this was looked at, since 1970", time.clone());
    for (subject, check) in diagnosis.all() {
        let labels = CheckLabels {
            subject: subject.to_owned(),
            check: check.check.to_owned(),
            verdict: check.verdict.name().to_owned(),
        };
        outcomes.get_or_create(&labels).set(severity(check.verdict));
        // The metric is left out if another machine provides the drive: its use of TRIM is not known here.
        let known = check.reach.as_ref().filter(|reach| reach.left_to_host.is_empty());
        if let Some(works) = known.and_then(|reach| reach.works) {
            reach.get_or_create(&TargetLabels { target: subject.to_owned() }).set(works.into());
        }
    }
    register_drive_metrics(diagnosis, &mut registry);
    worst.set(severity(diagnosis.worst));
    time.set(i64::try_from(diagnosis.machine.time).unwrap_or(i64::MAX));
    let mut text = String::new();
    encode(&mut text, &registry).expect("text takes all that is written to it");
    sort_samples(&text)
}

/// Sorts the samples of each metric. The library keeps them in a map whose order differs in each run, so two equal
/// diagnoses would have different texts.
fn sort_samples(text: &str) -> String {
    let is_comment = |line: &&str| line.starts_with('#');
    let mut ordered = String::with_capacity(text.len());
    let lines: Vec<&str> = text.lines().collect();
    for run in lines.chunk_by(|a, b| is_comment(a) == is_comment(b)) {
        let mut run = run.to_vec();
        if !is_comment(&run[0]) {
            run.sort_unstable();
        }
        for line in run {
            ordered.push_str(line);
            ordered.push('\n');
        }
    }
    ordered
}
