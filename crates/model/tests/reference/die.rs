//! A die's work, by class: reads first, then programs in the order they were booked, then
//! collection when the die would be idle. Where the drive suspends, a read interrupts what is in
//! progress.

use std::collections::VecDeque;

/// A flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Senses pages for the host.
    Sense { sense: usize },
    /// Senses a map page.
    MapRead { load: u64 },
    /// Programs map pages.
    MapProgram { program: u64 },
    /// Programs what the host wrote.
    HostProgram { program: u64 },
    /// Senses units that collection moves.
    CopyRead { read: u64 },
    /// Programs units that collection moves.
    CopyProgram { copy: u64 },
    /// Erases the die's part of a collection unit.
    Erase { block: usize },
    /// Programs a page of the map journal.
    Journal { page: u64 },
    /// Stops what is in progress.
    Stop,
}

#[derive(Clone, Debug, Default)]
pub struct Die {
    pub reads: VecDeque<Job>,
    pub booked: VecDeque<Job>,
    pub background: VecDeque<Job>,
    pub running: Option<Job>,
    /// The pages that it sensed last, if that was for a stream and it has begun nothing since.
    pub register: Option<(usize, usize)>,
    /// When that will be over, and which of the die's announced ends is its.
    pub running_until: u64,
    pub end: u64,
    /// What was interrupted: what is left of it and how often it was.
    pub interrupted: Option<Interrupted>,
    /// How often what is running was interrupted before.
    pub times: u32,
}

/// Work that was interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    pub job: Job,
    pub left: u64,
    pub times: u32,
}

impl Die {
    /// The latest read that it was asked for, if that is not over.
    pub fn latest_read(&self) -> Option<Job> {
        self.reads.back().copied().or(self.running)
    }

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
