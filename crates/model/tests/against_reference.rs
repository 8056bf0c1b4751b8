//! The model against the reference: the same drive, the same requests, how far apart the
//! latencies are.
//!
//! `cargo test --release -p ssdlab-model --test against_reference -- --nocapture` prints the table.
//! `REFERENCE_CASE='steady Mixed depth 8'` leaves out the cases whose names do not contain that;
//! `REFERENCE_SEED=7` draws other requests, which tells chance from deviation.

#[path = "against_reference/cases.rs"]
mod cases;
#[path = "against_reference/drives.rs"]
mod drives;
mod known_deviations;
#[path = "against_reference/pair.rs"]
mod pair;
mod reference;
#[path = "against_reference/rows.rs"]
mod rows;
#[path = "against_reference/workloads.rs"]
mod workloads;

use ssdlab_model::Ssd;

/// How far means and 99th percentiles may be off.
const LIMITS: (f64, f64) = (0.02, 0.05);

/// How far they may be off while collection goes on.
const LIMITS_COLLECTING: (f64, f64) = (0.05, 0.10);

/// True if the host pauses between an answer and the next operation, so that requests do not fall into step.
const HOST_PAUSES: bool = false;
