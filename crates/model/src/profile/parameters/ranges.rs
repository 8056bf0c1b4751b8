//! Plausible ranges of parameters: values that no drive has are refused, with their position.

use super::Quantity;
use crate::policy::CopyRatio;
use crate::profile::{Length, Profile, ProfileError, Sourced, Span};
use crate::streams::STREAMS_MAX;
use crate::units::{ByteLength, KIB, MIB, Nanoseconds, Sector};

impl Profile {
    /// Refuses values that no drive has.
    pub(in crate::profile) fn check_ranges(&self) -> Result<(), ProfileError> {
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
        self.within("flash.page_read_spread", &d.flash.page_read_spread, 0.0, 0.9)?;
        self.within("flash.program", &d.flash.program, us(1), us(100_000))?;
        self.within("flash.erase", &d.flash.erase, us(1), us(1_000_000))?;
        let channel = &d.flash.channel_mb_per_second;
        self.within("flash.channel_mb_per_second", channel, 1.0, 100_000.0)?;
        self.within("flash.suspend_step", &d.flash.suspend_step, us(0), us(10_000))?;
        self.within("flash.suspend_time", &d.flash.suspend_time, us(0), us(10_000))?;
        self.within("flash.resume_time", &d.flash.resume_time, us(0), us(10_000))?;
        self.within("flash.suspends_most", &d.flash.suspends_most, 0, 1 << 16)?;
        self.check_unit_size()?;
        let latency = &d.controller.command_latency;
        self.within("controller.command_latency", latency, us(0), us(100_000))?;
        let occupancy = &d.controller.command_occupancy;
        self.within("controller.command_occupancy", occupancy, us(0), us(100_000))?;
        let rate = &d.controller.mb_per_second;
        self.within("controller.mb_per_second", rate, 0.0, 100_000.0)?;
        let per_mib = &d.controller.latency_per_mib;
        self.within("controller.latency_per_mib", per_mib, us(0), us(100_000))?;
        let buffer = &d.controller.write_buffer;
        self.within("controller.write_buffer", buffer, Length(KIB * 4), length(64 << 30))?;
        let coalescing = &d.controller.coalescing;
        self.within("controller.coalescing", coalescing, length(0), length(64 << 30))?;
        let idle = &d.controller.idle_before_flush;
        self.within("controller.idle_before_flush", idle, us(1), us(3_600_000_000))?;
        self.within("flush.overhead", &d.flush.overhead, us(0), us(1_000_000))?;
        let journal_program = &d.flush.journal_program;
        self.within("flush.journal_program", journal_program, us(0), us(100_000))?;
        self.within("slc.size", &d.slc.size, length(0), length(64 * tib))?;
        self.within("slc.fixed", &d.slc.fixed, length(0), length(64 * tib))?;
        self.within("thermal.limit", &d.thermal.limit, length(0), length(64 * tib))?;
        let rate = &d.thermal.mb_per_second;
        self.within("thermal.mb_per_second", rate, 0.0, 100_000.0)?;
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
        let overhead = &d.collection.read_overhead;
        self.within("collection.read_overhead", overhead, us(0), us(10_000))?;
        let occupancy = &d.collection.copy_occupancy;
        self.within("collection.copy_occupancy", occupancy, us(0), us(1_000))?;
        self.within("collection.ratio", &d.collection.ratio, 0.0, CopyRatio::MOST)?;
        self.within("collection.debt_max", &d.collection.debt_max, 0, 31)?;
        self.within("collection.metadata_units", &d.collection.metadata_units, 0, 1 << 20)?;
        self.within("mapping.log_blocks", &d.mapping.log_blocks, 0, 1 << 20)?;
        self.within("mapping.cache", &d.mapping.cache, length(0), length(64 << 30))?;
        self.within("mapping.cache_read", &d.mapping.cache_read, us(0), us(10_000))?;
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
        self.within("collection.rotation", &d.collection.rotation, 0.0, 1.0)?;
        self.within("collection.high_water", &d.collection.high_water, 0, 1 << 16)?;
        self.within("link.mb_per_second", &d.link.mb_per_second, 1.0, 100_000.0)
    }

    /// Refuses unit sizes that no drive has. Computations in whole units have to call this first.
    pub(super) fn check_unit_size(&self) -> Result<(), ProfileError> {
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
