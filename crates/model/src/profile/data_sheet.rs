//! Derives a profile from the figures of a data sheet.
//!
//! Makers publish what a drive does, not its parts. The parts are derived as follows:
//!
//! - the **program time** from the rated sequential writes: all planes program at once;
//! - the number of **planes** from the rated random reads: each senses one page at a time;
//! - **command occupancy** from the rated random reads, command latency from the rated latencies;
//! - **over-provisioning** from the rated random writes: the cost of a copy is known from drives that others
//!   measured, so that the rate gives the number of copies for each write, and theory gives the over-provisioning
//!   that leads to this number;
//! - the **erases that a block is rated for** from the endurance: the data that the host may write, times the write
//!   amplification that theory expects of random writes, over the size of the flash;
//! - the **map** from the DRAM: in RAM as a whole, or in part with the rest on flash.
//!
//! The other parameters are assumed as for drives of its kind.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::{Profile, ProfileError};
use crate::text::{exact_duration, exact_length};
use crate::units::{ByteLength, GIB, KIB, MIB, Nanoseconds};

/// Kind of flash, by bits per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashKind {
    /// One bit.
    Slc,
    /// Two bits.
    Mlc,
    /// Three bits.
    Tlc,
    /// Four bits.
    Qlc,
}

impl FlashKind {
    /// Returns the bits per cell, which are the pages of a word line.
    fn bits(self) -> u64 {
        match self {
            FlashKind::Slc => 1,
            FlashKind::Mlc => 2,
            FlashKind::Tlc => 3,
            FlashKind::Qlc => 4,
        }
    }

    /// Returns the microseconds to sense a page, and to erase a block.
    fn times(self) -> (f64, f64) {
        match self {
            FlashKind::Slc => (25.0, 2_000.0),
            FlashKind::Mlc => (45.0, 3_000.0),
            FlashKind::Tlc => (50.0, 5_000.0),
            FlashKind::Qlc => (90.0, 10_000.0),
        }
    }

    fn name(self) -> &'static str {
        match self {
            FlashKind::Slc => "SLC",
            FlashKind::Mlc => "MLC",
            FlashKind::Tlc => "TLC",
            FlashKind::Qlc => "QLC",
        }
    }
}

/// Interface of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// SATA: one direction at a time, data in order.
    Sata,
    /// NVMe: both directions at the same time, data in any order.
    Nvme,
}

/// A pseudo-SLC write cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatedCache {
    /// Capacity of the cache.
    pub size: ByteLength,
    /// Write rate of the cache, in MB/s.
    pub mb_per_second: f64,
}

/// Figures of a data sheet. Rates are 10^6 bytes, or requests of 4 KiB, per second.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSheet {
    /// Name of the drive.
    pub name: String,
    /// Logical capacity.
    pub capacity: ByteLength,
    /// Size of the flash, if it is known.
    pub flash: Option<ByteLength>,
    /// Kind of the flash.
    pub kind: FlashKind,
    /// Mapping unit, if it is known (4 KiB for most drives).
    pub unit: Option<ByteLength>,
    /// Interface of the drive.
    pub interface: Interface,
    /// Rated sequential reads, MB/s.
    pub sequential_read: f64,
    /// Rated sequential writes, MB/s; for a drive with a cache, those beyond the cache.
    pub sequential_write: f64,
    /// Rated random reads per second.
    pub random_read: f64,
    /// Rated random writes per second, for a used drive.
    pub random_write: Option<f64>,
    /// Rated latency of a read.
    pub read_latency: Option<Nanoseconds>,
    /// Rated latency of a write.
    pub write_latency: Option<Nanoseconds>,
    /// True if the write buffer has power-loss protection.
    pub protected: bool,
    /// Pseudo-SLC write cache, if the drive has one.
    pub cache: Option<RatedCache>,
    /// Bytes that the host may write before the drive is worn out, if this is rated.
    pub endurance: Option<ByteLength>,
    /// RAM for the map, in the drive or in the host; `None` if unknown, which counts as enough for the whole map.
    pub map_ram: Option<MapRam>,
}

/// RAM for the cached part of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapRam {
    /// RAM of the drive: DRAM, or memory of its controller.
    Own(ByteLength),
    /// Memory of the host (HMB).
    Host(ByteLength),
}

/// Size of a flash page.
const PAGE: ByteLength = ByteLength::new(16 * 1024);
/// Size of an entry of the map.
const ENTRY: ByteLength = ByteLength::new(4);
/// Largest number of erases that flash may be rated for: the best SLC takes 100,000.
const ERASES_MOST: f64 = 200_000.0;
/// Range of latencies at queue depth 1: no drive is faster, and no request of a working drive takes longer.
const LATENCIES: RangeInclusive<Nanoseconds> =
    Nanoseconds::from_micros(1)..=Nanoseconds::from_millis(100);
/// Mapping unit of most drives, and request size of rated figures.
const UNIT: ByteLength = ByteLength::new(4096);
/// Time that a read for copies occupies its plane beyond sensing, fitted to a Micron 7450 MAX and a Solidigm P5520.
const COPY_OVERHEAD_US: f64 = 100.0;
/// Smallest capacity of a data sheet: a smaller number lacks its unit.
const CAPACITY_LEAST: ByteLength = ByteLength::new(100_000_000);
/// Largest rate of SATA, in MB/s: 6 Gbit/s with ten bits for each byte.
const SATA_MOST: f64 = 600.0;
/// Factor by which rates of a data sheet may contradict each other, since they are rounded.
const ROUNDED: f64 = 1.05;
/// Factor by which the write amplification with the given flash may exceed the one of the rated random writes.
const FLASH_TOLERANCE: f64 = 1.25;
/// Fewest superblocks of a drive.
const MIN_BLOCKS: u64 = 600;
/// Largest mapping unit: a page on each of four planes.
const UNITS_MOST: ByteLength = ByteLength::new(64 * 1024);
const PLANES_LEAST: u32 = 32;
const PLANES_MOST: u32 = 1024;

/// Values derived from a data sheet.
struct Derived {
    /// Number of planes, or groups of planes, that sense pages for reads independently.
    planes: u32,
    /// Number of planes that a mapping unit lies on.
    together: u32,
    channels: u32,
    channel_rate: f64,
    pages_per_block: u64,
    page_read_us: f64,
    /// Microseconds that the rated latencies leave for sensing a page, if both are known.
    sensed_us: Option<f64>,
    program_us: f64,
    occupancy_us: f64,
    latency_us: f64,
    buffer: ByteLength,
    physical: ByteLength,
    /// Source of the size of the flash.
    physical_source: String,
    is_fitted: bool,
    /// Erases that a block is rated for.
    erases: Option<u32>,
}

impl DataSheet {
    /// Returns a profile with these figures, as the text of its file.
    ///
    /// # Errors
    /// Returns an error if figures contradict each other, with a description.
    pub fn profile(&self) -> Result<String, ProfileError> {
        self.check()?;
        let mut derived = self.derive();
        if let Some(rate) = self.random_write {
            let wanted = self.amplification(&derived, rate)?;
            derived.physical = self.flash_for(&derived, wanted)?;
            derived.is_fitted = true;
            derived.physical_source = format!(
                "rated {rate:.0} random writes a second, possible at a write amplification of \
                 {wanted:.2}"
            );
            if let Some(flash) = self.flash {
                let _ =
                    write!(derived.physical_source, "; at most the {} given", exact_length(flash));
            }
        }
        derived.erases = self.erases(&derived)?;
        let text = self.text(&derived);
        Profile::parse(&self.name, &self.name, &text)?;
        Ok(text)
    }

    fn wrong(&self, message: String) -> ProfileError {
        ProfileError::Inconsistent { origin: self.name.clone(), message }
    }

    /// Returns the mapping unit.
    fn unit(&self) -> ByteLength {
        self.unit.unwrap_or(UNIT)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let unit = self.unit();
        if !unit.bytes().is_power_of_two() || unit < UNIT || unit > UNITS_MOST {
            return Err(self.wrong(format!(
                "{} is no mapping unit: it must be a power of two from {} to {}",
                exact_length(unit),
                exact_length(UNIT),
                exact_length(UNITS_MOST)
            )));
        }
        let rates = [
            ("sequential reads", self.sequential_read, 1.0, 100_000.0),
            ("sequential writes", self.sequential_write, 1.0, 100_000.0),
            ("random reads", self.random_read, 100.0, 20e6),
            ("random writes", self.random_write.unwrap_or(100.0), 1.0, 20e6),
        ];
        for (what, rate, least, most) in rates {
            if !(least..=most).contains(&rate) {
                return Err(self
                    .wrong(format!("{rate} is no rate of {what}: it must be {least} to {most}")));
            }
        }
        let latencies =
            [("latency of reads", self.read_latency), ("latency of writes", self.write_latency)];
        for (what, latency) in latencies {
            if latency.is_some_and(|it| !LATENCIES.contains(&it)) {
                return Err(self.wrong(format!(
                    "{} is no {what}: it must be {} to {}",
                    exact_duration(latency.unwrap_or_default()),
                    exact_duration(*LATENCIES.start()),
                    exact_duration(*LATENCIES.end())
                )));
            }
        }
        if self.capacity < CAPACITY_LEAST {
            return Err(self.wrong(format!(
                "{} is no capacity of a drive: write it with its unit, such as 960GB",
                exact_length(self.capacity)
            )));
        }
        let fastest = self.sequential_read.max(self.sequential_write);
        if self.interface == Interface::Sata && fastest > SATA_MOST {
            return Err(self.wrong(format!(
                "{fastest} MB/s are more than SATA can transfer ({SATA_MOST:.0} MB/s); give NVMe \
                 as the interface, or check the rates"
            )));
        }
        let random = self.random_read * UNIT.bytes() as f64 / 1e6;
        if random > self.sequential_read * ROUNDED {
            return Err(self.wrong(format!(
                "{} random reads a second of 4 KiB are {random:.0} MB/s, more than the {} MB/s of \
                 sequential reads; check both figures",
                self.random_read, self.sequential_read
            )));
        }
        if let Some(cache) = self.cache
            && cache.mb_per_second < self.sequential_write
        {
            return Err(self.wrong(format!(
                "the cache is written at {} MB/s, slower than the {} MB/s of sequential writes \
                 beyond it; check both figures",
                cache.mb_per_second, self.sequential_write
            )));
        }
        if self.flash.is_some_and(|flash| flash <= self.capacity) {
            return Err(self.wrong(format!(
                "flash of {} leaves no over-provisioning beside a capacity of {}; leave the flash out \
                 if it is not known",
                exact_length(self.flash.unwrap_or(self.capacity)),
                exact_length(self.capacity)
            )));
        }
        Ok(())
    }

    fn derive(&self) -> Derived {
        let (kind_read_us, _) = self.kind.times();
        // Enough planes that they are busy for two thirds of the time at the rated reads.
        let busy = 1.5 * self.random_read * kind_read_us / 1e6;
        let planes = (busy.ceil() as u32).next_power_of_two().clamp(PLANES_LEAST, PLANES_MOST);
        let channels = if planes > 128 { 16 } else { 8 };
        let fastest = self.sequential_read.max(self.sequential_write);
        let channel_rate = (1.6 * fastest / f64::from(channels)).max(400.0);
        let together = self.unit().covering(PAGE) as u32;
        let shot = PAGE * (self.kind.bits() * u64::from(together));
        let program_us = f64::from(planes) * shot.bytes() as f64 / self.sequential_write;
        let occupancy_us = 1e6 / self.random_read;
        let over_link = UNIT.bytes() as f64 / self.sequential_read;
        let over_channel = UNIT.bytes() as f64 / channel_rate;
        let us = |latency: Nanoseconds| latency.nanos() as f64 / 1e3;
        let rest = occupancy_us + over_link;
        let default_latency = match self.interface {
            Interface::Nvme => 10.0,
            Interface::Sata => 30.0,
        };
        let (latency_us, sensed_us) = match (self.read_latency.map(us), self.write_latency.map(us))
        {
            (read, Some(write)) => {
                let latency = (write - rest).max(1.0);
                (latency, read.map(|read| read - latency - rest - over_channel))
            }
            (Some(read), None) => ((read - kind_read_us - rest - over_channel).max(1.0), None),
            (None, None) => (default_latency, None),
        };
        let can_be = 0.7 * kind_read_us..=1.4 * kind_read_us;
        let page_read_us = sensed_us.unwrap_or(kind_read_us).clamp(*can_be.start(), *can_be.end());
        let flash = self.flash.unwrap_or_else(|| next_size(self.capacity));
        let of_a_page = PAGE * u64::from(planes * together);
        let bits = self.kind.bits();
        let pages = flash.bytes() / of_a_page.bytes() / MIN_BLOCKS / bits * bits;
        Derived {
            planes,
            together,
            channels,
            channel_rate,
            pages_per_block: pages.clamp(bits, 1152 / bits * bits),
            page_read_us,
            sensed_us,
            program_us,
            occupancy_us,
            latency_us,
            buffer: (shot * (2 * u64::from(planes))).max(MIB * 8),
            physical: flash,
            physical_source: match self.flash {
                Some(_) => "given".to_owned(),
                None => "the next usual size".to_owned(),
            },
            is_fitted: false,
            erases: None,
        }
    }

    /// Returns true if only a part of the map is in RAM.
    fn keeps_map_on_flash(&self) -> bool {
        let map = ENTRY * self.capacity.whole(self.unit());
        self.map_ram.is_some_and(|ram| match ram {
            MapRam::Own(ram) | MapRam::Host(ram) => ram < map,
        })
    }

    /// Returns this data sheet without a cache and with the whole map in RAM, for which theory has a closed form.
    fn plain(&self) -> DataSheet {
        DataSheet { cache: None, map_ram: None, ..self.clone() }
    }

    /// Returns the rated erases of each block, from the rated endurance; `None` if no endurance is rated.
    fn erases(&self, derived: &Derived) -> Result<Option<u32>, ProfileError> {
        let Some(endurance) = self.endurance else { return Ok(None) };
        let amplification = self.plain().expected(derived, derived.physical).unwrap_or(1.0);
        let erases = endurance.bytes() as f64 * amplification / derived.physical.bytes() as f64;
        if !(1.0..=ERASES_MOST).contains(&erases) {
            return Err(self.wrong(format!(
                "an endurance of {} is {erases:.1} erases of each block: it must be 1 to \
                 {ERASES_MOST:.0}",
                exact_length(endurance)
            )));
        }
        Ok(Some(erases.round() as u32))
    }

    /// Returns the write amplification that theory expects with this much flash.
    fn expected(&self, derived: &Derived, physical: ByteLength) -> Option<f64> {
        let text =
            self.text(&Derived { physical, physical_source: "tried".to_owned(), ..*derived });
        let profile = Profile::parse(&self.name, &self.name, &text).ok()?;
        profile.configuration().ok()?.expectation().map(|it| it.write_amplification)
    }

    /// Returns the write amplification at which `rate` random writes per second are possible.
    fn amplification(&self, derived: &Derived, rate: f64) -> Result<f64, ProfileError> {
        let unit = self.unit();
        let write = unit.bytes() as f64 / self.sequential_write;
        let each = 1e6 / rate;
        // With a larger unit, the rest of the unit is read, and written with the new data.
        let read = if unit > UNIT { derived.page_read_us / f64::from(derived.planes) } else { 0.0 };
        let cost = |amplification: f64| {
            // Some pages of a victim hold no valid units; only the others are sensed.
            let valid = (amplification - 1.0) / amplification;
            let units_per_page = PAGE.whole(unit).max(1) as f64;
            let sensed = (1.0 - (1.0 - valid).powf(units_per_page)) / (units_per_page * valid);
            let sense = (derived.page_read_us + COPY_OVERHEAD_US) * sensed;
            read + write + (amplification - 1.0) * (write + sense / f64::from(derived.planes))
        };
        let (mut low, mut high) = (1.05, 40.0);
        if cost(low) > each {
            return Err(self.wrong(format!(
                "{rate:.0} random writes a second are {:.0} MB/s, no less than the {:.0} MB/s of \
                 sequential writes: the figure is for a new drive, or for its cache. Leave the \
                 rated random writes out, or give the figure for a used drive",
                rate * unit.bytes() as f64 / 1e6,
                self.sequential_write
            )));
        }
        if cost(high) < each {
            return Err(self.wrong(format!(
                "{rate:.0} random writes a second are so few, with {:.0} MB/s of sequential \
                 writes, that the write amplification would be {high:.0}: give the mapping unit \
                 if it is larger than {}, or leave the random writes out",
                self.sequential_write,
                exact_length(unit)
            )));
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if cost(middle) < each { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// Returns the smallest flash, in GiB, with which theory expects at most `amplification`.
    fn flash_for(&self, derived: &Derived, amplification: f64) -> Result<ByteLength, ProfileError> {
        let plain = self.plain();
        let expected = |gib: u64| plain.expected(derived, GIB * gib);
        let (mut low, mut high) =
            (self.capacity.whole(GIB).max(1), self.capacity.whole(GIB) * 3 + 2);
        if let Some(flash) = self.flash {
            high = flash.whole(GIB) + 1;
            match expected(high - 1) {
                Some(found) if found > amplification * FLASH_TOLERANCE => {
                    return Err(self.wrong(format!(
                        "flash of {} gives a write amplification of {found:.1}, and the rated \
                         random writes need {amplification:.1}: leave one of the two out",
                        exact_length(flash)
                    )));
                }
                Some(found) if found > amplification => return Ok(flash),
                _ => {}
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let is_enough = expected(middle).is_some_and(|it| it <= amplification);
            if is_enough { high = middle } else { low = middle }
        }
        expected(high).map(|_| GIB * high).ok_or_else(|| {
            self.wrong(format!(
                "no amount of flash gives the write amplification of {amplification:.2} that the \
                 rated random writes need"
            ))
        })
    }

    fn text(&self, derived: &Derived) -> String {
        let mut to = Text::default();
        let sheet = "data sheet";
        let kind = self.kind.name();
        let usual = "as drives of its kind";
        // A name is one line, and must not end the quoted text.
        let name = self.name.replace(['"', '\\'], "'").replace(char::is_control, " ");
        to.line(&format!(
            "# {name}. Made from a data sheet by 'ssdlab profile new'; change what you know better.\n"
        ));
        let bus = match self.interface {
            Interface::Sata => "SATA",
            Interface::Nvme => "NVMe",
        };
        to.line(&format!("summary = \"{name}, {bus}, {kind}\""));
        to.section("capacity");
        to.text("logical", &exact_length(self.capacity), "published", sheet);
        let basis = match (derived.is_fitted, self.flash) {
            (true, _) => "fitted",
            (false, Some(_)) => "published",
            (false, None) => "assumed",
        };
        to.text("physical", &exact_length(derived.physical), basis, &derived.physical_source);
        to.section("flash");
        to.number("channels", derived.channels, "assumed", usual);
        to.number(
            "dies",
            derived.planes,
            "fitted",
            "rated random reads: planes that are read one by one, each of which counts as a die",
        );
        to.number("planes_per_die", derived.together, "assumed", "see dies");
        to.number("multi_plane_read", false, "assumed", "see dies");
        to.text("page_size", &exact_length(PAGE), "assumed", usual);
        to.number(
            "pages_per_block",
            derived.pages_per_block,
            "assumed",
            "only sets how much is collected at a time",
        );
        to.number(
            "pages_per_shot",
            self.kind.bits(),
            "assumed",
            "all pages of a word line are programmed in one go",
        );
        let (basis, source) = match derived.sensed_us {
            None => ("assumed", usual.to_owned()),
            Some(rated) if rated == derived.page_read_us => {
                ("fitted", "rated latencies of reads and writes".to_owned())
            }
            Some(rated) => {
                let words = format!("rated latencies leave {rated:.0} us, implausible for {kind}");
                ("assumed", words)
            }
        };
        to.text("page_read", &us(derived.page_read_us), basis, &source);
        to.text("program", &us(derived.program_us), "fitted", "rated sequential writes");
        to.text("erase", &us(self.kind.times().1), "assumed", usual);
        to.number(
            "channel_mb_per_second",
            format!("{:.1}", derived.channel_rate),
            "assumed",
            "enough for the rated rates",
        );
        if self.protected {
            to.text(
                "suspend",
                "both",
                "assumed",
                "drives for data centers let reads interrupt programs and erases",
            );
            to.text("suspend_step", "60us", "assumed", usual);
            to.text("suspend_time", "18us", "assumed", usual);
            to.text("resume_time", "20us", "assumed", usual);
            to.number("suspends_most", 8, "assumed", usual);
        }
        to.section("controller");
        let (basis, source) =
            if self.unit.is_some() { ("published", sheet) } else { ("assumed", usual) };
        to.text("unit_size", &exact_length(self.unit()), basis, source);
        let latency = if self.read_latency.or(self.write_latency).is_some() {
            ("fitted", "rated latency")
        } else {
            ("assumed", usual)
        };
        to.text("command_latency", &us(derived.latency_us), latency.0, latency.1);
        to.text("command_occupancy", &us(derived.occupancy_us), "fitted", "rated random reads");
        to.text(
            "write_buffer",
            &exact_length(derived.buffer),
            "assumed",
            "two program units a plane",
        );
        to.number("power_loss_protection", self.protected, "published", sheet);
        to.text("idle_before_flush", "100 ms", "assumed", usual);
        to.number("trim", true, "assumed", usual);
        to.section("read_ahead");
        to.text("window", &exact_length(MIB), "assumed", usual);
        to.text("segment", &exact_length(KIB * 128), "assumed", usual);
        to.number("trigger", 2, "assumed", usual);
        to.section("collection");
        to.text("unit", "superblock", "assumed", usual);
        to.number("low_water", 4, "assumed", usual);
        to.number("idle_high_water", 8, "assumed", usual);
        to.number("debt_max", 8, "assumed", usual);
        let is_on_flash = self.keeps_map_on_flash();
        let (units, why) = if is_on_flash { (8, "the map lies on flash") } else { (2, usual) };
        to.number("metadata_units", units, "assumed", why);
        to.text(
            "read_overhead",
            &us(COPY_OVERHEAD_US),
            "assumed",
            "as of drives that others measured: docs/PROFILES.md",
        );
        to.section("link");
        to.number("mb_per_second", format!("{:.1}", self.sequential_read), "published", sheet);
        to.number("full_duplex", self.interface == Interface::Nvme, "published", bus);
        let delivery = match self.interface {
            Interface::Sata => "in-order",
            Interface::Nvme => "any-order",
        };
        to.text("delivery", delivery, "assumed", usual);
        if let Some(ram) = self.map_ram.filter(|_| is_on_flash) {
            let (MapRam::Own(length) | MapRam::Host(length)) = ram;
            to.section("mapping");
            to.text("scheme", "cached", "published", "less RAM than the map takes");
            to.text("cache", &exact_length(length), "assumed", "all the RAM that there is");
            if matches!(ram, MapRam::Host(_)) {
                to.text(
                    "cache_read",
                    "1us",
                    "assumed",
                    "a read of the host's memory over PCI Express",
                );
            }
        }
        if let Some(erases) = derived.erases {
            to.section("wear");
            to.number(
                "pe_cycles",
                erases,
                "fitted",
                "rated endurance, at the write amplification that theory expects of random writes",
            );
        }
        if let Some(cache) = self.cache {
            let program = f64::from(derived.planes) * PAGE.bytes() as f64 / cache.mb_per_second;
            to.section("slc");
            to.text("size", &exact_length(cache.size), "published", sheet);
            to.text("space", "dynamic", "assumed", usual);
            to.number("bits", self.kind.bits(), "published", kind);
            to.text("program", &us(program), "fitted", "rated writes to the cache");
            to.text("page_read", &us(FlashKind::Slc.times().0), "assumed", usual);
        }
        to.0
    }
}

/// Returns the usual size of flash that is not known: in GiB the next power of two, or three quarters of that if
/// these are 5 % above `capacity`.
fn next_size(capacity: ByteLength) -> ByteLength {
    let gib = capacity.whole(GIB) + 1;
    let power = gib.next_power_of_two();
    GIB * if power / 4 * 3 >= gib + gib / 20 { power / 4 * 3 } else { power }
}

fn us(us: f64) -> String {
    format!("{}ns", (us * 1e3).round().max(1.0) as u64)
}

/// Text of a profile, written line by line.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn section(&mut self, name: &str) {
        self.line(&format!("\n[{name}]"));
    }

    fn text(&mut self, key: &str, value: &str, basis: &str, source: &str) {
        self.number(key, format!("\"{value}\""), basis, source);
    }

    fn number(&mut self, key: &str, value: impl std::fmt::Display, basis: &str, source: &str) {
        let source = format!("{source}, by 'profile new'");
        writeln!(
            self.0,
            "{key} = {{ value = {value}, basis = \"{basis}\", source = \"{source}\" }}"
        )
        .expect("text takes all");
    }
}

#[cfg(test)]
mod tests;
