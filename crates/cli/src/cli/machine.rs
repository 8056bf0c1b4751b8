//! Arguments of `layers` and `doctor`: storage layers of this machine, and their problems.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::completion::fixes;

pub(super) const LAYERS_EXAMPLES: &str = "\
Examples:
  ssdlab layers
          every file system, down to the drives
  ssdlab layers /home
  ssdlab layers /dev/md0 --json";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Without --fix nothing is changed, and without --proof nothing is written.

Exit codes: 0 nothing found, 10 a notice at worst, 11 a warning, 12 a problem;
below 10 and 130 as for every command. Unknown outcomes do not count.

Examples:
  ssdlab doctor
          the whole machine; as root it knows more
  ssdlab doctor /home
          one file system, with the drives below it
  ssdlab doctor --json
  ssdlab doctor --capture machine.tar.gz
          a copy of all that the checks read, to examine it elsewhere
  ssdlab doctor --from machine.tar.gz
  ssdlab doctor /home --proof
          also tests TRIM, with a file that is written, deleted and trimmed
  ssdlab doctor --fix automatic-trim
  ssdlab doctor --undo";

/// Arguments of `layers`.
#[derive(Args, Debug)]
pub struct LayersArguments {
    /// A directory, a file or a device; the whole machine unless given
    pub target: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show only ASCII
    #[arg(long)]
    pub ascii: bool,
    /// Look at a machine that was captured by 'ssdlab doctor --capture', instead of this one
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// A directory, a file or a device; the whole machine unless given
    pub target: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show checks that are fine in full, too
    #[arg(long)]
    pub all: bool,
    /// Look at a machine that was captured instead of this one
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Write everything that the checks read to a file (.tar.gz), or to stdout with '-', and print
    /// no verdicts. It holds names, serial numbers and mount points of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "json", "all", "prometheus"])]
    pub capture: Option<PathBuf>,
    /// Also write the outcomes and the figures of drives to a file for Prometheus' textfile collector
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Also test TRIM: write a file to the target's file system, delete it, trim, and look for its
    /// data below the file system (needs root)
    #[arg(long, requires = "target", conflicts_with_all = ["from", "capture"])]
    pub proof: bool,
    /// Fix what a check has found: trim (USB bridges), automatic-trim, atime, barriers or
    /// swappiness. The changes are shown first, and --undo reverts them
    #[arg(
        long,
        value_name = "CHECK",
        conflicts_with_all = ["from", "capture"],
        add = ArgValueCandidates::new(fixes)
    )]
    pub fix: Option<String>,
    /// Undo the newest fix
    #[arg(
        long,
        conflicts_with_all = ["target", "from", "capture", "fix", "proof", "json", "prometheus"]
    )]
    pub undo: bool,
    /// Agree to the change without being asked
    #[arg(long)]
    pub yes: bool,
}
