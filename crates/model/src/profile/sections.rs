//! The sections of a profile for mechanisms that not every drive has.

use serde::Deserialize;

use super::words::LevellingName;
use super::{Length, Sourced, Span};
use crate::mapping::MappingScheme;
use crate::slc::{SlcSpace, WhenFull};
use crate::trim::ReadsAfterTrim;
use crate::units::{ByteLength, Nanoseconds};

/// A section that a profile may leave out, as a whole or in part: each key with the value that
/// means that the mechanism is not there.
macro_rules! optional_section {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $absent:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $name {
            $(pub(crate) $field: Sourced<$type>,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: Sourced::absent($absent),)* }
            }
        }
    };
}

optional_section! {
    /// How logical units are mapped to physical ones.
    MappingSection {
        scheme: MappingScheme = MappingScheme::Page,
        cache: Length = Length(ByteLength::ZERO),
        cache_read: Span = Span(Nanoseconds::ZERO),
        table: Length = Length(ByteLength::ZERO),
        search: Span = Span(Nanoseconds::ZERO),
        per_extent: Span = Span(Nanoseconds::ZERO),
        log_blocks: u32 = 0,
        checkpoint: Length = Length(ByteLength::ZERO),
    }
}

optional_section! {
    /// What a flush costs.
    FlushSection {
        overhead: Span = Span(Nanoseconds::ZERO),
        journal: bool = false,
        journal_program: Span = Span(Nanoseconds::ZERO),
    }
}

optional_section! {
    /// How data of different temperature is separated.
    StreamsSection {
        count: u32 = 1,
        hot_within: f64 = 0.0,
        hot_blocks: f64 = 0.0,
    }
}

optional_section! {
    /// What trim costs, and what is read afterwards.
    TrimSection {
        command: Span = Span(Nanoseconds::ZERO),
        range: Span = Span(Nanoseconds::ZERO),
        per_mib: Span = Span(Nanoseconds::ZERO),
        ranges_most: u32 = 0,
        range_most: Length = Length(ByteLength::ZERO),
        reads_after: ReadsAfterTrim = ReadsAfterTrim::Zeros,
        settle: Span = Span(Nanoseconds::from_secs(1)),
    }
}

optional_section! {
    /// What wears the flash out.
    WearSection {
        pe_cycles: u32 = 0,
        levelling: LevellingName = LevellingName::Off,
        static_every: u32 = 0,
        static_spread: u32 = 0,
        static_stream: bool = false,
        life: u32 = 0,
        life_shape: f64 = 0.0,
        factory_bad: f64 = 0.0,
        reserve: u32 = 0,
        retire_most: f64 = 0.0,
        spare_threshold: u32 = 10,
    }
}

optional_section! {
    /// How data ages.
    RetentionSection {
        retry: Span = Span(Nanoseconds::ZERO),
        free_for: Span = Span(Nanoseconds::ZERO),
        steps: f64 = 0.0,
        worn_steps: f64 = 0.0,
    }
}

optional_section! {
    /// The pseudo-SLC cache.
    SlcSection {
        size: Length = Length(ByteLength::ZERO),
        space: SlcSpace = SlcSpace::Fixed,
        fixed: Length = Length(ByteLength::ZERO),
        when_full: WhenFull = WhenFull::Direct,
        bits: u32 = 0,
        program: Span = Span(Nanoseconds::ZERO),
        page_read: Span = Span(Nanoseconds::ZERO),
    }
}

optional_section! {
    /// Throttling by heat.
    ThermalSection {
        limit: Length = Length(ByteLength::ZERO),
        mb_per_second: f64 = 0.0,
    }
}
