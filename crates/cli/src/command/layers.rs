//! `layers`: shows the storage layers between a file system and its drives.

use std::path::Path;

use serde::Serialize;
use ssdlab_host::{Captured, Facts, Live, Stack, layers};

use crate::cli::LayersArguments;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// JSON output of `layers`.
#[derive(Serialize)]
struct Layers {
    schema: &'static str,
    stacks: Vec<Stack>,
}

/// Shows the layers of a target, or of all file systems.
pub fn layers(arguments: &LayersArguments, terminal: &Terminal) -> Result<(), Failure> {
    let facts = machine(arguments.from.as_deref())?;
    let stacks = match &arguments.target {
        Some(target) => vec![layers::stack_of(&*facts, target)?],
        None => layers::all_stacks(&*facts),
    };
    if arguments.json {
        return terminal.print(&super::json(&Layers { schema: "ssdlab.layers/1", stacks }));
    }
    if stacks.is_empty() {
        terminal.note("No file system on a visible block device was found.");
    }
    let ascii = arguments.ascii || terminal.ascii;
    let trees: Vec<String> = stacks.iter().map(|stack| stack.to_text(ascii)).collect();
    terminal.print(&trees.join("\n"))
}

/// Returns the facts of this machine, or of a captured one.
pub fn machine(from: Option<&Path>) -> Result<Box<dyn Facts>, Failure> {
    Ok(match from {
        Some(path) => Box::new(Captured::open(path)?),
        None => Box::new(Live),
    })
}
