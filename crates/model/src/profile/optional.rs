//! Builds optional mechanisms from the sections of a profile.

use super::keywords::LevellingName;
use super::{CollectionUnit, Profile, ProfileError};
use crate::bad_blocks::BadBlockParameters;
use crate::health::WearParameters;
use crate::mapping::MappingScheme;
use crate::retention::RetentionParameters;
use crate::slc::{SlcParameters, SlcSpace};
use crate::trim::TrimParameters;
use crate::units::{ByteLength, Nanoseconds, Sector, SectorCount};
use crate::wear_levelling::LevellingParameters;

impl Profile {
    /// Returns the parameters of wear, wear levelling and bad blocks.
    pub(super) fn wear(&self) -> Result<WearParameters, ProfileError> {
        let wear = &self.document.wear;
        let every = *wear.static_every.value.get_ref();
        let levelling = match *wear.levelling.value.get_ref() {
            LevellingName::Off => LevellingParameters::Off,
            LevellingName::Dynamic => LevellingParameters::Dynamic,
            LevellingName::Static if every == 0 => {
                return Err(self.inconsistent(
                    "wear.levelling is static, which needs wear.static_every, the erases between \
                     two checks of wear"
                        .to_owned(),
                ));
            }
            LevellingName::Static => {
                let spread = *wear.static_spread.value.get_ref();
                let apart = *wear.static_stream.value.get_ref();
                if apart {
                    self.check_stream_of_levelling()?;
                }
                LevellingParameters::Static { every, spread, apart }
            }
        };
        Ok(WearParameters {
            pe_cycles: Some(*wear.pe_cycles.value.get_ref()).filter(|&cycles| cycles > 0),
            levelling,
            bad_blocks: self.bad_blocks()?,
        })
    }

    /// Refuses a write stream for wear levelling if the drive can have none.
    fn check_stream_of_levelling(&self) -> Result<(), ProfileError> {
        let d = &self.document;
        let streams = *d.streams.count.value.get_ref() + 1;
        let low_water = *d.collection.low_water.value.get_ref();
        let wrong = if *d.mapping.scheme.value.get_ref() == MappingScheme::Extent {
            "does not work with mapping.scheme=extent, as the model compacts extents for one \
             stream only; set mapping.scheme to page"
                .to_owned()
        } else if low_water <= streams {
            format!(
                "makes {streams} streams of copies, each of which may need a free block: \
                 collection.low_water is {low_water}, and must be above {streams}"
            )
        } else {
            return Ok(());
        };
        Err(self.inconsistent(format!("wear.static_stream {wrong}")))
    }

    fn bad_blocks(&self) -> Result<Option<BadBlockParameters>, ProfileError> {
        let wear = &self.document.wear;
        let life = *wear.life.value.get_ref();
        if life == 0 {
            return Ok(None);
        }
        let shape = *wear.life_shape.value.get_ref();
        let reserve = *wear.reserve.value.get_ref();
        let retire_most = *wear.retire_most.value.get_ref();
        let factory = (wear.factory_bad.value.get_ref() * self.blocks_per_die()).ceil() as u32;
        let wrong = if shape == 0.0 {
            "needs wear.life_shape, the Weibull shape of block failures".to_owned()
        } else if reserve == 0 && retire_most == 0.0 {
            "makes blocks go bad, and nothing replaces them: set wear.reserve or wear.retire_most"
                .to_owned()
        } else if factory > reserve {
            format!(
                "needs wear.reserve={factory} or more: wear.factory_bad makes {factory} blocks of \
                 each die bad, and wear.reserve is {reserve}"
            )
        } else {
            let (reserve, threshold) = (reserve - factory, *wear.spare_threshold.value.get_ref());
            let threshold = threshold as u8;
            return Ok(Some(BadBlockParameters { life, shape, reserve, retire_most, threshold }));
        };
        Err(self.inconsistent(format!("wear.life {wrong}")))
    }

    /// Returns the parameters of retention; `None` if data does not age.
    pub(super) fn retention(&self) -> Result<Option<RetentionParameters>, ProfileError> {
        let d = &self.document;
        let retry = d.retention.retry.value.get_ref().0;
        if retry == Nanoseconds::ZERO {
            return Ok(None);
        }
        let free_for = d.retention.free_for.value.get_ref().0;
        let steps = *d.retention.steps.value.get_ref();
        let worn_steps = *d.retention.worn_steps.value.get_ref();
        let rated = Some(*d.wear.pe_cycles.value.get_ref()).filter(|&cycles| cycles > 0);
        let wrong = if free_for == Nanoseconds::ZERO {
            "needs retention.free_for, the age up to which data needs no retry"
        } else if worn_steps > 0.0 && rated.is_none() {
            "with retention.worn_steps needs wear.pe_cycles, the rated erases of a block"
        } else if worn_steps.max(steps) == 0.0 {
            "needs retention.steps, the retry steps for data that is a year old"
        } else {
            let worn_steps = if rated.is_some() && worn_steps > 0.0 { worn_steps } else { steps };
            return Ok(Some(RetentionParameters { retry, free_for, steps, worn_steps, rated }));
        };
        Err(self.inconsistent(format!("retention.retry {wrong}")))
    }

    /// Returns the number of blocks of a die, all planes of a block included.
    fn blocks_per_die(&self) -> f64 {
        let d = &self.document;
        let planes = u64::from(*d.flash.planes_per_die.value.get_ref());
        let pages = u64::from(*d.flash.pages_per_block.value.get_ref());
        let block = d.flash.page_size.value.get_ref().0 * (planes * pages);
        let dies = f64::from(*d.flash.dies.value.get_ref());
        d.capacity.physical.value.get_ref().0.whole(block) as f64 / dies
    }

    pub(super) fn trim(&self) -> Result<TrimParameters, ProfileError> {
        let trim = &self.document.trim;
        let range_most = trim.range_most.value.get_ref().0;
        if !range_most.is_multiple_of(Sector::SIZE) {
            return Err(self.inconsistent(format!(
                "trim.range_most ({range_most}) is not a whole number of sectors of 512 bytes"
            )));
        }
        let ranges_most = *trim.ranges_most.value.get_ref();
        let sectors = SectorCount::of(range_most);
        if ranges_most > 0 && sectors.0 == 0 {
            return Err(self.inconsistent(
                "trim.ranges_most limits nothing while a range can be of any length \
                 (trim.range_most=0); set trim.range_most, too"
                    .to_owned(),
            ));
        }
        let unit = self.document.controller.unit_size.value.get_ref().0;
        if ranges_most > 0 && range_most * u64::from(ranges_most) < unit {
            return Err(self.inconsistent(format!(
                "trim.ranges_most ({ranges_most}) ranges of trim.range_most ({range_most}) are less \
                 than controller.unit_size ({unit}), so that no command would trim anything; give \
                 more of either"
            )));
        }
        Ok(TrimParameters {
            command: trim.command.value.get_ref().0,
            range: trim.range.value.get_ref().0,
            per_mib: trim.per_mib.value.get_ref().0,
            ranges_most,
            range_most: sectors,
            reads_after: *trim.reads_after.value.get_ref(),
            settle: trim.settle.value.get_ref().0,
        })
    }

    pub(super) fn slc(&self) -> Result<Option<SlcParameters>, ProfileError> {
        let d = &self.document;
        let size = d.slc.size.value.get_ref().0;
        if size == ByteLength::ZERO {
            return Ok(None);
        }
        let bits = *d.slc.bits.value.get_ref();
        let shot = *d.flash.pages_per_shot.value.get_ref();
        let program = d.slc.program.value.get_ref().0;
        let page_read = d.slc.page_read.value.get_ref().0;
        let pages = *d.flash.pages_per_block.value.get_ref();
        let wrong = if !(2..=4).contains(&bits) {
            Some("slc.bits must be the bits per cell outside the cache: 2, 3 or 4")
        } else if shot != 1 && shot != bits {
            Some("slc.bits must equal flash.pages_per_shot, unless that is 1")
        } else if program == Nanoseconds::ZERO || page_read == Nanoseconds::ZERO {
            Some("slc.program and slc.page_read must be set, too")
        } else if *d.mapping.scheme.value.get_ref() == MappingScheme::Extent {
            Some(
                "mapping.scheme=extent compacts extents into blocks with all bits, without a \
                 cache; set mapping.scheme to page or cached",
            )
        } else if *d.streams.hot_blocks.value.get_ref() > 0.0 {
            Some("streams.hot_blocks keeps blocks for hot data, too; leave one of the two out")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(self.inconsistent(format!("slc.size is set, and {wrong}")));
        }
        let (dies, block_word) = match *d.collection.unit.value.get_ref() {
            CollectionUnit::Superblock => (*d.flash.dies.value.get_ref(), "superblocks"),
            CollectionUnit::Block => (1, "blocks"),
        };
        let planes = u64::from(*d.flash.planes_per_die.value.get_ref());
        let used = u64::from(pages / bits);
        if used == 0 {
            return Err(self.inconsistent(format!(
                "slc.size is set, and flash.pages_per_block ({pages}) is less than \
                 slc.bits ({bits}): a block in SLC mode would hold nothing; choose larger blocks, \
                 or scale the drive less"
            )));
        }
        let row = d.flash.page_size.value.get_ref().0 * (u64::from(dies) * planes);
        let block = row * used;
        let blocks = size.whole(block);
        if blocks < 2 {
            return Err(self.inconsistent(format!(
                "slc.size ({size}) is less than two {block_word} in SLC mode of {block}; make it \
                 larger, or scale the drive less"
            )));
        }
        let most = d.capacity.physical.value.get_ref().0.whole(row * u64::from(pages));
        if blocks > most {
            return Err(self.inconsistent(format!(
                "slc.size ({size}) takes {blocks} {block_word} in SLC mode of {block}, and \
                 capacity.physical has {most}; make it {} at most",
                block * most
            )));
        }
        let fixed = d.slc.fixed.value.get_ref().0;
        let space = *d.slc.space.value.get_ref();
        if fixed > size || fixed > ByteLength::ZERO && space == SlcSpace::Fixed {
            return Err(self.inconsistent(format!(
                "slc.fixed ({fixed}) is the permanent part of a dynamic cache: it needs \
                 slc.space=dynamic, and must be at most slc.size ({size})"
            )));
        }
        Ok(Some(SlcParameters {
            blocks: blocks.min(u32::MAX.into()) as u32,
            fixed: fixed.whole(block).min(blocks) as u32,
            bits,
            space,
            when_full: *d.slc.when_full.value.get_ref(),
            program,
            page_read,
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{DEFAULT, Profile};

    #[test]
    fn an_slc_cache_that_no_block_can_be_part_of_is_refused() {
        let cache = [
            ("slc.size", "25 GB"),
            ("slc.space", "dynamic"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "30us"),
        ];
        let check = |changes: &[(&str, &str)]| {
            let mut profile = Profile::named(DEFAULT).expect("the default profile");
            for (key, value) in cache.iter().chain(changes) {
                profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
            }
            profile.check().map_err(|error| error.to_string())
        };
        check(&[]).unwrap();
        for (changes, expected) in [
            (&[("flash.pages_per_shot", "1"), ("flash.pages_per_block", "2")][..], "hold nothing"),
            (&[("flash.pages_per_shot", "1"), ("scale", "1/4096")], "scale the drive less"),
            (&[("slc.size", "64K"), ("scale", "1/4096")], "less than two superblocks"),
            (&[("slc.size", "40T")], "capacity.physical has "),
        ] {
            let error = check(changes).unwrap_err();
            assert!(error.contains("slc.size") && error.contains(expected), "{error}");
        }
    }
}
