//! Random drives and loads, by number.

use ssdlab_nand::DieParameters;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_nand::suspend::{SuspendParameters, SuspendWhen, Suspendable};
use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
use ssdlab_units::{KIB, Nanoseconds};

use crate::drive::{Parameters, Workload};

/// A generator of small numbers: the cases are always the same.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
    /// A hundred times about so many microseconds. Times are long and rough, so that hardly ever two things
    /// happen at one nanosecond that do not have to.
    fn micros(&mut self, about: u64) -> Nanoseconds {
        Nanoseconds::new(about * 1_000 * (50 + self.below(100)) + self.below(99_991))
    }
    /// A hundredth of a rate of about so many MB/s.
    fn rate(&mut self, least: u64, most: u64) -> TransferRate {
        let rate = least * 10_000 + self.below((most - least) * 10_000);
        TransferRate::from_mb_per_second(rate as f64 / 1e6)
    }
}

/// A drive and a load.
pub struct Case {
    pub parameters: Parameters,
    pub dies: DieParameters,
    pub load: Workload,
}

/// Fills a drive in order.
pub const FILL: Workload = Workload { units_most: 16, is_sequential: true, ..Workload::WRITES };

impl Case {
    /// The case with a number.
    pub fn of(number: u64) -> Case {
        let mut draw = Draw(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        draw.below(2);
        let channels = 1 + draw.below(4) as u32;
        let dies = channels * (1 + draw.below(4) as u32);
        let stripes: Vec<u32> = (1..=dies).filter(|it| dies.is_multiple_of(*it)).collect();
        let stripe = draw.one_of(&stripes);
        let pages_per_shot = draw.one_of(&[1, 1, 2, 3]);
        let planes = draw.one_of(&[1, 2, 4]);
        let units_per_page = draw.one_of(&[1u64, 2, 4]);
        let groups = dies / stripe;
        let per_block = (units_per_page as u32 * planes * pages_per_shot) * 8 * stripe;
        let blocks = groups * (8 + draw.below(8) as u32);
        let logical = (blocks - 5 * groups) * per_block * (60 + draw.below(35) as u32) / 100;
        let geometry = Geometry::new(GeometryParameters {
            channels,
            dies,
            planes_per_die: planes,
            multi_plane_read: draw.below(3) > 0,
            pages_per_shot,
            pages_per_block: 8 * pages_per_shot,
            page_size: KIB * 4 * units_per_page,
            unit_size: KIB * 4,
            dies_per_collection_unit: stripe,
            collection_units: blocks,
            metadata_collection_units: 0,
            reserve_collection_units: 0,
            logical_units: logical,
        })
        .expect("a sound geometry");
        let timing = Timing {
            page_read: draw.micros(60),
            program: draw.micros(600),
            erase: draw.micros(3_000),
            channel: draw.rate(200, 1_100),
            link: draw.rate(300, 3_300),
            link_full_duplex: draw.below(3) > 0,
            delivery: draw.one_of(&[Delivery::InOrder, Delivery::AnyOrder, Delivery::WhenComplete]),
            command_latency: draw.micros(10),
            command_occupancy: draw.micros(2),
        };
        let step = draw.micros(50);
        let suspend = SuspendParameters {
            operations: draw.one_of(&[
                Suspendable::Off,
                Suspendable::Both,
                Suspendable::Program,
                Suspendable::Erase,
            ]),
            step: draw.one_of(&[Nanoseconds::ZERO, step]),
            suspend: draw.micros(20),
            resume: draw.micros(10),
            most: draw.below(5) as u32,
            when: SuspendWhen::Always,
        };
        let dies_do = DieParameters {
            suspend,
            background_most: draw.below(9) as u32,
            page_register: draw.below(2) > 0,
        };
        let depth = draw.one_of(&[1, 2, 8, 32]);
        let load = Workload {
            read_percent: draw.one_of(&[0, 30, 70, 95, 100]),
            flush_percent: draw.one_of(&[0, 0, 0, 3]),
            fua_percent: draw.one_of(&[0, 0, 0, 5]),
            units_most: draw.one_of(&[1, 1, 2, 16, 40]),
            is_sequential: draw.below(4) == 0,
            map_misses: draw.one_of(&[0, 0, 2, 5]),
            is_partial: number % 2 == 1,
        };
        let parameters = Parameters {
            buffer: (per_block / stripe / 8 * 2).max(64) + draw.below(200) as u32,
            low_water: 3 * groups,
            is_eager: draw.below(3) == 0,
            depth,
            seed: number,
            geometry,
            timing,
        };
        Case { parameters, dies: dies_do, load }
    }
}
