//! The drive's time passes: what it takes is handed over, what it has done is done to the image where that
//! cannot wait, and requests end.

use std::time::Instant as HostInstant;

use ssdlab_model::ftl::{Answer as DriveAnswer, Command, RequestTag};
use ssdlab_units::Instant;

use super::in_flight::{Answered, Completion, Request, Ticket, ToTell};
use super::{Answer, Engine, Errno, Inner, Time};
use crate::store::receive::{Payload, Piece};
use crate::sync::{MutexGuard, wait_timeout};

/// As late as anything is: nothing is due behind it.
pub(super) const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// How long who waits for an answer sleeps at most.
const LONG: std::time::Duration = std::time::Duration::from_millis(20);

/// A request that was sent.
#[derive(Debug)]
#[must_use]
pub enum Submitted {
    /// It is answered.
    Answered(Answer),
    /// It will be.
    Waiting(Ticket),
}

impl Inner {
    /// Sends a command.
    pub(super) fn send(&mut self, request: Request, command: Command) -> RequestTag {
        let at = request.arrived;
        let tag = self.in_flight.add(request);
        self.is_looked_for |= self.is_kept_in_time;
        self.model.submit(at, tag, command);
        tag
    }

    /// Lets time pass until something is answered, or until `until` where nothing is. Returns whether there may
    /// be more to do until then.
    pub(super) fn pass(&mut self, until: Instant) -> bool {
        let mut answers = std::mem::take(&mut self.answers);
        let may_go_on = self.model.go_on(until, false, &mut answers);
        let Inner { model, in_flight, .. } = self;
        if model.store().wants_data() {
            let failed = model.store().take_over(|tag| in_flight.payload(tag), None);
            failed.into_iter().for_each(|tag| in_flight.get(tag).has_failed = true);
        }
        if may_go_on && self.model.store().wants_buffer_saved() {
            // What cannot be written is tried again, and told then.
            let _ = self.carry_out();
        }
        for answer in answers.drain(..) {
            self.note_answer(answer);
        }
        self.answers = answers;
        may_go_on
    }

    /// Lets time pass until `until`.
    pub(super) fn pass_until(&mut self, until: Instant) {
        while self.pass(until) {}
    }

    /// Lets time pass until all requests are answered.
    pub(super) fn finish_all(&mut self) {
        while self.in_flight.count() > 0 && self.pass(LATEST) {}
    }

    /// Fails all requests that are under way.
    pub(super) fn fail_all(&mut self) {
        for tag in self.in_flight.tags() {
            self.end_request(tag, Err(Errno::IO));
        }
    }

    fn note_answer(&mut self, answer: DriveAnswer) {
        let DriveAnswer { tag, at, .. } = answer;
        let request = self.in_flight.get(tag);
        if let Some((first, count)) = request.left {
            let (command, left) = self.model.trim_command(first, count);
            request.left = left;
            self.model.submit(at, tag, command);
            return;
        }
        let (kind, bytes, arrived) = (request.kind, request.bytes, request.arrived);
        let has_failed = request.has_failed;
        let answer = self.end(kind, bytes, arrived, at);
        let happened = self.model.store().happened();
        let answered = Answered { answer, happened, latency: at.since(arrived) };
        self.end_request(tag, if has_failed { Err(Errno::IO) } else { Ok(answered) });
    }

    fn end_request(&mut self, tag: RequestTag, outcome: Result<Answered, Errno>) {
        match self.in_flight.end(tag, outcome) {
            ToTell::WhoeverWaits => self.is_looked_for = true,
            ToTell::Nobody => {}
            ToTell::Completion(completion) => {
                self.to_tell.push((completion, outcome.map(|it| it.answer)));
            }
        }
    }

    /// Lets time pass until the only request is answered, which was just sent and writes `payload`. Puts what is to
    /// be written ahead of that into `pieces`, if they are given.
    ///
    /// # Errors
    /// Returns an error if a unit that it writes in part cannot be read.
    pub(super) fn carry_through(
        &mut self,
        at: Instant,
        command: Command,
        payload: Option<Payload<'_>>,
        mut pieces: Option<&mut Vec<Piece>>,
    ) -> Result<Instant, Errno> {
        let mut answers = std::mem::take(&mut self.answers);
        let mut has_failed = false;
        self.model.submit(at, RequestTag(0), command);
        while answers.is_empty() {
            let may_go_on = self.model.go_on(LATEST, true, &mut answers);
            assert!(may_go_on, "every request is answered");
            let is_over = !answers.is_empty();
            let store = self.model.store();
            if let Some(payload) = payload
                && store.wants_data()
            {
                let pieces = if is_over { pieces.take() } else { None };
                has_failed |= !store.take_over(|_| payload, pieces).is_empty();
            }
            if !is_over {
                // The buffer is to be saved. What cannot be written is tried again, and told then.
                let _ = self.carry_out();
            }
        }
        let answered = answers.pop().map_or(at, |it| it.at);
        self.answers = answers;
        if has_failed { Err(Errno::IO) } else { Ok(answered) }
    }
}

impl Engine {
    /// Lets the lock go, and tells those whose requests are answered.
    pub(super) fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        if std::mem::take(&mut inner.is_looked_for) {
            self.answered.notify_all();
        }
        if inner.to_tell.is_empty() {
            return;
        }
        let to_tell = std::mem::take(&mut inner.to_tell);
        drop(inner);
        for (completion, outcome) in to_tell {
            completion(outcome.map(|answer| self.host_time(answer)));
        }
    }

    /// When something is answered, by the host's clock.
    fn host_time(&self, answer: Answer) -> HostInstant {
        self.deadline(answer).unwrap_or_else(HostInstant::now)
    }

    /// Does something with what the lock covers, for a request that came at `came`, and tells those whose
    /// requests are answered by then.
    pub(super) fn at_arrival<R>(
        &self,
        came: HostInstant,
        act: impl FnOnce(&mut Inner, Instant) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut inner = self.lock();
        let outcome = inner.begin(self, came).and_then(|arrived| act(&mut inner, arrived));
        self.release(inner);
        outcome
    }

    /// Lets the drive's time pass up to now, where it is the host's. Returns when, by the host's clock, the next thing
    /// happens, if anything does.
    pub fn advance(&self) -> Option<HostInstant> {
        if self.clock.time() != Time::Real {
            return None;
        }
        let mut inner = self.lock();
        if inner.is_cut || inner.is_closed {
            return None;
        }
        let now = self.clock.now(inner.busy_until);
        inner.pass_until(now);
        let due = inner.model.next_due().and_then(|at| self.clock.deadline(at));
        self.release(inner);
        due
    }

    /// Lets the drive's time pass with the host's until the drive is closed or loses power, for those who wait for
    /// answers and do not see to that themselves. For a thread of its own.
    pub fn keep_time(&self) {
        if self.clock.time() != Time::Real {
            return;
        }
        loop {
            let due = self.advance();
            let mut inner = self.lock();
            if inner.is_cut || inner.is_closed {
                return;
            }
            inner.is_kept_in_time = true;
            let now = HostInstant::now();
            let left = due.map_or(LONG, |due| due.saturating_duration_since(now)).min(LONG);
            if !left.is_zero() && !inner.is_looked_for {
                let woken = wait_timeout(&self.answered, &self.inner, inner, left);
                inner = woken.expect("no request has panicked");
            }
            self.release(inner);
        }
    }

    /// Waits until a request is answered that was sent.
    ///
    /// # Errors
    /// Returns an error if it failed; after a power cut.
    pub fn wait_for(&self, submitted: Submitted) -> Result<Answer, Errno> {
        match submitted {
            Submitted::Answered(answer) => Ok(answer),
            Submitted::Waiting(ticket) => Ok(self.wait(&ticket)?.answer),
        }
    }

    /// Has `completion` called when a request is answered that was sent; now if it is.
    pub fn when_answered(&self, submitted: Submitted, completion: Completion) {
        match submitted {
            Submitted::Answered(answer) => completion(Ok(self.host_time(answer))),
            Submitted::Waiting(ticket) => {
                let told = self.lock().in_flight.tell(&ticket, completion);
                if let Some((completion, outcome)) = told {
                    completion(outcome.map(|it| self.host_time(it.answer)));
                }
            }
        }
    }

    /// Waits for the request of a ticket. Where the drive's clock is not this machine's, it goes on as far as
    /// it has to; otherwise who waits sees to it that the drive's time passes.
    pub(super) fn wait(&self, ticket: &Ticket) -> Result<Answered, Errno> {
        let mut inner = self.lock();
        loop {
            if let Some(outcome) = inner.in_flight.take_outcome(ticket) {
                if let Ok(answered) = outcome
                    && self.clock.is_told()
                {
                    self.clock.note_wait(answered.latency);
                }
                self.release(inner);
                return outcome;
            }
            if self.clock.is_told() {
                inner.pass(LATEST);
                continue;
            }
            let now = self.clock.now(inner.busy_until);
            inner.pass_until(now);
            if inner.is_looked_for || !inner.to_tell.is_empty() {
                self.release(inner);
                inner = self.lock();
                continue;
            }
            let due = inner.model.next_due().and_then(|at| self.clock.deadline(at));
            let left = due.map_or(LONG, |due| due.saturating_duration_since(HostInstant::now()));
            let woken = wait_timeout(&self.answered, &self.inner, inner, left.min(LONG));
            inner = woken.expect("no request has panicked");
        }
    }
}
