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

use super::requests::AT_REST;
use super::{Engine, Inner, Time};
use crate::prompt::Prompt;
use crate::store::work::{Hands, Work};
use crate::sync::{MutexGuard, wait_timeout};

/// Sleep of the helper while an operation waits to be carried out, or while requests arrive.
const SHORTLY: Duration = Duration::from_micros(500);

/// Sleep of the helper while the drive is idle, and before it repeats a step that failed.
const LONG: Duration = Duration::from_millis(20);

/// Maximum number of bytes that wait to be programmed in the image; they are held in RAM.
const BACKLOG_MAX: u64 = 64 << 20;

/// The helper's next action.
enum Next {
    Do(Work),
    Sleep(Duration),
}

impl Engine {
    /// Carries out flash operations on the image until the drive is closed or loses power, so that threads with
    /// requests need not. Returns at once if those threads do so themselves: in fast time, and on a drive with
    /// PLP. Call it in a thread of its own.
    pub fn help(&self) {
        if self.clock.time() != Time::Real || self.protected {
            return;
        }
        let prompt = Prompt::ask();
        let mut hands = Hands::default();
        let mut inner = self.lock();
        if !inner.is_closed {
            inner.model.store().set_helped(true);
        }
        while !inner.is_cut && !inner.is_closed {
            match inner.next_step(self) {
                Next::Do(work) => {
                    let is_behind = inner.model.store().backlog() > inner.backlog_max / 4;
                    drop(inner);
                    if is_behind {
                        work.carry_out(&self.file, &mut hands);
                    } else {
                        prompt.meanwhile(|| work.carry_out(&self.file, &mut hands));
                    }
                    inner = self.lock();
                    // A step that fails is repeated, and its error reported to whoever depends on it.
                    let _ = inner.model.store().finish_under_way();
                    if inner.waiting > 0 {
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

    /// Waits, without the lock, until the helper has carried out the first `happened` flash operations. Returns
    /// early if there is no helper, or if the image cannot be written.
    pub(super) fn be_helped<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        happened: u64,
    ) -> MutexGuard<'a, Inner> {
        loop {
            let store = inner.model.store();
            if !store.is_helped() || store.is_stuck() || store.has_heard(happened) {
                return inner;
            }
            inner.waiting += 1;
            self.helper_wanted.notify_one();
            let woken = wait_timeout(&self.step_done, &self.inner, inner, LONG);
            inner = woken.expect("no request has panicked");
            inner.waiting -= 1;
        }
    }
}

impl Inner {
    /// Carries out flash operations on the image. If a helper does that, carries out one operation, and only if
    /// the backlog is too long.
    #[inline]
    pub(super) fn keep_up(&mut self) {
        let backlog_max = self.backlog_max;
        let store = self.model.store();
        // What cannot be written now is written when the disk has space again; reads go on meanwhile.
        if !store.is_helped() {
            let _ = self.carry_out();
        } else if store.backlog() > backlog_max {
            let _ = store.carry_out_one();
        }
    }

    fn next_step(&mut self, engine: &Engine) -> Next {
        let now = engine.clock.now(self.busy_until).max(self.latest);
        let is_at_rest = now.since(self.latest) >= AT_REST;
        let store = self.model.store();
        match store.begin_next() {
            Ok(Some(work)) => return Next::Do(work),
            Ok(None) if store.backlog() > 0 || !is_at_rest => return Next::Sleep(SHORTLY),
            Ok(None) | Err(_) => {}
        }
        // Punching can be done now: no request has come for a while, or the image needs the space.
        match store.begin_punching() {
            Some(work) => Next::Do(work),
            None if store.backlog() > 0 && !store.is_stuck() => Next::Sleep(SHORTLY),
            None => Next::Sleep(LONG),
        }
    }
}

/// Returns the maximum number of program units of `bytes` each that may wait for the helper.
pub(super) fn backlog_max(bytes: u64) -> usize {
    (BACKLOG_MAX / bytes).max(64) as usize
}
