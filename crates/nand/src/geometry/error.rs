//! Errors of a geometry, and checks of single values.

/// Error of a geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A count that must not be zero, or is beyond what is plausible.
    #[error("{what} is {value}; it must be {}", range(*least, *most))]
    Range {
        /// Name of the parameter.
        what: &'static str,
        /// Value of the parameter.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// Two counts that do not divide.
    #[error("{what} ({value}) is not a multiple of {divisor_name} ({divisor})")]
    Divides {
        /// Name of the parameter.
        what: &'static str,
        /// Value of the parameter.
        value: u64,
        /// Name of the parameter that must divide it.
        divisor_name: &'static str,
        /// Value of the divisor.
        divisor: u64,
    },
    /// A size that must be a power of two.
    #[error("{what} ({value}) is not a power of two")]
    PowerOfTwo {
        /// Name of the parameter.
        what: &'static str,
        /// Value of the parameter.
        value: u64,
    },
    /// The drive addresses more than its flash can hold while blocks are kept free.
    #[error(
        "there is too little spare area: the host can address {logical} units, and {usable} are \
         left for data beside the blocks that are open, free or hold metadata"
    )]
    NoSpare {
        /// Units the host can address.
        logical: u64,
        /// Physical units that can hold data.
        usable: u64,
    },
    /// Too few metadata blocks for a map that lies on flash.
    #[error(
        "a map of {pages} map pages on flash needs {needed} blocks of flash for metadata, not {given}; \
         set collection.metadata_units={needed}"
    )]
    NoRoomForMap {
        /// Map pages.
        pages: u32,
        /// Metadata collection units there are.
        given: u32,
        /// Metadata collection units needed, those that are open or kept free included.
        needed: u32,
    },
    /// An extent table that is too small for the drive even when each region is compacted.
    #[error(
        "the table has room for {extents} extents, and the drive needs at least {least}; give \
         mapping.table more RAM, or scale the drive less"
    )]
    NoRoomForExtents {
        /// Extents that the table has room for.
        extents: u32,
        /// The least for this drive.
        least: u32,
    },
    /// A map of extents on a drive that collects single blocks.
    #[error(
        "mapping.scheme=extent needs collection.unit=superblock: extents follow the order of \
         writes, which single blocks of several dies do not keep"
    )]
    ExtentsNeedSuperblocks,
    /// Too few blocks for a scheme that maps by block.
    #[error(
        "mapping.scheme log-block needs {needed} blocks of flash for {logical} logical blocks, \
         {log_blocks} random log blocks, the sequential one, one for merges and one for recovery; \
         there are {given}. \
         Lower mapping.log_blocks, or raise the over-provisioning (spare)"
    )]
    NoRoomForLog {
        /// Collection units there are.
        given: u32,
        /// Collection units needed.
        needed: u32,
        /// Logical blocks.
        logical: u32,
        /// Random log blocks.
        log_blocks: u32,
    },
    /// Too few metadata blocks for the map that is saved in them (the checkpoint).
    #[error(
        "mapping.checkpoint needs {needed} blocks of flash for metadata, not {given}: for two \
         copies of a map of {pages} flash pages, a block being erased and two for the journal; \
         set collection.metadata_units={needed}"
    )]
    NoRoomForCheckpoint {
        /// Metadata collection units there are.
        given: u32,
        /// Metadata collection units needed.
        needed: u64,
        /// Flash pages of the map.
        pages: u64,
    },
    /// More units than 32 bits count.
    #[error(
        "{units} physical units are too many (2^32 at most); set a larger controller.unit_size"
    )]
    TooLarge {
        /// Physical units asked for.
        units: u64,
    },
}

/// Returns a range as text.
fn range(least: u64, most: u64) -> String {
    if most >= u32::MAX.into() { format!("{least} or more") } else { format!("{least} to {most}") }
}

pub(super) fn within(
    what: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), GeometryError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(GeometryError::Range { what, value, least, most })
    }
}

pub(super) fn divides(
    what: &'static str,
    value: u32,
    divisor_name: &'static str,
    divisor: u32,
) -> Result<(), GeometryError> {
    if value.is_multiple_of(divisor) {
        Ok(())
    } else {
        Err(GeometryError::Divides {
            what,
            value: value.into(),
            divisor_name,
            divisor: divisor.into(),
        })
    }
}

pub(super) fn power_of_two(what: &'static str, value: u64) -> Result<(), GeometryError> {
    if value.is_power_of_two() { Ok(()) } else { Err(GeometryError::PowerOfTwo { what, value }) }
}
