//! Failures of the program: an exit code, and an error with its causes.

use std::error::Error;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use ssdlab_attach::AttachError;
use ssdlab_drive::ErrorKind;
use ssdlab_host::HostError;
use ssdlab_lab::LabError;
use ssdlab_lab::compare::CompareError;
use ssdlab_lab::store::StoreError;
use ssdlab_sweep::SweepError;

/// Exit code of the program. Scripts depend on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Something failed that should have worked.
    Failed = 1,
    /// Wrong use or bad configuration. clap ends with the same number.
    Usage = 2,
    /// Refused, so that no data is harmed.
    Refused = 3,
    /// This drive or system cannot do it.
    Unsupported = 4,
    /// `doctor` found something worth knowing, and nothing worse.
    Notice = 10,
    /// `doctor` found something that costs speed or life, and nothing worse.
    Warning = 11,
    /// `doctor` found something that does harm.
    Problem = 12,
    /// Interrupted: 128 and the number of SIGINT, as shells have it.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error that ends the program.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    /// Creates a failure of an exit code and an error.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Failure {
        Failure { exit, error: error.into() }
    }

    /// Creates a failure by wrong use; `message` says what is right.
    pub fn usage(message: String) -> Failure {
        Failure::new(Exit::Usage, anyhow::Error::msg(message))
    }

    /// Creates a failure of a system call, with the operation `what` and an exit code.
    pub fn system(exit: Exit, what: String, source: std::io::Error) -> Failure {
        Failure::new(exit, anyhow::Error::new(source).context(what))
    }

    /// Returns the exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns the error and its causes, without causes that an earlier message already contains.
    pub fn chain(&self) -> Vec<String> {
        error_chain(self.error.as_ref())
    }
}

/// Returns an error and its causes as sentences, without causes that an earlier one already contains.
pub fn error_chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !sentences.iter().any(|earlier| earlier.contains(&text)) {
            sentences.push(text);
        }
        next = error.source();
    }
    sentences
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        let exit = match error.kind() {
            ErrorKind::Usage => Exit::Usage,
            ErrorKind::Refused => Exit::Refused,
            ErrorKind::Unsupported | ErrorKind::NoSpace | ErrorKind::EndOfLife => Exit::Unsupported,
            ErrorKind::Cancelled => Exit::Interrupted,
            // The enumeration is non-exhaustive: unknown kinds are plain failures.
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let exit = match error {
            StoreError::Missing { .. }
            | StoreError::NoSuchRun { .. }
            | StoreError::BadReference { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}

#[cfg(target_os = "linux")]
impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        let exit = match error {
            AttachError::Exists { .. }
            | AttachError::InUse { .. }
            | AttachError::Busy { .. }
            | AttachError::Untrusted { .. }
            | AttachError::Holds { .. } => Exit::Refused,
            AttachError::NoImage { .. }
            | AttachError::NotAnImage { .. }
            | AttachError::Profile(_)
            | AttachError::Usage(_) => Exit::Usage,
            AttachError::Unsupported { .. } | AttachError::System(_) => Exit::Unsupported,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Failure {
        let exit = match error {
            HostError::Target(_) | HostError::NotACapture { .. } => Exit::Usage,
            HostError::Refused(_) => Exit::Refused,
            HostError::Unsupported(_) => Exit::Unsupported,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Failure {
        match error {
            SweepError::Lab(error) => error.into(),
            SweepError::Usage(_) => Failure::new(Exit::Usage, error),
            _ => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Failure {
        Failure::new(Exit::Usage, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_drive::DriveError;

    fn exit_of(kind: ErrorKind) -> Exit {
        Failure::from(LabError::from(DriveError::new(kind, "words"))).exit()
    }

    #[test]
    fn every_kind_of_failure_has_its_exit_code() {
        assert_eq!(exit_of(ErrorKind::Usage), Exit::Usage);
        assert_eq!(exit_of(ErrorKind::Refused), Exit::Refused);
        assert_eq!(exit_of(ErrorKind::Unsupported), Exit::Unsupported);
        assert_eq!(exit_of(ErrorKind::NoSpace), Exit::Unsupported);
        assert_eq!(exit_of(ErrorKind::EndOfLife), Exit::Unsupported);
        assert_eq!(exit_of(ErrorKind::Io), Exit::Failed);
        assert_eq!(exit_of(ErrorKind::Cancelled), Exit::Interrupted);
    }

    #[test]
    fn a_cause_that_its_message_quotes_is_said_once() {
        let source = std::io::Error::other("the cable is out");
        let error = DriveError::with_source(ErrorKind::Io, "cannot write", source);
        let failure = Failure::from(LabError::from(error));
        assert_eq!(failure.chain(), ["cannot write", "the cable is out"]);

        let quoting = anyhow::Error::msg("deep").context("not that: deep");
        assert_eq!(Failure::new(Exit::Failed, quoting).chain(), ["not that: deep"]);
    }
}
