//! A helper thread that carries out flash operations on the image, in real time.
//!
//! Programs of several dies often end together. Each costs the host tens of microseconds, and punching out
//! erased data costs milliseconds: a thread that also answers requests would answer late. The helper has
//! real-time priority only while it holds the drive's lock, for a microsecond or two between two steps. The
//! data of operations that it has not carried out is in RAM. If it falls behind, it keeps its priority during
//! its work, which slows down the host; if that is not enough, requests wait for it.
//!
//! A drive with PLP has no helper: before it erases, the image has to hold all that its buffer holds, and a
//! dump has no room for operations that a helper has not carried out.

use std::time::Duration;

use super::requests::IDLE_AFTER;
use super::{Engine, Inner, Time};
use crate::scheduling::Scheduling;
use crate::store::step::{Step, StepBuffers};
use crate::sync::{MutexGuard, wait_timeout};

/// Sleep of the helper while an operation waits to be carried out, or while requests arrive.
const BUSY_SLEEP: Duration = Duration::from_micros(500);

/// Sleep of the helper while the drive is idle, and before it repeats a step that failed.
const IDLE_SLEEP: Duration = Duration::from_millis(20);

/// Maximum number of bytes that wait to be programmed in the image; they are held in RAM.
const BACKLOG_MAX: u64 = 64 << 20;

/// The helper's next action.
enum Next {
    Do(Step),
    Sleep(Duration),
}

impl Engine {
    /// Carries out flash operations on the image until the drive is closed or loses power, so that threads with
    /// requests need not. Returns at once if those threads do so themselves: in fast time, and on a drive with
    /// PLP. Call it in a thread of its own.
    pub fn run_helper(&self) {
        if self.clock.time() != Time::Real || self.has_plp {
            return;
        }
        let scheduling = Scheduling::request();
        let mut buffers = StepBuffers::default();
        let mut inner = self.lock();
        if !inner.is_closed {
            inner.model.store().set_has_helper(true);
        }
        while !inner.is_cut && !inner.is_closed {
            match inner.next_step(self) {
                Next::Do(step) => {
                    let is_behind = inner.model.store().backlog() > inner.backlog_max / 4;
                    drop(inner);
                    if is_behind {
                        step.carry_out(&self.file, &mut buffers);
                    } else {
                        scheduling.without_priority(|| step.carry_out(&self.file, &mut buffers));
                    }
                    inner = self.lock();
                    // A step that fails is repeated, and its error reported to whoever depends on it.
                    let _ = inner.model.store().finish_step();
                    if inner.helper_waiters > 0 {
                        self.step_done.notify_all();
                    }
                }
                Next::Sleep(time) => {
                    let woken = wait_timeout(&self.helper_wanted, &self.inner, inner, time);
                    inner = woken.expect("no request has panicked");
                }
            }
        }
        self.step_done.notify_all();
    }

    /// Waits, without the lock, until the helper has carried out the first `op_count` flash operations. Returns
    /// early if there is no helper, or if the image cannot be written.
    pub(super) fn wait_for_helper<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        op_count: u64,
    ) -> MutexGuard<'a, Inner> {
        loop {
            let store = inner.model.store();
            if !store.has_helper() || store.has_failed_write() || store.is_carried_out(op_count) {
                return inner;
            }
            inner.helper_waiters += 1;
            self.helper_wanted.notify_one();
            let woken = wait_timeout(&self.step_done, &self.inner, inner, IDLE_SLEEP);
            inner = woken.expect("no request has panicked");
            inner.helper_waiters -= 1;
        }
    }
}

impl Inner {
    /// Carries out flash operations on the image. If a helper does that, carries out one operation, and only if
    /// the backlog is too long.
    #[inline]
    pub(super) fn carry_out_backlog(&mut self) {
        let backlog_max = self.backlog_max;
        let store = self.model.store();
        // What cannot be written now is written when the disk has space again; reads go on meanwhile.
        if !store.has_helper() {
            let _ = self.carry_out();
        } else if store.backlog() > backlog_max {
            let _ = store.carry_out_step();
        }
    }

    fn next_step(&mut self, engine: &Engine) -> Next {
        let now = engine.clock.now(self.busy_until).max(self.latest);
        let is_idle = now.since(self.latest) >= IDLE_AFTER;
        let store = self.model.store();
        match store.begin_next_step() {
            Ok(Some(step)) => return Next::Do(step),
            Ok(None) if store.backlog() > 0 || !is_idle => return Next::Sleep(BUSY_SLEEP),
            Ok(None) | Err(_) => {}
        }
        // Punching can be done now: no request has come for a while, or the image needs the space.
        match store.begin_punching() {
            Some(step) => Next::Do(step),
            None if store.backlog() > 0 && !store.has_failed_write() => Next::Sleep(BUSY_SLEEP),
            None => Next::Sleep(IDLE_SLEEP),
        }
    }
}

/// Returns the maximum number of program units of `bytes` each that may wait for the helper.
pub(super) fn backlog_max(bytes: u64) -> usize {
    (BACKLOG_MAX / bytes).max(64) as usize
}
