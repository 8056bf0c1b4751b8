//! A slow, plain simulator of the same flash: everything is an event in one heap, and every queue is a
//! list. It has the rules of the engine and nothing else in common with it.

mod die;
pub mod power_cut;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use ssdlab_nand::DieParameters;
use ssdlab_nand::geometry::Geometry;
use ssdlab_nand::timing::{Delivery, Timing};
use ssdlab_units::{Instant, Nanoseconds};

use crate::drive::device::{Device, Handles, dies_of};
use crate::drive::{Drive, Parameters, Workload};
use die::{Die, Job};

/// The simulator's numbers: places in its lists.
#[derive(Clone)]
pub struct ReferenceHandles;

impl Handles for ReferenceHandles {
    type Copies = usize;
    type Erase = usize;
    type Read = usize;
    type Piece = usize;

    fn index(copies: usize) -> u32 {
        copies as u32
    }
}

/// Events. At one instant those of dies come first, then channels begin what has come to them idle, then
/// channels end (of either the one with the lower number), what was scheduled, the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    DieDone { die: usize, end: u64 },
    ChannelBegins { channel: usize },
    ChannelDone { channel: usize },
    Alarm { tag: u32 },
    Deliver { read: usize },
    Send { tag: u32, units: u32 },
    Answered { tag: u32 },
    Arrived { tag: u32 },
    ControllerFree,
    Fetched { tag: u32 },
}

impl Event {
    fn rank(self) -> (u8, usize) {
        match self {
            Event::DieDone { die, .. } => (0, die),
            Event::ChannelBegins { .. } => (0, usize::MAX),
            Event::ChannelDone { channel } => (1, channel),
            Event::Alarm { .. } | Event::Deliver { .. } | Event::Send { .. } => (2, 0),
            Event::Answered { .. } => (2, 0),
            Event::ControllerFree => (3, 0),
            Event::Arrived { tag } => (4, tag as usize),
            Event::Fetched { .. } => (5, 0),
        }
    }
}

/// When an event happens, its rank, how many were announced before it, and what it is.
type Entry = (u64, (u8, usize), u64, Event);

/// Where the data of a page goes.
#[derive(Clone, Copy, Debug)]
enum To {
    Host { tag: u32 },
    Piece { read: usize, piece: usize },
    Ram { tag: u32 },
}

/// What crosses a channel.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    Page { to: To },
    Copied { copy: usize },
    ToDie { die: usize, job: Job },
}

/// When a transfer came to its channel, and its place among those that came just then: what is sensed, by the
/// numbers in which that was asked for, before what was there, by the number of those.
type QueuePosition = (u64, bool, u64);

/// A channel. What it moves is first in line.
#[derive(Clone, Debug, Default)]
struct Channel {
    is_moving: bool,
    /// With the nanoseconds that each takes.
    queue: Vec<(QueuePosition, u64, Transfer)>,
}

/// Pages that are sensed together.
#[derive(Clone, Debug)]
struct Sense {
    group: Option<u32>,
    pages: Vec<RequestedPage>,
}

/// A page that was asked for: the number of the asking, its units, and where its data goes.
type RequestedPage = (u64, u32, To);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    Ready,
    Sent,
}

#[derive(Clone, Debug)]
struct Read {
    tag: u32,
    is_stream: bool,
    /// How long each takes the link, and where it is.
    pieces: Vec<(u64, State)>,
    needed: Vec<(u32, u32, usize)>,
}

/// A program unit of copies.
#[derive(Clone, Debug)]
struct PendingProgram {
    die: usize,
    after: Option<usize>,
    reads_left: usize,
    is_complete: bool,
    is_urgent: bool,
}

/// A callback that the drive is owed.
enum Callback {
    Fetched(u32),
    Read(u32),
    Loaded(u32),
    Programmed(u32),
    CopiesProgrammed(usize),
    Erased(usize),
    Alarm,
}

pub struct ReferenceFlash {
    geometry: Geometry,
    timing: Timing,
    parameters: DieParameters,
    unit_over_channel: u64,
    unit_over_link: u64,
    heap: BinaryHeap<Reverse<Entry>>,
    announced: u64,
    now: u64,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// Pages that were asked for.
    requested_pages: u64,
    /// By arrival and tag.
    commands: BTreeSet<(u64, u32)>,
    link: [u64; 2],
    senses: Vec<Sense>,
    reads: Vec<Read>,
    copies: Vec<PendingProgram>,
    /// Units that each copy's sense moves, and the program units they go to.
    copied: Vec<(u32, Vec<usize>)>,
    next_copies: usize,
    /// Erases that are not over, die by die.
    erasing: BTreeSet<(usize, usize)>,
    erases: Vec<Vec<usize>>,
    data_on_die: BTreeMap<u32, bool>,
    callbacks: VecDeque<Callback>,
    /// The die whose program or erase has just ended: what it does next is chosen when all that follows from
    /// that was asked for.
    just_ended: Option<usize>,
}

impl ReferenceFlash {
    pub fn new(parameters: &Parameters, dies: DieParameters) -> ReferenceFlash {
        let (geometry, timing) = (&parameters.geometry, &parameters.timing);
        ReferenceFlash {
            unit_over_channel: timing.channel.duration(geometry.unit_size()).nanos(),
            unit_over_link: timing.link.duration(geometry.unit_size()).nanos(),
            heap: BinaryHeap::new(),
            announced: 0,
            now: 0,
            dies: vec![Die::default(); geometry.dies() as usize],
            channels: vec![Channel::default(); geometry.channels() as usize],
            requested_pages: 0,
            commands: BTreeSet::new(),
            link: [0; 2],
            senses: Vec::new(),
            reads: Vec::new(),
            copies: Vec::new(),
            copied: Vec::new(),
            next_copies: 0,
            erasing: BTreeSet::new(),
            erases: Vec::new(),
            data_on_die: BTreeMap::new(),
            callbacks: VecDeque::new(),
            just_ended: None,
            geometry: geometry.clone(),
            timing: timing.clone(),
            parameters: dies,
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.announced += 1;
        self.heap.push(Reverse((time, event.rank(), self.announced, event)));
    }

    /// Runs requests until all are answered and the flash is idle.
    pub fn run(&mut self, drive: &mut Drive<ReferenceHandles>, load: Workload, requests: u64) {
        self.begin_phase(drive, load, requests);
        self.run_until(drive, u64::MAX);
    }

    /// Has the host begin to send requests.
    pub fn begin_phase(
        &mut self,
        drive: &mut Drive<ReferenceHandles>,
        load: Workload,
        requests: u64,
    ) {
        let start = Instant::from_nanos(self.now).max(drive.host.latest);
        drive.begin_phase(self, start, load, requests);
    }

    /// Lets everything happen that is due until then.
    pub fn run_until(&mut self, drive: &mut Drive<ReferenceHandles>, until: u64) {
        while self.heap.peek().is_some_and(|Reverse(first)| first.0 <= until) {
            let Some(Reverse((time, _, _, event))) = self.heap.pop() else { return };
            self.now = time;
            self.process(event);
            while let Some(call) = self.callbacks.pop_front() {
                self.call(drive, call);
            }
            if let Some(die) = self.just_ended.take() {
                self.begin_next(die);
            }
        }
    }

    fn call(&mut self, drive: &mut Drive<ReferenceHandles>, call: Callback) {
        let at = Instant::from_nanos(self.now);
        match call {
            Callback::Fetched(tag) => drive.fetched(self, tag, at),
            Callback::Read(tag) => drive.answer(self, tag, at),
            Callback::Loaded(tag) => drive.loaded(self, tag, at),
            Callback::Programmed(tag) => drive.programmed(self, tag, at),
            Callback::CopiesProgrammed(copies) => drive.copies_programmed(self, copies as u32, at),
            Callback::Erased(erase) => drive.erased(self, erase, at),
            Callback::Alarm => drive.data_received(self, at),
        }
    }

    fn process(&mut self, event: Event) {
        match event {
            Event::Arrived { tag } => {
                self.commands.insert((self.now, tag));
                if self.commands.len() == 1 {
                    self.fetch_next();
                }
            }
            Event::ControllerFree => {
                let (_, tag) = self.commands.pop_first().expect("a command was being fetched");
                self.at(self.now + self.timing.command_latency.nanos(), Event::Fetched { tag });
                self.fetch_next();
            }
            Event::Fetched { tag } => self.callbacks.push_back(Callback::Fetched(tag)),
            Event::Alarm { .. } => self.callbacks.push_back(Callback::Alarm),
            Event::Deliver { read } => self.deliver(read),
            Event::Send { tag, units } => {
                let end = self.over_link(false, self.unit_over_link * u64::from(units));
                self.at(end, Event::Answered { tag });
            }
            Event::Answered { tag } => self.callbacks.push_back(Callback::Read(tag)),
            Event::ChannelDone { channel } => {
                let (_, _, transfer) = self.channels[channel].queue.remove(0);
                self.channels[channel].is_moving = false;
                self.begin_transfer(channel);
                self.transferred(transfer);
            }
            Event::ChannelBegins { channel } => self.begin_transfer(channel),
            Event::DieDone { die, end } if end == self.dies[die].end => self.die_done(die),
            Event::DieDone { .. } => {}
        }
    }

    fn fetch_next(&mut self) {
        if !self.commands.is_empty() {
            self.at(self.now + self.timing.command_occupancy.nanos(), Event::ControllerFree);
        }
    }

    /// Has data cross the channel of a die. Of what is sensed, `sensed` is the number of the asking.
    fn enqueue_transfer(
        &mut self,
        die: usize,
        units: u32,
        sensed: Option<u64>,
        transfer: Transfer,
    ) {
        let channel = die % self.channels.len();
        let place = (self.now, sensed.is_none(), sensed.unwrap_or(self.announced));
        let state = &mut self.channels[channel];
        let behind = |it: &(QueuePosition, u64, Transfer)| it.0 <= place;
        let fixed = usize::from(state.is_moving);
        let before = state.queue[fixed..].iter().take_while(|it| behind(it)).count();
        let duration = self.unit_over_channel * u64::from(units);
        state.queue.insert(fixed + before, (place, duration, transfer));
        self.at(self.now, Event::ChannelBegins { channel });
    }

    fn begin_transfer(&mut self, channel: usize) {
        let state = &mut self.channels[channel];
        if !state.is_moving
            && let Some(&(_, duration, _)) = state.queue.first()
        {
            state.is_moving = true;
            self.at(self.now + duration, Event::ChannelDone { channel });
        }
    }

    /// The number of another asking.
    fn next_request_number(&mut self) -> u64 {
        self.requested_pages += 1;
        self.requested_pages
    }

    fn over_link(&mut self, to_drive: bool, duration: u64) -> u64 {
        let direction = usize::from(to_drive && self.timing.link_full_duplex);
        self.link[direction] = self.link[direction].max(self.now) + duration;
        self.link[direction]
    }

    fn transferred(&mut self, transfer: Transfer) {
        match transfer {
            Transfer::Page { to: To::Host { tag } } => {
                let end = self.over_link(false, self.unit_over_link);
                self.at(end, Event::Answered { tag });
            }
            Transfer::Page { to: To::Ram { tag } } => {
                self.callbacks.push_back(Callback::Loaded(tag))
            }
            Transfer::Page { to: To::Piece { read, piece } } => {
                self.reads[read].pieces[piece].1 = State::Ready;
                self.deliver(read);
            }
            Transfer::Copied { copy } => {
                for number in self.copied[copy].1.clone() {
                    self.copies[number].reads_left -= 1;
                }
                self.send_complete_copies();
            }
            Transfer::ToDie { die, job: Job::Program { tag, .. } } => {
                self.data_on_die.insert(tag, true);
                self.begin_next(die);
            }
            Transfer::ToDie { die, job: job @ Job::CopyProgram { number, .. } } => {
                if self.copies[number].is_urgent {
                    self.dies[die].foreground.push_back(job);
                    self.begin_next(die);
                } else {
                    self.enqueue_background(die, job);
                }
            }
            Transfer::ToDie { .. } => unreachable!("only programs carry data to a die"),
        }
    }

    fn send_complete_copies(&mut self) {
        while let Some(pending) = self.copies.get(self.next_copies) {
            if !pending.is_complete || pending.reads_left > 0 {
                return;
            }
            let PendingProgram { die, after, .. } = *pending;
            let job = Job::CopyProgram { number: self.next_copies, after };
            self.next_copies += 1;
            let units = self.geometry.units_per_program();
            self.enqueue_transfer(die, units, None, Transfer::ToDie { die, job });
        }
    }

    fn deliver(&mut self, read: usize) {
        let delivery = self.timing.delivery;
        let is_whole = self.reads[read].pieces.iter().all(|it| it.1 != State::Missing);
        if delivery == Delivery::WhenComplete && !is_whole {
            return;
        }
        let mut has_sent = None;
        for piece in 0..self.reads[read].pieces.len() {
            let (duration, state) = self.reads[read].pieces[piece];
            match state {
                State::Sent => {}
                State::Missing if delivery == Delivery::InOrder => break,
                State::Missing => {}
                State::Ready => {
                    self.reads[read].pieces[piece].1 = State::Sent;
                    has_sent = Some(self.over_link(false, duration));
                }
            }
        }
        let is_sent = self.reads[read].pieces.iter().all(|it| it.1 == State::Sent);
        if let Some(end) = has_sent.filter(|_| is_sent) {
            let tag = self.reads[read].tag;
            self.at(end, Event::Answered { tag });
        }
    }

    fn die_of(&self, unit: u32) -> usize {
        let program = unit / self.geometry.units_per_program();
        let block = unit / self.geometry.units_per_block();
        let group = block / self.geometry.blocks_per_group();
        (group * self.geometry.stripe() + program % self.geometry.stripe()) as usize
    }

    fn group_of(&self, unit: u32) -> u32 {
        unit >> self.geometry.units_per_sense_shift()
    }

    /// Has a page sensed, or takes it from the registers of its die.
    fn request_sense(&mut self, unit: u32, units: u32, to: To, is_stream: bool) -> usize {
        let (die, group) = (self.die_of(unit), self.group_of(unit));
        if is_stream
            && self.parameters.page_register
            && self.take_from_register(die, group, units, to)
        {
            return usize::MAX;
        }
        let sense = self.senses.len();
        let asked = (self.next_request_number(), units, to);
        self.senses.push(Sense { group: is_stream.then_some(group), pages: vec![asked] });
        self.dies[die].reads.push_back(Job::Sense { sense });
        self.begin_next(die);
        sense
    }

    fn take_from_register(&mut self, die: usize, group: u32, units: u32, to: To) -> bool {
        let asked = (self.next_request_number(), units, to);
        let state = &self.dies[die];
        if let Some(job) = state.reads.back().copied().or(state.running) {
            let Job::Sense { sense } = job else { return false };
            let is_same = self.senses[sense].group == Some(group);
            if is_same {
                self.senses[sense].pages.push(asked);
            }
            return is_same;
        }
        let is_held = state.foreground.is_empty() && state.register == Some(group);
        if is_held {
            self.enqueue_transfer(die, units, None, Transfer::Page { to });
        }
        is_held
    }
}

impl Device<ReferenceHandles> for ReferenceFlash {
    fn submit(&mut self, at: Instant, tag: u32) {
        self.at(at.nanos(), Event::Arrived { tag });
    }
    fn receive(&mut self, units: u32) -> Instant {
        Instant::from_nanos(self.over_link(true, self.unit_over_link * u64::from(units)))
    }
    fn send(&mut self, tag: u32, units: u32) {
        self.at(self.now, Event::Send { tag, units });
    }
    fn set_alarm(&mut self, at: Instant, tag: u32) {
        self.at(at.nanos(), Event::Alarm { tag });
    }
    fn read_unit(&mut self, tag: u32, unit: u32) {
        self.request_sense(unit, 1, To::Host { tag }, false);
    }
    fn begin_read(&mut self, tag: u32, is_stream: bool) -> usize {
        self.reads.push(Read { tag, is_stream, pieces: Vec::new(), needed: Vec::new() });
        self.reads.len() - 1
    }
    fn link_time(&self, units: u32) -> Nanoseconds {
        Nanoseconds::new(self.unit_over_link * u64::from(units))
    }
    fn add_buffered(&mut self, read: usize, link: Nanoseconds) {
        self.reads[read].pieces.push((link.nanos(), State::Ready));
    }
    fn add_awaited(&mut self, read: usize, link: Nanoseconds) -> usize {
        self.reads[read].pieces.push((link.nanos(), State::Missing));
        self.reads[read].pieces.len() - 1
    }
    fn add_page(&mut self, read: usize, unit: u32, units: u32, link: Nanoseconds) {
        let piece = self.add_awaited(read, link);
        self.reads[read].needed.push((unit, units, piece));
    }
    fn issue_read(&mut self, read: usize) {
        let is_stream = self.reads[read].is_stream;
        let needed = self.reads[read].needed.clone();
        let groups: Vec<u32> = needed.iter().map(|it| self.group_of(it.0)).collect();
        for (place, group) in groups.iter().enumerate() {
            if groups[..place].contains(group) {
                continue;
            }
            // Pages that are sensed together, together.
            let mut sense = None;
            for (&(unit, units, piece), _) in needed.iter().zip(&groups).filter(|it| it.1 == group)
            {
                let to = To::Piece { read, piece };
                match sense {
                    None => sense = Some(self.request_sense(unit, units, to, is_stream)),
                    Some(usize::MAX) => {
                        let die = self.die_of(unit);
                        assert!(
                            self.take_from_register(die, *group, units, to),
                            "its neighbour is"
                        );
                    }
                    Some(sense) => {
                        let asked = (self.next_request_number(), units, to);
                        self.senses[sense].pages.push(asked);
                    }
                }
            }
        }
        self.at(self.now, Event::Deliver { read });
    }
    fn piece_arrived(&mut self, read: usize, piece: usize) {
        self.reads[read].pieces[piece].1 = State::Ready;
        self.at(self.now, Event::Deliver { read });
    }
    fn load_page(&mut self, tag: u32, unit: u32, units: u32, is_stream: bool) {
        self.request_sense(unit, units, To::Ram { tag }, is_stream);
    }
    fn program(&mut self, tag: u32, unit: u32, after: Option<usize>) {
        let die = self.die_of(unit);
        let job = Job::Program { tag, after };
        self.data_on_die.insert(tag, false);
        self.promote_erase(die, after);
        self.dies[die].foreground.push_back(job);
        let units = self.geometry.units_per_program();
        self.enqueue_transfer(die, units, None, Transfer::ToDie { die, job });
        self.begin_next(die);
    }
    fn begin_copies(&mut self, unit: u32, after: Option<usize>) -> usize {
        let die = self.die_of(unit);
        let (is_complete, is_urgent) = (false, false);
        self.copies.push(PendingProgram { die, after, reads_left: 0, is_complete, is_urgent });
        self.copies.len() - 1
    }
    fn copy(&mut self, unit: u32, units: u32, to: usize, and_to: Option<usize>) {
        let into: Vec<usize> = [Some(to), and_to].into_iter().flatten().collect();
        for &number in &into {
            self.copies[number].reads_left += 1;
        }
        self.copied.push((units, into));
        let copy = self.copied.len() - 1;
        let die = self.die_of(unit);
        self.enqueue_background(die, Job::CopyRead { copy });
    }
    fn complete_copies(&mut self, copies: usize) {
        self.copies[copies].is_complete = true;
        self.send_complete_copies();
    }
    fn prioritise_copies(&mut self, through: usize) {
        for copies in &mut self.copies[..=through] {
            copies.is_urgent = true;
        }
        for die in 0..self.dies.len() {
            let is_wanted = |job: &Job| match *job {
                Job::CopyRead { copy } => self.copied[copy].1[0] <= through,
                Job::CopyProgram { number, .. } => number <= through,
                _ => false,
            };
            if let Some(place) = self.dies[die].background.iter().rposition(is_wanted) {
                (0..=place).for_each(|_| self.dies[die].promote_oldest());
            }
            self.begin_next(die);
        }
    }
    fn announce_erase(&mut self, block: u32) -> usize {
        let dies = dies_of(&self.geometry, block);
        let dies: Vec<usize> = (dies.start.0..dies.end.0).map(|die| die as usize).collect();
        let erase = self.erases.len();
        self.erasing.extend(dies.iter().map(|&die| (erase, die)));
        self.erases.push(dies);
        erase
    }
    fn erase(&mut self, erase: usize) {
        for die in self.erases[erase].clone() {
            let job = Job::Erase { erase };
            let jobs = self.dies[die].foreground.iter().chain(&self.dies[die].background);
            if jobs.into_iter().any(|job| job.after() == Some(erase)) {
                self.dies[die].foreground.push_front(job);
                self.begin_next(die);
            } else {
                self.enqueue_background(die, job);
            }
        }
    }
}
