//! Drives below a layer: the layer passes each request on to its members, and answers when they have
//! answered.
//!
//! A [`Layer`] splits a request into parts. Parts that have to be answered first (reads of old data and
//! parity) are sent immediately, the others when those are answered. Events of the members are processed in
//! the order of time, so that an answer of one member can lead to a request to another.

use std::collections::VecDeque;

use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_units::{ByteLength, Instant, Nanoseconds, Sector, SectorCount};

use super::members::{Members, Receiver};
use crate::recording::Recorder;
use crate::simulated::answer_queue::AnswerQueue;
use crate::simulated::responder::{
    Answer, Client, Kind, LATEST, Port, Request, Responder, StepResponder, Tag,
};

/// Length of the requests of an initial synchronisation, and the number of them in flight. md reads ahead
/// of its writes by a window of a few megabytes.
const SYNC_REQUEST_SIZE: ByteLength = ByteLength::new(512 << 10);
const SYNC_DEPTH: u32 = 16;

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) receiver: Receiver,
    pub(super) request: Request,
}

/// Moment at which a layer passes a request on, and the earliest moment at which it answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub(super) forwarded_at: Instant,
    pub(super) earliest_answer: Instant,
}

/// Parts of a request: those that are sent first, and those that are sent when all of the first are
/// answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    first: Vec<Part>,
    then: Vec<Part>,
}

impl Parts {
    /// Adds a part to those that are sent first.
    pub(super) fn send(&mut self, kind: Kind, member: usize, first: u64, count: u64) {
        let request = Request { kind, first: Sector(first), count: SectorCount(count) };
        self.first.push(Part { receiver: Receiver::One(member), request });
    }

    /// Adds all of `request` as a part for each member.
    pub(super) fn send_to_all(&mut self, request: &Request) {
        self.first.push(Part { receiver: Receiver::All, request: *request });
    }

    /// Adds a part to those that are sent when the first are answered.
    pub(super) fn send_then(&mut self, kind: Kind, member: usize, first: u64, count: u64) {
        let request = Request { kind, first: Sector(first), count: SectorCount(count) };
        self.then.push(Part { receiver: Receiver::One(member), request });
    }
}

/// Mapping of requests to members.
pub(super) trait Layer: Clone + Send + Sync {
    /// Returns the bytes that can be addressed, if the first member has a capacity of `member`.
    fn capacity(&self, member: ByteLength) -> ByteLength;

    /// Returns true if the layer passes trims on.
    fn passes_trim(&self) -> bool;

    /// Returns true if another request can be passed on while some are in flight.
    fn can_accept_more(&self) -> bool {
        true
    }

    /// Accepts a request that was sent at `sent`, from `at` on.
    fn accept(&mut self, _request: &Request, _sent: Instant, at: Instant) -> Accepted {
        Accepted { forwarded_at: at, earliest_answer: at }
    }

    /// Splits a request. A request without parts is answered at the moment at which it would be passed on.
    fn split(&mut self, request: &Request, parts: &mut Parts);

    /// Notes that a member has answered a part.
    fn note_part(&mut self, _part: &Part) {}

    /// Called when the members have answered all of `request` at `at`; returns the moment at which the
    /// layer answers.
    fn answered(&mut self, _request: &Request, accepted: Accepted, at: Instant) -> Instant {
        at.max(accepted.earliest_answer)
    }

    /// Returns the member that holds `sector`, and the sector there. `None` if the sector lies on several
    /// members.
    fn locate(&self, sector: u64) -> Option<(usize, u64)>;

    /// Returns the time that requests took in the layer rather than in its members.
    fn time_in_layer(&self) -> Attribution {
        Attribution::default()
    }
}

/// A request of the host in flight.
#[derive(Clone, Debug)]
struct RequestInFlight {
    tag: Tag,
    sent: Instant,
    request: Request,
    accepted: Accepted,
    /// Number of parts that are not answered, and the moment of the latest answer.
    left: u32,
    latest: Instant,
    then: Vec<Part>,
}

/// A part in flight.
#[derive(Clone, Copy, Debug)]
struct PartInFlight {
    /// Place of the request.
    place: usize,
    part: Part,
    /// Number of members that have not answered.
    left: u32,
}

/// A layer and its members.
#[derive(Clone)]
pub(super) struct Layered<L> {
    layer: L,
    members: Members,
    /// Requests in flight by place, and the free places.
    in_flight: Vec<Option<RequestInFlight>>,
    free: Vec<usize>,
    /// Parts in flight, by the tag that each of their members has for them. It is one tag for all members,
    /// because a drive takes requests that arrive together in the order of their tags.
    parts: Vec<PartInFlight>,
    free_parts: Vec<u32>,
    /// Requests that wait until the layer takes another one.
    waiting: VecDeque<(Instant, Tag, Request)>,
    /// Answers that are not reported yet.
    answered: Vec<Answer>,
    inbox: Vec<Answer>,
    latest_event: Instant,
}

impl<L: Layer> Layered<L> {
    pub(super) fn new(layer: L, members: Members) -> Layered<L> {
        Layered {
            layer,
            members,
            in_flight: Vec::new(),
            free: Vec::new(),
            parts: Vec::new(),
            free_parts: Vec::new(),
            waiting: VecDeque::new(),
            answered: Vec::new(),
            inbox: Vec::new(),
            latest_event: Instant::START,
        }
    }

    fn can_accept(&self) -> bool {
        let is_idle = self.free.len() == self.in_flight.len();
        is_idle || self.layer.can_accept_more()
    }

    /// Passes on a request that was sent at `sent`, from `at` on.
    fn forward(&mut self, sent: Instant, at: Instant, tag: Tag, request: Request) {
        let accepted = self.layer.accept(&request, sent, at);
        let mut parts = Parts::default();
        if request.kind != Kind::Trim || self.passes_trim() {
            self.layer.split(&request, &mut parts);
        }
        self.forward_parts(sent, tag, request, accepted, parts);
    }

    fn forward_parts(
        &mut self,
        sent: Instant,
        tag: Tag,
        request: Request,
        accepted: Accepted,
        parts: Parts,
    ) {
        let (Parts { first, then }, at) = (parts, accepted.forwarded_at);
        let entry = RequestInFlight { tag, sent, request, accepted, left: 0, latest: at, then };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.in_flight.push(None);
                self.in_flight.len() - 1
            }
        };
        self.in_flight[place] = Some(entry);
        self.send(place, at, first);
        self.advance_request(place);
    }

    fn send(&mut self, place: usize, at: Instant, parts: Vec<Part>) {
        for part in parts {
            let entry = PartInFlight { place, part, left: 0 };
            let tag = match self.free_parts.pop() {
                Some(tag) => tag,
                None => {
                    self.parts.push(entry);
                    self.parts.len() as u32 - 1
                }
            };
            let left = self.members.submit(part.receiver, at, Tag(tag), part.request);
            self.parts[tag as usize] = PartInFlight { left, ..entry };
            self.in_flight[place].as_mut().expect("it is in flight").left += left;
        }
    }

    /// Sends the second parts of a request, or answers it, if no part of it is in flight.
    fn advance_request(&mut self, place: usize) {
        let entry = self.in_flight[place].as_mut().expect("it is in flight");
        if entry.left > 0 {
            return;
        }
        let then = std::mem::take(&mut entry.then);
        if !then.is_empty() {
            let at = entry.latest;
            return self.send(place, at, then);
        }
        let RequestInFlight { tag, sent, request, accepted, latest, .. } =
            self.in_flight[place].take().expect("it is in flight");
        self.free.push(place);
        let at = self.layer.answered(&request, accepted, latest);
        self.answered.push(Answer { tag, sent, at });
        if self.can_accept()
            && let Some((sent, tag, request)) = self.waiting.pop_front()
        {
            self.forward(sent, sent.max(at), tag, request);
        }
    }

    /// Notes that `members` members have answered a part.
    fn end_part(&mut self, answer: Answer, members: u32) {
        let PartInFlight { place, part, left } = &mut self.parts[answer.tag.0 as usize];
        *left -= members;
        if *left == 0 {
            self.free_parts.push(answer.tag.0);
        }
        let place = *place;
        self.layer.note_part(part);
        let entry = self.in_flight[place].as_mut().expect("it is in flight");
        entry.left -= members;
        entry.latest = entry.latest.max(answer.at);
        self.advance_request(place);
    }

    /// Reads the first `sectors_per_member` sectors of the members for which `is_read` returns true and
    /// writes those of the others, from `at` on. Returns the moment at which the writes are durable.
    pub(super) fn synchronise(
        &mut self,
        at: Instant,
        sectors_per_member: SectorCount,
        is_read: impl Fn(usize) -> bool,
    ) -> Instant {
        let piece = SectorCount::of(SYNC_REQUEST_SIZE.max(self.block_size())).0;
        let mut answers = AnswerQueue::default();
        let mut free: Vec<Tag> = (0..SYNC_DEPTH).map(Tag).collect();
        let (mut now, mut first) = (at, 0);
        while first < sectors_per_member.0 || free.len() < SYNC_DEPTH as usize {
            if first < sectors_per_member.0
                && let Some(tag) = free.pop()
            {
                let count = piece.min(sectors_per_member.0 - first);
                let mut parts = Parts::default();
                for member in 0..self.members.count() {
                    match is_read(member) {
                        true => parts.send(Kind::Read, member, first, count),
                        false => parts.send_then(Kind::Write, member, first, count),
                    }
                }
                let request =
                    Request { kind: Kind::Write, first: Sector(first), count: SectorCount(count) };
                let accepted = Accepted { forwarded_at: now, earliest_answer: now };
                self.forward_parts(now, tag, request, accepted, parts);
                first += count;
                continue;
            }
            let answer = answers.next(self, LATEST).expect("every request is answered");
            now = now.max(answer.at);
            free.push(answer.tag);
        }
        self.submit_and_wait(now, Request::FLUSH)
    }
}

impl<L: Layer> Port for Layered<L> {
    fn submit(&mut self, at: Instant, tag: Tag, request: Request) {
        if self.waiting.is_empty() && self.can_accept() {
            self.forward(at, at, tag, request);
        } else {
            self.waiting.push_back((at, tag, request));
        }
    }
}

impl<L: Layer> Responder for Layered<L> {
    fn capacity(&self) -> ByteLength {
        self.layer.capacity(self.members.get(0).capacity())
    }

    fn block_size(&self) -> ByteLength {
        self.members.get(0).block_size()
    }

    fn submit(&mut self, at: Instant, tag: Tag, request: Request) {
        Port::submit(self, at, tag, request);
    }

    fn latest_event(&self) -> Instant {
        self.members.each().map(|it| it.latest_event()).fold(self.latest_event, Instant::max)
    }

    fn next_due(&self) -> Option<Instant> {
        match self.answered.is_empty() {
            // The answer is known already, and is reported at the next step.
            false => Some(self.latest_event()),
            true => self.members.next_due(),
        }
    }

    fn advance(&mut self, until: Instant, answers: &mut Vec<Answer>) -> bool {
        self.step(until, answers)
    }

    /// Prefetches on all members if it is not known which one the request will go to.
    fn prefetch(&self, sector: Sector) {
        match self.layer.locate(sector.0) {
            Some((member, place)) => self.members.get(member).prefetch(Sector(place)),
            None => self.members.each().for_each(|it| it.prefetch(sector)),
        }
    }

    fn passes_trim(&self) -> bool {
        self.layer.passes_trim() && self.members.each().all(|it| it.passes_trim())
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        self.members.models_mut().for_each(|it| it.rest(from, duration));
    }

    fn counters(&self) -> Counters {
        let all = self.members.each().map(|it| it.counters());
        all.fold(Counters::default(), |sum, one| sum.plus(&one))
    }

    fn unused_flash(&self) -> ByteLength {
        self.members.each().map(|it| it.unused_flash()).sum()
    }

    /// Returns the extremes over all members, and the mean weighted by capacity.
    fn wear(&self) -> Wear {
        let each: Vec<(Wear, f64)> =
            self.members.each().map(|it| (it.wear(), it.capacity().bytes() as f64)).collect();
        let bytes: f64 = each.iter().map(|(_, bytes)| bytes).sum();
        let mean = each.iter().map(|(wear, bytes)| wear.erases_mean * bytes).sum::<f64>() / bytes;
        Wear {
            erases_min: each.iter().map(|(wear, _)| wear.erases_min).min().unwrap_or(0),
            erases_mean: mean,
            erases_max: each.iter().map(|(wear, _)| wear.erases_max).max().unwrap_or(0),
        }
    }

    fn attribution(&self) -> Attribution {
        let mut sum = self.layer.time_in_layer();
        self.members.each().for_each(|it| sum += it.attribution());
        sum
    }

    fn record_inside(&mut self, recorder: &Recorder) {
        // Each member has a recording of its own.
        self.members.separate();
        self.members.models_mut().for_each(|it| it.record_inside(recorder));
    }

    fn is_recorded(&self) -> bool {
        self.members.each().any(|it| it.is_recorded())
    }

    fn begin_step(&mut self, name: &str) {
        self.members.models_mut().for_each(|it| it.begin_step(name));
    }

    fn record_if_due(&mut self) {
        self.members.models_mut().for_each(|it| it.record_if_due());
    }
}

impl<L: Layer> StepResponder for Layered<L> {
    fn step(&mut self, until: Instant, client: &mut impl Client) -> bool {
        if self.answered.is_empty() {
            let mut inbox = std::mem::take(&mut self.inbox);
            let next = self.members.advance(until, &mut inbox);
            if let Some((due, members)) = next {
                self.latest_event = self.latest_event.max(due);
                inbox.drain(..).for_each(|answer| self.end_part(answer, members));
            }
            self.inbox = inbox;
            if next.is_none() {
                return false;
            }
        }
        let mut answered = std::mem::take(&mut self.answered);
        for answer in answered.drain(..) {
            if let Some(upcoming) = client.answered(self, answer) {
                self.prefetch(upcoming);
            }
        }
        // Requests that the layer alone has answered meanwhile are reported at the next step.
        if self.answered.is_empty() {
            self.answered = answered;
        }
        true
    }
}
