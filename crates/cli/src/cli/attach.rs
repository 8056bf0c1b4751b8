//! Arguments of `create`, `attach`, `detach`, `status` and `check`: simulated drives as block devices.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;

use super::shared::Seed;
use crate::completion::{Simulated, attached};

pub(super) const CREATE_EXAMPLES: &str = "\
Examples:
  ssdlab create sim:toshiba-xg5 disk.ssd
  ssdlab create sim:,scale=1/128 disk.ssd
          a smaller one, of 4 GB";

pub(super) const ATTACH_EXAMPLES: &str = "\
Examples:
  ssdlab attach disk.ssd
          a block device; prints its name (needs root)
  ssdlab attach disk.ssd --mount /mnt --fs ext4
          mounted, with a file system made on it if there is none
  ssdlab attach disk.ssd --file dir
          a file in a directory, for any user
  ssdlab attach disk.ssd --nbd unix:/tmp/disk.sock
          an NBD server: nbdinfo 'nbd+unix:///?socket=/tmp/disk.sock'

The program runs until Ctrl-C, SIGTERM or 'ssdlab detach', and then unmounts
and detaches cleanly. If it is killed, the device fails requests; the image
holds the data that was flushed.";

pub(super) const DETACH_EXAMPLES: &str = "\
Examples:
  ssdlab detach /dev/loop0
  ssdlab detach disk.ssd
          by its image; also cleans up after a program that was killed";

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  ssdlab status
          of the only drive that is attached
  ssdlab status /dev/loop0 --watch
  ssdlab status disk.ssd --json
  ssdlab status --watch --prometheus /var/lib/node_exporter/ssdlab.prom";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  ssdlab check disk.ssd
  ssdlab check disk.ssd --repair

Exit codes: 0 all is well, 1 something is wrong.";

/// Arguments of `create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes
    #[arg(add = ArgValueCompleter::new(Simulated))]
    pub target: String,
    /// Image to create
    pub image: PathBuf,
    /// Replace an existing image; other files are never replaced
    #[arg(long)]
    pub force: bool,
    /// Random seed.
    #[command(flatten)]
    pub seed: Seed,
}

/// Arguments of `attach`.
#[derive(Args, Debug)]
pub struct AttachArguments {
    /// The image; see ssdlab create
    pub image: PathBuf,
    /// Attach it as a file in this directory instead of a block device
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["nbd", "mount"])]
    pub file: Option<PathBuf>,
    /// Serve it over NBD instead, at unix:PATH or HOST:PORT (without a host: for this machine only)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "mount")]
    pub nbd: Option<String>,
    /// Make it a ublk device instead, which needs the kernel's ublk_drv
    #[cfg(feature = "ublk")]
    #[arg(long, conflicts_with_all = ["file", "nbd", "mount"])]
    pub ublk: bool,
    /// Mount the block device here
    #[arg(long, value_name = "DIRECTORY")]
    pub mount: Option<PathBuf>,
    /// File system to make for --mount, if there is none on the drive
    #[arg(long, value_name = "NAME", default_value = "ext4", requires = "mount", conflicts_with_all = ["file", "nbd"])]
    pub fs: String,
    /// Time that requests take
    #[arg(long, value_enum, default_value_t = AttachTime::Real)]
    pub time: AttachTime,
    /// Change nothing in the drive or the image: writes fail
    #[arg(long, conflicts_with_all = ["power_cut_after", "drop_trim", "lie_about_flush"])]
    pub read_only: bool,
    /// Answer flushes without doing anything, as a drive that lies about them does
    #[arg(long)]
    pub lie_about_flush: bool,
    /// Accept trims and ignore them
    #[arg(long)]
    pub drop_trim: bool,
    /// Cut power after N accepted writes and trims
    #[arg(long, value_name = "N")]
    pub power_cut_after: Option<u64>,
    /// Record the requests to the drive as a fio iolog (version 3)
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,
}

/// Time that requests to an attached drive take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttachTime {
    /// Latencies of the simulated drive
    Real,
    /// As fast as this machine can
    Fast,
}

/// Arguments of commands that are about a drive that is attached.
#[derive(Args, Debug)]
pub struct AttachedArguments {
    /// The drive: its device, file, address or image; may be left out where only one is attached
    #[arg(add = ArgValueCompleter::new(attached))]
    pub drive: Option<String>,
}

/// Arguments of `status`.
#[derive(Args, Debug)]
pub struct StatusArguments {
    /// The attached drive.
    #[command(flatten)]
    pub drive: AttachedArguments,
    /// Keep updating the output until q or Ctrl-C, on a terminal as a full screen
    #[arg(long)]
    pub watch: bool,
    /// Seconds between updates, with --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, requires = "watch")]
    pub interval: f64,
    /// Print JSON; with --watch a line each time
    #[arg(long)]
    pub json: bool,
    /// Also write the figures for Prometheus' textfile collector
    #[arg(long, value_name = "PATH")]
    pub prometheus: Option<PathBuf>,
}

/// Arguments of `check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The image
    pub image: PathBuf,
    /// Let the drive recover, and close the image cleanly
    #[arg(long)]
    pub repair: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
