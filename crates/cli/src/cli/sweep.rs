//! Arguments of `sweep`: many runs of one experiment.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use ssdlab_sweep::Varied;

use super::shared::{ProtocolArguments, ReportArguments, StoreArguments};
use crate::completion::{Operands, experiments, varied};

pub(super) const SWEEP_EXAMPLES: &str = "\
A key is a parameter of the experiment, of simulated drives or of a stack, or
'target'. Each point is run --seeds times, with the same seeds at each point;
means come with 95 % confidence intervals. A run is named by the SHA-256 of
version, profile, protocol, settings and seed: --resume makes only those that
--out lacks, and the files it writes are the same to the bit.

On real drives runs follow one another in random order, with rests between
them. A block device needs --destroy-data and --confirm, and is checked
before each run as by 'run'.

Examples:
  ssdlab sweep steady sim:,scale=1/64 --quick --vary spare=7%,15%,28% --seeds 2
          how the steady state depends on over-provisioning
  ssdlab sweep steady sim:,scale=1/64 --quick --vary spare=7%,28% \\
          --vary collection.policy=greedy,fifo --seeds 2 --out policies
          a heat map of two keys; policies/sweep.html is a page
  ssdlab sweep fragmentation sim: sim:toshiba-xg5 --quick --vary file_size=1G,2G
  ssdlab sweep steady sim:,scale=1/64 --quick --vary spare=7%,15%,28% \\
          --vary depth=1,4,32 --points 4 --seeds 2
          a Latin hypercube of the nine points";

/// Arguments of `sweep`.
#[derive(Args, Debug)]
pub struct SweepArguments {
    /// The experiment; see 'ssdlab list experiments'
    #[arg(add = ArgValueCandidates::new(experiments))]
    pub experiment: String,
    /// The drives, one or several [default: sim:]. Before them, for 'job' and 'replay', the file to run
    #[arg(value_name = "[FILE] [TARGET]", num_args = 0.., add = ArgValueCompleter::new(Operands))]
    pub operands: Vec<String>,
    /// Key and its values; may be repeated, for all combinations. Separate values that contain
    /// commas by semicolons
    #[arg(
        long,
        value_name = "KEY=VALUE,...",
        value_parser = Varied::parse,
        add = ArgValueCompleter::new(varied)
    )]
    pub vary: Vec<Varied>,
    /// Runs of each point, with the seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub seeds: u32,
    /// Number of points to choose from all combinations, as a Latin hypercube
    #[arg(long, value_name = "N")]
    pub points: Option<usize>,
    /// Choose the points at random instead
    #[arg(long, requires = "points")]
    pub random: bool,
    /// Runs in parallel, on simulated drives [default: number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Keep the result of each run in this directory, and write sweep.json, runs.csv, means.csv and sweep.html
    /// to it
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Keep the runs that --out holds already, and make the others
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Figure to show, by its name in runs.csv or that of its column; may be repeated [default: the
    /// columns of the experiment's first table]
    #[arg(long, value_name = "NAME")]
    pub measure: Vec<String>,
    /// Changes of the protocol.
    #[command(flatten)]
    pub protocol: ProtocolArguments,
    /// Output of the result.
    #[command(flatten)]
    pub report: ReportArguments,
    /// Store of runs.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Do not keep the result
    #[arg(long, conflicts_with = "store")]
    pub no_store: bool,
    /// Rest of a real drive before each run but the first
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub rest: Duration,
    /// Go on where the file system has no direct I/O; the page cache is then measured as well
    #[arg(long)]
    pub allow_buffered: bool,
    /// Agree that a block device loses ALL of its data
    #[arg(long)]
    pub destroy_data: bool,
    /// The serial or path of the block device, typed once more
    #[arg(long, value_name = "SERIAL|PATH")]
    pub confirm: Option<String>,
}
