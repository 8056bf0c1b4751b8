//! Definition of the command line with clap. Help, man pages and completions are generated from it, and it is the only
//! place that names the options.

#[cfg(target_os = "linux")]
mod attach;
mod drive;
mod groups;
mod machine;
mod maintenance;
mod profile;
mod reports;
mod run;
mod serve;
mod shared;
mod sweep;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

#[cfg(target_os = "linux")]
pub use attach::*;
pub use drive::*;
pub use groups::command;
pub use machine::*;
pub use maintenance::*;
pub use profile::*;
pub use reports::*;
pub use run::*;
pub use serve::*;
pub use shared::*;
pub use sweep::*;

/// Seed of runs without `--seed`. It is fixed, so that two people who type the same command get the same tables.
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

Exit codes: 0 done, 1 failed, 2 wrong use or bad configuration, 3 refused so
that no data is harmed, 4 not supported by this drive or system, 130
interrupted.";

const COMPLETIONS_EXAMPLES: &str = "\
The script calls ssdlab, which has to be in the PATH. Print it again after an
update.

Examples:
  ssdlab completions bash > ~/.local/share/bash-completion/completions/ssdlab
  ssdlab completions zsh > ~/.zfunc/_ssdlab
          where ~/.zfunc is in fpath
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
    /// Options of every subcommand.
    #[command(flatten)]
    pub common: Common,
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every subcommand.
#[derive(Args, Debug)]
pub struct Common {
    /// Print only warnings and errors on stderr
    #[arg(long, global = true, display_order = 900)]
    pub quiet: bool,
    /// Use of colour; auto uses it on a terminal, unless NO_COLOR is set
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

/// Use of colour; `auto` uses it on a terminal, unless NO_COLOR is set.
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
    /// Run an experiment with keys, settings and targets varied
    #[command(after_help = sweep::SWEEP_EXAMPLES)]
    Sweep(SweepArguments),
    /// Make a used simulated drive and save it
    #[command(after_help = drive::PRECONDITION_EXAMPLES)]
    Precondition(PreconditionArguments),
    #[cfg(target_os = "linux")]
    /// Create the image of a new simulated drive, for attach
    #[command(after_help = attach::CREATE_EXAMPLES)]
    Create(CreateArguments),
    #[cfg(target_os = "linux")]
    /// Attach an image as a block device, a file or an NBD server
    #[command(after_help = attach::ATTACH_EXAMPLES)]
    Attach(AttachArguments),
    #[cfg(target_os = "linux")]
    /// Detach a drive cleanly
    #[command(after_help = attach::DETACH_EXAMPLES)]
    Detach(AttachedArguments),
    #[cfg(target_os = "linux")]
    /// Show the internal state of an attached drive
    #[command(after_help = attach::STATUS_EXAMPLES)]
    Status(StatusArguments),
    #[cfg(target_os = "linux")]
    /// Cut the power of an attached drive, or find cuts that lose data
    #[command(args_conflicts_with_subcommands = true)]
    PowerCut {
        /// Action instead of a cut.
        #[command(subcommand)]
        what: Option<PowerCut>,
        /// Drive whose power is cut.
        #[command(flatten)]
        drive: AttachedArguments,
    },
    #[cfg(target_os = "linux")]
    /// Check the image of a drive
    #[command(after_help = attach::CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Show the layers between a file system and its drives
    #[command(after_help = machine::LAYERS_EXAMPLES)]
    Layers(LayersArguments),
    /// Find what makes SSDs slow or unsafe here, and how to fix it
    #[command(after_help = machine::DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Recommend an amount of over-provisioning for a workload
    #[command(after_help = maintenance::ADVISE_EXAMPLES)]
    Advise(AdviseArguments),
    #[cfg(target_os = "linux")]
    /// Rewrite data of a file or device that has become slow to read
    #[command(after_help = maintenance::REFRESH_EXAMPLES)]
    Refresh(RefreshArguments),
    /// List experiments, simulated drives, stacks or kept runs
    #[command(after_help = reports::LIST_EXAMPLES)]
    List {
        /// Things to list.
        #[command(subcommand)]
        what: List,
    },
    /// Show the report of an earlier run
    #[command(after_help = reports::SHOW_EXAMPLES)]
    Show(ShowArguments),
    /// Put several runs of one experiment side by side
    #[command(after_help = reports::COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Show runs, drives and this machine as a page in the browser
    #[command(after_help = serve::SERVE_EXAMPLES)]
    Serve(ServeArguments),
    /// Write an experiment as a fio job or script for other machines
    #[command(after_help = run::EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// Make a report of fio's results (its JSON output)
    #[command(after_help = reports::IMPORT_EXAMPLES)]
    Import(ImportArguments),
    /// Compare simulated drives with published figures of real ones
    #[command(after_help = reports::TRUTH_EXAMPLES)]
    Truth(TruthArguments),
    /// Make a profile of a drive
    Profile {
        /// Subcommand to run.
        #[command(subcommand)]
        what: ProfileCommand,
    },
    /// Print the completion script of a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write all of them to a directory
    Man {
        /// Directory for ssdlab.1, ssdlab-run.1 and so on; created if it does not exist
        directory: Option<PathBuf>,
    },
}

#[cfg(test)]
#[path = "../tests/extract/documents.rs"]
mod documents;
#[cfg(test)]
#[path = "../tests/extract/mod.rs"]
mod extract;

#[cfg(test)]
mod tests {
    use super::documents::{documents, in_markdown};
    use super::extract::{Example, in_help};
    use super::*;

    /// Placeholders in the usage line of a help page, each with a valid value.
    const PLACEHOLDERS: [(&str, &str); 7] = [
        (" [TARGET]", " sim:"),
        (" TARGET", " sim:"),
        ("EXPERIMENT", "fragmentation"),
        ("FILE.fio", "mix.fio"),
        (" TRACE", " hm_1.csv"),
        ("[--format sh|powershell|fio]", "--format sh"),
        ("NAME", "toshiba-xg5"),
    ];

    /// Returns the words of a command up to a redirection or pipe of the shell.
    fn words(line: &str) -> Vec<String> {
        let words = shlex::split(line).unwrap_or_else(|| panic!("open quotes in {line}"));
        words.into_iter().take_while(|word| ![">", "|", "&&"].contains(&word.as_str())).collect()
    }

    fn helps(command: &mut clap::Command, name: &str, found: &mut Vec<Example>) {
        found.extend(in_help(&command.render_long_help().to_string(), name));
        for inner in command.get_subcommands_mut() {
            let name = format!("{name} {}", inner.get_name());
            helps(inner, &name, found);
        }
    }

    /// Collects the lines of help that a terminal of 80 columns would break.
    fn long_lines(command: &clap::Command, found: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        found.extend(help.lines().filter(|line| line.chars().count() > 80).map(str::to_owned));
        command.get_subcommands().for_each(|inner| long_lines(inner, found));
    }

    #[test]
    fn examples_fit_on_a_terminal_of_80_columns() {
        let mut found = Vec::new();
        long_lines(&command(), &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn every_example_is_a_command_that_the_program_takes() {
        let mut examples = Vec::new();
        helps(&mut command(), "ssdlab", &mut examples);
        let in_helps = examples.len();
        for (name, text) in documents() {
            examples.extend(in_markdown(&text, &name));
        }
        assert!(in_helps > 40 && examples.len() > in_helps + 50, "{in_helps}, {}", examples.len());
        for Example { line, from } in examples {
            let mut plain = line.clone();
            for (placeholder, word) in PLACEHOLDERS {
                plain = plain.replace(placeholder, word);
            }
            if let Err(error) = command().try_get_matches_from(words(&plain)) {
                panic!("{from}: {line}\n{error}");
            }
        }
    }

    /// Commands that are quoted within sentences must exist, with their options.
    #[test]
    fn every_command_that_a_sentence_names_is_there() {
        let mut named = 0;
        for (name, text) in documents() {
            for call in text.split('`').skip(1).step_by(2).filter(|it| it.starts_with("ssdlab ")) {
                let mut whole = command();
                whole.build();
                let mut inner = &whole;
                for word in call.split_whitespace().skip(1) {
                    let option = word.trim_matches(['[', ']']).split('=').next().unwrap_or(word);
                    if let Some(option) = option.strip_prefix("--") {
                        let has = |it: &clap::Arg| it.get_long() == Some(option);
                        assert!(inner.get_arguments().any(has), "{name}: {call}: no --{option}");
                    } else if let Some(next) = inner.find_subcommand(word) {
                        inner = next;
                    } else if inner.has_subcommands() && inner.get_positionals().next().is_none() {
                        panic!("{name}: {call}: there is no command {word}");
                    }
                }
                named += 1;
            }
        }
        assert!(named > 20, "{named}");
    }
}
