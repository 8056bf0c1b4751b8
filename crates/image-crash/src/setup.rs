//! The drives that are explored: small ones, of each kind that treats its image in a way of its own.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use ssdlab_attach::engine::{Engine, Opened, Options, Time};
use ssdlab_attach::image::Image;
use ssdlab_attach::image::layout::Layout;
use ssdlab_model::profile::{DEFAULT, Profile};

use crate::memory::Memory;
use crate::pages::{Pages, SECTOR};

/// A drive of a few hundred units, so small that an image is opened and read in less than a millisecond.
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
    /// Its name on the command line.
    pub name: &'static str,
    /// What differs from the default profile, beside its size.
    changes: &'static [(&'static str, &'static str)],
    /// How long requests take.
    pub time: Time,
}

const BUFFER: (&str, &str) = ("controller.write_buffer", "128K");
const PROTECTED: (&str, &str) = ("controller.power_loss_protection", "on");

/// All of them.
pub const SETUPS: [Setup; 8] = [
    Setup { name: "plain", changes: &[BUFFER], time: Time::Fast },
    Setup { name: "protected", changes: &[BUFFER, PROTECTED], time: Time::Fast },
    Setup { name: "plain-in-time", changes: &[BUFFER], time: Time::Real },
    Setup { name: "protected-in-time", changes: &[BUFFER, PROTECTED], time: Time::Real },
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
];

impl Setup {
    /// The one of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Setup> {
        let names = SETUPS.map(|setup| setup.name).join(", ");
        let found = SETUPS.into_iter().find(|setup| setup.name == name);
        found.with_context(|| format!("there is no drive '{name}'; there are {names}"))
    }

    /// The profile of the drive.
    ///
    /// # Errors
    /// When there is no such drive.
    pub fn profile(&self) -> Result<Profile> {
        let mut profile = Profile::named(DEFAULT).context("the default profile")?;
        for (key, value) in SMALL.iter().chain(self.changes) {
            profile.set(key, value)?;
        }
        profile.check()?;
        Ok(profile)
    }

    /// Where everything lies in the image of such a drive.
    ///
    /// # Errors
    /// When there is no such drive.
    pub fn layout(&self) -> Result<Layout> {
        Ok(Layout::of(&self.profile()?.configuration()?)?)
    }

    /// The image of a new drive.
    ///
    /// # Errors
    /// When there is no such drive.
    pub fn image(&self) -> Result<(Pages, Layout)> {
        let (profile, layout) = (self.profile()?, self.layout()?);
        let storage = Arc::new(Memory::new(Pages::new(layout.end)));
        Image::format(storage.clone(), Path::new("memory"), &profile)?;
        Ok((storage.pages(), layout))
    }
}

/// Opens the drive in `storage`, whose clock begins at `began`.
///
/// # Errors
/// When the image or the drive cannot be opened.
pub fn open(
    storage: Arc<Memory>,
    time: Time,
    began: std::time::Instant,
) -> Result<(Engine, Opened)> {
    let image = Image::open_storage(storage, Path::new("memory"))?;
    Ok(Engine::open(image, Options { time, began: Some(began), ..Options::default() })?)
}

/// Sectors of a drive.
pub fn sectors(engine: &Engine) -> u32 {
    (engine.capacity() / SECTOR as u64) as u32
}
