//! Experiments, their findings, the run store, and the reports.
//!
//! | role | type |
//! | --- | --- |
//! | a protocol: parameters, plan, run, findings | [`experiment::Experiment`]; all of them: [`experiment::all`] |
//! | its values: full, quick, or set by the user | [`experiment::Settings`] |
//! | a drive as the user names it | [`Target`] |
//! | one run, made into a report whatever happens | [`run()`] |
//! | what every output reads: terminal, JSON, HTML, store | [`report::Report`] |
//! | runs that were kept, and runs side by side | [`store`], [`compare`] |
//!
//! An experiment is written once against [`ssdlab_drive::Drive`], real or simulated.
//!
//! ```
//! use ssdlab_lab::Target;
//! use ssdlab_lab::experiment::{self, Settings};
//!
//! let target = Target::parse("sim:generic-tlc,spare=12%")?;
//! assert!(target.is_simulated());
//! let random_write = experiment::named("random-write")?;
//! let changes = [("time".to_owned(), "10s".to_owned())];
//! Settings::new(random_write, true, &changes)?;
//! let wrong = experiment::named("randomwrite").err().expect("a name mistyped");
//! assert!(wrong.to_string().contains("random-write"), "{wrong}");
//! # Ok::<(), ssdlab_lab::LabError>(())
//! ```

pub mod advise;
pub mod compare;
pub mod cpu_estimate;
mod error;
pub mod experiment;
pub mod import;
pub mod machine;
pub mod memory;
pub mod output;
pub mod power_cut;
pub mod precondition;
pub mod quick;
pub mod report;
pub mod run;
pub mod script_export;
mod sqlite;
mod steady;
pub mod store;
pub mod target;
pub mod truth;

pub use error::LabError;
pub use run::{Outcome, run};
pub use target::Target;
