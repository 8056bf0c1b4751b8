//! The parameters of a profile one by one: their keys, how they are shown, how they are changed.

mod quantity;
mod ranges;

pub(crate) use quantity::Quantity;

use toml::Spanned;

use super::{Basis, Length, Profile, ProfileError, Sourced};
use crate::text::{QuantityError, nearest, parse_percent};
use crate::units::ByteLength;

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
}

/// Keys that no profile has, and what they change: [`Profile::set`] takes them besides.
pub const SHORT_KEYS: [&str; 4] = ["trim", "spare", "spare_of_logical", "scale"];

fn unknown_key(key: &str) -> ProfileError {
    let wanted = last_part(key).to_lowercase();
    let known = || parameter_keys().iter().copied().chain(SHORT_KEYS);
    let contains = |known: &&str| {
        let name = last_part(known);
        !wanted.is_empty() && (name.contains(&wanted) || wanted.contains(name))
    };
    // The whole key, then its last part alone, then keys that hold it.
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

/// What follows the section of a key.
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
