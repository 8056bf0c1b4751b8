//! The playground: a simulated drive and a host that writes to it, for a page in the browser.
//!
//! [`Playground`] owns a drive and its host. The page changes knobs ([`Knobs`]), lets the host write a number
//! of units at a time, and draws the results: figures, a curve, latencies, and a few bytes for each block. No
//! request crosses to the page, because the host is here. The same profile, knobs and seed give the same drive
//! in the browser and natively, to the bit, however the writes are divided into calls.
//!
//! ```
//! use ssdlab_playground::{Playground, Setup, Start};
//!
//! let setup = Setup { changes: vec![("scale".into(), "1/256".into())], ..Setup::named("generic-tlc") };
//! let mut playground = Playground::new(&setup, Start::Steady, 1)?;
//! playground.advance(100_000);
//! assert!(playground.figures().write_amplification > 4.0);
//! # Ok::<(), String>(())
//! ```

mod closed_form;
mod curve;
mod drive;
#[cfg(target_arch = "wasm32")]
mod exports;
mod figures;
mod host;
mod latency;
mod playground;
mod power_cut;
mod sequential_io;

pub use figures::Figures;
pub use host::Knobs;
pub use playground::{Playground, Setup, Start};
pub use power_cut::{CutReport, cut_power};
pub use sequential_io::ReadReport;
