//! Ctrl-C: the first ends the run in good order, the second ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Exit;

/// Whether someone wants the run to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. Until then, and in commands that do not listen, signals end the
    /// program as they always do.
    pub fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Handlers run in the order they were registered: the flag set by the first signal
            // arms the shutdown that the second one meets.
            let flag = &interrupt.0;
            flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, flag.clone())?;
            flag::register(signal, flag.clone())?;
        }
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
