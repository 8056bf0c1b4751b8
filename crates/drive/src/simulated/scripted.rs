//! A drive for tests whose answers the test determines.

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, KIB, MIB, Nanoseconds};

use super::responder::{Answer, Client, Request, Responder, StepResponder, Tag};

/// A drive of 16 MiB that answers a request, given the instant at which it was sent, at the instant that
/// the function returns.
#[derive(Clone)]
pub(crate) struct Scripted<F> {
    answers_at: F,
    answers: Vec<Answer>,
    now: Instant,
}

impl<F: FnMut(Instant, Request) -> Instant> Scripted<F> {
    pub(crate) fn new(answers_at: F) -> Scripted<F> {
        Scripted { answers_at, answers: Vec::new(), now: Instant::START }
    }
}

impl<F: FnMut(Instant, Request) -> Instant> Responder for Scripted<F> {
    fn capacity(&self) -> ByteLength {
        MIB * 16
    }
    fn block_size(&self) -> ByteLength {
        KIB * 4
    }
    fn submit(&mut self, sent: Instant, tag: Tag, request: Request) {
        assert!(sent >= self.now, "sent at {sent:?}, after {:?}", self.now);
        let at = (self.answers_at)(sent, request);
        self.answers.push(Answer { tag, sent, at });
    }
    fn latest_event(&self) -> Instant {
        self.now
    }
    fn next_due(&self) -> Option<Instant> {
        self.answers.iter().map(|it| it.at).min()
    }
    fn advance(&mut self, until: Instant, answers: &mut Vec<Answer>) -> bool {
        let next = (0..self.answers.len()).min_by_key(|&it| self.answers[it].at);
        let Some(next) = next.filter(|&it| self.answers[it].at <= until) else { return false };
        let answer = self.answers.remove(next);
        self.now = answer.at;
        answers.push(answer);
        true
    }
    fn passes_trim(&self) -> bool {
        true
    }
    fn rest(&mut self, _: Instant, _: Nanoseconds) {}
    fn counters(&self) -> Counters {
        Counters { requests: 1, ..Counters::default() }
    }
    fn wear(&self) -> Wear {
        Wear::default()
    }
    fn unused_flash(&self) -> ByteLength {
        ByteLength::ZERO
    }
    fn attribution(&self) -> Attribution {
        Attribution::default()
    }
}

impl<F: FnMut(Instant, Request) -> Instant> StepResponder for Scripted<F> {
    fn step(&mut self, _: Instant, _: &mut impl Client) -> bool {
        unimplemented!("loops of phases that look only at answers ask with `advance`")
    }
}
