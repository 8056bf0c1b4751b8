//! A refresh from beginning to end: survey, read, judge, plan; then rewrite and read again.

mod analysis;
mod execution;

use std::path::PathBuf;
use std::time::Duration;

use ssdlab_units::ByteLength;

use crate::DriveError;
use crate::journal::Journal;
use crate::judge::Evidence;
use crate::plan::FreshReadTime;
use crate::probe::Probe;
use crate::rate_limit::RateLimiter;
use crate::stall::Callback;
use crate::survey::{Consents, RequiredFile, Survey};
use crate::window::Span;

/// Options of a refresh.
#[derive(Clone, Debug)]
pub struct Options {
    /// Consents of the user.
    pub consents: Consents,
    /// Length of a window.
    pub window: ByteLength,
    /// Bytes read and written per second, together, at most; `None` for no limit.
    pub rate: Option<ByteLength>,
    /// Longest time that a file system may be frozen.
    pub max_freeze: Duration,
    /// True if all windows are rewritten, slow or not.
    pub all: bool,
    /// True to resume an earlier refresh that was interrupted.
    pub resume: bool,
    /// Directory of the journals.
    pub journals: PathBuf,
    /// Files that must not be frozen, besides those that the survey finds.
    pub required_files: Vec<RequiredFile>,
    /// Temperature in degrees Celsius from which the refresh pauses to let the drive cool.
    pub temperature_max: f64,
    /// Callback for steps that take far longer than they should, called while they last.
    pub on_stall: Callback,
}

/// Callback for progress.
pub trait ProgressObserver {
    /// Reports that this share (0 to 1) of a step is done. Returns true to continue, false to cancel.
    fn progress(&mut self, step: &str, share: f64) -> bool;
}

impl<F: FnMut(&str, f64) -> bool> ProgressObserver for F {
    fn progress(&mut self, step: &str, share: f64) -> bool {
        self(step, share)
    }
}

/// Reports progress. Returns an error of kind `Cancelled` if the callback asks to stop.
fn report_progress(
    observer: &mut dyn ProgressObserver,
    step: &str,
    done: usize,
    of: usize,
) -> Result<(), DriveError> {
    let share = done as f64 / of.max(1) as f64;
    if observer.progress(step, share) { Ok(()) } else { Err(DriveError::cancelled()) }
}

/// A refresh for which the survey is done and the journal is open.
#[derive(Debug)]
pub struct Refresh {
    survey: Survey,
    options: Options,
    journal: Journal,
    probe: Probe,
    limiter: RateLimiter,
    windows: Vec<Span>,
    evidence: Vec<Evidence>,
    /// Seconds per byte of fresh data without other load; `None` if not known.
    fresh: Option<f64>,
    /// Mean seconds per byte of fresh data; `None` unless baselines were measured in this run.
    typical: Option<FreshReadTime>,
    notes: Vec<String>,
}
