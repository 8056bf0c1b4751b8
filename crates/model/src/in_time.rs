//! Collection's work in the order of time, for drives that are asked step by step.
//!
//! Asked at once, a drive books a copy's way in one go: the sense, then the channel from the end of
//! that on, though what asks for the channel in the meantime would have had it first. Where
//! requests are gone on with step by step ([`crate::pending`]) the present is known to the
//! nanosecond, and so is who comes first. Then each step of a copy waits here until its instant
//! has come, and debt is begun in the order in which dies fall idle.
//!
//! A step: a page is sensed, and asks for its channel; the data is in the controller, and a
//! program unit that is complete asks for the channel of its die; it is on the die, and its
//! program becomes debt. An emptied block is looked at again when its copies are durable.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::copies::ReadCopy;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::background::Operation;
use crate::ssd::Ssd;
use crate::units::{DieIndex, Instant, PhysicalUnit};

/// Program units of collection's that get units of one read: `programs` of them from number
/// `sequence` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Into {
    pub(crate) programs: u16,
    pub(crate) sequence: u32,
}

/// What happens next to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Booking number `booking` of `die` has sensed what `units` units are copied from.
    Sensed {
        die: u32,
        booking: u32,
        units: u16,
        into: Into,
    },
    /// The data of a read is in the controller.
    Read(Into),
    /// The data of program unit `sequence` is on its die.
    OnDie {
        first: u32,
        die: u32,
        sequence: u32,
    },
    /// The copies of the block that was emptied first are durable, as far as was known.
    Durable,
    /// A page with `units` units of the segment that fetch `number` reads ahead is sensed.
    SensedAhead {
        die: u32,
        units: u32,
        number: u32,
    },
    /// A map page is sensed for load `load`, and is in the controller.
    MapSensed {
        die: u32,
        load: u32,
    },
    MapRead {
        load: u32,
    },
    /// There is room in the map's write buffer, as far as was known.
    MapRoom,
    /// What the map's block held that was emptied first is durable, as far as was known.
    MapDurable,
}

/// What happens to copies under way, earliest first; of what happens at one instant, first what
/// was known first.
#[derive(Clone, Debug, Default)]
pub(crate) struct InTime {
    is_on: bool,
    events: BinaryHeap<Reverse<(Instant, u32, Event)>>,
    known: u32,
    /// When the block that was emptied first is looked at again.
    durable_at: Option<Instant>,
    /// The same of the map's blocks.
    map_durable_at: Option<Instant>,
}

impl InTime {
    /// Whether work is done in the order of time.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    fn add(&mut self, at: Instant, event: Event) {
        self.known = self.known.wrapping_add(1);
        self.events.push(Reverse((at, self.known, event)));
    }

    /// A page that is copied from is sensed by `at`, as booking number `booking` of `die`.
    pub(crate) fn sensed(
        &mut self,
        at: Instant,
        die: DieIndex,
        booking: u32,
        units: u16,
        into: Into,
    ) {
        self.add(at, Event::Sensed { die: die.0, booking, units, into });
    }

    /// A page of what fetch `number` reads ahead is sensed at `at`.
    pub(crate) fn sensed_ahead(&mut self, at: Instant, die: DieIndex, units: u32, number: u32) {
        self.add(at, Event::SensedAhead { die: die.0, units, number });
    }

    /// A map page is sensed at `at` for load `load`.
    pub(crate) fn map_sensed(&mut self, at: Instant, die: DieIndex, load: u32) {
        self.add(at, Event::MapSensed { die: die.0, load });
    }

    /// It is in the controller.
    pub(crate) fn map_read(&mut self, at: Instant, load: u32) {
        self.add(at, Event::MapRead { load });
    }

    /// The map's write buffer has room at `at`, as far as is known.
    pub(crate) fn map_room(&mut self, at: Instant) {
        self.add(at, Event::MapRoom);
    }

    /// The block of the map's that was emptied first can be erased at `at`, as far as is known.
    pub(crate) fn map_durable(&mut self, at: Instant) {
        if self.map_durable_at != Some(at) {
            self.map_durable_at = Some(at);
            self.add(at, Event::MapDurable);
        }
    }

    /// The data of a copy is on its die at `at`.
    pub(crate) fn on_die(&mut self, at: Instant, copy: ReadCopy) {
        let ReadCopy { first, die, sequence, .. } = copy;
        self.add(at, Event::OnDie { first: first.0, die: die.0, sequence });
    }

    /// The block that was emptied first can be erased at `at`, as far as is known.
    pub(crate) fn durable(&mut self, at: Instant) {
        if self.durable_at != Some(at) {
            self.durable_at = Some(at);
            self.add(at, Event::Durable);
        }
    }

    fn next_at(&self) -> Option<Instant> {
        self.events.peek().map(|Reverse((at, _, _))| *at)
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Does all that comes before `now` by itself, in the order of time.
    pub(crate) fn advance_in_time(&mut self, now: Instant) {
        if !self.in_time.is_on {
            self.in_time.is_on = true;
            // Whoever asks at once then sees to what is under way.
            self.collector.advance_from = Instant::START;
        }
        self.happen_until(now);
    }

    #[inline(never)]
    fn happen_until(&mut self, now: Instant) {
        loop {
            let due = self.resources.debt_due.iter().min().copied();
            let due = due.filter(|&due| due < now);
            let next = self.in_time.next_at().filter(|&next| next <= now);
            match (due, next) {
                (None, None) => break,
                (Some(due), next) if next.is_none_or(|next| due < next) => self.begin_debt(due),
                _ => self.happen(),
            }
        }
    }

    /// Begins the debt that is due at `due`, on the dies that are idle then.
    fn begin_debt(&mut self, due: Instant) {
        for die in 0..self.geometry.dies() {
            if self.resources.debt_due[die as usize] == due {
                // It may have been booked upon since.
                if self.resources.note_debt_due(DieIndex(die)) == due {
                    self.carry_out_oldest(DieIndex(die), due);
                    self.resources.note_debt_due(DieIndex(die));
                }
            }
        }
    }

    /// The next thing happens.
    fn happen(&mut self) {
        let Some(Reverse((at, _, event))) = self.in_time.events.pop() else { return };
        match event {
            Event::Sensed { die, booking, units, into } => {
                let end = self.resources.dies[die as usize].end_of(booking, at);
                if end > at {
                    return self.in_time.sensed(end, DieIndex(die), booking, units, into);
                }
                let there = self.move_copies(DieIndex(die), u32::from(units), at);
                self.in_time.add(there, Event::Read(into));
            }
            Event::Read(into) => {
                self.note_copies_read(into, at);
                self.owe_copies_read(at);
            }
            Event::OnDie { first, die, sequence } => {
                let program = Operation::Program { first: PhysicalUnit(first), sequence };
                self.owe(DieIndex(die), program, at, at);
                self.erase_emptied(at);
            }
            Event::Durable => {
                self.in_time.durable_at = None;
                self.erase_emptied(at);
            }
            Event::SensedAhead { .. }
            | Event::MapSensed { .. }
            | Event::MapRead { .. }
            | Event::MapRoom
            | Event::MapDurable => self.go_on_with_reads(event, at),
        }
    }

    /// What is read ahead, and of the map, goes on.
    fn go_on_with_reads(&mut self, event: Event, at: Instant) {
        match event {
            Event::SensedAhead { die, units, number } => {
                self.move_ahead(DieIndex(die), units, number, at);
            }
            Event::MapSensed { die, load } => self.move_map_page_read(DieIndex(die), load, at),
            Event::MapRead { load } => self.note_map_page_read(load, at),
            Event::MapRoom => {
                self.note_map_room();
                self.admit_map_pages(at);
            }
            Event::MapDurable => {
                self.in_time.map_durable_at = None;
                self.erase_map_blocks(at, false);
            }
            _ => unreachable!("collection's work goes on otherwise"),
        }
    }

    /// Books at once what is under way, for whoever is not asked step by step.
    #[inline(never)]
    pub(crate) fn leave_in_time(&mut self) {
        while self.in_time.is_on {
            self.in_time.is_on = false;
            while let Some(Reverse((at, _, event))) = self.in_time.events.pop() {
                match event {
                    Event::Sensed { die, units, into, .. } => {
                        let there = self.move_copies(DieIndex(die), u32::from(units), at);
                        self.note_copies_read(into, there);
                    }
                    Event::Read(into) => self.note_copies_read(into, at),
                    Event::OnDie { first, die, sequence } => {
                        let program = Operation::Program { first: PhysicalUnit(first), sequence };
                        self.owe(DieIndex(die), program, at, self.resources.now());
                    }
                    Event::Durable => self.in_time.durable_at = None,
                    Event::SensedAhead { .. }
                    | Event::MapSensed { .. }
                    | Event::MapRead { .. }
                    | Event::MapRoom => self.go_on_with_reads(event, at),
                    Event::MapDurable => self.in_time.map_durable_at = None,
                }
            }
        }
    }

    /// Books at once what is under way, though more will be asked step by step.
    pub(crate) fn book_what_is_in_time(&mut self) {
        let is_on = self.in_time.is_on;
        self.leave_in_time();
        self.in_time.is_on = is_on;
    }
}
