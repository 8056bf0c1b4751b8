//! Small drives of any shape, with any set of mechanisms, asked for anything.

#[path = "properties/drives.rs"]
mod drives;
#[path = "properties/log_blocks.rs"]
mod log_blocks;

use proptest::prelude::*;
use ssdlab_model::Configuration;
use ssdlab_model::checkpoint::CheckpointParameters;
use ssdlab_model::ftl::{Answer, Command, Host, Port, RequestTag, Ssd};
use ssdlab_model::mapping::cached::CachedMap;
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{Mapping, PageMap};
use ssdlab_model::policy::{Allocation, CopiesTo, VictimPolicy};
use ssdlab_model::precondition::{CacheFill, Past, PreconditionError, Workload};
use ssdlab_model::retention::RetentionParameters;
use ssdlab_model::slc::{SlcParameters, SlcSpace, WhenFull};
use ssdlab_model::snapshot::{Decoder, Encoder};
use ssdlab_model::streams::StreamParameters;
use ssdlab_model::trim::ReadsAfterTrim;
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, PhysicalUnit, Sector, SectorCount};

const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// What is asked for, with places as shares of the drive.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Read(u32, u32),
    Write(u32, u32, bool),
    WriteSectors(u64, u64),
    ReadSectors(u64, u64),
    Trim(u32, u32),
    Flush,
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        2 => (any::<u32>(), 1..20u32).prop_map(|(at, units)| Asked::Read(at, units)),
        8 => (any::<u32>(), 1..20u32, any::<u8>())
            .prop_map(|(at, units, force)| Asked::Write(at, units, force < 20)),
        1 => (any::<u64>(), 1..40u64).prop_map(|(at, count)| Asked::WriteSectors(at, count)),
        1 => (any::<u64>(), 1..40u64).prop_map(|(at, count)| Asked::ReadSectors(at, count)),
        1 => (any::<u32>(), 1..20u32).prop_map(|(at, units)| Asked::Trim(at, units)),
        1 => Just(Asked::Flush),
    ]
}

fn command(asked: Asked, units: u32) -> Command {
    let range = |at: u32, count: u32| {
        let count = count.min(units);
        (LogicalUnit(at % (units - count + 1)), count)
    };
    let sectors = |at: u64, count: u64| {
        let all = u64::from(units) * 8;
        let count = count.min(all);
        (Sector(at % (all - count + 1)), SectorCount(count))
    };
    match asked {
        Asked::Read(at, count) => {
            let (first, units) = range(at, count);
            Command::Read { first, units }
        }
        Asked::Write(at, count, force) => {
            let (first, units) = range(at, count);
            Command::Write { first, units, force }
        }
        Asked::WriteSectors(at, count) => {
            let (first, count) = sectors(at, count);
            Command::WriteSectors { first, count, force: false }
        }
        Asked::ReadSectors(at, count) => {
            let (first, count) = sectors(at, count);
            Command::ReadSectors { first, count }
        }
        Asked::Trim(at, count) => {
            let (first, units) = range(at, count);
            Command::Trim { first, units }
        }
        Asked::Flush => Command::Flush,
    }
}

struct Loop<'a> {
    left: std::slice::Iter<'a, Command>,
    answered: Vec<Answer>,
}

impl Loop<'_> {
    fn send(&mut self, port: &mut Port<'_>, at: Instant, tag: RequestTag) {
        if let Some(&command) = self.left.next() {
            port.submit(at, tag, command);
        }
    }
}

impl Host for Loop<'_> {
    fn answered(&mut self, port: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.answered.push(answer);
        self.send(port, answer.at, answer.tag);
        None
    }
}

fn run<M: Mapping + std::fmt::Debug>(ssd: &mut Ssd<M>, depth: u32, commands: &[Command]) {
    run_from(ssd, ssd.now(), depth, commands);
}

/// Has `commands` answered, sent from `at` on, so many at a time; returns the answers.
fn run_from<M: Mapping + std::fmt::Debug>(
    ssd: &mut Ssd<M>,
    at: Instant,
    depth: u32,
    commands: &[Command],
) -> Vec<Answer> {
    let mut host = Loop { left: commands.iter(), answered: Vec::new() };
    for tag in 0..depth {
        host.send(&mut ssd.port(), at, RequestTag(tag));
    }
    ssd.run_until(LATEST, &mut host);
    if host.answered.len() != commands.len() && std::env::var("SHOW").is_ok() {
        eprintln!("STUCK {ssd:#?}");
    }
    assert_eq!(host.answered.len(), commands.len(), "every request is answered");
    host.answered
}

/// A mapping scheme whose empty map follows from the configuration.
trait MapOf: Mapping + Clone + std::fmt::Debug {
    fn of(configuration: &Configuration) -> Self;
}

impl MapOf for PageMap {
    fn of(configuration: &Configuration) -> Self {
        PageMap::new(configuration.geometry.logical_units())
    }
}

impl MapOf for CachedMap {
    fn of(configuration: &Configuration) -> Self {
        CachedMap::new(configuration).expect("room for the map")
    }
}

impl MapOf for ExtentMap {
    fn of(configuration: &Configuration) -> Self {
        ExtentMap::new(&configuration.geometry, configuration.mechanisms.extents)
    }
}

fn saved<M: Mapping>(ssd: &Ssd<M>) -> Vec<u8> {
    let mut bytes = Vec::new();
    ssd.save(&mut Encoder::new(&mut bytes)).expect("memory");
    bytes
}

fn mapped<M: Mapping>(ssd: &Ssd<M>) -> Vec<Option<PhysicalUnit>> {
    (0..ssd.geometry().logical_units()).map(|unit| ssd.place_of(LogicalUnit(unit))).collect()
}

/// A drive that is shut down, saved and restored answers as the one that was saved.
fn restore_and_go_on<M: MapOf>(
    configuration: &Configuration,
    ssd: &mut Ssd<M>,
    depth: u32,
    commands: &[Command],
) {
    let is_mapped = |ssd: &Ssd<M>| mapped(ssd).iter().map(Option::is_some).collect::<Vec<_>>();
    let before = is_mapped(ssd);
    let quiet = ssd.shut_down(ssd.now());
    assert!(is_mapped(ssd) == before, "it keeps what it holds");
    assert_eq!(ssd.shut_down(quiet), quiet, "nothing is left to do");
    ssd.check_invariants();
    let bytes = saved(ssd);
    let mut from = &bytes[..];
    let restored = Ssd::restored(configuration, M::of(configuration), &mut Decoder::new(&mut from));
    let mut restored = restored.expect("what was saved");
    assert!(from.is_empty(), "all of it was read");
    restored.check_invariants();
    assert!(saved(&restored) == bytes, "saved again it is the same state");
    let seen = |ssd: &Ssd<M>| (ssd.counters(), ssd.wear(), mapped(ssd));
    assert!(seen(&restored) == seen(ssd), "it is the drive that was saved");
    let answers = run_from(ssd, quiet, depth, commands);
    let others = run_from(&mut restored, quiet, depth, commands);
    let differs = answers.iter().zip(&others).position(|(one, other)| one != other);
    assert_eq!(differs, None, "the first answer that differs");
    let at = ssd.now();
    for drive in [&mut *ssd, &mut restored] {
        drive.rest(at, Nanoseconds::from_millis(300));
        drive.check_invariants();
    }
    assert!((restored.now(), seen(&restored)) == (ssd.now(), seen(ssd)), "it rests alike");
}

/// A drive that is formatted, or erased as a whole, is empty, and as much can be written to it again.
fn purge<M: MapOf>(ssd: &mut Ssd<M>, depth: u32, commands: &[Command]) {
    if ssd.is_read_only() {
        assert!(ssd.clone().format(ssd.now()).is_err() && ssd.secure_erase(ssd.now()).is_err());
        return;
    }
    let mut formatted = ssd.clone();
    formatted.format(ssd.now()).expect("it takes writes");
    assert!(ssd.secure_erase(ssd.now()).is_ok(), "it takes writes");
    assert!(ssd.now() >= formatted.now(), "an erase takes as long as a format, and longer");
    for drive in [&mut formatted, ssd] {
        drive.check_invariants();
        assert_eq!(drive.next_mapped(LogicalUnit(0)), None);
        run(drive, depth, commands);
        drive.check_invariants();
    }
}

/// Fills a drive, asks it for something, leaves it alone, and asks again; shuts it down, saves it and
/// goes on; and purges it.
fn ask<M: MapOf>(
    configuration: &Configuration,
    ssd: &mut Ssd<M>,
    depth: u32,
    asked: &[Asked],
    rest: u64,
) {
    let units = ssd.geometry().logical_units();
    let all: Vec<Command> = (0..units)
        .map(|unit| Command::Write { first: LogicalUnit(unit), units: 1, force: false })
        .collect();
    run(ssd, depth, &all);
    let sectors_per_unit = ssd.geometry().unit_size().bytes() / 512;
    let in_parts = |it: &Asked| matches!(it, Asked::WriteSectors(..) | Asked::ReadSectors(..));
    let asked = asked.iter().filter(|it| sectors_per_unit == 8 || !in_parts(it));
    let commands: Vec<Command> = asked.map(|&it| command(it, units)).collect();
    run(ssd, depth, &commands);
    ssd.check_invariants();
    ssd.rest(ssd.now(), Nanoseconds::from_millis(rest));
    ssd.check_invariants();
    run(ssd, depth, &commands);
    ssd.check_invariants();
    restore_and_go_on(configuration, ssd, depth, &commands);
    purge(ssd, depth, &commands);
    ssd.attribution();
    let counters = ssd.counters();
    assert!(counters.flash_write_units() >= counters.program_units_host);
}

/// The writes that a drive was under.
fn past() -> impl Strategy<Value = Past> {
    let hot = (0.5..0.95f64, 0.05..0.5f64);
    let workload = prop_oneof![
        2 => Just(Workload::Uniform),
        1 => hot.prop_map(|(writes, pages)| Workload::HotCold { writes, pages }),
    ];
    (workload, any::<u64>()).prop_map(|(workload, seed)| Past {
        workload,
        cache: CacheFill::Empty,
        seed,
    })
}

/// Checks a preconditioned drive, and asks it for something; nothing where theory has no such drive.
fn continue_from<M: MapOf>(
    ssd: Result<Ssd<M>, PreconditionError>,
    configuration: &Configuration,
    depth: u32,
    asked: &[Asked],
) {
    let Ok(mut ssd) = ssd else { return };
    ssd.check_invariants();
    assert!(mapped(&ssd).iter().all(Option::is_some), "it is full");
    let units = ssd.geometry().logical_units();
    let is_sectored = ssd.geometry().unit_size().bytes() / 512 == 8;
    let in_parts = |it: &Asked| matches!(it, Asked::WriteSectors(..) | Asked::ReadSectors(..));
    let asked = asked.iter().filter(|it| is_sectored || !in_parts(it));
    let commands: Vec<Command> = asked.map(|&it| command(it, units)).collect();
    restore_and_go_on(configuration, &mut ssd, depth, &commands);
    run(&mut ssd, depth, &commands);
    ssd.check_invariants();
}

fn cases(count: u32) -> ProptestConfig {
    let cases = std::env::var("ENGINE_CASES").ok().and_then(|it| it.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(count),
        failure_persistence: None,
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Whatever is asked for, every request is answered, and the translation layer agrees with itself.
    #[test]
    fn every_request_is_answered(
        configuration in drives::configuration(),
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..400),
        rest in 0..2_000u64,
    ) {
        let Ok(mut ssd) = Ssd::new(&configuration) else { return Ok(()) };
        ask(&configuration, &mut ssd, depth, &asked, rest);
    }

    /// So it is where blocks go bad, wear is levelled, and the map is saved.
    #[test]
    fn every_request_is_answered_where_blocks_go_bad(
        configuration in drives::configuration(),
        wear in drives::wear(),
        saved_every in proptest::option::of(1..300u64),
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..400),
    ) {
        let mut configuration = configuration;
        configuration.mechanisms.wear = wear;
        configuration.mechanisms.checkpoint =
            saved_every.map(|every_units| CheckpointParameters { every_units });
        let Ok(mut ssd) = Ssd::new(&configuration) else { return Ok(()) };
        ask(&configuration, &mut ssd, depth, &asked, 200);
    }

    /// So it is with a pseudo-SLC cache, old data, and trims that only mark.
    #[test]
    fn every_request_is_answered_with_a_pseudo_slc_cache(
        configuration in drives::configuration(),
        (blocks, bits, is_dynamic, folds) in (1..4u32, 2..4u32, any::<bool>(), any::<bool>()),
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..400),
    ) {
        let mut configuration = configuration;
        let geometry = &configuration.geometry;
        let mut parameters = geometry.parameters().clone();
        if parameters.pages_per_shot != bits {
            parameters.pages_per_block = parameters.pages_per_block.next_multiple_of(bits * parameters.pages_per_shot);
        }
        parameters.dies_per_collection_unit = parameters.dies;
        parameters.collection_units = geometry.blocks_per_group() + 2 * blocks + 2;
        parameters.logical_units = parameters.logical_units.min(geometry.logical_units());
        configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
        configuration.mechanisms.slc = Some(SlcParameters {
            blocks,
            bits,
            space: if is_dynamic { SlcSpace::Dynamic } else { SlcSpace::Fixed },
            fixed: 0,
            when_full: if folds { WhenFull::Fold } else { WhenFull::Direct },
            program: Nanoseconds::from_micros(200),
            page_read: Nanoseconds::from_micros(30),
        });
        configuration.mechanisms.streams = StreamParameters::default();
        configuration.mechanisms.copies = CopiesTo::OwnBlock;
        configuration.mechanisms.rotation = 0.0;
        configuration.mechanisms.retention = Some(RetentionParameters {
            retry: Nanoseconds::from_micros(50),
            free_for: Nanoseconds::from_millis(100),
            steps: 5.0,
            worn_steps: 5.0,
            rated: None,
        });
        configuration.mechanisms.trim.reads_after = ReadsAfterTrim::Undefined;
        configuration.mechanisms.trim.settle = Nanoseconds::from_millis(50);
        let Ok(mut ssd) = Ssd::new(&configuration) else { return Ok(()) };
        ask(&configuration, &mut ssd, depth, &asked, 200);
    }

    /// So it is with a map on flash.
    #[test]
    fn every_request_is_answered_with_a_cached_map(
        configuration in drives::configuration(),
        pages in 4..20u32,
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..400),
    ) {
        let configuration = drives::with_cached_map(&configuration, pages);
        let mut ssd = Ssd::with_cached_map(&configuration).expect("a sound drive");
        ask(&configuration, &mut ssd, depth, &asked, 200);
    }

    /// So it is with a map of extents.
    #[test]
    fn every_request_is_answered_with_a_map_of_extents(
        configuration in drives::configuration(),
        room in 0..20u32,
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..400),
    ) {
        let configuration = drives::with_extents(&configuration, room);
        let mut ssd = Ssd::with_extent_map(&configuration).expect("a sound drive");
        ask(&configuration, &mut ssd, depth, &asked, 200);
    }

    /// A drive that is made used at once is sound, whatever it maps by, and goes on as any other.
    #[test]
    fn a_preconditioned_drive_goes_on_as_any_other(
        configuration in drives::configuration(),
        (scheme, room) in (0..4u32, 4..40u32),
        wear in drives::wear(),
        past in past(),
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..200),
    ) {
        // There is no theory of static allocation.
        let mut configuration = configuration;
        configuration.mechanisms.allocation = Allocation::Dynamic;
        match scheme {
            0 => {
                configuration.mechanisms.wear = wear;
                continue_from(Ssd::preconditioned(&configuration, past), &configuration, depth, &asked);
            }
            1 => {
                let configuration = log_blocks::with_log_blocks(&configuration, 1 + room % 5);
                continue_from(Ssd::preconditioned(&configuration, past), &configuration, depth, &asked);
            }
            2 => {
                let configuration = drives::with_cached_map(&configuration, room);
                let ssd = Ssd::aged_with_cached_map(&configuration, past);
                continue_from(ssd, &configuration, depth, &asked);
            }
            _ => {
                configuration.mechanisms.victims = VictimPolicy::Greedy;
                let configuration = drives::with_extents(&configuration, room);
                let ssd = Ssd::preconditioned_with_extent_map(&configuration, past);
                continue_from(ssd, &configuration, depth, &asked);
            }
        }
    }

    /// So it is with log blocks.
    #[test]
    fn every_request_is_answered_with_log_blocks(
        configuration in drives::configuration(),
        log_blocks in 1..5u32,
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..400),
    ) {
        let configuration = log_blocks::with_log_blocks(&configuration, log_blocks);
        let mut ssd = Ssd::new(&configuration).expect("a sound drive");
        ask(&configuration, &mut ssd, depth, &asked, 200);
    }

    /// One request after the other: what was written last is mapped, what was trimmed is not.
    #[test]
    fn units_are_mapped_that_were_written_and_not_trimmed(
        configuration in drives::configuration(),
        asked in proptest::collection::vec(asked(), 1..300),
    ) {
        let Ok(mut ssd) = Ssd::new(&configuration) else { return Ok(()) };
        let units = ssd.geometry().logical_units();
        let mut is_mapped = vec![false; units as usize];
        for asked in asked {
            let command = command(asked, units);
            ssd.request(Instant::START, command);
            match command {
                Command::Write { first, units, .. } => {
                    is_mapped[first.0 as usize..(first.0 + units) as usize].fill(true);
                }
                Command::WriteSectors { first, count, .. } => {
                    let end = (first.0 + count.0).div_ceil(8);
                    is_mapped[first.0 as usize / 8..end as usize].fill(true);
                }
                Command::Trim { first, units } if configuration.trim => {
                    is_mapped[first.0 as usize..(first.0 + units) as usize].fill(false);
                }
                _ => {}
            }
        }
        for unit in 0..units {
            let lies = ssd.place_of(LogicalUnit(unit)).is_some();
            prop_assert_eq!(lies, is_mapped[unit as usize], "unit {}", unit);
        }
    }
}
