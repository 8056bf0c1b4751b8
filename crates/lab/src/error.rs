//! One error for the lab: what kind it is decides the exit code.

use std::path::PathBuf;

use ssdlab_drive::{DriveError, ErrorKind};
use ssdlab_model::profile::ProfileError;
use ssdlab_units::text::QuantityError;

/// Why a run could not be made or did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The drive failed, refused or could not.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// SQLite, which an experiment runs, has failed.
    #[error("SQLite failed in the experiment")]
    Sqlite(#[from] rusqlite::Error),
    /// The profile of a simulated drive is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A file that names a drive could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of another program's that cannot be used.
    #[error("{}: {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line.
        source: ssdlab_interchange::InputError,
    },
    /// A target that cannot be understood.
    #[error("target '{text}': {why}")]
    Target {
        /// What was written.
        text: String,
        /// What is wrong with it, and what is right.
        why: String,
    },
    /// A file of published figures that cannot be used.
    #[error("figures of {name}: {why}")]
    Figures {
        /// The drive, or the file.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A history of requests that cannot be read.
    #[error("the history: {0}")]
    History(String),
    /// Something that is not built yet.
    #[error("{0}")]
    Unsupported(String),
    /// An experiment that does not exist.
    #[error("there is no experiment '{name}'; {hint}")]
    UnknownExperiment {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A parameter that the experiment does not have.
    #[error("the experiment {experiment} has no parameter '{name}'; {hint}")]
    UnknownParameter {
        /// The experiment.
        experiment: &'static str,
        /// What was asked for.
        name: String,
        /// The nearest name, where it belongs, or all there are.
        hint: String,
    },
    /// A parameter's value that cannot be read.
    #[error("parameter {name}: {source}")]
    Value {
        /// The parameter.
        name: String,
        /// What is wrong.
        source: QuantityError,
    },
    /// A parameter that is set more than once.
    #[error("parameter {name} is set more than once")]
    Repeated {
        /// The parameter.
        name: &'static str,
    },
    /// A parameter's value that makes no sense.
    #[error("parameter {name} is {value}: {why}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        why: String,
    },
}

impl LabError {
    /// Returns what kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            LabError::Drive(error) => error.kind(),
            LabError::Sqlite(_) => ErrorKind::Io,
            LabError::Unsupported(_) => ErrorKind::Unsupported,
            LabError::Read { .. }
            | LabError::Input { .. }
            | LabError::Profile(_)
            | LabError::Target { .. }
            | LabError::Figures { .. }
            | LabError::History(_)
            | LabError::UnknownExperiment { .. }
            | LabError::UnknownParameter { .. }
            | LabError::Value { .. }
            | LabError::Repeated { .. }
            | LabError::Range { .. } => ErrorKind::Usage,
        }
    }
}
