//! The drive on the engine: small drives of any shape, with any set of mechanisms, asked for anything.

#[path = "properties/drives.rs"]
mod drives;

use proptest::prelude::*;
use ssdlab_model::ftl::{Answer, Command, Host, Port, RequestTag, Ssd};
use ssdlab_model::mapping::Mapping;
use ssdlab_model::retention::RetentionParameters;
use ssdlab_model::slc::{SlcParameters, SlcSpace, WhenFull};
use ssdlab_model::streams::StreamParameters;
use ssdlab_model::trim::ReadsAfterTrim;
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

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
    answered: usize,
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
        self.answered += 1;
        self.send(port, answer.at, answer.tag);
        None
    }
}

fn run<M: Mapping + std::fmt::Debug>(ssd: &mut Ssd<M>, depth: u32, commands: &[Command]) {
    let mut host = Loop { left: commands.iter(), answered: 0 };
    let at = ssd.now();
    for tag in 0..depth {
        host.send(&mut ssd.port(), at, RequestTag(tag));
    }
    ssd.run_until(LATEST, &mut host);
    if host.answered != commands.len() && std::env::var("SHOW").is_ok() {
        eprintln!("STUCK {ssd:#?}");
    }
    assert_eq!(host.answered, commands.len(), "every request is answered");
}

/// Fills a drive, asks it for something, leaves it alone, and asks again.
fn ask<M: Mapping + std::fmt::Debug>(ssd: &mut Ssd<M>, depth: u32, asked: &[Asked], rest: u64) {
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
    let mut host = Loop { left: [].iter(), answered: 0 };
    ssd.rest(ssd.now(), Nanoseconds::from_millis(rest), &mut host);
    ssd.check_invariants();
    run(ssd, depth, &commands);
    ssd.check_invariants();
    ssd.attribution();
    let counters = ssd.counters();
    assert!(counters.flash_write_units() >= counters.program_units_host);
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
        ask(&mut ssd, depth, &asked, rest);
    }

    /// So it is where blocks go bad and wear is levelled.
    #[test]
    fn every_request_is_answered_where_blocks_go_bad(
        configuration in drives::configuration(),
        wear in drives::wear(),
        depth in 1..12u32,
        asked in proptest::collection::vec(asked(), 1..400),
    ) {
        let mut configuration = configuration;
        configuration.mechanisms.wear = wear;
        let Ok(mut ssd) = Ssd::new(&configuration) else { return Ok(()) };
        ask(&mut ssd, depth, &asked, 200);
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
            when_full: if folds { WhenFull::Fold } else { WhenFull::Direct },
            program: Nanoseconds::from_micros(200),
            page_read: Nanoseconds::from_micros(30),
        });
        configuration.mechanisms.streams = StreamParameters::default();
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
        ask(&mut ssd, depth, &asked, 200);
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
        ask(&mut ssd, depth, &asked, 200);
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
        ask(&mut ssd, depth, &asked, 200);
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
