//! Locks of the engine and its image.
//!
//! They are those of the standard library. With the feature `stepped`, which only tests that try every
//! interleaving of threads ask for, they are shuttle's: threads are then switched where such a test says.

use std::sync::LockResult;
use std::time::Duration;

#[cfg(feature = "stepped")]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, RwLock},
    thread_local,
};
#[cfg(not(feature = "stepped"))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, RwLock},
    thread_local,
};

/// Waits until `condvar` is notified, for `time` at most; `guard` is of `mutex`.
#[cfg(not(feature = "stepped"))]
pub(crate) fn wait_timeout<'a, T>(
    condvar: &Condvar,
    _mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    time: Duration,
) -> LockResult<MutexGuard<'a, T>> {
    match condvar.wait_timeout(guard, time) {
        Ok((guard, _)) => Ok(guard),
        Err(error) => Err(std::sync::PoisonError::new(error.into_inner().0)),
    }
}

/// Lets others go on: no time passes where threads are switched by a test, and so all of it may have.
#[cfg(feature = "stepped")]
pub(crate) fn wait_timeout<'a, T>(
    _condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _time: Duration,
) -> LockResult<MutexGuard<'a, T>> {
    drop(guard);
    shuttle::thread::yield_now();
    mutex.lock()
}
