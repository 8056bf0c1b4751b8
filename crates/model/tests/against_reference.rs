//! The drive against the reference: the same drive, the same requests, how far apart
//! the latencies are.
//!
//! `cargo test --release -p ssdlab-model --test against_reference -- --nocapture` prints the table.
//! `REFERENCE_LONG=1` has runs of three times as many requests where a figure scatters, and also two and eight requests in
//! flight: for that, and before a change of the model goes in that may shift latencies by a percent.
//! `REFERENCE_CASE='steady Mixed depth 32'` leaves out the cases whose names do not contain that;
//! `REFERENCE_SEED=7` draws other requests, which tells chance from deviation.

#[path = "against_reference/cases.rs"]
mod cases;
#[path = "against_reference/drives.rs"]
mod drives;
#[path = "against_reference/pair.rs"]
mod pair;
mod reference;
#[path = "against_reference/rows.rs"]
mod rows;
#[path = "against_reference/workloads.rs"]
mod workloads;

use ssdlab_model::ftl::Ssd;

/// How far means may be off, as a share.
const LIMIT_OF_MEANS: f64 = 0.01;

/// How far 99th percentiles may be off.
const LIMIT_OF_P99: f64 = 0.02;

/// By so many standard errors a figure may be further off: with eight runs one in six hundred is by chance.
const CHANCE: f64 = 5.0;

/// True if the host pauses between an answer and the next operation, so that requests do not fall into step.
const HOST_PAUSES: bool = true;
