//! The error type of the lab. Its kind decides the exit code.

use std::path::PathBuf;

use ssdlab_drive::{DriveError, ErrorKind};
use ssdlab_model::profile::ProfileError;
use ssdlab_units::text::QuantityError;

/// Reason why a run could not start or did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The drive failed, refused a request, or lacks a feature.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// SQLite, which the experiment `barrier` uses, failed.
    #[error("SQLite failed in the experiment")]
    Sqlite(#[from] rusqlite::Error),
    /// The profile of a simulated drive is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A file that the user named cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A file of another program cannot be used.
    #[error("{}: {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Error, with the number of the line.
        source: ssdlab_interchange::InputError,
    },
    /// The target cannot be parsed.
    #[error("target '{text}': {why}")]
    Target {
        /// Target as the user wrote it.
        text: String,
        /// The error, and what would be right.
        why: String,
    },
    /// A file of published figures cannot be used.
    #[error("figures of {name}: {why}")]
    Figures {
        /// Name of the drive, or of the file.
        name: String,
        /// The error.
        why: String,
    },
    /// A history of requests cannot be read.
    #[error("the history: {0}")]
    History(String),
    /// The operation is not supported for this drive, experiment or machine.
    #[error("{0}")]
    Unsupported(String),
    /// There is no experiment of this name.
    #[error("there is no experiment '{name}'; {hint}")]
    UnknownExperiment {
        /// Name as the user wrote it.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// The experiment has no parameter of this name.
    #[error("the experiment {experiment} has no parameter '{name}'; {hint}")]
    UnknownParameter {
        /// The experiment.
        experiment: &'static str,
        /// Name as the user wrote it.
        name: String,
        /// The nearest name, the place where the parameter belongs, or all names.
        hint: String,
    },
    /// The value of a parameter cannot be parsed.
    #[error("parameter {name}: {source}")]
    Value {
        /// The parameter.
        name: String,
        /// The error.
        source: QuantityError,
    },
    /// A parameter is set more than once.
    #[error("parameter {name} is set more than once")]
    Repeated {
        /// The parameter.
        name: &'static str,
    },
    /// The value of a parameter is out of range.
    #[error("parameter {name} is {value}: {why}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Value as the user wrote it.
        value: String,
        /// Range or condition that the value must meet.
        why: String,
    },
}

impl LabError {
    /// Returns the kind of failure, which decides the exit code.
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
