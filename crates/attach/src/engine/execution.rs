//! Event-driven execution of requests: lets the drive's time pass, hands written data to the store, and ends
//! requests. Where an erase waits for the buffer to be saved, saves it.

use std::time::Instant as HostInstant;

use ssdlab_model::ftl::{Answer as DriveAnswer, Command, RequestTag};
use ssdlab_units::Instant;

use super::in_flight::{Answered, Completion, Notification, Request, Ticket};
use super::{Answer, Engine, Errno, Inner, Time};
use crate::store::receive::{Payload, Piece};
use crate::sync::{MutexGuard, wait_timeout};

/// Latest instant of the drive's clock: every event is due before it.
pub(super) const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// Maximum sleep of a thread that waits for an answer.
const SLEEP_MAX: std::time::Duration = std::time::Duration::from_millis(20);

/// Outcome of sending a request.
#[derive(Debug)]
#[must_use]
pub enum Submitted {
    /// The request is answered.
    Answered(Answer),
    /// The request is in flight.
    Waiting(Ticket),
}

impl Inner {
    /// Sends a command to the drive for `request`, and returns its tag.
    pub(super) fn send(&mut self, request: Request, command: Command) -> RequestTag {
        let at = request.arrived;
        let tag = self.in_flight.add(request);
        self.has_answers_to_check |= self.has_clock_thread;
        self.model.submit(at, tag, command);
        tag
    }

    /// Lets time pass until a request is answered, but not beyond `until`. Returns true if more may happen
    /// until then.
    pub(super) fn advance_to_answer(&mut self, until: Instant) -> bool {
        let mut answers = std::mem::take(&mut self.answers);
        let may_continue = self.model.advance_to_answer(until, false, &mut answers);
        let Inner { model, in_flight, .. } = self;
        if model.store().awaits_data() {
            let failed = model.store().accept_data(|tag| in_flight.payload(tag), None);
            failed.into_iter().for_each(|tag| in_flight.get(tag).has_failed = true);
        }
        if may_continue && self.model.store().wants_buffer_saved() {
            // A failed write is repeated later, and its error reported then.
            let _ = self.carry_out();
        }
        for answer in answers.drain(..) {
            self.note_answer(answer);
        }
        self.answers = answers;
        may_continue
    }

    /// Lets the drive's time pass until `until`.
    pub(super) fn advance_to(&mut self, until: Instant) {
        while self.advance_to_answer(until) {}
    }

    /// Lets the drive's time pass until no request is in flight.
    pub(super) fn drain(&mut self) {
        while self.in_flight.count() > 0 && self.advance_to_answer(LATEST) {}
    }

    /// Fails all requests in flight with EIO.
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
        let answer = self.record_answer(kind, bytes, arrived, at);
        let op_count = self.model.store().op_count();
        let answered = Answered { answer, op_count, latency: at.since(arrived) };
        self.end_request(tag, if has_failed { Err(Errno::IO) } else { Ok(answered) });
    }

    fn end_request(&mut self, tag: RequestTag, outcome: Result<Answered, Errno>) {
        match self.in_flight.complete(tag, outcome) {
            Notification::WakeWaiter => self.has_answers_to_check = true,
            Notification::Nobody => {}
            Notification::Completion(completion) => {
                self.completions.push((completion, outcome.map(|it| it.answer)));
            }
        }
    }

    /// Sends a command and lets time pass until it is answered; no other request is in flight. Takes the data
    /// of a write from `payload`. If `pieces` are given, adds to them the data that the caller has to write
    /// ahead to the image.
    ///
    /// # Errors
    /// Returns an error if a read-modify-write of the request cannot read the old data.
    pub(super) fn execute(
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
            let may_continue = self.model.advance_to_answer(LATEST, true, &mut answers);
            assert!(may_continue, "every request is answered");
            let is_over = !answers.is_empty();
            let store = self.model.store();
            if let Some(payload) = payload
                && store.awaits_data()
            {
                let pieces = if is_over { pieces.take() } else { None };
                has_failed |= !store.accept_data(|_| payload, pieces).is_empty();
            }
            if !is_over {
                // The buffer has to be saved. A failed write is repeated later, and its error reported then.
                let _ = self.carry_out();
            }
        }
        let answered = answers.pop().map_or(at, |it| it.at);
        self.answers = answers;
        if has_failed { Err(Errno::IO) } else { Ok(answered) }
    }
}

impl Engine {
    /// Releases the lock, wakes waiting threads, and calls completions of answered requests.
    pub(super) fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        if std::mem::take(&mut inner.has_answers_to_check) {
            self.answered.notify_all();
        }
        if inner.completions.is_empty() {
            return;
        }
        let completions = std::mem::take(&mut inner.completions);
        drop(inner);
        for (completion, outcome) in completions {
            completion(outcome.map(|answer| self.host_time(answer)));
        }
    }

    /// Returns the instant of an answer on the host's clock; now, in fast time.
    fn host_time(&self, answer: Answer) -> HostInstant {
        self.deadline(answer).unwrap_or_else(HostInstant::now)
    }

    /// Calls `act` under the lock, with the drive's time for a request that arrived at `host_arrival`. Then notifies
    /// those whose requests are answered by that time.
    pub(super) fn at_arrival<R>(
        &self,
        host_arrival: HostInstant,
        act: impl FnOnce(&mut Inner, Instant) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut inner = self.lock();
        let outcome =
            inner.begin_request(self, host_arrival).and_then(|arrived| act(&mut inner, arrived));
        self.release(inner);
        outcome
    }

    /// Lets the drive's time pass up to now, in real time. Returns the instant of the drive's next event on the
    /// host's clock; `None` if there is none, in fast time, and once the drive is closed or without power.
    pub fn advance(&self) -> Option<HostInstant> {
        if self.clock.time() != Time::Real {
            return None;
        }
        let mut inner = self.lock();
        if inner.is_cut || inner.is_closed {
            return None;
        }
        let now = self.clock.now(inner.busy_until);
        inner.advance_to(now);
        let due = inner.model.next_due().and_then(|at| self.clock.deadline(at));
        self.release(inner);
        due
    }

    /// Lets the drive's time pass with the host's until the drive is closed or loses power. Needed for
    /// completions, where no thread waits or calls `Engine::advance`. Call it in a thread of its own.
    pub fn run_clock(&self) {
        if self.clock.time() != Time::Real {
            return;
        }
        loop {
            let due = self.advance();
            let mut inner = self.lock();
            if inner.is_cut || inner.is_closed {
                return;
            }
            inner.has_clock_thread = true;
            let now = HostInstant::now();
            let left =
                due.map_or(SLEEP_MAX, |due| due.saturating_duration_since(now)).min(SLEEP_MAX);
            if !left.is_zero() && !inner.has_answers_to_check {
                let woken = wait_timeout(&self.answered, &self.inner, inner, left);
                inner = woken.expect("no request has panicked");
            }
            self.release(inner);
        }
    }

    /// Waits until a submitted request is answered.
    ///
    /// # Errors
    /// Returns an error if the request failed, and after a power cut.
    pub fn wait_for(&self, submitted: Submitted) -> Result<Answer, Errno> {
        match submitted {
            Submitted::Answered(answer) => Ok(answer),
            Submitted::Waiting(ticket) => Ok(self.wait(&ticket)?.answer),
        }
    }

    /// Calls `completion` when a submitted request is answered; now if it is answered already.
    pub fn when_answered(&self, submitted: Submitted, completion: Completion) {
        match submitted {
            Submitted::Answered(answer) => completion(Ok(self.host_time(answer))),
            Submitted::Waiting(ticket) => {
                let answered = self.lock().in_flight.register_completion(&ticket, completion);
                if let Some((completion, outcome)) = answered {
                    completion(outcome.map(|it| self.host_time(it.answer)));
                }
            }
        }
    }

    /// Waits for the request of a ticket. If the clock runs only with the arrival times of requests, lets the
    /// drive's time pass to the answer at once. Otherwise this thread itself lets the drive's time pass while
    /// it waits.
    pub(super) fn wait(&self, ticket: &Ticket) -> Result<Answered, Errno> {
        let mut inner = self.lock();
        loop {
            if let Some(outcome) = inner.in_flight.take_outcome(ticket) {
                if let Ok(answered) = outcome
                    && self.clock.runs_on_arrivals()
                {
                    self.clock.note_wait(answered.latency);
                }
                self.release(inner);
                return outcome;
            }
            if self.clock.runs_on_arrivals() {
                inner.advance_to_answer(LATEST);
                continue;
            }
            let now = self.clock.now(inner.busy_until);
            inner.advance_to(now);
            if inner.has_answers_to_check || !inner.completions.is_empty() {
                self.release(inner);
                inner = self.lock();
                continue;
            }
            let due = inner.model.next_due().and_then(|at| self.clock.deadline(at));
            let left =
                due.map_or(SLEEP_MAX, |due| due.saturating_duration_since(HostInstant::now()));
            let woken = wait_timeout(&self.answered, &self.inner, inner, left.min(SLEEP_MAX));
            inner = woken.expect("no request has panicked");
        }
    }
}
