//! `status`: shows the inside of an attached drive, once or repeatedly.

mod live;

use std::time::{Duration, Instant};

use serde_json::Value;
use ssdlab_attach::control::{self, ControlRequest, Record};
use ssdlab_attach::status::Blocks;

use crate::cli::StatusArguments;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output_file::refuse_foreign_metrics;
use crate::terminal::Terminal;
use live::{Screen, Snapshot};

/// Time between two checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Shows the inside of a drive.
pub fn status(arguments: &StatusArguments, terminal: &Terminal) -> Result<(), Failure> {
    let record = control::find(arguments.drive.drive.as_deref())?;
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for Ctrl-C".to_owned(), source)
    })?;
    if !(arguments.interval >= 0.01 && arguments.interval <= 86_400.0) {
        return Err(Failure::usage("--interval is from 0.01 to 86400 seconds".to_owned()));
    }
    if let Some(path) = &arguments.prometheus {
        refuse_foreign_metrics(path)?;
    }
    let mut before: Option<Value> = None;
    let is_live = arguments.watch && !arguments.json;
    let mut screen = if is_live { Screen::open(terminal)? } else { None };
    loop {
        let line = control::ask(&record, ControlRequest::Status)?;
        let status: Value = serde_json::from_str(&line).map_err(|error| {
            Failure::new(Exit::Failed, anyhow::Error::new(error).context("the drive's answer"))
        })?;
        if let Some(path) = &arguments.prometheus {
            let text = control::ask(&record, ControlRequest::Prometheus)?;
            let text: String = serde_json::from_str(&text).unwrap_or_default();
            ssdlab_rundir::write_atomic(path, &text).map_err(|source| {
                Failure::system(Exit::Failed, format!("cannot write {}", path.display()), source)
            })?;
        }
        let is_read = if arguments.json {
            let one_line = format!("{line}\n");
            terminal.print_on(&if arguments.watch { one_line } else { super::json(&status) })?
        } else if let Some(screen) = &mut screen {
            let snapshot =
                Snapshot { status: &status, before: before.as_ref(), cells: block_cells(&record) };
            screen.draw(&snapshot, terminal)?;
            true
        } else {
            let apart = if before.is_some() { "\n" } else { "" };
            terminal.print_on(&format!("{apart}{}", status_text(&status, before.as_ref())))?
        };
        before = Some(status);
        if !arguments.watch || !is_read {
            return Ok(());
        }
        let interval = Duration::from_secs_f64(arguments.interval);
        let has_quit = match &screen {
            Some(screen) => screen.wait(interval),
            None => !pause(interval, &interrupt),
        };
        if has_quit || interrupt.is_requested() {
            return Ok(());
        }
    }
}

/// Waits for `interval`; returns false as soon as Ctrl-C was pressed.
fn pause(interval: Duration, interrupt: &Interrupt) -> bool {
    let until = Instant::now() + interval;
    while !interrupt.is_requested() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
    false
}

/// Returns the cells of the drive's blocks; `None` if its program is too old to give them.
fn block_cells(record: &Record) -> Option<Vec<u8>> {
    let blocks: Blocks =
        serde_json::from_str(&control::ask(record, ControlRequest::Blocks).ok()?).ok()?;
    blocks.cells()
}

fn number(status: &Value, path: &str) -> f64 {
    status.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

fn text<'a>(status: &'a Value, path: &str) -> &'a str {
    status.pointer(path).and_then(Value::as_str).unwrap_or("")
}

fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

fn micros(ns: f64) -> String {
    match ns {
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// Returns the units programmed to the flash, for all reasons.
fn flash_units(status: &Value) -> f64 {
    let causes = ["host", "collection", "condensing", "padding", "map", "metadata", "merge"];
    causes.iter().map(|cause| number(status, &format!("/counters/program_units_{cause}"))).sum()
}

/// Returns the figures as text for people, in 80 columns.
fn status_text(status: &Value, before: Option<&Value>) -> String {
    let n = |path: &str| number(status, path);
    let unit = n("/unit_bytes");
    let time = if status["real_time"] == true { "the drive's own time" } else { "fast" };
    let mut out = format!(
        "{} on {} ({}), {}\n\n",
        text(status, "/profile"),
        text(status, "/place"),
        bytes(n("/capacity_bytes")),
        time,
    );
    let amplification = status["write_amplification"].as_f64();
    out += &format!(
        "host wrote {:>11}   flash was written {:>11}   write amplification {}\n",
        bytes(n("/counters/host_write_units") * unit),
        bytes(flash_units(status) * unit),
        amplification.map_or("-".to_owned(), |it| format!("{it:.2}")),
    );
    out += &format!(
        "host read  {:>11}   trimmed {:>11}   {} flushes\n",
        bytes(n("/counters/host_read_units") * unit),
        bytes(n("/counters/host_trim_units") * unit),
        n("/counters/flushes"),
    );
    out += &format!(
        "{} of {} blocks free, {} erases, {} to {} a block\n\n",
        n("/free_blocks"),
        n("/blocks"),
        n("/counters/erases"),
        n("/wear/erases_min"),
        n("/wear/erases_max"),
    );
    if status["map_cache"].is_object() {
        let (hits, misses) = (n("/counters/map_hits"), n("/counters/map_misses"));
        // The line goes below that on blocks, before the empty line.
        out.pop();
        out += &format!(
            "map cache: {} of {} pages in RAM, {} to be written, {:.1} % hits\n\n",
            n("/map_cache/pages"),
            n("/map_cache/capacity"),
            n("/map_cache/dirty"),
            hits / (hits + misses).max(1.0) * 100.0,
        );
    }
    out += "blocks by their share of valid units\n";
    let shares: Vec<f64> = (0..10).map(|it| n(&format!("/blocks_by_valid_share/{it}"))).collect();
    let most = shares.iter().copied().fold(1.0, f64::max);
    for (tenth, count) in shares.iter().enumerate() {
        let bar = "#".repeat((count / most * 50.0).round() as usize);
        out += &format!("  to {:>3} %  {count:>7}  {bar}\n", (tenth + 1) * 10);
    }
    out += &request_table(status, before);
    out += &attribution_text(status);
    if n("/lateness/answers") > 0.0 {
        out += &format!(
            "answers late by {} (p50), {} (p99)\n",
            micros(n("/lateness/p50_ns")),
            micros(n("/lateness/p99_ns"))
        );
    }
    out
}

/// Returns a table of requests by kind: number, rate and latencies.
fn request_table(status: &Value, before: Option<&Value>) -> String {
    let n = |path: &str| number(status, path);
    let mut out = String::new();
    out += "\nrequests          number      per s       p50       p99     p99.9       max\n";
    for kind in ["reads", "writes", "flushes", "trims"] {
        let at = |key: &str| n(&format!("/requests/{kind}/{key}"));
        let rate = before.map_or("-".to_owned(), |before| {
            let time = n("/attached_s") - number(before, "/attached_s");
            let path = format!("/requests/{kind}/requests");
            format!("{:.0}", (n(&path) - number(before, &path)) / time.max(1e-9))
        });
        out += &format!(
            "{kind:<12} {:>11} {rate:>10} {:>9} {:>9} {:>9} {:>9}\n",
            at("requests"),
            micros(at("p50_ns")),
            micros(at("p99_ns")),
            micros(at("p999_ns")),
            micros(at("max_ns")),
        );
    }
    out
}

/// Returns the largest parts of the time of reads and writes, in descending order.
fn attribution_text(status: &Value) -> String {
    let mut out = String::from("\n");
    for kind in ["reads", "writes", "others"] {
        let Some(parts) = status.pointer(&format!("/attribution/{kind}")) else { continue };
        let Some(parts) = parts.as_object() else { continue };
        let mut parts: Vec<(f64, &str)> =
            parts.iter().map(|(name, it)| (it.as_f64().unwrap_or(0.0), name.as_str())).collect();
        let total: f64 = parts.iter().map(|(time, _)| time).sum();
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let words: Vec<String> = parts
            .iter()
            .filter(|(time, _)| *time / total.max(1.0) >= 0.01)
            .take(4)
            .map(|(time, name)| format!("{} {:.0} %", name.replace('_', " "), time / total * 100.0))
            .collect();
        if !words.is_empty() {
            out += &format!("time of {kind}: {}\n", words.join(", "));
        }
    }
    out
}
