//! Pages of experiments in progress, started here or in a terminal: list, live view, start and stop.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use maud::{Markup, html};
use ssdlab_lab::output::html as report_html;
use ssdlab_lab::store::Selection;
use ssdlab_model::profile;
use tokio_stream::{Stream, StreamExt};

use super::blocks::{self, Picture};
use super::{Fields, PageResult, Problem, View, approximate_duration, redirect_to};
use crate::app::{App, Shared, run_blocking};
use crate::events::{Fragment, Topic};
use crate::live::{self, LiveBlocks, LiveRun, State as RunState};
use crate::runner::{self, ProcessResult, RunProcess, RunRequest};

pub(crate) async fn list(
    State(app): Shared,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> PageResult {
    let view = View::new(&app, &headers, "/experiments");
    let fields = Fields::of_query(query);
    let (runs, started) = run_blocking(move || Ok((live::runs()?, app.runner.started()))).await?;
    // Experiments without a run file have just begun, or were over too soon to write one.
    let others = started.iter().filter(|one| runs.iter().all(|run| run.pid != one.pid));
    let others: Vec<&RunProcess> = others.collect();
    let body = html! {
        @if runs.is_empty() && others.is_empty() {
            p { "No experiment is running. Those that 'ssdlab run' starts in a terminal appear \
                 here, too." }
        }
        @if !runs.is_empty() || !others.is_empty() {
            ul.cards {
                @for run in &runs {
                    li { a href={ "/experiments/" (run.pid) } {
                        (run.subject.experiment) " on " (run.subject.target) }
                        " " (state_markup(run)) }
                }
                @for one in others.iter().rev() {
                    li { a href={ "/experiments/" (one.pid) } { (one.experiment) " on " (one.target) }
                        " " (ended_text(one.ended.as_ref())) }
                }
            }
        }
        section {
            h2 { "Start an experiment on a simulated drive" }
            @if view.may_change { (form(&fields)) } @else {
                p { "That needs " a href="/token?to=/experiments" { "the token" } "." }
            }
        }
    };
    Ok(view.page("Experiments", &body).into_response())
}

/// Returns the form that starts an experiment, filled in with `fields`.
fn form(fields: &Fields) -> Markup {
    let chosen = fields.get("experiment");
    // Browsers do not send a box that is not checked.
    let was_sent = fields.all("target").next().is_some();
    let or = |name: &str, usual: &str| match was_sent {
        true => fields.get(name).to_owned(),
        false => usual.to_owned(),
    };
    html! {
        form.lines method="post" action="/experiments" {
            label { "Experiment "
                select name="experiment" {
                    @for one in runner::experiments() {
                        option value=(one.name()) selected[one.name() == chosen] {
                            (one.name()) ": " (one.question())
                        }
                    }
                }
            }
            label { "Drive: a profile with changes, or a stack of them "
                input type="text" name="target" value=(or("target", "sim:toshiba-xg5"))
                    list="profiles" required autocomplete="off" spellcheck="false";
            }
            datalist #profiles {
                @for (name, _) in profile::embedded() { option value={ "sim:" (name) } {} }
            }
            label { "Parameters to change, one NAME=VALUE per line "
                textarea name="settings" rows="2" spellcheck="false" { (or("settings", "")) } }
            label { "Seed "
                input type="text" name="seed" value=(or("seed", "1")) inputmode="numeric" size="6"; }
            label.inline { input type="checkbox" name="quick" value="yes"
                checked[or("quick", "yes") == "yes"];
                " Quick: seconds instead of minutes, on a smaller drive of the same kind" }
            label.inline { input type="checkbox" name="record" value="yes"
                checked[or("record", "") == "yes"];
                " Record the inside of the drive, to see its blocks over the run" }
            p { button type="submit" { "Start" } }
        }
    }
}

pub(crate) async fn start(State(app): Shared, headers: HeaderMap, body: Bytes) -> PageResult {
    let view = View::new(&app, &headers, "/experiments");
    let fields = Fields::read(&body);
    let request = RunRequest {
        experiment: fields.get("experiment").to_owned(),
        target: fields.get("target").to_owned(),
        settings: fields.get("settings").to_owned(),
        seed: fields.get("seed").to_owned(),
        quick: fields.get("quick") == "yes",
        record: fields.get("record") == "yes",
    };
    let started = run_blocking(move || {
        let newest = app.store()?.and_then(|store| store.latest().transpose()).transpose()?;
        let pid = app.runner.start(&request, newest)?;
        Ok(redirect_to(&format!("/experiments/{pid}")))
    })
    .await;
    match started {
        Err(problem) if problem.status.is_client_error() => {
            let body = html! {
                (problem.sentences_markup()) section { h2 { "Your request" } (form(&fields)) }
            };
            Ok((problem.status, view.page("Not started", &body)).into_response())
        }
        other => other,
    }
}

pub(crate) async fn stop(State(app): Shared, Path(pid): Path<String>) -> PageResult {
    let pid = parse_pid(&pid)?;
    run_blocking(move || {
        let message = "that experiment is not running, or was not started here: Ctrl-C in its terminal \
                     ends it";
        match app.runner.stop(pid) {
            true => Ok(redirect_to(&format!("/experiments/{pid}"))),
            false => Err(Problem::new(StatusCode::CONFLICT, message)),
        }
    })
    .await
}

fn unknown_experiment() -> Problem {
    Problem::not_found("no experiment with that process ID is known")
}

fn parse_pid(pid: &str) -> Result<u32, Problem> {
    pid.parse().map_err(|_| Problem::not_found("there is no such experiment"))
}

pub(crate) async fn watch(
    State(app): Shared,
    headers: HeaderMap,
    Path(pid): Path<String>,
) -> PageResult {
    let pid = parse_pid(&pid)?;
    let view = View::new(&app, &headers, "/experiments");
    let app_clone = app.clone();
    let (shown, started) =
        run_blocking(move || Ok((current_state(&app_clone, pid)?, app_clone.runner.find(pid))))
            .await?;
    let Some((title, fragment)) = shown else {
        return Err(unknown_experiment());
    };
    let is_ours = started.is_some_and(|one| one.ended.is_none());
    let events = (!fragment.is_final).then(|| format!("/experiments/{pid}/events"));
    let body = html! {
        div #live data-events=[events] aria-live="off" { (maud::PreEscaped(&*fragment.html)) }
        @if is_ours && !fragment.is_final && view.may_change {
            form #stop method="post" action={ "/experiments/" (pid) "/stop" } {
                p { button type="submit" { "Stop, and keep what was measured" } }
            }
        }
        @if !fragment.is_final {
            noscript { p.faint { "Load this page again to see the progress." } }
        }
    };
    Ok(view.page(&title, &body).into_response())
}

pub(crate) async fn events(State(app): Shared, Path(pid): Path<String>) -> PageResult {
    let pid = parse_pid(&pid)?;
    let app_clone = app.clone();
    if run_blocking(move || current_state(&app_clone, pid)).await?.is_none() {
        return Err(unknown_experiment());
    }
    let app_clone = app.clone();
    let stream = app.hub.watch(Topic::Run(pid), move || match current_state(&app_clone, pid) {
        Ok(Some((_, fragment))) => fragment,
        _ => Fragment { html: "<p>It has ended.</p>".into(), is_final: true },
    });
    Ok(sse(stream.map_err(|_| too_many_watchers())?).into_response())
}

/// Returns the error for more watchers than the limit.
pub(super) fn too_many_watchers() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages are watching already")
}

/// Returns fragments as server-sent events: `message` for one that may change, `over` for the last.
pub(super) fn sse(
    stream: impl Stream<Item = Fragment> + Send + 'static,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream.map(|fragment| {
        let name = if fragment.is_final { "over" } else { "message" };
        let data = serde_json::to_string(&*fragment.html).unwrap_or_default();
        Ok(Event::default().event(name).data(data))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// Returns title and current state of a process' run; `None` if no such run is known.
fn current_state(app: &Arc<App>, pid: u32) -> Result<Option<(String, Fragment)>, Problem> {
    let started = app.runner.find(pid);
    let fragment = |html: Markup, is_final| Fragment { html: html.into_string().into(), is_final };
    if let Some(run) = live::run(pid)? {
        let title = format!("{} on {}", run.subject.experiment, run.subject.target);
        // The exit code of an experiment that was started here is known.
        let ended = started.as_ref().and_then(|one| one.ended.as_ref());
        let is_final = run.state != RunState::Running || ended.is_some();
        let html = match (run.state, ended) {
            (RunState::Running | RunState::Lost, Some(ended)) => {
                ended_markup(app, started.as_ref(), ended)?
            }
            _ => run_markup(&run),
        };
        return Ok(Some((title, fragment(html, is_final))));
    }
    let Some(started) = started else { return Ok(None) };
    let title = format!("{} on {}", started.experiment, started.target);
    let html = match &started.ended {
        None => html! { p { "It has just begun." } },
        Some(ended) => ended_markup(app, Some(&started), ended)?,
    };
    let is_final = started.ended.is_some();
    Ok(Some((title, fragment(html, is_final))))
}

/// Returns the markup of a run that has a run file.
fn run_markup(run: &LiveRun) -> Markup {
    let percent = run.share * 100.0;
    html! {
        p { "It " (state_markup(run)) "." }
        @if run.state == RunState::Running {
            progress max="100" value=(format!("{percent:.1}")) aria-label="Share that is done" {
                (format!("{percent:.0} %"))
            }
            p.meta {
                span { (format!("{percent:.0} %")) }
                span { (run.step) }
                span { "for " (approximate_duration(run.elapsed)) }
                @if let Some(left) = run.left { span { (approximate_duration(left)) " left" } }
                @if run.drive_time > 0.0 { span { (approximate_duration(run.drive_time)) " of the drive's time" } }
            }
        }
        @let series = run.series();
        @if series.is_empty() && run.state == RunState::Running {
            p.faint { "Curves appear after the drive has been measured for a while; workloads that \
                       run in parallel have none." }
        }
        @if let Some(blocks) = run.blocks.as_ref().filter(|_| run.state == RunState::Running) {
            (blocks::section(&picture(blocks), "as they were recorded last"))
        }
        (report_html::curves(&series))
    }
}

fn picture(seen: &LiveBlocks) -> Picture<'_> {
    let LiveBlocks { blocks, free_blocks, blocks_per_cell, cells } = seen;
    let (blocks, free_blocks, blocks_per_cell) = (*blocks, *free_blocks, *blocks_per_cell);
    Picture { blocks, free_blocks, blocks_per_cell, cells }
}

/// Returns the markup of an experiment of this server that has ended.
fn ended_markup(
    app: &App,
    started: Option<&RunProcess>,
    ended: &ProcessResult,
) -> Result<Markup, Problem> {
    let kept = match started {
        Some(started) => stored_run(app, started)?,
        None => None,
    };
    Ok(html! {
        p { "It " (ended_text(Some(ended))) "." }
        @if let Some(id) = kept { p { a href={ "/runs/" (id) } { "Its report: run " (id) } } }
        @if !ended.stderr_tail.is_empty() { pre.said { (ended.stderr_tail) } }
    })
}

/// Returns the stored run of an experiment that was started here: the newest that matches and that did not exist
/// before.
fn stored_run(app: &App, started: &RunProcess) -> Result<Option<i64>, Problem> {
    let Some(store) = app.store()? else { return Ok(None) };
    let selection = Selection {
        experiment: Some(started.experiment.clone()),
        most: Some(20),
        ..Selection::default()
    };
    let runs = store.select(&selection)?;
    let newer = runs.iter().filter(|run| started.newest_before.is_none_or(|id| run.id > id));
    Ok(newer.filter(|run| run.seed == started.seed).map(|run| run.id.number()).next())
}

fn state_markup(run: &LiveRun) -> Markup {
    match run.state {
        RunState::Running => html! { "is running" },
        RunState::Lost => html! { "ended without a report: its program was killed" },
        RunState::Kept(id) => html! { "has ended: " a href={ "/runs/" (id) } { "run " (id) } },
    }
}

fn ended_text(ended: Option<&ProcessResult>) -> &'static str {
    match ended.map(|ended| ended.code) {
        None => "is running",
        Some(Some(0)) => "has ended",
        Some(Some(130)) => "was stopped, and kept what it had measured",
        Some(Some(_)) => "has failed",
        Some(None) => "was killed",
    }
}
