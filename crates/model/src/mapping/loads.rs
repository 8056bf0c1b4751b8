//! Map pages that are under way while requests are gone on with step by step: on their way to RAM,
//! waiting for room in the map's write buffer, or in a program unit of which some are missing.

use std::collections::VecDeque;

use crate::stream::FilledProgram;
use crate::units::{Instant, PhysicalUnit};

/// When a map page is in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    At(Instant),
    /// When the load of this number is done.
    WithLoad(u32),
}

/// When a request knows where its units lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// Then.
    At(Instant),
    /// Not before, as far as is known: it is to be asked again then.
    NotBefore(Instant),
}

/// How far the flash is with a map page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Sensing,
    /// It has its channel, and is there at [`Load::at`].
    Moving,
    /// It was read, or is in RAM anyway.
    Done,
}

/// A map page on its way to RAM.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) reading: Reading,
    /// Whether the page that made room for it waits for room itself.
    pub(crate) awaits_room: bool,
    /// When it is there; before that is known, the earliest that it can be.
    pub(crate) at: Instant,
    /// Program units that hold its data, too.
    pub(crate) programs: Vec<u32>,
}

/// Loads, by number, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    under_way: VecDeque<Load>,
    /// The number of the first; wraps.
    first: u32,
}

impl Loads {
    /// Begins a load; returns its number.
    pub(crate) fn begin(&mut self, load: Load) -> u32 {
        self.under_way.push_back(load);
        self.first.wrapping_add(self.under_way.len() as u32 - 1)
    }

    /// Load `number`, unless it was done long ago.
    pub(crate) fn get(&self, number: u32) -> Option<&Load> {
        self.under_way.get(number.wrapping_sub(self.first) as usize)
    }

    /// The same to change it.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Load> {
        self.under_way.get_mut(number.wrapping_sub(self.first) as usize)
    }

    /// Forgets what was done before `now`.
    pub(crate) fn forget_done(&mut self, now: Instant) {
        let is_done =
            |load: &Load| load.reading == Reading::Done && !load.awaits_room && load.at < now;
        while self.under_way.front().is_some_and(is_done) {
            self.under_way.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// A program unit of map pages that was not sent off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsentMapProgram {
    /// Its place in the order in which they were begun; wraps.
    pub(crate) number: u32,
    /// Pages in it that were not let in, and those that were not read.
    pub(crate) missing: u32,
    /// When the others were there.
    pub(crate) ready: Instant,
    /// Once it is full.
    pub(crate) filled: Option<FilledProgram>,
}

impl UnsentMapProgram {
    /// Whether it is full and holds `place`.
    pub(crate) fn holds(&self, place: PhysicalUnit) -> bool {
        self.filled.is_some_and(|it| (it.first.0..it.first.0 + it.units).contains(&place.0))
    }
}

/// A map page that waits for room in the map's write buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwaitsRoom {
    /// Its place in the queue for the buffer.
    pub(crate) queued: u64,
    /// The program unit that it goes into.
    pub(crate) program: u32,
    /// The load that it made room for.
    pub(crate) load: Option<u32>,
}

/// What requests wait for: lists of loads, by number, kept so that none allocates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookups {
    lists: Vec<Vec<u32>>,
    free: Vec<u32>,
}

impl Lookups {
    /// The number of an empty list.
    pub(crate) fn begin(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        })
    }

    pub(crate) fn get(&mut self, number: u32) -> &mut Vec<u32> {
        &mut self.lists[number as usize]
    }

    pub(crate) fn end(&mut self, number: u32) {
        self.lists[number as usize].clear();
        self.free.push(number);
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapUnderWay {
    pub(crate) loads: Loads,
    pub(crate) waiting: VecDeque<AwaitsRoom>,
    pub(crate) lookups: Lookups,
    /// When it is looked again whether there is room.
    pub(crate) room_at: Option<Instant>,
}
