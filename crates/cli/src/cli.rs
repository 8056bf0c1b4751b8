//! What can be typed. Help, man pages and completions come from these definitions, and nowhere
//! else is it said what an option is called.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ssdlab_model::recovery::Fault;

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

const RUN_EXAMPLES: &str = "\
Targets:
  sim:                  a simulated client drive (the default)
  sim:toshiba-xg5       another profile; see ssdlab list profiles
  sim:toshiba-xg5,flash.page_read=70us
                        with changes, as key=value
  sim:./my.toml         a profile of your own
  sim:./aged.ssd        a drive that was saved; see ssdlab age
  'raid1(sim:a;sim:b),sync=none'
                        a stack of simulated drives; see ssdlab list stacks
  /mnt/ssd              the drive behind a directory
  /mnt/ssd/new.dat      the same, by a file that does not exist yet
  /dev/sdx              a whole drive, whose data is DESTROYED: only with
                        --destroy-data, confirmed by its serial or path, and
                        never one that anything uses

Behind a directory only a new file is written, never one that exists. Its name
is taken away as soon as it is there, so that it goes however the run ends.
Pressed twice, Ctrl-C ends at once, without a report.

Examples:
  ssdlab run fragmentation
  ssdlab run fragmentation sim:samsung-pm981 --html report.html
  ssdlab run fragmentation /mnt/ssd --set file_size=1G --set rest=0s
  ssdlab run fragmentation --json > report.json";

const AGE_EXAMPLES: &str = "\
Examples:
  ssdlab age sim:toshiba-xg5 -o aged.ssd
          a drive in the steady state of random writes, in a moment
  ssdlab age sim:toshiba-xg5,spare=28% --state random --written 2x -o worn.ssd
          one that was written: filled, then twice its capacity at random places
  ssdlab age --state sequential --set retention.retry=60us --set retention.free_for=10d \\
          --set retention.steps=10 --stored-for 365d -o old.ssd
          one whose data is a year old, so that it is read slowly
  ssdlab run fragmentation sim:./aged.ssd
  ssdlab run fragmentation 'raid1(sim:./aged.ssd;sim:./aged.ssd),sync=none'";

const CREATE_EXAMPLES: &str = "\
Examples:
  ssdlab create sim:toshiba-xg5 disk.ssd
  ssdlab create sim:,capacity.logical=4G,capacity.physical=5G disk.ssd";

const ATTACH_EXAMPLES: &str = "\
Examples:
  ssdlab attach disk.ssd
          a block device; prints its name (needs root)
  ssdlab attach disk.ssd --mount /mnt --fs ext4
          mounted, with a file system made on it if there is none
  ssdlab attach disk.ssd --file dir
          a file in a directory, for any user
  ssdlab attach disk.ssd --nbd unix:/tmp/disk.sock
          an NBD server: nbdinfo 'nbd+unix:///?socket=/tmp/disk.sock'

The program stays until Ctrl-C, SIGTERM or 'ssdlab detach', and then unmounts and
detaches in order. If it is killed, the device fails requests, and what was flushed
is in the image.";

const DETACH_EXAMPLES: &str = "\
Examples:
  ssdlab detach /dev/loop0
  ssdlab detach disk.ssd
          by its image; also cleans up after a program that was killed";

const STATUS_EXAMPLES: &str = "\
Examples:
  ssdlab status
          of the only drive that is attached
  ssdlab status /dev/loop0 --watch
  ssdlab status disk.ssd --json
  ssdlab status --watch --prometheus /var/lib/node_exporter/ssdlab.prom";

const CHECK_EXAMPLES: &str = "\
Examples:
  ssdlab check disk.ssd
  ssdlab check disk.ssd --repair

Exit codes: 0 all is well, 1 something is wrong.";

const ADVISE_EXAMPLES: &str = "\
Examples:
  ssdlab advise sim:samsung-840-pro-512
  ssdlab advise sim:toshiba-xg5 --read-percent 70 --html advice.html
  ssdlab advise sim:,collection.policy=fifo --hot 80%:20% --spare 7%,28%
  ssdlab advise /var/lib/postgresql --like sim:micron-5200
          how to get the spare area on the layers that are there";

const REFRESH_EXAMPLES: &str = "\
Without --yes on a terminal, what it would do is shown, and a question asked. Away from
a terminal nothing is rewritten without --yes.

What lies on ext4 and btrfs is moved by the file system itself, while others go on
writing to it. Anything else, and a block device, is written back to where it lies
while its file system is frozen for moments, or not mounted.

Examples:
  ssdlab refresh /var/lib/mysql/shop/orders.ibd --dry-run
          whether it is slow to read, why, and what a rewrite would bring
  ssdlab refresh /var/lib/mysql/shop/orders.ibd --yes --rate 100M
  ssdlab refresh /var/lib/mysql/shop/orders.ibd --yes --resume
          after an interruption
  ssdlab refresh /dev/sdx2 --yes --max-freeze 20ms

Exit codes: 0 done, also when there was nothing to do; 3 refused, 4 cannot;
130 interrupted.";

const EXPLORE_EXAMPLES: &str = "\
A history is a text file with a request a line: 'write units 3 to 5', 'write unit 9
with FUA', 'trim unit 4', 'read unit 4', 'flush', 'rest for 150ms'. A request is
sent when the one before is answered, or right after that was sent with ', at once'
behind it. Exit code 1 means that a rule was broken.

Examples:
  ssdlab power-cut explore
  ssdlab power-cut explore sim:kingston-v-64 --histories 100
  ssdlab power-cut explore --lie-about-flush --output short.txt
  ssdlab power-cut explore --lie-about-flush --history short.txt";

const LAYERS_EXAMPLES: &str = "\
Examples:
  ssdlab layers
          every file system, down to the drives
  ssdlab layers /home
  ssdlab layers /dev/md0 --json";

const DOCTOR_EXAMPLES: &str = "\
Without --fix nothing is changed, and without --proof nothing is written.

Exit codes: 0 nothing to say, 10 a notice at worst, 11 a warning, 12 a problem; below 10
and 130 as everywhere. What is unknown does not count.

Examples:
  ssdlab doctor
          the whole machine; as root it knows more
  ssdlab doctor /home
          one file system, with the drives below it
  ssdlab doctor --json
  ssdlab doctor --capture machine.tar.gz
          all that was looked at, to be looked at elsewhere
  ssdlab doctor --from machine.tar.gz
  ssdlab doctor /home --proof
          with a file that is written, deleted, trimmed and looked for
  ssdlab doctor --fix automatic-trim
  ssdlab doctor --undo";

const SHOW_EXAMPLES: &str = "\
Examples:
  ssdlab show last
  ssdlab show last~1 --html report.html
  ssdlab show 12 --json > report.json";

const COMPARE_EXAMPLES: &str = "\
Examples:
  ssdlab compare last~1 last
  ssdlab compare 3 5 8 --html comparison.html
  ssdlab compare before.json after.json";

const EXPORT_EXAMPLES: &str = "\
Examples:
  ssdlab export fragmentation /mnt/ssd/new.dat > fragmentation.sh
          on the other machine: sh fragmentation.sh
          and here again: ssdlab import ssdlab-fragmentation/*.json
  ssdlab export blocksize /dev/sdx --capacity 480GB --format fio
  ssdlab export latency 'D:\\new.dat' --set area=8G --format powershell -o latency.ps1

A script refuses a device that is in use, and any other until its name was typed.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  fio mix.fio --output-format=json+ --output=fio.json
  ssdlab import fio.json
          as a run of 'job'; json+ has whole histograms, json only percentiles
  ssdlab run job mix.fio sim:toshiba-xg5
  ssdlab compare last~1 last
          what fio has measured beside what the model says";

const LIST_EXAMPLES: &str = "\
Examples:
  ssdlab list experiments
  ssdlab list experiments fragmentation
  ssdlab list profiles toshiba-xg5
  ssdlab list profiles toshiba-xg5 --toml > my.toml
  ssdlab list stacks
  ssdlab list runs";

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
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Make a used simulated drive and save it
    #[command(after_help = AGE_EXAMPLES)]
    Age(AgeArguments),
    /// Make the image of a new simulated drive, to attach it
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArguments),
    /// Attach the simulated drive in an image, as a block device, a file or an NBD server
    #[command(after_help = ATTACH_EXAMPLES)]
    Attach(AttachArguments),
    /// Detach a drive in order
    #[command(after_help = DETACH_EXAMPLES)]
    Detach(AttachedArguments),
    /// Show the inside of a drive that is attached
    #[command(after_help = STATUS_EXAMPLES)]
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
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Show the layers between a file system and its drives: partitions, RAID, encryption, ...
    #[command(after_help = LAYERS_EXAMPLES)]
    Layers(LayersArguments),
    /// Find out what makes this machine's SSDs slow, short-lived or unsafe, and what mends it
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Say how much spare area a workload deserves, and how to get it
    #[command(after_help = ADVISE_EXAMPLES)]
    Advise(AdviseArguments),
    /// Find what of a file or a device has become slow to read, and rewrite just that
    #[command(after_help = REFRESH_EXAMPLES)]
    Refresh(RefreshArguments),
    /// List the experiments, the simulated drives and stacks, or the runs that were kept
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// What to list.
        #[command(subcommand)]
        what: List,
    },
    /// Show the report of an earlier run
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArguments),
    /// Put several runs of one experiment side by side
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Write an experiment as a fio job file or a script, for machines where only fio may be
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// Read what fio measured (its JSON) as a report, to show, keep and compare
    #[command(after_help = IMPORT_EXAMPLES)]
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

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The experiment; see 'ssdlab list experiments'
    pub experiment: String,
    /// The drive: a simulated one (sim:PROFILE, the default is sim:) or a path on a real one.
    /// Before it, for 'job' and 'replay', the file to run
    #[arg(value_name = "[FILE] [TARGET]", num_args = 0..=2)]
    pub operands: Vec<String>,
    /// Run a shortened protocol, to try things out
    #[arg(long)]
    pub quick: bool,
    /// Change a parameter of the protocol; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Seed of every random choice: the same seed gives the same figures on a simulated drive
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT, allow_negative_numbers = true)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the report as a page, with curves and latencies
    #[arg(long, value_name = "PATH")]
    pub html: Option<PathBuf>,
    /// Files for other programs.
    #[command(flatten)]
    pub files: Files,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Do not keep this run
    #[arg(long, conflicts_with = "store")]
    pub no_store: bool,
    /// Go on where the file system has no direct I/O; the page cache is then measured as well
    #[arg(long)]
    pub allow_buffered: bool,
    /// Agree that all that the block device holds is destroyed; it still has to be confirmed
    #[arg(long)]
    pub destroy_data: bool,
    /// The serial or the path of the block device, once more, instead of typing it when asked
    #[arg(long, value_name = "SERIAL|PATH")]
    pub confirm: Option<String>,
    /// How a drive is made new where the experiment begins with a new one [default: a block device
    /// by discard; a simulated drive is replaced by another from the factory, in no time]
    #[arg(long, value_enum, value_name = "HOW")]
    pub make_new: Option<MakeNewArgument>,
}

/// How a drive is made new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MakeNewArgument {
    /// By a discard of all of it
    Discard,
    /// By a format that begins its map anew and erases nothing (simulated drives only)
    Format,
    /// By NVMe Format with user data erase (needs nvme-cli)
    NvmeFormat,
    /// By ATA Security Erase (needs hdparm); it sets a password, which the erase takes away
    AtaSecureErase,
    /// Not at all: it is taken as it is
    None,
}

/// Arguments of `age`.
#[derive(Args, Debug)]
pub struct AgeArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes
    #[arg(default_value = "sim:")]
    pub target: String,
    /// The state to bring it into
    #[arg(long, value_enum, default_value_t = AgeState::Steady)]
    pub state: AgeState,
    /// How much is written, as times the capacity (2x) or as a length; to a steady drive nothing
    /// unless said, otherwise 1x
    #[arg(long, value_name = "AMOUNT")]
    pub written: Option<String>,
    /// The writes that a steady drive was under: share of the writes and share of the drive, at
    /// its beginning, that they went to; uniform unless said (needs collection.policy=fifo)
    #[arg(long, value_name = "WRITES:DRIVE")]
    pub hot: Option<String>,
    /// How long it lies without power after that, such as 365d, so that its data gets old (needs
    /// retention.retry in the profile or with --set)
    #[arg(long, value_name = "TIME")]
    pub stored_for: Option<String>,
    /// Change a parameter of the profile; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// File to save the drive in
    #[arg(short, long, value_name = "PATH")]
    pub output: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT, allow_negative_numbers = true)]
    pub seed: u64,
}

/// What can be done with power cuts.
#[derive(Debug, Subcommand)]
pub enum PowerCut {
    /// Try every cut of short histories on a small drive of a profile's kind
    ///
    /// Power is cut wherever a program or an erase begins or is over, and between each two of
    /// these. Afterwards all that was flushed or written with FUA has to be there, and each unit
    /// to be old or new. When that is not so, the shortest history that shows it is printed.
    #[command(after_help = EXPLORE_EXAMPLES)]
    Explore(ExploreArguments),
}

/// Arguments of `power-cut explore`.
#[derive(Args, Debug)]
pub struct ExploreArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes. A drive of a few hundred units with
    /// its mechanisms is cut from power, not one of its size
    #[arg(default_value = "sim:")]
    pub target: String,
    /// File with the history; without it, random ones are tried
    #[arg(long, value_name = "FILE", conflicts_with_all = ["histories", "requests"])]
    pub history: Option<PathBuf>,
    /// How many random histories
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub histories: u32,
    /// Requests of each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub requests: u32,
    /// Seed of the first history and of what the used drive was written with
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT, allow_negative_numbers = true)]
    pub seed: u64,
    /// Begin with a new drive instead of a used one
    #[arg(long)]
    pub new: bool,
    /// Have the drive answer flush and FUA at once, durable or not
    #[arg(long)]
    pub lie_about_flush: bool,
    /// Plant a mistake in the drive, to see that it is found
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
    /// Recovery takes what it cannot read for erased
    ForgetUnreadable,
    /// Recovery does not look at the records of trims
    ForgetTrims,
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
            FaultName::ForgetSaved => Fault::ForgetSaved,
            FaultName::EraseEarly => Fault::EraseEarly,
        }
    }
}

/// The state a drive is brought into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgeState {
    /// Never written
    New,
    /// Written from end to end in requests of 1 MiB
    Sequential,
    /// Filled like that, and then written at random places
    Random,
    /// Full, in the steady state of random writes; built from theory, without writing
    Steady,
}

/// Arguments of `create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes
    pub target: String,
    /// The image to make
    pub image: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
    /// Seed of the drive's own random choices
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT, allow_negative_numbers = true)]
    pub seed: u64,
}

/// Arguments of `attach`.
#[derive(Args, Debug)]
pub struct AttachArguments {
    /// The image; see ssdlab create
    pub image: PathBuf,
    /// Give a file in this directory instead of a block device
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["nbd", "mount"])]
    pub file: Option<PathBuf>,
    /// Serve NBD at unix:PATH or HOST:PORT (this machine alone where no host is named) instead
    #[arg(long, value_name = "ADDRESS", conflicts_with = "mount")]
    pub nbd: Option<String>,
    /// Mount the block device here
    #[arg(long, value_name = "DIRECTORY")]
    pub mount: Option<PathBuf>,
    /// File system to make for that, if there is none on the drive
    #[arg(long, value_name = "NAME", default_value = "ext4", requires = "mount")]
    pub fs: String,
    /// How long requests take
    #[arg(long, value_enum, default_value_t = AttachTime::Real)]
    pub time: AttachTime,
    /// Answer flushes without doing anything, as drives do that lie
    #[arg(long)]
    pub lie_about_flush: bool,
    /// Take trims and do nothing
    #[arg(long)]
    pub drop_trim: bool,
    /// Cut power when N writes and trims were taken
    #[arg(long, value_name = "N")]
    pub power_cut_after: Option<u64>,
    /// Record what is asked of the drive, as an iolog of fio's (version 3)
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,
}

/// Arguments of `advise`.
#[derive(Args, Debug)]
pub struct AdviseArguments {
    /// The drive: a simulated one (sim:PROFILE), with changes; or a path or block device, whose
    /// layers are looked at and nothing else
    #[arg(default_value = "sim:")]
    pub drive: String,
    /// The simulated drive whose figures stand for those of a path
    #[arg(long, value_name = "sim:PROFILE", default_value = "sim:")]
    pub like: String,
    /// Spare areas to try, as shares of the flash [default: 7%,10%,15%,20%,28%,35%,50%]
    #[arg(long, value_name = "SHARES", value_delimiter = ',')]
    pub spare: Vec<String>,
    /// Where writes go: share of the writes and share of the drive, at its beginning, that they go
    /// to; uniform unless said (needs collection.policy=fifo)
    #[arg(long, value_name = "WRITES:DRIVE")]
    pub hot: Option<String>,
    /// Reads in a hundred requests
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub read_percent: u8,
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: u32,
    /// Erase cycles that the flash is good for [default: the profile's, or 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cycles: Option<u32>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT, allow_negative_numbers = true)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the report as a page, with curves
    #[arg(long, value_name = "PATH")]
    pub html: Option<PathBuf>,
}

/// Arguments of `refresh`.
#[derive(Args, Debug)]
pub struct RefreshArguments {
    /// A file, such as the table of a database that has become slow, or a block device
    pub path: PathBuf,
    /// Rewrite without asking
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Say what would be done, and do nothing of it. To know what fresh data reads like, a file of
    /// 32 MiB may be written; it is gone afterwards
    #[arg(long)]
    pub dry_run: bool,
    /// Read and write no more than this in a second, together, such as 50M
    #[arg(long, value_name = "LENGTH")]
    pub rate: Option<String>,
    /// The longest that a file system may be frozen at a time
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub max_freeze: std::time::Duration,
    /// Go on where an earlier refresh was interrupted
    #[arg(long, conflicts_with = "all")]
    pub resume: bool,
    /// Rewrite everything, slow or not
    #[arg(long)]
    pub all: bool,
    /// Also what snapshots or copies share, which then takes room of its own
    #[arg(long)]
    pub shared: bool,
    /// Also a file with holes: the data between them; holes stay holes
    #[arg(long)]
    pub sparse: bool,
    /// Write it back to where it lies, with the file system frozen for moments, also where the file
    /// system could move it
    #[arg(long)]
    pub frozen: bool,
    /// How much is judged and rewritten at a time
    #[arg(long, value_name = "LENGTH", default_value = "4M")]
    pub window: String,
    /// Leave the drive to cool from this temperature on, in degrees Celsius
    #[arg(long, value_name = "DEGREES", default_value_t = ssdlab_refresh::health::HEAT_MAX)]
    pub heat: f64,
    /// Directory for journals [default: ssdlab/refresh in the user's state directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub journal: Option<PathBuf>,
    /// Print what was found and done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of commands that are about a drive that is attached.
#[derive(Args, Debug)]
pub struct AttachedArguments {
    /// The drive: its device, file, address or image; may be left out where only one is attached
    pub drive: Option<String>,
}

/// Arguments of `status`.
#[derive(Args, Debug)]
pub struct StatusArguments {
    /// Which drive.
    #[command(flatten)]
    pub drive: AttachedArguments,
    /// Show it again and again, on a terminal as a full screen, until q or Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Seconds between, with --watch
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
    /// Let the drive recover, and close the image in order
    #[arg(long)]
    pub repair: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How long requests to an attached drive take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttachTime {
    /// As long as on the drive
    Real,
    /// As long as this machine needs
    Fast,
}

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
    /// Show what is fine in full, too
    #[arg(long)]
    pub all: bool,
    /// Look at a machine that was captured instead of this one
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Write all that is looked at to a file (.tar.gz), or to stdout with '-', and say no more. It
    /// holds names, serial numbers and mount points of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "json", "all", "prometheus"])]
    pub capture: Option<PathBuf>,
    /// Also write the outcomes to a file for Prometheus' textfile collector
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Also put it to the test: write a file to the target's file system, delete it, trim, and
    /// look for it below the file system (needs root)
    #[arg(long, requires = "target", conflicts_with_all = ["from", "capture"])]
    pub proof: bool,
    /// Mend what a check has found, where that can be taken back: automatic-trim, atime, barriers
    /// or swappiness. What changes is shown first
    #[arg(long, value_name = "CHECK", conflicts_with_all = ["from", "capture"])]
    pub fix: Option<String>,
    /// Take the newest fix back
    #[arg(
        long,
        conflicts_with_all = ["target", "from", "capture", "fix", "proof", "json", "prometheus"]
    )]
    pub undo: bool,
    /// Agree to the change without being asked
    #[arg(long)]
    pub yes: bool,
}

/// Where runs are kept.
#[derive(Args, Debug)]
pub struct StoreArguments {
    /// File that runs are kept in [default: $SSDLAB_STORE, or ssdlab/runs.sqlite in the user's
    /// data directory]
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,
}

/// What can be listed.
#[derive(Debug, Subcommand)]
pub enum List {
    /// The experiments, or the parameters of one
    Experiments {
        /// Show the parameters of this one
        name: Option<String>,
        /// Show the parameters of all
        #[arg(long)]
        keys: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The simulated drives, or every parameter of one with where it comes from
    Profiles {
        /// Show the parameters of this one, or of a file such as ./my.toml
        name: Option<String>,
        /// Show the parameters, of the default profile where none is named
        #[arg(long)]
        keys: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print the profile as a file, to begin your own with
        #[arg(long, conflicts_with_all = ["json", "keys"], requires = "name")]
        toml: bool,
    },
    /// What simulated drives can be put behind, such as RAID, with the options of each
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
        /// Where runs are kept.
        #[command(flatten)]
        store: StoreArguments,
    },
}

/// Arguments of `show`.
#[derive(Args, Debug)]
pub struct ShowArguments {
    /// The run: its number, 'last', or 'last~1' for the one before
    pub run: String,
    /// How to show it.
    #[command(flatten)]
    pub form: Form,
    /// Files for other programs.
    #[command(flatten)]
    pub files: Files,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// Runs (12, last, last~1) and report files (report.json), two or more
    #[arg(required = true, num_args = 2.., value_name = "RUN|FILE")]
    pub runs: Vec<String>,
    /// How to show them.
    #[command(flatten)]
    pub form: Form,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// Files for other programs.
#[derive(Args, Debug)]
pub struct Files {
    /// Also write tables, curves and histograms as CSV files to this directory
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Also write the latencies as an HdrHistogram log (.hlog)
    #[arg(long, value_name = "PATH")]
    pub hdr: Option<PathBuf>,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// The experiment; see 'ssdlab list experiments'
    pub experiment: String,
    /// A device or a new file on the other machine, by the name it has there
    pub target: String,
    /// The form of the script
    #[arg(long, value_enum, default_value_t = ExportForm::Sh)]
    pub format: ExportForm,
    /// How large the target is; a device must be said, of a file it is what the protocol needs
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// The shortened protocol
    #[arg(long)]
    pub quick: bool,
    /// Change a parameter of the protocol; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT, allow_negative_numbers = true)]
    pub seed: u64,
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

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArguments {
    /// What fio wrote with --output-format=json or json+, one file or several
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How to show it.
    #[command(flatten)]
    pub form: Form,
    /// More files for other programs.
    #[command(flatten)]
    pub written: Files,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Do not keep it
    #[arg(long, conflicts_with = "store")]
    pub no_store: bool,
}

/// How to show what is there already.
#[derive(Args, Debug)]
pub struct Form {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write a page, with curves and latencies, instead of printing text
    #[arg(long, value_name = "PATH", conflicts_with = "json")]
    pub html: Option<PathBuf>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write it as NAME=VALUE, such as file_size=1G".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_assignment_has_a_name() {
        assert_eq!(assignment("rest=0s"), Ok(("rest".to_owned(), "0s".to_owned())));
        assert_eq!(assignment("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(assignment("rest").is_err());
        assert!(assignment("=1").is_err());
    }
}
