//! What is read from outside, given any bytes: an error or something sound, never a panic. The
//! property tests and the fuzz targets (`fuzz/`) call the same functions.

use ssdlab_model::mapping::cached::CachedMap;
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{Mapping, PageMap};
use ssdlab_model::media::{Media, OobArea, SequenceNumber, TrimRecord};
use ssdlab_model::profile::Profile;
use ssdlab_model::recovery::{FlashContents, ProgramUnit, Recovery, RecoveryError};
use ssdlab_model::snapshot::{Decoder, Encoder};
use ssdlab_model::{Configuration, Ssd};
use ssdlab_units::codec::{BorrowedMemory, CodecError, TableSource, TableStore, damaged};
use ssdlab_units::{BlockIndex, Instant, LogicalUnit, PhysicalUnit};

/// A profile's text.
pub fn profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(profile) = Profile::parse("untrusted", "untrusted.toml", text) {
        // Whether it describes a drive is another question; the answer is no panic.
        let _ = profile.configuration();
    }
}

/// A drive of 1 MiB, so that a few bytes say much of it.
fn tiny_drive(changes: &[(&str, &str)]) -> Configuration {
    let mut profile = Profile::named("generic-tlc").expect("the default profile");
    for (key, value) in [
        ("capacity.logical", "1M"),
        ("capacity.physical", "3264K"),
        ("flash.channels", "1"),
        ("flash.dies", "2"),
        ("flash.planes_per_die", "1"),
        ("flash.pages_per_block", "6"),
        ("controller.write_buffer", "256K"),
        ("collection.low_water", "2"),
        ("collection.idle_high_water", "2"),
        ("read_ahead.window", "0"),
    ]
    .iter()
    .chain(changes)
    {
        profile.set(key, value).expect("a sound value");
    }
    profile.configuration().expect("a sound profile")
}

/// A program unit that is not erased.
#[derive(Clone, Debug)]
enum Written {
    Unreadable,
    Whole { number: SequenceNumber, spare: Vec<u32>, is_slc: bool },
}

/// Flash that holds what the bytes say.
#[derive(Clone, Debug)]
struct Found {
    units_per_program: u32,
    programs_per_block: u32,
    /// By program unit; nothing where it is erased.
    programs: Vec<Option<Written>>,
    trims: Vec<TrimRecord>,
    saved: Vec<LogicalUnit>,
}

impl Found {
    fn of(bytes: &[u8], configuration: &Configuration) -> Found {
        let geometry = &configuration.geometry;
        let mut bytes = bytes.iter().copied();
        let mut next = || bytes.next().unwrap_or(0);
        let per_program = geometry.units_per_program();
        let programs = (0..geometry.physical_units() / per_program)
            .map(|_| match next() {
                0..100 => None,
                100..110 => Some(Written::Unreadable),
                kind => {
                    let mut number = u64::from(next());
                    let mut length = per_program;
                    match kind {
                        110 => number <<= 56,
                        111 => length = next().into(),
                        _ => {}
                    }
                    let unit =
                        |it: u8| u32::from(it) + if kind == 112 { u32::MAX - 255 } else { 0 };
                    let spare = (0..length).map(|_| unit(next())).collect();
                    let is_slc = kind % 16 == 1;
                    Some(Written::Whole { number: SequenceNumber(number), spare, is_slc })
                }
            })
            .collect();
        let trims = (0..next() / 32)
            .map(|_| TrimRecord {
                first: LogicalUnit(next().into()),
                units: u32::from(next()) >> 3,
                number: SequenceNumber(next().into()),
            })
            .collect();
        let saved = (0..next() / 32).map(|_| LogicalUnit(next().into())).collect();
        let programs_per_block = geometry.units_per_block() / per_program;
        Found { units_per_program: per_program, programs_per_block, programs, trims, saved }
    }
}

impl Media for Found {}

impl FlashContents for Found {
    fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_> {
        match &self.programs[(first.0 / self.units_per_program) as usize] {
            None => ProgramUnit::Erased,
            Some(Written::Unreadable) => ProgramUnit::Unreadable,
            Some(Written::Whole { number, spare, is_slc }) => {
                let spare = if *is_slc { OobArea::in_slc_mode(spare) } else { OobArea::new(spare) };
                ProgramUnit::Programmed { number: *number, spare }
            }
        }
    }

    fn programs_in(&self, block: BlockIndex) -> u32 {
        let first = (block.0 * self.programs_per_block) as usize;
        let programs = &self.programs[first..first + self.programs_per_block as usize];
        programs.iter().rposition(|it| it.is_some()).map_or(0, |it| it as u32 + 1)
    }

    fn trims(&self) -> &[TrimRecord] {
        &self.trims
    }

    fn saved(&self) -> &[LogicalUnit] {
        &self.saved
    }

    fn restore(&mut self, _: usize, _: PhysicalUnit) {}

    fn erases(&self, _: BlockIndex) -> u32 {
        0
    }
}

/// What gives [`tiny_drive`] a pseudo-SLC cache.
const SLC: [(&str, &str); 5] = [
    ("capacity.physical", "4M"),
    ("slc.size", "256K"),
    ("slc.bits", "3"),
    ("slc.program", "200us"),
    ("slc.page_read", "30us"),
];

/// The spare areas, trim records and saved buffer of a flash; the first byte says how its drive
/// maps.
pub fn recovery(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let at = Instant::START;
    match kind % 4 {
        0 | 1 => {
            let configuration = tiny_drive(if kind % 4 == 1 { &SLC } else { &[] });
            let found = Found::of(bytes, &configuration);
            let map = PageMap::new(configuration.geometry.logical_units());
            works_on(Ssd::open(&configuration, map, found, at));
        }
        2 => {
            let extents = [("mapping.scheme", "extent"), ("mapping.table", "4K")];
            let configuration = tiny_drive(&extents);
            let found = Found::of(bytes, &configuration);
            let extents = configuration.mechanisms.extents;
            let map = ExtentMap::new(&configuration.geometry, extents);
            works_on(Ssd::open(&configuration, map, found, at));
        }
        _ => {
            let configuration =
                tiny_drive(&[("mapping.scheme", "log-block"), ("mapping.log_blocks", "2")]);
            let found = Found::of(bytes, &configuration);
            let units = configuration.geometry.logical_units();
            let opened = Ssd::open(&configuration, PageMap::new(units), found, at);
            if let Ok((mut ssd, recovery)) = opened {
                ssd.check_invariants();
                let written = ssd.write(recovery.ready_at, LogicalUnit(0), units);
                ssd.flush(written);
                ssd.check_invariants();
            }
        }
    }
}

/// A drive that was opened is sound, and can be written all over.
fn works_on<M: Mapping>(opened: Result<(Ssd<M, Found>, Recovery), RecoveryError>) {
    if let Ok((mut ssd, recovery)) = opened {
        ssd.check_invariants();
        let units = ssd.geometry().logical_units();
        let written = ssd.write(recovery.ready_at, LogicalUnit(0), units);
        ssd.flush(written);
        ssd.check_invariants();
    }
}

/// Bytes before a state whose tables are kept apart: its length without them.
const LENGTH_BYTES: usize = 4;

/// Tables as long as a drive, which its saved state keeps apart: one after the other.
#[derive(Default)]
struct Tables(Vec<u32>);

impl TableStore for Tables {
    fn keep(&mut self, table: &[u32]) -> std::io::Result<u64> {
        let at = self.0.len() as u64;
        self.0.extend(table);
        Ok(at)
    }
}

impl TableSource for Tables {
    fn lend(&mut self, at: u64, length: usize) -> Result<Box<dyn BorrowedMemory>, CodecError> {
        let table = usize::try_from(at).ok().and_then(|at| self.0.get(at..)?.get(..length));
        table.map_or_else(
            || damaged("there is no such table"),
            |table| Ok(Box::new(Lent(table.into())) as Box<dyn BorrowedMemory>),
        )
    }

    fn is_verified(&self) -> bool {
        false
    }
}

/// A table of its own.
#[derive(Debug)]
struct Lent(Box<[u32]>);

// SAFETY: the memory of a box stays where it is until the box is dropped, and nobody else has it.
unsafe impl BorrowedMemory for Lent {
    fn words(&mut self) -> &mut [u32] {
        &mut self.0
    }
}

/// The state of a saved drive: any bytes, and those of a sound one with some of them changed. The
/// first byte says which mechanisms it has; its highest bit, whether tables are kept apart.
pub fn snapshot(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let streams = [
        ("capacity.physical", "6M"),
        ("collection.low_water", "3"),
        ("collection.idle_high_water", "3"),
        ("controller.power_loss_protection", "on"),
        ("streams.count", "2"),
        ("streams.hot_within", "0.3"),
        ("streams.hot_blocks", "0.4"),
    ];
    let apart = kind >= 128;
    match kind % 6 {
        0 => snapshot_of(&tiny_drive(&[]), PageMap::new, apart, bytes),
        1 => snapshot_of(&tiny_drive(&SLC), PageMap::new, apart, bytes),
        2 => snapshot_of(&tiny_drive(&streams), PageMap::new, apart, bytes),
        3 => {
            let extents = [("mapping.scheme", "extent"), ("mapping.table", "4K")];
            let configuration = tiny_drive(&extents);
            let mechanisms = &configuration.mechanisms;
            let map = |_| ExtentMap::new(&configuration.geometry, mechanisms.extents);
            snapshot_of(&configuration, map, apart, bytes);
        }
        4 => {
            let cached = [
                ("capacity.physical", "6M"),
                ("mapping.scheme", "cached"),
                ("mapping.cache", "16K"),
                ("collection.metadata_units", "6"),
            ];
            let configuration = tiny_drive(&cached);
            let map = |_| CachedMap::new(&configuration).expect("room for the map");
            snapshot_of(&configuration, map, apart, bytes);
        }
        _ => snapshot_with_log_blocks(apart, bytes),
    }
}

/// A sound state with as many of its bytes changed as `bytes` say.
fn spoilt(mut saved: Vec<u8>, bytes: &[u8]) -> Vec<u8> {
    for change in bytes.chunks_exact(3) {
        let at = usize::from(change[0]) << 8 | usize::from(change[1]);
        let length = saved.len();
        saved[at % length] ^= change[2];
    }
    saved
}

fn snapshot_of<M: Mapping>(
    configuration: &Configuration,
    map: impl Fn(u32) -> M,
    apart: bool,
    bytes: &[u8],
) {
    let new_map = || map(configuration.geometry.logical_units());
    restored(configuration, new_map(), apart, bytes);
    let ssd = Ssd::with(configuration, new_map(), ssdlab_model::media::Null);
    let mut ssd = ssd.expect("a sound drive");
    let written = ssd.write(Instant::START, LogicalUnit(0), 40);
    ssd.shut_down(written);
    restored(configuration, new_map(), apart, &spoilt(saved(&ssd, apart), bytes));
}

fn snapshot_with_log_blocks(apart: bool, bytes: &[u8]) {
    let configuration = tiny_drive(&[("mapping.scheme", "log-block"), ("mapping.log_blocks", "2")]);
    let new_map = || PageMap::new(configuration.geometry.logical_units());
    restored(&configuration, new_map(), apart, bytes);
    let mut ssd = Ssd::new(&configuration).expect("a sound drive");
    let mut at = ssd.write(Instant::START, LogicalUnit(0), 40);
    for unit in (0..200).step_by(7) {
        at = ssd.write(at, LogicalUnit(unit), 1);
    }
    ssd.shut_down(at);
    restored(&configuration, new_map(), apart, &spoilt(saved(&ssd, apart), bytes));
}

/// The state of a drive as bytes; where tables are `apart`, the length of the rest comes first, and they come last.
fn saved<M: Mapping>(ssd: &Ssd<M>, apart: bool) -> Vec<u8> {
    let mut state = Vec::new();
    if !apart {
        ssd.save(&mut Encoder::new(&mut state)).expect("it is saved");
        return state;
    }
    let mut tables = Tables::default();
    ssd.save(&mut Encoder::with_tables_apart(&mut state, &mut tables)).expect("it is saved");
    let tables = tables.0.iter().flat_map(|word| word.to_le_bytes());
    let length = (state.len() as u32).to_le_bytes();
    length.into_iter().chain(state.iter().copied()).chain(tables).collect()
}

/// Makes a drive of `bytes`, if they are a state of one, and writes all over it.
fn restored<M: Mapping>(configuration: &Configuration, map: M, apart: bool, mut bytes: &[u8]) {
    let mut tables = Tables::default();
    if apart {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return };
        let length = u32::from_le_bytes(*length) as usize;
        let (state, words) = rest.split_at(length.min(rest.len()));
        let (words, _) = words.as_chunks::<4>();
        tables.0 = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        bytes = state;
    }
    let mut decoder = match apart {
        true => Decoder::with_tables_apart(&mut bytes, &mut tables),
        false => Decoder::new(&mut bytes),
    };
    if let Ok(mut ssd) = Ssd::restored(configuration, map, &mut decoder) {
        ssd.check_invariants();
        let units = ssd.geometry().logical_units();
        // Long after all that the state may say of its past.
        ssd.write(Instant::from_nanos(1 << 60), LogicalUnit(0), units);
        ssd.check_invariants();
    }
}
