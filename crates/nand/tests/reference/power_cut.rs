//! Programs and erases that are under way in the slow simulator.

use ssdlab_nand::Progress;
use ssdlab_units::{Instant, Nanoseconds};

use super::die::Job;
use super::{ReferenceFlash, Transfer};

/// A program or erase, by the tag of the host's program, the number of that of copies, or `E` of the erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<E> {
    Program(u32),
    CopyProgram(u32),
    Erase(E),
}

impl<E> Change<E> {
    pub fn map<F>(self, block: impl Fn(E) -> F) -> Change<F> {
        match self {
            Change::Program(tag) => Change::Program(tag),
            Change::CopyProgram(number) => Change::CopyProgram(number),
            Change::Erase(erase) => Change::Erase(block(erase)),
        }
    }
}

/// The program or erase that a job is.
fn change_by(job: Job) -> Option<Change<usize>> {
    match job {
        Job::Program { tag, .. } => Some(Change::Program(tag)),
        Job::CopyProgram { number, .. } => Some(Change::CopyProgram(number as u32)),
        Job::Erase { erase } => Some(Change::Erase(erase)),
        Job::Sense { .. } | Job::CopyRead { .. } | Job::Stop => None,
    }
}

impl ReferenceFlash {
    /// Those that are not over, die by die, what is not in line at its die last.
    pub fn operations_in_flight(&self) -> Vec<(u32, Change<usize>, Progress)> {
        let mut list = Vec::new();
        for (number, die) in (0..).zip(&self.dies) {
            let running = die.running.map(|job| {
                (job, Progress::InProgress { end: Instant::from_nanos(die.running_until) })
            });
            let suspended = die
                .suspended
                .map(|(job, left, _)| (job, Progress::Suspended { left: Nanoseconds::new(left) }));
            let waiting = die.foreground.iter().chain(&die.background);
            let jobs = running.into_iter().chain(suspended);
            for (job, progress) in jobs.chain(waiting.map(|&job| (job, Progress::Waiting))) {
                list.extend(change_by(job).map(|change| (number, change, progress)));
            }
        }
        for (_, _, transfer) in self.channels.iter().flat_map(|channel| &channel.queue) {
            if let Transfer::ToDie { die, job: job @ Job::CopyProgram { .. } } = *transfer {
                list.extend(change_by(job).map(|it| (die as u32, it, Progress::Waiting)));
            }
        }
        for number in self.next_copies..self.copies.len() {
            let change = Change::CopyProgram(number as u32);
            list.push((self.copies[number].die as u32, change, Progress::Waiting));
        }
        list
    }
}
