//! A report's figures as files for other programs: CSV and HdrHistogram logs.

use std::fs;
use std::path::Path;

use ssdlab_lab::output::{csv, hdr};
use ssdlab_lab::report::Report;

use crate::cli::Files;
use crate::failure::{Exit, Failure};
use crate::page::Page;
use crate::terminal::Terminal;

/// Writes what was asked for.
pub fn write(files: &Files, report: &Report, terminal: &Terminal) -> Result<(), Failure> {
    if let Some(directory) = &files.csv {
        let failed = |path: &Path, source| {
            let what = format!("--csv: cannot write {}", path.display());
            Failure::system(Exit::Failed, what, source)
        };
        fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        for file in csv::files(report) {
            let path = directory.join(&file.name);
            fs::write(&path, &file.text).map_err(|error| {
                // Half a table would be taken for a whole one.
                let _ = fs::remove_file(&path);
                failed(&path, error)
            })?;
        }
        terminal.note(&format!("Wrote tables, curves and histograms to {}", directory.display()));
    }
    if let Some(path) = &files.hdr {
        let log = hdr::log(report).map_err(|why| {
            Failure::new(Exit::Failed, anyhow::anyhow!("--hdr {}: {why}", path.display()))
        })?;
        Page::reserve(path)?.write(&log)?;
        terminal.note(&format!("Wrote {}", path.display()));
    }
    Ok(())
}
