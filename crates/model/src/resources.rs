//! Dies, channels, the host link and the controller, each as the times it is taken.
//!
//! Everything that occupies a resource is reserved through [`Resources::reserve`], which answers at
//! once when the work starts and ends; nothing is queued here. A request that asks for all it needs
//! in one go costs nanoseconds, and that is exact as long as work on a resource is asked for in the
//! order it will be done. Where it is not, three rules keep close to what an event queue would do
//! (the tests hold both against each other). Requests of several kinds, and streams of reads, ask
//! step by step, in the order of time ([`crate::pending`], and the heap in [`crate::in_time`]):
//!
//! - a read goes before programs and erases that are booked on its die but not started, and
//!   pushes them back ([`die::Die`]), or interrupts the one in progress ([`suspend`]);
//! - a transfer may use a gap that an earlier reservation left ([`lane::Lane`]), and where reads
//!   and writes share a link, go before one that is ready later ([`shared_link::SharedLink`]);
//! - background work (collection) is debt on its die: it is done when the die would be idle, or
//!   when there is so much of it that pacing demands it ([`background`]).

pub(crate) mod background;
pub(crate) mod die;
pub(crate) mod lane;
pub(crate) mod register;
pub(crate) mod shared_link;
pub mod suspend;

use crate::attribution::Blocked;
use crate::geometry::Geometry;
use crate::timing::Timing;
use crate::units::{DieIndex, Instant, Nanoseconds};
use background::BackgroundQueue;
use die::{Die, NO_DEBT};
use lane::Lane;
use register::PageRegister;
use shared_link::SharedLink;
use suspend::SuspendParameters;

/// A stretch of a resource's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins.
    pub start: Instant,
    /// When it is over.
    pub end: Instant,
}

/// Something that does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// A die, sensing, programming or erasing.
    Die(DieIndex),
    /// A channel, by its number.
    Channel(usize),
    /// The host link, drive to host.
    LinkToHost,
    /// The host link, host to drive.
    LinkToDrive,
    /// The controller, taking up commands.
    Controller,
}

/// Who goes first on a die and on a link that both directions share. A channel treats all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A host read: before all that has not started.
    Read,
    /// A host program: in the order they are booked.
    Write,
    /// Collection: when nothing else is to be done, or when pacing demands it.
    Background,
}

/// All the resources of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    pub(crate) dies: Vec<Die>,
    pub(crate) background: Vec<BackgroundQueue>,
    /// When each die can do more of its debt at the earliest, which it knows as well: what all dies
    /// are looked through by, a line of the cache for eight of them.
    pub(crate) debt_due: Vec<Instant>,
    pub(crate) channels: Vec<Lane>,
    to_host: Lane,
    to_drive: Lane,
    both_ways: SharedLink,
    full_duplex: bool,
    controller: Instant,
    /// What each die's page registers hold; empty where nobody looks.
    registers: Vec<PageRegister>,
    /// What reads waited for that was no read.
    pub(crate) blocked: Blocked,
    /// The arrival of the latest request: nothing will be asked for before it.
    now: Instant,
}

impl Resources {
    pub(crate) fn new(geometry: &Geometry, timing: &Timing, debt_max: u32) -> Self {
        let dies = geometry.dies() as usize;
        let over_channel = timing.channel.duration(geometry.unit_size());
        let over_link = timing.link.duration(geometry.unit_size());
        Resources {
            dies: (0..geometry.dies())
                .map(|die| Die::default().on_channel(geometry.channel_of(DieIndex(die))))
                .collect(),
            background: vec![BackgroundQueue::new(debt_max); dies],
            debt_due: vec![NO_DEBT; dies],
            channels: vec![Lane::new(over_channel); geometry.channels() as usize],
            to_host: Lane::new(over_link),
            to_drive: Lane::new(over_link),
            both_ways: SharedLink::default(),
            full_duplex: timing.link_full_duplex,
            controller: Instant::START,
            registers: Vec::new(),
            blocked: Blocked::default(),
            now: Instant::START,
        }
    }

    /// The same with dies that suspend.
    pub(crate) fn with_suspend(mut self, suspend: SuspendParameters) -> Self {
        for die in &mut self.dies {
            *die = Die::new(suspend).on_channel(die.channel());
        }
        self
    }

    /// The same with page registers that are looked into, if they `are`.
    pub(crate) fn with_registers(mut self, are: bool) -> Self {
        self.registers = vec![PageRegister::EMPTY; if are { self.dies.len() } else { 0 }];
        self
    }

    /// Whether page registers are looked into.
    pub(crate) fn has_registers(&self) -> bool {
        !self.registers.is_empty()
    }

    /// When the pages `sense` are in the registers of `die`, for who asks at `at`; nothing if they are
    /// not, or nobody looks. What the die could have done until then has to be booked.
    pub(crate) fn read_register(
        &mut self,
        die: DieIndex,
        sense: u32,
        at: Instant,
    ) -> Option<Instant> {
        let register = self.registers.get_mut(die.0 as usize)?;
        let sensed = register.sensed(sense)?;
        self.dies[die.0 as usize].holds_read_of(sensed, at).then(|| register.give(at))
    }

    /// Notes that `die` has sensed the pages `sense`, or will have, at `sensed`.
    pub(crate) fn note_register(&mut self, die: DieIndex, sense: u32, sensed: Instant) {
        if let Some(register) = self.registers.get_mut(die.0 as usize) {
            *register = PageRegister::new(sense, sensed);
        }
    }

    /// Takes `resource` for `duration`, not before `earliest`.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        resource: Resource,
        class: Class,
        earliest: Instant,
        duration: Nanoseconds,
    ) -> Span {
        let now = self.now;
        match resource {
            Resource::Die(die) => {
                let die = &mut self.dies[die.0 as usize];
                match class {
                    Class::Read => die.read(earliest, duration, &mut self.blocked),
                    Class::Write | Class::Background => {
                        die.append(now, earliest, duration, class == Class::Background)
                    }
                }
            }
            // Reads of one unit are the most common, what is programmed has several.
            Resource::Channel(channel) => match class {
                Class::Read => self.channels[channel].reserve(now, earliest, duration),
                Class::Write | Class::Background => {
                    self.channels[channel].reserve_several(now, earliest, duration)
                }
            },
            Resource::LinkToHost if self.full_duplex => {
                self.to_host.reserve(now, earliest, duration)
            }
            Resource::LinkToDrive if self.full_duplex => {
                self.to_drive.reserve(now, earliest, duration)
            }
            Resource::LinkToHost | Resource::LinkToDrive => {
                self.both_ways.reserve(now, earliest, duration, class)
            }
            Resource::Controller => {
                // Commands are taken up in the order they arrive.
                self.now = earliest;
                let start = self.controller.max(earliest);
                self.controller = start + duration;
                Span { start, end: self.controller }
            }
        }
    }

    /// Has a page on `die` sensed for a read, not before `earliest`, and moved over its channel as
    /// far as that takes `over_channel`; the instant it is with the controller. `None`, and nothing
    /// is done, where the die could have done some of its debt before.
    #[inline(always)]
    pub(crate) fn read_page(
        &mut self,
        die: DieIndex,
        earliest: Instant,
        sense: Nanoseconds,
        over_channel: Nanoseconds,
    ) -> Option<Instant> {
        let die = &mut self.dies[die.0 as usize];
        if die.owes_before(earliest) {
            return None;
        }
        let sensed = die.read(earliest, sense, &mut self.blocked).end;
        Some(self.channels[die.channel()].reserve(self.now, sensed, over_channel).end)
    }

    /// The same for who asks in the order of time ([`crate::pending`]), as the events of one drive
    /// happen.
    pub(crate) fn reserve_in_turn(
        &mut self,
        resource: Resource,
        class: Class,
        at: Instant,
        duration: Nanoseconds,
    ) -> Span {
        let now = self.now;
        match resource {
            Resource::Channel(channel) => self.channels[channel].reserve_in_turn(now, at, duration),
            Resource::LinkToHost if self.full_duplex => {
                self.to_host.reserve_in_turn(now, at, duration)
            }
            Resource::LinkToDrive if self.full_duplex => {
                self.to_drive.reserve_in_turn(now, at, duration)
            }
            Resource::Die(_)
            | Resource::LinkToHost
            | Resource::LinkToDrive
            | Resource::Controller => self.reserve(resource, class, at, duration),
        }
    }

    /// Keeps the controller busy for `longer` with the command that it has just taken up, and
    /// acts on at `at`; returns when it does now.
    #[inline(always)]
    pub(crate) fn occupy_controller_longer(&mut self, longer: Nanoseconds, at: Instant) -> Instant {
        self.controller += longer;
        at + longer
    }

    /// Works out when `die` can do more of its debt. What is booked later only delays it.
    #[inline(always)]
    pub(crate) fn note_debt_due(&mut self, die: DieIndex) -> Instant {
        let die = die.0 as usize;
        let due = match self.background[die].oldest_from() {
            Some(from) => self.dies[die].booked_until().later(from),
            None => NO_DEBT,
        };
        self.debt_due[die] = due;
        self.dies[die].set_debt_due(due);
        due
    }

    /// The same resources, with nothing booked.
    pub(crate) fn renewed(&self, geometry: &Geometry, timing: &Timing) -> Self {
        let debt_max = self.background[0].debt_max();
        Resources::new(geometry, timing, debt_max)
            .with_suspend(self.dies[0].suspend_parameters())
            .with_registers(self.has_registers())
    }

    /// The arrival of the latest request.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The instant by which everything booked so far, background debt aside, is done.
    pub(crate) fn idle_from(&self) -> Instant {
        let dies = self.dies.iter().map(Die::booked_until);
        let channels = self.channels.iter().map(Lane::free_from);
        let links =
            [self.to_host.free_from(), self.to_drive.free_from(), self.both_ways.free_from()];
        dies.chain(channels).chain(links).max().unwrap_or(Instant::START)
    }
}
