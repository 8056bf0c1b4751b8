//! Raises priorities while a file system is frozen. Writers wait for this process then, so it must not
//! wait behind them: neither for a processor, nor for the drive, nor for memory that was swapped out.

use crate::system::{self, Scheduling};

/// Schedules this thread before all others (SCHED_RR) until this value is dropped, if that is allowed.
#[derive(Debug)]
pub(crate) struct RealTime {
    before: Option<Scheduling>,
}

impl RealTime {
    /// Raises the priority from now on.
    pub(crate) fn begin() -> RealTime {
        let before = system::scheduling();
        // Only root may raise it; otherwise nothing changes.
        let raised = before.is_some() && system::schedule(Scheduling::FIRST);
        RealTime { before: before.filter(|_| raised) }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            system::schedule(before);
        }
    }
}

/// Schedules this thread and its requests before all others until this value is dropped, as far as that
/// is allowed.
#[derive(Debug)]
pub(crate) struct Urgency {
    _processor: RealTime,
    requests_before: Option<i32>,
}

impl Urgency {
    /// Raises the priorities from now on.
    pub(crate) fn begin() -> Urgency {
        let requests_before = system::priority_of_requests();
        system::set_priority_of_requests(system::REQUESTS_FIRST);
        Urgency { _processor: RealTime::begin(), requests_before }
    }
}

impl Drop for Urgency {
    fn drop(&mut self) {
        if let Some(before) = self.requests_before {
            system::set_priority_of_requests(before);
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
            system::yield_to_others();
            let (threads, requests) = (system::scheduling(), system::priority_of_requests());
            let urgency = Urgency::begin();
            if rustix::process::geteuid().is_root() {
                assert_ne!(system::priority_of_requests(), requests);
            }
            drop(urgency);
            assert_eq!((system::scheduling(), system::priority_of_requests()), (threads, requests));
        });
        thread.join().unwrap();
    }
}
