//! Ctrl-C: the first ends the run in good order, a second one ends the program at once.
//!
//! Signals that follow the first within [`ONE_PRESS`] are the first again: `timeout` signals the
//! program and then its whole process group, and a terminal that closes sends SIGHUP to both.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::Exit;

/// Signals closer to the first than this are the same request to end.
const ONE_PRESS: Duration = Duration::from_secs(1);

/// Tells whether the user has asked for the run to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT, SIGTERM and SIGHUP from now on (on Windows for Ctrl-C, Ctrl-Break and the end of the
    /// console); once in a program. Until then, and in commands that do not listen, signals end the program as they
    /// always do.
    pub fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let wanted = interrupt.0.clone();
        let mut requests = Requests::default();
        let listening = ctrlc::set_handler(move || match requests.take(Instant::now()) {
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

    /// Returns whether a signal came.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What follows from a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// The run ends in good order.
    EndRun,
    /// The signal repeats the one before.
    Nothing,
    /// The program ends at once.
    EndProgram,
}

/// The signals that came so far.
#[derive(Debug, Default)]
struct Requests {
    first: Option<Instant>,
}

impl Requests {
    /// Returns what follows from a signal that came at `now`.
    fn take(&mut self, now: Instant) -> Reaction {
        match self.first {
            None => {
                self.first = Some(now);
                Reaction::EndRun
            }
            Some(first) if now.saturating_duration_since(first) < ONE_PRESS => Reaction::Nothing,
            Some(_) => Reaction::EndProgram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_one_second_are_one_and_a_later_one_ends_the_program() {
        let mut requests = Requests::default();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(requests.take(start), Reaction::EndRun);
        assert_eq!(requests.take(start), Reaction::Nothing);
        assert_eq!(requests.take(after(999)), Reaction::Nothing);
        assert_eq!(requests.take(after(1000)), Reaction::EndProgram);
    }
}
