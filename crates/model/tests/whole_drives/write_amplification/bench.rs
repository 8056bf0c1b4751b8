//! A drive, a host that writes to it one unit at a time, and what comes of it.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::mapping::PageMap;
use ssdlab_model::mechanisms::Mechanisms;
use ssdlab_model::media::{Media, OobArea, SequenceNumber};
use ssdlab_model::policy::VictimPolicy;
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::streams::{StreamId, StreamParameters};
use ssdlab_model::{Configuration, Ssd};
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
use ssdlab_theory::trim;
use ssdlab_units::{BlockIndex, Instant, KIB, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Enough that neither the few blocks kept nor chance come near to a hundredth.
const BLOCKS: u32 = 4_096;

/// Enough for half of that.
const BLOCKS_LARGE: u32 = 16_384;

const LOW_WATER: u32 = 3;

/// Requests drawn ahead, so that the maps are fetched before they are needed.
const AHEAD: usize = 32;

/// Spare area, as it is spoken of.
#[derive(Clone, Copy, Debug)]
pub enum Spare {
    OfLogical(f64),
    OfPhysical(f64),
}

impl Spare {
    fn logical_units(self, physical: f64) -> u32 {
        match self {
            Spare::OfLogical(share) => (physical / (1.0 + share)) as u32,
            Spare::OfPhysical(share) => (physical * (1.0 - share)) as u32,
        }
    }
}

/// What the host does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Writes anywhere.
    Uniform,
    /// Writes anywhere, and with a share of its requests trims a unit that is mapped.
    Trim { share: f64 },
    /// Sends a share of its writes to a share of the units.
    HotCold { writes: f64, pages: f64 },
    /// The same with a stream for each kind, of which the hot one keeps a share of the blocks.
    TwoStreams { writes: f64, pages: f64, blocks: f64 },
}

/// A drive and what it is put through.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub units_per_block: u32,
    pub spare: Spare,
    pub policy: VictimPolicy,
    pub workload: Workload,
    pub blocks: u32,
}

impl Case {
    pub fn new(
        units_per_block: u32,
        spare: Spare,
        policy: VictimPolicy,
        workload: Workload,
    ) -> Case {
        Case { units_per_block, spare, policy, workload, blocks: BLOCKS }
    }

    pub fn greedy(units_per_block: u32, spare: Spare) -> Case {
        Case::new(units_per_block, spare, VictimPolicy::Greedy, Workload::Uniform).large()
    }

    /// The same on a drive of more blocks.
    pub fn large(self) -> Case {
        Case { blocks: BLOCKS_LARGE, ..self }
    }

    pub fn is_plain_greedy(&self) -> bool {
        self.policy == VictimPolicy::Greedy && self.workload == Workload::Uniform
    }

    fn logical_units(&self) -> u32 {
        let usable = f64::from((self.blocks - LOW_WATER) * self.units_per_block);
        self.spare.logical_units(usable)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { units_per_block, spare, policy, workload, .. } = self;
        write!(f, "{policy:?}, {workload:?}, b {units_per_block}, spare {spare:?}")
    }
}

/// Flash that counts the units that are programmed.
#[derive(Clone, Debug)]
struct Counting {
    units_per_program: u64,
    units_per_block: u32,
    in_block: Vec<u32>,
    programmed: u64,
    /// The same of blocks that hold hot units, which are those below `hot`, and how often such
    /// blocks were erased.
    hot: u32,
    is_hot: Vec<bool>,
    programmed_hot: u64,
    erases_hot: u64,
}

impl Media for Counting {
    fn begin_program(&mut self, first: PhysicalUnit, spare: OobArea<'_>, _: SequenceNumber) {
        let block = (first.0 / self.units_per_block) as usize;
        self.in_block[block] += self.units_per_program as u32;
        self.programmed += self.units_per_program;
        if self.hot > 0 {
            let unit = spare.logical_units().flatten().next();
            self.is_hot[block] = unit.is_some_and(|unit| unit.0 < self.hot);
            self.programmed_hot += u64::from(self.is_hot[block]) * self.units_per_program;
        }
    }

    fn begin_erase(&mut self, block: BlockIndex) {
        let units = u64::from(std::mem::take(&mut self.in_block[block.0 as usize]));
        self.programmed -= units;
        if self.is_hot[block.0 as usize] {
            self.programmed_hot -= units;
            self.erases_hot += 1;
        }
    }
}

/// One die whose flash is so much faster than the host that collection is never behind: what is
/// tested is where data goes, not when.
fn configuration(case: &Case) -> Configuration {
    let two_streams = matches!(case.workload, Workload::TwoStreams { .. });
    // Going from one stream's victim to another's costs padding, which no formula knows: none
    // where a program unit is one unit.
    let (planes_per_die, units_per_page) = if two_streams { (1, 1) } else { (2, 4) };
    let geometry = Geometry::new(GeometryParameters {
        channels: 1,
        dies: 1,
        planes_per_die,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: case.units_per_block / planes_per_die / units_per_page,
        page_size: KIB * 4 * u64::from(units_per_page),
        unit_size: KIB * 4,
        dies_per_collection_unit: 1,
        collection_units: case.blocks,
        metadata_collection_units: 0,
        reserve_collection_units: 0,
        logical_units: case.logical_units(),
    })
    .expect("a sound geometry");
    let mut mechanisms = Mechanisms::default();
    mechanisms.victims = case.policy;
    mechanisms.seed = 1;
    if let Workload::TwoStreams { blocks, .. } = case.workload {
        mechanisms.streams =
            StreamParameters { count: 2, hot_within: None, hot_blocks: Some(blocks) };
    }
    Configuration {
        geometry,
        timing: timing(),
        buffer: BufferParameters {
            units: 64,
            protected: two_streams,
            coalesced: 0,
            idle_before_flush: Nanoseconds::from_secs(1),
        },
        read_ahead: ReadAheadParameters { window: 0, segment: 8, trigger: 2 },
        collection: CollectionParameters {
            low_water: LOW_WATER,
            idle_high_water: LOW_WATER,
            debt_max: 8,
        },
        trim: true,
        mechanisms,
    }
}

fn timing() -> Timing {
    let fast = TransferRate::from_mb_per_second(1e6);
    Timing {
        page_read: Nanoseconds::new(1),
        program: Nanoseconds::new(1),
        erase: Nanoseconds::new(1),
        channel: fast,
        link: fast,
        link_full_duplex: true,
        delivery: Delivery::AnyOrder,
        command_latency: Nanoseconds::ZERO,
        command_occupancy: Nanoseconds::from_micros(10),
    }
}

/// What a drive came to in steady state.
pub struct Steady {
    pub logical_units: u32,
    pub write_amplification: f64,
    /// Mean number of units programmed and not erased.
    pub programmed: f64,
    /// The hot ones of the logical units, what of the programmed units is in blocks that hold hot
    /// ones, and the share of such blocks of all that were erased.
    pub hot_units: u32,
    pub programmed_hot: f64,
    pub erases_hot: f64,
}

/// A drive and the host that writes to it.
pub struct Bench {
    ssd: Ssd<PageMap, Counting>,
    workload: Workload,
    generator: Pcg64Mcg,
    ahead: [u32; AHEAD],
    mapped: Mapped,
    now: Instant,
}

impl Bench {
    /// Puts a case through some capacities of writes, and measures some more.
    pub fn steady(case: &Case) -> Steady {
        let mut bench = Bench::filled(case);
        let logical_units = bench.ssd.geometry().logical_units();
        // Where blocks are collected whatever they hold, or hold units of two kinds, a drive
        // needs to be written over more often until it has forgotten how it began.
        let is_quick = case.policy != VictimPolicy::Random && case.workload == Workload::Uniform;
        bench.write(u64::from(logical_units) * if is_quick { 3 } else { 7 });
        let before = bench.ssd.counters();
        let erases_hot = bench.ssd.media().erases_hot;
        // A random victim holds anything from nothing to all: of so many erases that the mean is
        // within 0.3 %, not 0.6 %.
        let capacities = if case.policy == VictimPolicy::Random { 6.0 } else { 1.5 };
        let requests = (f64::from(logical_units) * capacities) as u64;
        let (programmed, programmed_hot) = bench.write(requests);
        let counted = bench.ssd.counters().since(&before);
        let erases_hot = (bench.ssd.media().erases_hot - erases_hot) as f64;
        Steady {
            logical_units,
            write_amplification: counted.data_write_amplification().expect("units were written"),
            programmed,
            hot_units: bench.ssd.media().hot,
            programmed_hot,
            erases_hot: erases_hot / counted.erases as f64,
        }
    }

    /// A drive that was written once from end to end.
    fn filled(case: &Case) -> Bench {
        let configuration = configuration(case);
        let geometry = &configuration.geometry;
        let media = Counting {
            units_per_program: geometry.units_per_program().into(),
            units_per_block: geometry.units_per_block(),
            in_block: vec![0; geometry.blocks() as usize],
            programmed: 0,
            hot: match case.workload {
                Workload::TwoStreams { pages, .. } => {
                    (f64::from(geometry.logical_units()) * pages) as u32
                }
                _ => 0,
            },
            is_hot: vec![false; geometry.blocks() as usize],
            programmed_hot: 0,
            erases_hot: 0,
        };
        let logical = geometry.logical_units();
        let hot = media.hot;
        let mut ssd = Ssd::with(&configuration, PageMap::new(logical), media).expect("sound");
        let mut now = Instant::START;
        for unit in 0..logical {
            ssd.hint_stream(StreamId(u8::from(unit < hot)));
            now = ssd.write(now, LogicalUnit(unit), 1);
        }
        let mut bench = Bench {
            ssd,
            workload: case.workload,
            generator: Pcg64Mcg::seed_from_u64(1),
            ahead: [0; AHEAD],
            mapped: Mapped::all(logical),
            now,
        };
        bench.ahead = std::array::from_fn(|_| bench.draw());
        if let Workload::Trim { share } = case.workload {
            // As many mapped as in steady state: writing alone takes many capacities to that.
            let mapped = trim::mapped_share(share).expect("a sound share");
            for _ in 0..(f64::from(logical) * (1.0 - mapped)) as u32 {
                bench.trim();
            }
        }
        bench
    }

    /// The unit of the next write but [`AHEAD`].
    fn draw(&mut self) -> u32 {
        let logical = self.ssd.geometry().logical_units();
        match self.workload {
            Workload::Uniform | Workload::Trim { .. } => self.generator.random_range(0..logical),
            Workload::HotCold { writes, pages } | Workload::TwoStreams { writes, pages, .. } => {
                let hot = (f64::from(logical) * pages) as u32;
                if self.generator.random_bool(writes) {
                    self.generator.random_range(0..hot)
                } else {
                    self.generator.random_range(hot..logical)
                }
            }
        }
    }

    /// Sends `requests` requests; returns the mean number of units programmed and not erased, and
    /// of those in hot blocks.
    fn write(&mut self, requests: u64) -> (f64, f64) {
        let (mut sum, mut sum_hot) = (0, 0);
        for index in 0..requests as usize {
            if let Workload::Trim { share } = self.workload
                && self.generator.random_bool(share)
            {
                self.trim();
            } else {
                self.write_next(index);
            }
            sum += self.ssd.media().programmed;
            sum_hot += self.ssd.media().programmed_hot;
        }
        (sum as f64 / requests as f64, sum_hot as f64 / requests as f64)
    }

    fn write_next(&mut self, index: usize) {
        let unit = self.ahead[index % AHEAD];
        let drawn = self.draw();
        self.ahead[index % AHEAD] = drawn;
        self.ssd.prefetch_map(LogicalUnit(drawn));
        self.ssd.prefetch_target(LogicalUnit(self.ahead[(index + AHEAD / 2) % AHEAD]));
        if matches!(self.workload, Workload::TwoStreams { .. }) {
            self.ssd.hint_stream(StreamId(u8::from(unit < self.ssd.media().hot)));
        }
        self.now = self.ssd.write(self.now, LogicalUnit(unit), 1);
        if matches!(self.workload, Workload::Trim { .. }) {
            self.mapped.insert(unit);
        }
    }

    fn trim(&mut self) {
        if let Some(unit) = self.mapped.take_any(&mut self.generator) {
            self.now = self.ssd.trim(self.now, LogicalUnit(unit), 1);
        }
    }
}

/// The units that are mapped, to draw from.
struct Mapped {
    members: Vec<u32>,
    /// Per unit, its place among the members; none when it is not mapped.
    places: Vec<u32>,
}

impl Mapped {
    const NONE: u32 = u32::MAX;

    fn all(units: u32) -> Mapped {
        Mapped { members: (0..units).collect(), places: (0..units).collect() }
    }

    fn insert(&mut self, unit: u32) {
        if self.places[unit as usize] == Self::NONE {
            self.places[unit as usize] = self.members.len() as u32;
            self.members.push(unit);
        }
    }

    fn take_any(&mut self, generator: &mut Pcg64Mcg) -> Option<u32> {
        let last = self.members.len().checked_sub(1)?;
        let place = generator.random_range(0..=last);
        let unit = self.members.swap_remove(place);
        if let Some(&moved) = self.members.get(place) {
            self.places[moved as usize] = place as u32;
        }
        self.places[unit as usize] = Self::NONE;
        Some(unit)
    }
}
