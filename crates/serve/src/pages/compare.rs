//! Comparison of runs, and the trend of one drive.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use maud::html;
use ssdlab_lab::compare::{Comparison, Trend};
use ssdlab_lab::output::html as report_html;
use ssdlab_lab::report::Report;
use ssdlab_lab::store::Selection;

use super::{Fields, PageResult, Problem, View, format_time, link_with_query};
use crate::app::{Shared, run_blocking};

/// Largest number of runs in a comparison.
const MAX_COMPARED: usize = 50;
/// Largest number of runs in a trend; the newest are taken.
const MAX_TREND_RUNS: u32 = 200;

pub(crate) async fn compare(
    State(app): Shared,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> PageResult {
    let fields = Fields::of_query(query);
    let view = View::new(&app, &headers, "/");
    let wrong = |words: &str| Problem::new(StatusCode::BAD_REQUEST, words);
    let mut names: Vec<String> = fields.all("run").map(str::to_owned).collect();
    names.dedup();
    if names.len() < 2 {
        return Err(wrong("choose two runs or more, of one experiment, to compare them"));
    }
    if names.len() > MAX_COMPARED {
        return Err(wrong("at most fifty runs can be compared"));
    }
    let comparison = run_blocking(move || {
        let missing = || Problem::not_found("no runs are kept yet");
        let store = app.store()?.ok_or_else(missing)?;
        let mut reports = Vec::new();
        for name in &names {
            let report = store.get(store.resolve(name)?)?;
            reports.push((report.target.name.clone(), report));
        }
        Comparison::new(reports).map_err(|error| wrong(&error.to_string()))
    })
    .await?;
    let title = format!("{}: {} runs", comparison.experiment, comparison.runs.len());
    let body = html! {
        header {
            p.kicker { "Comparison" }
            h1 { (title) }
        }
        main { (report_html::compared(&comparison)) }
    };
    Ok(view.page_with_own_heading(&title, &body).into_response())
}

pub(crate) async fn trend(
    State(app): Shared,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> PageResult {
    let fields = Fields::of_query(query);
    let view = View::new(&app, &headers, "/");
    let (experiment, target) =
        (fields.get("experiment").to_owned(), fields.get("target").to_owned());
    let selection = Selection {
        experiment: Some(experiment.clone()),
        target: Some(target.clone()),
        most: Some(MAX_TREND_RUNS),
        ..Selection::default()
    };
    let trend = run_blocking(move || {
        let Some(store) = app.store()? else { return Ok(None) };
        let runs = store.select(&selection)?;
        // Reports that cannot be read are left out.
        let reports: Vec<Report> = runs.iter().filter_map(|run| store.get(run.id).ok()).collect();
        Ok(Trend::of(&reports))
    })
    .await?;
    let title = format!("{experiment} on {target}");
    let runs = link_with_query("/", &[("experiment", &experiment), ("target", &target)]);
    let body = html! {
        header { p.kicker { "Trend" } h1 { (title) } }
        main {
            @match &trend {
                None => p { "A trend takes two finished runs or more with the same parameters. "
                    a href=(runs) { "The runs" } },
                Some(trend) => {
                    p { (trend.runs) " runs since " (format_time(&trend.since))
                        @if trend.left_out > 0 {
                            "; " (trend.left_out)
                            " others have other parameters than the newest, or were interrupted"
                        }
                        ". " a href=(runs) { "The runs" } }
                    @if trend.series.is_empty() { p { "All figures are the same in all of them." } }
                    (report_html::curves(&trend.series))
                }
            }
        }
    };
    Ok(view.page_with_own_heading(&format!("Trend: {title}"), &body).into_response())
}
