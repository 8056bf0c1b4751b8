//! Page of one run: its report, tags and note.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse};
use maud::{Markup, html};
use ssdlab_lab::output::html as report_html;
use ssdlab_lab::report::Report;
use ssdlab_lab::store::{Annotation, RunId, Store};

use super::{Fields, PageResult, Problem, View, link_with_query, redirect_to, runs};
use crate::app::{App, SavedPage, Shared, run_blocking};

/// Opens the store, and finds the run that a path names. The name must be a number.
fn open_run(app: &App, name: &str) -> Result<(Store, RunId), Problem> {
    let is_number = name.len() <= 18 && name.bytes().all(|byte| byte.is_ascii_digit());
    let missing = || Problem::not_found("there is no such run");
    let store = app.store()?.filter(|_| is_number).ok_or_else(missing)?;
    let id = store.resolve(name)?;
    Ok((store, id))
}

pub(crate) async fn show(
    State(app): Shared,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> PageResult {
    let view = View::new(&app, &headers, "/");
    let (id, report, annotation) = run_blocking(move || {
        let (store, id) = open_run(&app, &name)?;
        Ok((id, store.get(id)?, store.annotation(id)?))
    })
    .await?;
    let title = format!("Run {id}: {} on {}", report.experiment, report.target.name);
    let body = html! {
        (report_html::header(&report))
        main {
            (annotation_markup(id, &report, &annotation, view))
            (report_html::contents(&report))
        }
    };
    Ok(view.page_with_own_heading(&title, &body).into_response())
}

/// Returns the links, tags and note of a run, and the forms that change them.
fn annotation_markup(id: RunId, report: &Report, annotation: &Annotation, view: View) -> Markup {
    let (experiment, target) = (&*report.experiment, &*report.target.name);
    let alike = [("experiment", experiment), ("target", target)];
    let path = format!("/runs/{id}");
    html! {
        p.links {
            span { "Run " (id) }
            a href={ (path) "/report.html" } { "Save as one file" }
            a href={ (path) "/report.json" } { "JSON" }
            a href=(link_with_query("/", &alike)) { "Runs like it" }
            a href=(link_with_query("/trend", &alike)) { "Trend" }
        }
        @if !annotation.tags().is_empty() { p { (runs::tags(annotation.tags())) } }
        @if !annotation.note().is_empty() { p.note { (annotation.note()) } }
        @if view.may_change {
            details.change {
                summary { "Tags and note" }
                form.lines method="post" action=(path) {
                    label { "Tags, with commas between them "
                        input type="text" name="tags" value=(annotation) autocomplete="off"; }
                    label { "Note " textarea name="note" rows="4" { (annotation.note()) } }
                    p { button type="submit" { "Keep" } }
                }
                form.lines method="post" action={ (path) "/delete" } {
                    label.inline { input type="checkbox" name="sure" value="yes" required;
                        " Delete run " (id) " with its report, for good" }
                    p { button type="submit" { "Delete" } }
                }
            }
        }
    }
}

pub(crate) async fn annotate(
    State(app): Shared,
    Path(name): Path<String>,
    body: Bytes,
) -> PageResult {
    let fields = Fields::read(&body);
    run_blocking(move || {
        let (_, id) = open_run(&app, &name)?;
        let annotation = Annotation::new(fields.get("tags"), fields.get("note"));
        let annotation = annotation.map_err(ssdlab_lab::store::StoreError::from)?;
        Store::open(&app.store)?.annotate(id, &annotation)?;
        Ok(redirect_to(&format!("/runs/{id}")))
    })
    .await
}

pub(crate) async fn delete(
    State(app): Shared,
    Path(name): Path<String>,
    body: Bytes,
) -> PageResult {
    let is_sure = Fields::read(&body).get("sure") == "yes";
    run_blocking(move || {
        let (_, id) = open_run(&app, &name)?;
        if !is_sure {
            return Ok(redirect_to(&format!("/runs/{id}")));
        }
        Store::open(&app.store)?.remove(id)?;
        Ok(redirect_to("/"))
    })
    .await
}

pub(crate) async fn html_file(State(app): Shared, Path(name): Path<String>) -> PageResult {
    run_blocking(move || {
        let (store, id) = open_run(&app, &name)?;
        let report = store.get(id)?;
        let name = format!("attachment; filename=\"ssdlab-run-{id}.html\"");
        let page = Html(report_html::render(&report));
        let mut response = ([(CONTENT_DISPOSITION, name)], page).into_response();
        response.extensions_mut().insert(SavedPage);
        Ok(response)
    })
    .await
}

pub(crate) async fn json_file(State(app): Shared, Path(name): Path<String>) -> PageResult {
    run_blocking(move || {
        let (store, id) = open_run(&app, &name)?;
        let name = format!("attachment; filename=\"ssdlab-run-{id}.json\"");
        let headers = [(CONTENT_DISPOSITION, name), (CONTENT_TYPE, "application/json".to_owned())];
        Ok((headers, store.get_json(id)?).into_response())
    })
    .await
}
