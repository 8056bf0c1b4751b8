//! The drives, and what some of them have beyond the plain ones.

use ssdlab_model::Configuration;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::data_time::DataTime;
use ssdlab_model::flush::{FlushParameters, WriteCache};
use ssdlab_model::journal::JournalParameters;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::read_ahead::ReadAheadParameters;
use ssdlab_model::ssd::BufferParameters;
use ssdlab_model::suspend::{SuspendParameters, SuspendWhen, Suspendable};
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_nand::timing::{Delivery, Timing, TransferRate};
use ssdlab_units::{KIB, Nanoseconds};

#[derive(Clone, Copy)]
pub enum Host {
    /// Half duplex, in order, 550 MB/s, 10 us a command.
    Sata,
    /// Full duplex, any order, 3300 MB/s, 1 us a command.
    Nvme,
}

#[derive(Clone, Copy)]
pub struct Drive {
    pub name: &'static str,
    pub host: Host,
    pub channels: u32,
    pub dies: u32,
    pub planes: u32,
    pub pages_per_shot: u32,
    /// Dies a collection unit is striped over.
    pub stripe: u32,
}

pub const DRIVES: [Drive; 5] = [
    Drive {
        name: "sata 4x1 block",
        host: Host::Sata,
        channels: 2,
        dies: 4,
        planes: 1,
        pages_per_shot: 1,
        stripe: 1,
    },
    Drive {
        name: "sata 8x2 super",
        host: Host::Sata,
        channels: 4,
        dies: 8,
        planes: 2,
        pages_per_shot: 1,
        stripe: 8,
    },
    Drive {
        name: "nvme 16x2 super",
        host: Host::Nvme,
        channels: 8,
        dies: 16,
        planes: 2,
        pages_per_shot: 1,
        stripe: 16,
    },
    Drive {
        name: "nvme 8x1 block",
        host: Host::Nvme,
        channels: 4,
        dies: 8,
        planes: 1,
        pages_per_shot: 1,
        stripe: 1,
    },
    Drive {
        name: "nvme 4x2 tlc",
        host: Host::Nvme,
        channels: 4,
        dies: 4,
        planes: 2,
        pages_per_shot: 3,
        stripe: 4,
    },
];

pub const FLASH_PAGES_PER_BLOCK: u32 = 48;

impl Drive {
    pub fn configuration(
        &self,
        collection_units_per_group: u32,
        logical_share: f64,
    ) -> Configuration {
        let units_per_block = 4 * self.planes * FLASH_PAGES_PER_BLOCK * self.stripe;
        let groups = self.dies / self.stripe;
        let collection = CollectionParameters { low_water: 4, idle_high_water: 4, debt_max: 16 };
        let kept = collection.low_water + 2;
        let usable = units_per_block * groups * (collection_units_per_group - kept);
        let geometry = Geometry::new(GeometryParameters {
            channels: self.channels,
            dies: self.dies,
            planes_per_die: self.planes,
            multi_plane_read: true,
            pages_per_shot: self.pages_per_shot,
            pages_per_block: FLASH_PAGES_PER_BLOCK,
            page_size: KIB * 16,
            unit_size: KIB * 4,
            dies_per_collection_unit: self.stripe,
            collection_units: collection_units_per_group * groups,
            metadata_collection_units: 400,
            reserve_collection_units: 0,
            logical_units: (f64::from(usable) * logical_share) as u32 / 64 * 64,
        })
        .expect("a sound geometry");
        Configuration {
            geometry,
            timing: self.timing(),
            buffer: BufferParameters {
                units: 32 * self.dies * self.planes * self.pages_per_shot / 4,
                protected: false,
                coalesced: 0,
                idle_before_flush: Nanoseconds::from_millis(100),
            },
            read_ahead: ReadAheadParameters { window: 128, segment: 32, trigger: 2 },
            collection,
            trim: true,
            mechanisms: ssdlab_model::mechanisms::Mechanisms::default(),
        }
    }

    fn timing(&self) -> Timing {
        let sata = matches!(self.host, Host::Sata);
        Timing {
            page_read: Nanoseconds::from_micros(60),
            program: Nanoseconds::from_micros(600),
            erase: Nanoseconds::from_millis(3),
            channel: TransferRate::from_mb_per_second(400.0),
            link: TransferRate::from_mb_per_second(if sata { 550.0 } else { 3300.0 }),
            link_full_duplex: !sata,
            delivery: if sata { Delivery::InOrder } else { Delivery::AnyOrder },
            command_latency: Nanoseconds::from_micros(if sata { 40 } else { 10 }),
            command_occupancy: Nanoseconds::from_micros(if sata { 10 } else { 1 }),
        }
    }
}

/// The same drive with its map on flash, a tenth of it in RAM, and no read-ahead.
pub fn with_cached_map(configuration: &Configuration) -> Configuration {
    let mut configuration = configuration.clone();
    let mut parameters = configuration.geometry.parameters().clone();
    let groups = configuration.geometry.groups();
    let pages = parameters.logical_units.div_ceil(1024);
    let full = pages.div_ceil(configuration.geometry.units_per_block());
    parameters.metadata_collection_units = (3 * groups + full + 1).next_multiple_of(groups).max(4);
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.read_ahead.window = 0;
    configuration.mechanisms.mapping = MappingScheme::Cached;
    configuration.mechanisms.map_cache_pages = (pages / 10).max(4);
    // As where the host lends its memory.
    configuration.mechanisms.map_cache_read = Nanoseconds::from_micros(3);
    configuration
}

/// What a drive has beyond the plain one.
#[derive(Clone, Copy, Debug)]
pub enum Feature {
    /// A flush takes the controller's time and completes a journal.
    Journal,
    /// Every write is durable when answered.
    WriteThrough,
    /// Capacitors protect the buffer.
    Protected,
    /// Reads interrupt programs and erases.
    Suspend,
    /// They do while the write buffer has room.
    SuspendWithRoom,
    /// The pages of a word line are not sensed equally fast.
    PageReads,
    /// Reads for copies keep their dies for longer than sensing.
    CopyOverhead,
    /// The length of a command costs time in the controller and besides.
    DataTime,
}

impl Feature {
    pub fn of(self, configuration: &Configuration) -> Configuration {
        let mut configuration = configuration.clone();
        match self {
            Feature::Journal => {
                configuration.mechanisms.flush = FlushParameters {
                    overhead: Nanoseconds::from_micros(50),
                    journal: Some(JournalParameters { program: Nanoseconds::from_micros(300) }),
                    ..FlushParameters::default()
                };
            }
            Feature::WriteThrough => {
                configuration.mechanisms.flush.write_cache = WriteCache::WriteThrough;
            }
            Feature::Protected => configuration.buffer.protected = true,
            Feature::Suspend | Feature::SuspendWithRoom => {
                configuration.mechanisms.suspend = SuspendParameters {
                    operations: Suspendable::Both,
                    step: match self {
                        Feature::SuspendWithRoom => Nanoseconds::from_micros(70),
                        _ => Nanoseconds::ZERO,
                    },
                    suspend: Nanoseconds::from_micros(30),
                    resume: Nanoseconds::from_micros(20),
                    most: 4,
                    when: match self {
                        Feature::SuspendWithRoom => SuspendWhen::BufferHasRoom,
                        _ => SuspendWhen::Always,
                    },
                };
            }
            Feature::PageReads => configuration.mechanisms.page_read_spread = 0.3,
            Feature::CopyOverhead => {
                configuration.mechanisms.copy_overhead = Nanoseconds::from_micros(90);
            }
            Feature::DataTime => {
                configuration.mechanisms.data_time = DataTime {
                    controller: Some(TransferRate::from_mb_per_second(1_000.0)),
                    per_mib: Nanoseconds::from_micros(400),
                };
            }
        }
        configuration
    }
}
