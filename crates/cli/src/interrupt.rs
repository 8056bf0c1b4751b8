//! Ctrl-C: the first signal ends the run cleanly, a second one ends the program at once.
//!
//! Signals that follow the first within [`SAME_REQUEST_TIME`] count as the first: `timeout` signals the program and
//! then its whole process group, and a terminal that closes sends SIGHUP to both.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::Exit;

/// Time after the first signal within which further signals belong to the same request.
const SAME_REQUEST_TIME: Duration = Duration::from_secs(1);

/// Flag that is set when the user asks for the end of the run.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handler for SIGINT, SIGTERM and SIGHUP (on Windows for Ctrl-C, Ctrl-Break and the end of the
    /// console). It can be called only once. Without it, signals end the program as usual.
    pub fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let wanted = interrupt.0.clone();
        let mut signals = SignalHistory::default();
        let listening = ctrlc::set_handler(move || match signals.register(Instant::now()) {
            Reaction::EndRun => wanted.store(true, Ordering::Relaxed),
            Reaction::Nothing => {}
            Reaction::EndProgram => std::process::exit(Exit::Interrupted as i32),
        });
        match listening {
            Ok(()) => Ok(interrupt),
            Err(ctrlc::Error::System(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Returns true if a signal has arrived.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// The run ends in good order.
    EndRun,
    /// The signal repeats the one before.
    Nothing,
    /// The program ends at once.
    EndProgram,
}

/// Signals that have arrived.
#[derive(Debug, Default)]
struct SignalHistory {
    first: Option<Instant>,
}

impl SignalHistory {
    /// Returns the effect of a signal that arrives at `now`.
    fn register(&mut self, now: Instant) -> Reaction {
        match self.first {
            None => {
                self.first = Some(now);
                Reaction::EndRun
            }
            Some(first) if now.saturating_duration_since(first) < SAME_REQUEST_TIME => {
                Reaction::Nothing
            }
            Some(_) => Reaction::EndProgram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_one_second_are_one_and_a_later_one_ends_the_program() {
        let mut signals = SignalHistory::default();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(signals.register(start), Reaction::EndRun);
        assert_eq!(signals.register(start), Reaction::Nothing);
        assert_eq!(signals.register(after(999)), Reaction::Nothing);
        assert_eq!(signals.register(after(1000)), Reaction::EndProgram);
    }
}
