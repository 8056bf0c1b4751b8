//! What can be typed. Help, man pages and completions come from these definitions, and nowhere
//! else is it said what an option is called.

mod attach;
mod drive;
mod machine;
mod mend;
mod reports;
mod run;
mod shared;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub use attach::*;
pub use drive::*;
pub use machine::*;
pub use mend::*;
pub use reports::*;
pub use run::*;
pub use shared::*;

/// The seed of runs that were not given one. A fixed one: two people who type the same get the
/// same tables.
pub const SEED_DEFAULT: u64 = 1;

const EXAMPLES: &str = "\
Examples:
  ssdlab run fragmentation
          the whole protocol on a simulated drive, in seconds
  ssdlab run fragmentation sim:toshiba-xg5 --html report.html
          on a model of a certain drive, with a page to look at
  ssdlab run fragmentation /mnt/ssd --quick
          on a real drive, with a file that is removed at the end
  ssdlab list profiles
          the simulated drives there are

Exit codes: 0 done, 1 failed, 2 wrong use or bad configuration, 3 refused so that
no data is harmed, 4 this drive or system cannot, 130 interrupted.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  ssdlab completions bash > ~/.local/share/bash-completion/completions/ssdlab
  ssdlab completions fish > ~/.config/fish/completions/ssdlab.fish";

/// Measure and explain what use does to an SSD
///
/// ssdlab puts a drive, real or simulated, through published test protocols and reports what
/// was found. A simulated drive costs neither time nor wear: begin there.
#[derive(Debug, Parser)]
#[command(
    name = "ssdlab",
    version,
    after_help = EXAMPLES,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What every subcommand takes.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What every subcommand takes.
#[derive(Args, Debug)]
pub struct Common {
    /// Say nothing on stderr but warnings and errors
    #[arg(long, global = true, display_order = 900)]
    pub quiet: bool,
    /// Whether to use colour; auto does on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        display_order = 901,
        value_enum,
        default_value_t = Color::Auto,
        value_name = "WHEN"
    )]
    pub color: Color,
}

/// Whether to use colour; with `auto` on a terminal, unless NO_COLOR is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put a drive through an experiment and report what was found
    #[command(after_help = run::RUN_EXAMPLES)]
    Run(RunArguments),
    /// Make a used simulated drive and save it
    #[command(after_help = drive::AGE_EXAMPLES)]
    Age(AgeArguments),
    /// Make the image of a new simulated drive, to attach it
    #[command(after_help = attach::CREATE_EXAMPLES)]
    Create(CreateArguments),
    /// Attach the simulated drive in an image, as a block device, a file or an NBD server
    #[command(after_help = attach::ATTACH_EXAMPLES)]
    Attach(AttachArguments),
    /// Detach a drive in order
    #[command(after_help = attach::DETACH_EXAMPLES)]
    Detach(AttachedArguments),
    /// Show the inside of a drive that is attached
    #[command(after_help = attach::STATUS_EXAMPLES)]
    Status(StatusArguments),
    /// Cut the power of a drive that is attached; or look for cuts that a drive does not survive
    #[command(args_conflicts_with_subcommands = true)]
    PowerCut {
        /// What to do instead.
        #[command(subcommand)]
        what: Option<PowerCut>,
        /// Which drive.
        #[command(flatten)]
        drive: AttachedArguments,
    },
    /// Check the image of a drive
    #[command(after_help = attach::CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Show the layers between a file system and its drives: partitions, RAID, encryption, ...
    #[command(after_help = machine::LAYERS_EXAMPLES)]
    Layers(LayersArguments),
    /// Find out what makes this machine's SSDs slow, short-lived or unsafe, and what mends it
    #[command(after_help = machine::DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Say how much spare area a workload deserves, and how to get it
    #[command(after_help = mend::ADVISE_EXAMPLES)]
    Advise(AdviseArguments),
    /// Find what of a file or a device has become slow to read, and rewrite just that
    #[command(after_help = mend::REFRESH_EXAMPLES)]
    Refresh(RefreshArguments),
    /// List the experiments, the simulated drives and stacks, or the runs that were kept
    #[command(after_help = reports::LIST_EXAMPLES)]
    List {
        /// What to list.
        #[command(subcommand)]
        what: List,
    },
    /// Show the report of an earlier run
    #[command(after_help = reports::SHOW_EXAMPLES)]
    Show(ShowArguments),
    /// Put several runs of one experiment side by side
    #[command(after_help = reports::COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Write an experiment as a fio job file or a script, for machines where only fio may be
    /// installed
    #[command(after_help = run::EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// Read what fio measured (its JSON) as a report, to show, keep and compare
    #[command(after_help = reports::IMPORT_EXAMPLES)]
    Import(ImportArguments),
    /// Print the completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write all of them to a directory
    Man {
        /// Directory for ssdlab.1, ssdlab-run.1 and so on; it is created where there is none
        directory: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }
}
