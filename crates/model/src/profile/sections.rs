//! The sections of a profile for mechanisms that not every drive has.

use serde::Deserialize;

use super::keywords::LevellingName;
use super::{Length, Sourced, Span};
use crate::mapping::MappingScheme;
use crate::slc::{SlcSpace, WhenFull};
use crate::trim::ReadsAfterTrim;
use crate::units::{ByteLength, Nanoseconds};

/// Defines a section that a profile may leave out, as a whole or in part: each key has a value that means that the
/// mechanism is off.
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
    /// Keys of the mapping scheme.
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
    /// Keys of the cost of a flush.
    FlushSection {
        overhead: Span = Span(Nanoseconds::ZERO),
        journal: bool = false,
        journal_program: Span = Span(Nanoseconds::ZERO),
    }
}

optional_section! {
    /// Keys of the separation of data by temperature.
    StreamsSection {
        count: u32 = 1,
        hot_within: f64 = 0.0,
        hot_blocks: f64 = 0.0,
    }
}

optional_section! {
    /// Keys of the cost of trim, and of the data read after it.
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
    /// Keys of wear, wear levelling and bad blocks.
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
    /// Keys of retention.
    RetentionSection {
        retry: Span = Span(Nanoseconds::ZERO),
        free_for: Span = Span(Nanoseconds::ZERO),
        steps: f64 = 0.0,
        worn_steps: f64 = 0.0,
    }
}

optional_section! {
    /// Keys of the pseudo-SLC cache.
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
    /// Keys of thermal throttling.
    ThermalSection {
        limit: Length = Length(ByteLength::ZERO),
        mb_per_second: f64 = 0.0,
    }
}
