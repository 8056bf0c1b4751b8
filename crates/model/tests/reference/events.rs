//! What will happen, earliest first; what was announced first comes first among equals.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Something that happens at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The controller is done with taking up a command.
    ControllerFree,
    /// The latency of a command has passed: the drive acts on it.
    Act { request: usize },
    /// The entry of the map is read that a request needs.
    EntryRead { request: usize },
    /// The host sends its next operation.
    Send,
    /// Erases were issued that programs of the host's wait for.
    Issued,
    /// What a command's length costs has passed since its data was there.
    Answered { request: usize },
    /// A lane has moved what it was moving.
    LaneDone { lane: usize },
    /// A die has done what it was doing.
    DieDone { die: usize, end: u64 },
}

#[derive(Clone, Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    announced: u64,
    now: u64,
}

impl Events {
    pub fn now(&self) -> u64 {
        self.now
    }

    pub fn after(&mut self, delay: u64, event: Event) {
        self.announced += 1;
        self.heap.push(Reverse((self.now + delay, self.announced, event)));
    }

    /// The next event; time moves on to it.
    pub fn next(&mut self) -> Option<Event> {
        let Reverse((at, _, event)) = self.heap.pop()?;
        self.now = at;
        Some(event)
    }

    /// Lets time pass with nothing happening.
    pub fn wait_until(&mut self, at: u64) {
        assert!(self.heap.is_empty() && at >= self.now, "only an idle drive is left alone");
        self.now = at;
    }
}

/// A lane (channel, direction of the link): serves transfers one by one as they come.
#[derive(Clone, Debug)]
pub struct Lane<T> {
    waiting: VecDeque<(u64, T)>,
    moving: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Lane { waiting: VecDeque::new(), moving: false }
    }
}

impl<T> Lane<T> {
    pub fn ask(&mut self, lane: usize, duration: u64, what: T, events: &mut Events) {
        self.waiting.push_back((duration, what));
        self.begin(lane, events);
    }

    /// The transfer under way is over; the next begins.
    pub fn done(&mut self, lane: usize, events: &mut Events) -> T {
        let (_, what) = self.waiting.pop_front().expect("a lane ends what it began");
        self.moving = false;
        self.begin(lane, events);
        what
    }

    fn begin(&mut self, lane: usize, events: &mut Events) {
        if let (false, Some(&(duration, _))) = (self.moving, self.waiting.front()) {
            self.moving = true;
            events.after(duration, Event::LaneDone { lane });
        }
    }
}
