//! `import`: makes a report of fio's results, which is kept, shown and compared like any other.

use std::path::Path;

use ssdlab_interchange::fio::json::{self as fio, FioRun};
use ssdlab_lab::LabError;
use ssdlab_lab::output::{html, json, text};
use ssdlab_lab::{import, script_export};

use crate::cli::ImportArguments;
use crate::failure::{Exit, Failure};
use crate::output_file::OutputFile;
use crate::run_store;
use crate::table_files::TableFiles;
use crate::terminal::Terminal;

/// Imports results of fio.
pub fn import(arguments: &ImportArguments, terminal: &Terminal) -> Result<(), Failure> {
    let runs = arguments.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> =
        arguments.files.iter().map(|path| path.display().to_string()).collect();
    let origin = match names.as_slice() {
        [first, .., last] => format!("{first} .. {last}"),
        _ => names.concat(),
    };
    let mut report = import::report(&runs, &origin);
    if let Some(tag) = script_export::tag_of(&runs) {
        report = script_export::report_from_results(&tag, &runs, report)?;
    }
    let kept = match arguments.no_store {
        true => None,
        false => {
            run_store::save(&run_store::path(arguments.store.store.as_deref())?, &report, terminal)
        }
    };
    if let Some(path) = &arguments.form.html {
        OutputFile::html(path)?.write(&html::render(&report))?;
        terminal.note(&format!("Wrote {}", path.display()));
    } else if arguments.form.json {
        terminal.print(&json::to_json(&report))?;
    } else {
        terminal.print(&text::render_with(&report, &terminal.text_options()))?;
    }
    TableFiles::reserve(&arguments.written)?.write(&report, terminal)?;
    if let Some(id) = kept {
        terminal.note(&format!("Kept as run {id}."));
    }
    Ok(())
}

fn read(path: &Path) -> Result<FioRun, Failure> {
    let bytes = std::fs::read(path).map_err(|source| {
        let what = format!("cannot read {}", path.display());
        Failure::system(Exit::Usage, what, source)
    })?;
    // fio copies file names unchanged, in any encoding.
    let text = String::from_utf8_lossy(&bytes);
    let wrong = |source| LabError::Input { path: path.to_owned(), source };
    Ok(fio::parse(&text).map_err(wrong)?)
}
