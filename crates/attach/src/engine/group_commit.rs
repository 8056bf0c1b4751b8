//! Group commit of the image: one `fdatasync` for all threads that wait for one.

use std::sync::PoisonError;

use super::Errno;
use crate::image::host::HostFile;
use crate::sync::{Condvar, Mutex};

/// Makes writes to the image durable.
#[derive(Debug)]
pub(super) struct GroupCommit {
    file: HostFile,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Stamp up to which everything is durable.
    durable: u64,
    /// Largest stamp that a thread waits for.
    wanted: u64,
    is_busy: bool,
}

impl GroupCommit {
    pub(super) fn new(file: HostFile) -> GroupCommit {
        GroupCommit { file, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until everything that was written up to `stamp` is durable.
    pub(super) fn wait_for(&self, stamp: u64) -> Result<(), Errno> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.wanted = state.wanted.max(stamp);
        loop {
            if let Some(failed) = self.failed() {
                return Err(failed);
            }
            if state.durable >= stamp {
                return Ok(());
            }
            if state.is_busy {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // Each waiting thread had written its data before it began to wait, so one sync covers all of them.
            let covers = state.wanted;
            state.is_busy = true;
            drop(state);
            let outcome = self.file.sync_data();
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_busy = false;
            // The file remembers a failed sync.
            if outcome.is_ok() {
                state.durable = state.durable.max(covers);
            }
            self.changed.notify_all();
        }
    }

    /// Returns the error of the first failed sync, of any thread; `None` if none has failed. After one, nobody
    /// knows what is durable.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.file.failed()
    }
}
