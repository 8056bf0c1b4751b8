//! Raises priorities while a file system is frozen. Writers wait for this process then, so it must not
//! wait behind them: neither for a processor, nor for the drive, nor for memory that was swapped out.

use crate::system::{self, Scheduling};

/// Schedules this thread before all others (SCHED_RR) until this value is dropped, if that is allowed.
#[derive(Debug)]
pub(crate) struct RealTimeScheduling {
    before: Option<Scheduling>,
}

impl RealTimeScheduling {
    /// Raises the priority from now on.
    pub(crate) fn begin() -> RealTimeScheduling {
        let before = system::scheduling();
        // Only root may raise it; otherwise nothing changes.
        let raised = before.is_some() && system::set_scheduling(Scheduling::REAL_TIME);
        RealTimeScheduling { before: before.filter(|_| raised) }
    }
}

impl Drop for RealTimeScheduling {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            system::set_scheduling(before);
        }
    }
}

/// Schedules this thread and its requests before all others until this value is dropped, as far as that
/// is allowed.
#[derive(Debug)]
pub(crate) struct RaisedPriority {
    _scheduling: RealTimeScheduling,
    io_priority_before: Option<i32>,
}

impl RaisedPriority {
    /// Raises the priorities from now on.
    pub(crate) fn begin() -> RaisedPriority {
        let io_priority_before = system::io_priority();
        system::set_io_priority(system::IO_PRIORITY_REAL_TIME);
        RaisedPriority { _scheduling: RealTimeScheduling::begin(), io_priority_before }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some(before) = self.io_priority_before {
            system::set_io_priority(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_as_before_afterwards() {
        // A separate thread: priorities belong to threads.
        let thread = std::thread::spawn(|| {
            system::set_idle_io_priority();
            let (threads, requests) = (system::scheduling(), system::io_priority());
            let priority = RaisedPriority::begin();
            if rustix::process::geteuid().is_root() {
                assert_ne!(system::io_priority(), requests);
            }
            drop(priority);
            assert_eq!((system::scheduling(), system::io_priority()), (threads, requests));
        });
        thread.join().unwrap();
    }
}
