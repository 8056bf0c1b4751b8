//! Host writes, from the link to the flash, and collection's work with its order: a copy is
//! programmed after it was read, and a block is erased after its copies were programmed.

use super::die::Job;
use super::events::Event;
use super::placement::{Background, Chunk, HostProgram};
use super::{Operation, Reference, Request, Transfer};

/// A program unit of the host's that is in the buffer, at least in part.
#[derive(Clone, Debug, Default)]
pub struct HostWrite {
    received: u32,
    pub(super) filled: Option<HostProgram>,
    sent_to_die: bool,
    on_die: bool,
}

/// A write that waits for room in the buffer. What is in it has its place, the rest has none yet.
#[derive(Clone, Debug)]
pub struct WaitingWrite {
    request: usize,
    next: u32,
    units: u32,
    /// The program unit that its first data is in.
    program: Option<u64>,
}

/// A program unit of collection's.
#[derive(Clone, Debug)]
pub struct CopyProgram {
    die: usize,
    block: usize,
    reads: Vec<u64>,
    /// It waits for the host's programs up to this one, of those that had to wait.
    after_held: Option<u64>,
    /// True if a host program waits for it: then it is booked like one.
    urgent: bool,
}

/// An erase that waits for copies, and for what the host wrote anew, to be durable.
#[derive(Clone, Debug)]
pub struct WaitingErase {
    block: usize,
    after: u64,
    after_host: u64,
}

impl Reference {
    pub(super) fn write(&mut self, request: usize, first: u32, units: u32) {
        self.read_ahead.forget(&self.shape, first, units);
        self.requests[request].parts_left = units as usize;
        self.waiting_writes.push_back(WaitingWrite { request, next: first, units, program: None });
        self.admit();
    }

    fn is_durable_when_answered(&self, request: usize) -> bool {
        let fua = matches!(self.requests[request].operation, Operation::WriteFua { .. });
        self.shape.write_through || fua && self.shape.flush_waits
    }

    /// Lets data into the buffer in the order in which it came, as much at a time as goes into one
    /// program unit.
    fn admit(&mut self) {
        while let Some(write) = self.waiting_writes.front().cloned() {
            let count = write.units.min(self.placement.free_units_in_program());
            if self.buffer_used + count > self.shape.buffer_units {
                return;
            }
            let program = self.admit_units(write.request, write.next, count);
            let first = write.program.unwrap_or(program);
            let front = self.waiting_writes.front_mut().expect("there is a front");
            (front.next, front.units) = (write.next + count, write.units - count);
            front.program = Some(first);
            if front.units == 0 {
                self.waiting_writes.pop_front();
                if self.is_durable_when_answered(write.request) {
                    self.wait_for_own(write.request, first, program);
                }
            }
        }
    }

    /// Gives `units` units from `first` their places in the program unit that is being filled, and
    /// asks for the link; returns the number of the program unit.
    fn admit_units(&mut self, request: usize, first: u32, units: u32) -> u64 {
        let chunks = self.placement.write(first, units);
        let before = self.placement.take_before();
        self.collect(before);
        let [Chunk { program, row, units, fills }] = &chunks[..] else {
            panic!("it goes into one program unit");
        };
        // Until it is programmed, what was just placed is read from the buffer.
        self.buffered.insert(*row);
        if let Some(filled) = fills {
            self.map_changed(filled.data_units as usize, Some(*program));
        }
        self.host_writes.entry(*program).or_default().filled = fills.clone();
        self.buffer_used += units;
        let data = Transfer::Data { request, program: *program, units: *units };
        self.over_link(false, *units, data);
        *program
    }

    pub(super) fn data_received(&mut self, request: usize, program: u64, units: u32) {
        self.host_writes.get_mut(&program).expect("it has its place").received += units;
        self.send_if_complete(program);
        self.requests[request].parts_left -= units as usize;
        self.answer_if_done(request);
    }

    /// A write is done when its data is in the buffer and its map pages are in RAM.
    pub(super) fn answer_if_done(&mut self, request: usize) {
        let Request { parts_left, map_pages_left, .. } = self.requests[request];
        if parts_left == 0 && map_pages_left == 0 && !self.is_durable_when_answered(request) {
            self.answer(request);
        }
    }

    /// Sends a program unit to its die once all its data is there, and collection's share with it.
    pub(super) fn send_if_complete(&mut self, program: u64) {
        let write = &self.host_writes[&program];
        let Some(filled) = &write.filled else {
            return;
        };
        let is_complete = write.received >= filled.data_units;
        if !is_complete || write.sent_to_die || !self.placement.are_issued(filled.after_issued) {
            return;
        }
        let HostProgram { row, die, first_on_die, .. } = filled.clone();
        // A die programs a block in order.
        let unsent = |at: usize| {
            let is_it = |it: &&HostWrite| {
                !it.sent_to_die && it.filled.as_ref().is_some_and(|it| it.row == (row.0, at))
            };
            self.host_writes.range(..program).map(|it| it.1).any(|it| is_it(&it))
        };
        if row.1.checked_sub(self.shape.stripe).is_some_and(unsent) {
            return;
        }
        self.host_writes.get_mut(&program).expect("it is in the buffer").sent_to_die = true;
        if first_on_die {
            self.finish_erase(die, row.0);
        }
        let job = Job::HostProgram { program };
        self.dies[die].booked.push_back(job);
        self.over_channel(die, self.shape.units_per_program, Transfer::ToDie { die, job });
        let work = self.placement.keep_pace();
        self.collect(work);
    }

    pub(super) fn program_arrived(&mut self, die: usize, job: Job) {
        match job {
            Job::HostProgram { program } => {
                self.host_writes.get_mut(&program).expect("it is buffered").on_die = true;
            }
            Job::CopyProgram { copy } => return self.copy_on_die(die, copy),
            Job::MapProgram { program } => self.map_program_arrived(program),
            Job::Journal { page } => self.page_on_die(page),
            _ => unreachable!("only programs carry data to a die"),
        }
        self.wake(die);
    }

    pub(super) fn host_programmed(&mut self, program: u64) {
        let write = self.host_writes.remove(&program).expect("it was buffered");
        let filled = write.filled.expect("it was full");
        self.buffer_used -= filled.data_units;
        self.buffered.remove(&filled.row);
        self.placement.host_programmed(program);
        self.owe_copies_read();
        self.admit();
        self.answer_durable();
        self.begin_durable_erases();
    }

    /// Gives collection's work to the dies as debt; where there is too much, the oldest is booked.
    fn collect(&mut self, work: Vec<Background>) {
        for padded in self.placement.take_padded() {
            self.padded(padded);
        }
        for operation in work {
            match operation {
                Background::Read { read, die, units, took } => {
                    self.copy_reads.insert(read, (units, took));
                    self.owe(die, Job::CopyRead { read });
                }
                Background::Program { copy, die, block, reads, after_held } => {
                    let program = CopyProgram { die, block, reads, after_held, urgent: false };
                    self.copies_in_flight.insert(copy);
                    self.copies.insert(copy, program);
                    self.copies_to_read.push_back(copy);
                    self.owe_copies_read();
                }
                Background::Erase { block, after, after_host } => {
                    for die in self.dies_of(block) {
                        self.erasing.insert((block, die), (after, after_host));
                    }
                    self.waiting_erases.push(WaitingErase { block, after, after_host });
                    self.begin_durable_erases();
                }
            }
        }
    }

    fn owe(&mut self, die: usize, job: Job) {
        self.dies[die].background.push_back(job);
        if self.dies[die].background.len() > self.shape.debt_max {
            self.dies[die].book_oldest();
        }
        self.wake(die);
    }

    fn dies_of(&self, block: usize) -> std::ops::Range<usize> {
        let first = self.shape.group_of(block) * self.shape.stripe;
        first..first + self.shape.stripe
    }

    /// Erases wait here, not on the dies, until every program they depend on is over.
    fn begin_durable_erases(&mut self) {
        let oldest = self.copies_in_flight.first().copied().unwrap_or(u64::MAX);
        let oldest_host = match self.host_writes.keys().next() {
            Some(&oldest) if !self.shape.buffer_protected => oldest,
            _ => u64::MAX,
        };
        let (durable, waiting) = std::mem::take(&mut self.waiting_erases)
            .into_iter()
            .partition::<Vec<_>, _>(|erase| erase.after < oldest && erase.after_host < oldest_host);
        self.waiting_erases = waiting;
        let was_issued = !durable.is_empty();
        for WaitingErase { block, .. } in durable {
            self.placement.durable(block);
            for die in self.dies_of(block) {
                self.owe_erase(die, block);
            }
        }
        if was_issued {
            self.events.after(0, Event::Issued);
        }
    }

    /// Sends the host's programs that have waited for erases which are issued now.
    pub(super) fn send_what_waited(&mut self) {
        let waiting: Vec<u64> = self.host_writes.keys().copied().collect();
        for program in waiting {
            if self.host_writes.contains_key(&program) {
                self.send_if_complete(program);
            }
        }
    }

    pub(super) fn owe_erase(&mut self, die: usize, block: usize) {
        let job = Job::Erase { block };
        // What is to be programmed into the block cannot let its erase wait behind it.
        let jobs = self.dies[die].booked.iter().chain(&self.dies[die].background);
        if jobs.into_iter().any(|&job| self.block_of(job) == Some(block)) {
            self.dies[die].booked.push_front(job);
            self.wake(die);
        } else {
            self.owe(die, job);
        }
    }

    /// The block that a job programs.
    fn block_of(&self, job: Job) -> Option<usize> {
        match job {
            Job::HostProgram { program } => {
                Some(self.host_writes[&program].filled.as_ref().expect("it is full").row.0)
            }
            Job::CopyProgram { copy } => Some(self.copies[&copy].block),
            Job::MapProgram { program } => self.map_block_of(program),
            _ => None,
        }
    }

    /// Before the first program into a block on a die: has it erased there, and for that the
    /// copies programmed that its erase waits for.
    fn finish_erase(&mut self, die: usize, block: usize) {
        self.dies[die].book_through(Job::Erase { block });
        let after = self.waiting_erases.iter().find(|it| it.block == block).map(|it| it.after);
        if let Some(after) = after {
            let copies: Vec<u64> = self.copies_in_flight.range(..=after).copied().collect();
            for copy in &copies {
                self.copies.get_mut(copy).expect("it is under way").urgent = true;
            }
            for on in 0..self.shape.dies {
                for &copy in &copies {
                    for &read in &self.copies[&copy].reads.clone() {
                        self.dies[on].book_through(Job::CopyRead { read });
                    }
                    self.dies[on].book_through(Job::CopyProgram { copy });
                }
                self.wake(on);
            }
        }
        self.wake(die);
    }

    /// Returns true if the block that a job programs is erased on its die.
    pub(super) fn is_erased(&self, die: usize, job: Job) -> bool {
        let erase = self.block_of(job).and_then(|block| self.erasing.get(&(block, die)));
        erase.is_none_or(|&(after, after_host)| match job {
            Job::CopyProgram { copy } => copy <= after,
            Job::HostProgram { program } => program <= after_host,
            Job::MapProgram { program } => program <= after,
            _ => true,
        })
    }

    /// Returns true if the oldest booked job can begin on an idle die.
    pub(super) fn can_begin(&self, die: usize, job: Job) -> bool {
        let on_die = match job {
            Job::HostProgram { program } => self.host_writes[&program].on_die,
            Job::MapProgram { program } => self.map_program_on_die(program),
            Job::Journal { page } => self.is_page_on_die(page),
            _ => true,
        };
        on_die && self.is_erased(die, job)
    }

    /// The data of a copy is on its die: its program is debt.
    fn copy_on_die(&mut self, die: usize, copy: u64) {
        let job = Job::CopyProgram { copy };
        if self.copies[&copy].urgent {
            self.dies[die].booked.push_back(job);
            self.wake(die);
        } else {
            self.owe(die, job);
        }
    }

    pub(super) fn copy_arrived(&mut self, read: u64) {
        self.copies_read.insert(read);
        self.owe_copies_read();
    }

    /// Copies whose data was read are moved to their dies, in the order of their places.
    fn owe_copies_read(&mut self) {
        while let Some(&copy) = self.copies_to_read.front() {
            let CopyProgram { die, reads, after_held, .. } = &self.copies[&copy];
            let is_held = after_held.is_some_and(|it| self.placement.is_held_up_to(it));
            if is_held || !reads.iter().all(|read| self.copies_read.contains(read)) {
                return;
            }
            let die = *die;
            self.copies_to_read.pop_front();
            let job = Job::CopyProgram { copy };
            self.over_channel(die, self.shape.units_per_program, Transfer::ToDie { die, job });
        }
    }

    pub(super) fn copy_programmed(&mut self, copy: u64) {
        self.copies_in_flight.remove(&copy);
        self.copies.remove(&copy);
        self.map_changed(self.shape.units_per_program, None);
        self.begin_durable_erases();
    }
}
