//! Experiments, what they may conclude, the run store, and the reports.
//!
//! An experiment is written once against [`ssdlab_drive::Drive`]; it fills a
//! [`report::Report`], which every output (terminal, JSON, HTML, store) reads.

pub mod advise;
pub mod age;
pub mod compare;
pub mod effort;
pub mod error;
pub mod experiment;
pub mod import;
mod machine;
pub mod memory;
pub mod output;
pub mod power_cut;
pub mod quick;
pub mod rehearsal;
pub mod report;
pub mod run;
mod sqlite;
pub mod steady;
pub mod store;
pub mod target;

pub use error::LabError;
pub use run::{Outcome, run};
pub use target::Target;
