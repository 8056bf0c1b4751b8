//! `show`: shows the report of an earlier run.

use ssdlab_lab::output::{html, text};
use ssdlab_lab::store::Store;

use crate::cli::ShowArguments;
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::run_store;
use crate::table_files::TableFiles;
use crate::terminal::Terminal;

/// Shows a run that was kept.
pub fn show(arguments: &ShowArguments, terminal: &Terminal) -> Result<(), Failure> {
    let store = Store::open_read_only(run_store::path(arguments.store.store.as_deref())?)?;
    let id = store.resolve(&arguments.run)?;
    TableFiles::reserve(&arguments.files)?.write(&store.get(id)?, terminal)?;
    if arguments.form.json {
        // Print the stored bytes unchanged: a later version may have written fields that this one does not know.
        return terminal.print(&store.get_json(id)?);
    }
    let report = store.get(id)?;
    match &arguments.form.html {
        Some(path) => {
            OutputFile::html(path)?.write(&html::render(&report))?;
            terminal.note(&format!("Wrote {}", path.display()));
            Ok(())
        }
        None => terminal.print(&text::render_with(&report, &terminal.text_options())),
    }
}
