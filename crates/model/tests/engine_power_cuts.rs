//! Power cuts on the engine: small drives of any shape, with any set of mechanisms, cut after any event,
//! opened again, and cut while they recover.
//!
//! What was made durable is there, and of what was not each unit holds what was there before or
//! something that was written later. Without more the drives are always the same ones;
//! `ENGINE_CASES=20000` asks for so many others.

#[path = "properties/drives.rs"]
mod drives;
#[path = "properties/log_blocks.rs"]
mod log_blocks;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use ssdlab_model::Configuration;
use ssdlab_model::checkpoint::CheckpointParameters;
use ssdlab_model::flush::WriteCache;
use ssdlab_model::ftl::recording::Recording;
use ssdlab_model::ftl::{Answer, Command, Host, Opening, Port, RequestTag, Ssd};
use ssdlab_model::mapping::cached::CachedMap;
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{Mapping, MappingScheme, PageMap};
use ssdlab_model::mechanisms::Mechanisms;
use ssdlab_model::profile::{DEFAULT, Profile};
use ssdlab_model::retention::RetentionParameters;
use ssdlab_model::slc::{SlcParameters, SlcSpace, WhenFull};
use ssdlab_model::streams::StreamParameters;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_units::{Instant, KIB, LogicalUnit, Nanoseconds, Sector, SectorCount};

const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// How long power is gone.
const DARK: Nanoseconds = Nanoseconds::from_millis(20);

/// What is asked for, with places as shares of the drive.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Read(u32, u32),
    Write(u32, u32, bool),
    WriteSectors(u64, u64, bool),
    Trim(u32, u32),
    Flush,
    /// Leaves the drive alone, in milliseconds, once all is answered.
    Rest(u64),
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        1 => (any::<u32>(), 1..20u32).prop_map(|(at, units)| Asked::Read(at, units)),
        8 => (any::<u32>(), 1..20u32, any::<u8>())
            .prop_map(|(at, units, force)| Asked::Write(at, units, force < 20)),
        2 => (any::<u64>(), 1..40u64, any::<u8>())
            .prop_map(|(at, count, force)| Asked::WriteSectors(at, count, force < 50)),
        1 => (any::<u32>(), 1..20u32).prop_map(|(at, units)| Asked::Trim(at, units)),
        1 => Just(Asked::Flush),
        1 => (1..400u64).prop_map(Asked::Rest),
    ]
}

/// A history, and after how many events power is cut at its end, and in recovery.
#[derive(Clone, Debug)]
struct Life {
    asked: Vec<Asked>,
    events: u32,
    in_recovery: Option<u32>,
}

fn life() -> impl Strategy<Value = Life> {
    let events = prop_oneof![0..60u32, 0..600u32, Just(u32::MAX)];
    let asked = proptest::collection::vec(asked(), 1..120);
    let in_recovery = prop::option::weighted(0.4, 0..40u32);
    (asked, events, in_recovery).prop_map(|(asked, events, in_recovery)| Life {
        asked,
        events,
        in_recovery,
    })
}

/// A request that was sent.
#[derive(Clone, Debug)]
struct Sent {
    command: Command,
    at: Instant,
    answered: Option<Instant>,
    /// Units that it writes whose data the drive has not taken.
    left: Vec<LogicalUnit>,
    is_durable: bool,
}

/// What one write or trim left in a unit.
#[derive(Clone, Copy, Debug)]
struct State {
    version: Option<u64>,
    by: Option<usize>,
}

/// What the host knows since its data was last known to be durable.
#[derive(Clone, Debug)]
struct Ledger {
    sent: Vec<Sent>,
    states: Vec<Vec<State>>,
    /// Versions that were noted.
    noted: usize,
    in_flight: usize,
    writes_are_durable: bool,
    trims_are_durable: bool,
}

impl Ledger {
    fn new(configuration: &Configuration) -> Ledger {
        let protected = configuration.buffer.protected;
        let through = configuration.mechanisms.flush.write_cache == WriteCache::WriteThrough;
        let nothing = State { version: None, by: None };
        Ledger {
            sent: Vec::new(),
            states: vec![vec![nothing]; configuration.geometry.logical_units() as usize],
            noted: 0,
            in_flight: 0,
            writes_are_durable: protected || through,
            trims_are_durable: protected,
        }
    }

    fn send(&mut self, at: Instant, command: Command, trims: bool) -> RequestTag {
        let number = self.sent.len();
        let (mut left, mut is_durable) = (Vec::new(), self.writes_are_durable);
        match command {
            Command::Write { first, units, force } => {
                left.extend((first.0..first.0 + units).map(LogicalUnit));
                is_durable |= force;
            }
            Command::WriteSectors { first, count, force } => {
                let end = (first.0 + count.0).div_ceil(8);
                left.extend((first.0 / 8..end).map(|unit| LogicalUnit(unit as u32)));
                is_durable |= force;
            }
            Command::Trim { first, units } => {
                is_durable = self.trims_are_durable;
                if trims {
                    for unit in first.0..first.0 + units {
                        let state = State { version: None, by: Some(number) };
                        self.states[unit as usize].push(state);
                    }
                }
            }
            _ => {}
        }
        self.sent.push(Sent { command, at, answered: None, left, is_durable });
        self.in_flight += 1;
        RequestTag(number as u32)
    }

    /// Notes data that the drive has taken: of requests under way the one sent first is served first.
    fn note(&mut self, received: &[LogicalUnit]) {
        for &unit in &received[self.noted..] {
            self.noted += 1;
            let version = Some(self.noted as u64);
            let taken = self.sent.iter_mut().enumerate().find_map(|(number, sent)| {
                let place = sent.left.iter().position(|&left| left == unit)?;
                sent.left.swap_remove(place);
                Some(number)
            });
            assert!(taken.is_some(), "{unit:?} was written by nobody");
            self.states[unit.0 as usize].push(State { version, by: taken });
        }
    }

    fn is_durable(&self, state: &State, cut: Instant) -> bool {
        let Some(by) = state.by else { return true };
        let Some(answered) = self.sent[by].answered else { return false };
        let is_flushed = |flush: &Sent| {
            flush.command == Command::Flush
                && flush.at >= answered
                && flush.answered.is_some_and(|at| at <= cut)
        };
        self.sent[by].is_durable && answered <= cut || self.sent[by..].iter().any(is_flushed)
    }

    /// Checks what was found after power was cut at `cut`, and goes on from that.
    fn check<M: Mapping>(&mut self, cut: Instant, ssd: &Ssd<M, Recording>) {
        for unit in 0..self.states.len() {
            let states = &self.states[unit];
            let durable = |state: &State| self.is_durable(state, cut);
            let floor = states.iter().rposition(durable).expect("the first is durable");
            let found = ssd.version_of(LogicalUnit(unit as u32));
            assert!(
                states[floor..].iter().any(|state| state.version == found),
                "unit {unit} holds {found:?} after a cut at {cut:?}: {:?}, by {:?}",
                &states[floor..],
                states[floor].by.map(|by| &self.sent[by])
            );
        }
        self.settle(ssd);
    }

    fn settle<M: Mapping>(&mut self, ssd: &Ssd<M, Recording>) {
        self.sent.clear();
        self.in_flight = 0;
        for (states, unit) in self.states.iter_mut().zip(0..) {
            *states = vec![State { version: ssd.version_of(LogicalUnit(unit)), by: None }];
        }
    }
}

/// A host that does nothing but listen.
#[derive(Default)]
struct Listener(Vec<Answer>);

impl Host for Listener {
    const IS_ALONE: bool = false;

    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.0.push(answer);
        None
    }
}

/// A drive with what the host knows of it.
#[derive(Clone)]
struct Tested<M: Mapping> {
    configuration: Configuration,
    ssd: Ssd<M, Recording>,
    ledger: Ledger,
    /// No request is sent before.
    from: Instant,
}

impl<M: Mapping + Clone + std::fmt::Debug> Tested<M> {
    fn new(configuration: &Configuration, map: M) -> Option<Self> {
        let media = Recording::new(&configuration.geometry);
        let ssd = Ssd::with(configuration, map, media).ok()?;
        let ledger = Ledger::new(configuration);
        Some(Tested { configuration: configuration.clone(), ssd, ledger, from: Instant::START })
    }

    /// Lets the next thing happen; whether one was.
    fn step(&mut self) -> bool {
        let mut host = Listener::default();
        let is_any = self.ssd.step(LATEST, &mut host);
        self.ledger.note(self.ssd.media().received());
        for Answer { tag, at, .. } in host.0 {
            self.ledger.sent[tag.0 as usize].answered = Some(at);
            self.ledger.in_flight -= 1;
            self.from = self.from.max(at);
        }
        is_any
    }

    fn send(&mut self, command: Command) {
        let at = self.ssd.now().max(self.from);
        let tag = self.ledger.send(at, command, self.configuration.trim);
        self.ssd.port().submit(at, tag, command);
    }

    /// The command that is asked for; nothing where the drive cannot be asked for it.
    fn command(&self, asked: Asked) -> Option<Command> {
        let units = self.configuration.geometry.logical_units();
        let range = |at: u32, count: u32| {
            let count = count.min(units);
            (LogicalUnit(at % (units - count + 1)), count)
        };
        Some(match asked {
            Asked::Read(at, count) => {
                let (first, units) = range(at, count);
                Command::Read { first, units }
            }
            Asked::Write(at, count, force) => {
                let (first, units) = range(at, count);
                Command::Write { first, units, force }
            }
            Asked::WriteSectors(at, count, force) => {
                if self.configuration.geometry.unit_size().bytes() != 4096 {
                    return None;
                }
                let all = u64::from(units) * 8;
                let count = count.min(all);
                let (first, count) = (Sector(at % (all - count + 1)), SectorCount(count));
                Command::WriteSectors { first, count, force }
            }
            Asked::Trim(at, count) => {
                let (first, units) = range(at, count);
                Command::Trim { first, units }
            }
            Asked::Flush => Command::Flush,
            Asked::Rest(_) => return None,
        })
    }

    /// Asks for all of that, `depth` at a time, until so many events have happened in all, and calls
    /// `look` after each.
    fn ask(&mut self, asked: &[Asked], depth: usize, events: u32, mut look: impl FnMut(&Self)) {
        let mut happened = 0;
        let mut let_happen = |tested: &mut Self, until: &dyn Fn(&Self) -> bool| {
            while !until(tested) && happened < events {
                if !tested.step() {
                    return true;
                }
                happened += 1;
                look(tested);
            }
            happened < events
        };
        for &asked in asked {
            let command = self.command(asked);
            // What a trim forgets and a write keeps, both under way, would have no order.
            let is_alone = matches!(command, None | Some(Command::Trim { .. }));
            let most = if is_alone { 1 } else { depth };
            if !let_happen(self, &|it| it.ledger.in_flight < most) {
                return;
            }
            if let Some(command) = command {
                self.send(command);
            } else if let Asked::Rest(millis) = asked {
                self.ssd.rest(self.ssd.now(), Nanoseconds::from_millis(millis));
            }
            if is_alone && !let_happen(self, &|it| it.ledger.in_flight == 0) {
                return;
            }
        }
        let_happen(self, &|_| false);
    }

    /// Cuts power now, opens the drive again, and checks what it holds. With `in_recovery`, power is cut again
    /// when so much has happened while it recovers, and what it held then is there still.
    fn cut(&mut self, in_recovery: Option<u32>, map: impl Fn() -> M) {
        let at = self.ssd.now();
        let media = self.ssd.clone().power_cut();
        let open = |media, at| Opening::begin(&self.configuration, map(), media, at, None);
        let opening = open(media, at + DARK).expect("a drive that was cut from power opens");
        let (mut ssd, recovery) = opening.clone().finish();
        assert_eq!(recovery.ready_at, ssd.now());
        ssd.check_invariants();
        self.ledger.check(at, &ssd);
        if let Some(events) = in_recovery {
            let mut opening = opening;
            for _ in 0..events {
                let Some(due) = opening.next_due() else { break };
                opening.run_until(due);
            }
            let again = opening.drive().now();
            let media = opening.drive().clone().power_cut();
            let opening = open(media, again + DARK).expect("it opens after a cut in recovery");
            ssd = opening.finish().0;
            ssd.check_invariants();
            self.ledger.check(again, &ssd);
            let mut further = ssd.clone();
            for _ in 0..events {
                further.step(LATEST, &mut Listener::default());
            }
            let at = further.now();
            let opening = open(further.power_cut(), at + DARK).expect("it opens after both");
            ssd = opening.finish().0;
            self.ledger.check(at, &ssd);
        }
        self.from = ssd.now();
        self.ssd = ssd;
    }

    /// Fills the drive and takes what it holds for durable.
    fn fill(&mut self) {
        let units = self.configuration.geometry.logical_units();
        for first in (0..units).step_by(8) {
            let units = 8.min(units - first);
            self.send(Command::Write { first: LogicalUnit(first), units, force: false });
            while self.ledger.in_flight > 4 && self.step() {}
        }
        while self.step() {}
        self.send(Command::Flush);
        while self.step() {}
        self.ledger.settle(&self.ssd);
    }
}

/// Cuts a drive in several lives, one after the other.
fn cut_and_go_on<M: Mapping + Clone + std::fmt::Debug>(
    configuration: &Configuration,
    depth: usize,
    lives: &[Life],
    map: impl Fn() -> M,
) {
    let Some(mut tested) = Tested::new(configuration, map()) else { return };
    tested.fill();
    for life in lives {
        tested.ask(&life.asked, depth, life.events, |_| {});
        tested.cut(life.in_recovery, &map);
    }
}

fn cases(count: u32) -> ProptestConfig {
    let asked = std::env::var("ENGINE_CASES").ok().and_then(|it| it.parse().ok());
    let config = ProptestConfig { failure_persistence: None, ..Default::default() };
    match asked {
        Some(cases) => ProptestConfig { cases, ..config },
        None => ProptestConfig { cases: count, rng_seed: RngSeed::Fixed(1), ..config },
    }
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    proptest::collection::vec(life(), 1..6)
}

/// Configures wear, and how often the map is saved; data ages.
fn with_wear(
    mut configuration: Configuration,
    wear: ssdlab_model::health::WearParameters,
    saved_every: Option<u64>,
) -> Configuration {
    configuration.mechanisms.wear = wear;
    configuration.mechanisms.checkpoint =
        saved_every.map(|every_units| CheckpointParameters { every_units });
    configuration.mechanisms.retention = Some(RetentionParameters {
        retry: Nanoseconds::from_micros(50),
        free_for: Nanoseconds::from_millis(100),
        steps: 5.0,
        worn_steps: 5.0,
        rated: None,
    });
    configuration
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn what_was_durable_is_there(
        configuration in drives::configuration(),
        depth in 1..12usize,
        lives in lives(),
    ) {
        let units = configuration.geometry.logical_units();
        cut_and_go_on(&configuration, depth, &lives, || PageMap::new(units));
    }

    #[test]
    fn what_was_durable_is_there_where_blocks_go_bad_and_data_ages(
        configuration in drives::configuration(),
        wear in drives::wear(),
        saved_every in proptest::option::of(1..300u64),
        depth in 1..12usize,
        lives in lives(),
    ) {
        let configuration = with_wear(configuration, wear, saved_every);
        let units = configuration.geometry.logical_units();
        cut_and_go_on(&configuration, depth, &lives, || PageMap::new(units));
    }

    #[test]
    fn what_was_durable_is_there_with_a_pseudo_slc_cache(
        configuration in drives::configuration(),
        (blocks, bits, is_dynamic, folds) in (1..4u32, 2..4u32, any::<bool>(), any::<bool>()),
        depth in 1..12usize,
        lives in lives(),
    ) {
        let mut configuration = configuration;
        let geometry = &configuration.geometry;
        let mut parameters = geometry.parameters().clone();
        if parameters.pages_per_shot != bits {
            let multiple = bits * parameters.pages_per_shot;
            parameters.pages_per_block = parameters.pages_per_block.next_multiple_of(multiple);
        }
        parameters.dies_per_collection_unit = parameters.dies;
        parameters.collection_units = geometry.blocks_per_group() + 2 * blocks + 2;
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
        let units = configuration.geometry.logical_units();
        cut_and_go_on(&configuration, depth, &lives, || PageMap::new(units));
    }

    #[test]
    fn what_was_durable_is_there_with_a_cached_map(
        configuration in drives::configuration(),
        pages in 4..20u32,
        depth in 1..12usize,
        lives in lives(),
    ) {
        let configuration = drives::with_cached_map(&configuration, pages);
        let map = || CachedMap::new(&configuration).expect("room for the map");
        cut_and_go_on(&configuration, depth, &lives, map);
    }

    #[test]
    fn what_was_durable_is_there_with_a_map_of_extents(
        configuration in drives::configuration(),
        room in 0..20u32,
        depth in 1..12usize,
        lives in lives(),
    ) {
        let configuration = drives::with_extents(&configuration, room);
        let extents = configuration.mechanisms.extents;
        let map = || ExtentMap::new(&configuration.geometry, extents);
        cut_and_go_on(&configuration, depth, &lives, map);
    }

    #[test]
    fn what_was_durable_is_there_with_log_blocks(
        configuration in drives::configuration(),
        log_blocks in 1..5u32,
        depth in 1..12usize,
        lives in lives(),
    ) {
        let configuration = log_blocks::with_log_blocks(&configuration, log_blocks);
        let units = configuration.geometry.logical_units();
        cut_and_go_on(&configuration, depth, &lives, || PageMap::new(units));
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// A cut after each event of a short history, all of them.
    #[test]
    fn every_cut_of_a_short_history_keeps_what_was_durable(
        configuration in drives::configuration(),
        depth in 1..6usize,
        asked in proptest::collection::vec(asked(), 1..12),
    ) {
        let units = configuration.geometry.logical_units();
        let map = || PageMap::new(units);
        let Some(mut tested) = Tested::new(&configuration, map()) else { return Ok(()) };
        tested.fill();
        tested.ask(&asked, depth, u32::MAX, |then| then.clone().cut(None, map));
    }
}

/// A drive with log blocks and no more blocks than it needs, of one die each, whose buffer holds the ends of
/// several logical blocks.
fn short_of_blocks(logical_blocks: u32, buffered_programs: u32) -> Configuration {
    let profile = Profile::named(DEFAULT).expect("the default profile");
    let mut configuration = profile.configuration().expect("a sound profile");
    configuration.geometry = Geometry::new(GeometryParameters {
        channels: 2,
        dies: 4,
        planes_per_die: 1,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 4,
        page_size: KIB * 16,
        unit_size: KIB * 4,
        dies_per_collection_unit: 1,
        collection_units: logical_blocks + 2 + 3,
        metadata_collection_units: 8,
        logical_units: logical_blocks * 16,
    })
    .expect("a sound geometry");
    configuration.buffer.units = buffered_programs * configuration.geometry.units_per_program();
    configuration.buffer.protected = false;
    configuration.mechanisms = Mechanisms::default();
    configuration.mechanisms.mapping = MappingScheme::LogBlock;
    configuration.mechanisms.log_blocks = 2;
    configuration
}

#[test]
fn sequences_one_after_the_other_leave_recovery_a_block_to_merge_into() {
    let configuration = short_of_blocks(7, 7);
    let units = configuration.geometry.logical_units();
    let map = || PageMap::new(units);
    let mut tested = Tested::new(&configuration, map()).expect("a sound drive");
    let write = |first, units| Asked::Write(first, units, false);
    // Each log block holds something of every logical block, the last units of which stay there.
    let mut before = vec![write(0, units)];
    let kept = (0..units).filter(|unit| unit % 16 > 11).chain([13, 29, 45, 61]);
    before.extend(kept.map(|unit| write(unit, 1)));
    before.push(Asked::Flush);
    tested.ask(&before, 1, u32::MAX, |_| {});
    tested.ask(&[write(0, 64)], 1, u32::MAX, |then| then.clone().cut(None, map));
}
