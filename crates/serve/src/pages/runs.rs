//! Page with the list of runs.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use maud::{Markup, html};
use ssdlab_lab::store::{RunSummary, Selection};

use super::{Fields, PageResult, View, format_time, link_with_query};
use crate::app::{Shared, run_blocking};

/// Number of runs on a page.
const PER_PAGE: u32 = 50;

/// Data for the list.
#[derive(Default)]
struct ListData {
    runs: Vec<RunSummary>,
    count: u64,
    subjects: Vec<(String, String)>,
    tags: Vec<String>,
}

pub(crate) async fn list(
    State(app): Shared,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> PageResult {
    let fields = Fields::of_query(query);
    let page = fields.get("page").parse::<u32>().unwrap_or(1).clamp(1, 1_000_000);
    let selection = Selection {
        experiment: fields.non_empty("experiment"),
        target: fields.non_empty("target"),
        tag: fields.non_empty("tag"),
        words: fields.non_empty("words"),
        skip: (page - 1) * PER_PAGE,
        most: Some(PER_PAGE),
    };
    let view = View::new(&app, &headers, "/");
    let found = run_blocking(move || {
        let Some(store) = app.store()? else { return Ok(ListData::default()) };
        Ok(ListData {
            runs: store.select(&selection)?,
            count: store.count(&selection)?,
            subjects: store.subjects()?,
            tags: store.tags()?,
        })
    })
    .await?;
    let body = html! {
        @if found.subjects.is_empty() {
            p { "No runs are kept yet. " a href="/experiments" { "Start an experiment" }
                ", or type " code { "ssdlab run fragmentation" } " in a terminal." }
        } @else {
            (filter(&fields, &found))
            p.faint role="status" { (count_text(found.count)) }
            (table(&found.runs))
            (pager(&fields, page, found.count))
        }
    };
    Ok(view.page("Runs", &body).into_response())
}

fn count_text(count: u64) -> String {
    match count {
        0 => "No run fits.".to_owned(),
        1 => "1 run.".to_owned(),
        count => format!("{count} runs, newest first."),
    }
}

fn filter(fields: &Fields, found: &ListData) -> Markup {
    let mut experiments: Vec<&str> = found.subjects.iter().map(|it| it.0.as_str()).collect();
    experiments.dedup();
    let mut targets: Vec<&str> = found.subjects.iter().map(|it| it.1.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    let tags: Vec<&str> = found.tags.iter().map(String::as_str).collect();
    html! {
        form.filter method="get" action="/" role="search" {
            label { "Words " input type="search" name="words" value=(fields.get("words")); }
            (select_field("Experiment", "experiment", &experiments, fields))
            (select_field("Drive", "target", &targets, fields))
            @if !tags.is_empty() { (select_field("Tag", "tag", &tags, fields)) }
            button type="submit" { "Filter" }
        }
    }
}

fn select_field(label: &str, name: &str, values: &[&str], fields: &Fields) -> Markup {
    let chosen = fields.get(name);
    html! {
        label { (label) " "
            select name=(name) {
                option value="" { "all" }
                @for value in values {
                    option value=(value) selected[*value == chosen] { (value) }
                }
            }
        }
    }
}

fn table(runs: &[RunSummary]) -> Markup {
    html! {
        @if !runs.is_empty() {
            form method="get" action="/compare" {
                div.scroll tabindex="0" role="region" aria-label="Table: runs" {
                    table.runs {
                        caption.hidden { "Runs" }
                        thead { tr {
                            th scope="col" { span.hidden { "Compare" } }
                            th scope="col" { "Run" } th scope="col" { "Experiment and drive" }
                            th scope="col" { "First finding" }
                        } }
                        tbody { @for run in runs { (row(run)) } }
                    }
                }
                p.actions { button type="submit" { "Compare the chosen runs" } }
            }
        }
    }
}

fn row(run: &RunSummary) -> Markup {
    html! {
        tr {
            td { input type="checkbox" name="run" value=(run.id)
                aria-label={ "Compare run " (run.id) }; }
            th scope="row" { a href={ "/runs/" (run.id) } { (run.id) }
                br; span.faint { (format_time(&run.started)) } }
            td.subject { (run.experiment) @if run.shortened { span.faint { ", shortened" } }
                @if run.interrupted { span.faint { ", interrupted" } }
                br; span.faint { (run.target) }
                @if !run.annotation.tags().is_empty() { br; (tags(run.annotation.tags())) } }
            td.words { (run.headline.as_deref().unwrap_or("\u{2013}"))
                @if !run.annotation.note().is_empty() { p.note { (run.annotation.note()) } } }
        }
    }
}

/// Returns tags as links to the runs that have them.
pub(super) fn tags(tags: &[String]) -> Markup {
    html! {
        span.tags { @for tag in tags { a.tag href=(link_with_query("/", &[("tag", tag)])) { (tag) } " " } }
    }
}

fn pager(fields: &Fields, page: u32, count: u64) -> Markup {
    let pages = count.div_ceil(u64::from(PER_PAGE));
    let to = |page: u32| {
        let number = page.to_string();
        let kept = ["words", "experiment", "target", "tag"].map(|name| (name, fields.get(name)));
        link_with_query("/", &[&kept[..], &[("page", &number)]].concat())
    };
    html! {
        @if pages > 1 {
            nav.pager aria-label="Pages" {
                @if page > 1 { a href=(to(page - 1)) rel="prev" { "Newer" } }
                span { "Page " (page) " of " (pages) }
                @if u64::from(page) < pages { a href=(to(page + 1)) rel="next" { "Older" } }
            }
        }
    }
}
