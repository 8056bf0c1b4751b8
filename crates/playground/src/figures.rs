//! The figures beside the picture.

/// Declares the figures, and how they are listed for those who know no Rust types.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Figures of a drive and its host at one moment. NaN stands for what there is none of.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Figures {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl Figures {
            /// Names of the figures, in the order of [`Figures::values`].
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Returns the figures in the order in which they are declared.
            pub fn values(&self) -> Vec<f64> {
                vec![$(self.$name),*]
            }
        }
    };
}

figures! {
    /// Units the host can address.
    logical_units,
    /// Units of flash.
    physical_units,
    /// Bytes of a unit.
    unit_bytes,
    /// Blocks (collection units).
    blocks,
    /// Groups of dies that have blocks of their own.
    groups,
    /// Units of a block.
    units_per_block,
    /// Over-provisioning as a share of the flash.
    spare_of_physical,
    /// Units that hold the host's data.
    used_units,
    /// 1 if the drive was told which units are free.
    is_trimmed,
    /// 1 if the drive began in a steady state.
    is_preconditioned,
    /// Seconds of the drive's time.
    seconds,
    /// Units the host has written.
    host_units,
    /// Units that garbage collection has copied, folding of SLC blocks aside.
    copied_units,
    /// Units that were copied out of SLC blocks.
    folded_units,
    /// Units that were programmed in SLC blocks.
    slc_units,
    /// Units that were programmed empty, to complete a program unit for a flush.
    padding_units,
    /// Units' worth of metadata.
    metadata_units,
    /// Units that the host has trimmed.
    trimmed_units,
    /// Flushes.
    flushes,
    /// Blocks that were erased.
    erases,
    /// Blocks that are free.
    free_blocks,
    /// Blocks in SLC mode.
    slc_blocks,
    /// Write amplification of the latest quarter of a drive's worth of writes.
    write_amplification,
    /// Write amplification since the drive was made.
    write_amplification_in_all,
    /// Write amplification by the closed form.
    closed_form,
    /// Units a second that the host writes.
    units_per_second,
    /// Median latency of writes in nanoseconds.
    write_p50,
    /// 99th percentile.
    write_p99,
    /// 99.9th percentile.
    write_p999,
    /// Median latency of flushes in nanoseconds.
    flush_p50,
    /// 99th percentile.
    flush_p99,
    /// Erases of the least worn block.
    erases_min,
    /// Mean erases of all blocks.
    erases_mean,
    /// Erases of the most worn block.
    erases_max,
}
