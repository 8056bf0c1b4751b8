//! How a user names a drive, and the drive that it means.
//!
//! `sim:PROFILE` and `sim:PROFILE,key=value,...` are simulated drives, `sim:` the default one,
//! `sim:./my.toml` one of the user's own. Anything else is a path.

use std::path::{Path, PathBuf};

use ssdlab_drive::Drive;
use ssdlab_drive::real::{RealDrive, RealOptions};
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_model::profile::{self, Basis, Profile};

use crate::error::LabError;

/// What a user named.
#[derive(Clone, Debug)]
pub enum Target {
    /// A simulated drive, under the name it was given.
    Simulated {
        /// The name, changes included.
        name: String,
        /// Its profile, changes applied.
        profile: Box<Profile>,
    },
    /// A file or directory on a real drive.
    Path(PathBuf),
}

impl Target {
    /// Reads a target; the files it names are read, no drive is opened yet.
    pub fn parse(text: &str) -> Result<Target, LabError> {
        if let Some(rest) = text.strip_prefix("sim:") {
            return parse_simulated(text, rest);
        }
        for stack in ["raid0(", "raid1(", "raid10(", "raid5(", "usb(", "crypt("] {
            if text.starts_with(stack) {
                return Err(LabError::Unsupported(format!(
                    "target '{text}': stacks of drives are not supported yet; name one drive"
                )));
            }
        }
        if text.is_empty() {
            return Err(LabError::Target {
                text: text.to_owned(),
                why: "name a simulated drive (sim:PROFILE) or a path".to_owned(),
            });
        }
        if profile::embedded().iter().any(|(name, _)| *name == text) && !Path::new(text).exists() {
            return Err(LabError::Target {
                text: text.to_owned(),
                why: format!("that is a profile, and there is no such file; write sim:{text}"),
            });
        }
        Ok(Target::Path(PathBuf::from(text)))
    }

    /// Opens the drive.
    pub fn open(&self, options: &RealOptions) -> Result<Box<dyn Drive>, LabError> {
        match self {
            Target::Simulated { name, profile } => Ok(Box::new(simulated(name, profile)?)),
            Target::Path(path) => Ok(Box::new(RealDrive::open(path, options.clone())?)),
        }
    }

    /// Whether it is simulated, so that trying it costs neither time nor wear.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Target::Simulated { .. })
    }
}

fn parse_simulated(text: &str, rest: &str) -> Result<Target, LabError> {
    let mut parts = rest.split(',');
    let name = match parts.next() {
        None | Some("") => profile::DEFAULT,
        Some(name) => name,
    };
    let mut profile = load(name)?;
    let mut changed = false;
    for part in parts {
        let Some((key, value)) = part.split_once('=') else {
            return Err(LabError::Target {
                text: text.to_owned(),
                why: format!("'{part}' is not key=value"),
            });
        };
        profile.set(key.trim(), value.trim())?;
        changed = true;
    }
    if changed {
        profile.check()?;
    }
    let name = if rest.is_empty() { format!("sim:{name}") } else { text.to_owned() };
    Ok(Target::Simulated { name, profile: Box::new(profile) })
}

fn load(name: &str) -> Result<Profile, LabError> {
    let path = Path::new(name);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ssd") => Err(LabError::Unsupported(format!(
            "sim:{name}: saved drives are not supported yet; name a profile"
        ))),
        Some("toml") => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| LabError::Read { path: path.to_owned(), source })?;
            let stem = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
            Ok(Profile::parse(&stem, name, &text)?)
        }
        _ => Ok(Profile::named(name)?),
    }
}

/// The simulated drive of a profile, with the facts a report shows of it.
fn simulated(name: &str, profile: &Profile) -> Result<SimulatedDrive, LabError> {
    let configuration = profile.configuration()?;
    let geometry = &configuration.geometry;
    let count = |basis: Basis| {
        profile.parameters().iter().filter(|parameter| parameter.basis == basis).count()
    };
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let given: Vec<String> = profile
        .parameters()
        .into_iter()
        .filter(|parameter| parameter.basis == Basis::Given)
        .map(|parameter| format!("{} = {}", parameter.key, parameter.value))
        .collect();
    let mut facts = vec![
        fact("profile", profile.summary().to_owned()),
        fact("flash", flash_words(geometry)),
        fact("mapping unit", geometry.unit_size().to_string()),
        fact("spare area", format!("{:.2} % of physical", geometry.spare_of_physical() * 100.0)),
        fact(
            "parameters",
            format!(
                "{} published, {} fitted, {} assumed (see 'ssdlab list profiles')",
                count(Basis::Published),
                count(Basis::Fitted),
                count(Basis::Assumed)
            ),
        ),
    ];
    if !given.is_empty() {
        facts.push(fact("changed", given.join(", ")));
    }
    let drive = SimulatedDrive::new(name, configuration)
        .map_err(|source| LabError::Target { text: name.to_owned(), why: source.to_string() })?;
    Ok(drive.describe(facts, Vec::new()))
}

fn flash_words(geometry: &ssdlab_model::geometry::Geometry) -> String {
    let p = geometry.parameters();
    format!(
        "{} dies on {} channels, {} {}, {} pages, {} in all",
        p.dies,
        p.channels,
        p.planes_per_die,
        if p.planes_per_die == 1 { "plane each" } else { "planes each" },
        p.page_size,
        geometry.physical_capacity()
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
        assert!(error("sim:toshiba-xg5,page_read=60us").contains("perhaps flash.page_read"));
        assert!(error("sim:toshiba-xg5,flash.page_read=soon").contains("a duration"));
        assert!(error("sim:toshiba-xg5,flash.page_read=2h").contains("not within"));
        assert!(error("sim:nosuch").contains("there is no profile 'nosuch'"));
        assert!(error("sim:toshiba-xg5,spare").contains("not key=value"));
        assert!(error("toshiba-xg5").contains("write sim:toshiba-xg5"));
        assert!(error("usb(sim:a)").contains("not supported yet"));
    }
}
