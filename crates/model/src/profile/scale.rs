//! Scaling (`scale=1/64`): a large drive made small, with fewer units and blocks smaller by the same factor. So the
//! number of blocks stays the same, and the same share of them is over-provisioning, open or kept free.
//!
//! Dies, channels, pages, program units and the times of reads and programs stay as they are. The time of an erase
//! shrinks with the block, so that erases take the same share of a die's time. The cached part of a map, an extent
//! table, a pseudo-SLC cache, the data written between two checkpoints and the data moved until the drive is hot
//! shrink with the drive. The reserve of blocks that replace bad ones stays the same share of all blocks. So rates,
//! latencies, write amplification and shares stay as they are; volumes and the time to fill the drive shrink by the
//! factor. These change a little: write amplification depends on units per block if these are few (below a few
//! hundred), and reads that meet an erase wait for a shorter time, but more often. The write buffer, with the data
//! that waits in it to be coalesced, keeps its size, so that it is a larger share of the drive.

use toml::Spanned;

use super::{Basis, Length, Profile, ProfileError, Sourced, Span};
use crate::text::QuantityError;
use crate::units::{ByteLength, Nanoseconds};

/// Largest divisor of a scale.
const DIVISOR_MAX: u64 = 4096;

impl Profile {
    /// Scales the drive to `1/N` of its size.
    pub(super) fn scale(&mut self, text: &str) -> Result<(), ProfileError> {
        let divisor = text.trim().strip_prefix("1/").and_then(|it| it.trim().parse::<u64>().ok());
        let divisor = divisor.filter(|divisor| (1..=DIVISOR_MAX).contains(divisor));
        let divisor = divisor.ok_or_else(|| ProfileError::Value {
            key: "scale".to_owned(),
            source: QuantityError {
                text: text.to_owned(),
                expected: "a scale from 1/1 to 1/4096, such as 1/64",
            },
        })?;
        let document = &mut self.document;
        let shot = (*document.flash.pages_per_shot.value.get_ref()).max(1);
        let shots = u64::from(document.flash.pages_per_block.value.get_ref() / shot);
        // At least one shot; if blocks cannot shrink enough, their number is reduced instead.
        let new_shots = ((shots + divisor / 2) / divisor).max(1);
        let pages = new_shots as u32 * shot;
        let erase = document.flash.erase.value.get_ref().0.nanos() * new_shots / shots.max(1);
        let erase = Nanoseconds::new(erase.max(1_000));
        follow(&mut document.flash.pages_per_block, pages, text);
        follow(&mut document.flash.erase, Span(erase), text);
        // As many reserve blocks per block as before.
        let reserve = *document.wear.reserve.value.get_ref();
        if reserve > 0 {
            let blocks = u64::from(reserve) * shots.max(1);
            let reserve = (blocks / (divisor * new_shots)).max(1) as u32;
            follow(&mut document.wear.reserve, reserve, text);
        }
        let unit = document.controller.unit_size.value.get_ref().0;
        for capacity in [&mut document.capacity.logical, &mut document.capacity.physical] {
            let units = capacity.value.get_ref().0.whole(unit) / divisor;
            follow(capacity, Length(unit * units), text);
        }
        let mapping = &mut document.mapping;
        for length in [
            &mut mapping.cache,
            &mut mapping.table,
            &mut mapping.checkpoint,
            &mut document.slc.size,
            &mut document.slc.fixed,
            &mut document.thermal.limit,
        ] {
            let bytes = length.value.get_ref().0.bytes();
            if length.basis != Basis::Absent && bytes > 0 {
                // At least one byte: zero would mean that the drive never had it.
                let smaller = ByteLength::new((bytes / divisor).max(1));
                follow(length, Length(smaller), text);
            }
        }
        Ok(())
    }
}

fn follow<T>(sourced: &mut Sourced<T>, value: T, scale: &str) {
    sourced.value = Spanned::new(0..0, value);
    sourced.basis = Basis::Given;
    sourced.source = format!("follows from the scale of {scale}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;
    use crate::profile::embedded;

    #[test]
    fn a_smaller_drive_has_the_same_shares() {
        for (name, _) in embedded() {
            let whole = Profile::named(name).unwrap();
            let mut small = whole.clone();
            // A smaller extent table holds less than each region needs.
            let has_table = whole.document.mapping.table.basis != Basis::Absent;
            let divisor = if has_table { 8.0 } else { 16.0 };
            small.set("scale", &format!("1/{divisor}")).unwrap();
            small.check().unwrap_or_else(|error| panic!("{error}"));
            let (whole, small) = (whole.configuration().unwrap(), small.configuration().unwrap());
            let (was, is) = (&whole.geometry, &small.geometry);
            let smaller = was.capacity().bytes() as f64 / is.capacity().bytes() as f64;
            assert!((smaller / divisor - 1.0).abs() < 0.001, "{name}: {smaller}");
            assert_eq!((was.dies(), was.units_per_program()), (is.dies(), is.units_per_program()));
            let spare = was.spare_of_physical() - is.spare_of_physical();
            assert!(spare.abs() < 0.005, "{name}: spare differs by {spare}");
            let blocks = f64::from(is.blocks()) / f64::from(was.blocks());
            assert!((0.8..1.25).contains(&blocks), "{name}: {blocks} times as many blocks");
            let share = |it: &crate::Configuration| {
                it.timing.erase.nanos() as f64 / f64::from(it.geometry.units_per_block())
            };
            assert!((share(&small) / share(&whole) - 1.0).abs() < 0.01, "{name}");
        }
    }

    #[test]
    fn a_table_of_extents_and_an_slc_cache_keep_their_shares() {
        let check = |name: &str, changes: &[(&str, &str)], part: fn(&Configuration) -> f64| {
            let mut profile = Profile::named(name).unwrap();
            for (key, value) in changes {
                profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
            }
            let whole = profile.configuration().unwrap_or_else(|error| panic!("{error}"));
            profile.set("scale", "1/4").unwrap();
            let small = profile.configuration().unwrap_or_else(|error| panic!("{error}"));
            let shares = part(&small) / part(&whole);
            assert!(part(&whole) > 0.0 && (0.95..1.05).contains(&shares), "{name}: {shares}");
        };
        let slc = [
            ("slc.size", "25 GB"),
            ("slc.space", "dynamic"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "30us"),
        ];
        check(crate::profile::DEFAULT, &slc, |it| {
            let slc = it.mechanisms.slc.expect("a cache");
            f64::from(slc.blocks) / f64::from(it.geometry.blocks())
        });
        check("kingston-v-64", &[], |it| {
            f64::from(it.mechanisms.extents.extents_max) / f64::from(it.geometry.logical_units())
        });
        let mut small = Profile::named("kingston-v-64").unwrap();
        small.set("scale", "1/64").unwrap();
        let error = small.check().unwrap_err().to_string();
        assert!(error.contains("mapping.table more RAM, or scale the drive less"), "{error}");
    }

    #[test]
    fn the_map_is_saved_as_often_for_what_the_drive_holds() {
        let mut profile = Profile::named(crate::profile::DEFAULT).unwrap();
        profile.set("collection.metadata_units", "64").unwrap();
        profile.set("mapping.checkpoint", "64 GB").unwrap();
        let per_capacity = |profile: &Profile| {
            let configuration = profile.configuration().unwrap_or_else(|error| panic!("{error}"));
            let every = configuration.mechanisms.checkpoint.expect("checkpoints").every_units;
            every as f64 / f64::from(configuration.geometry.logical_units())
        };
        let whole = per_capacity(&profile);
        profile.set("scale", "1/16").unwrap();
        let small = per_capacity(&profile);
        assert!((small / whole - 1.0).abs() < 0.01, "{small}, not {whole}");
    }

    /// Lengths that a scale leaves as they are: sizes of a part rather than of the whole drive, and of a host
    /// request.
    const KEPT: [&str; 7] = [
        "flash.page_size",
        "controller.unit_size",
        "controller.write_buffer",
        "controller.coalescing",
        "read_ahead.window",
        "read_ahead.segment",
        "trim.range_most",
    ];

    #[test]
    fn every_length_shrinks_or_is_known_to_stay() {
        let mut profile = Profile::named(crate::profile::DEFAULT).unwrap();
        let mut lengths = 0;
        for key in crate::profile::parameter_keys() {
            let is_length = |profile: &mut Profile| profile.set(key, "64 MiB").is_ok();
            if !is_length(&mut profile.clone()) {
                continue;
            }
            lengths += 1;
            profile.set(key, "64 MiB").unwrap();
            let shown = |profile: &Profile| {
                let all = profile.parameters();
                all.into_iter().find(|it| it.key == *key).expect("it was set").value
            };
            let mut small = profile.clone();
            small.set("controller.unit_size", "4K").unwrap();
            // Unlike `set`, this does not check the result.
            small.scale("1/16").unwrap();
            if *key != "controller.unit_size" {
                let expected = if KEPT.contains(key) { "64 MiB" } else { "4 MiB" };
                assert_eq!(shown(&small), expected, "{key}");
            }
        }
        assert!(lengths >= 14, "only {lengths} lengths among the parameters");
    }

    #[test]
    fn a_scale_of_units_without_a_size_is_refused() {
        for (key, value) in [("scale", "1/64"), ("spare", "7%"), ("spare_of_logical", "7%")] {
            let mut profile = Profile::named(crate::profile::DEFAULT).unwrap();
            profile.set("controller.unit_size", "0").unwrap();
            let error = profile.set(key, value).unwrap_err().to_string();
            assert!(error.contains("controller.unit_size is 0 B, not within"), "{error}");
        }
    }

    #[test]
    fn a_drive_that_cannot_be_is_not_scaled() {
        for (key, value) in [
            ("flash.pages_per_block", "0"),
            ("flash.erase", "0"),
            ("wear.reserve", "9999999"),
            ("capacity.physical", "70T"),
        ] {
            let mut profile = Profile::named(crate::profile::DEFAULT).unwrap();
            profile.set(key, value).unwrap();
            let whole = profile.check().unwrap_err().to_string();
            let scaled = profile.set("scale", "1/256").unwrap_err().to_string();
            assert_eq!(scaled, whole);
        }
    }

    #[test]
    fn a_scale_is_one_in_so_many() {
        let mut profile = Profile::named(crate::profile::DEFAULT).unwrap();
        for wrong in ["64", "1/0", "2/3", "1/5000", "1/"] {
            let error = profile.clone().set("scale", wrong).unwrap_err().to_string();
            assert!(error.contains("such as 1/64"), "{wrong}: {error}");
        }
        profile.set("scale", "1/64").unwrap();
        profile.set("spare", "28%").unwrap();
        profile.check().unwrap();
        assert!(
            (profile.configuration().unwrap().geometry.spare_of_physical() - 0.28).abs() < 0.01
        );
    }
}
