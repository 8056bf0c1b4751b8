//! Arguments of `advise` and `refresh`: over-provisioning, and rewriting of slow data.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;

use super::shared::{ReportArguments, Seed};
use crate::completion::{Operands, Simulated};

pub(super) const ADVISE_EXAMPLES: &str = "\
Examples:
  ssdlab advise sim:toshiba-xg5
  ssdlab advise sim:toshiba-xg5 --read-percent 70 --html advice.html
  ssdlab advise sim:,collection.policy=fifo --hot 80%:20% --spare 7%,28%
  ssdlab advise sim:micron-5200 --workload database.fio
  ssdlab advise /var/lib/postgresql --like sim:micron-5200
          also how to set it up on the layers of this machine";

#[cfg(target_os = "linux")]
pub(super) const REFRESH_EXAMPLES: &str = "\
On a terminal it shows what it would do and asks, unless --yes is given.
Without a terminal it rewrites nothing without --yes.

Files on ext4 and btrfs are moved by the file system itself, while programs go
on writing to them. Other files, and block devices, are rewritten in place
while their file system is frozen briefly, or not mounted.

Examples:
  ssdlab refresh /var/lib/mysql/shop/orders.ibd --dry-run
          whether it is slow to read, why, and what a rewrite would bring
  ssdlab refresh /var/lib/mysql/shop/orders.ibd --yes --rate 100M
  ssdlab refresh /var/lib/mysql/shop/orders.ibd --yes --resume
          after an interruption
  ssdlab refresh /dev/sdx2 --yes --max-freeze 20ms

Exit codes: 0 done, also when there was nothing to do; 3 refused, 4 cannot;
130 interrupted.";

/// Arguments of `advise`.
#[derive(Args, Debug)]
pub struct AdviseArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes; or a path or block device, of which
    /// only the layers are examined
    #[arg(default_value = "sim:", add = ArgValueCompleter::new(Operands))]
    pub drive: String,
    /// Simulated drive that stands in for the one behind a path
    #[arg(
        long,
        value_name = "sim:PROFILE",
        default_value = "sim:",
        add = ArgValueCompleter::new(Simulated)
    )]
    pub like: String,
    /// Amounts of over-provisioning to try, as shares of the flash [default: 7%,10%,15%,20%,28%,35%,50%]
    #[arg(long, value_name = "SHARES", value_delimiter = ',')]
    pub spare: Vec<String>,
    /// Skew of the writes: share of the writes, and share of the drive, at its beginning, that
    /// takes them (needs collection.policy=fifo) [default: uniform]
    #[arg(long, value_name = "WRITES:DRIVE")]
    pub hot: Option<String>,
    /// The workload: a job file of fio's, with one job that writes
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["hot", "pattern", "block_size", "read_percent", "depth"]
    )]
    pub workload: Option<PathBuf>,
    /// The order of requests
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = AdvisePattern::Random)]
    pub pattern: AdvisePattern,
    /// Bytes of a request, such as 128K [default: those of the drive's mapping unit]
    #[arg(long, value_name = "LENGTH")]
    pub block_size: Option<String>,
    /// Reads as a percentage of the requests
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub read_percent: u8,
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: u32,
    /// Erase cycles that the flash is rated for [default: the profile's, or 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cycles: Option<u32>,
    /// Random seed.
    #[command(flatten)]
    pub seed: Seed,
    /// Output of the report.
    #[command(flatten)]
    pub report: ReportArguments,
}

/// The order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AdvisePattern {
    /// At random places
    Random,
    /// One after the other
    Sequential,
}

/// Arguments of `refresh`.
#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct RefreshArguments {
    /// A file, such as the table of a database that has become slow, or a block device
    pub path: PathBuf,
    /// Rewrite without asking
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Show what would be done, and rewrite nothing. To measure how fast fresh data is read, two
    /// files of 16 MiB may be written; they are removed afterwards
    #[arg(long)]
    pub dry_run: bool,
    /// Limit of reads and writes together, in bytes a second, such as 50M
    #[arg(long, value_name = "LENGTH")]
    pub rate: Option<String>,
    /// Longest single freeze of the file system
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub max_freeze: std::time::Duration,
    /// Resume a refresh that was interrupted
    #[arg(long, conflicts_with = "all")]
    pub resume: bool,
    /// Rewrite everything, slow or not
    #[arg(long)]
    pub all: bool,
    /// Rewrite also data that snapshots or copies share, which then takes space of its own
    #[arg(long)]
    pub shared: bool,
    /// Rewrite also a file with holes: only its data; holes stay holes
    #[arg(long)]
    pub sparse: bool,
    /// Rewrite in place while the file system is frozen (fsfreeze), also where the file system could
    /// move it
    #[arg(long)]
    pub frozen: bool,
    /// Amount of data that is judged and rewritten at a time
    #[arg(long, value_name = "LENGTH", default_value = "4M")]
    pub window: String,
    /// Temperature in degrees Celsius from which on the drive is left to cool
    #[arg(long, value_name = "DEGREES", default_value_t = ssdlab_refresh::health::TEMPERATURE_MAX)]
    pub heat: f64,
    /// Directory for journals [default: ssdlab/refresh in the user's state directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub journal: Option<PathBuf>,
    /// Print what was found and done as JSON
    #[arg(long)]
    pub json: bool,
}
