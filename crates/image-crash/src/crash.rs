//! The images that a crash of the host may leave.
//!
//! Everything before the beginning of the last sync that had returned is in them. Each page of 4 KiB that was
//! changed since is in any state that it went through, independently of other pages, or torn at a multiple of
//! 512 bytes between two states.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_attach::image::layout::Layout;

use crate::memory_storage::Event;
use crate::pages::{PAGE, Page, Pages, SECTOR};

/// A crash of the host at one moment: the durable image and the pages whose state is open.
#[derive(Clone, Debug)]
pub struct Crash {
    durable: Pages,
    changed: Vec<ChangedPage>,
    /// Number of writes and punches that are not durable.
    writes: usize,
}

/// A page that was changed since it was durable.
#[derive(Clone, Debug)]
struct ChangedPage {
    page: u32,
    /// States of the page, the durable one first.
    states: Vec<Page>,
    /// Number of the write that led to each state but the first.
    writes: Vec<usize>,
}

/// State of a changed page in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// One of its states.
    Whole(usize),
    /// The given number of sectors of the first state, and the rest of the second.
    Torn(usize, usize, usize),
}

/// Maximum number of images of one crash, for each way to choose them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number up to which all combinations of states are tried.
    pub all: usize,
    /// Number of pages that are tried alone; a quarter as many are tried torn.
    pub single: usize,
    /// Number of random images.
    pub random: usize,
}

impl Bounds {
    /// No image but the one with everything that was written.
    pub const NONE: Bounds = Bounds { all: 0, single: 0, random: 0 };
}

impl Crash {
    /// Returns the crash after `log`, which began with the image `begin`.
    pub fn after(begin: &Pages, log: &[Event]) -> Crash {
        let mut crashes = CrashPoints::new(begin.clone(), log);
        while crashes.advance().is_some() {}
        crashes.crash()
    }

    /// Returns the number of pages that were changed since they were durable.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    fn image(&self, states: impl IntoIterator<Item = State>) -> Pages {
        let mut pages = self.durable.clone();
        for (ChangedPage { page, states, .. }, state) in self.changed.iter().zip(states) {
            match state {
                State::Whole(0) => {}
                State::Whole(state) => pages.set_page(*page, states[state].clone()),
                State::Torn(sectors, one, other) => {
                    let bytes = |state: usize| states[state].as_deref().unwrap_or(&[0; PAGE]);
                    let mut torn = *bytes(other);
                    let first = sectors * SECTOR;
                    torn[..first].copy_from_slice(&bytes(one)[..first]);
                    pages.set_page(*page, Some(Arc::new(torn)));
                }
            }
        }
        pages
    }

    fn newest(&self, index: usize) -> usize {
        self.changed[index].states.len() - 1
    }

    /// Returns the image with all changes, as it was when the host crashed.
    pub fn newest_image(&self) -> Pages {
        self.image((0..self.changed.len()).map(|index| State::Whole(self.newest(index))))
    }

    /// Returns one of the images, chosen by `seed`.
    pub fn random_image(&self, layout: &Layout, seed: u64) -> Pages {
        let (mut images, bounds) = (Vec::new(), Bounds { all: 32, single: 8, random: 32 });
        self.images(layout, bounds, seed, |image| {
            images.push(image);
            true
        });
        let chosen = Pcg64Mcg::seed_from_u64(!seed).random_range(0..images.len().max(1));
        images.into_iter().nth(chosen).unwrap_or_else(|| self.newest_image())
    }

    /// Calls `each` with images, as many as `bounds` allow, until it returns false. Returns true if it never
    /// did. The images follow from the crash and `seed`.
    pub fn images(
        &self,
        layout: &Layout,
        bounds: Bounds,
        seed: u64,
        mut each: impl FnMut(Pages) -> bool,
    ) -> bool {
        let count = self.changed.len();
        let combinations = self.changed.iter().try_fold(1_usize, |product, changed| {
            product.checked_mul(changed.states.len()).filter(|&product| product <= bounds.all)
        });
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        if let Some(combinations) = combinations {
            for mut number in 0..combinations {
                let states = self.changed.iter().map(|changed| {
                    let state = number % changed.states.len();
                    number /= changed.states.len();
                    State::Whole(state)
                });
                let states: Vec<State> = states.collect();
                if !each(self.image(states)) {
                    return false;
                }
            }
        } else {
            let old = vec![State::Whole(0); count];
            let new: Vec<State> = (0..count).map(|it| State::Whole(self.newest(it))).collect();
            let mut images = vec![old.clone(), new.clone()];
            images.extend(self.by_region(layout, &old, &new));
            // One page alone is old, or alone is new.
            for index in sample(count, bounds.single, &mut generator) {
                for (others, state) in [(&new, 0), (&old, self.newest(index))] {
                    let mut states = others.clone();
                    states[index] = State::Whole(state);
                    images.push(states);
                }
            }
            for states in images {
                if !each(self.image(states)) {
                    return false;
                }
            }
        }
        for index in sample(count, bounds.single / 4, &mut generator) {
            for is_new in [false, true] {
                let others = |it| State::Whole(if is_new { self.newest(it) } else { 0 });
                let mut states: Vec<State> = (0..count).map(others).collect();
                let sectors = generator.random_range(1..PAGE / SECTOR);
                let newest = self.newest(index);
                states[index] = if generator.random_range(0..2) == 0 {
                    State::Torn(sectors, newest, newest - 1)
                } else {
                    State::Torn(sectors, newest - 1, newest)
                };
                if !each(self.image(states)) {
                    return false;
                }
            }
        }
        let random = if count == 0 { 0 } else { bounds.random };
        // Some writes reached the disk, each with the page as it was then; the others did not.
        for _ in 0..random / 2 {
            let here: Vec<bool> = (0..self.writes).map(|_| generator.random()).collect();
            let state = |changed: &ChangedPage| {
                let last = changed.writes.iter().rposition(|&write| here[write]);
                State::Whole(last.map_or(0, |it| it + 1))
            };
            if !each(self.image(self.changed.iter().map(state))) {
                return false;
            }
        }
        for _ in 0..random.div_ceil(2) {
            let rarely = [2, 2, 8, 50][generator.random_range(0..4)];
            let is_new = generator.random_range(0..2) == 0;
            let mut draw = |index| {
                let newest = self.newest(index);
                if generator.random_range(0..rarely) > 0 {
                    return State::Whole(if is_new { newest } else { 0 });
                }
                let (one, other) =
                    (generator.random_range(0..=newest), generator.random_range(0..=newest));
                State::Torn(generator.random_range(0..=PAGE / SECTOR), one, other)
            };
            let states: Vec<State> = (0..count).map(&mut draw).collect();
            if !each(self.image(states)) {
                return false;
            }
        }
        true
    }

    /// Returns all combinations in which each region of the image is durable or newest as a whole.
    fn by_region(&self, layout: &Layout, old: &[State], new: &[State]) -> Vec<Vec<State>> {
        let region = |page: u32| Region::of(layout, u64::from(page) * PAGE as u64);
        let mut regions: Vec<Region> = self.changed.iter().map(|it| region(it.page)).collect();
        regions.sort_unstable();
        regions.dedup();
        let mut images = Vec::new();
        for chosen in 1..(1_u32 << regions.len()) - 1 {
            let state = |(index, changed): (usize, &ChangedPage)| {
                let number = regions.binary_search(&region(changed.page));
                let number = number.expect("it was found before");
                if chosen & (1 << number) != 0 { new[index] } else { old[index] }
            };
            images.push(self.changed.iter().enumerate().map(state).collect());
        }
        images
    }
}

/// Returns at most `most` of the numbers below `count`: all if there are no more, otherwise random ones.
fn sample(count: usize, most: usize, generator: &mut Pcg64Mcg) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|_| generator.random_range(0..count)).collect()
}

/// A region of an image. Copies of the same records at different places are regions of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// Header.
    Header,
    /// State.
    State,
    /// Buffer dump: one of two slots.
    Dump(u8),
    /// Block table: one of two copies.
    Table(u8),
    /// Log of trims: one of two logs with two copies each.
    Trims(u8),
    /// Checkpoint: the drive's tables.
    Checkpoint,
    /// Spare areas: one of two copies.
    Spare(u8),
    /// Data of the flash.
    Data,
}

impl Region {
    /// Returns the region of byte `at`.
    pub fn of(layout: &Layout, at: u64) -> Region {
        let part = |begin: u64, size: u64| ((at - begin) / size) as u8;
        match at {
            at if at >= layout.data => Region::Data,
            at if at >= layout.spare => Region::Spare(part(layout.spare, layout.spare_size)),
            at if at >= layout.checkpoint => Region::Checkpoint,
            at if at >= layout.trims => Region::Trims(part(layout.trims, layout.trims_size)),
            at if at >= layout.table => Region::Table(part(layout.table, layout.table_size)),
            at if at >= layout.dump => Region::Dump(part(layout.dump, layout.dump_size)),
            at if at >= layout.state => Region::State,
            _ => Region::Header,
        }
    }
}

/// Walks through a log, and knows the possible crash at each moment.
#[derive(Debug)]
pub struct CrashPoints<'a> {
    log: &'a [Event],
    /// Number of events that have happened.
    position: usize,
    durable: Pages,
    /// Number of events that are durable.
    boundary: usize,
    syncs_in_flight: BTreeMap<u32, usize>,
}

impl<'a> CrashPoints<'a> {
    /// Returns a walk before the first event of `log`, with the image `begin` at that moment.
    pub fn new(begin: Pages, log: &'a [Event]) -> CrashPoints<'a> {
        CrashPoints {
            log,
            position: 0,
            durable: begin,
            boundary: 0,
            syncs_in_flight: BTreeMap::new(),
        }
    }

    /// Lets the next event happen, and returns it; `None` at the end.
    pub fn advance(&mut self) -> Option<&'a Event> {
        let event = self.log.get(self.position)?;
        match event {
            Event::SyncBegun { number } => {
                self.syncs_in_flight.insert(*number, self.position);
            }
            Event::SyncDone { number } => {
                let until = self.syncs_in_flight.remove(number).unwrap_or(0);
                while self.boundary < until {
                    apply(&self.log[self.boundary], &mut self.durable);
                    self.boundary += 1;
                }
            }
            Event::Crashed(left) => {
                self.durable = left.clone();
                self.boundary = self.position + 1;
                self.syncs_in_flight.clear();
            }
            Event::Write { .. } | Event::Punch { .. } | Event::Host(_) => {}
        }
        self.position += 1;
        Some(event)
    }

    /// Returns true if the next event makes changes durable, or there is none: a crash now leaves the most
    /// possibilities open.
    pub fn is_crash_point(&self) -> bool {
        let next = self.log.get(self.position);
        matches!(next, None | Some(Event::SyncDone { .. } | Event::Crashed(_)))
    }

    /// Returns the crash at this moment.
    pub fn crash(&self) -> Crash {
        let mut pages: BTreeMap<u32, ChangedPage> = BTreeMap::new();
        let (mut latest, mut writes) = (self.durable.clone(), 0);
        for event in &self.log[self.boundary..self.position] {
            let (at, length) = match event {
                Event::Write { at, data } => (*at, data.len() as u64),
                Event::Punch { at, length } => (*at, *length),
                _ => continue,
            };
            let is_hole = matches!(event, Event::Punch { .. });
            let before = latest.clone();
            apply(event, &mut latest);
            for page in at / PAGE as u64..(at + length).div_ceil(PAGE as u64) {
                let page = page as u32;
                // A punched hole stays zeros.
                if is_hole && before.page(page).is_none() {
                    continue;
                }
                let changed = pages.entry(page).or_insert_with(|| ChangedPage {
                    page,
                    states: vec![self.durable.page(page)],
                    writes: Vec::new(),
                });
                changed.states.push(latest.page(page));
                changed.writes.push(writes);
            }
            writes += 1;
        }
        let (durable, changed) = (self.durable.clone(), pages.into_values().collect());
        Crash { durable, changed, writes }
    }
}

fn apply(event: &Event, pages: &mut Pages) {
    match event {
        Event::Write { at, data } => drop(pages.write(data, *at)),
        Event::Punch { at, length } => pages.punch(*at, *length),
        Event::SyncBegun { .. } | Event::SyncDone { .. } | Event::Host(_) | Event::Crashed(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::setup::SETUPS;

    const ALL: Bounds = Bounds { all: 1 << 12, single: 100, random: 0 };

    fn write(at: usize, byte: u8) -> Event {
        Event::Write { at: at as u64, data: vec![byte; PAGE].into() }
    }

    fn first_bytes(log: &[Event], pages: usize, bounds: Bounds) -> BTreeSet<Vec<u8>> {
        let crash = Crash::after(&Pages::new((pages * PAGE) as u64), log);
        let (mut found, layout) = (BTreeSet::new(), SETUPS[0].layout().expect("a drive"));
        crash.images(&layout, bounds, 1, |image| {
            let mut bytes = vec![0; pages * PAGE];
            image.read(&mut bytes, 0);
            found.insert(bytes.iter().step_by(PAGE).copied().collect());
            true
        });
        found
    }

    #[test]
    fn what_was_synced_is_in_every_image_and_the_rest_in_all_combinations() {
        let log = [
            write(0, 1),
            Event::SyncBegun { number: 1 },
            write(PAGE, 2),
            Event::SyncDone { number: 1 },
            write(0, 3),
            Event::Punch { at: PAGE as u64, length: PAGE as u64 },
        ];
        let expected: BTreeSet<Vec<u8>> =
            [[1, 0], [1, 2], [3, 0], [3, 2]].iter().map(|it| it.to_vec()).collect();
        assert_eq!(first_bytes(&log, 2, ALL), expected);
        let not_synced = first_bytes(&log[..3], 2, ALL);
        assert_eq!(not_synced.len(), 4, "a sync that has not returned promises nothing");
    }

    #[test]
    fn with_more_pages_than_combinations_allow_each_is_missing_once_and_alone_once() {
        const PAGES: usize = 40;
        let log: Vec<Event> = (0..PAGES).map(|page| write(page * PAGE, 1)).collect();
        let found = first_bytes(&log, PAGES, ALL);
        let count = |bytes: &&Vec<u8>| bytes.iter().filter(|&&it| it == 1).count();
        for expected in [0, 1, PAGES - 1, PAGES] {
            let all = found.iter().filter(|it| count(it) == expected).count();
            assert_eq!(all, if expected % PAGES == 0 { 1 } else { PAGES }, "{expected} pages");
        }
    }

    #[test]
    fn what_a_crash_has_left_is_durable_and_what_it_has_not_is_gone() {
        let size = 2 * PAGE as u64;
        let (mut left, mut bytes) = (Pages::new(size), vec![0; 2 * PAGE]);
        left.write(&[7; PAGE], 0);
        let log = [
            write(0, 1),
            Event::SyncBegun { number: 1 },
            write(PAGE, 2),
            Event::Crashed(left),
            Event::SyncDone { number: 1 },
            write(PAGE, 3),
        ];
        let crash = Crash::after(&Pages::new(size), &log);
        assert_eq!(crash.changed(), 1);
        crash.newest_image().read(&mut bytes, 0);
        assert_eq!((bytes[0], bytes[PAGE]), (7, 3));
        crash.durable.read(&mut bytes, 0);
        assert_eq!((bytes[0], bytes[PAGE]), (7, 0));
    }

    #[test]
    fn a_page_may_be_torn_between_two_states() {
        let log = [write(0, 1)];
        let crash = Crash::after(&Pages::new(PAGE as u64), &log);
        let layout = SETUPS[0].layout().expect("a drive");
        let mut torn = 0;
        crash.images(&layout, Bounds { all: 9, single: 4, random: 200 }, 1, |image| {
            let mut bytes = vec![0; PAGE];
            image.read(&mut bytes, 0);
            assert!(bytes.chunks(SECTOR).all(|it| it.iter().all(|byte| *byte == it[0])));
            torn += u32::from(bytes.contains(&0) && bytes.contains(&1));
            true
        });
        assert!(torn > 10, "{torn} torn pages");
    }
}
