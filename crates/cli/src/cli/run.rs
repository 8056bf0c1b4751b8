//! Arguments of `run` and `export`: experiments, run here or written as a script.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use super::shared::{Files, ProtocolArguments, ReportArguments, StoreArguments};
use crate::completion::{Operands, experiments};

pub(super) const RUN_EXAMPLES: &str = "\
Targets:
  sim:                  a simulated client drive (the default)
  sim:toshiba-xg5       another profile; see ssdlab list profiles
  sim:toshiba-xg5,flash.page_read=70us
                        with changes, as key=value
  sim:./my.toml         a profile of your own
  sim:./aged.ssd        a drive that was saved; see ssdlab precondition
  'raid1(sim:a;sim:b),sync=none'
                        a stack of simulated drives; see ssdlab list stacks
  /mnt/ssd              the drive behind a directory
  /mnt/ssd/new.dat      the same, by a file of this name: with --create-file
  /dev/sdx              a whole drive, whose data is DESTROYED: only with
                        --destroy-data, confirmed by its serial or path, and
                        never one that anything uses

Behind a directory it uses an unlinked temporary file (O_TMPFILE), which goes
however the run ends; barrier, trim-check and discard use files in a directory
ssdlab-files-... there, which they remove. A file that exists is never written.
Ctrl-C ends a run early and keeps what was measured; another one, a second or
more later, ends it at once, without a report.

Examples:
  ssdlab run fragmentation
  ssdlab run fragmentation sim:samsung-pm981 --html report.html
  ssdlab run fragmentation /mnt/ssd --set file_size=1G --set rest=0s
  ssdlab run fragmentation --json > report.json";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  ssdlab export fragmentation /mnt/ssd/new.dat > fragmentation.sh
          on the other machine: sh fragmentation.sh
          and here again: ssdlab import ssdlab-fragmentation/*.json
  ssdlab export blocksize /dev/sdx --capacity 480GB --format fio
  ssdlab export latency 'D:\\new.dat' --set area=8G --format powershell \\
          -o latency.ps1

A script refuses a device that is in use, and asks for the name of any other.";

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The experiment; see 'ssdlab list experiments'
    #[arg(add = ArgValueCandidates::new(experiments))]
    pub experiment: String,
    /// The drive: a simulated one (sim:PROFILE, the default is sim:) or a path on a real one.
    /// Before it, for 'job' and 'replay', the file to run
    #[arg(
        value_name = "[FILE] [TARGET]",
        num_args = 0..=2,
        add = ArgValueCompleter::new(Operands)
    )]
    pub operands: Vec<String>,
    /// Changes of the protocol.
    #[command(flatten)]
    pub protocol: ProtocolArguments,
    /// Output of the report.
    #[command(flatten)]
    pub report: ReportArguments,
    /// Files for other programs.
    #[command(flatten)]
    pub files: Files,
    /// Store of runs.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Do not keep this run
    #[arg(long, conflicts_with = "store")]
    pub no_store: bool,
    /// Record the state of the blocks of simulated SSDs over the run, for the page (--html, 'ssdlab
    /// serve') and, at a few moments, for the terminal
    #[arg(long)]
    pub record_inside: bool,
    /// Create the target as a new file, and remove it at the end; without this option, a path that
    /// does not exist is an error
    #[arg(long)]
    pub create_file: bool,
    /// Go on where the file system has no direct I/O; the page cache is then measured as well
    #[arg(long)]
    pub allow_buffered: bool,
    /// I/O engine for real drives; by default the one that costs the least. To compare with fio, name the
    /// engine that its job names
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t = EngineArgument::Auto)]
    pub engine: EngineArgument,
    /// Let processors enter idle states while a real drive is measured, as they do without ssdlab;
    /// the time to wake up then counts as the drive's latency
    #[arg(long)]
    pub let_processors_sleep: bool,
    /// Agree to destroy all data on the block device; it still has to be confirmed
    #[arg(long)]
    pub destroy_data: bool,
    /// Serial or path of the block device, instead of typing it when asked
    #[arg(long, value_name = "SERIAL|PATH")]
    pub confirm: Option<String>,
    /// Purge method used where the experiment begins with a new drive [default: discard for a block
    /// device; a simulated drive is replaced by a new one, in no time]
    #[arg(long, value_enum, value_name = "HOW")]
    pub purge: Option<PurgeArgument>,
}

/// I/O engine for real drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineArgument {
    /// Positioned I/O at depth 1 (reads by io_uring where it busy-polls for them), above it
    /// io_uring, Linux AIO or threads, whichever costs least
    Auto,
    /// io_uring at every depth
    #[value(name = "io_uring")]
    IoUring,
    /// Linux AIO at every depth, from one thread
    Libaio,
    /// Positioned reads and writes, one at a time whatever the depth
    Psync,
    /// A thread for each request in flight
    Threads,
}

/// Purge methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PurgeArgument {
    /// Discard of all of the drive
    Discard,
    /// Format that starts a new map and erases nothing (simulated drives only)
    Format,
    /// NVMe Format with user data erase (needs nvme-cli)
    NvmeFormat,
    /// ATA Security Erase (needs hdparm); it sets a password, which the erase removes
    AtaSecureErase,
    /// No purge: the drive is taken as it is
    None,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// The experiment; see 'ssdlab list experiments'
    #[arg(add = ArgValueCandidates::new(experiments))]
    pub experiment: String,
    /// A device or a new file on the other machine, by the name it has there
    pub target: String,
    /// The form of the script
    #[arg(long, value_enum, default_value_t = ExportForm::Sh)]
    pub format: ExportForm,
    /// Size of the target; required for a device, and for a file by default what the protocol needs
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// Changes of the protocol.
    #[command(flatten)]
    pub protocol: ProtocolArguments,
    /// File to write; stdout unless given
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
}

/// The form of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// A job file of fio
    Fio,
    /// POSIX shell, for Linux and FreeBSD
    Sh,
    /// PowerShell, for Windows; not tried there
    Powershell,
}
