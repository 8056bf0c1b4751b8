//! Builds the configuration of a drive from a profile.

use super::keywords::{PacingName, PolicyName};
use super::parameters::Quantity;
use super::{CollectionUnit, DeliveryOrder, Profile, ProfileError, Sourced, Span};
use crate::collection::CollectionParameters;
use crate::data_time::DataTime;
use crate::flush::FlushParameters;
use crate::geometry::{Geometry, GeometryError, GeometryParameters};
use crate::journal::JournalParameters;
use crate::mapping::MappingScheme;
use crate::mechanisms::Mechanisms;
use crate::policy::{Allocation, CopiesTo, CopyRatio, Pacing, VictimPolicy};
use crate::read_ahead::ReadAheadParameters;
use crate::ssd::{BufferParameters, Configuration};
use crate::streams::StreamParameters;
use crate::text::exact_length;
use crate::thermal::ThermalParameters;
use crate::timing::{Delivery, Timing, TransferRate};
use crate::units::{ByteLength, Nanoseconds};
use ssdlab_nand::suspend::{SuspendParameters, Suspendable};
use ssdlab_theory::Choices;

impl Profile {
    /// Returns the configuration that the profile describes.
    pub fn configuration(&self) -> Result<Configuration, ProfileError> {
        self.assemble().map_err(|error| match error {
            ProfileError::Geometry { source, .. } => self.geometry_error(source),
            other => other,
        })
    }

    /// Returns the configuration, or the first error in it.
    pub(super) fn assemble(&self) -> Result<Configuration, ProfileError> {
        let geometry = self.geometry()?;
        let d = &self.document;
        let unit = geometry.unit_size();
        let buffer_units = d.controller.write_buffer.value.get_ref().0.whole(unit);
        let program_units = u64::from(geometry.units_per_program());
        // Static allocation has a program unit open in each group of dies.
        let groups = match *d.collection.allocation.value.get_ref() {
            Allocation::Dynamic => 1,
            Allocation::Static => u64::from(geometry.groups()),
        };
        let open = groups * u64::from(*d.streams.count.value.get_ref());
        if buffer_units < (1 + open) * program_units || buffer_units > u64::from(u32::MAX) {
            let least = unit * ((1 + open) * program_units);
            let most = unit * u64::from(u32::MAX);
            return Err(self.inconsistent(if buffer_units > u64::from(u32::MAX) {
                format!("controller.write_buffer is too large; the most is {most}")
            } else {
                format!(
                    "controller.write_buffer is {}, and the least is {}: {} program operations of \
                     {} each",
                    exact_length(d.controller.write_buffer.value.get_ref().0),
                    exact_length(least),
                    1 + open,
                    exact_length(unit * program_units)
                )
            }));
        }
        let segment = d.read_ahead.segment.value.get_ref().0;
        if !segment.is_multiple_of(unit) {
            return Err(self.inconsistent(format!(
                "read_ahead.segment ({segment}) is not a whole number of units of {unit}"
            )));
        }
        let window = d.read_ahead.window.value.get_ref().0;
        if window > ByteLength::ZERO && window <= segment {
            return Err(self.inconsistent(format!(
                "read_ahead.window ({window}) is not above read_ahead.segment ({segment}), so that \
                 nothing would be read ahead; 0 switches read-ahead off"
            )));
        }
        let configuration = Configuration {
            timing: self.timing(),
            buffer: BufferParameters {
                units: buffer_units as u32,
                protected: *d.controller.power_loss_protection.value.get_ref(),
                coalesced: self.coalesced(buffer_units - (1 + open) * program_units)?,
                idle_before_flush: d.controller.idle_before_flush.value.get_ref().0,
            },
            read_ahead: ReadAheadParameters {
                window: window.whole(unit) as u32,
                segment: segment.whole(unit) as u32,
                trigger: *d.read_ahead.trigger.value.get_ref(),
            },
            collection: CollectionParameters {
                low_water: *d.collection.low_water.value.get_ref(),
                idle_high_water: *d.collection.idle_high_water.value.get_ref(),
                debt_max: *d.collection.debt_max.value.get_ref(),
            },
            trim: *d.controller.trim.value.get_ref(),
            mechanisms: self.mechanisms()?,
            geometry,
        };
        configuration.check_spare().map_err(|source| self.misshapen(source))?;
        configuration.check_mapping().map_err(|source| self.misshapen(source))?;
        Ok(configuration)
    }

    fn geometry(&self) -> Result<Geometry, ProfileError> {
        let d = &self.document;
        let dies = *d.flash.dies.value.get_ref();
        let unit_size = d.controller.unit_size.value.get_ref().0;
        let (page_size, planes_per_die) = self.pages_of_units()?;
        let stripe = match d.collection.unit.value.get_ref() {
            CollectionUnit::Superblock => dies,
            CollectionUnit::Block => 1,
        };
        let physical = d.capacity.physical.value.get_ref().0;
        let collection_unit = self.block_length();
        let groups = u64::from(dies / stripe);
        let metadata = u64::from(*d.collection.metadata_units.value.get_ref());
        let reserve = u64::from(*d.wear.reserve.value.get_ref()) * groups;
        // Flash is counted in whole blocks, and each group of dies has the same number of them.
        let whole = physical.whole(collection_unit);
        let units = whole.saturating_sub(metadata + reserve) / groups * groups;
        let logical_bytes = d.capacity.logical.value.get_ref().0;
        let logical = logical_bytes.whole(unit_size);
        let counted = |what: &str, bytes: ByteLength, count: u64| {
            u32::try_from(count).map_err(|_| {
                let least = bytes.covering(ByteLength::new(u32::MAX.into())).next_power_of_two();
                self.inconsistent(format!(
                    "{what} is {}, and the most with controller.unit_size={} is 2^32 units; take \
                     controller.unit_size={} or more",
                    exact_length(bytes),
                    exact_length(unit_size),
                    exact_length(ByteLength::new(least))
                ))
            })
        };
        Geometry::new(GeometryParameters {
            channels: *d.flash.channels.value.get_ref(),
            dies,
            planes_per_die,
            multi_plane_read: *d.flash.multi_plane_read.value.get_ref(),
            pages_per_shot: *d.flash.pages_per_shot.value.get_ref(),
            pages_per_block: *d.flash.pages_per_block.value.get_ref(),
            page_size,
            unit_size,
            dies_per_collection_unit: stripe,
            collection_units: counted("capacity.physical", physical, units)?,
            metadata_collection_units: metadata as u32,
            reserve_collection_units: reserve.min(u32::MAX.into()) as u32,
            logical_units: counted("capacity.logical", logical_bytes, logical)?,
        })
        .map_err(|source| self.misshapen(source))
    }

    /// Returns the size of a page and the number of planes of a die. A mapping unit that is larger than a page lies
    /// on several planes of one die, which are programmed and sensed together: these count as one plane with larger
    /// pages.
    fn pages_of_units(&self) -> Result<(ByteLength, u32), ProfileError> {
        let d = &self.document;
        let page = d.flash.page_size.value.get_ref().0;
        let planes = *d.flash.planes_per_die.value.get_ref();
        let unit = d.controller.unit_size.value.get_ref().0;
        if unit <= page {
            return Ok((page, planes));
        }
        let together = unit.whole(page);
        if page * together != unit || !u64::from(planes).is_multiple_of(together) {
            return Err(self.inconsistent(format!(
                "controller.unit_size is {}, and a unit that is larger than a page (flash.page_size={}) lies on \
                 planes of one die, of which there are {planes}: take a unit of {} or less, or another \
                 flash.planes_per_die",
                exact_length(unit),
                exact_length(page),
                exact_length(page * u64::from(planes)),
            )));
        }
        Ok((unit, planes / together as u32))
    }

    fn timing(&self) -> Timing {
        let d = &self.document;
        let rate = |mb_per_second| TransferRate::from_mb_per_second(mb_per_second);
        Timing {
            page_read: d.flash.page_read.value.get_ref().0,
            program: d.flash.program.value.get_ref().0,
            erase: d.flash.erase.value.get_ref().0,
            channel: rate(*d.flash.channel_mb_per_second.value.get_ref()),
            link: rate(*d.link.mb_per_second.value.get_ref()),
            link_full_duplex: *d.link.full_duplex.value.get_ref(),
            delivery: match d.link.delivery.value.get_ref() {
                DeliveryOrder::InOrder => Delivery::InOrder,
                DeliveryOrder::AnyOrder => Delivery::AnyOrder,
                DeliveryOrder::WhenComplete => Delivery::WhenComplete,
            },
            command_latency: d.controller.command_latency.value.get_ref().0,
            command_occupancy: d.controller.command_occupancy.value.get_ref().0,
        }
    }

    fn mechanisms(&self) -> Result<Mechanisms, ProfileError> {
        self.check_switches()?;
        let (mapping, map_cache_pages, log_blocks) = self.mapping()?;
        let mechanisms = Mechanisms {
            mapping,
            map_cache_pages,
            map_cache_read: self.document.mapping.cache_read.value.get_ref().0,
            extents: self.extents()?,
            checkpoint: self.checkpoint()?,
            log_blocks,
            flush: self.flush()?,
            victims: self.victims()?,
            rotation: *self.document.collection.rotation.value.get_ref(),
            allocation: self.allocation()?,
            copies: self.copies()?,
            pacing: self.pacing()?,
            streams: self.streams()?,
            wear: self.wear()?,
            retention: self.retention()?,
            seed: self.seed,
            suspend: self.suspend()?,
            page_read_spread: self.page_read_spread()?,
            page_register: *self.document.flash.page_register.value.get_ref(),
            copy_overhead: self.document.collection.read_overhead.value.get_ref().0,
            copy_occupancy: self.document.collection.copy_occupancy.value.get_ref().0,
            copies_word_lines: *self.document.collection.word_line_reads.value.get_ref(),
            thermal: self.thermal()?,
            data_time: self.data_time(),
            trim: self.trim()?,
            slc: self.slc()?,
        };
        self.check_copies()?;
        self.check_mechanisms(&mechanisms)?;
        Ok(mechanisms)
    }

    /// Refuses keys about reads for copies that would have no effect.
    fn check_copies(&self) -> Result<(), ProfileError> {
        let d = &self.document;
        let has_word_lines = *d.collection.word_line_reads.value.get_ref();
        let is_some = |span: &Sourced<Span>| span.value.get_ref().0 > Nanoseconds::ZERO;
        let without_effect = [
            ("read_overhead", is_some(&d.collection.read_overhead)),
            ("copy_occupancy", is_some(&d.collection.copy_occupancy)),
            ("word_line_reads", has_word_lines),
        ];
        let is_extent = *d.mapping.scheme.value.get_ref() == MappingScheme::Extent;
        if let Some((key, _)) = without_effect.iter().find(|(_, is_on)| is_extent && *is_on) {
            return Err(self.inconsistent(format!(
                "collection.{key} has no effect with mapping.scheme=extent, which compacts whole \
                 extents; leave it out, or set mapping.scheme to page"
            )));
        }
        if has_word_lines && *d.flash.pages_per_shot.value.get_ref() == 1 {
            return Err(self.inconsistent(
                "collection.word_line_reads needs several pages in a program, and \
                 flash.pages_per_shot is 1; set flash.pages_per_shot to 2 or more, or leave \
                 collection.word_line_reads out"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn page_read_spread(&self) -> Result<f64, ProfileError> {
        let flash = &self.document.flash;
        let spread = *flash.page_read_spread.value.get_ref();
        if spread > 0.0 && *flash.pages_per_shot.value.get_ref() == 1 {
            return Err(self.inconsistent(
                "flash.page_read_spread needs several pages in a program, and \
                 flash.pages_per_shot is 1; set flash.page_read_spread to 0"
                    .to_owned(),
            ));
        }
        Ok(spread)
    }

    fn thermal(&self) -> Result<Option<ThermalParameters>, ProfileError> {
        let thermal = &self.document.thermal;
        let (limit, rate) =
            (thermal.limit.value.get_ref().0, thermal.mb_per_second.value.get_ref());
        if limit == ByteLength::ZERO {
            return Ok(None);
        }
        if *rate < 1.0 {
            return Err(self.inconsistent(
                "thermal.limit needs thermal.mb_per_second, the rate that the drive sustains: at \
                 least 1 MB/s"
                    .to_owned(),
            ));
        }
        Ok(Some(ThermalParameters { limit, rate: TransferRate::from_mb_per_second(*rate) }))
    }

    fn data_time(&self) -> DataTime {
        let controller = &self.document.controller;
        let rate = *controller.mb_per_second.value.get_ref();
        DataTime {
            controller: (rate > 0.0).then(|| TransferRate::from_mb_per_second(rate)),
            per_mib: controller.latency_per_mib.value.get_ref().0,
        }
    }

    fn suspend(&self) -> Result<SuspendParameters, ProfileError> {
        let flash = &self.document.flash;
        let parameters = SuspendParameters {
            operations: *flash.suspend.value.get_ref(),
            step: flash.suspend_step.value.get_ref().0,
            suspend: flash.suspend_time.value.get_ref().0,
            resume: flash.resume_time.value.get_ref().0,
            most: *flash.suspends_most.value.get_ref(),
            when: *flash.suspend_when.value.get_ref(),
        };
        if parameters.operations != Suspendable::Off && parameters.most == 0 {
            return Err(self.inconsistent(
                "flash.suspend needs flash.suspends_most, which is 0; set it to 1 or more, or \
                 flash.suspend to off"
                    .to_owned(),
            ));
        }
        Ok(parameters)
    }

    fn flush(&self) -> Result<FlushParameters, ProfileError> {
        let d = &self.document;
        let program = match d.flush.journal_program.value.get_ref().0 {
            Nanoseconds::ZERO => d.flash.program.value.get_ref().0,
            program => program,
        };
        let journal = *d.flush.journal.value.get_ref();
        if journal && *d.collection.metadata_units.value.get_ref() < 2 {
            return Err(self.inconsistent(
                "flush.journal needs collection.metadata_units of at least 2: one is written to \
                 while the other is erased"
                    .to_owned(),
            ));
        }
        Ok(FlushParameters {
            handling: *d.controller.flush.value.get_ref(),
            write_cache: *d.controller.write_cache.value.get_ref(),
            overhead: d.flush.overhead.value.get_ref().0,
            journal: journal.then_some(JournalParameters { program }),
        })
    }

    fn victims(&self) -> Result<VictimPolicy, ProfileError> {
        let (policy, choices) =
            (&self.document.collection.policy, &self.document.collection.choices);
        let choices = Choices::new(*choices.value.get_ref()).ok();
        match (*policy.value.get_ref(), choices) {
            (PolicyName::Greedy, None) => Ok(VictimPolicy::Greedy),
            (PolicyName::Fifo, None) => Ok(VictimPolicy::Fifo),
            (PolicyName::Random, None) => Ok(VictimPolicy::Random),
            (PolicyName::CostBenefit, None) => Ok(VictimPolicy::CostBenefit),
            (PolicyName::DChoices, Some(choices)) => Ok(VictimPolicy::DChoices(choices)),
            (PolicyName::DChoices, None) => Err(self.inconsistent(
                "collection.policy is d-choices, which needs collection.choices, the number of \
                 blocks compared for each victim"
                    .to_owned(),
            )),
            (policy, Some(_)) => Err(self.inconsistent(format!(
                "collection.choices belongs to the policy d-choices, and collection.policy is {}",
                policy.show()
            ))),
        }
    }

    /// Returns the choice of the group of dies. Static allocation needs collection units of single dies, and a buffer
    /// that survives a power cut.
    fn allocation(&self) -> Result<Allocation, ProfileError> {
        let d = &self.document;
        let allocation = *d.collection.allocation.value.get_ref();
        let wrong = if allocation == Allocation::Dynamic {
            return Ok(allocation);
        } else if *d.collection.unit.value.get_ref() == CollectionUnit::Superblock {
            "needs collection.unit=block: a superblock is filled in the order of its dies"
        } else if !*d.controller.power_loss_protection.value.get_ref() {
            "needs controller.power_loss_protection=on: the buffer holds a partly filled program unit for each \
             die, which a power cut would lose"
        } else if *d.collection.copies.value.get_ref() == CopiesTo::HostBlock {
            "needs collection.copies=own-block: with copies in the host's block, data of all dies is mixed in one \
             program unit"
        } else {
            return Ok(allocation);
        };
        Err(self.inconsistent(format!("collection.allocation=static {wrong}")))
    }

    /// Returns the destination of copies. Copies in the host's block cannot be separated by stream, folded or
    /// condensed.
    fn copies(&self) -> Result<CopiesTo, ProfileError> {
        let d = &self.document;
        let copies = *d.collection.copies.value.get_ref();
        let low_water = *d.collection.low_water.value.get_ref();
        let wrong = if copies == CopiesTo::OwnBlock {
            return Ok(copies);
        } else if *d.mapping.scheme.value.get_ref() == MappingScheme::Extent {
            "does not work with mapping.scheme=extent, whose compaction needs an open block of \
             its own; set mapping.scheme to page"
                .to_owned()
        } else if d.slc.size.value.get_ref().0 > ByteLength::ZERO {
            "would fold the SLC cache into itself, as the host's open block is in the cache; leave \
             collection.copies or slc.size out"
                .to_owned()
        } else if *d.streams.count.value.get_ref() > 1 || *d.wear.static_stream.value.get_ref() {
            "mixes all streams in one block; set streams.count to 1 and wear.static_stream to off"
                .to_owned()
        } else if low_water < 3 {
            format!(
                "lets host writes use up the space for copies, so that one more collection unit \
                 must stay free: collection.low_water is {low_water}, and must be at least 3"
            )
        } else {
            return Ok(copies);
        };
        Err(self.inconsistent(format!("collection.copies=host-block {wrong}")))
    }

    /// Returns the number of units that the write buffer keeps for coalescing; `most` units leave room for programs.
    fn coalesced(&self, most: u64) -> Result<u32, ProfileError> {
        let d = &self.document;
        let units = d
            .controller
            .coalescing
            .value
            .get_ref()
            .0
            .whole(d.controller.unit_size.value.get_ref().0);
        if units == 0 {
            return Ok(0);
        }
        let wrong = if !*d.controller.power_loss_protection.value.get_ref() {
            "needs controller.power_loss_protection=on: data held in the buffer would be lost in \
             a power cut"
                .to_owned()
        } else if *d.mapping.scheme.value.get_ref() == MappingScheme::LogBlock {
            "does not work with mapping.scheme=log-block, whose merges wait for data in the buffer"
                .to_owned()
        } else if units > most {
            let most = d.controller.unit_size.value.get_ref().0 * most;
            format!(
                "leaves too little of controller.write_buffer free: at most {} can be held",
                exact_length(most)
            )
        } else {
            return Ok(units as u32);
        };
        Err(self.inconsistent(format!("controller.coalescing {wrong}")))
    }

    fn streams(&self) -> Result<StreamParameters, ProfileError> {
        let d = &self.document;
        let share = |value: f64| (value > 0.0).then_some(value);
        let parameters = StreamParameters {
            count: *d.streams.count.value.get_ref(),
            hot_within: share(*d.streams.hot_within.value.get_ref()),
            hot_blocks: share(*d.streams.hot_blocks.value.get_ref()),
        };
        let of_two = [
            ("streams.hot_within", parameters.hot_within),
            ("streams.hot_blocks", parameters.hot_blocks),
        ];
        for (key, share) in of_two {
            if share.is_some() && parameters.count != 2 {
                return Err(self.inconsistent(format!(
                    "{key} needs a hot and a cold stream; streams.count is {}, not 2",
                    parameters.count
                )));
            }
        }
        if parameters.count == 1 {
            return Ok(parameters);
        }
        self.check_streams(&parameters)?;
        if !*d.controller.power_loss_protection.value.get_ref() {
            return Err(self.inconsistent(format!(
                "streams.count is {}, which needs controller.power_loss_protection=on: each stream \
                 holds a partly filled program unit in the buffer, which a power cut would lose",
                parameters.count
            )));
        }
        let low_water = *d.collection.low_water.value.get_ref();
        if low_water <= parameters.count {
            return Err(self.inconsistent(format!(
                "collection.low_water is {low_water}; it must be above streams.count ({}), as each \
                 stream's copies may need a block",
                parameters.count
            )));
        }
        Ok(parameters)
    }

    /// Refuses several streams if some would stay empty, or if garbage collection cannot separate them.
    fn check_streams(&self, streams: &StreamParameters) -> Result<(), ProfileError> {
        let count = streams.count;
        if streams.hot_within.is_none() {
            return Err(self.inconsistent(format!(
                "streams.count is {count}, and without streams.hot_within only the first stream is \
                 written; give it a share and set streams.count to 2, or leave streams.count out"
            )));
        }
        if *self.document.mapping.scheme.value.get_ref() == MappingScheme::Extent {
            return Err(self.inconsistent(format!(
                "streams.count is {count}, and the model compacts extents for one stream only; \
                 set streams.count to 1, or mapping.scheme to page"
            )));
        }
        let policy = self.victims()?;
        if streams.hot_blocks.is_some() && !policy.seeks_gain() {
            return Err(self.inconsistent(format!(
                "streams.hot_blocks with collection.policy {} could collect blocks without gain \
                 for ever; set collection.policy to greedy or cost-benefit, or leave \
                 streams.hot_blocks out",
                self.document.collection.policy.value.get_ref().show()
            )));
        }
        if streams.hot_blocks.is_some() && *self.document.collection.rotation.value.get_ref() > 0.0
        {
            return Err(self.inconsistent(
                "streams.hot_blocks with collection.rotation could collect blocks without gain for ever; \
                 leave one of them out"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn pacing(&self) -> Result<Pacing, ProfileError> {
        let collection = &self.document.collection;
        let low_water = *collection.low_water.value.get_ref();
        let high_water = *collection.high_water.value.get_ref();
        let ratio = CopyRatio::new(*collection.ratio.value.get_ref());
        let pacing = *collection.pacing.value.get_ref();
        match (pacing, ratio) {
            (PacingName::Paced, None) if high_water == 0 => Ok(Pacing::Paced),
            (PacingName::Paced, None) => Err(self.inconsistent(
                "collection.high_water is for collection.pacing=bursty or ratio, and \
                 collection.pacing is paced"
                    .to_owned(),
            )),
            (PacingName::Paced | PacingName::Bursty, Some(_)) => Err(self.inconsistent(format!(
                "collection.ratio belongs to collection.pacing ratio, and that is {}",
                pacing.show()
            ))),
            (PacingName::Ratio, None) => Err(self.inconsistent(
                "collection.pacing is ratio, which needs collection.ratio, the units copied for \
                 each that the host writes"
                    .to_owned(),
            )),
            (PacingName::Bursty | PacingName::Ratio, _) if high_water <= low_water => Err(self
                .inconsistent(format!(
                    "collection.pacing is {}, which needs a collection.high_water above \
                     collection.low_water ({low_water})",
                    pacing.show()
                ))),
            (PacingName::Bursty, None) => Ok(Pacing::Bursty { high_water }),
            (PacingName::Ratio, Some(copies)) => Ok(Pacing::Ratio { copies, high_water }),
        }
    }

    pub(super) fn inconsistent(&self, message: String) -> ProfileError {
        ProfileError::Inconsistent { origin: self.origin.clone(), message }
    }

    fn misshapen(&self, source: GeometryError) -> ProfileError {
        ProfileError::Geometry { origin: self.origin.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::DEFAULT;
    use crate::units::KIB;

    /// Returns the configuration of the default profile with changes, or the error message.
    fn changed(changes: &[(&str, &str)]) -> Result<Configuration, String> {
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        for (key, value) in changes {
            profile.set(key, value).map_err(|error| error.to_string())?;
        }
        profile.check().map_err(|error| error.to_string())?;
        profile.configuration().map_err(|error| error.to_string())
    }

    #[test]
    fn a_profile_that_names_no_policy_is_greedy_and_paced() {
        let mechanisms = changed(&[]).unwrap().mechanisms;
        assert_eq!(mechanisms.victims, VictimPolicy::Greedy);
        assert_eq!(mechanisms.pacing, Pacing::Paced);
    }

    #[test]
    fn a_unit_larger_than_a_page_lies_on_planes_of_one_die() {
        let planes = |planes, unit| {
            let changes = [("flash.planes_per_die", planes), ("controller.unit_size", unit)];
            changed(&changes).map(|it| it.geometry.parameters().clone())
        };
        let (plain, large) = (planes("4", "4KiB").unwrap(), planes("4", "32KiB").unwrap());
        assert_eq!((plain.page_size, plain.planes_per_die), (KIB * 16, 4));
        assert_eq!((large.page_size, large.planes_per_die), (KIB * 32, 2));
        let all = planes("4", "64KiB").unwrap();
        assert_eq!((all.page_size, all.planes_per_die), (KIB * 64, 1));
        let refused = planes("2", "64KiB").unwrap_err();
        assert!(refused.contains("there are 2: take a unit of 32 KiB or less"), "{refused}");
    }

    #[test]
    fn every_policy_has_a_name() {
        for (name, policy) in [
            ("greedy", VictimPolicy::Greedy),
            ("fifo", VictimPolicy::Fifo),
            ("random", VictimPolicy::Random),
            ("cost-benefit", VictimPolicy::CostBenefit),
        ] {
            let mechanisms = changed(&[("collection.policy", name)]).unwrap().mechanisms;
            assert_eq!(mechanisms.victims, policy);
        }
        let ten = [("collection.policy", "d-choices"), ("collection.choices", "10")];
        let policy = VictimPolicy::DChoices(Choices::new(10).unwrap());
        assert_eq!(changed(&ten).unwrap().mechanisms.victims, policy);
    }

    #[test]
    fn a_policy_or_a_pacing_without_what_belongs_to_it_is_refused() {
        let error = |changes: &[_]| changed(changes).unwrap_err();
        assert!(error(&[("collection.policy", "lru")]).contains("fifo, random, d-choices"));
        assert!(error(&[("collection.policy", "d-choices")]).contains("needs collection.choices"));
        assert!(error(&[("collection.choices", "2")]).contains("collection.policy is greedy"));
        assert!(error(&[("collection.pacing", "bursty")]).contains("above collection.low_water"));
        assert!(error(&[("collection.high_water", "9")]).contains("collection.pacing is paced"));
        assert!(error(&[("collection.ratio", "3")]).contains("belongs to collection.pacing ratio"));
        assert!(error(&[("collection.pacing", "ratio")]).contains("needs collection.ratio"));
        let ratio = [("collection.pacing", "ratio"), ("collection.ratio", "3.5")];
        assert!(error(&ratio).contains("ratio, which needs a collection.high_water above"));
        let burst = [("collection.pacing", "bursty"), ("collection.high_water", "9")];
        assert_eq!(changed(&burst).unwrap().mechanisms.pacing, Pacing::Bursty { high_water: 9 });
    }

    #[test]
    fn streams_without_what_they_need_are_refused() {
        let two = [("controller.power_loss_protection", "on"), ("streams.count", "2")];
        let two = [&two[..], &[("streams.hot_within", "0.1")]].concat();
        let with = |more: &[(&str, &str)]| changed(&[&two[..], more].concat());
        let found = with(&[]).unwrap().mechanisms.streams;
        assert_eq!((found.count, found.hot_within), (2, Some(0.1)));
        assert!(changed(&two[1..]).unwrap_err().contains("which a power cut would lose"));
        let alone = changed(&[("streams.hot_within", "0.1")]).unwrap_err();
        assert!(alone.contains("streams.count is 1, not 2"), "{alone}");
        let short = with(&[("collection.low_water", "2")]).unwrap_err();
        assert!(short.contains("above streams.count"), "{short}");
        for (change, expected) in [
            (("streams.hot_within", "0"), "give it a share"),
            (("streams.count", "3"), "streams.count is 3, not 2"),
            (("mapping.scheme", "extent"), "compacts extents for one stream only"),
        ] {
            let error = with(&[change]).unwrap_err();
            assert!(error.contains(expected), "{change:?}: {error}");
        }
        let three = changed(&[two[0], ("streams.count", "3")]).unwrap_err();
        assert!(three.contains("set streams.count to 2"), "{three}");
    }

    #[test]
    fn blocks_kept_for_the_hot_stream_need_a_policy_that_seeks_gain() {
        let kept = [
            ("controller.power_loss_protection", "on"),
            ("streams.count", "2"),
            ("streams.hot_within", "0.1"),
            ("streams.hot_blocks", "0.2"),
            ("collection.choices", "10"),
        ];
        let with = |policy| changed(&[&kept[..4], &[("collection.policy", policy)]].concat());
        for policy in ["greedy", "cost-benefit"] {
            assert_eq!(with(policy).unwrap().mechanisms.streams.hot_blocks, Some(0.2));
        }
        for policy in ["fifo", "random"] {
            let error = with(policy).unwrap_err();
            assert!(error.contains(&format!("collection.policy {policy}")), "{error}");
        }
        let drawn = changed(&[&kept[..], &[("collection.policy", "d-choices")]].concat());
        assert!(drawn.unwrap_err().contains("collection.policy d-choices"));
    }

    #[test]
    fn blocks_that_replace_bad_ones_are_flash_and_no_spare() {
        let life = [("wear.life", "3000"), ("wear.life_shape", "4"), ("wear.reserve", "12")];
        let (plain, kept) = (changed(&[]).unwrap().geometry, changed(&life).unwrap().geometry);
        assert_eq!(plain.physical_capacity(), kept.physical_capacity());
        let lost = plain.physical_units() - kept.physical_units();
        assert_eq!(lost, 12 * plain.units_per_block());
        let all = [&life[..2], &[("wear.reserve", "60000")]].concat();
        assert!(changed(&all).unwrap_err().contains("too little spare"));
    }

    #[test]
    fn mechanisms_of_collection_that_do_not_go_together_are_refused() {
        let mixed = ("collection.copies", "host-block");
        let low = [mixed, ("collection.low_water", "2")];
        assert!(changed(&low).unwrap_err().contains("must be at least 3"));
        let extents = [mixed, ("mapping.scheme", "extent")];
        assert!(changed(&extents).unwrap_err().contains("with mapping.scheme=extent"));
        let streams = [
            ("controller.power_loss_protection", "on"),
            ("streams.count", "2"),
            ("streams.hot_within", "0.1"),
        ];
        let two = changed(&[&streams[..], &[mixed]].concat()).unwrap_err();
        assert!(two.contains("mixes all streams"), "{two}");
        let turns = [("streams.hot_blocks", "0.2"), ("collection.rotation", "0.5")];
        let hot = [&streams[..], &turns].concat();
        assert!(changed(&hot).unwrap_err().contains("streams.hot_blocks"));
        assert!(changed(&[("collection.rotation", "1.5")]).unwrap_err().contains("within 0 to 1"));
    }

    #[test]
    fn a_high_water_that_leaves_no_spare_is_refused() {
        let burst = [("collection.pacing", "bursty"), ("collection.high_water", "60000")];
        assert!(changed(&burst).unwrap_err().contains("too little spare"));
    }
}
