//! Page of this machine: verdicts with reasons and commands, layers, wear and temperature over time.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use maud::{Markup, html};
use ssdlab_host::Stack;
use ssdlab_host::doctor::{Check, Diagnosis, Verdict};
use ssdlab_lab::output::html as report_html;
use ssdlab_lab::report::Series;
use ssdlab_lab::store::DriveFigures;

use super::{PageResult, View};
use crate::app::{Shared, run_blocking};

const SECONDS_PER_DAY: f64 = 86_400.0;

pub(crate) async fn show(State(app): Shared, headers: HeaderMap) -> PageResult {
    let view = View::new(&app, &headers, "/machine");
    let (diagnosis, figures) = run_blocking(move || {
        let figures = app.store()?.map(|store| store.drive_figures()).transpose()?;
        Ok((app.machine.diagnosis()?, figures.unwrap_or_default()))
    })
    .await?;
    let body = html! {
        p.meta { span { (diagnosis.machine.system) } span { (verdict_counts(&diagnosis)) } }
        @if !diagnosis.machine.is_root {
            p.faint { "Not run as root, which can find out more." }
        }
        @for target in &diagnosis.targets {
            @let stack = Stack { target: target.target.clone(), top: target.layers.clone() };
            section {
                h2 { (target.target) }
                pre.layers tabindex="0" role="region" aria-label={ "Layers of " (target.target) } {
                    (stack.to_text(false)) }
                (checks(&target.checks))
            }
        }
        @for drive in &diagnosis.drives {
            section { h2 { (drive.drive) ": " (drive.what) } (checks(&drive.checks)) }
        }
        @if !diagnosis.checks.is_empty() {
            section { h2 { "The machine as a whole" } (checks(&diagnosis.checks)) }
        }
        section {
            h2 { "Wear and temperature over time" }
            @let series = history_curves(&figures);
            @if series.is_empty() {
                p.faint { "Fewer than two readings have been recorded. "
                    code { "ssdlab serve --every 1d doctor" }
                    " records wear and temperature each day." }
            }
        }
        (report_html::curves(&history_curves(&figures)))
    };
    Ok(view.page("This machine", &body).into_response())
}

fn verdict_counts(diagnosis: &Diagnosis) -> String {
    let verdicts =
        [Verdict::Problem, Verdict::Warning, Verdict::Notice, Verdict::Unknown, Verdict::Fine];
    let count = |verdict| diagnosis.all().filter(|(_, check)| check.verdict == verdict).count();
    let words = verdicts.map(|verdict| (count(verdict), verdict.name()));
    let counts: Vec<String> = words
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    counts.join(", ")
}

/// Returns the list of checks, the worst first.
fn checks(checks: &[Check]) -> Markup {
    let mut sorted: Vec<&Check> = checks.iter().collect();
    sorted.sort_by_key(|check| std::cmp::Reverse(check.verdict));
    html! { ul.checks { @for check in sorted { (check_item(check)) } } }
}

fn check_item(check: &Check) -> Markup {
    html! {
        li class=(check.verdict.name()) {
            p { span.level { (check.verdict.name()) } " " b { (check.check) } ": " (check.seen) }
            @if !check.why.is_empty() { p.faint { (check.why) } }
            @for remedy in &check.remedies {
                p { (remedy.words) }
                @if let Some(command) = &remedy.command {
                    pre.command tabindex="0" { code { (command) } }
                }
            }
            @if let Some(missing) = &check.missing { p.faint { "Not known: " (missing) } }
        }
    }
}

/// Returns curves for each drive that has two values or more of a figure, over the days before the last value.
fn history_curves(figures: &[DriveFigures]) -> Vec<Series> {
    let Some(last) = figures.last() else { return Vec::new() };
    let mut drives: Vec<&str> = figures.iter().map(|one| one.drive.as_str()).collect();
    drives.sort_unstable();
    drives.dedup();
    type Figure = fn(&DriveFigures) -> Option<f64>;
    let kinds: [(&str, &str, Figure); 4] = [
        ("temperature", "\u{b0}C", |one| one.temperature_celsius),
        ("used", "%", |one| one.used_percent),
        ("spare", "%", |one| one.spare_percent),
        ("written", "GB", |one| one.written_bytes.map(|bytes| bytes / 1e9)),
    ];
    let mut series = Vec::new();
    for (kind, unit, of) in kinds {
        for drive in &drives {
            let own = figures.iter().filter(|one| one.drive == *drive);
            let days = |time: i64| (time - last.time) as f64 / SECONDS_PER_DAY;
            let points = own.filter_map(|one| Some((days(one.time), of(one)?)));
            let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
            if x.len() > 1 {
                let name = format!("{kind}_{drive}");
                series.push(Series {
                    name,
                    unit_x: "days".to_owned(),
                    unit_y: unit.to_owned(),
                    x,
                    y,
                });
            }
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_drive_has_a_curve_of_what_it_told_twice() {
        let at = |day: i64, drive: &str, degrees: f64, used: Option<f64>| DriveFigures {
            time: day * 86_400,
            drive: drive.to_owned(),
            temperature_celsius: Some(degrees),
            used_percent: used,
            ..DriveFigures::default()
        };
        let figures = [at(1, "a", 40.0, Some(3.0)), at(1, "b", 50.0, None), at(3, "a", 41.0, None)];
        let series = history_curves(&figures);
        assert_eq!(series.len(), 1);
        assert_eq!((&*series[0].name, &*series[0].x), ("temperature_a", &[-2.0, 0.0][..]));
        assert!(history_curves(&[]).is_empty());
    }
}
