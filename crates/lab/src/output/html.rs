//! A report as one self-contained page: no network, no fonts, no external scripts. The report's JSON is
//! embedded for later use.
//!
//! # Charts without a plotting library
//! A plotting library draws a picture of a fixed size with fixed colours. These charts follow the page's
//! colours (light, dark, print) and its width (a telephone's, too), because they are a few SVG elements with
//! coordinates in percent, styled by the page's style sheet. Every bar and point has its numbers as a title,
//! which the script shows without a delay. All content is readable without the script.
//!
//! # Hostile text
//! Names of drives and files come from elsewhere. maud escapes all text; the JSON contains no `<`, so that no
//! string in it can end its element.

mod bars;
mod contents;
mod curves;
mod dies;
pub mod figure;
mod inside;
mod latency;
mod lines;
mod parts;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use contents::Section;

use super::chart::{Bars, Grid, TableChart};
use super::format;
use crate::compare::Comparison;
use crate::report::{Report, ReportAttribution, ReportCounters, Series, Table};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = concat!(
    include_str!("html/script.js"),
    include_str!("html/cells.js"),
    include_str!("html/inside.js")
);

/// Content security policy: the page may run its own script, and may not use the network.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:";

/// Returns the style sheet of all pages.
pub fn style() -> &'static str {
    STYLE
}

/// Returns the script of all pages. It shows the numbers of charts, and pictures of the inside of drives.
pub fn script() -> &'static str {
    SCRIPT
}

/// Returns the report as a page.
pub fn render(report: &Report) -> String {
    let title = format!("{} on {}", report.experiment, report.target.name);
    let body = html! { (header(report)) main { (contents_of(report, false)) } };
    page(&title, body, report, &report.experiment)
}

/// Returns the report's findings, charts and tables, for the `main` element of another page.
pub fn contents(report: &Report) -> Markup {
    contents_of(report, true)
}

/// Draws a report. `is_alone` is true if the surrounding page does not embed the report's JSON.
fn contents_of(report: &Report, is_alone: bool) -> Markup {
    let mut sections: Vec<Section> =
        report.tables.iter().map(|table| table_section(table, &report.series)).collect();
    sections.extend(curves::sections(&report.series));
    sections.extend(latency::section(&report.histograms));
    sections.extend(inside::sections(&report.recordings, is_alone));
    sections.push(conditions(report));
    html! {
        (parts::findings(&report.findings))
        (caveats(&report.target.caveats))
        (contents::draw(&sections))
    }
}

/// Returns a comparison as a page.
pub fn render_compare(comparison: &Comparison) -> String {
    let title = format!("{}: {} runs", comparison.experiment, comparison.runs.len());
    let body = html! {
        header {
            p.kicker { "ssdlab comparison" }
            h1 { (comparison.experiment) }
            p.meta { (comparison.runs.len()) " runs side by side" }
        }
        main { (compared(comparison)) }
    };
    page(&title, body, comparison, &comparison.experiment)
}

/// Returns the comparison's findings, charts and tables, for the `main` element of another page.
pub fn compared(comparison: &Comparison) -> Markup {
    let labels: Vec<&str> = comparison.runs.iter().map(|run| &*run.label).collect();
    let of_table = |(index, table): (usize, &Table)| match comparison.slowdown_bars() {
        Some(bars) if index == 0 => Section {
            title: format::heading(&table.name, ""),
            body: html! { (bars::draw(&bars)) (parts::table(table)) },
        },
        _ => section_with(table, &TableChart::of_runs(table, &labels)),
    };
    let mut sections: Vec<Section> = comparison.tables.iter().enumerate().map(of_table).collect();
    sections.extend(curves::compared(&comparison.series, &labels));
    let runs = parts::table(&runs_table(comparison));
    sections.push(Section { title: "The runs".to_owned(), body: runs });
    html! {
        (parts::findings(&comparison.findings))
        (contents::draw(&sections))
    }
}

/// Draws series, each family below a heading.
pub fn curves(series: &[Series]) -> Markup {
    html! {
        @for section in curves::sections(series) {
            section { h2 { (section.title) } (section.body) }
        }
    }
}

/// Draws a table with units in its head, below a heading with its name.
pub fn table(table: &Table) -> Markup {
    parts::table(table)
}

fn runs_table(comparison: &Comparison) -> Table {
    use crate::report::{Cell, Column};
    let names = ["run", "target", "kind", "started", "seed", "shortened", "first finding"];
    let rows = comparison.runs.iter().map(|run| {
        vec![
            Cell::from(run.label.as_str()),
            Cell::from(run.target.as_str()),
            Cell::from(run.kind.words()),
            Cell::from(moment(&run.started)),
            // A seed is an identifier, not an amount, so its digits are not grouped.
            Cell::from(run.seed.to_string()),
            Cell::from(run.shortened),
            Cell::from(run.headline.clone()),
        ]
    });
    Table {
        name: "runs".to_owned(),
        rows: rows.collect(),
        columns: names.iter().map(|name| Column::new(*name, "")).collect(),
    }
}

fn page(title: &str, body: Markup, data: &impl Serialize, file_name: &str) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="generator" content={ "ssdlab " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                footer {
                    p {
                        "Made by ssdlab " (env!("CARGO_PKG_VERSION"))
                        ". This page holds its own data and loads nothing."
                    }
                    button #save type="button" data-name=(file_name) hidden { "Save the data as JSON" }
                }
                script #data type="application/json" { (PreEscaped(embedded(data))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let mut text = markup.into_string();
    text.push('\n');
    text
}

/// Returns JSON that is safe inside a script element, whatever its strings contain.
fn embedded(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).expect("its keys are strings and it has no maps");
    // These characters occur in strings only, where the escape is equivalent.
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Draws the report's header: the drive, the start of the run, and whether the protocol was complete.
pub fn header(report: &Report) -> Markup {
    let target = &report.target;
    html! {
        header {
            p.kicker { "ssdlab report \u{b7} " (report.experiment) }
            h1 { (target.name) }
            p.meta {
                span { (format::heading(target.kind.words(), "")) }
                @if let Some(capacity) = format::capacity(target) { span { (capacity) } }
                span { (target.engine) }
                span { time datetime=(report.started) { (moment(&report.started)) } }
            }
            @if report.shortened {
                p.badge { b { "Shortened." } " These figures are not comparable with published ones." }
            }
            @if report.interrupted {
                p.badge { b { "Interrupted." } " These are the results until then." }
            }
        }
    }
}

/// Formats an RFC 3339 time to the minute; returns any other text unchanged.
fn moment(started: &str) -> String {
    started.parse::<jiff::Timestamp>().map_or_else(
        |_| started.to_owned(),
        |instant| instant.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

fn caveats(caveats: &[String]) -> Markup {
    html! {
        @if !caveats.is_empty() {
            section.caveats aria-label="Caveats" {
                h3 { "Caveats" }
                ul { @for caveat in caveats { li { (caveat) } } }
            }
        }
    }
}

/// Maximum number of measurements of a table that are drawn.
const GRIDS_MAX: usize = 2;

fn table_section(table: &Table, series: &[Series]) -> Section {
    let grids = Grid::all(table);
    if grids.is_empty() {
        // A measurement that has a curve over its true scale below is not drawn twice.
        let has_curve = |chart: &TableChart| match &chart.measures[..] {
            [only] => series.iter().any(|curve| format::label(&curve.name, "") == only.name),
            _ => false,
        };
        let mut charts = TableChart::all(table);
        charts.retain(|chart| !has_curve(chart));
        return section_with(table, &charts);
    }
    let body = html! {
        @for grid in grids.iter().take(GRIDS_MAX) { (curves::grid(grid)) }
        (parts::table(table))
    };
    Section { title: format::heading(&table.name, ""), body }
}

fn section_with(table: &Table, charts: &[TableChart]) -> Section {
    let body = html! {
        @for chart in charts {
            @if chart.is_ordered {
                (curves::steps(chart))
            } @else if chart.measures.len() > 1 {
                (bars::grouped(chart))
            } @else {
                (bars::draw(&Bars::of(chart)))
            }
        }
        (parts::table(table))
    };
    Section { title: format::heading(&table.name, ""), body }
}

/// Returns the section about the conditions of the run: parameters, drive, counters, cost.
fn conditions(report: &Report) -> Section {
    let parameters = report.parameters.iter().map(|parameter| {
        let mark = if parameter.changed { " (changed)" } else { "" };
        let value = if parameter.value.is_empty() { "–" } else { &parameter.value };
        (parameter.name.as_str(), format!("{value}{mark}"))
    });
    let seed = std::iter::once(("seed", report.seed.to_string()));
    let facts = report.target.facts.iter().map(|fact| (fact.name.as_str(), fact.value.clone()));
    let body = html! {
        div.columns {
            (parts::facts("Parameters", parameters.chain(seed)))
            (parts::facts("Drive", facts))
            @if let Some(counters) = &report.counters {
                (parts::facts("Inside the drive", counter_facts(counters)))
            }
            @for (kind, shares) in report.attribution.iter().flat_map(ReportAttribution::shares) {
                (parts::facts(&format!("Time of {kind}"), share_facts(&shares)))
            }
            (parts::facts("Cost", cost_facts(report)))
        }
    };
    Section { title: "How it was measured".to_owned(), body }
}

fn share_facts<'a>(shares: &[(&'a str, f64)]) -> Vec<(&'a str, String)> {
    shares.iter().map(|(name, share)| (*name, format!("{:.1} %", share * 100.0))).collect()
}

fn counter_facts(counters: &ReportCounters) -> Vec<(&'static str, String)> {
    let count = format::count;
    let amplification =
        counters.write_amplification.map(|ratio| ("write amplification", format::fixed(ratio, 3)));
    let of_data = counters.data_write_amplification.filter(|_| counters.metadata_writes > 0);
    let of_data = of_data.map(|it| ("of data alone", format::fixed(it, 3)));
    let metadata = Some(("of these, metadata", count(counters.metadata_writes)))
        .filter(|_| counters.metadata_writes > 0);
    let mut facts: Vec<(&str, String)> = amplification.into_iter().chain(of_data).collect();
    facts.extend([
        ("units written by the host", count(counters.host_writes)),
        ("units written to flash", count(counters.flash_writes)),
        ("of these, moved by garbage collection", count(counters.collection_writes)),
        ("of these, copied by extent compaction or merges", count(counters.merge_writes)),
        ("of these, padding", count(counters.padding_writes)),
    ]);
    facts.extend(metadata);
    facts.extend([
        ("units read by the host", count(counters.host_reads)),
        ("flash pages read for the host", count(counters.flash_page_reads)),
        ("flash pages read by garbage collection", count(counters.collection_page_reads)),
        ("flash pages read for read-modify-write", count(counters.merge_page_reads)),
        ("pages of the map read", count(counters.map_page_reads)),
        ("units trimmed", count(counters.trims)),
        ("flushes", count(counters.flushes)),
        ("erases", count(counters.erases)),
        (
            "erases per block",
            format!(
                "{} to {}, mean {}",
                counters.erases_min,
                counters.erases_max,
                format::significant(counters.erases_mean)
            ),
        ),
    ]);
    facts
}

fn cost_facts(report: &Report) -> Vec<(&'static str, String)> {
    let (cost, host) = (&report.cost, &report.host);
    let simulated = cost.simulated_seconds.map(|seconds| ("simulated time", format::span(seconds)));
    let mut facts: Vec<(&str, String)> = simulated.into_iter().collect();
    facts.extend([
        ("wall clock", format::span(cost.wall_seconds)),
        ("processor time", format::span(cost.cpu_seconds)),
    ]);
    // A sweep does not count its requests.
    if cost.requests > 0 {
        facts.extend([
            ("requests", format::count(cost.requests)),
            ("units moved", format::count(cost.units)),
        ]);
    }
    facts.extend([
        ("peak memory", format::bytes(cost.peak_rss_bytes as f64)),
        (
            "machine",
            format!("{}, {}, {} processors", host.system, host.architecture, host.processors),
        ),
        ("ssdlab", host.ssdlab.clone()),
    ]);
    facts
}
