//! Arguments that several commands share.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use super::SEED_DEFAULT;
use crate::completion::settings;

/// Store of runs.
#[derive(Args, Debug)]
pub struct StoreArguments {
    /// File that runs are kept in [default: $SSDLAB_STORE, or ssdlab/runs.sqlite in the user's
    /// data directory]
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,
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

/// Format in which an existing report is shown.
#[derive(Args, Debug)]
pub struct Form {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write a page, with curves and latencies, instead of printing text
    #[arg(long, value_name = "PATH", conflicts_with = "json")]
    pub html: Option<PathBuf>,
}

/// Splits `NAME=VALUE`.
pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write it as NAME=VALUE, such as file_size=1G".to_owned()),
    }
}

/// Random seed.
#[derive(Args, Clone, Copy, Debug)]
pub struct Seed {
    /// Seed of every random choice: the same seed gives the same figures on a simulated drive
    #[arg(
        long = "seed",
        value_name = "N",
        default_value_t = SEED_DEFAULT,
        allow_negative_numbers = true
    )]
    pub number: u64,
}

/// Changes of a protocol.
#[derive(Args, Debug)]
pub struct ProtocolArguments {
    /// Finish in seconds: the whole protocol on a smaller simulated drive, if its length follows
    /// the capacity; otherwise, and on real drives, a shortened protocol
    #[arg(long)]
    pub quick: bool,
    /// Change a parameter of the protocol; may be repeated
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = assignment,
        add = ArgValueCompleter::new(settings)
    )]
    pub set: Vec<(String, String)>,
    /// Random seed.
    #[command(flatten)]
    pub seed: Seed,
}

/// Output of a report that is made now.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the report as a page, with curves and latencies
    #[arg(long, value_name = "PATH")]
    pub html: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_has_a_name() {
        assert_eq!(assignment("rest=0s"), Ok(("rest".to_owned(), "0s".to_owned())));
        assert_eq!(assignment("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(assignment("rest").is_err());
        assert!(assignment("=1").is_err());
    }
}
