//! Arguments of the commands that list, show, compare and import results.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use super::shared::{Files, Form, ReportArguments, Seed, StoreArguments};
use crate::completion::{Profiles, Runs, RunsAndFiles, experiments};

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  ssdlab list experiments
  ssdlab list experiments fragmentation
  ssdlab list profiles toshiba-xg5
  ssdlab list profiles toshiba-xg5 --toml > my.toml
  ssdlab list stacks
  ssdlab list runs";

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  ssdlab show
          the last run
  ssdlab show last~1 --html report.html
  ssdlab show 12 --json > report.json";

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  ssdlab compare last~1 last
  ssdlab compare 3 5 8 --html comparison.html
  ssdlab compare before.json after.json";

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  fio mix.fio --output-format=json+ --output=fio.json
  ssdlab import fio.json
          as a run of 'job'; json+ has whole histograms, json only percentiles
  ssdlab run job mix.fio sim:toshiba-xg5
  ssdlab compare last~1 last
          results of fio beside those of the model";

/// Things that can be listed.
#[derive(Debug, Subcommand)]
pub enum List {
    /// The experiments, or the parameters of one
    Experiments {
        /// Show the parameters of this one
        #[arg(add = ArgValueCandidates::new(experiments))]
        name: Option<String>,
        /// Show the parameters of all
        #[arg(long)]
        keys: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The simulated drives, or the parameters of one with their sources
    Profiles {
        /// Show the parameters of this one, or of a file such as ./my.toml
        #[arg(add = ArgValueCompleter::new(Profiles))]
        name: Option<String>,
        /// Show all parameters, also those that the profile does not set; without a name, of the
        /// default profile
        #[arg(long)]
        keys: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print the profile as TOML, to start your own from
        #[arg(long, conflicts_with_all = ["json", "keys"], requires = "name")]
        toml: bool,
    },
    /// Layers above simulated drives, such as RAID, with the options of each
    Stacks {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The runs that were kept, newest first
    Runs {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Store of runs.
        #[command(flatten)]
        store: StoreArguments,
    },
}

/// Arguments of `show`.
#[derive(Args, Debug)]
pub struct ShowArguments {
    /// The run: its number, 'last', or 'last~1' for the one before
    #[arg(default_value = "last", add = ArgValueCompleter::new(Runs))]
    pub run: String,
    /// Format of the output.
    #[command(flatten)]
    pub form: Form,
    /// Files for other programs.
    #[command(flatten)]
    pub files: Files,
    /// Store of runs.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// Runs (12, last, last~1) and report files (report.json), two or more
    #[arg(
        required = true,
        num_args = 2..,
        value_name = "RUN|FILE",
        add = ArgValueCompleter::new(RunsAndFiles)
    )]
    pub runs: Vec<String>,
    /// Format of the output.
    #[command(flatten)]
    pub form: Form,
    /// Store of runs.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArguments {
    /// Results that fio wrote with --output-format=json or json+, one file or several
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Format of the output.
    #[command(flatten)]
    pub form: Form,
    /// More files for other programs.
    #[command(flatten)]
    pub written: Files,
    /// Store of runs.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Do not keep the report
    #[arg(long, conflicts_with = "store")]
    pub no_store: bool,
}

pub(super) const TRUTH_EXAMPLES: &str = "\
Every published figure that the project knows is simulated with its profile:
published value, model, error, and whether the profile was fitted to it.

Examples:
  ssdlab truth samsung-970-evo-500 intel-660p-1000 --html truth.html";

/// Arguments of `truth`.
#[derive(Args, Debug)]
pub struct TruthArguments {
    /// Drives with published figures [default: all]
    pub drives: Vec<String>,
    /// File of figures of your own (TOML); may be repeated
    #[arg(long, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Random seed.
    #[command(flatten)]
    pub seed: Seed,
    /// Output of the report.
    #[command(flatten)]
    pub report: ReportArguments,
}
