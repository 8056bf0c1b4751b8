//! Collection comes to an end, also on drives of a dozen blocks: every drive that a profile can ask for
//! either is refused, in an error that names what to change, or does for each request no more work
//! than the drive is large.
//!
//! Others and more of them:
//!
//!     SSDLAB_TINY_DRIVES=2000..100000 cargo test -p ssdlab-model --release --test whole_drives collection_ends

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::ftl::Ssd;
use ssdlab_model::mapping::cached::CachedMap;
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{Mapping, MappingScheme, PageMap};
use ssdlab_model::media::Media;
use ssdlab_model::profile::{DEFAULT, Profile};
use ssdlab_model::snapshot::{Decoder, Encoder};
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// How often a request may have as much programmed as the drive has flash, before it counts as one
/// that does not end.
const MOST_TIMES_OVER: u64 = 100;

/// Flash that counts the units that a request has programmed, and stops one that has too many.
#[derive(Clone, Debug)]
struct Bounded {
    units: Rc<Cell<u64>>,
    most: u64,
}

impl Bounded {
    fn count(&mut self) {
        self.units.set(self.units.get() + 1);
        assert!(self.units.get() <= self.most, "collection goes on and on");
    }
}

impl Media for Bounded {
    fn receive(&mut self, _: PhysicalUnit, _: LogicalUnit) {
        self.count();
    }

    fn copy(&mut self, _: PhysicalUnit, _: PhysicalUnit) {
        self.count();
    }

    fn fill(&mut self, _: PhysicalUnit, _: LogicalUnit) {
        self.count();
    }
}

/// A drive of any mapping scheme.
enum Drive {
    Page(Box<Ssd<PageMap, Bounded>>),
    Cached(Box<Ssd<CachedMap, Bounded>>),
    Extent(Box<Ssd<ExtentMap, Bounded>>),
    LogBlock(Box<Ssd<PageMap, Bounded>>),
}

macro_rules! each {
    ($drive:expr, $ssd:ident => $does:expr) => {
        match $drive {
            Drive::Page($ssd) => $does,
            Drive::Cached($ssd) => $does,
            Drive::Extent($ssd) => $does,
            Drive::LogBlock($ssd) => $does,
        }
    };
}

impl Drive {
    /// A drive of the same configuration in the state that was saved of this one.
    fn restored(self, configuration: &Configuration, media: Bounded, saved: &[u8]) -> Drive {
        let mut saved = saved;
        let from = &mut Decoder::new(&mut saved);
        let expected = "what was saved";
        match self {
            Drive::Page(_) => {
                let map = PageMap::new(configuration.geometry.logical_units());
                let ssd = Ssd::restored_with(configuration, map, media, from).expect(expected);
                Drive::Page(Box::new(ssd))
            }
            Drive::Cached(_) => {
                let map = CachedMap::new(configuration).expect("a sound map");
                let ssd = Ssd::restored_with(configuration, map, media, from).expect(expected);
                Drive::Cached(Box::new(ssd))
            }
            Drive::Extent(_) => {
                let extents = configuration.mechanisms.extents;
                let map = ExtentMap::new(&configuration.geometry, extents);
                let ssd = Ssd::restored_with(configuration, map, media, from).expect(expected);
                Drive::Extent(Box::new(ssd))
            }
            Drive::LogBlock(_) => {
                let map = PageMap::new(configuration.geometry.logical_units());
                let ssd = Ssd::restored_with(configuration, map, media, from).expect(expected);
                Drive::LogBlock(Box::new(ssd))
            }
        }
    }

    fn new(configuration: &Configuration, media: Bounded) -> Drive {
        let geometry = &configuration.geometry;
        let map = PageMap::new(geometry.logical_units());
        fn boxed<M: Mapping>(it: &Configuration, map: M, media: Bounded) -> Box<Ssd<M, Bounded>> {
            Box::new(Ssd::with(it, map, media).expect("a sound drive"))
        }
        match configuration.mechanisms.mapping {
            MappingScheme::Page => Drive::Page(boxed(configuration, map, media)),
            MappingScheme::Cached => {
                let map = CachedMap::new(configuration).expect("a sound map");
                Drive::Cached(boxed(configuration, map, media))
            }
            MappingScheme::Extent => {
                let map = ExtentMap::new(geometry, configuration.mechanisms.extents);
                Drive::Extent(boxed(configuration, map, media))
            }
            MappingScheme::LogBlock => {
                let ssd = Ssd::with(configuration, map, media).expect("a sound drive");
                Drive::LogBlock(Box::new(ssd))
            }
        }
    }
}

/// Keys and values, as they are given with a target.
pub type Changes = Vec<(&'static str, String)>;

fn one_of<T: Clone>(generator: &mut Pcg64Mcg, from: &[T]) -> T {
    from[generator.random_range(0..from.len())].clone()
}

/// A drive of 12 to 24 collection units per group of dies, that may be anything else.
fn changes(generator: &mut Pcg64Mcg) -> Changes {
    let mut all: Changes = Vec::new();
    let mut set = |key, value: String| all.push((key, value));
    let channels: u64 = one_of(generator, &[1, 1, 2]);
    let dies = channels * one_of(generator, &[1, 1, 2]);
    let shot: u64 = one_of(generator, &[1, 1, 2, 3]);
    let planes: u64 = one_of(generator, &[1, 2, 4]);
    let page: u64 = 1024 * one_of(generator, &[4, 4, 8, 16]);
    let unit = one_of(generator, &[512, 1024, 4096, 4096, page]).min(page);
    let rows = generator.random_range(2..12);
    let superblock = one_of(generator, &[true, false]);
    let block = page * planes * rows * shot;
    let stripe = if superblock { dies } else { 1 };
    let groups = dies / stripe;
    let blocks = generator.random_range(12..=24) * groups;
    let metadata: u64 = one_of(generator, &[0, 2, 4, 8]);
    let collection_unit = block * stripe;
    let scheme = one_of(generator, &["page", "page", "page", "cached", "extent", "log-block"]);
    set("flash.channels", channels.to_string());
    set("flash.dies", dies.to_string());
    set("flash.planes_per_die", planes.to_string());
    set("flash.pages_per_shot", shot.to_string());
    set("flash.pages_per_block", (rows * shot).to_string());
    set("flash.page_size", page.to_string());
    set("controller.unit_size", unit.to_string());
    set("read_ahead.window", "0".to_owned());
    set("read_ahead.segment", (page * planes * shot).to_string());
    set("collection.unit", if superblock { "superblock" } else { "block" }.to_owned());
    set("collection.metadata_units", metadata.to_string());
    set("mapping.scheme", scheme.to_owned());
    match scheme {
        "cached" => set("mapping.cache", (unit * one_of(generator, &[4, 8])).to_string()),
        "extent" => set("mapping.table", one_of(generator, &["1K", "2K", "8K"]).to_owned()),
        "log-block" => set("mapping.log_blocks", one_of(generator, &["1", "2", "5"]).to_owned()),
        _ => {}
    }
    let low_water = generator.random_range(2..6);
    set("collection.low_water", low_water.to_string());
    let idle = low_water + one_of(generator, &[0, 1, 4, 1000]);
    set("collection.idle_high_water", idle.to_string());
    set("collection.debt_max", one_of(generator, &["0", "1", "8", "31"]).to_owned());
    let policy =
        one_of(generator, &["greedy", "greedy", "fifo", "random", "cost-benefit", "d-choices"]);
    let mut reserve = 0;
    let capacitors = one_of(generator, &[true, false]);
    if scheme != "log-block" {
        set("collection.policy", policy.to_owned());
        if policy == "d-choices" {
            set("collection.choices", one_of(generator, &["1", "2", "10"]).to_owned());
        }
        if one_of(generator, &[true, false, false]) {
            set("collection.pacing", "bursty".to_owned());
            let high = low_water + one_of(generator, &[1, 2, 4]);
            set("collection.high_water", high.to_string());
        }
        if one_of(generator, &[true, false, false]) {
            set("wear.levelling", "static".to_owned());
            set("wear.static_every", one_of(generator, &["1", "3", "20"]).to_owned());
            set("wear.static_spread", one_of(generator, &["0", "1", "5"]).to_owned());
            if one_of(generator, &[true, false]) {
                set("wear.static_stream", "on".to_owned());
            }
        }
        if one_of(generator, &[true, false, false, false]) {
            set("wear.life", one_of(generator, &["6", "30"]).to_owned());
            set("wear.life_shape", one_of(generator, &["2", "8"]).to_owned());
            set("wear.retire_most", one_of(generator, &["0", "0.5", "0.9"]).to_owned());
            reserve = one_of(generator, &[0, 1, 3]);
            set("wear.reserve", reserve.to_string());
        }
        if capacitors && one_of(generator, &[true, false]) {
            set("streams.count", "2".to_owned());
            set("streams.hot_within", one_of(generator, &["0.1", "0.5", "1"]).to_owned());
            if one_of(generator, &[true, false]) {
                set("streams.hot_blocks", one_of(generator, &["0.1", "0.5", "0.95"]).to_owned());
            }
        }
        if scheme != "extent" && one_of(generator, &[true, false, false]) {
            let bits = if shot == 1 { one_of(generator, &[2, 3]) } else { shot };
            let slc = collection_unit / bits * one_of(generator, &[3, 5]);
            set("slc.size", slc.to_string());
            set("slc.bits", bits.to_string());
            set("slc.space", one_of(generator, &["fixed", "dynamic"]).to_owned());
            set("slc.when_full", one_of(generator, &["fold", "direct"]).to_owned());
            set("slc.program", "200us".to_owned());
            set("slc.page_read", "25us".to_owned());
        }
        if one_of(generator, &[true, false, false, false]) {
            set("collection.rotation", one_of(generator, &["0.1", "0.5", "1"]).to_owned());
        }
        if one_of(generator, &[true, false, false, false]) {
            set("retention.retry", "80us".to_owned());
            set("retention.free_for", "1d".to_owned());
            set("retention.steps", "4".to_owned());
        }
        if one_of(generator, &[true, false, false]) {
            set("mapping.checkpoint", one_of(generator, &["64K", "1M"]).to_owned());
        }
    }
    set("controller.power_loss_protection", if capacitors { "on" } else { "off" }.to_owned());
    if !capacitors {
        let through = one_of(generator, &["write-back", "write-back", "write-through"]);
        set("controller.write_cache", through.to_owned());
    }
    let programs = one_of(generator, &[3, 4, 9]);
    set("controller.write_buffer", (page * planes * shot * programs).max(4096).to_string());
    let physical = collection_unit * (blocks + metadata + reserve * groups);
    set("capacity.physical", physical.max(1 << 20).to_string());
    set("capacity.logical", "1M".to_owned());
    all
}

/// The drive, with as much for the host as it can hold, or a share of that; or why there is none.
pub fn configuration(changes: &mut Changes, share: f64) -> Result<Configuration, String> {
    let mut profile = Profile::named(DEFAULT).expect("the default profile");
    for (key, value) in changes.iter() {
        profile.set(key, value).map_err(|error| error.to_string())?;
    }
    profile.check().map_err(|error| error.to_string())?;
    let unit = profile.configuration().expect("it was checked").geometry.unit_size().bytes();
    let fits = |units: u64| {
        let mut tried = profile.clone();
        tried.set("capacity.logical", &(units * unit).to_string()).expect("a length");
        tried.check().is_ok()
    };
    let (mut least, mut most) = ((1 << 20) / unit, (1 << 26) / unit);
    while most - least > 1 {
        let middle = least.midpoint(most);
        *if fits(middle) { &mut least } else { &mut most } = middle;
    }
    let units = ((least as f64 * share) as u64).max((1 << 20) / unit);
    let logical = (units * unit).to_string();
    profile.set("capacity.logical", &logical).expect("a length");
    changes.push(("capacity.logical", logical));
    profile.configuration().map_err(|error| error.to_string())
}

/// Writes to a drive in many ways, reads now and then, and goes on from what was saved of it; returns the most that a request had programmed, as a share of the
/// drive's flash.
pub fn put_through(configuration: &Configuration, generator: &mut Pcg64Mcg) -> f64 {
    let geometry = &configuration.geometry;
    let whole = u64::from(geometry.physical_units());
    let programmed = Rc::new(Cell::new(0));
    let media = Bounded { units: programmed.clone(), most: whole * MOST_TIMES_OVER };
    let mut drive = Drive::new(configuration, media.clone());
    let units = geometry.logical_units();
    let (mut at, mut worst) = (Instant::START, 0);
    let hot = (units / one_of(generator, &[1, 1, 5, 20])).max(1);
    for request in 0..400 {
        programmed.set(0);
        let (first, most) = match generator.random_range(0..10) {
            0 => (generator.random_range(0..units), units),
            1..4 => (generator.random_range(0..units), 4),
            _ => (generator.random_range(0..hot), 2),
        };
        let count = generator.random_range(1..=most).min(units - first);
        let first = LogicalUnit(first);
        at = match generator.random_range(0..20) {
            _ if request == 0 => each!(&mut drive, ssd => ssd.write(at, LogicalUnit(0), units)),
            0 => each!(&mut drive, ssd => ssd.flush(at)),
            1 => each!(&mut drive, ssd => ssd.trim(at, first, count.min(3))),
            3 | 4 => each!(&mut drive, ssd => ssd.read(at, first, count)),
            2 => {
                let rest = Nanoseconds::from_secs(one_of(generator, &[1, 1_000, 1_000_000]));
                each!(&mut drive, ssd => ssd.rest(at, rest));
                at + rest
            }
            _ => each!(&mut drive, ssd => ssd.write(at, first, count)),
        };
        worst = worst.max(programmed.get());
    }
    each!(&drive, ssd => ssd.check_invariants());
    programmed.set(0);
    let quiet = each!(&mut drive, ssd => ssd.shut_down(at));
    let mut saved = Vec::new();
    each!(&drive, ssd => ssd.save(&mut Encoder::new(&mut saved))).expect("memory");
    let mut again = drive.restored(configuration, media, &saved);
    each!(&again, ssd => ssd.check_invariants());
    each!(&mut again, ssd => ssd.write(quiet, LogicalUnit(0), units));
    each!(&again, ssd => ssd.check_invariants());
    worst as f64 / whole as f64
}

/// Says which drive it was when a request does not end.
pub struct Says<'a>(pub &'a Changes);

impl Drop for Says<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let given: Vec<String> = self.0.iter().map(|(key, it)| format!("{key}={it}")).collect();
            eprintln!("sim:,{}", given.join(","));
        }
    }
}

/// The drives to try: seeds from which they are drawn.
fn seeds() -> Range<u64> {
    let Ok(seeds) = std::env::var("SSDLAB_TINY_DRIVES") else { return 0..1_000 };
    let range = seeds
        .split_once("..")
        .and_then(|(first, end)| Some(first.trim().parse().ok()?..end.trim().parse().ok()?));
    range.unwrap_or_else(|| panic!("SSDLAB_TINY_DRIVES is a range as in 0..5000, not '{seeds}'"))
}

#[test]
fn no_request_has_a_tiny_drive_collect_without_end() {
    let (mut refused, mut drives, mut worst) = (0, 0, 0.0);
    for seed in seeds() {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut changes = changes(&mut generator);
        let share = one_of(&mut generator, &[1.0, 1.0, 0.95, 0.7]);
        let Ok(configuration) = configuration(&mut changes, share) else {
            refused += 1;
            continue;
        };
        let _says = Says(&changes);
        worst = f64::max(worst, put_through(&configuration, &mut generator));
        drives += 1;
    }
    println!("{drives} drives, {refused} refused; at most {worst:.1} times the flash in a request");
    assert!(drives > refused / 4, "{refused} refused, {drives} not");
}

/// A drive of 23 blocks of two program units, full but for what it needs, with changes.
fn tiny(more: &[(&'static str, &str)]) -> Changes {
    let all = [
        ("flash.channels", "1"),
        ("flash.dies", "1"),
        ("flash.planes_per_die", "2"),
        ("flash.pages_per_shot", "1"),
        ("flash.pages_per_block", "2"),
        ("flash.page_size", "16K"),
        ("read_ahead.window", "0"),
        ("read_ahead.segment", "32K"),
        ("collection.unit", "block"),
        ("collection.metadata_units", "0"),
        ("collection.low_water", "2"),
        ("collection.idle_high_water", "3"),
        ("collection.debt_max", "1"),
        ("controller.write_buffer", "96K"),
        ("capacity.physical", "1472K"),
        ("capacity.logical", "1M"),
    ];
    all.iter().chain(more).map(|&(key, value)| (key, value.to_owned())).collect()
}

/// That drive after each of some histories.
fn put_tiny_through(more: &[(&'static str, &str)]) {
    let mut changes = tiny(more);
    let configuration = configuration(&mut changes, 1.0).unwrap_or_else(|error| panic!("{error}"));
    let _says = Says(&changes);
    for seed in 0..300 {
        put_through(&configuration, &mut Pcg64Mcg::seed_from_u64(seed));
    }
}

/// That drive with blocks of nine rows, which copies to the block that it emptied last.
fn put_nine_rows_through(policy: &[(&'static str, &str)]) {
    let rows = [
        ("flash.pages_per_block", "9"),
        ("flash.page_size", "8K"),
        ("controller.unit_size", "4K"),
        ("collection.low_water", "4"),
        ("controller.write_buffer", "48K"),
        ("capacity.physical", "3456K"),
        ("capacity.logical", "2448K"),
    ];
    put_tiny_through(&[&rows, policy].concat());
}

#[test]
fn copies_go_to_the_block_that_was_emptied_last_whatever_the_policy() {
    for policy in ["greedy", "cost-benefit", "fifo", "random"] {
        put_nine_rows_through(&[("collection.policy", policy)]);
    }
    for choices in ["1", "2", "10"] {
        put_nine_rows_through(&[
            ("collection.policy", "d-choices"),
            ("collection.choices", choices),
        ]);
    }
}

#[test]
fn a_drive_at_rest_does_not_pad_away_what_it_gains() {
    for policy in ["greedy", "cost-benefit", "fifo", "random"] {
        let streams = [
            ("collection.policy", policy),
            ("collection.low_water", "3"),
            ("collection.idle_high_water", "1000"),
            ("controller.power_loss_protection", "on"),
            ("streams.count", "2"),
            ("streams.hot_within", "0.5"),
            ("capacity.physical", "1664K"),
        ];
        put_tiny_through(&streams);
    }
}
