//! Figures of a report as files for other programs: CSV and HdrHistogram logs.

use std::fs;
use std::path::{Path, PathBuf};

use ssdlab_lab::output::{csv, hdr};
use ssdlab_lab::report::Report;

use crate::cli::Files;
use crate::failure::{Exit, Failure};
use crate::output_file::{CreatedDirectories, OutputFile, refuse_foreign_file};
use crate::terminal::Terminal;

/// Output files, reserved before there is anything to write.
#[derive(Debug)]
pub struct TableFiles<'a> {
    csv: Option<CsvDirectory<'a>>,
    hdr: Option<(&'a Path, OutputFile)>,
}

impl<'a> TableFiles<'a> {
    /// Reserves the files that were asked for.
    pub fn reserve(files: &'a Files) -> Result<TableFiles<'a>, Failure> {
        let hdr = |path: &'a PathBuf| -> Result<(&'a Path, OutputFile), Failure> {
            Ok((path, OutputFile::latencies(path)?))
        };
        Ok(TableFiles {
            csv: files.csv.as_deref().map(CsvDirectory::reserve).transpose()?,
            hdr: files.hdr.as_ref().map(hdr).transpose()?,
        })
    }

    /// Writes the files. An error with one of them does not affect the other.
    pub fn write(self, report: &Report, terminal: &Terminal) -> Result<(), Failure> {
        let csv = self.csv.map_or(Ok(()), |directory| {
            directory.write(report)?;
            let shown = directory.path.display();
            terminal.note(&format!("Wrote tables, curves and histograms to {shown}"));
            Ok(())
        });
        let hdr = self.hdr.map_or(Ok(()), |(path, page)| {
            if report.histograms.is_empty() {
                let message = format!(
                    "--hdr {}: nothing is written, since this run has no histogram of latencies",
                    path.display()
                );
                let way_out =
                    "fragmentation, latency, load-latency, barrier, job and replay have some";
                terminal.warn(&[message], way_out);
                return Ok(());
            }
            let log = hdr::log(report).map_err(|why| {
                Failure::new(Exit::Failed, anyhow::anyhow!("--hdr {}: {why}", path.display()))
            })?;
            page.write(&log)?;
            terminal.note(&format!("Wrote {}", path.display()));
            Ok(())
        });
        match (csv, hdr) {
            (Err(failure), Err(other)) => {
                terminal.error(&failure);
                Err(other)
            }
            (csv, hdr) => csv.and(hdr),
        }
    }
}

/// Directory for CSV files; a new directory is removed again if nothing is written to it.
#[derive(Debug)]
struct CsvDirectory<'a> {
    path: &'a Path,
    _made: CreatedDirectories,
}

impl<'a> CsvDirectory<'a> {
    fn reserve(path: &'a Path) -> Result<CsvDirectory<'a>, Failure> {
        let failed = |source| {
            let what = format!("--csv {}: nothing can be written there", path.display());
            Failure::system(Exit::Usage, what, source)
        };
        // Only files of ssdlab are replaced; `columns.csv` identifies a directory of them.
        let is_ours = |head: &[u8]| head.starts_with(csv::COLUMNS.as_bytes());
        refuse_foreign_file(&path.join("columns.csv"), "--csv", "table of ssdlab", is_ours)?;
        let directory =
            CsvDirectory { path, _made: CreatedDirectories::create(path).map_err(failed)? };
        // Create a file to see if that is possible: permission bits alone do not tell.
        let trial = path.join(format!(".ssdlab-{}", std::process::id()));
        fs::File::create_new(&trial).and_then(|_| fs::remove_file(&trial)).map_err(failed)?;
        Ok(directory)
    }

    fn write(&self, report: &Report) -> Result<(), Failure> {
        let files = csv::files(report);
        if !self.path.join("columns.csv").exists()
            && let Some(other) = files.iter().find(|file| self.path.join(&file.name).exists())
        {
            let message = format!(
                "--csv {}: {} exists and was not written by ssdlab; name a new directory",
                self.path.display(),
                other.name
            );
            return Err(Failure::new(Exit::Refused, anyhow::Error::msg(message)));
        }
        for file in files {
            let path = self.path.join(&file.name);
            fs::write(&path, &file.text).map_err(|source| {
                // Remove a partly written table: it could be taken for a complete one.
                let _ = fs::remove_file(&path);
                let what = format!("--csv: cannot write {}", path.display());
                Failure::system(Exit::Failed, what, source)
            })?;
        }
        Ok(())
    }
}
