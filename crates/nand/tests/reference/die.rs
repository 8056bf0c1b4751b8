//! A die of the slow simulator, and which job it does next.

use std::collections::VecDeque;

use ssdlab_nand::suspend::Suspendable;

use super::{Callback, Event, ReferenceFlash, Transfer};

/// What a die does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    Sense {
        sense: usize,
    },
    CopyRead {
        copy: usize,
    },
    Program {
        tag: u32,
        after: Option<usize>,
    },
    CopyProgram {
        number: usize,
        after: Option<usize>,
    },
    Erase {
        erase: usize,
    },
    /// Stops what is in progress.
    Stop,
}

impl Job {
    /// The erase that a job waits for.
    pub fn after(self) -> Option<usize> {
        match self {
            Job::Program { after, .. } | Job::CopyProgram { after, .. } => after,
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Die {
    pub reads: VecDeque<Job>,
    pub foreground: VecDeque<Job>,
    pub background: VecDeque<Job>,
    pub running: Option<Job>,
    pub register: Option<u32>,
    /// The number of the copy's read in progress.
    pub begun: u64,
    pub running_until: u64,
    /// Which of the announced ends is that of what is running.
    pub end: u64,
    /// What was suspended, what is left of it, and how often it was.
    pub suspended: Option<(Job, u64, u32)>,
    suspend_count: u32,
}

impl Die {
    pub fn promote_oldest(&mut self) {
        if let Some(job) = self.background.pop_front() {
            self.foreground.push_back(job);
        }
    }
}

impl ReferenceFlash {
    pub(super) fn enqueue_background(&mut self, die: usize, job: Job) {
        self.dies[die].background.push_back(job);
        if self.dies[die].background.len() > self.parameters.background_most as usize {
            self.dies[die].promote_oldest();
        }
        self.begin_next(die);
    }

    /// Before something is programmed that waits for an erase: the erase and all before it come first.
    pub(super) fn promote_erase(&mut self, die: usize, after: Option<usize>) {
        let is_it = |job: &Job| matches!(*job, Job::Erase { erase } if Some(erase) == after);
        if let Some(place) = self.dies[die].background.iter().position(is_it) {
            (0..=place).for_each(|_| self.dies[die].promote_oldest());
        }
    }

    fn is_erased(&self, die: usize, job: Job) -> bool {
        job.after().is_none_or(|erase| !self.erasing.contains(&(erase, die)))
    }

    /// Gives an idle die its next work, or has a read interrupt what a busy one does.
    pub(super) fn begin_next(&mut self, die: usize) {
        if self.dies[die].running.is_some() {
            return self.interrupt(die);
        }
        if let Some(job) = self.dies[die].reads.pop_front() {
            return self.begin(die, job);
        }
        if self.just_ended == Some(die) {
            return;
        }
        if let Some((job, left, suspend_count)) = self.dies[die].suspended.take() {
            self.begin_for_duration(die, job, self.parameters.suspend.resume.nanos() + left);
            self.dies[die].suspend_count = suspend_count;
            return;
        }
        let is_ready = |job: &Job| self.is_erased(die, *job);
        if let Some(place) = self.dies[die].foreground.iter().position(is_ready) {
            let job = self.dies[die].foreground[place];
            let has_data = match job {
                Job::Program { tag, .. } => self.data_on_die[&tag],
                _ => true,
            };
            if has_data {
                self.dies[die].foreground.remove(place);
                self.begin(die, job);
            }
            return;
        }
        if let Some(place) = self.dies[die].background.iter().position(is_ready) {
            let job = self.dies[die].background.remove(place).expect("it waits there");
            self.begin(die, job);
        }
    }

    fn begin(&mut self, die: usize, job: Job) {
        let duration = match job {
            Job::Sense { .. } | Job::CopyRead { .. } => self.timing.page_read,
            Job::Program { .. } | Job::CopyProgram { .. } => self.timing.program,
            Job::Erase { .. } => self.timing.erase,
            Job::Stop => unreachable!("its duration depends on what it stops"),
        };
        if let Job::CopyRead { .. } = job {
            self.dies[die].begun = self.next_request_number();
        }
        self.begin_for_duration(die, job, duration.nanos());
    }

    fn begin_for_duration(&mut self, die: usize, job: Job, duration: u64) {
        let until = self.now + duration;
        let state = &mut self.dies[die];
        (state.running, state.running_until, state.register) = (Some(job), until, None);
        state.suspend_count = 0;
        state.end += 1;
        let end = state.end;
        self.at(until, Event::DieDone { die, end });
    }

    fn interrupt(&mut self, die: usize) {
        let suspend = self.parameters.suspend;
        let job = self.dies[die].running.expect("something is in progress");
        let may = match (suspend.operations, job) {
            (Suspendable::Off, _) => false,
            (Suspendable::Program, Job::Program { .. } | Job::CopyProgram { .. }) => true,
            (Suspendable::Erase, Job::Erase { .. }) => true,
            (
                Suspendable::Both,
                Job::Program { .. } | Job::CopyProgram { .. } | Job::Erase { .. },
            ) => true,
            _ => false,
        };
        let state = &mut self.dies[die];
        let mut left = state.running_until - self.now;
        // The step under way goes on to its end.
        let rest = left.checked_rem(suspend.step.nanos()).unwrap_or(0);
        left -= rest;
        let suspend_count = state.suspend_count;
        let gains = left > suspend.suspend.nanos();
        if may && gains && !state.reads.is_empty() && suspend_count < suspend.most {
            state.suspended = Some((job, left, suspend_count + 1));
            self.begin_for_duration(die, Job::Stop, rest + suspend.suspend.nanos());
        }
    }

    pub(super) fn die_done(&mut self, die: usize) {
        let job = self.dies[die].running.take().expect("a die ends what it began");
        if matches!(job, Job::Program { .. } | Job::CopyProgram { .. } | Job::Erase { .. }) {
            self.just_ended = Some(die);
        }
        match job {
            Job::Sense { sense } => {
                self.dies[die].register = self.senses[sense].group;
                for (asked, units, to) in std::mem::take(&mut self.senses[sense].pages) {
                    self.enqueue_transfer(die, units, Some(asked), Transfer::Page { to });
                }
            }
            Job::CopyRead { copy } => {
                let (units, asked) = (self.copied[copy].0, self.dies[die].begun);
                self.enqueue_transfer(die, units, Some(asked), Transfer::Copied { copy });
            }
            Job::Program { tag, .. } => {
                self.data_on_die.remove(&tag);
                self.callbacks.push_back(Callback::Programmed(tag));
            }
            Job::CopyProgram { number, .. } => {
                self.callbacks.push_back(Callback::CopiesProgrammed(number))
            }
            Job::Erase { erase } => {
                self.erasing.remove(&(erase, die));
                let is_pending = |&on: &usize| self.erasing.contains(&(erase, on));
                if !self.erases[erase].iter().any(is_pending) {
                    self.callbacks.push_back(Callback::Erased(erase));
                }
            }
            Job::Stop => {}
        }
        self.begin_next(die);
    }
}
