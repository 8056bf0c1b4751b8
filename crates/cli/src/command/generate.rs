//! Generators of completions and manual pages, from the definition of the command line.

use std::fs;
use std::path::Path;

use clap_complete::Shell;

use crate::cli;
use crate::completion;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Prints the script with which a shell asks the program for completions.
pub fn completions(shell: Shell, terminal: &Terminal) -> Result<(), Failure> {
    let script = completion::script(&shell.to_string());
    terminal.print(&script.expect("every shell that can be named has one"))
}

/// Prints the manual page of the program.
pub fn man_page(terminal: &Terminal) -> Result<(), Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(cli::command())
        .render(&mut page)
        .expect("writing to memory does not fail");
    terminal.print(&String::from_utf8_lossy(&page))
}

/// Writes the manual pages of the program and of each subcommand.
pub fn man_pages(directory: &Path, terminal: &Terminal) -> Result<(), Failure> {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(cli::command(), directory))
        .map_err(|source| {
            let what = format!("cannot write manual pages to {}", directory.display());
            Failure::system(Exit::Failed, what, source)
        })?;
    terminal
        .note(&format!("Wrote the manual pages to {0}: man -l {0}/ssdlab.1", directory.display()));
    Ok(())
}
