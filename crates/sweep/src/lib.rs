//! Sweeps: many runs of one experiment that show how a result depends on a key of the drive, a setting, or the target.
//!
//! | role | type |
//! | --- | --- |
//! | what is varied, and how the points are chosen | [`SweepRequest`], [`Varied`], [`Sampling`] |
//! | the points, checked before anything runs | [`Design`], [`RunSetup`] |
//! | the name of a run by its content | [`Key`] |
//! | runs that are kept as files and found again | [`Results`] |
//! | runs side by side | [`run()`]; elsewhere, one by one: [`keys`], [`run_one`], [`collect`] |
//! | what they came to, with intervals and findings | [`Sweep`] |
//! | its page, its CSV files, its report for the store | [`page`], [`tables`] |
//!
//! The name of a run is the SHA-256 of the version, the profile, the protocol, the settings and the seed. The result of
//! a sweep depends only on its runs, not on their order, on threads, or on interruptions.
//!
//! ```
//! use ssdlab_lab::experiment;
//! use ssdlab_sweep::{Design, SweepRequest, Sampling, Varied};
//!
//! let question = SweepRequest {
//!     experiment: experiment::named("fragmentation")?,
//!     targets: vec!["sim:,scale=1/64".to_owned()],
//!     vary: vec![Varied::parse("spare=7%,15%,28%").map_err(ssdlab_sweep::SweepError::Usage)?],
//!     set: Vec::new(),
//!     quick: true,
//!     seed: 1,
//!     seeds: 5,
//!     sampling: Sampling::Grid,
//! };
//! let design = Design::new(question)?;
//! assert_eq!(design.points().len(), 3);
//! # Ok::<(), ssdlab_sweep::SweepError>(())
//! ```

mod design;
mod effect;
mod error;
mod execute;
mod findings;
mod key;
mod measure;
pub mod page;
mod results;
mod statistics;
mod sweep;
pub mod tables;
mod vary;

pub use design::{Cost, Design, InvalidPoint, RunSetup, Sampling, SweepRequest};
pub use error::SweepError;
pub use execute::{DriveOpener, Options, Progress, Simulated, collect, keys, run, run_one};
pub use key::Key;
pub use measure::{Measure, Measured};
pub use results::Results;
pub use statistics::Estimate;
pub use sweep::{MeasureName, Point, RunOfPoint, SCHEMA, State, Sweep, schema};
pub use vary::{Dimension, Role, Varied};
