//! A diagnosis as metrics, in the text format that Prometheus reads.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Diagnosis, DriveDiagnosis, Verdict};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    subject: String,
    check: String,
    verdict: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Subject {
    target: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfDrive {
    drive: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Info {
    drive: String,
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfKind {
    drive: String,
    kind: String,
}

/// A figure of a drive: its name, what it is, and where it comes from.
type Figure = (&'static str, &'static str, fn(&DriveDiagnosis) -> Option<f64>);

/// Percent as a ratio, as Prometheus likes it.
fn ratio(percent: u64) -> f64 {
    percent as f64 / 100.0
}

const FIGURES: [Figure; 8] = [
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

/// Adds the figures of all drives; what a drive does not tell is left out.
fn add_figures(diagnosis: &Diagnosis, registry: &mut Registry) {
    let info = Family::<Info, Gauge>::default();
    let errors = Family::<OfKind, Gauge<f64, AtomicU64>>::default();
    registry.register("drive_info", "A drive that was looked at; always 1", info.clone());
    for (name, help, figure) in FIGURES {
        let family = Family::<OfDrive, Gauge<f64, AtomicU64>>::default();
        for found in &diagnosis.drives {
            if let Some(value) = figure(found) {
                family.get_or_create(&OfDrive { drive: found.drive.clone() }).set(value);
            }
        }
        registry.register(format!("drive_{name}"), help, family);
    }
    for found in &diagnosis.drives {
        let model = found.values.model.clone().unwrap_or_default();
        info.get_or_create(&Info { drive: found.drive.clone(), model }).set(1);
        for (kind, count) in &found.values.errors {
            let labels = OfKind { drive: found.drive.clone(), kind: (*kind).to_owned() };
            errors.get_or_create(&labels).set(*count as f64);
        }
    }
    registry.register("drive_errors", "Errors that the drive has counted, by their kind", errors);
}

/// Returns how bad a verdict is, as a number: what is unknown counts as -1, so that a rule for what is bad does not
/// fire for it.
fn level(verdict: Verdict) -> i64 {
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
    let outcomes = Family::<Outcome, Gauge>::default();
    let reach = Family::<Subject, Gauge>::default();
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
        let labels = Outcome {
            subject: subject.to_owned(),
            check: check.check.to_owned(),
            verdict: check.verdict.word().to_owned(),
        };
        outcomes.get_or_create(&labels).set(level(check.verdict));
        // What another machine does with it is not known here.
        let known = check.reach.as_ref().filter(|reach| reach.left_to_host.is_empty());
        if let Some(works) = known.and_then(|reach| reach.works) {
            reach.get_or_create(&Subject { target: subject.to_owned() }).set(works.into());
        }
    }
    add_figures(diagnosis, &mut registry);
    worst.set(level(diagnosis.worst));
    time.set(i64::try_from(diagnosis.machine.time).unwrap_or(i64::MAX));
    let mut text = String::new();
    encode(&mut text, &registry).expect("text takes all that is written to it");
    in_order(&text)
}

/// Puts the figures of each metric in order: the library keeps them in a map of its own, which has another
/// order in each run, and who compares two files would see changes where there are none.
fn in_order(text: &str) -> String {
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
