//! Figures beside the picture.

/// Declares the figures, with a list of their names for callers outside Rust.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Figures of a drive and its host at one moment. NaN stands for a figure that is not defined.
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
    /// Number of units that the host can address.
    logical_units,
    /// Number of units of the flash.
    physical_units,
    /// Bytes in a unit.
    unit_bytes,
    /// Number of blocks (collection units).
    blocks,
    /// Number of groups of dies that have blocks of their own.
    groups,
    /// Number of units in a block.
    units_per_block,
    /// Over-provisioning as a share of the flash.
    spare_of_physical,
    /// Number of units that hold the host's data.
    used_units,
    /// 1 if free space is trimmed, 0 if it holds stale data.
    is_trimmed,
    /// 1 if the drive began in a steady state.
    is_preconditioned,
    /// Seconds of the drive's time.
    seconds,
    /// Number of units that the host has written.
    host_units,
    /// Number of units that garbage collection has copied, without folding of SLC blocks.
    copied_units,
    /// Number of units that were copied out of SLC blocks (folded).
    folded_units,
    /// Number of units that were programmed in SLC blocks.
    slc_units,
    /// Number of units that were programmed empty, to complete a program unit for a flush.
    padding_units,
    /// Metadata that was programmed, in units.
    metadata_units,
    /// Number of units that the host has trimmed.
    trimmed_units,
    /// Number of flushes.
    flushes,
    /// Number of block erases.
    erases,
    /// Number of free blocks.
    free_blocks,
    /// Number of blocks in SLC mode.
    slc_blocks,
    /// Write amplification over the latest writes, a quarter of the drive's units.
    write_amplification,
    /// Write amplification since the drive was created.
    write_amplification_in_all,
    /// Write amplification by the closed form.
    closed_form,
    /// Units that the host writes per second.
    units_per_second,
    /// Median latency of writes in nanoseconds.
    write_p50,
    /// 99th percentile of the latency of writes in nanoseconds.
    write_p99,
    /// 99.9th percentile of the latency of writes in nanoseconds.
    write_p999,
    /// Median latency of flushes in nanoseconds.
    flush_p50,
    /// 99th percentile of the latency of flushes in nanoseconds.
    flush_p99,
    /// Erase count of the least worn block.
    erases_min,
    /// Mean erase count of all blocks.
    erases_mean,
    /// Erase count of the most worn block.
    erases_max,
}
