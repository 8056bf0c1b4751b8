//! The reference: a slow, plain simulator of the same drive, with an event queue.
//!
//! The model answers every request at once, from the times its resources are taken until. This
//! one lets everything happen in the order in which it happens: reads overtake programs and delay
//! them, the delayed programs hold their buffer slots for longer, transfers start in the order in
//! which data is ready, a copy is programmed only when it has been read. It has the policies of
//! the model and nothing else in common with it, and it is written to be believed, not to be fast.

mod die;
mod durability;
mod events;
mod map;
mod map_traffic;
mod placement;
mod read_ahead;
mod reads;
mod shape;
mod writes;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use ssdlab_model::Configuration;
use ssdlab_model::suspend::{SuspendWhen, Suspendable};

use die::{Die, Interrupted, Job};
use durability::{Journal, Waiting};
use events::{Event, Events, Lane};
use map_traffic::MapTraffic;
use placement::{Placement, Row};
use read_ahead::ReadAhead;
use reads::{Pieces, Segment, Sense};
use shape::Shape;
use writes::{CopyProgram, HostWrite, WaitingErase, WaitingWrite};

/// What the host asks for, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read { first: u32, units: u32 },
    Write { first: u32, units: u32 },
    WriteFua { first: u32, units: u32 },
    Flush,
}

impl Operation {
    /// Units that it reads or writes.
    fn units(self) -> u32 {
        match self {
            Operation::Read { units, .. }
            | Operation::Write { units, .. }
            | Operation::WriteFua { units, .. } => units,
            Operation::Flush => 0,
        }
    }
}

/// What was measured. Latencies are nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub reads: Vec<u64>,
    pub writes: Vec<u64>,
    /// Of flushes and of writes with FUA.
    pub durable: Vec<u64>,
    pub elapsed: u64,
}

/// Nanoseconds that the host takes after the answer of its operation of that number until it sends the next.
/// Without a pause requests fall into step, events come at one instant again and again, and their order
/// then, which nothing real tells, shows in the latencies.
pub fn pause_of_host(number: usize) -> u64 {
    if crate::HOST_PAUSES { (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 } else { 0 }
}

/// What a transfer is for.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    /// A page (or part of one) of a host read has reached the controller.
    Page { owner: Owner },
    /// A map page has reached the controller.
    MapPage { load: u64 },
    /// Data of a copy has reached the controller.
    Copy { read: u64 },
    /// A program unit has reached its die.
    ToDie { die: usize, job: Job },
    /// Data of a read has reached the host.
    Piece { request: usize },
    /// Data of a write has reached the buffer.
    Data { request: usize, program: u64, units: u32 },
}

/// Who waits for a page: a piece of a request, or a segment read ahead.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Request { request: usize, piece: usize },
    Segment { segment: usize },
}

#[derive(Clone, Debug)]
struct Request {
    operation: Operation,
    number: usize,
    sent: u64,
    /// Map pages that are not in RAM yet.
    map_pages_left: usize,
    /// Parts of a write that are not in the buffer yet.
    parts_left: usize,
    pieces: Pieces,
}

/// The drive and its host.
#[derive(Clone, Debug)]
pub struct Reference {
    shape: Shape,
    events: Events,
    placement: Placement,
    map: MapTraffic,
    read_ahead: ReadAhead,
    dies: Vec<Die>,
    /// The channels, then the link to the host, then the link to the drive.
    lanes: Vec<Lane<Transfer>>,
    controller: VecDeque<usize>,
    requests: Vec<Request>,
    senses: Vec<Sense>,
    segments: Vec<Segment>,
    /// The host's program units that are in the buffer, by number; gone when programmed.
    host_writes: BTreeMap<u64, HostWrite>,
    /// The places of those.
    buffered: HashSet<Row>,
    buffer_used: u32,
    waiting_writes: VecDeque<WaitingWrite>,
    /// Who waits for what to be durable.
    waiting: Vec<Waiting>,
    journal: Journal,
    /// Units that each of collection's reads transfers.
    copy_reads: HashMap<u64, (usize, u64)>,
    copies_read: HashSet<u64>,
    copies: HashMap<u64, CopyProgram>,
    /// Copies that wait to be read, in the order in which they will be programmed.
    copies_to_read: VecDeque<u64>,
    copies_in_flight: BTreeSet<u64>,
    waiting_erases: Vec<WaitingErase>,
    /// Parts of blocks whose erase has to be over before they can be programmed again, with the
    /// latest copy and host program from before.
    erasing: BTreeMap<(usize, usize), (u64, u64)>,
    to_send: VecDeque<Operation>,
    measured: Measured,
}

impl Reference {
    pub fn new(configuration: &Configuration) -> Reference {
        let shape = Shape::of(configuration);
        Reference {
            events: Events::default(),
            placement: Placement::new(&shape),
            map: MapTraffic::default(),
            read_ahead: ReadAhead::default(),
            dies: vec![Die::default(); shape.dies],
            lanes: vec![Lane::default(); shape.channels + 2],
            controller: VecDeque::new(),
            requests: Vec::new(),
            senses: Vec::new(),
            segments: Vec::new(),
            host_writes: BTreeMap::new(),
            buffered: HashSet::new(),
            buffer_used: 0,
            waiting_writes: VecDeque::new(),
            waiting: Vec::new(),
            journal: Journal::default(),
            copy_reads: HashMap::new(),
            copies_read: HashSet::new(),
            copies: HashMap::new(),
            copies_to_read: VecDeque::new(),
            copies_in_flight: BTreeSet::new(),
            waiting_erases: Vec::new(),
            erasing: BTreeMap::new(),
            to_send: VecDeque::new(),
            measured: Measured::default(),
            shape,
        }
    }

    /// Units the host has written and units programmed, so far.
    pub fn written(&self) -> (u64, u64) {
        let map = self.placement.map_on_flash.as_ref().map_or(0, |map| map.programmed_units);
        (self.placement.host_units, self.placement.flash_units + map)
    }

    /// The present; the start of the next run.
    pub fn now(&self) -> u64 {
        self.events.now()
    }

    /// Leaves the drive alone until `at`.
    pub fn wait_until(&mut self, at: u64) {
        self.events.wait_until(at);
    }

    /// Keeps `depth` operations in flight until all were answered, then lets the drive finish
    /// what it still has to do.
    pub fn run(&mut self, depth: usize, operations: &[Operation]) -> Measured {
        let start = self.now();
        self.requests.clear();
        self.senses.clear();
        self.segments.clear();
        self.read_ahead = ReadAhead::default();
        self.measured = Measured::default();
        self.to_send = operations.iter().copied().collect();
        for _ in 0..depth {
            self.send();
        }
        while let Some(event) = self.events.next() {
            self.happen(event);
        }
        let Measured { reads, writes, durable, .. } = &self.measured;
        let answered = reads.len() + writes.len() + durable.len();
        assert_eq!(answered, operations.len(), "every request is answered");
        self.measured.elapsed -= start;
        std::mem::take(&mut self.measured)
    }

    /// The host sends its next operation.
    fn send(&mut self) {
        let Some(operation) = self.to_send.pop_front() else {
            return;
        };
        let sent = self.now();
        let pieces = Pieces::default();
        let number = self.requests.len();
        let (map_pages_left, parts_left) = (0, 0);
        self.requests.push(Request { operation, number, sent, map_pages_left, parts_left, pieces });
        self.controller.push_back(self.requests.len() - 1);
        if self.controller.len() == 1 {
            self.take_up_next();
        }
    }

    /// The controller begins with the oldest command that waits for it.
    fn take_up_next(&mut self) {
        let Some(&request) = self.controller.front() else {
            return;
        };
        let operation = self.requests[request].operation;
        let flush = operation == Operation::Flush;
        let data = u64::from(operation.units()) * self.shape.unit_over_controller;
        let overhead = if flush { self.shape.flush_overhead } else { data };
        self.events.after(self.shape.command_occupancy + overhead, Event::ControllerFree);
    }

    /// What a request waits for is over: it is answered, later the longer it is.
    fn answer(&mut self, request: usize) {
        let units = self.requests[request].operation.units();
        match u64::from(units) * self.shape.unit_latency {
            0 => self.answered(request),
            latency => self.events.after(latency, Event::Answered { request }),
        }
    }

    /// A request is answered; the host sends another.
    fn answered(&mut self, request: usize) {
        let now = self.now();
        let Request { operation, sent, number, .. } = self.requests[request];
        self.measured.elapsed = now;
        match operation {
            Operation::Read { .. } => self.measured.reads.push(now - sent),
            Operation::Write { .. } => self.measured.writes.push(now - sent),
            Operation::WriteFua { .. } | Operation::Flush => self.measured.durable.push(now - sent),
        }
        match pause_of_host(number) {
            0 => self.send(),
            pause => self.events.after(pause, Event::Send),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ControllerFree => {
                let request = self.controller.pop_front().expect("a command was taken up");
                self.events.after(self.shape.command_latency, Event::Act { request });
                self.take_up_next();
            }
            Event::Act { request } => self.begin_request(request),
            Event::EntryRead { request } => self.map_page_known(request),
            Event::Send => self.send(),
            Event::Issued => self.send_what_waited(),
            Event::Answered { request } => self.answered(request),
            Event::LaneDone { lane } => {
                let transfer = self.lanes[lane].done(lane, &mut self.events);
                self.transferred(transfer);
            }
            Event::DieDone { die, end } if end == self.dies[die].end => self.die_done(die),
            Event::DieDone { .. } => {}
        }
    }

    fn transferred(&mut self, transfer: Transfer) {
        match transfer {
            Transfer::Page { owner } => self.page_arrived(owner),
            Transfer::MapPage { load } => self.map_page_read(load),
            Transfer::Copy { read } => self.copy_arrived(read),
            Transfer::ToDie { die, job } => self.program_arrived(die, job),
            Transfer::Piece { request } => self.piece_delivered(request),
            Transfer::Data { request, program, units } => {
                self.data_received(request, program, units);
            }
        }
    }

    fn over_channel(&mut self, die: usize, units: usize, transfer: Transfer) {
        let lane = die % self.shape.channels;
        let duration = self.shape.unit_over_channel * units as u64;
        self.lanes[lane].ask(lane, duration, transfer, &mut self.events);
    }

    fn over_link(&mut self, to_host: bool, units: u32, transfer: Transfer) {
        let both = !self.shape.full_duplex || to_host;
        let lane = self.shape.channels + usize::from(!both);
        let duration = self.shape.unit_over_link * u64::from(units);
        self.lanes[lane].ask(lane, duration, transfer, &mut self.events);
    }

    /// Gives an idle die its next work: a read, else what is booked, else collection.
    fn wake(&mut self, die: usize) {
        if self.dies[die].running.is_some() {
            self.interrupt(die);
            return;
        }
        if let Some(job) = self.dies[die].reads.pop_front() {
            self.begin(die, job);
            return;
        }
        if let Some(Interrupted { job, left, times }) = self.dies[die].interrupted.take() {
            self.begin_for(die, job, self.shape.suspend.resume.nanos() + left);
            self.dies[die].times = times;
            return;
        }
        // What waits for the erase of its block lets the rest go ahead.
        let ready = |queue: &VecDeque<Job>| queue.iter().position(|&it| self.is_erased(die, it));
        let mut place = ready(&self.dies[die].booked);
        if place.is_none() {
            let Some(oldest) = ready(&self.dies[die].background) else {
                return;
            };
            let job = self.dies[die].background.remove(oldest).expect("it waits there");
            self.dies[die].booked.push_back(job);
            place = Some(self.dies[die].booked.len() - 1);
        }
        let place = place.expect("something is booked");
        let next = self.dies[die].booked[place];
        if self.can_begin(die, next) {
            self.dies[die].booked.remove(place);
            self.begin(die, next);
        }
    }

    fn begin(&mut self, die: usize, job: Job) {
        let duration = match job {
            Job::CopyRead { read } => self.copy_reads[&read].1 + self.shape.copy_overhead,
            Job::Sense { sense } => self.senses[sense].took,
            Job::MapRead { .. } => self.shape.mean_sense,
            Job::HostProgram { .. } | Job::CopyProgram { .. } | Job::MapProgram { .. } => {
                self.shape.program
            }
            Job::Erase { .. } => self.shape.erase,
            Job::Journal { .. } => self.shape.journal_program.expect("there is a journal"),
            Job::Stop => unreachable!("its duration depends on what it stops"),
        };
        self.begin_for(die, job, duration);
    }

    fn begin_for(&mut self, die: usize, job: Job, duration: u64) {
        let until = self.now() + duration;
        let die_state = &mut self.dies[die];
        die_state.running = Some(job);
        die_state.register = None;
        die_state.running_until = until;
        die_state.end += 1;
        die_state.times = 0;
        let end = die_state.end;
        self.events.after(duration, Event::DieDone { die, end });
    }

    /// Interrupts what is in progress on a die if a read waits and it may.
    fn interrupt(&mut self, die: usize) {
        let suspend = self.shape.suspend;
        let is_full = !self.waiting_writes.is_empty();
        if is_full && suspend.when == SuspendWhen::BufferHasRoom {
            return;
        }
        let job = self.dies[die].running.expect("something is in progress");
        let may = match job {
            Job::Erase { .. } => {
                matches!(suspend.operations, Suspendable::Erase | Suspendable::Both)
            }
            Job::HostProgram { .. }
            | Job::CopyProgram { .. }
            | Job::MapProgram { .. }
            | Job::Journal { .. } => {
                matches!(suspend.operations, Suspendable::Program | Suspendable::Both)
            }
            Job::Sense { .. } | Job::CopyRead { .. } | Job::MapRead { .. } | Job::Stop => false,
        };
        let mut left = self.dies[die].running_until - self.now();
        // The step under way goes on to its end.
        let rest = left.checked_rem(suspend.step.nanos()).unwrap_or(0);
        left -= rest;
        let times = self.dies[die].times;
        let waits = !self.dies[die].reads.is_empty();
        if may && waits && times < suspend.most && left > suspend.suspend.nanos() {
            self.dies[die].interrupted = Some(Interrupted { job, left, times: times + 1 });
            self.begin_for(die, Job::Stop, rest + suspend.suspend.nanos());
        }
    }

    fn die_done(&mut self, die: usize) {
        let job = self.dies[die].running.take().expect("a die ends what it began");
        match job {
            Job::Sense { sense } => {
                self.dies[die].register = self.senses[sense].of_stream;
                self.sensed(die, sense);
            }
            Job::MapRead { load } => self.over_channel(die, 1, Transfer::MapPage { load }),
            Job::MapProgram { program } => self.map_programmed(program),
            Job::CopyRead { read } => {
                let (units, _) = self.copy_reads.remove(&read).expect("it was asked for");
                self.over_channel(die, units, Transfer::Copy { read });
            }
            Job::HostProgram { program } => self.host_programmed(program),
            Job::CopyProgram { copy } => self.copy_programmed(copy),
            Job::Erase { block } => {
                self.erasing.remove(&(block, die));
            }
            Job::Journal { page } => self.page_programmed(page),
            Job::Stop => {}
        }
        self.wake(die);
    }
}

impl Measured {
    /// Notes the latency of one operation.
    pub fn note(&mut self, operation: &Operation, latency: u64) {
        match operation {
            Operation::Read { .. } => self.reads.push(latency),
            Operation::Write { .. } => self.writes.push(latency),
            Operation::WriteFua { .. } | Operation::Flush => self.durable.push(latency),
        }
    }
}
