//! Examination of this machine's storage: the layers between a file system and the flash, and the settings in them that
//! make an SSD slow, short-lived or unsafe.
//!
//! All facts about a machine come through [`Facts`]: from the machine that runs this program ([`Live`]), or from a
//! capture ([`Captured`]). So other machines can be examined, and tests can make up machines.
//!
//! - [`layers`]: the tree from a path, mount or device down to its drives;
//! - [`doctor`]: a verdict on each of a list of checks, with the commands that fix a problem;
//! - [`fix`]: fixes for some of the problems, which can be undone.
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

mod device_mapper;
pub mod doctor;
mod error;
pub mod facts;
pub mod fix;
mod format;
pub mod layers;
mod mounts;

/// Reads all facts that [`layers`] and [`doctor`] may ask for, for the whole machine and for a target if one is named,
/// and returns them.
///
/// # Errors
/// Returns an error if the target does not exist.
pub fn capture(facts: &dyn Facts, target: Option<&str>) -> Result<Captured, HostError> {
    let recorder = Recorder::new(facts);
    if let Some(target) = target {
        doctor::examine(&recorder, Some(target))?;
    }
    doctor::examine(&recorder, None)?;
    // This output is for people who read the capture: no code reads it.
    let _ = recorder.run("lsblk", &["--json", "-b", "-O"]);
    Ok(recorder.into_captured())
}

pub use error::HostError;
pub use facts::{Absent, Captured, Facts, Live, Recorder};
pub use layers::{Layer, LayerKind, Stack};
