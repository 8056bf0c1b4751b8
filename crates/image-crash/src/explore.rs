//! Explorer of crashes: opens the images that crashes may leave, and checks their contents.

use std::path::Path;
use std::sync::Arc;

use ssdlab_attach::check::check_image;
use ssdlab_attach::engine::Time;
use ssdlab_attach::image::Image;

use crate::crash::{Bounds, CrashPoints};
use crate::history::{History, far_ahead};
use crate::memory_storage::{Event, MemoryStorage};
use crate::oracle::{Contents, Oracle, read_contents};
use crate::pages::Pages;
use crate::setup::open;

/// Extent of the exploration of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bounds for the images of each crash.
    pub bounds: Bounds,
    /// One in this many images, at random, is also checked and crashed again while it is opened.
    pub thorough_one_in: u64,
    /// Bounds for the images of each crash while an image is opened.
    pub during_recovery: Bounds,
}

impl Plan {
    /// Returns how rarely moments are tried, as one in a number, so that about `most` images are opened: first
    /// for moments at which something becomes durable or is promised, then for the others, which get a tenth of
    /// the images.
    fn sampling_rates(&self, history: &History, most: u64) -> (u64, u64) {
        let mut crashes = CrashPoints::new(history.begin.clone(), &history.log);
        let (mut crash_points, mut others) = (0, 0);
        while let Some(event) = crashes.advance() {
            let is_crash_point = matches!(event, Event::Host(_)) || crashes.is_crash_point();
            *(if is_crash_point { &mut crash_points } else { &mut others }) += 1;
        }
        let images = (self.bounds.all + 2 * self.bounds.single + self.bounds.random).max(1) as u64;
        ((crash_points * images).div_ceil(most).max(1), (10 * others).div_ceil(most).max(1))
    }

    /// All moments, with many images each, for histories of a few steps.
    pub const SHORT: Plan = Plan {
        bounds: Bounds { all: 128, single: 24, random: 8 },
        thorough_one_in: 97,
        during_recovery: Bounds { all: 8, single: 4, random: 4 },
    };

    /// All moments, with each region durable or newest as a whole: for mistakes that show only if one kind of
    /// record is there and another is not.
    pub const BY_REGION: Plan = Plan {
        bounds: Bounds { all: 64, single: 0, random: 0 },
        thorough_one_in: 397,
        during_recovery: Bounds { all: 4, single: 2, random: 2 },
    };

    /// All moments, with everything that was written by then: what a kill of the program leaves.
    pub const KILLS: Plan = Plan { bounds: Bounds::NONE, ..Plan::BY_REGION };

    /// Random moments, for long histories.
    pub const LONG: Plan = Plan {
        bounds: Bounds { all: 32, single: 12, random: 16 },
        thorough_one_in: 397,
        during_recovery: Bounds { all: 4, single: 2, random: 2 },
    };
}

/// An image with contents that are not allowed.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Number of events of the log that had happened.
    pub event: usize,
    /// Number of the image within the history.
    pub image: u64,
    /// Bytes of the image.
    pub pages: Pages,
    /// Description of what is wrong.
    pub what: String,
}

/// Outcome of exploring a history.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of images that were opened.
    pub images: u64,
    /// The first image that was wrong; `None` if all were right.
    pub finding: Option<Finding>,
}

/// Explores `history` by `plan`, until an image is wrong or about `most` images were opened. The images follow
/// from the history, `most` and `seed`; with `only` just the image of that number is opened.
pub fn explore(history: &History, plan: &Plan, seed: u64, most: u64, only: Option<u64>) -> Outcome {
    let mut outcome = Outcome::default();
    let (one_in, one_in_others) = plan.sampling_rates(history, most);
    let mut crashes = CrashPoints::new(history.begin.clone(), &history.log);
    let mut oracle = history.initial_oracle.clone();
    let mut event = 0;
    loop {
        let is_promise = match crashes.advance() {
            None => break,
            Some(Event::Host(mark)) => {
                oracle.note(mark);
                true
            }
            Some(_) => false,
        };
        event += 1;
        let is_crash_point = is_promise || crashes.is_crash_point();
        if !split_mix(seed, event).is_multiple_of(if is_crash_point {
            one_in
        } else {
            one_in_others
        }) {
            continue;
        }
        let crash = crashes.crash();
        let mut each = |mut image: Pages| {
            let number = outcome.images;
            outcome.images += 1;
            if only.is_some_and(|only| only != number) {
                return number < only.unwrap_or(number);
            }
            if let Some(fault) = history.fault {
                fault.apply_to_image(&mut image, &history.layout);
            }
            let is_thorough =
                only.is_some() || split_mix(seed, number).is_multiple_of(plan.thorough_one_in);
            let during_recovery = is_thorough.then_some(plan.during_recovery);
            if let Err(what) = examine(&image, &oracle, history, during_recovery, seed) {
                let (event, pages) = (event as usize, image);
                outcome.finding = Some(Finding { event, image: number, pages, what });
            }
            outcome.finding.is_none() && outcome.images < 2 * most && only != Some(number)
        };
        let goes_on = if is_crash_point && plan.bounds != Bounds::NONE {
            crash.images(&history.layout, plan.bounds, split_mix(seed, event), &mut each)
        } else {
            each(crash.newest_image())
        };
        if !goes_on {
            break;
        }
    }
    outcome
}

/// Returns a pseudo-random number that follows from both.
fn split_mix(seed: u64, number: u64) -> u64 {
    // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    let mut mixed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Opens an image twice, and checks its contents. With `during_recovery`, also crashes the host while the image
/// is opened the first time, and requires that `check` reports no damage.
///
/// # Errors
/// Returns a description if the image holds what is not allowed.
pub fn examine(
    image: &Pages,
    oracle: &Oracle,
    history: &History,
    during_recovery: Option<Bounds>,
    seed: u64,
) -> Result<(), String> {
    let storage = Arc::new(match during_recovery {
        Some(_) => MemoryStorage::recording(image.clone()),
        None => MemoryStorage::new(image.clone()),
    });
    let first = contents(&storage)?;
    oracle.check(&first).map_err(|wrong| wrong.to_string())?;
    if let Some(bounds) = during_recovery {
        let image_opened =
            Image::open_storage(Arc::new(MemoryStorage::new(image.clone())), Path::new("memory"));
        let report =
            image_opened.and_then(check_image).map_err(|error| format!("check: {error}"))?;
        if let [problem, ..] = &report.problems[..] {
            return Err(format!("check says of an image that no damage was done to: {problem}"));
        }
        let log = storage.take_log();
        let mut crashes = CrashPoints::new(image.clone(), &log);
        let (mut outcome, mut event) = (Ok(()), 0);
        while outcome.is_ok() && crashes.advance().is_some() {
            event += 1;
            if !crashes.is_crash_point() {
                continue;
            }
            crashes.crash().images(&history.layout, bounds, split_mix(seed, event), |image| {
                let found = contents(&Arc::new(MemoryStorage::new(image)));
                outcome = found.and_then(|it| oracle.check(&it).map_err(|wrong| wrong.to_string()));
                outcome.is_ok()
            });
        }
        outcome
            .map_err(|what| format!("crashed again after {event} events of recovery: {what}"))?;
    }
    let second = contents(&storage).map_err(|what| format!("opened once more: {what}"))?;
    match first.iter().zip(&second).position(|(first, second)| first != second) {
        None => Ok(()),
        Some(sector) => Err(format!("sector {sector} changes when the image is opened once more")),
    }
}

/// Opens the drive in `storage`; returns the contents of its sectors.
fn contents(storage: &Arc<MemoryStorage>) -> Result<Vec<Contents>, String> {
    let now = far_ahead();
    let (engine, _) = open(storage.clone(), Time::Fast, now)
        .map_err(|error| format!("it cannot be opened: {error:#}"))?;
    let mut data = vec![0; engine.capacity() as usize];
    let _ =
        engine.read(now, 0, &mut data).map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(read_contents(&data, 0))
}
