//! Extension module of the Python package `ssdlab`: the functions of the library that Python calls.
//!
//! | role | where |
//! | --- | --- |
//! | runs an experiment on a target | `run` |
//! | a report: its JSON, its columns as memory that numpy reads | `report`, `numbers` |
//! | a simulated drive to put through phases | `drive`, `phase` |
//! | many runs | `sweep` |
//! | profiles, experiments, closed forms | `catalogue`, `theory` |
//! | kept runs, files of other programs | `load` |
//! | errors as exceptions, Ctrl-C | `failure`, `watch` |
//!
//! This crate has handles and conversions only. The interface for users (names, units, data frames, docstrings) is in
//! `python/ssdlab`. Operations that take time release the interpreter's lock.

mod catalogue;
mod drive;
mod failure;
mod load;
mod numbers;
mod phase;
mod report;
mod run;
mod sweep;
mod theory;
mod watch;

use pyo3::prelude::*;
use ssdlab_drive::memory::HugePageAllocator;

// As in the program, large pages: the maps of a simulated drive are large and accessed at random.
#[global_allocator]
static ALLOCATOR: HugePageAllocator = HugePageAllocator;

/// The library as Python can call it; use the package `ssdlab`.
#[pymodule]
mod _ssdlab {
    #[pymodule_export]
    use crate::catalogue::{Profile, experiments, profile_names, stacks};
    #[pymodule_export]
    use crate::drive::Drive;
    #[pymodule_export]
    use crate::load::{from_fio, from_store, keep, kept, store_path};
    #[pymodule_export]
    use crate::numbers::Numbers;
    #[pymodule_export]
    use crate::phase::{Latencies, PhaseResult};
    #[pymodule_export]
    use crate::report::{Comparison, Report, compare};
    #[pymodule_export]
    use crate::run::run;
    #[pymodule_export]
    use crate::sweep::{Design, Kept, Sweep};
    #[pymodule_export]
    use crate::theory::{
        d_choices, fifo, greedy, hot_cold_one_stream, hot_cold_two_streams, random, trimmed,
    };

    /// Version of ssdlab.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
