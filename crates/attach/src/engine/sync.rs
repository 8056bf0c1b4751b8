//! Making the image durable: one `fdatasync` for all who wait for one.

use std::sync::PoisonError;

use super::Errno;
use crate::image::host::HostFile;
use crate::sync::{Condvar, Mutex};

/// Who makes the image durable.
#[derive(Debug)]
pub(super) struct Syncer {
    file: HostFile,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Everything up to this stamp is durable.
    durable: u64,
    /// The largest stamp that anybody waits for.
    wanted: u64,
    is_busy: bool,
}

impl Syncer {
    pub(super) fn new(file: HostFile) -> Syncer {
        Syncer { file, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Returns when everything up to `stamp`, which was written, is durable.
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
            // All that anybody waits for was written before they began to wait.
            let covers = state.wanted;
            state.is_busy = true;
            drop(state);
            let outcome = self.file.sync_data();
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_busy = false;
            // A failure is remembered by the file.
            if outcome.is_ok() {
                state.durable = state.durable.max(covers);
            }
            self.changed.notify_all();
        }
    }

    /// The failure after which nobody knows what is durable, whoever met it: nothing is believed any more.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.file.failed()
    }
}
