//! A die's work, by class: reads first, then programs in the order they were booked, then
//! collection when the die would be idle. Nothing in progress is interrupted.

use std::collections::VecDeque;

/// A flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Senses pages for the host.
    Sense { sense: usize },
    /// Programs what the host wrote.
    HostProgram { program: u64 },
    /// Senses units that collection moves.
    CopyRead { read: u64 },
    /// Programs units that collection moves.
    CopyProgram { copy: u64 },
    /// Erases the die's part of a collection unit.
    Erase { block: usize },
}

#[derive(Clone, Debug, Default)]
pub struct Die {
    pub reads: VecDeque<Job>,
    pub booked: VecDeque<Job>,
    pub background: VecDeque<Job>,
    pub running: Option<Job>,
}

impl Die {
    /// Books the oldest background work like the host's.
    pub fn book_oldest(&mut self) {
        if let Some(job) = self.background.pop_front() {
            self.booked.push_back(job);
        }
    }

    /// Books all background work up to and with `job`, if that waits here.
    pub fn book_through(&mut self, job: Job) {
        if let Some(place) = self.background.iter().position(|&waiting| waiting == job) {
            for _ in 0..=place {
                self.book_oldest();
            }
        }
    }
}
