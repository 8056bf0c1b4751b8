//! Single simulated drives: the profile, the user's changes to it, and the facts in a report.

use std::path::Path;

use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::simulated::saved::{SavedDrive, is_saved};
use ssdlab_drive::stack::Composition;
use ssdlab_model::profile::{self, Basis, Profile, ProfileError};
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::ByteLength;

use super::Target;
use crate::error::LabError;
use crate::experiment::{self, Experiment};

pub(super) fn parse(text: &str, rest: &str) -> Result<Target, LabError> {
    let mut parts = rest.split(',');
    let name = match parts.next() {
        None | Some("") => profile::DEFAULT,
        Some(name) => name,
    };
    if let Some(saved) = open_if_saved(name)? {
        if let Some(change) = parts.next() {
            let why = format!(
                "a saved drive keeps its parameters; precondition another one with --set {change}"
            );
            return Err(LabError::Target { text: text.to_owned(), why });
        }
        return Ok(Target::Saved { name: text.to_owned(), saved: Box::new(saved) });
    }
    let mut profile = load_profile(name)?;
    let changes =
        parse_changes(parts).map_err(|why| LabError::Target { text: text.to_owned(), why })?;
    for (key, value) in &changes {
        profile.set(key, value).map_err(|error| experiment_parameter_hint(error, text, value))?;
    }
    if !changes.is_empty() {
        profile.check()?;
    }
    let name = if rest.is_empty() { format!("sim:{name}") } else { text.to_owned() };
    Ok(Target::Simulated { name, profile: Box::new(profile) })
}

/// Replaces the error for an unknown key if the key is a parameter of experiments.
fn experiment_parameter_hint(error: ProfileError, text: &str, value: &str) -> LabError {
    let ProfileError::UnknownKey { key, .. } = &error else { return error.into() };
    let takes_it = |it: &&&dyn Experiment| it.parameters().iter().any(|spec| spec.name == key);
    let takers: Vec<&str> =
        experiment::all().iter().filter(takes_it).map(|experiment| experiment.name()).collect();
    if takers.is_empty() {
        return error.into();
    }
    let why = format!(
        "{key} is a parameter of experiments ({}), not of a drive; give it with --set {key}={value}",
        takers.join(", ")
    );
    LabError::Target { text: text.to_owned(), why }
}

/// Keys that set the logical capacity: only one of them may be given.
const LOGICAL_CAPACITY_KEYS: [&str; 3] = ["spare", "spare_of_logical", "capacity.logical"];

/// Parses the changes and sorts them in the order of application: keys of the flash, then `scale`, then
/// shares of the flash.
fn parse_changes<'a>(
    parts: impl Iterator<Item = &'a str>,
) -> Result<Vec<(&'a str, &'a str)>, String> {
    let mut changes: Vec<(&str, &str)> = Vec::new();
    for part in parts {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("'{part}' is not key=value"))?;
        // `trim` is the only short name that stands for a key of the profile.
        let key = if key.trim() == "trim" { "controller.trim" } else { key.trim() };
        for &(earlier, _) in &changes {
            if earlier == key {
                return Err(format!("{key} is set more than once"));
            }
            if LOGICAL_CAPACITY_KEYS.contains(&earlier) && LOGICAL_CAPACITY_KEYS.contains(&key) {
                return Err(format!("{earlier} and {key} contradict each other; give one of them"));
            }
        }
        changes.push((key, value.trim()));
    }
    changes.sort_by_key(|(key, _)| (LOGICAL_CAPACITY_KEYS[..2].contains(key), *key == "scale"));
    Ok(changes)
}

/// Opens the saved drive in the file `name`; `None` if `name` is no path of a saved drive. The content of the
/// file decides, not its name.
fn open_if_saved(name: &str) -> Result<Option<SavedDrive>, LabError> {
    let path = Path::new(name);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_path =
        name.contains(std::path::is_separator) || matches!(extension, Some("ssd" | "toml"));
    if !is_path {
        return Ok(None);
    }
    let is_saved =
        is_saved(path).map_err(|source| LabError::Read { path: path.to_owned(), source })?;
    // A file called `.ssd` is opened even if it is no saved drive, for the error message.
    if is_saved || extension == Some("ssd") { Ok(Some(SavedDrive::open(path)?)) } else { Ok(None) }
}

fn load_profile(name: &str) -> Result<Profile, LabError> {
    let path = Path::new(name);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| LabError::Read { path: path.to_owned(), source })?;
            let stem = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
            Ok(Profile::parse(&stem, name, &text)?)
        }
        // No profile has a name with a path separator.
        _ if name.contains(std::path::is_separator) && path.exists() => Err(LabError::Target {
            text: name.to_owned(),
            why: "this file is neither a saved drive nor a profile (whose name ends in .toml)"
                .to_owned(),
        }),
        _ => Ok(Profile::named(name)?),
    }
}

/// Creates the simulated drive of a profile, with the facts that a report shows.
pub(super) fn open(name: &str, profile: &Profile) -> Result<SimulatedDrive, LabError> {
    let configuration = profile.configuration()?;
    let facts = facts(profile, &configuration.geometry);
    let drive = SimulatedDrive::new(name, configuration)
        .map_err(|source| LabError::Target { text: name.to_owned(), why: source.to_string() })?;
    Ok(drive.describe(facts, Vec::new()).mark_as_new())
}

/// Opens a saved drive in its saved state.
pub(super) fn open_saved(name: &str, saved: &SavedDrive) -> Result<SimulatedDrive, LabError> {
    let drive = SimulatedDrive::of(name, Composition::Saved(Box::new(saved.clone())))
        .map_err(|source| LabError::Target { text: name.to_owned(), why: source.to_string() })?;
    let mut facts = facts(saved.profile(), &saved.configuration().geometry);
    facts.push(("saved drive".to_owned(), saved.name().to_owned()));
    facts.push(("its state".to_owned(), saved.history().to_owned()));
    let caveat = format!(
        "the drive started from its saved state ({}); counters and wear continue from there",
        saved.history()
    );
    Ok(drive.describe(facts, vec![caveat]))
}

/// Returns the facts that a report shows of a drive of `profile`.
fn facts(profile: &Profile, geometry: &Geometry) -> Vec<(String, String)> {
    let count = |basis: Basis| {
        profile.parameters().iter().filter(|parameter| parameter.basis == basis).count()
    };
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![
        fact("profile", profile.summary().to_owned()),
        fact("flash", flash_description(geometry)),
        fact("mapping unit", geometry.unit_size().to_string()),
        fact("over-provisioning", spare_description(geometry)),
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
    if let Some(changed) = changes_text(profile) {
        facts.push(fact("changed", changed));
    }
    facts
}

/// Returns the keys that the user changed in a profile, with their values; `None` if there are none.
pub(super) fn changes_text(profile: &Profile) -> Option<String> {
    let given: Vec<String> = profile
        .parameters()
        .into_iter()
        .filter(|parameter| parameter.basis == Basis::Given)
        .map(|parameter| format!("{} = {}", parameter.key, parameter.value))
        .collect();
    (!given.is_empty()).then(|| given.join(", "))
}

/// Returns the over-provisioning in words, and the part of it that is left for GC if blocks are reserved to
/// replace bad ones.
pub(crate) fn spare_description(geometry: &Geometry) -> String {
    let spare = format!("{:.2} % of physical", geometry.spare_of_physical() * 100.0);
    let kept = geometry.unit_size()
        * u64::from(geometry.parameters().reserve_collection_units)
        * u64::from(geometry.units_per_block());
    if kept == ByteLength::ZERO {
        return spare;
    }
    let units = geometry.physical_units().saturating_sub(geometry.logical_units());
    let left = (geometry.unit_size() * u64::from(units)).bytes() as f64;
    let share = left / geometry.physical_capacity().bytes() as f64 * 100.0;
    format!("{spare}; {share:.2} % for garbage collection, as {kept} replace bad blocks")
}

pub(super) fn flash_description(geometry: &Geometry) -> String {
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
