//! A refresh from beginning to end: look, read, judge, plan; then rewrite, and read again.

mod carry_out;
mod look;

use std::path::PathBuf;
use std::time::Duration;

use ssdlab_units::ByteLength;

use crate::DriveError;
use crate::journal::Journal;
use crate::judge::Evidence;
use crate::lateness::Tell;
use crate::pace::Pace;
use crate::plan::FreshPace;
use crate::probe::Probe;
use crate::survey::{Agreed, Needed, Survey};
use crate::window::Span;

/// How a refresh is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the user agreed to.
    pub agreed: Agreed,
    /// Bytes of a window.
    pub window: ByteLength,
    /// The most that is read and written in a second, together; nothing for as fast as it goes.
    pub rate: Option<ByteLength>,
    /// The longest that a file system may be frozen.
    pub max_freeze: Duration,
    /// True if all windows are rewritten, slow or not.
    pub all: bool,
    /// True to go on where an earlier refresh has ended.
    pub resume: bool,
    /// Where journals are kept.
    pub journals: PathBuf,
    /// What must not be frozen, besides what is found here.
    pub needed: Vec<Needed>,
    /// From this temperature on the drive is left to cool, in degrees Celsius.
    pub heat_max: f64,
    /// Who is told what takes far longer than it should, while it does.
    pub tell: Tell,
}

/// Whoever looks on.
pub trait Watch {
    /// A step goes on, and this share of it is done. Says whether to go on.
    fn progress(&mut self, step: &str, share: f64) -> bool;
}

impl<F: FnMut(&str, f64) -> bool> Watch for F {
    fn progress(&mut self, step: &str, share: f64) -> bool {
        self(step, share)
    }
}

/// Asks whoever looks on whether to go on.
fn go_on(watch: &mut dyn Watch, step: &str, done: usize, of: usize) -> Result<(), DriveError> {
    let share = done as f64 / of.max(1) as f64;
    if watch.progress(step, share) { Ok(()) } else { Err(DriveError::cancelled()) }
}

/// A refresh that was begun.
#[derive(Debug)]
pub struct Refresh {
    survey: Survey,
    options: Options,
    journal: Journal,
    probe: Probe,
    pace: Pace,
    windows: Vec<Span>,
    evidence: Vec<Evidence>,
    /// Seconds a byte of fresh data when nobody else is there, where it is known.
    fresh: Option<f64>,
    /// The time that fresh data takes in the mean, where it was measured now.
    typical: Option<FreshPace>,
    notes: Vec<String>,
}
