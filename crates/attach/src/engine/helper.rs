//! A helper that does to the image what the drive has done to its flash, at the drive's time.
//!
//! Programs of several dies often end together, and each costs the host tens of microseconds, punching out
//! what was erased costs milliseconds: whoever answers requests would answer late. So another thread does
//! it, which goes before others only while it holds the drive's lock, for a microsecond or two between
//! two steps. What it has not done yet is in RAM. Where it falls behind it goes before others all the time,
//! which slows down those who ask; where that does not help, they have to wait for it.
//!
//! A drive with capacitors has none: before it erases, the image has to hold all that its buffer holds,
//! and room there is for just that, not for what a helper has not done yet.

use std::time::Duration;

use super::requests::AT_REST;
use super::{Engine, Inner, Time};
use crate::prompt::Prompt;
use crate::store::work::{Hands, Work};
use crate::sync::{MutexGuard, wait_timeout};

/// How long the helper sleeps while something waits to be done, or while requests come.
const SHORTLY: Duration = Duration::from_micros(500);

/// How long it sleeps while nothing happens, and before it tries again what could not be done.
const LONG: Duration = Duration::from_millis(20);

/// Bytes that wait to be programmed, at most: as much is held in RAM.
const BACKLOG_MAX: u64 = 64 << 20;

/// What the helper does next.
enum Next {
    Do(Work),
    Sleep(Duration),
}

impl Engine {
    /// Does to the image what the drive does to its flash until the drive is closed or loses power, so
    /// that those who ask for something need not. Does nothing where they do it themselves: in fast time,
    /// and on a drive with capacitors. For a thread of its own.
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
                    // What fails is tried again, and whoever depends on it is told then.
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

    /// Has the helper, if there is one, do the first so many things that have `happened`; waits for it without
    /// the lock. What is left then could not be done.
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
    /// Does to the image what has happened, unless a helper does: then only some of it, if there is
    /// too much.
    #[inline]
    pub(super) fn keep_up(&mut self) {
        let backlog_max = self.backlog_max;
        let store = self.model.store();
        // What cannot be written now is written when there is room again; reads go on meanwhile.
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
        // There is time for it, or it makes room.
        match store.begin_punching() {
            Some(work) => Next::Do(work),
            None if store.backlog() > 0 && !store.is_stuck() => Next::Sleep(SHORTLY),
            None => Next::Sleep(LONG),
        }
    }
}

/// Program units of `bytes` each that may wait, at most.
pub(super) fn backlog_max(bytes: u64) -> usize {
    (BACKLOG_MAX / bytes).max(64) as usize
}
