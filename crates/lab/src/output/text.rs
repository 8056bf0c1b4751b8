//! A report as text for a terminal: the findings first, then the figures, then the conditions of the run.

mod bars;
mod paint;
mod plot;
mod table;

pub use paint::Options;

use paint::{Ink, plain, wrap};

use super::chart::{Bars, Grid, TableChart};
use super::{format, recording_table};
use crate::compare::Comparison;
use crate::report::{
    Cell, Finding, Level, Report, ReportAttribution, ReportCounters, ReportHealth, Table,
};

/// Maximum number of rows shown; all are in the JSON.
const ROWS_MAX: usize = 300;

/// Maximum number of recordings shown; all are in the HTML page.
const RECORDINGS_MAX: usize = 3;

/// Returns the report for a terminal of `width` columns.
pub fn render(report: &Report, width: usize, color: bool) -> String {
    render_with(report, &Options::new(width, color))
}

/// Returns the report in the layout of `options`.
pub fn render_with(report: &Report, options: &Options) -> String {
    let mut page = Page::new(options);
    page.title(report);
    page.findings(&report.findings);
    page.caveats(&report.target.caveats);
    for (index, table) in report.tables.iter().enumerate() {
        let grids = Grid::all(table);
        page.grids_or_table(&grids, table);
        // Only the first table gets a chart: a second one would scroll the findings off the screen.
        if index == 0 {
            page.picture(&grids, table, report);
        }
    }
    for table in report.recordings.iter().take(RECORDINGS_MAX).filter_map(recording_table::table) {
        page.table(&table);
    }
    if report.recordings.len() > RECORDINGS_MAX {
        let more = report.recordings.len() - RECORDINGS_MAX;
        let were = if more == 1 { "drive was" } else { "drives were" };
        page.faint("", &format!("{more} more {were} recorded; the page shows them (--html)."));
    }
    if let Some(counters) = &report.counters {
        page.inside(counters, report.health.as_ref(), report.attribution.as_ref());
    }
    page.blank();
    page.cost(report);
    page.also_measured(report);
    page.text
}

/// Returns a comparison for a terminal of `width` columns.
pub fn render_compare(comparison: &Comparison, width: usize, color: bool) -> String {
    render_compare_with(comparison, &Options::new(width, color))
}

/// Returns a comparison in the layout of `options`.
pub fn render_compare_with(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    let name = plain(&comparison.experiment);
    let title = options
        .paint(Ink::Heading, &format!("{name}: {} runs side by side", comparison.runs.len()));
    page.line(&title);
    page.findings(&comparison.findings);
    // One chart with the same curve of all runs.
    if let Some(plot) = plot::Plot::of_compared(&comparison.series) {
        page.blank();
        for line in plot::lines(&plot, options) {
            page.line(&line);
        }
    }
    for (index, table) in comparison.tables.iter().enumerate() {
        if table.name == LATENCIES {
            page.table(&highest_percentiles(table));
        } else {
            page.table(table);
        }
        if index == 0 {
            // Interleaved bars of several runs would be harder to read than the table.
            if let Some(bars) = comparison.slowdown_bars() {
                page.bars(&bars);
            }
        }
    }
    if let Some(more) = &options.more {
        page.blank();
        page.faint("", more);
    }
    page.text
}

/// Name of the comparison's table with every percentile of every histogram.
const LATENCIES: &str = "latencies";

/// Returns one row for each histogram: p99, or the highest percentile below it if there are too few requests
/// for p99. The page and the JSON have all percentiles.
fn highest_percentiles(table: &Table) -> Table {
    let percent = |row: &[Cell]| match row.get(1) {
        Some(Cell::Text(text)) => text.strip_prefix('p').and_then(|it| it.parse::<f64>().ok()),
        _ => None,
    };
    let mut short = table.clone();
    short.rows.clear();
    for row in table.rows.iter().filter(|row| percent(row).is_some_and(|it| it <= 99.0)) {
        // The percentiles of a histogram rise.
        match short.rows.last_mut() {
            Some(last) if last.first() == row.first() => last.clone_from(row),
            _ => short.rows.push(row.clone()),
        }
    }
    short
}

/// Maximum number of measurements in a table that is shown as grids.
const GRIDS_MAX: usize = 2;

struct Page<'a> {
    options: &'a Options,
    text: String,
}

impl Page<'_> {
    fn new(options: &Options) -> Page<'_> {
        Page { options, text: String::new() }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn blank(&mut self) {
        self.text.push('\n');
    }

    fn heading(&mut self, words: &str) {
        self.blank();
        let heading = self.options.paint(Ink::Heading, words);
        self.line(&heading);
    }

    /// Adds wrapped text of secondary importance.
    fn faint(&mut self, first: &str, words: &str) {
        for line in wrap(first, &plain(words), self.options.prose_width()) {
            let line = self.options.paint(Ink::Faint, &line);
            self.line(&line);
        }
    }

    fn title(&mut self, report: &Report) {
        let target = &report.target;
        let name = format!("{} on {}", plain(&report.experiment), plain(&target.name));
        let mut what = vec![target.kind.words().to_owned()];
        what.extend(format::capacity(target));
        what.push(plain(&target.engine));
        let what = what.join(", ");
        let title = self.options.paint(Ink::Heading, &name);
        if name.chars().count() + what.chars().count() + 3 <= self.options.width {
            self.line(&format!("{title} ({what})"));
        } else {
            self.line(&title);
            self.faint("", &what);
        }
        self.parameters(report);
        for sentence in limitations(report) {
            let lines = wrap("", sentence, self.options.prose_width());
            for line in lines {
                let line = self.options.paint(Ink::Notice, &line);
                self.line(&line);
            }
        }
    }

    fn parameters(&mut self, report: &Report) {
        let is_changed = report.parameters.iter().any(|parameter| parameter.changed);
        let mut words: Vec<String> = report
            .parameters
            .iter()
            .map(|parameter| {
                let mark = if parameter.changed { "*" } else { "" };
                format!("{}={}{mark}", parameter.name, parameter.value)
            })
            .collect();
        words.push(format!("seed={}", report.seed));
        if is_changed {
            words.push("(* differs from the full protocol)".to_owned());
        }
        self.faint("", &words.join("  "));
    }

    fn findings(&mut self, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        self.blank();
        for finding in findings {
            let word = format!("{:<9}", level_word(finding.level));
            let lines = wrap(&word, &plain(&finding.text), self.options.prose_width());
            for (index, line) in lines.iter().enumerate() {
                match line.strip_prefix(&word).filter(|_| index == 0) {
                    Some(rest) => {
                        let word = self.options.paint(level_ink(finding.level), &word);
                        self.line(&format!("{word}{rest}"));
                    }
                    None => self.line(line),
                }
            }
        }
    }

    fn caveats(&mut self, caveats: &[String]) {
        for caveat in caveats {
            let lines = wrap("caveat   ", &plain(caveat), self.options.prose_width());
            for line in lines {
                let line = self.options.paint(Ink::Faint, &line);
                self.line(&line);
            }
        }
    }

    fn table(&mut self, table: &Table) {
        self.heading(&format::heading(&plain(&table.name), ""));
        if table.rows.is_empty() {
            self.faint(" ", "nothing was measured");
            return;
        }
        let hidden = table.rows.len().saturating_sub(ROWS_MAX);
        let lines = if hidden == 0 {
            table::lines(table, self.options)
        } else {
            let mut head = table.clone();
            head.rows.truncate(ROWS_MAX);
            table::lines(&head, self.options)
        };
        for line in lines {
            self.line(&line);
        }
        if hidden > 0 {
            self.faint(" ", &format!("... and {hidden} more rows, in the JSON"));
        }
    }

    /// Adds a table. If its rows are steps within groups and it has few measurements, it gets a column for
    /// each group, which is easier to read.
    fn grids_or_table(&mut self, grids: &[Grid], table: &Table) {
        if (1..=GRIDS_MAX).contains(&grids.len()) {
            for grid in grids {
                self.table(&grid.table());
            }
        } else {
            self.table(table);
        }
    }

    /// Adds the most useful chart: of the table, or over time.
    fn picture(&mut self, grids: &[Grid], table: &Table, report: &Report) {
        let chart = TableChart::of(table);
        let plot = match (grids.first(), &chart) {
            (Some(grid), _) => Some(plot::Plot::of_grid(grid)),
            (None, Some(chart)) if !chart.slowdown.is_empty() || chart.has_many_steps() => None,
            _ => plot::Plot::of_series(&report.series),
        };
        if let Some(plot) = plot {
            self.blank();
            for line in plot::lines(&plot, self.options) {
                self.line(&line);
            }
        } else if let Some(chart) = chart {
            self.bars(&Bars::of(&chart));
        }
    }

    fn bars(&mut self, bars: &Bars) {
        self.blank();
        for line in bars::lines(bars, self.options) {
            self.line(&line);
        }
    }

    fn inside(
        &mut self,
        counters: &ReportCounters,
        health: Option<&ReportHealth>,
        attribution: Option<&ReportAttribution>,
    ) {
        self.heading("Inside the drive");
        let width = self.options.prose_width();
        let mut sentences = counter_sentences(counters);
        sentences.extend(health.and_then(health_sentence));
        sentences.extend(attribution.map(time_sentences).unwrap_or_default());
        let lines = sentences.into_iter().flat_map(|sentence| wrap(" ", &sentence, width));
        for line in lines {
            self.line(&line);
        }
    }

    fn cost(&mut self, report: &Report) {
        let cost = &report.cost;
        let took = match cost.simulated_seconds {
            Some(simulated) => format!(
                "{} of the drive's time simulated in {}",
                format::span(simulated),
                format::span(cost.wall_seconds)
            ),
            None => format!("Took {}", format::span(cost.wall_seconds)),
        };
        // Imported results do not record their memory.
        let memory = match cost.peak_rss_bytes {
            0 => String::new(),
            bytes => format!(", {} of memory", format::bytes(bytes as f64)),
        };
        // A sweep does not count its requests.
        let requests = match cost.requests {
            0 => String::new(),
            count => format!("{} requests, ", format::count(count)),
        };
        let words = format!(
            "{took}: {requests}{} of processor time{memory}.",
            format::span(cost.cpu_seconds),
        );
        self.faint("", &words);
    }

    fn also_measured(&mut self, report: &Report) {
        let also_measured = match &self.options.more {
            Some(more) => more.clone(),
            None => {
                let parts = [
                    (report.series.len(), "curve", "curves"),
                    (report.histograms.len(), "latency histogram", "latency histograms"),
                ];
                let parts: Vec<String> = parts
                    .iter()
                    .filter(|(count, ..)| *count > 0)
                    .map(|(count, one, many)| {
                        format!("{count} {}", if *count == 1 { one } else { many })
                    })
                    .collect();
                if parts.is_empty() {
                    return;
                }
                format!("Also measured: {}.", parts.join(" and "))
            }
        };
        self.faint("", &also_measured);
    }
}

/// Returns the reasons why the figures are not those of the full protocol.
fn limitations(report: &Report) -> Vec<&'static str> {
    let mut limitations = Vec::new();
    if report.shortened {
        limitations.push("Shortened: these figures are not comparable with published ones.");
    }
    if report.interrupted {
        limitations.push("Interrupted: the results until then are below.");
    }
    limitations
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Notice => "notice",
        Level::Warning => "WARNING",
        Level::Problem => "PROBLEM",
    }
}

fn level_ink(level: Level) -> Ink {
    match level {
        Level::Info => Ink::Info,
        Level::Notice => Ink::Notice,
        Level::Warning => Ink::Warning,
        Level::Problem => Ink::Problem,
    }
}

/// Returns a sentence about the wear of the drive; `None` if its profile has no wear.
fn health_sentence(health: &ReportHealth) -> Option<String> {
    let used = health.percentage_used.map(|used| format!("{used} % of the rated cycles are used"));
    let spare = health.available_spare.map(|spare| {
        let end = if health.num_err_log_entries > 0 { ", and the drive is read-only" } else { "" };
        format!("{spare} % of the spare blocks are left{end}")
    });
    let left = health
        .remaining_life_bytes
        .map(|left| format!("{} can still be written at this rate", format::bytes(left as f64)));
    let known: Vec<String> = used.into_iter().chain(spare).chain(left).collect();
    (!known.is_empty()).then(|| format!("Wear: {}.", known.join("; ")))
}

/// Returns a sentence for each kind of request about where its time went.
fn time_sentences(attribution: &ReportAttribution) -> Vec<String> {
    let sentence = |(kind, shares): (&str, Vec<(&str, f64)>)| {
        let shares: Vec<String> =
            shares.iter().map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
        format!("Time of {kind}: {}.", shares.join(", "))
    };
    attribution.shares().into_iter().map(sentence).collect()
}

fn counter_sentences(counters: &ReportCounters) -> Vec<String> {
    let count = format::count;
    let amplification = counters.write_amplification.map_or_else(String::new, |ratio| {
        let in_bytes = match counters.part_writes {
            0 => String::new(),
            parts => {
                let bytes =
                    counters.flash_written_bytes as f64 / counters.host_written_bytes as f64;
                let bytes = format::fixed(bytes, 2);
                format!(", in bytes {bytes} (units written in part: {})", count(parts))
            }
        };
        let of_data = counters.data_write_amplification.filter(|_| counters.metadata_writes > 0);
        let of_data = of_data
            .map_or_else(String::new, |it| format!(", of data alone {}", format::fixed(it, 2)));
        format!(": write amplification {}{of_data}{in_bytes}", format::fixed(ratio, 2))
    });
    let metadata = match counters.metadata_writes {
        0 => String::new(),
        units => format!(", {} metadata", count(units)),
    };
    let merged = match counters.merge_writes {
        0 => String::new(),
        units => format!(", {} copied by extent compaction or merges", count(units)),
    };
    let read_for = |pages: u64, why: &str| match pages {
        0 => String::new(),
        pages => format!(", {} {why}", count(pages)),
    };
    let merging = read_for(counters.merge_page_reads, "for read-modify-write");
    let of_map = read_for(counters.map_page_reads, "of the map");
    // Units that the host overwrote in the buffer, or that are not programmed yet.
    let all = counters.host_writes
        + counters.collection_writes
        + counters.merge_writes
        + counters.padding_writes
        + counters.metadata_writes;
    let buffered = match all.saturating_sub(counters.flash_writes) {
        0 => String::new(),
        units => format!("; {} overwritten in the write buffer or still in it", count(units)),
    };
    vec![
        format!(
            "The host wrote {} units, the flash {} ({} moved by garbage collection{merged}, {} \
             padding{metadata}{buffered}){amplification}.",
            count(counters.host_writes),
            count(counters.flash_writes),
            count(counters.collection_writes),
            count(counters.padding_writes),
        ),
        format!(
            "{} flash pages read for the host, {} by garbage collection{merging}{of_map}; {} \
             erases, {} to {} per block.",
            count(counters.flash_page_reads),
            count(counters.collection_page_reads),
            count(counters.erases),
            counters.erases_min,
            counters.erases_max,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_histogram_the_highest_percentile_up_to_p99_is_shown() {
        let rows = [("a", "p50"), ("a", "p99"), ("a", "p99.9"), ("b", "p50"), ("b", "p90")];
        let table = Table {
            name: LATENCIES.to_owned(),
            columns: Vec::new(),
            rows: rows.map(|(of, percent)| vec![Cell::from(of), Cell::from(percent)]).into(),
        };
        let shown = [("a", "p99"), ("b", "p90")];
        let shown = shown.map(|(of, percent)| vec![Cell::from(of), Cell::from(percent)]);
        assert_eq!(highest_percentiles(&table).rows, shown);
    }
}
