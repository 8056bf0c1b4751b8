//! `show`: shows the report of an earlier run.

use ssdlab_lab::output::{html, text};
use ssdlab_lab::store::Store;

use crate::cli::ShowArguments;
use crate::failure::Failure;
use crate::keep;
use crate::page::Page;
use crate::tabular::Places;
use crate::terminal::Terminal;

/// Shows a run that was kept.
pub fn show(arguments: &ShowArguments, terminal: &Terminal) -> Result<(), Failure> {
    let store = Store::open_read_only(keep::path(arguments.store.store.as_deref())?)?;
    let id = store.resolve(&arguments.run)?;
    Places::reserve(&arguments.files)?.write(&store.get(id)?, terminal)?;
    if arguments.form.json {
        // Print the stored bytes unchanged: a later version may have written fields that this one does not know.
        return terminal.print(&store.get_json(id)?);
    }
    let report = store.get(id)?;
    match &arguments.form.html {
        Some(path) => {
            Page::html(path)?.write(&html::render(&report))?;
            terminal.note(&format!("Wrote {}", path.display()));
            Ok(())
        }
        None => terminal.print(&text::render_with(&report, &terminal.text_options())),
    }
}
