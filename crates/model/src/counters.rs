//! Counters of a drive since it was made: the figures that explain its speed.

use serde::{Deserialize, Serialize};

use crate::units::{ByteLength, Sector};

/// Defines the struct and everything that is done with each of its fields, so that a new counter is one line.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $name {
            /// Returns the counts since `earlier`, a previous state of the same drive.
            ///
            /// # Panics
            /// Panics if `earlier` counts more than `self` does: it is not an earlier state.
            pub fn since(&self, earlier: &$name) -> $name {
                let minus = |now: u64, then: u64| {
                    now.checked_sub(then).expect("counters are compared with an earlier state")
                };
                $name { $($field: minus(self.$field, earlier.$field),)* }
            }

            /// Returns the sum of these counters and `other`, those of another drive.
            #[must_use]
            pub fn plus(&self, other: &$name) -> $name {
                $name { $($field: self.$field + other.$field,)* }
            }

            /// Iterates over all counts, in the order of their declaration.
            pub(crate) fn values(&self) -> impl Iterator<Item = u64> + use<> {
                [$(self.$field,)*].into_iter()
            }

            /// Iterates over all counts as mutable references, in the order of their declaration.
            pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                [$(&mut self.$field,)*].into_iter()
            }
        }
    };
}

counters! {
    /// Counters of a simulated drive. Units are mapping units (4 KiB unless the profile says
    /// otherwise); flash pages and erases are counted as the flash sees them.
    Counters {
        /// Requests of any kind that the host has sent.
        requests,
        /// Read commands.
        host_read_commands,
        /// Write commands, refused ones included.
        host_write_commands,
        /// Formats, with or without an erase.
        formats,
        /// Writes that were refused because the drive has become read-only.
        refused_writes,
        /// Units the host has read.
        host_read_units,
        /// Units the host has written, whole or in part. Parts of a unit that were combined in the write buffer count
        /// once: each of these costs the flash a unit.
        host_write_units,
        /// Of `host_write_units`, units written in part.
        host_part_units,
        /// Sectors of 512 bytes that the host sent for units written in part.
        host_part_sectors,
        /// Units the host has trimmed, mapped or not.
        host_trim_units,
        /// Flush commands.
        flushes,
        /// Writes with FUA.
        fua_writes,
        /// Units programmed because the host wrote them.
        program_units_host,
        /// Units programmed because garbage collection moved them.
        program_units_collection,
        /// Units programmed empty, to complete a program unit for a flush.
        program_units_padding,
        /// Of the units programmed for the host, padding included, those to blocks in SLC mode.
        program_units_slc,
        /// Of the units programmed by garbage collection, those that it moved out of blocks in SLC mode.
        program_units_folded,
        /// Of the collection units erased, those in SLC mode.
        slc_erases,
        /// Program operations on a die that fill a program unit; single pages of metadata aside.
        programs,
        /// Pages programmed for the map journal.
        journal_pages,
        /// Pages programmed for checkpoints of the map.
        checkpoint_pages,
        /// Pages programmed with records of trims.
        trim_pages,
        /// Metadata collection units erased for pages of the journal, of checkpoints or of trim records.
        metadata_erases,
        /// Times that power was lost without warning, so that the drive had to recover.
        unsafe_shutdowns,
        /// Flash pages read for the host, read-ahead included.
        flash_page_reads_host,
        /// Flash pages read by garbage collection.
        flash_page_reads_collection,
        /// Times that garbage collection sensed a page, or one of each plane.
        flash_reads_collection,
        /// Flash pages read for read-modify-write of units that the host wrote in part.
        flash_page_reads_merge,
        /// Units written in part that were completed without reading flash: the rest of them was in the write buffer.
        buffer_merge_units,
        /// Regions that were condensed because the extent table was full.
        condensed_regions,
        /// Units programmed because their region was condensed, unmapped ones included.
        program_units_condensing,
        /// Of `program_units_condensing`, unmapped units that were written as zeros.
        condensed_empty_units,
        /// Times that condensing sensed a page, or one of each plane.
        flash_reads_condensing,
        /// Nanoseconds that writes waited for room in the extent table, summed over requests.
        condensing_wait_ns,
        /// Units read from the write buffer.
        buffer_hit_units,
        /// Units read that read-ahead had already fetched.
        read_ahead_hit_units,
        /// Units that were read ahead and lost before the host read them, because it wrote or trimmed them or other
        /// units of their segment.
        read_ahead_lost_units,
        /// Units read that were not mapped, so that no flash was read.
        unmapped_read_units,
        /// Collection units (superblocks or blocks) erased.
        erases,
        /// Collection units chosen as victims.
        collections,
        /// Of the victims, those that static wear levelling chose.
        levelled_blocks,
        /// Units that were valid on these victims.
        levelled_units,
        /// Blocks that went bad in use, each a block of one die.
        failed_blocks,
        /// Collection units that were retired because one of their blocks went bad and no reserve block was left to
        /// replace it.
        retired_blocks,
        /// Map pages that a request needed and that were in RAM, or on their way there. Counted once for each request
        /// and map page.
        map_hits,
        /// Map pages that a request needed and that were not in RAM.
        map_misses,
        /// Map pages read from flash, for requests and for garbage collection.
        map_page_reads,
        /// Units programmed to hold map pages.
        program_units_map,
        /// Units programmed with metadata: pages of the map journal, of checkpoints and of trim records. A page is
        /// programmed whole.
        program_units_metadata,
        /// Victims among the metadata blocks.
        map_collections,
        /// Log blocks that became data blocks as they were (switch merge).
        switch_merges,
        /// Sequential log blocks that were completed with copies (partial merge).
        partial_merges,
        /// Logical blocks that were written anew from data and log blocks (full merge).
        full_merges,
        /// Units programmed because a merge copied them.
        program_units_merge,
    }
}

impl Counters {
    /// Returns the number of units programmed for any reason.
    pub fn flash_write_units(&self) -> u64 {
        self.data_write_units() + self.metadata_write_units()
    }

    /// Returns the number of units programmed with host data, directly or as copies, and with the padding that
    /// completes program units.
    pub fn data_write_units(&self) -> u64 {
        self.program_units_host
            + self.program_units_collection
            + self.program_units_condensing
            + self.program_units_padding
            + self.program_units_merge
    }

    /// Returns the number of units programmed with metadata: pages of a map on flash, of the map journal and of
    /// checkpoints, and trim records.
    pub fn metadata_write_units(&self) -> u64 {
        self.program_units_map + self.program_units_metadata
    }

    /// Returns the number of single pages of metadata that were programmed. Pages of a map on flash are not counted:
    /// they are programmed in program units.
    pub fn metadata_pages(&self) -> u64 {
        self.journal_pages + self.checkpoint_pages + self.trim_pages
    }

    /// Returns the bytes that the host has written to a drive with units of `unit` bytes.
    pub fn host_written(&self, unit: ByteLength) -> ByteLength {
        let whole = unit * (self.host_write_units - self.host_part_units);
        whole + Sector::SIZE * self.host_part_sectors
    }

    /// Returns the bytes programmed per byte that the host wrote, as data sheets rate life; `None` before the first
    /// host write. This is above [`Counters::write_amplification`] if the host writes parts of units.
    pub fn write_amplification_of_bytes(&self, unit: ByteLength) -> Option<f64> {
        let written = self.host_written(unit).bytes() as f64;
        (written > 0.0).then(|| (unit * self.flash_write_units()).bytes() as f64 / written)
    }

    /// Returns the units programmed per unit that the host wrote, whole or in part, metadata included; `None` before
    /// the first host write.
    pub fn write_amplification(&self) -> Option<f64> {
        self.per_host_write(self.flash_write_units())
    }

    /// Returns the write amplification of data alone, which theory predicts: closed forms do not include metadata.
    pub fn data_write_amplification(&self) -> Option<f64> {
        self.per_host_write(self.data_write_units())
    }

    fn per_host_write(&self, units: u64) -> Option<f64> {
        (self.host_write_units > 0).then(|| units as f64 / self.host_write_units as f64)
    }
}

/// Wear of the flash, in erases per collection unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Erases of the least worn collection unit.
    pub erases_min: u32,
    /// Mean number of erases over all collection units.
    pub erases_mean: f64,
    /// Erases of the most worn collection unit.
    pub erases_max: u32,
}
