//! Watcher that calls Python regularly while the library works without the interpreter's lock: for Ctrl-C and for
//! progress.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use ssdlab_drive::{Control, Observer, Progress};
use ssdlab_lab::experiment::Watcher;

/// Time between two calls of Python. Each call may have to wait for the lock, and Ctrl-C needs no faster response.
const EVERY: Duration = Duration::from_millis(50);

/// Watcher of a run, a phase or a sweep.
pub struct Watch {
    /// Python function that is called with the name of the step and the share of the whole that is done, from 0 to 1.
    callback: Option<Py<PyAny>>,
    latest: Instant,
    step: String,
    before: f64,
    weight: f64,
    stopped: Option<PyErr>,
}

impl Watch {
    /// Creates a watcher that calls `callback`, if there is one.
    pub fn new(callback: Option<Py<PyAny>>) -> Watch {
        let (step, before, weight) = (String::new(), 0.0, 1.0);
        Watch { callback, latest: Instant::now(), step, before, weight, stopped: None }
    }

    /// Checks for signals and reports progress, unless that was done within the last 50 ms.
    pub fn look(&mut self, done: f64) -> Control {
        if self.stopped.is_some() {
            return Control::Cancel;
        }
        if self.latest.elapsed() < EVERY {
            return Control::Continue;
        }
        let share = (self.before + self.weight * done).clamp(0.0, 1.0);
        let looked = Python::attach(|py| {
            py.check_signals()?;
            match &self.callback {
                Some(callback) => callback.call1(py, (&self.step, share)).map(|_| ()),
                None => Ok(()),
            }
        });
        self.latest = Instant::now();
        match looked {
            Ok(()) => Control::Continue,
            Err(error) => {
                self.stopped = Some(error);
                Control::Cancel
            }
        }
    }

    /// Returns the exception that ended the work, and true if it was Ctrl-C.
    pub fn stopped(self, py: Python<'_>) -> Option<(PyErr, bool)> {
        let error = self.stopped?;
        let is_ctrl_c = error.is_instance_of::<PyKeyboardInterrupt>(py);
        Some((error, is_ctrl_c))
    }
}

impl Watcher for Watch {
    fn step(&mut self, name: &str, weight: f64) {
        // Nothing precedes the first step.
        self.before += if self.step.is_empty() { 0.0 } else { self.weight };
        self.weight = weight;
        name.clone_into(&mut self.step);
    }

    fn progress(&mut self, done: f64) -> Control {
        self.look(done)
    }
}

impl Observer for Watch {
    fn progress(&mut self, progress: &Progress) -> Control {
        let share = |done: u64, total: u64| done as f64 / total.max(1) as f64;
        let done = match (progress.bytes_total, progress.time_total) {
            (Some(total), _) => share(progress.bytes_done.bytes(), total.bytes()),
            (None, Some(total)) => share(progress.elapsed.nanos(), total.nanos()),
            (None, None) => 0.0,
        };
        self.look(done)
    }
}
