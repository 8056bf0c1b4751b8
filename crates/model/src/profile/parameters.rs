//! The parameters of a profile as keys with values: listing, showing and changing them.

mod quantity;
mod ranges;

pub(crate) use quantity::Quantity;

use toml::Spanned;

use super::{Basis, Length, Profile, ProfileError, Sourced};
use crate::text::{QuantityError, nearest, parse_percent};
use crate::units::ByteLength;

/// Fewest characters of a source: a shorter one names nothing.
const LEAST_SOURCE: usize = 4;

/// A parameter, to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Key, such as `flash.page_read`.
    pub key: &'static str,
    /// Value, with its unit.
    pub value: String,
    /// Basis of the value.
    pub basis: Basis,
    /// Exact source of the value, or the reason why it is plausible.
    pub source: String,
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

/// Defines every key with its field in the document: one list for showing and changing.
macro_rules! keys {
    ($($key:literal => $($field:ident).+, $meaning:literal,)*) => {
        /// Returns the keys of all parameters, in the order to show them.
        pub fn parameter_keys() -> &'static [&'static str] {
            &[$($key),*]
        }

        /// Returns the meaning of a parameter, for a key of [`parameter_keys`].
        pub fn parameter_meaning(key: &str) -> Option<&'static str> {
            match key {
                $($key => Some($meaning),)*
                _ => None,
            }
        }

        impl Profile {
            /// Returns the parameters that the profile sets, in the order to show them.
            pub fn parameters(&self) -> Vec<Parameter> {
                let mut parameters = vec![$(self.document.$($field).+.parameter($key)),*];
                parameters.retain(|parameter| parameter.basis != Basis::Absent);
                parameters
            }

            /// Returns the parameters that the profile does not set, with the values that this means.
            pub fn parameters_not_set(&self) -> Vec<Parameter> {
                let mut parameters = vec![$(self.document.$($field).+.parameter($key)),*];
                parameters.retain(|parameter| parameter.basis == Basis::Absent);
                parameters
            }

            /// Refuses numbers of a file without a source.
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
    "capacity.logical" => capacity.logical, "capacity that the host can address",
    "capacity.physical" => capacity.physical,
        "flash for data; the part beyond the logical capacity is over-provisioning",
    "flash.channels" => flash.channels, "channels; each transfers for its dies one after the other",
    "flash.dies" => flash.dies, "dies in all; each senses, programs or erases one thing at a time",
    "flash.planes_per_die" => flash.planes_per_die,
        "planes of a die, which one command programs together",
    "flash.multi_plane_read" => flash.multi_plane_read,
        "one command senses the same page on each plane",
    "flash.page_size" => flash.page_size, "size of a flash page, the unit that a plane senses",
    "flash.pages_per_block" => flash.pages_per_block, "pages of an erase block of one plane",
    "flash.pages_per_shot" => flash.pages_per_shot,
        "pages that one program writes on each plane (3: one-shot TLC)",
    "flash.page_read" => flash.page_read, "time to sense a page (tR)",
    "flash.page_read_spread" => flash.page_read_spread,
        "distance of the fastest and the slowest page of a word line from page_read, as a share \
         of it; 0: all alike",
    "flash.program" => flash.program, "time to program all pages of a shot (tPROG)",
    "flash.erase" => flash.erase, "time to erase a block (tBERS)",
    "flash.channel_mb_per_second" => flash.channel_mb_per_second, "rate of a channel",
    "flash.suspend" => flash.suspend,
        "operations that a read may suspend: off, program, erase or both",
    "flash.suspend_step" => flash.suspend_step,
        "length of a pulse of a program or an erase with its verification; not interrupted",
    "flash.suspend_time" => flash.suspend_time,
        "time from the end of the pulse until the program or erase is suspended",
    "flash.resume_time" => flash.resume_time,
        "time that resuming adds to a suspended program or erase",
    "flash.suspends_most" => flash.suspends_most,
        "maximum number of suspends of one operation; 1 or more with flash.suspend",
    "flash.suspend_when" => flash.suspend_when,
        "condition for suspends: always, or buffer-has-room (no write waits for buffer space)",
    "flash.page_register" => flash.page_register,
        "rereads of a page from the register of its plane, until the plane's next operation",
    "controller.unit_size" => controller.unit_size, "mapping unit, the granularity of the map",
    "controller.command_latency" => controller.command_latency,
        "time of every command in host, driver and firmware",
    "controller.command_occupancy" => controller.command_occupancy,
        "time that a command occupies the controller before the next one",
    "controller.mb_per_second" => controller.mb_per_second,
        "rate at which the controller moves data, a command at a time; 0: as fast as the link",
    "controller.latency_per_mib" => controller.latency_per_mib,
        "latency of each MiB of a command in host and firmware; it occupies nothing",
    "controller.write_buffer" => controller.write_buffer, "RAM for data on its way to the flash",
    "controller.power_loss_protection" => controller.power_loss_protection,
        "capacitors save the write buffer when power fails",
    "controller.coalescing" => controller.coalescing,
        "data that a protected write buffer holds back, so that rewrites replace it there",
    "controller.idle_before_flush" => controller.idle_before_flush,
        "idle time after which the write buffer is programmed",
    "controller.trim" => controller.trim, "effect of TRIM; off: it is ignored",
    "controller.flush" => controller.flush,
        "handling of flushes: honest, or ignored (answered at once, with data still in the buffer)",
    "controller.write_cache" => controller.write_cache,
        "write-back, or write-through: a write is answered when it is programmed",
    "read_ahead.window" => read_ahead.window,
        "distance of read-ahead in front of a sequential reader; 0: no read-ahead",
    "read_ahead.segment" => read_ahead.segment, "size of the pieces that are read ahead",
    "read_ahead.trigger" => read_ahead.trigger,
        "requests that continue the one before them until read-ahead starts",
    "collection.unit" => collection.unit,
        "unit of garbage collection: superblock (a block of every die) or block",
    "collection.low_water" => collection.low_water,
        "free collection units at which garbage collection begins",
    "collection.idle_high_water" => collection.idle_high_water,
        "free collection units up to which an idle drive collects",
    "collection.debt_max" => collection.debt_max,
        "background operations that may wait on a die before the oldest joins the host's programs",
    "collection.metadata_units" => collection.metadata_units,
        "collection units for map, journal and checkpoint, beside those for data",
    "collection.policy" => collection.policy,
        "victim policy: greedy, fifo, random, d-choices or cost-benefit",
    "collection.choices" => collection.choices, "blocks compared by d-choices",
    "collection.rotation" => collection.rotation,
        "share of victims that are the oldest closed unit, however much of it is valid; 0: none",
    "collection.allocation" => collection.allocation,
        "choice of the die for a unit: dynamic (the next in turn) or static (by logical address)",
    "collection.copies" => collection.copies,
        "destination of copies: own-block (an open unit of their own) or host-block (the host's)",
    "collection.pacing" => collection.pacing,
        "paced: as much as the host fills; bursty: up to the high water at once; ratio: a fixed \
         number of copies for each unit written",
    "collection.high_water" => collection.high_water,
        "free collection units at which bursty collection ends, or collection by ratio pauses",
    "collection.ratio" => collection.ratio,
        "units copied for each that the host writes, with collection.pacing=ratio",
    "collection.read_overhead" => collection.read_overhead,
        "die time of each read for copies, beyond sensing",
    "collection.copy_occupancy" => collection.copy_occupancy,
        "controller time of each page that is copied while the host writes",
    "collection.word_line_reads" => collection.word_line_reads,
        "reads of all valid pages of a word line in one operation, for copies; host reads wait \
         for it",
    "wear.pe_cycles" => wear.pe_cycles, "erases that a block is rated for; 0: not counted",
    "wear.levelling" => wear.levelling,
        "wear leveling: off, dynamic (least worn free block first), static (cold data is moved)",
    "wear.static_every" => wear.static_every, "erases between two checks of static wear leveling",
    "wear.static_spread" => wear.static_spread,
        "difference in erases, most to least worn block, above which cold data is moved",
    "wear.static_stream" => wear.static_stream, "moved cold data gets a write frontier of its own",
    "wear.life" => wear.life, "erases after which 63 % of blocks have failed; 0: none fails",
    "wear.life_shape" => wear.life_shape,
        "Weibull shape of failures; the larger, the closer together they come",
    "wear.factory_bad" => wear.factory_bad, "share of blocks that are bad from the factory",
    "wear.reserve" => wear.reserve, "blocks of each die that replace bad ones",
    "wear.retire_most" => wear.retire_most,
        "share of the spare units that may be retired before the drive is read-only",
    "wear.spare_threshold" => wear.spare_threshold,
        "share of reserve blocks left, in per cent, below which the drive warns",
    "retention.retry" => retention.retry, "time of one read retry; 0: data does not age",
    "retention.free_for" => retention.free_for, "age up to which data needs no read retry",
    "retention.steps" => retention.steps, "retries after a year in a block without wear",
    "retention.worn_steps" => retention.worn_steps,
        "retries after a year in a block at its rated cycles",
    "streams.count" => streams.count, "write frontiers of the host's data, by temperature",
    "streams.hot_within" => streams.hot_within,
        "limit of hot data: a unit overwritten before this share of the drive was written is hot",
    "streams.hot_blocks" => streams.hot_blocks, "share of blocks kept for hot data; 0: not fixed",
    "link.mb_per_second" => link.mb_per_second, "rate of the link to the host",
    "link.full_duplex" => link.full_duplex, "the link carries data both ways at once",
    "link.delivery" => link.delivery, "order in which the data of one request reaches the host",
    "mapping.scheme" => mapping.scheme, "page, cached (DFTL), extent or log-block",
    "mapping.cache" => mapping.cache, "RAM for map pages of a cached map",
    "mapping.cache_read" => mapping.cache_read,
        "time to read an entry of mapping.cache, such as from the host's memory (HMB)",
    "mapping.table" => mapping.table, "RAM for extents of an extent map",
    "mapping.search" => mapping.search, "time to find an extent in another region",
    "mapping.per_extent" => mapping.per_extent, "time for each further extent of a request",
    "mapping.log_blocks" => mapping.log_blocks, "random log blocks of a log-block map",
    "mapping.checkpoint" => mapping.checkpoint,
        "data programmed while the whole map is saved once; 0: no checkpoint",
    "flush.overhead" => flush.overhead, "time that a flush keeps the controller busy",
    "flush.journal" => flush.journal, "a flush programs the changes of the map, too",
    "flush.journal_program" => flush.journal_program,
        "time to program a journal page; 0: flash.program",
    "trim.command" => trim.command, "time of a trim command",
    "trim.range" => trim.range, "time for each range of a trim command",
    "trim.per_mib" => trim.per_mib, "time for each MiB of a trim command",
    "trim.ranges_most" => trim.ranges_most, "ranges of one command; 0: without limit",
    "trim.range_most" => trim.range_most, "length of one range; 0: without limit",
    "trim.reads_after" => trim.reads_after,
        "data that trimmed sectors read as: zeros, ones or undefined",
    "trim.settle" => trim.settle,
        "idle time after which deferred trims take effect, with undefined reads; 0: never",
    "slc.size" => slc.size, "data that the pseudo-SLC cache holds; 0: none",
    "slc.space" => slc.space, "fixed: blocks of its own; dynamic: free blocks of the drive",
    "slc.fixed" => slc.fixed,
        "part of a dynamic cache that has blocks of its own, however full the drive is",
    "slc.when_full" => slc.when_full,
        "writes while the cache is full: direct (past it) or fold (they wait for folding)",
    "slc.bits" => slc.bits, "bits per cell outside the cache",
    "slc.program" => slc.program, "time to program in the cache",
    "slc.page_read" => slc.page_read, "time to sense in the cache",
    "thermal.limit" => thermal.limit,
        "data moved ahead of thermal.mb_per_second until the drive throttles; 0: never",
    "thermal.mb_per_second" => thermal.mb_per_second, "rate that the drive sustains without getting hotter",
}

impl Profile {
    /// Changes one parameter. Besides the keys of the file there are `trim=off`; `spare=7%` (of the physical
    /// capacity) and `spare_of_logical=7%`, which change the logical capacity and keep the flash; and `scale=1/64`, a
    /// smaller drive that behaves alike.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ProfileError> {
        let value_error = |source| ProfileError::Value { key: key.to_owned(), source };
        let physical = self.document.capacity.physical.value.get_ref().0.bytes() as f64;
        self.changes.push((key.to_owned(), text.to_owned()));
        match key {
            "scale" => {
                // Checked before scaling, which may bring an impossible value into its range.
                self.check_ranges()?;
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

    /// Checks the profile after one or more calls of [`Profile::set`].
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
}

/// Keys that [`Profile::set`] takes besides those of profile files.
pub const SHORT_KEYS: [&str; 4] = ["trim", "spare", "spare_of_logical", "scale"];

fn unknown_key(key: &str) -> ProfileError {
    let wanted = last_part(key).to_lowercase();
    let known = || parameter_keys().iter().copied().chain(SHORT_KEYS);
    let contains = |known: &&str| {
        let name = last_part(known);
        !wanted.is_empty() && (name.contains(&wanted) || wanted.contains(name))
    };
    // First keys near the whole key, then near its last part, then those that contain it.
    let mut likely = nearest(key, known());
    if likely.is_empty() {
        let names = nearest(&wanted, known().map(last_part));
        likely = known().filter(|known| names.contains(&last_part(known))).collect();
    }
    if likely.is_empty() {
        likely = known().filter(contains).collect();
    }
    let hint = if likely.is_empty() {
        "'ssdlab list profiles --keys' shows all of them".to_owned()
    } else {
        format!("did you mean {}?", likely.join(" or "))
    };
    ProfileError::UnknownKey { key: key.to_owned(), hint }
}

/// Returns the part of a key behind its section.
fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::embedded;

    #[test]
    fn every_value_is_set_as_it_is_shown() {
        for (name, _) in embedded() {
            let profile = Profile::named(name).unwrap();
            let mut again = profile.clone();
            for parameter in profile.parameters() {
                for value in [parameter.value.clone(), parameter.value.replace(' ', "")] {
                    again
                        .set(parameter.key, &value)
                        .unwrap_or_else(|error| panic!("{name}: {error}"));
                }
            }
            let values = |profile: &Profile| -> Vec<String> {
                profile.parameters().into_iter().map(|it| it.value).collect()
            };
            assert_eq!(values(&again), values(&profile), "{name}");
            let built = |profile: &Profile| format!("{:?}", profile.configuration().unwrap());
            assert_eq!(built(&again), built(&profile), "{name}");
        }
    }

    #[test]
    fn a_key_that_is_none_is_answered_with_the_nearest() {
        let error = |key: &str| unknown_key(key).to_string();
        assert!(error("page_read").ends_with("did you mean flash.page_read or slc.page_read?"));
        assert!(error("Flash.Page_Raed").ends_with("did you mean flash.page_read?"));
        assert!(error("read_ahead.windw").ends_with("did you mean read_ahead.window?"));
        assert!(error("sparee").ends_with("did you mean spare?"));
        assert!(error("colour").ends_with("'ssdlab list profiles --keys' shows all of them"));
    }
}
