//! Metrics for Prometheus, in its text format.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use ssdlab_host::HostError;
use ssdlab_lab::store::Selection;

use super::{PageResult, Problem};
use crate::app::{Shared, run_blocking};
use crate::live::{self, State as RunState};

const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn show(State(app): Shared) -> PageResult {
    let text = run_blocking(move || {
        let kept = match app.store()? {
            Some(store) => store.count(&Selection::default())?,
            None => 0,
        };
        let runs = live::runs()?;
        let running = runs.iter().filter(|run| run.state == RunState::Running).count();
        let mut texts = vec![gauge("runs_kept", "Runs in the store.", kept)];
        texts.push(gauge("experiments_running", "Experiments under way.", running as u64));
        match app.machine.diagnosis() {
            Ok(diagnosis) => texts.push(diagnosis.prometheus()),
            // There are no metrics of a machine that cannot be examined.
            Err(HostError::Unsupported(_)) => {}
            Err(error) => return Err(error.into()),
        }
        texts.extend(attached_drives()?);
        Ok(merge_metrics(&texts))
    })
    .await?;
    Ok(([(CONTENT_TYPE, FORMAT)], text).into_response())
}

/// Returns the metrics of each attached drive that answers.
#[cfg(target_os = "linux")]
fn attached_drives() -> Result<Vec<String>, Problem> {
    use ssdlab_attach::control::{self, ControlRequest};

    let records = control::records()?;
    let figures = records.iter().filter_map(|record| {
        let answer = control::ask(record, ControlRequest::Prometheus).ok()?;
        serde_json::from_str::<String>(&answer).ok()
    });
    Ok(figures.collect())
}

/// Returns no metrics: drives can be attached on Linux only.
#[cfg(not(target_os = "linux"))]
fn attached_drives() -> Result<Vec<String>, Problem> {
    Ok(Vec::new())
}

fn gauge(name: &str, help: &str, value: u64) -> String {
    format!("# HELP ssdlab_{name} {help}\n# TYPE ssdlab_{name} gauge\nssdlab_{name} {value}\n")
}

/// Joins texts so that each metric is described once, followed by the samples of all texts.
fn merge_metrics(texts: &[String]) -> String {
    let mut metrics: Vec<(String, Vec<String>, Vec<String>)> = Vec::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let comment = line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE "));
        let name = comment.unwrap_or(line).split([' ', '{']).next().unwrap_or_default();
        if name.is_empty() || line.starts_with('#') && comment.is_none() {
            continue;
        }
        let place = metrics.iter().position(|(known, ..)| known == name);
        let place = place.unwrap_or_else(|| {
            metrics.push((name.to_owned(), Vec::new(), Vec::new()));
            metrics.len() - 1
        });
        let (_, comments, samples) = &mut metrics[place];
        match comment {
            Some(_) if comments.iter().any(|known| known[..6] == line[..6]) => {}
            Some(_) => comments.push(line.to_owned()),
            None => samples.push(line.to_owned()),
        }
    }
    let mut text = String::new();
    for line in metrics.iter().flat_map(|(_, comments, samples)| comments.iter().chain(samples)) {
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_of_several_drives_is_described_once() {
        let drive = |name: &str| {
            format!(
                "# HELP a First.\n# TYPE a gauge\na{{d=\"{name}\"}} 1\n# HELP b Second.\n\
                 # TYPE b counter\nb{{d=\"{name}\"}} 2\n# EOF\n"
            )
        };
        assert_eq!(
            merge_metrics(&[drive("x"), drive("y z")]),
            "# HELP a First.\n# TYPE a gauge\na{d=\"x\"} 1\na{d=\"y z\"} 1\n\
             # HELP b Second.\n# TYPE b counter\nb{d=\"x\"} 2\nb{d=\"y z\"} 2\n"
        );
    }
}
