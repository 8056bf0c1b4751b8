//! Kinds of drives that are explored: small ones, one for each mechanism that treats the image differently.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use ssdlab_attach::engine::{Engine, Opened, Options, Time};
use ssdlab_attach::image::Image;
use ssdlab_attach::image::layout::Layout;
use ssdlab_model::profile::{DEFAULT, Profile};

use crate::history::far_ahead;
use crate::memory_storage::MemoryStorage;
use crate::pages::{Pages, SECTOR};

/// Keys of a drive of a few hundred units, so small that an image is opened and read in less than a
/// millisecond.
const SMALL: [(&str, &str); 9] = [
    ("capacity.logical", "1M"),
    ("capacity.physical", "2M"),
    ("controller.unit_size", "4K"),
    ("flash.page_size", "8K"),
    ("flash.channels", "2"),
    ("flash.dies", "2"),
    ("flash.planes_per_die", "1"),
    ("flash.pages_per_shot", "3"),
    ("flash.pages_per_block", "6"),
];

/// A kind of drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Name on the command line.
    pub name: &'static str,
    /// Differences from the default profile, besides the size.
    changes: &'static [(&'static str, &'static str)],
    /// Kind of time in which requests are answered.
    pub time: Time,
}

const BUFFER: (&str, &str) = ("controller.write_buffer", "128K");
const PLP: (&str, &str) = ("controller.power_loss_protection", "on");

/// All kinds of drives.
pub const SETUPS: [Setup; 15] = [
    Setup { name: "plain", changes: &[BUFFER], time: Time::Fast },
    Setup { name: "protected", changes: &[BUFFER, PLP], time: Time::Fast },
    Setup {
        name: "coalescing",
        changes: &[BUFFER, PLP, ("controller.coalescing", "48K")],
        time: Time::Fast,
    },
    Setup { name: "plain-in-time", changes: &[BUFFER], time: Time::Real },
    Setup { name: "protected-in-time", changes: &[BUFFER, PLP], time: Time::Real },
    Setup {
        name: "single-blocks",
        changes: &[BUFFER, ("collection.unit", "block")],
        time: Time::Fast,
    },
    Setup {
        name: "write-through",
        changes: &[BUFFER, ("controller.write_cache", "write-through")],
        time: Time::Fast,
    },
    Setup { name: "journal", changes: &[BUFFER, ("flush.journal", "on")], time: Time::Fast },
    Setup {
        name: "map-on-flash",
        changes: &[
            BUFFER,
            ("mapping.scheme", "cached"),
            ("mapping.cache", "64K"),
            ("collection.metadata_units", "6"),
            ("capacity.physical", "4M"),
        ],
        time: Time::Fast,
    },
    Setup {
        name: "slc-cache",
        changes: &[
            BUFFER,
            ("slc.size", "256K"),
            ("slc.bits", "3"),
            ("slc.space", "fixed"),
            ("slc.when_full", "fold"),
            ("slc.program", "200us"),
            ("slc.page_read", "30us"),
            ("capacity.physical", "4M"),
        ],
        time: Time::Fast,
    },
    Setup {
        name: "streams",
        changes: &[
            BUFFER,
            PLP,
            ("streams.count", "2"),
            ("streams.hot_within", "0.1"),
            ("capacity.physical", "4M"),
        ],
        time: Time::Fast,
    },
    Setup {
        name: "extents",
        changes: &[
            BUFFER,
            ("mapping.scheme", "extent"),
            ("mapping.table", "1K"),
            ("mapping.search", "1us"),
            ("mapping.per_extent", "1us"),
            ("capacity.physical", "4M"),
        ],
        time: Time::Fast,
    },
    Setup {
        name: "low-over-provisioning",
        changes: &[BUFFER, ("capacity.logical", "1056K"), ("capacity.physical", "2016K")],
        time: Time::Fast,
    },
    // Blocks of five rows: no block is reserved for the rows that power cuts tear, and hardly any block is
    // free.
    Setup {
        name: "few-blocks",
        changes: &[
            BUFFER,
            ("capacity.logical", "1056K"),
            ("flash.pages_per_block", "15"),
            ("collection.low_water", "2"),
            ("capacity.physical", "3M"),
        ],
        time: Time::Fast,
    },
    Setup { name: MANY_TRIMS, changes: &[BUFFER], time: Time::Fast },
];

/// Name of the drive whose log of trims is so full that a few more trims make the drive compact it.
const MANY_TRIMS: &str = "many-trims";

impl Setup {
    /// Returns the kind of drive with that name.
    ///
    /// # Errors
    /// Returns an error if there is none with that name.
    pub fn named(name: &str) -> Result<Setup> {
        let names = SETUPS.map(|setup| setup.name).join(", ");
        let found = SETUPS.into_iter().find(|setup| setup.name == name);
        found.with_context(|| format!("there is no drive '{name}'; there are {names}"))
    }

    /// Returns the profile of the drive.
    ///
    /// # Errors
    /// Returns an error if no such drive is possible.
    pub fn profile(&self) -> Result<Profile> {
        let mut profile = Profile::named(DEFAULT).context("the default profile")?;
        for (key, value) in SMALL.iter().chain(self.changes) {
            profile.set(key, value)?;
        }
        profile.check()?;
        Ok(profile)
    }

    /// Returns the layout of the drive's image.
    ///
    /// # Errors
    /// Returns an error if no such drive is possible.
    pub fn layout(&self) -> Result<Layout> {
        Ok(Layout::of(&self.profile()?.configuration()?)?)
    }

    /// Returns the image of a drive that holds nothing, and its layout.
    ///
    /// # Errors
    /// Returns an error if no such drive is possible.
    pub fn image(&self) -> Result<(Pages, Layout)> {
        static MANY_TRIMS_IMAGE: OnceLock<Pages> = OnceLock::new();
        let (profile, layout) = (self.profile()?, self.layout()?);
        let is_trimmed = self.name == MANY_TRIMS;
        if let Some(pages) = MANY_TRIMS_IMAGE.get().filter(|_| is_trimmed) {
            return Ok((pages.clone(), layout));
        }
        let storage = Arc::new(MemoryStorage::new(Pages::new(layout.end)));
        Image::format(storage.clone(), Path::new("memory"), &profile)?;
        if is_trimmed {
            fill_trims(&storage, &layout)?;
            let _ = MANY_TRIMS_IMAGE.set(storage.pages());
        }
        Ok((storage.pages(), layout))
    }
}

/// Free bytes of a log of trims below which the drive compacts it.
const TRIMS_FREE: u64 = 32 + (16 << 17);

/// Lets the drive in `storage` write and trim until its log of trims is nearly full; then closes it in order.
fn fill_trims(storage: &Arc<MemoryStorage>, layout: &Layout) -> Result<()> {
    const FLUSHED_ALONE: u64 = 48;
    let now = far_ahead();
    let (engine, _) = open(storage.clone(), Time::Fast, now)?;
    let most = layout.trims_size - TRIMS_FREE - 3 * FLUSHED_ALONE;
    let units = engine.capacity() / layout.unit;
    let data = vec![1; engine.capacity() as usize];
    let mut length = 0;
    while length < most {
        let count = if most - length > 16 * units { units } else { 1 };
        let _ = engine.write(now, 0, &data[..(count * layout.unit) as usize], false)?;
        for unit in 0..count {
            let _ = engine.trim(now, unit * layout.unit, layout.unit, false)?;
        }
        let _ = engine.flush(now)?;
        length = trims_length(&storage.pages(), layout, length);
    }
    engine.close()?;
    Ok(())
}

/// Returns the bytes in the first log of trims, which has at least `length`.
fn trims_length(image: &Pages, layout: &Layout, mut length: u64) -> u64 {
    loop {
        let mut head = [0; 8];
        image.read(&mut head, layout.trims + length);
        let (magic, records) = head.split_at(4);
        if magic != b"TRIM" {
            return length;
        }
        let records = u32::from_le_bytes(records.try_into().expect("four bytes"));
        length += 32 + 16 * u64::from(records);
    }
}

/// Opens the drive in `storage`; its clock begins at `began`.
///
/// # Errors
/// Returns an error if the image or the drive cannot be opened.
pub fn open(
    storage: Arc<MemoryStorage>,
    time: Time,
    began: std::time::Instant,
) -> Result<(Engine, Opened)> {
    let image = Image::open_storage(storage, Path::new("memory"))?;
    Ok(Engine::open(image, Options { time, began: Some(began), ..Options::default() })?)
}

/// Returns the number of sectors of a drive.
pub fn sectors(engine: &Engine) -> u32 {
    (engine.capacity() / SECTOR as u64) as u32
}
