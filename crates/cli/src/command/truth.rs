//! `truth`: compares published measurements of real drives with simulations by their profiles.

use ssdlab_lab::output::{html, text};
use ssdlab_lab::truth::{self, Published};
use ssdlab_units::text::hint;

use crate::cli::TruthArguments;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output_file::OutputFile;
use crate::progress::Progress;
use crate::terminal::Terminal;

/// Simulates the drives that have published figures, and shows both.
pub fn truth(arguments: &TruthArguments, terminal: &Terminal) -> Result<(), Failure> {
    let drives = drives(arguments)?;
    let page = arguments.report.html.as_deref().map(OutputFile::html).transpose()?;
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for signals".to_owned(), source)
    })?;
    let mut progress = Progress::new(terminal, interrupt, None);
    let outcome = truth::compare(&drives, arguments.seed.number, &mut progress);
    progress.finish();
    let report = outcome?;
    if let Some(page) = page {
        page.write(&html::render(&report))?;
    }
    let output = if arguments.report.json {
        super::json(&report)
    } else {
        text::render_with(&report, &terminal.text_options())
    };
    terminal.print(&output)
}

/// Returns the published figures that were asked for.
fn drives(arguments: &TruthArguments) -> Result<Vec<Published>, Failure> {
    let mut drives = Published::bundled();
    if !arguments.drives.is_empty() {
        for name in &arguments.drives {
            if !drives.iter().any(|drive| drive.name() == name) {
                if name.contains('/') || name.ends_with(".toml") {
                    return Err(Failure::usage(format!(
                        "'{name}' is no drive whose figures are known; --file {name} takes a file \
                         of figures of your own"
                    )));
                }
                let there = hint(name, drives.iter().map(Published::name));
                return Err(Failure::usage(format!("no figures are known of '{name}'; {there}")));
            }
        }
        drives.retain(|drive| arguments.drives.iter().any(|name| drive.name() == name));
    } else if !arguments.file.is_empty() {
        drives.clear();
    }
    for path in &arguments.file {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| {
            Failure::system(Exit::Usage, format!("cannot read {shown}"), source)
        })?;
        drives.push(Published::parse(&shown, &text)?);
    }
    Ok(drives)
}
