//! Pages of attached drives, with live updates.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use maud::{Markup, html};
use serde_json::Value;
use ssdlab_attach::control::{self, ControlRequest, Record};
use ssdlab_attach::status::Blocks;
use ssdlab_lab::output::html as report_html;
use ssdlab_lab::report::{Cell, Column, Series, Table};

use super::experiments::{sse, too_many_watchers};
use super::{PageResult, Problem, View, approximate_duration};
use crate::app::{Shared, run_blocking};
use crate::events::{Fragment, Topic};

/// Number of polls, one a second, that the curves show.
const MAX_POLLS: usize = 300;

pub(crate) async fn list(State(app): Shared, headers: HeaderMap) -> PageResult {
    let view = View::new(&app, &headers, "/drives");
    let records = run_blocking(|| {
        let records = control::records()?;
        Ok(records
            .into_iter()
            .map(|record| (control::is_alive(&record), record))
            .collect::<Vec<_>>())
    })
    .await?;
    let body = html! {
        @if records.is_empty() {
            p { "No drive is attached. In a terminal, " code { "ssdlab create sim: disk.ssd" } " and "
                code { "ssdlab attach disk.ssd" } " make a simulated drive a block device." }
        } @else {
            ul.cards {
                @for (is_alive, record) in &records {
                    li {
                        @if *is_alive {
                            a href={ "/drives/" (record.pid) } { (record.place) }
                        } @else {
                            (record.place) span.faint { " is stale: its program was killed" }
                        }
                        br; span.faint { (record.image.display()) }
                    }
                }
            }
        }
    };
    Ok(view.page("Attached drives", &body).into_response())
}

fn find(pid: &str) -> Result<Record, Problem> {
    let number = pid.parse::<u32>().ok();
    let found = control::records()?.into_iter().find(|record| Some(record.pid) == number);
    found
        .filter(control::is_alive)
        .ok_or_else(|| Problem::not_found("no drive is attached by that process"))
}

pub(crate) async fn watch(
    State(app): Shared,
    headers: HeaderMap,
    Path(pid): Path<String>,
) -> PageResult {
    let view = View::new(&app, &headers, "/drives");
    let (record, fragment) = run_blocking(move || {
        let record = find(&pid)?;
        let status = status(&record)?;
        let fragment = History::default().add(&status, blocks_of(&record).as_ref());
        Ok((record, fragment))
    })
    .await?;
    let events = format!("/drives/{}/events", record.pid);
    let body = html! {
        p.faint { (record.image.display()) }
        div #live data-events=(events) aria-live="off" { (fragment) }
        noscript { p.faint { "Load this page again to see the progress." } }
    };
    Ok(view.page(&record.place, &body).into_response())
}

pub(crate) async fn events(State(app): Shared, Path(pid): Path<String>) -> PageResult {
    let record = run_blocking(move || find(&pid)).await?;
    let mut history = History::default();
    let stream = app.hub.watch(Topic::Drive(record.pid), move || match status(&record) {
        Ok(status) => {
            let part = history.add(&status, blocks_of(&record).as_ref());
            Fragment { html: part.into_string().into(), is_final: false }
        }
        Err(_) => Fragment { html: "<p>It is detached.</p>".into(), is_final: true },
    });
    Ok(sse(stream.map_err(|_| too_many_watchers())?).into_response())
}

fn status(record: &Record) -> Result<Value, Problem> {
    let line = control::ask(record, ControlRequest::Status)?;
    serde_json::from_str(&line)
        .map_err(|_| Problem::not_found("the answer of the drive cannot be read"))
}

/// Returns a picture of the drive's blocks; `None` if its program is too old to give one.
fn blocks_of(record: &Record) -> Option<Blocks> {
    serde_json::from_str(&control::ask(record, ControlRequest::Blocks).ok()?).ok()
}

fn number(status: &Value, path: &str) -> f64 {
    status.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

/// Returns the units programmed to the flash, for all reasons.
fn flash_units(status: &Value) -> f64 {
    let counters = status.get("counters").and_then(Value::as_object);
    let programs =
        counters.into_iter().flatten().filter(|(name, _)| name.starts_with("program_units_"));
    programs.filter_map(|(_, value)| value.as_f64()).sum()
}

/// Counters of a drive, one entry for each poll.
#[derive(Debug, Default)]
struct History(Vec<PollCounters>);

/// Counters of a drive at one poll, since the drive was attached or created.
#[derive(Clone, Copy, Debug, Default)]
struct PollCounters {
    at: f64,
    read: f64,
    written: f64,
    requests: f64,
    host_units: f64,
    flash_units: f64,
    free_blocks: f64,
}

impl PollCounters {
    fn of(status: &Value) -> PollCounters {
        let n = |path: &str| number(status, path);
        let kinds = ["reads", "writes", "flushes", "trims"];
        PollCounters {
            at: n("/attached_s"),
            read: n("/requests/reads/bytes"),
            written: n("/requests/writes/bytes"),
            requests: kinds.iter().map(|kind| n(&format!("/requests/{kind}/requests"))).sum(),
            host_units: n("/counters/host_write_units"),
            flash_units: flash_units(status),
            free_blocks: n("/free_blocks"),
        }
    }
}

impl History {
    /// Adds a poll, and returns the markup of the drive, with its blocks if `seen` has them.
    fn add(&mut self, status: &Value, seen: Option<&Blocks>) -> Markup {
        self.0.push(PollCounters::of(status));
        let too_many = self.0.len().saturating_sub(MAX_POLLS);
        self.0.drain(..too_many);
        let n = |path: &str| number(status, path);
        let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or("");
        let unit = n("/unit_bytes");
        let gib = |bytes: f64| format!("{:.2} GiB", bytes / 1024_f64.powi(3));
        let amplification = status["write_amplification"].as_f64();
        html! {
            p.meta {
                span { (text("/profile")) } span { (gib(n("/capacity_bytes"))) }
                span { "attached for " (approximate_duration(n("/attached_s"))) }
                span { @if status["real_time"] == true { "with the drive's own latencies" } @else
                    { "as fast as this machine can" } }
            }
            dl.figures {
                div { dt { "Write amplification" }
                    dd { (amplification.map_or("\u{2013}".to_owned(), |it| format!("{it:.2}"))) } }
                div { dt { "Host wrote" } dd { (gib(n("/counters/host_write_units") * unit)) } }
                div { dt { "Flash was written" } dd { (gib(flash_units(status) * unit)) } }
                div { dt { "Host read" } dd { (gib(n("/counters/host_read_units") * unit)) } }
                div { dt { "Trimmed" } dd { (gib(n("/counters/host_trim_units") * unit)) } }
                div { dt { "Free blocks" } dd { (n("/free_blocks")) " of " (n("/blocks")) } }
                div { dt { "Erases per block" }
                    dd { (n("/wear/erases_min")) " to " (n("/wear/erases_max")) } }
            }
            @if let Some(seen) = seen {
                (super::blocks::section(&picture(seen, n("/free_blocks")), "now"))
            }
            (report_html::curves(&self.series()))
            section { h2 { "Requests since it was attached" } (report_html::table(&request_table(status))) }
            section { h2 { "Blocks by the share of valid units" } (report_html::table(&block_table(status))) }
        }
    }

    /// Returns the rates between polls, with time in seconds before the last poll.
    fn series(&self) -> Vec<Series> {
        let Some(last) = self.0.last() else { return Vec::new() };
        let curve =
            |name: &str, unit_y: &str, of: &dyn Fn(&PollCounters, &PollCounters) -> Option<f64>| {
                let points = self.0.windows(2).filter_map(|pair| {
                    Some((pair[1].at - last.at, of(&pair[0], &pair[1]).filter(|y| y.is_finite())?))
                });
                let (x, y) = points.unzip();
                let (unit_x, unit_y) = ("s".to_owned(), unit_y.to_owned());
                Series { name: name.to_owned(), unit_x, unit_y, x, y }
            };
        let rate = |a: f64, b: f64, from: &PollCounters, to: &PollCounters| {
            Some((b - a) / (to.at - from.at))
        };
        let all = [
            curve("throughput_read", "MB/s", &|a, b| rate(a.read / 1e6, b.read / 1e6, a, b)),
            curve("throughput_written", "MB/s", &|a, b| {
                rate(a.written / 1e6, b.written / 1e6, a, b)
            }),
            curve("requests", "1/s", &|a, b| rate(a.requests, b.requests, a, b)),
            curve("write_amplification", "", &|a, b| {
                let host = b.host_units - a.host_units;
                (host > 0.0).then(|| (b.flash_units - a.flash_units) / host)
            }),
            curve("free_blocks", "", &|_, b| Some(b.free_blocks)),
        ];
        all.into_iter().filter(|series| series.x.len() > 1).collect()
    }
}

fn picture(seen: &Blocks, free: f64) -> super::blocks::Picture<'_> {
    super::blocks::Picture {
        blocks: seen.blocks,
        free_blocks: free as u32,
        blocks_per_cell: seen.blocks_per_cell,
        cells: seen.packed_cells(),
    }
}

fn request_table(status: &Value) -> Table {
    let names = ["requests", "number", "mean", "median", "99 %", "99.9 %", "longest"];
    let units = ["", "", "us", "us", "us", "us", "us"];
    let keys = ["mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns"];
    let row = |kind: &str| {
        let at = |key: &str| number(status, &format!("/requests/{kind}/{key}"));
        let times = keys.map(|key| match at("requests") > 0.0 {
            true => Cell::from(at(key) / 1e3),
            false => Cell::Null,
        });
        [vec![Cell::from(kind), Cell::Integer(at("requests") as u64)], times.to_vec()].concat()
    };
    Table {
        name: "requests".to_owned(),
        columns: names.iter().zip(units).map(|(name, unit)| Column::new(*name, unit)).collect(),
        rows: ["reads", "writes", "flushes", "trims"].map(row).to_vec(),
    }
}

fn block_table(status: &Value) -> Table {
    let row = |tenth: usize| {
        let count = number(status, &format!("/blocks_by_valid_share/{}", tenth - 1));
        vec![Cell::from(format!("to {} %", tenth * 10)), Cell::Integer(count as u64)]
    };
    Table {
        name: "blocks".to_owned(),
        columns: vec![Column::new("valid", ""), Column::new("blocks", "")],
        rows: (1..=10).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_polls_and_the_past_is_bounded() {
        let mut history = History::default();
        for second in 0..MAX_POLLS + 10 {
            let status = serde_json::json!({
                "attached_s": second,
                "requests": { "writes": { "bytes": second * 2_000_000, "requests": second * 10 } },
                "counters": { "host_write_units": second * 4, "program_units_host": second * 4,
                              "program_units_collection": second * 2 },
            });
            let _ = history.add(&status, None);
        }
        assert_eq!(history.0.len(), MAX_POLLS);
        let series = history.series();
        let of = |name: &str| series.iter().find(|series| series.name == name).unwrap();
        assert!(of("throughput_written").y.iter().all(|y| *y == 2.0));
        assert!(of("requests").y.iter().all(|y| *y == 10.0));
        assert!(of("write_amplification").y.iter().all(|y| *y == 1.5));
        assert_eq!(of("requests").x.last(), Some(&0.0));
        assert_eq!(of("requests").x.len(), MAX_POLLS - 1);
    }

    #[test]
    fn a_drive_that_was_looked_at_once_has_no_curve() {
        let page =
            History::default().add(&serde_json::json!({ "profile": "<b>" }), None).into_string();
        assert!(page.contains("&lt;b&gt;") && !page.contains("<path"), "{page}");
    }
}
