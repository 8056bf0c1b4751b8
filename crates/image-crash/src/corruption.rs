//! Damages images, and checks that the damage is reported: every sector has to read right or fail, and then
//! `check` has to report damage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_attach::check::check_image;
use ssdlab_attach::engine::{Engine, Time};
use ssdlab_attach::image::Image;
use ssdlab_attach::image::layout::Layout;

use crate::crash::Region;
use crate::history::{History, Step, UNIT, far_ahead};
use crate::memory_storage::MemoryStorage;
use crate::oracle::{Change, Contents, Oracle, fill, read_contents};
use crate::pages::{PAGE, Pages, SECTOR};
use crate::setup::{Setup, open};

/// Damage to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A flipped bit: of this byte, that bit.
    Bit(u64, u8),
    /// A sector of 512 bytes that became zeros.
    Zeroed(u64),
    /// A page of 4 KiB with random bytes.
    Garbage(u64),
}

impl Damage {
    /// Returns the offset of the damage, in bytes.
    pub fn at(self) -> u64 {
        let (Damage::Bit(at, _) | Damage::Zeroed(at) | Damage::Garbage(at)) = self;
        at
    }

    /// Applies the damage to `pages`; returns true if that changed anything.
    pub fn apply_to(self, pages: &mut Pages) -> bool {
        let (at, length) = match self {
            Damage::Bit(at, _) => (at, 1),
            Damage::Zeroed(at) => (at, SECTOR),
            Damage::Garbage(at) => (at, PAGE),
        };
        let mut before = vec![0; length];
        pages.read(&mut before, at);
        let mut after = before.clone();
        match self {
            Damage::Bit(_, bit) => after[0] ^= 1 << bit,
            Damage::Zeroed(_) => after.fill(0),
            Damage::Garbage(at) => Pcg64Mcg::seed_from_u64(at).fill_bytes(&mut after),
        }
        pages.write(&after, at);
        after != before
    }
}

/// Outcome of examining a damaged image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All data is there; `check` may report damage or not.
    Right,
    /// Some sectors cannot be read, or the drive cannot be opened, and `check` reports damage.
    Reported,
    /// Some sectors cannot be read, or the drive cannot be opened, and `check` reports nothing.
    Unreported(String),
    /// A sector reads as data that is not allowed.
    WrongData {
        /// Description of the wrong data.
        what: String,
        /// True if `check` reports damage.
        is_reported: bool,
    },
}

/// An image to be damaged.
#[derive(Debug)]
pub struct Case {
    image: Pages,
    layout: Layout,
    oracle: Oracle,
    seed: u64,
}

impl Case {
    /// Returns the image that history `number` leaves: after the drive was closed in order, or after its
    /// program was killed, mostly right after a flush.
    ///
    /// # Errors
    /// As [`History::record`].
    pub fn numbered(setup: Setup, number: u64) -> Result<Case> {
        let mut steps = setup.steps(number)?;
        match number % 4 {
            0 | 2 => steps.push(Step::End),
            1 => steps.push(Step::Flush),
            _ => {}
        }
        Case::from_steps(setup, &steps, number)
    }

    /// Returns the image that these steps leave.
    ///
    /// # Errors
    /// As [`History::record`].
    pub fn from_steps(setup: Setup, steps: &[Step], seed: u64) -> Result<Case> {
        let history = History::record(setup, steps)?;
        let oracle = history.final_oracle();
        Ok(Case { image: history.end, layout: history.layout, oracle, seed })
    }

    /// Returns random damages, no more than `most`, with equal numbers in each region as far as possible.
    pub fn sample(&self, most: u64) -> Vec<Damage> {
        let mut by_region: BTreeMap<Region, Vec<Damage>> = BTreeMap::new();
        for damage in damages(&self.image, &self.layout, 64, self.seed) {
            by_region.entry(self.region(damage)).or_default().push(damage);
        }
        let mut generator = Pcg64Mcg::seed_from_u64(self.seed);
        let (mut chosen, mut left) = (Vec::new(), by_region.len());
        let mut regions: Vec<Vec<Damage>> = by_region.into_values().collect();
        // Small regions come first: the others get the numbers that those do not need.
        regions.sort_by_key(Vec::len);
        for mut region in regions {
            region.shuffle(&mut generator);
            region.truncate((most as usize - chosen.len()) / left);
            left -= 1;
            chosen.append(&mut region);
        }
        chosen
    }

    /// Returns the region of a damage.
    pub fn region(&self, damage: Damage) -> Region {
        Region::of(&self.layout, damage.at())
    }

    /// Damages the image, opens it, and judges the outcome.
    pub fn examine(&self, damage: Damage) -> Verdict {
        self.examine_with(damage, |_, _| {})
    }

    /// Examines a damage as `Case::examine` does, after `seen` has changed the image: it stands for a reader
    /// that does not check something.
    pub fn examine_with(&self, damage: Damage, seen: impl Fn(&mut Pages, &Layout)) -> Verdict {
        let mut image = self.image.clone();
        damage.apply_to(&mut image);
        seen(&mut image, &self.layout);
        examine(image, &self.oracle, self.seed ^ damage.at())
    }
}

/// Opens the damaged `image`, whose sectors may hold what `oracle` allows. Then lets the host go on, in a way
/// that follows from `seed`.
fn examine(image: Pages, oracle: &Oracle, seed: u64) -> Verdict {
    let path = Path::new("memory");
    let checked = Image::open_storage(Arc::new(MemoryStorage::new(image.clone())), path)
        .and_then(check_image)
        .map(|report| report.problems);
    let is_reported = !matches!(&checked, Ok(problems) if problems.is_empty());
    let verdict = |unreported: String| {
        if is_reported { Verdict::Reported } else { Verdict::Unreported(unreported) }
    };
    let storage = Arc::new(MemoryStorage::new(image));
    let engine = match open(storage.clone(), Time::Fast, far_ahead()) {
        Ok((engine, _)) => engine,
        Err(error) => return verdict(format!("it cannot be opened: {error:#}")),
    };
    let Reading { found, failed } = read_all(&engine);
    if let Err(wrong) = oracle.check_readable(found.iter().copied()) {
        return Verdict::WrongData { what: wrong.to_string(), is_reported };
    }
    match continue_after_damage(&storage, engine, found, oracle, seed) {
        Ok(None) => failed.map_or(Verdict::Right, verdict),
        Ok(Some(what)) => Verdict::WrongData { what: format!("{what}, later on"), is_reported },
        Err(error) => verdict(format!("it fails later on: {error:#}")),
    }
}

/// Contents of the sectors of a drive, `None` for those that cannot be read; and the first error.
struct Reading {
    found: Vec<Option<Contents>>,
    failed: Option<String>,
}

fn read_all(engine: &Engine) -> Reading {
    let (mut found, mut failed) = (Vec::new(), None);
    let size = UNIT as usize * SECTOR;
    for unit in 0..engine.capacity() as usize / size {
        let mut data = vec![0; size];
        match engine.read(far_ahead(), (unit * size) as u64, &mut data) {
            Ok(_) => found.extend(read_contents(&data, unit as u32 * UNIT).into_iter().map(Some)),
            Err(error) => {
                failed = failed.or(Some(format!("unit {unit}: {error}")));
                found.extend([None; UNIT as usize]);
            }
        }
    }
    Reading { found, failed }
}

/// Number of the first write after the damage; the history has smaller ones.
const FIRST_LATER_WRITE: u64 = 1 << 40;

/// Lets the host write some units of the drive in `storage`, which held `found`, and flush; then kills its
/// program. Opens the drive again and returns a description of what is wrong: each sector has to hold the new
/// write, or what it held.
fn continue_after_damage(
    storage: &Arc<MemoryStorage>,
    engine: Engine,
    mut found: Vec<Option<Contents>>,
    oracle: &Oracle,
    seed: u64,
) -> Result<Option<String>> {
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let units = engine.capacity() as usize / SECTOR / UNIT as usize;
    for number in 0..2 {
        let count = generator.random_range(1..=4);
        let first = generator.random_range(0..=units - count) as u32 * UNIT;
        let change = Change::write(FIRST_LATER_WRITE + number);
        let mut data = vec![0; count * UNIT as usize * SECTOR];
        fill(&mut data, first, change);
        let _ = engine.write(far_ahead(), u64::from(first) * SECTOR as u64, &data, false)?;
        let written = read_contents(&data, first).into_iter().map(Some);
        found[first as usize..].iter_mut().zip(written).for_each(|(it, new)| *it = new);
        let _ = engine.flush(far_ahead())?;
    }
    drop(engine);
    let (engine, _) = open(storage.clone(), Time::Fast, far_ahead())?;
    let move_after_sync = read_all(&engine).found;
    let differs =
        |(before, now): (&Option<Contents>, &Option<Contents>)| before.is_some() && before != now;
    if let Some(sector) = found.iter().zip(&move_after_sync).position(differs) {
        let (before, now) = (found[sector], move_after_sync[sector]);
        return Ok(Some(format!("sector {sector} holds {now:?}, not {before:?}")));
    }
    // Sectors that could not be read before may be readable now.
    let is_new =
        found.iter().zip(move_after_sync).map(|(before, now)| now.filter(|_| before.is_none()));
    Ok(oracle.check_readable(is_new).err().map(|wrong| wrong.to_string()))
}

/// Returns all places of `image` where damage may matter: every byte of small records and one byte in `rarely`
/// of data, each with a random bit; every sector that is not zeros; and every page. Some pages in holes are
/// included.
fn damages(image: &Pages, layout: &Layout, rarely: usize, seed: u64) -> Vec<Damage> {
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut damages = Vec::new();
    let mut bytes = [0; PAGE];
    for page in image.present() {
        let begin = u64::from(page) * PAGE as u64;
        image.read(&mut bytes, begin);
        let is_data = Region::of(layout, begin) == Region::Data;
        for (at, sector) in (begin..).step_by(SECTOR).zip(bytes.chunks(SECTOR)) {
            let Some(last) = sector.iter().rposition(|&byte| byte != 0) else { continue };
            damages.push(Damage::Zeroed(at));
            for index in 0..=last as u64 {
                if !is_data || generator.random_range(0..rarely) == 0 {
                    damages.push(Damage::Bit(at + index, generator.random_range(0..8)));
                }
            }
        }
        damages.push(Damage::Garbage(begin));
        if page % 8 == 0 && begin + 2 * PAGE as u64 <= layout.end {
            damages.push(Damage::Garbage(begin + PAGE as u64));
        }
    }
    damages
}
