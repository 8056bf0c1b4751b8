//! Greedy collection against its closed form: uniform random writes of single units to a full
//! drive.
//!
//! The closed form knows blocks that hold data and nothing else. A drive keeps some blocks free,
//! and has one that the host fills, one that collection fills and one that is being emptied. What
//! they are worth is measured, not assumed: the medium counts the units that are programmed and
//! not yet erased, and the mean of that over the run is the physical size that goes into the
//! formula. The one thing a medium cannot see is how much of the victim was moved already; over
//! time that is half of a block.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::geometry::{Geometry, GeometryParameters};
use ssdlab_model::mapping::PageMap;
use ssdlab_model::media::{FlashWork, Media, SequenceNumber, SpareArea};
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::theory::{SpareFactor, UnitsPerBlock, greedy};
use ssdlab_model::timing::{Delivery, Timing, TransferRate};
use ssdlab_model::units::{BlockIndex, Instant, KIB, LogicalUnit, Nanoseconds, PhysicalUnit};
use ssdlab_model::{Configuration, Ssd};

/// Enough that neither the few blocks kept nor chance matter.
const BLOCKS: u32 = 16_384;

const LOW_WATER: u32 = 3;

/// How far the model may be from the closed form.
const LIMIT: f64 = 0.005;

/// Requests drawn ahead, so that the maps are fetched before they are needed.
const AHEAD: usize = 32;

/// Flash that counts the units that are programmed.
#[derive(Clone, Debug)]
struct Counting {
    units_per_program: u64,
    units_per_block: u32,
    in_block: Vec<u32>,
    programmed: u64,
}

impl Media for Counting {
    fn program(&mut self, first: PhysicalUnit, _: SpareArea<'_>, _: SequenceNumber, _: FlashWork) {
        self.in_block[(first.0 / self.units_per_block) as usize] += self.units_per_program as u32;
        self.programmed += self.units_per_program;
    }

    fn erase(&mut self, block: BlockIndex, _: FlashWork) {
        self.programmed -= u64::from(std::mem::take(&mut self.in_block[block.0 as usize]));
    }
}

/// One die whose flash is so much faster than the host that collection is never behind: what is
/// tested is where data goes, not when.
fn configuration(units_per_block: u32, logical_units: u32) -> Configuration {
    let geometry = Geometry::new(GeometryParameters {
        channels: 1,
        dies: 1,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: units_per_block / 8,
        page_size: KIB * 16,
        unit_size: KIB * 4,
        dies_per_collection_unit: 1,
        collection_units: BLOCKS,
        metadata_collection_units: 0,
        logical_units,
    })
    .expect("a sound geometry");
    let fast = TransferRate::from_mb_per_second(1e6);
    Configuration {
        geometry,
        timing: Timing {
            page_read: Nanoseconds::new(1),
            program: Nanoseconds::new(1),
            erase: Nanoseconds::new(1),
            channel: fast,
            link: fast,
            link_full_duplex: true,
            delivery: Delivery::AnyOrder,
            command_latency: Nanoseconds::ZERO,
            command_occupancy: Nanoseconds::from_micros(10),
        },
        buffer: BufferParameters {
            units: 64,
            protected: false,
            idle_before_flush: Nanoseconds::from_secs(1),
        },
        read_ahead: ReadAheadParameters { window: 0, segment: 8, trigger: 2 },
        collection: CollectionParameters {
            low_water: LOW_WATER,
            idle_high_water: LOW_WATER,
            debt_max: 8,
        },
        trim: true,
        mechanisms: ssdlab_model::mechanisms::Mechanisms::default(),
    }
}

/// A drive and a host that writes to it at random.
struct Bench {
    ssd: Ssd<PageMap, Counting>,
    generator: Pcg64Mcg,
    ahead: [u32; AHEAD],
    now: Instant,
}

impl Bench {
    /// A drive that was written once from end to end.
    fn filled(configuration: &Configuration, seed: u64) -> Bench {
        let geometry = &configuration.geometry;
        let media = Counting {
            units_per_program: geometry.units_per_program().into(),
            units_per_block: geometry.units_per_block(),
            in_block: vec![0; geometry.blocks() as usize],
            programmed: 0,
        };
        let logical = geometry.logical_units();
        let mut ssd = Ssd::with(configuration, PageMap::new(logical), media).expect("sound");
        let mut now = Instant::START;
        for unit in 0..logical {
            now = ssd.write(now, LogicalUnit(unit), 1);
        }
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let ahead = std::array::from_fn(|_| generator.random_range(0..logical));
        Bench { ssd, generator, ahead, now }
    }

    /// Writes `writes` units; returns the mean number of units programmed and not erased.
    fn write(&mut self, writes: u64) -> f64 {
        let logical = self.ssd.geometry().logical_units();
        let mut sum = 0;
        for index in 0..writes as usize {
            let unit = self.ahead[index % AHEAD];
            let drawn = self.generator.random_range(0..logical);
            self.ahead[index % AHEAD] = drawn;
            self.ssd.prefetch_map(LogicalUnit(drawn));
            self.ssd.prefetch_target(LogicalUnit(self.ahead[(index + AHEAD / 2) % AHEAD]));
            self.now = self.ssd.write(self.now, LogicalUnit(unit), 1);
            sum += self.ssd.media().programmed;
        }
        sum as f64 / writes as f64
    }
}

/// Spare area, as it is spoken of.
#[derive(Clone, Copy, Debug)]
enum Spare {
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

fn deviation(units_per_block: u32, spare: Spare) -> f64 {
    let usable = f64::from((BLOCKS - LOW_WATER) * units_per_block);
    let logical_units = spare.logical_units(usable);
    let configuration = configuration(units_per_block, logical_units);
    let mut bench = Bench::filled(&configuration, 1);
    bench.write(u64::from(logical_units) * 3 / 2);
    let before = bench.ssd.counters();
    let programmed = bench.write(u64::from(logical_units));
    let counted = bench.ssd.counters().since(&before);
    let measured = counted.write_amplification().expect("units were written");
    let physical = programmed - f64::from(units_per_block) / 2.0;
    let spare_factor =
        SpareFactor::from_counts(physical.round() as u64, logical_units.into()).expect("sound");
    let expected = greedy::write_amplification(
        spare_factor,
        UnitsPerBlock::new(units_per_block).expect("sound"),
    );
    let deviation = measured / expected - 1.0;
    println!(
        "b {units_per_block:3}, spare {spare:?}: {measured:.4}, closed form {expected:.4} \
         ({:+.3} %), {:.2} blocks hold nothing",
        deviation * 100.0,
        f64::from(BLOCKS) - physical / f64::from(units_per_block),
    );
    deviation
}

fn check(cases: &[(u32, Spare)]) {
    for &(units_per_block, spare) in cases {
        let deviation = deviation(units_per_block, spare);
        assert!(deviation.abs() < LIMIT, "{units_per_block} units a block, spare {spare:?}");
    }
}

#[test]
fn little_spare_area_of_logical() {
    check(&[
        (64, Spare::OfLogical(0.07)),
        (128, Spare::OfLogical(0.07)),
        (128, Spare::OfLogical(0.10)),
        (64, Spare::OfLogical(0.15)),
    ]);
}

#[test]
fn much_spare_area_of_logical() {
    check(&[(256, Spare::OfLogical(0.20)), (64, Spare::OfLogical(0.28))]);
}

#[test]
fn spare_area_of_physical() {
    check(&[
        (128, Spare::OfPhysical(0.07)),
        (64, Spare::OfPhysical(0.10)),
        (256, Spare::OfPhysical(0.28)),
    ]);
}
