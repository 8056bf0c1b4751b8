//! Targets: the names that users give to drives, and the drives that they stand for.
//!
//! `sim:PROFILE` and `sim:PROFILE,key=value,...` are simulated drives, `sim:` is the default one,
//! `sim:./my.toml` one with the user's own profile, `sim:./aged.ssd` a saved drive; `raid1(sim:a;sim:b)` and
//! the like are stacks of simulated drives. Any other target is a path.

mod identity;
pub(crate) mod scaled;
mod simulated;
mod stack;

pub use scaled::ScaledTarget;
pub(crate) use simulated::spare_description;
pub use stack::{StackKind, StackOption, StackTarget, stacks};

use std::path::{Path, PathBuf};

use ssdlab_blockio::{RealDrive, RealOptions};
use ssdlab_drive::Drive;
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::simulated::saved::SavedDrive;
use ssdlab_model::profile::{self, Profile};
use ssdlab_units::text::nearest;

use crate::error::LabError;

/// A target, as the user named it.
#[derive(Clone, Debug)]
pub enum Target {
    /// A new simulated drive.
    Simulated {
        /// Name, changes included.
        name: String,
        /// Profile with the changes applied.
        profile: Box<Profile>,
    },
    /// A saved simulated drive.
    Saved {
        /// Name as the user wrote it.
        name: String,
        /// The file, opened and checked.
        saved: Box<SavedDrive>,
    },
    /// Simulated drives in an array, behind a USB bridge or encrypted.
    Stack(Box<StackTarget>),
    /// A file or directory on a real drive.
    Path(PathBuf),
}

impl Target {
    /// Parses a target. Profiles and saved drives are read; no drive is opened.
    pub fn parse(text: &str) -> Result<Target, LabError> {
        if let Some(rest) = text.strip_prefix("sim:") {
            return simulated::parse(text, rest);
        }
        if let Some(stack) = StackTarget::parse(text)? {
            return Ok(Target::Stack(Box::new(stack)));
        }
        if text.is_empty() {
            return Err(LabError::Target {
                text: text.to_owned(),
                why: "name a simulated drive (sim:PROFILE) or a path".to_owned(),
            });
        }
        let is_simulated = strip_sim_prefix(text).is_some();
        if (is_simulated || !text.contains(std::path::is_separator))
            && Path::new(text).symlink_metadata().is_err()
        {
            return Err(LabError::Target { text: text.to_owned(), why: unknown_target_hint(text) });
        }
        Ok(Target::Path(PathBuf::from(text)))
    }

    /// Parses a target and seeds the random choices of its simulated drives (which blocks go bad, and victims
    /// if the policy draws them) with `seed`. A saved drive continues with its saved random state. Commands
    /// that take a seed parse their targets with this function.
    pub fn seeded(text: &str, seed: u64) -> Result<Target, LabError> {
        let mut target = Target::parse(text)?;
        target.set_seed(seed);
        Ok(target)
    }

    /// Opens the drive.
    pub fn open(&self, options: &RealOptions) -> Result<Box<dyn Drive>, LabError> {
        match self {
            Target::Path(path) => Ok(Box::new(RealDrive::open(path, options.clone())?)),
            _ => Ok(Box::new(self.open_simulated().expect("what is no path is simulated")?)),
        }
    }

    /// Opens the drive if it is simulated; `None` for a path.
    pub fn open_simulated(&self) -> Option<Result<SimulatedDrive, LabError>> {
        match self {
            Target::Simulated { name, profile } => Some(simulated::open(name, profile)),
            Target::Saved { name, saved } => Some(simulated::open_saved(name, saved)),
            Target::Stack(stack) => Some(stack.open()),
            Target::Path(_) => None,
        }
    }

    fn set_seed(&mut self, seed: u64) {
        match self {
            Target::Simulated { profile, .. } => profile.set_seed(seed),
            Target::Stack(stack) => stack.set_seed(seed),
            Target::Saved { .. } | Target::Path(_) => {}
        }
    }

    /// Returns true if the target is simulated, so that a run costs neither time nor wear of a real drive.
    pub fn is_simulated(&self) -> bool {
        !matches!(self, Target::Path(_))
    }
}

/// Returns the text behind `sim:`, in upper or lower case.
fn strip_sim_prefix(text: &str) -> Option<&str> {
    let (prefix, rest) = text.split_at_checked(4)?;
    prefix.eq_ignore_ascii_case("sim:").then_some(rest)
}

/// Returns the error for a bare word that names no file: it suggests the nearest target. A word is never
/// taken for a file to create, because it may be a mistyped profile.
fn unknown_target_hint(text: &str) -> String {
    let word = strip_sim_prefix(text).unwrap_or(text);
    let (name, changes) = word.split_at(word.find(',').unwrap_or(word.len()));
    let profiles = profile::embedded().iter().map(|(known, _)| *known);
    let nearest = nearest(name, profiles).first().copied();
    let simulated = match (nearest, strip_sim_prefix(text)) {
        (Some(known), _) => format!("sim:{known}{changes} for the simulated drive"),
        (None, Some(rest)) => format!("sim:{rest} for a simulated drive"),
        (None, None) => "sim:PROFILE for a simulated drive".to_owned(),
    };
    format!(
        "there is no such file or directory; write {simulated}, or ./{text} with --create-file for a new file"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Target::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_default_drive_has_a_name() {
        let Target::Simulated { name, .. } = Target::parse("sim:").unwrap() else { panic!() };
        assert_eq!(name, "sim:generic-tlc");
    }

    #[test]
    fn changes_are_applied_and_bad_ones_named() {
        let Target::Simulated { profile, .. } =
            Target::parse("sim:toshiba-xg5,spare=28%,flash.page_read=60us").unwrap()
        else {
            panic!()
        };
        let geometry = profile.configuration().unwrap().geometry;
        assert!((geometry.spare_of_physical() - 0.28).abs() < 0.001);
        assert!(error("sim:toshiba-xg5,spare=0%").contains("above 0%"));
        assert!(error("sim:toshiba-xg5,spare=-1%").contains("above 0%"));
        assert!(error("sim:toshiba-xg5,page_read=60us").contains("did you mean flash.page_read"));
        assert!(error("sim:toshiba-xg5,flash.page_read=soon").contains("a duration"));
        assert!(error("sim:toshiba-xg5,flash.page_read=2h").contains("not within"));
        assert!(error("sim:nosuch").contains("there is no profile 'nosuch'"));
        assert!(error("sim:toshiba-xg5,spare").contains("not key=value"));
        assert!(error("toshiba-xg5").contains("write sim:toshiba-xg5 for"));
    }

    #[test]
    fn no_key_is_set_twice_and_the_order_is_no_matter() {
        assert!(error("sim:toshiba-xg5,spare=7%,spare=28%").contains("spare is set more than"));
        assert!(error("sim:,trim=on,controller.trim=off").contains("controller.trim is set more"));
        for pair in [
            "spare=7%,capacity.logical=400GB",
            "capacity.logical=400GB,spare_of_logical=7%",
            "spare=7%,spare_of_logical=7%",
        ] {
            let error = error(&format!("sim:toshiba-xg5,{pair}"));
            assert!(error.contains("contradict each other"), "{error}");
        }
        let logical = |text: &str| {
            let Target::Simulated { profile, .. } = Target::parse(text).unwrap() else { panic!() };
            profile.configuration().unwrap().geometry.capacity()
        };
        let after = logical("sim:generic-tlc,capacity.physical=256GiB,spare=28%");
        assert_eq!(after, logical("sim:generic-tlc,spare=28%,capacity.physical=256GiB"));
        assert!(after < ssdlab_units::GIB * 185);
    }

    #[test]
    fn a_bare_word_is_no_file_to_create() {
        for text in ["toshiba-xg6", "SIM:toshiba-xg5", "Toshiba-XG5", "toshiba_xg5"] {
            let error = error(text);
            assert!(error.contains("write sim:toshiba-xg5 for"), "{error}");
            assert!(
                error.contains(&format!("or ./{text} with --create-file for a new file")),
                "{error}"
            );
        }
        let with_changes = error("Sim:toshiba-xg5,spare=7%");
        assert!(with_changes.contains("write sim:toshiba-xg5,spare=7% for"), "{with_changes}");
        assert!(error("new.dat").contains("write sim:PROFILE for"));
        assert!(error("SIM:./my.toml").contains("write sim:./my.toml for"));
        // An existing file, or a word with a separator, is a path.
        assert!(matches!(Target::parse("src"), Ok(Target::Path(_))));
        assert!(matches!(Target::parse("./new.dat"), Ok(Target::Path(_))));
    }

    #[test]
    fn a_file_that_is_no_drive_is_said_to_be_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, "no drive").unwrap();
        let error = error(&format!("sim:{}", path.display()));
        assert!(error.contains("neither a saved drive nor a profile"), "{error}");
    }
}
