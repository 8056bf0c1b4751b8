//! Command line program: turns arguments into library calls, reports into text, and errors into exit codes.
//!
//! [`cli`] defines the command line, from which help, man pages and completions are generated. Each subcommand turns
//! its arguments into calls of `ssdlab_lab`; the libraries do not depend on clap.

mod cli;
mod command;
mod completion;
mod device;
mod estimate;
mod failure;
mod interrupt;
mod memory;
mod output_file;
mod progress;
mod renamed;
mod run_store;
mod table;
mod table_files;
mod terminal;

use std::process::ExitCode;

use clap::FromArgMatches;
use ssdlab_drive::memory::HugePageAllocator;

use crate::cli::Cli;
use crate::terminal::Terminal;

// The maps of a simulated drive are large and accessed at random.
#[global_allocator]
static ALLOCATOR: HugePageAllocator = HugePageAllocator;

fn main() -> ExitCode {
    if ssdlab_lab::experiment::discard::run_guard_if_requested() {
        return ExitCode::SUCCESS;
    }
    completion::complete_if_asked();
    let (arguments, notices) = renamed::respell(std::env::args_os());
    let matches = cli::command().get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let terminal = Terminal::new(&cli.common);
    for notice in notices {
        terminal.note(&notice);
    }
    let exit = command::execute(&cli.command, &terminal).unwrap_or_else(|failure| {
        terminal.error(&failure);
        failure.exit()
    });
    exit.into()
}
