//! Errors about flash and data whose sizes do not fit together: the missing bytes, and sizes that fit.

use toml::Spanned;

use super::{CollectionUnit, Length, Profile, ProfileError};
use crate::geometry::{GeometryError, MIN_BLOCKS};
use crate::text::exact_length;
use crate::units::{ByteLength, MIB};

/// Largest amount of flash that is tried.
const FLASH_MOST: u64 = 64 << 40;

impl Profile {
    /// Returns the length of a collection unit: a block of one die, or of all dies.
    pub(super) fn block_length(&self) -> ByteLength {
        let flash = &self.document.flash;
        let dies = match self.document.collection.unit.value.get_ref() {
            CollectionUnit::Superblock => *flash.dies.value.get_ref(),
            CollectionUnit::Block => 1,
        };
        flash.page_size.value.get_ref().0
            * u64::from(*flash.planes_per_die.value.get_ref())
            * u64::from(*flash.pages_per_block.value.get_ref())
            * u64::from(dies)
    }

    /// Returns the error for a geometry that is not possible. If flash or data have the wrong size, it names sizes
    /// that work.
    pub(super) fn geometry_error(&self, source: GeometryError) -> ProfileError {
        if let GeometryError::TooLarge { .. } = source {
            return self.too_large();
        }
        let has_too_few_blocks = matches!(
            source,
            GeometryError::Range { least, .. } if least == u64::from(MIN_BLOCKS)
        );
        if !has_too_few_blocks && !matches!(source, GeometryError::NoSpare { .. }) {
            return ProfileError::Geometry { origin: self.origin.clone(), source };
        }
        let capacity = &self.document.capacity;
        let (logical, physical) =
            (capacity.logical.value.get_ref(), capacity.physical.value.get_ref());
        let block = match self.document.collection.unit.value.get_ref() {
            CollectionUnit::Superblock => "superblocks (a block of each die)",
            CollectionUnit::Block => "blocks",
        };
        let mut ways = Vec::new();
        if let Some(least) = self.least_physical() {
            ways.push(format!("capacity.physical={} or more", exact_length(least)));
        }
        if let Some(most) = self.most_logical() {
            ways.push(format!("capacity.logical={} or less", exact_length(most)));
        }
        ways.push("scale=1/64 for a smaller drive as a whole".to_owned());
        self.inconsistent(format!(
            "capacity.physical={} leaves too little spare area beside capacity.logical={}: flash is \
             collected in {block} of {}, some of which are always open, free or hold metadata. Give {}",
            exact_length(physical.0),
            exact_length(logical.0),
            exact_length(self.block_length()),
            ways.join(", or ")
        ))
    }

    /// Returns the error for more units than can be counted.
    fn too_large(&self) -> ProfileError {
        let physical = self.document.capacity.physical.value.get_ref().0;
        let unit = self.document.controller.unit_size.value.get_ref().0;
        let least = physical.covering(ByteLength::new(u32::MAX.into())).next_power_of_two();
        self.inconsistent(format!(
            "capacity.physical={} is too large for controller.unit_size={}: the maximum is {}. \
             Give controller.unit_size={} or more",
            exact_length(physical),
            exact_length(unit),
            unit * (1 << 32),
            exact_length(ByteLength::new(least))
        ))
    }

    /// Returns the smallest amount of flash that works with this much data, in whole blocks of every group of dies.
    fn least_physical(&self) -> Option<ByteLength> {
        let step = self.block_length() * u64::from(self.groups());
        let most = ByteLength::new(FLASH_MOST).whole(step);
        let with = |steps: u64| {
            let mut profile = self.clone();
            profile.document.capacity.physical.value = Spanned::new(0..0, Length(step * steps));
            profile.assemble().is_ok()
        };
        // More flash than units can be counted for fails like too little.
        let logical = self.document.capacity.logical.value.get_ref().0.whole(step).max(1);
        let doubled = std::iter::successors(Some(logical), |steps| steps.checked_mul(2));
        let enough = doubled.take_while(|steps| *steps <= most).find(|steps| with(*steps))?;
        least_that(1, enough, with).map(|steps| step * steps)
    }

    /// Returns the largest amount of data that works with this much flash, in whole MiB.
    fn most_logical(&self) -> Option<ByteLength> {
        let most = self.document.capacity.logical.value.get_ref().0.whole(MIB);
        let without = |less: u64| {
            let mut profile = self.clone();
            let length = Length(MIB * (most - less));
            profile.document.capacity.logical.value = Spanned::new(0..0, length);
            profile.assemble().is_ok()
        };
        least_that(0, most.checked_sub(1)?, without).map(|less| MIB * (most - less))
    }

    /// Returns the number of groups of dies that blocks are spread over.
    fn groups(&self) -> u32 {
        match self.document.collection.unit.value.get_ref() {
            CollectionUnit::Superblock => 1,
            CollectionUnit::Block => *self.document.flash.dies.value.get_ref(),
        }
    }
}

/// Returns the smallest number from `low` to `high` for which `is_enough` is true, or `None`. It must be true for all
/// numbers above one for which it is true.
fn least_that(low: u64, high: u64, is_enough: impl Fn(u64) -> bool) -> Option<u64> {
    if low > high || !is_enough(high) {
        return None;
    }
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{DEFAULT, embedded};

    /// Returns the size that an error offers for `key`.
    fn offered(error: &str, key: &str) -> Option<String> {
        let (_, rest) = error.split_once(&format!("{key}="))?;
        let (_, rest) = rest.split_once(&format!("{key}="))?;
        Some(rest.split(" or ").next()?.to_owned())
    }

    #[test]
    fn every_size_that_an_error_offers_works_and_the_next_worse_does_not() {
        for (name, _) in embedded() {
            let mut profile = Profile::named(name).unwrap();
            profile.set("capacity.logical", "4G").unwrap();
            profile.set("capacity.physical", "4500M").unwrap();
            let Err(error) = profile.check() else { continue };
            let error = error.to_string();
            if !error.contains("too little spare area") {
                // An extent table, or log blocks, that another key makes room for.
                continue;
            }
            assert!(!error.contains("unit") && !error.contains("..="), "{error}");
            let physical = offered(&error, "capacity.physical");
            let logical = offered(&error, "capacity.logical");
            assert!(physical.is_some() || logical.is_some(), "{name}: {error}");
            for (key, size) in [("capacity.physical", physical), ("capacity.logical", logical)] {
                let Some(size) = size else { continue };
                let mut mended = profile.clone();
                mended.set(key, &size).unwrap();
                mended.check().unwrap_or_else(|error| panic!("{name}: {key}={size}: {error}"));
                let length = crate::text::parse_length(&size).unwrap();
                let worse = match key {
                    "capacity.physical" => length - MIB,
                    _ => length + MIB,
                };
                mended.set(key, &exact_length(worse)).unwrap();
                assert!(mended.check().is_err(), "{name}: {key}={worse} works as well");
            }
        }
    }

    #[test]
    fn a_drive_of_hardly_any_blocks_is_told_the_least() {
        let mut profile = Profile::named(DEFAULT).unwrap();
        profile.set("capacity.logical", "100M").unwrap();
        profile.set("capacity.physical", "800M").unwrap();
        let error = profile.check().unwrap_err().to_string();
        assert!(error.contains("capacity.physical=800 MiB leaves too little"), "{error}");
        assert!(error.contains("superblocks (a block of each die) of 384 MiB"), "{error}");
        assert!(error.contains("capacity.physical=") && error.contains("scale=1/64"), "{error}");
    }

    #[test]
    fn the_least_is_found() {
        for least in 0..20 {
            assert_eq!(least_that(0, 19, |it| it >= least), (least < 20).then_some(least));
        }
        assert_eq!(least_that(3, 2, |_| true), None);
    }
}
