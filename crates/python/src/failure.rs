//! Errors as exceptions of Python, one class for each kind.

use std::error::Error;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use ssdlab_drive::{DriveError, ErrorKind};
use ssdlab_lab::LabError;
use ssdlab_lab::compare::CompareError;
use ssdlab_lab::output::json::ReportError;
use ssdlab_lab::store::StoreError;
use ssdlab_sweep::SweepError;
use ssdlab_theory::ParameterError;

/// Failure, before it becomes an exception of Python.
#[derive(Debug)]
pub struct Failure {
    kind: ErrorKind,
    message: String,
}

impl Failure {
    /// Creates a failure of `kind` whose message is the error and its causes in one sentence.
    pub fn of(kind: ErrorKind, error: &(dyn Error + 'static)) -> Failure {
        Failure { kind, message: chain(error) }
    }

    /// Creates a failure by wrong use; `message` says what is right.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { kind: ErrorKind::Usage, message: message.into() }
    }

    /// Creates a failure by an operation that was refused to protect data.
    pub fn refused(message: impl Into<String>) -> Failure {
        Failure { kind: ErrorKind::Refused, message: message.into() }
    }

    /// Creates a failure by an operation that this drive or machine does not support.
    pub fn unsupported(message: impl Into<String>) -> Failure {
        Failure { kind: ErrorKind::Unsupported, message: message.into() }
    }

    /// Returns true if the user ended the operation.
    pub fn is_cancelled(&self) -> bool {
        self.kind == ErrorKind::Cancelled
    }

    /// Returns the name of the exception class in `ssdlab`.
    fn class(&self) -> &'static str {
        match self.kind {
            ErrorKind::Usage => "UsageError",
            ErrorKind::Refused => "RefusedError",
            ErrorKind::Unsupported => "UnsupportedError",
            ErrorKind::NoSpace => "NoSpaceError",
            ErrorKind::Io => "IoError",
            ErrorKind::EndOfLife => "EndOfLifeError",
            ErrorKind::Cancelled => "Interrupted",
            // The enumeration is non-exhaustive: unknown kinds become the base class.
            _ => "Error",
        }
    }

    /// Returns the exception; `result` is its attribute of that name, the measurements until the failure.
    pub fn with_result(self, py: Python<'_>, result: Option<Bound<'_, PyAny>>) -> PyErr {
        exception(py, self.class(), &self.message, result)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| failure.with_result(py, None))
    }
}

/// Returns an exception of the class of this name in `ssdlab`.
pub fn exception(
    py: Python<'_>,
    class: &str,
    message: &str,
    result: Option<Bound<'_, PyAny>>,
) -> PyErr {
    let made = py.import("ssdlab._errors").and_then(|module| {
        let error = module.getattr(class)?.call1((message,))?;
        if let Some(result) = result {
            error.setattr("result", result)?;
        }
        Ok(PyErr::from_value(error))
    });
    // If the Python package is missing, there are no classes; the message is kept in a RuntimeError.
    made.unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}

/// Returns an error and its causes in one sentence, without causes that the text already contains.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        next = cause.source();
    }
    words
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        Failure::of(error.kind(), &error)
    }
}

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Failure {
        Failure::of(error.kind(), &error)
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Failure {
        Failure::of(error.kind(), &error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let kind = match error {
            StoreError::Missing { .. }
            | StoreError::NoSuchRun { .. }
            | StoreError::BadReference { .. } => ErrorKind::Usage,
            _ => ErrorKind::Io,
        };
        Failure::of(kind, &error)
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Failure {
        Failure::of(ErrorKind::Usage, &error)
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Failure {
        Failure::of(ErrorKind::Usage, &error)
    }
}

impl From<ParameterError> for Failure {
    fn from(error: ParameterError) -> Failure {
        Failure::of(ErrorKind::Usage, &error)
    }
}
