//! Profiles: named sets of model parameters, as TOML, each number with its source.
//!
//! A profile never falls back to defaults: every key that each drive has must be there, none may be there twice or be
//! unknown, and a number outside its plausible range is refused with its line. The sections of mechanisms that not
//! every drive has may be left out: then the drive does not have these mechanisms.

mod build;
pub mod data_sheet;
mod embedded;
mod keywords;
mod mapping;
mod optional;
mod parameters;
mod scale;
mod sections;
mod size_errors;
mod switches;

pub use embedded::{DEFAULT, embedded};
pub use parameters::{Parameter, SHORT_KEYS, parameter_keys, parameter_meaning};

use serde::Deserialize;
use toml::Spanned;

use crate::flush::{FlushHandling, WriteCache};
use crate::geometry::GeometryError;
use crate::policy::{Allocation, CopiesTo};
use crate::text::{QuantityError, hint, parse_duration, parse_length};
use crate::units::{ByteLength, Nanoseconds};
use ssdlab_nand::suspend::{SuspendWhen, Suspendable};

/// Basis of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// From a data sheet, a paper or a review that the source names.
    Published,
    /// Chosen so that the model meets a published measurement: an effective value, not one of a data sheet.
    Fitted,
    /// Plausible for drives of its kind; the source says why.
    Assumed,
    /// Given by the user for this run.
    Given,
    /// Not in the profile: the mechanism is off, and the value is the one that means off.
    #[serde(skip)]
    Absent,
}

impl Basis {
    /// Returns the word for this basis.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Published => "published",
            Basis::Fitted => "fitted",
            Basis::Assumed => "assumed",
            Basis::Given => "given",
            Basis::Absent => "absent",
        }
    }
}

/// A value, its basis and source, and its position in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sourced<T> {
    pub(crate) value: Spanned<T>,
    pub(crate) basis: Basis,
    pub(crate) source: String,
}

impl<T> Sourced<T> {
    /// Returns the value of a key that the profile leaves out.
    pub(crate) fn absent(value: T) -> Self {
        let source = "not in the profile".to_owned();
        Sourced { value: Spanned::new(0..0, value), basis: Basis::Absent, source }
    }
}

impl<T: Default> Default for Sourced<T> {
    fn default() -> Self {
        Sourced::absent(T::default())
    }
}

/// A length in the file: text such as `16 KiB`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Length(pub(crate) ByteLength);

/// A duration in the file: text such as `60us`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Span(pub(crate) Nanoseconds);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_length(&text).map(Length).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Span).map_err(serde::de::Error::custom)
    }
}

/// Blocks of a collection unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CollectionUnit {
    /// One block of every die.
    Superblock,
    /// One block of one die (of all its planes).
    Block,
}

/// Order in which data reaches the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeliveryOrder {
    InOrder,
    AnyOrder,
    WhenComplete,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) summary: String,
    pub(crate) capacity: Capacity,
    pub(crate) flash: FlashSection,
    pub(crate) controller: Controller,
    pub(crate) read_ahead: ReadAheadSection,
    pub(crate) collection: CollectionSection,
    pub(crate) link: Link,
    #[serde(default)]
    pub(crate) mapping: sections::MappingSection,
    #[serde(default)]
    pub(crate) flush: sections::FlushSection,
    #[serde(default)]
    pub(crate) streams: sections::StreamsSection,
    #[serde(default)]
    pub(crate) trim: sections::TrimSection,
    #[serde(default)]
    pub(crate) wear: sections::WearSection,
    #[serde(default)]
    pub(crate) retention: sections::RetentionSection,
    #[serde(default)]
    pub(crate) slc: sections::SlcSection,
    #[serde(default)]
    pub(crate) thermal: sections::ThermalSection,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capacity {
    pub(crate) logical: Sourced<Length>,
    pub(crate) physical: Sourced<Length>,
}

fn no_length() -> Sourced<Length> {
    Sourced::absent(Length(ByteLength::ZERO))
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlashSection {
    pub(crate) channels: Sourced<u32>,
    pub(crate) dies: Sourced<u32>,
    pub(crate) planes_per_die: Sourced<u32>,
    pub(crate) multi_plane_read: Sourced<bool>,
    pub(crate) page_size: Sourced<Length>,
    pub(crate) pages_per_block: Sourced<u32>,
    pub(crate) pages_per_shot: Sourced<u32>,
    pub(crate) page_read: Sourced<Span>,
    #[serde(default)]
    pub(crate) page_read_spread: Sourced<f64>,
    pub(crate) program: Sourced<Span>,
    pub(crate) erase: Sourced<Span>,
    pub(crate) channel_mb_per_second: Sourced<f64>,
    #[serde(default)]
    pub(crate) suspend: Sourced<Suspendable>,
    #[serde(default)]
    pub(crate) suspend_step: Sourced<Span>,
    #[serde(default)]
    pub(crate) suspend_time: Sourced<Span>,
    #[serde(default)]
    pub(crate) resume_time: Sourced<Span>,
    #[serde(default)]
    pub(crate) suspends_most: Sourced<u32>,
    #[serde(default)]
    pub(crate) suspend_when: Sourced<SuspendWhen>,
    #[serde(default)]
    pub(crate) page_register: Sourced<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Controller {
    pub(crate) unit_size: Sourced<Length>,
    pub(crate) command_latency: Sourced<Span>,
    pub(crate) command_occupancy: Sourced<Span>,
    pub(crate) write_buffer: Sourced<Length>,
    pub(crate) power_loss_protection: Sourced<bool>,
    pub(crate) idle_before_flush: Sourced<Span>,
    pub(crate) trim: Sourced<bool>,
    #[serde(default)]
    pub(crate) flush: Sourced<FlushHandling>,
    #[serde(default)]
    pub(crate) write_cache: Sourced<WriteCache>,
    #[serde(default)]
    pub(crate) mb_per_second: Sourced<f64>,
    #[serde(default)]
    pub(crate) latency_per_mib: Sourced<Span>,
    #[serde(default = "no_length")]
    pub(crate) coalescing: Sourced<Length>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadAheadSection {
    pub(crate) window: Sourced<Length>,
    pub(crate) segment: Sourced<Length>,
    pub(crate) trigger: Sourced<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CollectionSection {
    pub(crate) unit: Sourced<CollectionUnit>,
    pub(crate) low_water: Sourced<u32>,
    pub(crate) idle_high_water: Sourced<u32>,
    pub(crate) debt_max: Sourced<u32>,
    pub(crate) metadata_units: Sourced<u32>,
    #[serde(default)]
    pub(crate) policy: Sourced<keywords::PolicyName>,
    #[serde(default)]
    pub(crate) choices: Sourced<u32>,
    #[serde(default)]
    pub(crate) rotation: Sourced<f64>,
    #[serde(default)]
    pub(crate) allocation: Sourced<Allocation>,
    #[serde(default)]
    pub(crate) copies: Sourced<CopiesTo>,
    #[serde(default)]
    pub(crate) pacing: Sourced<keywords::PacingName>,
    #[serde(default)]
    pub(crate) high_water: Sourced<u32>,
    #[serde(default)]
    pub(crate) ratio: Sourced<f64>,
    #[serde(default)]
    pub(crate) read_overhead: Sourced<Span>,
    #[serde(default)]
    pub(crate) copy_occupancy: Sourced<Span>,
    #[serde(default)]
    pub(crate) word_line_reads: Sourced<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    pub(crate) mb_per_second: Sourced<f64>,
    pub(crate) full_duplex: Sourced<bool>,
    pub(crate) delivery: Sourced<DeliveryOrder>,
}

/// Reason why a profile, or a change to one, is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not the TOML of a profile. The message names line and column.
    #[error("{origin}: {message}")]
    Syntax {
        /// The file, or the embedded profile's name.
        origin: String,
        /// Description of the error, with its line.
        message: String,
    },
    /// A value outside its range.
    #[error("{place}: {key} is {value}, not {bounds}")]
    Range {
        /// File and line of the value, or the target if the value was given there.
        place: String,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// Allowed range.
        bounds: String,
    },
    /// A number in a file without a basis and source.
    #[error("{place}: {key}: {message}")]
    Source {
        /// File and line of the number.
        place: String,
        /// The key.
        key: String,
        /// Description of the error in basis or source.
        message: &'static str,
    },
    /// Values of the geometry that contradict each other.
    #[error("{origin}: {source}")]
    Geometry {
        /// The file, or the embedded profile's name.
        origin: String,
        /// Description of the contradiction.
        source: GeometryError,
    },
    /// Values other than geometry that contradict each other.
    #[error("{origin}: {message}")]
    Inconsistent {
        /// The file, or the embedded profile's name.
        origin: String,
        /// Description of the contradiction.
        message: String,
    },
    /// A key that no profile has.
    #[error("'{key}' is not a parameter of a drive; {hint}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Likely keys, and the place where all keys are listed.
        hint: String,
    },
    /// A value that cannot be read.
    #[error("{key}: {source}")]
    Value {
        /// The key.
        key: String,
        /// Description of the error.
        source: QuantityError,
    },
    /// A name that no embedded profile has.
    #[error("there is no profile '{name}'; {hint}")]
    UnknownProfile {
        /// The name.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
}

/// A set of model parameters.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(crate) name: String,
    pub(crate) origin: String,
    pub(crate) text: String,
    pub(crate) document: Document,
    /// Changes since the profile was read, in order.
    pub(crate) changes: Vec<(String, String)>,
    seed: u64,
}

impl Profile {
    /// Reads a profile. `origin` is its name in errors: a path, or an embedded profile's name.
    pub fn parse(name: &str, origin: &str, text: &str) -> Result<Profile, ProfileError> {
        let document: Document = toml::from_str(text).map_err(|error| ProfileError::Syntax {
            origin: origin.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        let profile = Profile {
            name: name.to_owned(),
            origin: origin.to_owned(),
            text: text.to_owned(),
            document,
            changes: Vec::new(),
            seed: 0,
        };
        profile.check_sources()?;
        profile.check_ranges()?;
        profile.configuration()?;
        Ok(profile)
    }

    /// Returns the embedded profile called `name`.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        let text =
            embedded().iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(
                || ProfileError::UnknownProfile {
                    name: name.to_owned(),
                    hint: hint(name, embedded().iter().map(|(name, _)| *name)),
                },
            )?;
        Profile::parse(name, &format!("profile {name}"), text)
    }

    /// Sets the seed of the drive's own random choices, such as drawn victims. It is zero by default.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Returns the seed that [`Profile::set_seed`] has set.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the name of the profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text that the profile was read from, without later changes.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the changes since the profile was read, in order, as keys and values for [`Profile::set`].
    pub fn changes(&self) -> &[(String, String)] {
        &self.changes
    }

    /// Returns a description of the drive, in one line.
    pub fn summary(&self) -> &str {
        &self.document.summary
    }

    /// Returns the file and line of `at` (a byte offset), or the target if the value was given there for this run.
    pub(crate) fn place(&self, at: std::ops::Range<usize>, basis: Basis) -> String {
        if basis == Basis::Given {
            return format!("{}, given with the target", self.origin);
        }
        self.line(at)
    }

    /// Returns the file and line of `at` (a byte offset).
    pub(crate) fn line(&self, at: std::ops::Range<usize>) -> String {
        let line = self.text[..at.start.min(self.text.len())].matches('\n').count() + 1;
        format!("{}, line {line}", self.origin)
    }
}
