//! `compare`: compares several runs of one experiment.

use std::fs;
use std::io::Read;
use std::path::Path;

use ssdlab_lab::compare::Comparison;
use ssdlab_lab::output::{html, json, text};
use ssdlab_lab::report::Report;
use ssdlab_lab::store::Store;

use crate::cli::CompareArguments;
use crate::failure::{Exit, Failure};
use crate::output_file::OutputFile;
use crate::run_store;
use crate::terminal::Terminal;

/// Compares runs from the store and from files.
pub fn compare(arguments: &CompareArguments, terminal: &Terminal) -> Result<(), Failure> {
    let mut store = None;
    let mut reports = Vec::new();
    for name in &arguments.runs {
        let report = if is_file(name) {
            from_file(name)?
        } else {
            // The store is opened for the first run that needs it: comparing files needs no store.
            if store.is_none() {
                let path = run_store::path(arguments.store.store.as_deref())?;
                store = Some(Store::open_read_only(path)?);
            }
            let store = store.as_ref().expect("it was opened just now");
            store.get(store.resolve(name)?)?
        };
        reports.push((report.target.name.clone(), report));
    }
    let comparison = Comparison::new(reports)?;
    if arguments.form.json {
        return terminal.print(&json::comparison_to_json(&comparison));
    }
    match &arguments.form.html {
        Some(path) => {
            OutputFile::html(path)?.write(&html::render_compare(&comparison))?;
            terminal.note(&format!("Wrote {}", path.display()));
            Ok(())
        }
        None => terminal.print(&text::render_compare_with(&comparison, &terminal.text_options())),
    }
}

/// Largest size of a report, in bytes.
const MAX_REPORT_SIZE: u64 = 256 << 20;

fn is_file(name: &str) -> bool {
    name.ends_with(".json") || Path::new(name).exists()
}

fn from_file(name: &str) -> Result<Report, Failure> {
    let mut bytes = Vec::new();
    let read =
        fs::File::open(name).and_then(|it| it.take(MAX_REPORT_SIZE + 1).read_to_end(&mut bytes));
    read.map_err(|source| {
        Failure::system(Exit::Usage, format!("cannot read the report {name}"), source)
    })?;
    if bytes.len() as u64 > MAX_REPORT_SIZE {
        return Err(Failure::usage(format!("{name} is no report: it is longer than 256 MiB")));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!(
            "{name} is no report: it is not UTF-8. A shell may have made UTF-16 of it, as \
             PowerShell's > does; --json | Out-File -Encoding utf8 avoids that"
        ))
    })?;
    // Programs on Windows often begin UTF-8 files with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    json::from_json(text, name).map_err(|error| Failure::new(Exit::Usage, error))
}
