//! A diagnosis as metrics, in the text format that Prometheus reads.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Diagnosis, Verdict};

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

/// How bad a verdict is, as a number: what is unknown counts as -1, so that a rule for what is
/// bad does not fire for it.
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
