//! Arguments of `precondition` and `power-cut`: preconditioned simulated drives, and their power cuts.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use ssdlab_model::power_cut::faults::Fault;

use super::shared::{Seed, assignment};
use crate::completion::{Simulated, keys};

pub(super) const PRECONDITION_EXAMPLES: &str = "\
Examples:
  ssdlab precondition sim:toshiba-xg5 -o aged.ssd
          a drive in the steady state of random writes, in a moment
  ssdlab precondition sim:toshiba-xg5,spare=28% --state random --written 2x \\
          -o worn.ssd
          one that was written: filled, then twice its capacity at random places
  ssdlab precondition --state sequential --set retention.retry=60us \\
          --set retention.free_for=10d --set retention.steps=10 \\
          --stored-for 365d -o old.ssd
          one whose data is a year old, so that it is read slowly
  ssdlab run fragmentation sim:./aged.ssd
  ssdlab run fragmentation 'raid1(sim:./aged.ssd;sim:./aged.ssd),sync=none'";

pub(super) const EXPLORE_EXAMPLES: &str = "\
A history is a text file with one request per line: 'write units 3 to 5',
'write unit 9 with FUA', 'write unit 9 but for the last sector', 'trim unit 4',
'read unit 4', 'flush', 'rest for 150ms'. A request is sent when all requests
before it are answered. A suffix changes that: ', at once' sends it right after
the one before, ', 30us later' that long after the one before was sent. Exit
code 1 means that a rule was broken.

Examples:
  ssdlab power-cut explore
  ssdlab power-cut explore sim:kingston-v-64 --histories 100
  ssdlab power-cut explore --lie-about-flush --output short.txt
  ssdlab power-cut explore --lie-about-flush --history short.txt";

/// Arguments of `precondition`.
#[derive(Args, Debug)]
pub struct PreconditionArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes
    #[arg(default_value = "sim:", add = ArgValueCompleter::new(Simulated))]
    pub target: String,
    /// State of the saved drive
    #[arg(long, value_enum, default_value_t = PreconditionState::Steady)]
    pub state: PreconditionState,
    /// Amount to write, as a multiple of the capacity (2x) or a length [default: nothing to a
    /// steady drive, 1x otherwise]
    #[arg(long, value_name = "AMOUNT")]
    pub written: Option<String>,
    /// Skew of the writes to a steady drive: share of the writes, and share of the drive, at its
    /// beginning, that took them (needs collection.policy=fifo) [default: uniform]
    #[arg(long, value_name = "WRITES:DRIVE")]
    pub hot: Option<String>,
    /// Content of the pseudo-SLC cache of a steady drive, if it has blocks of its own [default:
    /// empty]
    #[arg(long, value_enum, value_name = "CACHE")]
    pub cache: Option<PreconditionCache>,
    /// Time without power afterwards, such as 365d, which ages the data (needs retention.retry in
    /// the profile or with --set)
    #[arg(long, value_name = "TIME")]
    pub stored_for: Option<String>,
    /// Change a parameter of the profile; may be repeated
    #[arg(
        long,
        value_name = "KEY=VALUE",
        value_parser = assignment,
        add = ArgValueCompleter::new(keys)
    )]
    pub set: Vec<(String, String)>,
    /// File to save the drive in
    #[arg(short, long, value_name = "PATH")]
    pub output: PathBuf,
    /// Replace an existing saved drive; other files are never replaced
    #[arg(long)]
    pub force: bool,
    /// Random seed.
    #[command(flatten)]
    pub seed: Seed,
}

/// The state a drive is brought into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PreconditionState {
    /// Never written
    New,
    /// Written from end to end in requests of 1 MiB
    Sequential,
    /// Filled like that, and then written at random places
    Random,
    /// Full, in the steady state of random writes; built from theory, without writing
    Steady,
}

/// Content of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PreconditionCache {
    /// Nothing, as after a rest
    Empty,
    /// Data left there after writing without a rest
    Full,
}

/// Actions with power cuts.
#[derive(Debug, Subcommand)]
pub enum PowerCut {
    /// Try every power cut of short histories on a small drive of a profile's kind
    ///
    /// Power is cut at the beginning and the end of each program and erase, between each two of
    /// these moments, and again while the drive recovers. Afterwards all that was flushed or
    /// written with FUA has to be there, and each mapping unit has to hold its old or its new data.
    /// Otherwise the shortest history that shows the failure is printed.
    #[command(after_help = EXPLORE_EXAMPLES)]
    Explore(ExploreArguments),
}

/// Arguments of `power-cut explore`.
#[derive(Args, Debug)]
pub struct ExploreArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes. The cuts are tried on a drive of a
    /// few hundred mapping units with the same mechanisms, not on one of its size
    #[arg(default_value = "sim:", add = ArgValueCompleter::new(Simulated))]
    pub target: String,
    /// File with the history; without it, random ones are tried
    #[arg(long, value_name = "FILE", conflicts_with_all = ["histories", "requests"])]
    pub history: Option<PathBuf>,
    /// Number of random histories
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub histories: u32,
    /// Requests in each random history
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub requests: u32,
    /// Random seed.
    #[command(flatten)]
    pub seed: Seed,
    /// Begin with a new drive instead of a used one
    #[arg(long)]
    pub new: bool,
    /// Have the drive answer flush and FUA at once, durable or not
    #[arg(long)]
    pub lie_about_flush: bool,
    /// Inject a defect into the drive, to see that it is found
    #[arg(long, value_enum, value_name = "MISTAKE")]
    pub fault: Option<FaultName>,
    /// Write the shortest history that breaks a rule to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Mistakes that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultName {
    /// Recovery takes the copy that comes last on the flash, not the newest
    IgnoreNumbers,
    /// Recovery treats as erased what it cannot read
    ForgetUnreadable,
    /// Recovery ignores the records of trims
    ForgetTrims,
    /// Recovery ignores the table of bad blocks (needs wear.life)
    ForgetBadBlocks,
    /// Recovery does not write again what capacitors saved
    ForgetSaved,
    /// Blocks are erased before what replaces them is durable
    EraseEarly,
}

impl From<FaultName> for Fault {
    fn from(name: FaultName) -> Fault {
        match name {
            FaultName::IgnoreNumbers => Fault::IgnoreNumbers,
            FaultName::ForgetUnreadable => Fault::ForgetUnreadable,
            FaultName::ForgetTrims => Fault::ForgetTrims,
            FaultName::ForgetBadBlocks => Fault::ForgetBadBlocks,
            FaultName::ForgetSaved => Fault::ForgetSaved,
            FaultName::EraseEarly => Fault::EraseEarly,
        }
    }
}
