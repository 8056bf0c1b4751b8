//! The drive and the loads that the benches measure: 32 dies on 8 channels, two planes, superblocks of
//! 4,096 units, requests of 4 KiB at depth 32.

use ssdlab_nand::DieParameters;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_nand::suspend::SuspendParameters;
use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
use ssdlab_units::{KIB, Nanoseconds};

use crate::drive::{Engine, Parameters, Workload};

/// A load that is measured.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    Reads,
    Writes,
    Mixed,
}

impl Load {
    pub fn workload(self) -> Workload {
        let read_percent = match self {
            Load::Reads => 100,
            Load::Writes => 0,
            Load::Mixed => 70,
        };
        Workload { read_percent, ..Workload::WRITES }
    }
}

/// A drive of so many GiB with a share of spare area (of the logical capacity), in steady state.
pub fn steady(gib: u32, spare: f64) -> Engine {
    let logical_units = gib << 18;
    let usable = (f64::from(logical_units) * (1.0 + spare)) as u32;
    let low_water = 6;
    let geometry = Geometry::new(GeometryParameters {
        channels: 8,
        dies: 32,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 16,
        page_size: KIB * 16,
        unit_size: KIB * 4,
        dies_per_collection_unit: 32,
        collection_units: usable.div_ceil(4096) + low_water + 2,
        metadata_collection_units: 0,
        reserve_collection_units: 0,
        logical_units,
    })
    .expect("a sound geometry");
    let timing = Timing {
        page_read: Nanoseconds::from_micros(60),
        program: Nanoseconds::from_micros(600),
        erase: Nanoseconds::from_millis(3),
        channel: TransferRate::from_mb_per_second(800.0),
        link: TransferRate::from_mb_per_second(3300.0),
        link_full_duplex: true,
        delivery: Delivery::AnyOrder,
        command_latency: Nanoseconds::from_micros(10),
        command_occupancy: Nanoseconds::new(1_000),
    };
    let parameters = Parameters {
        geometry,
        timing,
        buffer: 1024,
        low_water,
        is_eager: false,
        depth: 32,
        seed: 1,
    };
    let dies = DieParameters {
        suspend: SuspendParameters::default(),
        background_most: 8,
        page_register: false,
    };
    let mut engine = Engine::new(&parameters, dies);
    let units = u64::from(logical_units);
    let fill = Workload { is_sequential: true, units_most: 8, ..Workload::WRITES };
    engine.run(fill, units / 4);
    engine.run(Workload::WRITES, 2 * units);
    let (host, copies) = engine.sink.drive.program_units();
    assert!(copies > host / 2, "{copies} programs of copies for {host} of the host: not steady");
    engine
}
