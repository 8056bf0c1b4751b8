//! The parameters of a profile one by one: their ranges, how they are shown, how they are changed.

use toml::Spanned;

use super::{Basis, CollectionUnit, DeliveryOrder, Length, Profile, ProfileError, Sourced, Span};
use crate::mapping::MappingScheme;
use crate::streams::STREAMS_MAX;
use crate::text::{QuantityError, parse_duration, parse_length, parse_percent, parse_switch};
use crate::units::{ByteLength, KIB, MIB, Nanoseconds, Sector};

/// Characters that a source has at least: less names nothing.
const LEAST_SOURCE: usize = 4;

/// One parameter, to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its key, such as `flash.page_read`.
    pub key: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// Where it comes from.
    pub basis: Basis,
    /// What exactly it comes from, or why it is plausible.
    pub source: String,
}

/// A type that parameters have.
pub(crate) trait Quantity: Sized {
    fn read(text: &str) -> Result<Self, QuantityError>;
    fn show(&self) -> String;
}

fn read_with<T: std::str::FromStr>(text: &str, expected: &'static str) -> Result<T, QuantityError> {
    text.trim().parse().map_err(|_| QuantityError { text: text.to_owned(), expected })
}

impl Quantity for u32 {
    fn read(text: &str) -> Result<Self, QuantityError> {
        read_with(text, "a whole number")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Quantity for f64 {
    fn read(text: &str) -> Result<Self, QuantityError> {
        read_with(text, "a number")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Quantity for bool {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_switch(text)
    }
    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

impl Quantity for Length {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_length(text).map(Length)
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Quantity for Span {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_duration(text).map(Span)
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Quantity for CollectionUnit {
    fn read(text: &str) -> Result<Self, QuantityError> {
        match text.trim() {
            "superblock" => Ok(CollectionUnit::Superblock),
            "block" => Ok(CollectionUnit::Block),
            _ => Err(QuantityError { text: text.to_owned(), expected: "superblock or block" }),
        }
    }
    fn show(&self) -> String {
        match self {
            CollectionUnit::Superblock => "superblock",
            CollectionUnit::Block => "block",
        }
        .to_owned()
    }
}

impl Quantity for DeliveryOrder {
    fn read(text: &str) -> Result<Self, QuantityError> {
        match text.trim() {
            "in-order" => Ok(DeliveryOrder::InOrder),
            "any-order" => Ok(DeliveryOrder::AnyOrder),
            "when-complete" => Ok(DeliveryOrder::WhenComplete),
            _ => Err(QuantityError {
                text: text.to_owned(),
                expected: "in-order, any-order or when-complete",
            }),
        }
    }
    fn show(&self) -> String {
        match self {
            DeliveryOrder::InOrder => "in-order",
            DeliveryOrder::AnyOrder => "any-order",
            DeliveryOrder::WhenComplete => "when-complete",
        }
        .to_owned()
    }
}

impl Quantity for MappingScheme {
    fn read(text: &str) -> Result<Self, QuantityError> {
        match text.trim() {
            "page" => Ok(MappingScheme::Page),
            "cached" => Ok(MappingScheme::Cached),
            "extent" => Ok(MappingScheme::Extent),
            "log-block" => Ok(MappingScheme::LogBlock),
            _ => Err(QuantityError {
                text: text.to_owned(),
                expected: "page, cached, extent or log-block",
            }),
        }
    }
    fn show(&self) -> String {
        match self {
            MappingScheme::Page => "page",
            MappingScheme::Cached => "cached",
            MappingScheme::Extent => "extent",
            MappingScheme::LogBlock => "log-block",
        }
        .to_owned()
    }
}

impl<T: Quantity> Sourced<T> {
    fn change(&mut self, text: &str) -> Result<(), QuantityError> {
        let value = T::read(text)?;
        self.value = Spanned::new(0..0, value);
        self.basis = Basis::Given;
        self.source = "given with the target".to_owned();
        Ok(())
    }

    fn parameter(&self, key: &'static str) -> Parameter {
        Parameter {
            key,
            value: self.value.get_ref().show(),
            basis: self.basis,
            source: self.source.clone(),
        }
    }
}

/// Every key with its place in the document: the one list that showing and changing share.
macro_rules! keys {
    ($($key:literal => $($field:ident).+,)*) => {
        /// The keys of all parameters, in the order to show them.
        pub fn parameter_keys() -> &'static [&'static str] {
            &[$($key),*]
        }

        impl Profile {
            /// The parameters of all that the drive has, in the order to show them.
            pub fn parameters(&self) -> Vec<Parameter> {
                let mut parameters = vec![$(self.document.$($field).+.parameter($key)),*];
                parameters.retain(|parameter| parameter.basis != Basis::Absent);
                parameters
            }

            /// The parameters that it does not set, with what they are then.
            pub fn parameters_not_set(&self) -> Vec<Parameter> {
                let mut parameters = vec![$(self.document.$($field).+.parameter($key)),*];
                parameters.retain(|parameter| parameter.basis == Basis::Absent);
                parameters
            }

            /// Refuses numbers of a file that do not say where they come from.
            pub(super) fn check_sources(&self) -> Result<(), ProfileError> {
                $(self.check_source($key, &self.document.$($field).+)?;)*
                Ok(())
            }

            fn change(&mut self, key: &str, text: &str) -> Option<Result<(), QuantityError>> {
                match key {
                    $($key => Some(self.document.$($field).+.change(text)),)*
                    _ => None,
                }
            }
        }
    };
}

keys! {
    "capacity.logical" => capacity.logical,
    "capacity.physical" => capacity.physical,
    "flash.channels" => flash.channels,
    "flash.dies" => flash.dies,
    "flash.planes_per_die" => flash.planes_per_die,
    "flash.multi_plane_read" => flash.multi_plane_read,
    "flash.page_size" => flash.page_size,
    "flash.pages_per_block" => flash.pages_per_block,
    "flash.pages_per_shot" => flash.pages_per_shot,
    "flash.page_read" => flash.page_read,
    "flash.program" => flash.program,
    "flash.erase" => flash.erase,
    "flash.channel_mb_per_second" => flash.channel_mb_per_second,
    "flash.suspend" => flash.suspend,
    "flash.suspend_time" => flash.suspend_time,
    "flash.resume_time" => flash.resume_time,
    "flash.suspends_most" => flash.suspends_most,
    "flash.page_register" => flash.page_register,
    "controller.unit_size" => controller.unit_size,
    "controller.command_latency" => controller.command_latency,
    "controller.command_occupancy" => controller.command_occupancy,
    "controller.write_buffer" => controller.write_buffer,
    "controller.power_loss_protection" => controller.power_loss_protection,
    "controller.idle_before_flush" => controller.idle_before_flush,
    "controller.trim" => controller.trim,
    "controller.flush" => controller.flush,
    "controller.write_cache" => controller.write_cache,
    "read_ahead.window" => read_ahead.window,
    "read_ahead.segment" => read_ahead.segment,
    "read_ahead.trigger" => read_ahead.trigger,
    "collection.unit" => collection.unit,
    "collection.low_water" => collection.low_water,
    "collection.idle_high_water" => collection.idle_high_water,
    "collection.debt_max" => collection.debt_max,
    "collection.metadata_units" => collection.metadata_units,
    "collection.policy" => collection.policy,
    "collection.choices" => collection.choices,
    "collection.pacing" => collection.pacing,
    "collection.high_water" => collection.high_water,
    "wear.pe_cycles" => wear.pe_cycles,
    "wear.levelling" => wear.levelling,
    "wear.static_every" => wear.static_every,
    "wear.static_spread" => wear.static_spread,
    "wear.static_stream" => wear.static_stream,
    "wear.life" => wear.life,
    "wear.life_shape" => wear.life_shape,
    "wear.factory_bad" => wear.factory_bad,
    "wear.reserve" => wear.reserve,
    "wear.retire_most" => wear.retire_most,
    "wear.spare_threshold" => wear.spare_threshold,
    "retention.retry" => retention.retry,
    "retention.free_for" => retention.free_for,
    "retention.steps" => retention.steps,
    "retention.worn_steps" => retention.worn_steps,
    "streams.count" => streams.count,
    "streams.hot_within" => streams.hot_within,
    "streams.hot_blocks" => streams.hot_blocks,
    "link.mb_per_second" => link.mb_per_second,
    "link.full_duplex" => link.full_duplex,
    "link.delivery" => link.delivery,
    "mapping.scheme" => mapping.scheme,
    "mapping.cache" => mapping.cache,
    "mapping.table" => mapping.table,
    "mapping.search" => mapping.search,
    "mapping.per_extent" => mapping.per_extent,
    "mapping.log_blocks" => mapping.log_blocks,
    "mapping.checkpoint" => mapping.checkpoint,
    "flush.overhead" => flush.overhead,
    "flush.journal" => flush.journal,
    "flush.journal_program" => flush.journal_program,
    "trim.command" => trim.command,
    "trim.range" => trim.range,
    "trim.per_mib" => trim.per_mib,
    "trim.ranges_most" => trim.ranges_most,
    "trim.range_most" => trim.range_most,
    "trim.reads_after" => trim.reads_after,
    "trim.settle" => trim.settle,
    "slc.size" => slc.size,
    "slc.space" => slc.space,
    "slc.when_full" => slc.when_full,
    "slc.bits" => slc.bits,
    "slc.program" => slc.program,
    "slc.page_read" => slc.page_read,
}

impl Profile {
    /// Changes one parameter. Besides the keys of the file there are `trim=off`, `spare=7%` (of
    /// the physical capacity) and `spare_of_logical=7%`: the flash stays as it is, and what the
    /// host can address follows; and `scale=1/64`, a smaller drive that behaves alike.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ProfileError> {
        let value_error = |source| ProfileError::Value { key: key.to_owned(), source };
        let physical = self.document.capacity.physical.value.get_ref().0.bytes() as f64;
        self.changes.push((key.to_owned(), text.to_owned()));
        match key {
            "scale" => {
                self.check_unit_size()?;
                self.scale(text)
            }
            "trim" => self.document.controller.trim.change(text).map_err(value_error),
            "spare" => {
                self.check_unit_size()?;
                let share = self.spare_share(key, text, 0.9)?;
                self.set_logical(physical * (1.0 - share), text);
                Ok(())
            }
            "spare_of_logical" => {
                self.check_unit_size()?;
                let share = self.spare_share(key, text, 9.0)?;
                self.set_logical(physical / (1.0 + share), text);
                Ok(())
            }
            _ => match self.change(key, text) {
                Some(outcome) => outcome.map_err(value_error),
                None => Err(unknown_key(key)),
            },
        }
    }

    /// Checks what several [`Profile::set`] calls left behind.
    pub fn check(&self) -> Result<(), ProfileError> {
        self.check_ranges()?;
        self.configuration().map(|_| ())
    }

    fn spare_share(&self, key: &str, text: &str, most: f64) -> Result<f64, ProfileError> {
        let share = parse_percent(text)
            .map_err(|source| ProfileError::Value { key: key.to_owned(), source })?;
        if share > 0.0 && share <= most {
            return Ok(share);
        }
        Err(ProfileError::Range {
            place: self.place(0..0, Basis::Given),
            key: key.to_owned(),
            value: text.to_owned(),
            bounds: format!("above 0% and at most {}%", most * 100.0),
        })
    }

    fn set_logical(&mut self, bytes: f64, text: &str) {
        let unit = self.document.controller.unit_size.value.get_ref().0;
        let whole = ByteLength::new(bytes as u64).whole(unit);
        let logical = &mut self.document.capacity.logical;
        logical.value = Spanned::new(0..0, Length(unit * whole));
        logical.basis = Basis::Given;
        logical.source = format!("follows from the spare area of {text}");
    }

    fn check_source<T>(&self, key: &str, sourced: &Sourced<T>) -> Result<(), ProfileError> {
        if sourced.basis == Basis::Absent {
            return Ok(());
        }
        let message = if sourced.basis == Basis::Given {
            "basis \"given\" is for changes on the command line; a file says published, fitted or \
             assumed"
        } else if sourced.source.trim().chars().count() < LEAST_SOURCE {
            "source says too little: name where the number comes from, or why it is plausible"
        } else {
            return Ok(());
        };
        let place = self.line(sourced.value.span());
        Err(ProfileError::Source { place, key: key.to_owned(), message })
    }

    /// Refuses values that no drive has.
    pub(super) fn check_ranges(&self) -> Result<(), ProfileError> {
        let d = &self.document;
        let length = |bytes| Length(ByteLength::new(bytes));
        let us = |us| Span(Nanoseconds::from_micros(us));
        let tib = 1u64 << 40;
        self.within("capacity.logical", &d.capacity.logical, length(1 << 20), length(64 * tib))?;
        self.within("capacity.physical", &d.capacity.physical, length(1 << 20), length(64 * tib))?;
        self.within("flash.channels", &d.flash.channels, 1, 64)?;
        self.within("flash.dies", &d.flash.dies, 1, 4096)?;
        self.within("flash.planes_per_die", &d.flash.planes_per_die, 1, 8)?;
        self.within("flash.page_size", &d.flash.page_size, length(512), Length(MIB))?;
        self.within("flash.pages_per_block", &d.flash.pages_per_block, 1, 1 << 16)?;
        self.within("flash.pages_per_shot", &d.flash.pages_per_shot, 1, 4)?;
        self.within("flash.page_read", &d.flash.page_read, us(1), us(10_000))?;
        self.within("flash.program", &d.flash.program, us(1), us(100_000))?;
        self.within("flash.erase", &d.flash.erase, us(1), us(1_000_000))?;
        let channel = &d.flash.channel_mb_per_second;
        self.within("flash.channel_mb_per_second", channel, 1.0, 100_000.0)?;
        self.within("flash.suspend_time", &d.flash.suspend_time, us(0), us(10_000))?;
        self.within("flash.resume_time", &d.flash.resume_time, us(0), us(10_000))?;
        self.within("flash.suspends_most", &d.flash.suspends_most, 0, 1 << 16)?;
        self.check_unit_size()?;
        let latency = &d.controller.command_latency;
        self.within("controller.command_latency", latency, us(0), us(100_000))?;
        let occupancy = &d.controller.command_occupancy;
        self.within("controller.command_occupancy", occupancy, us(0), us(100_000))?;
        let buffer = &d.controller.write_buffer;
        self.within("controller.write_buffer", buffer, Length(KIB * 4), length(64 << 30))?;
        let idle = &d.controller.idle_before_flush;
        self.within("controller.idle_before_flush", idle, us(1), us(3_600_000_000))?;
        self.within("flush.overhead", &d.flush.overhead, us(0), us(1_000_000))?;
        let journal_program = &d.flush.journal_program;
        self.within("flush.journal_program", journal_program, us(0), us(100_000))?;
        self.within("slc.size", &d.slc.size, length(0), length(64 * tib))?;
        self.within("slc.bits", &d.slc.bits, 0, 4)?;
        self.within("slc.program", &d.slc.program, us(0), us(100_000))?;
        self.within("slc.page_read", &d.slc.page_read, us(0), us(10_000))?;
        self.within("trim.command", &d.trim.command, us(0), us(1_000_000))?;
        self.within("trim.range", &d.trim.range, us(0), us(1_000_000))?;
        self.within("trim.per_mib", &d.trim.per_mib, us(0), us(1_000_000))?;
        self.within("trim.ranges_most", &d.trim.ranges_most, 0, 1 << 16)?;
        self.within("trim.range_most", &d.trim.range_most, length(0), length(64 * tib))?;
        self.within("trim.settle", &d.trim.settle, us(0), us(86_400_000_000))?;
        self.within("read_ahead.window", &d.read_ahead.window, length(0), length(1 << 30))?;
        self.within("read_ahead.segment", &d.read_ahead.segment, length(512), length(1 << 30))?;
        self.within("read_ahead.trigger", &d.read_ahead.trigger, 1, 1024)?;
        self.within("collection.low_water", &d.collection.low_water, 2, 1024)?;
        self.within("collection.idle_high_water", &d.collection.idle_high_water, 2, 1 << 20)?;
        self.within("collection.debt_max", &d.collection.debt_max, 0, 31)?;
        self.within("collection.metadata_units", &d.collection.metadata_units, 0, 1 << 20)?;
        self.within("mapping.log_blocks", &d.mapping.log_blocks, 0, 1 << 20)?;
        self.within("mapping.cache", &d.mapping.cache, length(0), length(64 << 30))?;
        self.within("mapping.table", &d.mapping.table, length(0), length(16 << 30))?;
        self.within("mapping.checkpoint", &d.mapping.checkpoint, length(0), length(64 * tib))?;
        self.within("mapping.search", &d.mapping.search, us(0), us(100_000))?;
        self.within("mapping.per_extent", &d.mapping.per_extent, us(0), us(100_000))?;
        self.within("wear.pe_cycles", &d.wear.pe_cycles, 0, 10_000_000)?;
        self.within("wear.static_every", &d.wear.static_every, 0, 1 << 30)?;
        self.within("wear.static_spread", &d.wear.static_spread, 0, 1 << 30)?;
        self.within("wear.life", &d.wear.life, 0, 100_000_000)?;
        self.within("wear.life_shape", &d.wear.life_shape, 0.0, 100.0)?;
        self.within("wear.factory_bad", &d.wear.factory_bad, 0.0, 0.2)?;
        self.within("wear.reserve", &d.wear.reserve, 0, 1 << 16)?;
        self.within("wear.retire_most", &d.wear.retire_most, 0.0, 0.9)?;
        self.within("wear.spare_threshold", &d.wear.spare_threshold, 0, 100)?;
        self.within("retention.retry", &d.retention.retry, us(0), us(100_000))?;
        let free_for = &d.retention.free_for;
        self.within("retention.free_for", free_for, us(0), us(364 * 86_400_000_000))?;
        self.within("retention.steps", &d.retention.steps, 0.0, 1000.0)?;
        self.within("retention.worn_steps", &d.retention.worn_steps, 0.0, 1000.0)?;
        self.within("streams.count", &d.streams.count, 1, STREAMS_MAX)?;
        self.within("streams.hot_within", &d.streams.hot_within, 0.0, 1.0)?;
        self.within("streams.hot_blocks", &d.streams.hot_blocks, 0.0, 0.95)?;
        self.within("collection.choices", &d.collection.choices, 0, 1024)?;
        self.within("collection.high_water", &d.collection.high_water, 0, 1 << 16)?;
        self.within("link.mb_per_second", &d.link.mb_per_second, 1.0, 100_000.0)
    }

    /// Refuses units that no drive has. What is worked out in whole units asks for this first.
    fn check_unit_size(&self) -> Result<(), ProfileError> {
        let unit_size = &self.document.controller.unit_size;
        self.within("controller.unit_size", unit_size, Length(Sector::SIZE), Length(MIB))
    }

    fn within<T>(
        &self,
        key: &str,
        sourced: &Sourced<T>,
        least: T,
        most: T,
    ) -> Result<(), ProfileError>
    where
        T: Quantity + Bounded,
    {
        let value = sourced.value.get_ref();
        if value.is_within(&least, &most) {
            return Ok(());
        }
        Err(ProfileError::Range {
            place: self.place(sourced.value.span(), sourced.basis),
            key: key.to_owned(),
            value: value.show(),
            bounds: format!("within {} to {}", least.show(), most.show()),
        })
    }
}

trait Bounded {
    fn is_within(&self, least: &Self, most: &Self) -> bool;
}

macro_rules! bounded {
    ($($type:ty, $view:expr;)*) => {$(
        impl Bounded for $type {
            fn is_within(&self, least: &Self, most: &Self) -> bool {
                let view = $view;
                view(least) <= view(self) && view(self) <= view(most)
            }
        }
    )*};
}

bounded! {
    u32, |value: &u32| *value;
    f64, |value: &f64| *value;
    Length, |value: &Length| value.0;
    Span, |value: &Span| value.0;
}

fn unknown_key(key: &str) -> ProfileError {
    let wanted = key.rsplit('.').next().unwrap_or(key);
    let likely: Vec<&str> = parameter_keys()
        .iter()
        .copied()
        .filter(|known| {
            let name = known.rsplit('.').next().unwrap_or(known);
            name.contains(wanted) || wanted.contains(name)
        })
        .collect();
    let hint = if likely.is_empty() {
        "there are trim, spare, spare_of_logical, scale and the keys that 'ssdlab list profiles --keys' \
         shows"
            .to_owned()
    } else {
        format!("perhaps {}", likely.join(" or "))
    };
    ProfileError::UnknownKey { key: key.to_owned(), hint }
}
