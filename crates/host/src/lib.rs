//! This machine's storage as it is: which layers lie between a file system and the flash, and what
//! in them, or in how they are used, makes an SSD slow, short-lived or unsafe.
//!
//! All that is known of a machine comes through [`Facts`]: the machine that runs this program
//! ([`Live`]), or one that was captured ([`Captured`]), so that another machine can be looked at,
//! and tests have many machines.
//!
//! - [`layers`]: the tree from a path, mount or device down to its drives;
//! - [`doctor`]: a verdict on each of a list of checks, with the command that mends it;
//! - [`fix`]: what of that can be mended so that it can be taken back.
//!
//! ```
//! use ssdlab_host::facts::Machine;
//! use ssdlab_host::{Captured, doctor};
//!
//! let machine = Machine {
//!     system: "Linux 6.12.41".to_owned(),
//!     release: "6.12.41".to_owned(),
//!     architecture: "x86_64".to_owned(),
//!     time: 0,
//!     is_root: true,
//! };
//! let mut facts = Captured::new(machine);
//! facts.put("/proc/sys/vm/swappiness", "60\n");
//! let diagnosis = doctor::examine(&facts, None)?;
//! assert!(diagnosis.drives.is_empty(), "nothing is told of any drive");
//! # Ok::<(), ssdlab_host::HostError>(())
//! ```

pub mod doctor;
mod error;
pub mod facts;
pub mod fix;
pub mod layers;
mod mapper;
mod mounts;
mod words;

/// Looks at all of a machine that [`layers`] and [`doctor`] may ask for, and notes the answers; a
/// target besides, if one is named.
///
/// # Errors
/// When the target is not there.
pub fn capture(facts: &dyn Facts, target: Option<&str>) -> Result<Captured, HostError> {
    let recorder = Recorder::new(facts);
    if let Some(target) = target {
        doctor::examine(&recorder, Some(target))?;
    }
    doctor::examine(&recorder, None)?;
    // For people: nothing here reads it.
    let _ = recorder.run("lsblk", &["--json", "-b", "-O"]);
    Ok(recorder.noted())
}

pub use error::HostError;
pub use facts::{Absent, Captured, Facts, Live, Recorder};
pub use layers::{Layer, LayerKind, Stack};
