//! The host itself crashes: of what was written to the image and not made durable, any part may be
//! missing, in any order, and pages may be torn. What was flushed is there all the same.
//!
//! A witness takes down all that is done to the image. For a moment chosen at random the image is then
//! made anew as a disk may hold it: everything before the beginning of the last `fdatasync` that had
//! returned, and of each page of 4 KiB as much of what came later as chance wants, sector by sector; or of
//! what came later some writes as a whole. Half of the moments are within a sync.
//!
//! `SSDLAB_CRASHES=500` has it crash as often, `SSDLAB_SEED=7` at other moments.

#[path = "support/recorded.rs"]
mod recorded;
mod support;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use recorded::{Deed, Recorded, Witness};
use ssdlab_attach::engine::{Engine, Options, Time};
use ssdlab_attach::image::Image;
use support::small_image;

const UNIT: usize = 4096;

/// Units that each thread has for itself: all of them nearly fill the drive, so that it collects.
const UNITS: usize = 600;

const THREADS: usize = 3;

/// A change of a unit; 0 is that it was never written. Each has its own number.
type Change = u64;

/// Set in the number of a change that is a trim.
const TRIMMED: Change = 1 << 63;

/// What happened, in the order in which it did.
enum Event {
    Image(Deed),
    /// Somebody is about to change these units.
    Begun {
        units: std::ops::Range<usize>,
        change: Change,
    },
    /// These units are durable as they are said to be, or as they became later.
    Promised(Vec<(usize, Change)>),
}

#[derive(Default)]
struct History(Mutex<Vec<Event>>);

impl History {
    fn add(&self, event: Event) {
        self.0.lock().expect("nobody has panicked").push(event);
    }
}

impl Witness for History {
    fn note(&self, deed: Deed) {
        self.add(Event::Image(deed));
    }
}

fn content(unit: usize, change: Change) -> Vec<u8> {
    if change == 0 || change & TRIMMED != 0 {
        return vec![0; UNIT];
    }
    [change.to_le_bytes(), (unit as u64).to_le_bytes()].concat().repeat(UNIT / 16)
}

/// What one thread does in a life.
fn work(
    engine: &Engine,
    history: &History,
    mut held: Vec<Change>,
    first: usize,
    numbers: &Mutex<Change>,
    mut generator: Pcg64Mcg,
) {
    for _ in 0..generator.random_range(1..150) {
        let count = [1, 1, 1, 5, 40][generator.random_range(0..5)];
        let from = generator.random_range(0..=UNITS - count);
        let units = first + from..first + from + count;
        let offset = (units.start * UNIT) as u64;
        let kind = generator.random_range(0..20);
        if kind >= 17 {
            let _ = engine.flush(Instant::now()).expect("a flush");
            if engine.time() == Time::Real && generator.random_range(0..4) == 0 {
                // Nobody asks for anything: there is time to punch out what is erased.
                std::thread::sleep(std::time::Duration::from_millis(15));
            }
            let held = held.iter().enumerate().map(|(unit, &it)| (first + unit, it)).collect();
            history.add(Event::Promised(held));
            continue;
        }
        let change = {
            let mut numbers = numbers.lock().expect("nobody has panicked");
            *numbers += 1;
            *numbers | if kind >= 14 { TRIMMED } else { 0 }
        };
        history.add(Event::Begun { units: units.clone(), change });
        held[from..from + count].fill(change);
        if kind >= 14 {
            let _ =
                engine.trim(Instant::now(), offset, (count * UNIT) as u64, true).expect("a trim");
            continue;
        }
        let data: Vec<u8> = units.clone().flat_map(|unit| content(unit, change)).collect();
        let _ = engine.write(Instant::now(), offset, &data, kind == 0).expect("a write");
        if kind == 0 {
            history.add(Event::Promised(units.map(|unit| (unit, change)).collect()));
        }
    }
}

/// What of the pages that are not durable a disk has.
#[derive(Clone, Copy)]
enum Luck {
    Nothing,
    Everything,
    /// Each page has come to some state that it went through, or is torn between two.
    Any,
    /// All but a few pages are as they were.
    Little,
    /// Some writes have come there as a whole, the others not at all. Where pages come by chance, what is
    /// longer than one hardly ever does, such as a dump of the buffer without what was programmed with it.
    Writes,
}

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// The image as a crash may leave it that comes after `events`, beginning from `image`.
fn crash(image: &mut [u8], events: &[Event], luck: Luck, generator: &mut Pcg64Mcg) {
    let deeds: Vec<&Deed> = events
        .iter()
        .filter_map(|it| if let Event::Image(deed) = it { Some(deed) } else { None })
        .collect();
    let mut durable = 0;
    let mut begun = HashMap::new();
    for (index, deed) in deeds.iter().enumerate() {
        match deed {
            Deed::SyncBegun { number } => drop(begun.insert(*number, index)),
            Deed::SyncDone { number } => durable = durable.max(begun[number]),
            Deed::Write { .. } | Deed::Punch { .. } => {}
        }
    }
    let mut versions: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    for (index, deed) in deeds.iter().enumerate() {
        let (at, data) = match deed {
            Deed::Write { at, data } => (*at as usize, data.clone()),
            Deed::Punch { at, length } => (*at as usize, vec![0; *length as usize]),
            Deed::SyncBegun { .. } | Deed::SyncDone { .. } => continue,
        };
        if index < durable {
            image[at..at + data.len()].copy_from_slice(&data);
            continue;
        }
        if matches!(luck, Luck::Writes) {
            if generator.random() {
                image[at..at + data.len()].copy_from_slice(&data);
            }
            continue;
        }
        for page in at / PAGE..(at + data.len()).div_ceil(PAGE) {
            let states = versions.entry(page).or_insert_with(|| {
                let end = ((page + 1) * PAGE).min(image.len());
                vec![image[page * PAGE..end].to_vec()]
            });
            let mut state = states.last().expect("it has one").clone();
            let from = at.max(page * PAGE);
            let until = (at + data.len()).min(page * PAGE + state.len());
            state[from - page * PAGE..until - page * PAGE]
                .copy_from_slice(&data[from - at..until - at]);
            states.push(state);
        }
    }
    for (page, states) in versions {
        let mut draw = || match luck {
            Luck::Nothing | Luck::Writes => 0,
            Luck::Everything => states.len() - 1,
            Luck::Little if generator.random_range(0..50) > 0 => 0,
            Luck::Little | Luck::Any => generator.random_range(0..states.len()),
        };
        let (one, other) = (draw(), draw());
        for sector in 0..states[0].len() / SECTOR {
            let from = [one, other][generator.random_range(0..2)];
            let bytes = sector * SECTOR..(sector + 1) * SECTOR;
            image[page * PAGE + bytes.start..page * PAGE + bytes.end]
                .copy_from_slice(&states[from][bytes]);
        }
    }
}

/// A moment for a crash, `from` the event of that number on: any, or by half one within a sync, when all is
/// written that somebody waits for and nothing of it needs to be durable.
fn moment(events: &[Event], from: usize, generator: &mut Pcg64Mcg) -> usize {
    let is_done = |event: &Event| matches!(event, Event::Image(Deed::SyncDone { .. }));
    let within: Vec<usize> = (from..events.len()).filter(|&it| is_done(&events[it])).collect();
    if within.is_empty() || generator.random() {
        generator.random_range(from..=events.len())
    } else {
        within[generator.random_range(0..within.len())]
    }
}

/// The changes that each unit may hold after `events`.
fn allowed(held: &[Change], events: &[Event]) -> Vec<Vec<Change>> {
    let mut allowed: Vec<Vec<Change>> = held.iter().map(|&it| vec![it]).collect();
    for event in events {
        match event {
            Event::Begun { units, change } => {
                allowed[units.clone()].iter_mut().for_each(|states| states.push(*change));
            }
            Event::Promised(units) => {
                for (unit, change) in units {
                    let states = &mut allowed[*unit];
                    let from = states.iter().position(|it| it == change);
                    states.drain(..from.unwrap_or(0));
                }
            }
            Event::Image(_) => {}
        }
    }
    allowed
}

/// Writes `image` to `path`, with holes where it is zeros.
fn put(path: &Path, image: &[u8]) {
    std::fs::remove_file(path).expect("the one before");
    let file = std::fs::File::create(path).expect("a file");
    file.set_len(image.len() as u64).expect("a sparse file");
    for (index, page) in image.chunks(PAGE).enumerate() {
        if page.iter().any(|&byte| byte != 0) {
            let at = (index * PAGE) as u64;
            std::os::unix::fs::FileExt::write_all_at(&file, page, at).expect("room");
        }
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |it| it.parse().expect("a number"))
}

/// Lives that each end with a crash of the host; after each the drive holds what it must.
fn crashes(time: Time, changes: &[(&str, &str)], seed: u64) {
    let directory = support::directory();
    let path = small_image(directory.path(), changes);
    let mut generator = Pcg64Mcg::seed_from_u64(number("SSDLAB_SEED", seed));
    let mut image = std::fs::read(&path).expect("the image");
    let mut held = vec![0; THREADS * UNITS];
    let numbers = Mutex::new(0);
    for life in 0..number("SSDLAB_CRASHES", 25) {
        let history = Arc::new(History::default());
        let storage = Arc::new(Recorded::open(&path, history.clone()));
        let opened = Image::open_storage(storage, &path)
            .unwrap_or_else(|error| panic!("life {life}: {error}"));
        let options = Options { time, ..Options::default() };
        let (engine, _) =
            Engine::open(opened, options).unwrap_or_else(|error| panic!("life {life}: {error:?}"));
        let opening = history.0.lock().expect("nobody has panicked").len();
        for (unit, &change) in held.iter().enumerate() {
            let mut data = vec![0; UNIT];
            let _ = engine.read(Instant::now(), (unit * UNIT) as u64, &mut data).expect("a read");
            assert!(data == content(unit, change), "life {life}: unit {unit} changed in opening");
        }
        std::thread::scope(|scope| {
            // At the drive's time it is a helper that writes to the image, until the drive is closed.
            scope.spawn(|| engine.help());
            let mut workers = Vec::new();
            for (index, held) in held.chunks(UNITS).enumerate() {
                let (engine, history, numbers) = (&engine, &*history, &numbers);
                let its_own = Pcg64Mcg::seed_from_u64(generator.random());
                let first = index * UNITS;
                let held = held.to_vec();
                workers.push(
                    scope.spawn(move || work(engine, history, held, first, numbers, its_own)),
                );
            }
            let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            if time == Time::Real {
                engine.close().expect("it is closed");
            }
            ends.into_iter().for_each(|end| end.expect("a worker"));
        });
        drop(engine);
        let events = std::mem::take(&mut *history.0.lock().expect("nobody has panicked"));
        // Some crash while the drive is opened.
        let from = if generator.random_range(0..5) == 0 { 0 } else { opening };
        let events = &events[..moment(&events, from, &mut generator)];
        let luck = [
            Luck::Nothing,
            Luck::Everything,
            Luck::Any,
            Luck::Any,
            Luck::Little,
            Luck::Writes,
            Luck::Writes,
        ];
        let luck = luck[generator.random_range(0..luck.len())];
        crash(&mut image, events, luck, &mut generator);
        put(&path, &image);
        held = found(&path, &allowed(&held, events), life);
        // Looking has let the drive recover: the next crash begins from what it wrote meanwhile.
        image = std::fs::read(&path).expect("the image");
    }
}

/// What each unit holds, which has to be one of what it may.
fn found(path: &Path, allowed: &[Vec<Change>], life: u64) -> Vec<Change> {
    let image = Image::open(path).unwrap_or_else(|error| panic!("life {life}: {error}"));
    let options = Options { time: Time::Fast, ..Options::default() };
    let (engine, _) =
        Engine::open(image, options).unwrap_or_else(|error| panic!("life {life}: {error:?}"));
    let mut held = Vec::new();
    for (unit, states) in allowed.iter().enumerate() {
        let mut data = vec![0; UNIT];
        let offset = (unit * UNIT) as u64;
        let _ = engine
            .read(Instant::now(), offset, &mut data)
            .unwrap_or_else(|error| panic!("life {life}: unit {unit}, {states:?}: {error}"));
        let is_it = |change: &&Change| data == content(unit, **change);
        let Some(&change) = states.iter().rev().find(is_it) else {
            let number = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
            panic!("life {life}: unit {unit} holds {number}, not one of {states:?}");
        };
        held.push(change);
    }
    held
}

#[test]
fn what_was_flushed_is_there_after_the_host_crashed() {
    crashes(Time::Fast, &[], 1);
}

#[test]
fn so_it_is_while_much_is_under_way_on_the_drive() {
    crashes(Time::Real, &[], 2);
}

#[test]
fn so_it_is_with_capacitors() {
    crashes(Time::Fast, &[("controller.power_loss_protection", "on")], 3);
    crashes(Time::Real, &[("controller.power_loss_protection", "on")], 7);
}

#[test]
fn so_it_is_when_single_blocks_are_collected() {
    crashes(Time::Fast, &[("collection.unit", "block")], 4);
}

#[test]
fn so_it_is_with_a_map_on_flash() {
    let cached = [
        ("mapping.scheme", "cached"),
        ("mapping.cache", "64K"),
        ("collection.metadata_units", "6"),
        ("capacity.physical", "20M"),
    ];
    crashes(Time::Fast, &cached, 5);
}

#[test]
fn a_disk_that_forgets_what_was_synced_is_found_out() {
    let image = vec![0; 8 * PAGE];
    let write = |at: u64, byte| Event::Image(Deed::Write { at, data: vec![byte; PAGE] });
    let events = [
        write(0, 1),
        Event::Image(Deed::SyncBegun { number: 1 }),
        write(PAGE as u64, 2),
        Event::Image(Deed::SyncDone { number: 1 }),
        write(0, 3),
    ];
    let mut generator = Pcg64Mcg::seed_from_u64(6);
    let mut ends = std::collections::BTreeSet::new();
    for luck in [Luck::Nothing, Luck::Everything, Luck::Any, Luck::Any, Luck::Any, Luck::Any] {
        let mut crashed = image.clone();
        crash(&mut crashed, &events, luck, &mut generator);
        assert!(crashed[..PAGE].iter().all(|it| [1, 3].contains(it)), "what was synced is there");
        ends.insert(crashed);
    }
    assert!(ends.len() > 3, "{} ends", ends.len());
}
