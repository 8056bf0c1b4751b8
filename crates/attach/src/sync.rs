//! Locks of the engine and its image.
//!
//! They are those of the standard library. With the feature `stepped`, for tests that try every interleaving of
//! threads, they are shuttle's, which switches threads where such a test says.

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

/// Waits until `condvar` is notified, for `time` at most. `guard` is that of `mutex`.
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

/// Yields to other threads instead of waiting: under a test that switches threads no time passes, so `time` may
/// be over.
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
