//! Lists for Python: profiles with their parameters, experiments with theirs, and stacks.

use pyo3::prelude::*;
use ssdlab_lab::Target;
use ssdlab_lab::experiment::{self, Kind};
use ssdlab_lab::target;
use ssdlab_model::profile::{self, Profile as ModelProfile};

use crate::failure::Failure;

/// A profile with what is changed in it.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Profile(Box<ModelProfile>);

/// Parameter of a profile: key, value, basis, source, meaning.
type Parameter = (&'static str, String, &'static str, String, &'static str);

#[pymethods]
impl Profile {
    /// Reads a simulated drive as a target names it, without its `sim:`.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Profile> {
        let target = py.detach(|| Target::parse(&format!("sim:{text}"))).map_err(Failure::from)?;
        match target {
            Target::Simulated { profile, .. } => Ok(Profile(profile)),
            _ => Err(Failure::usage(format!(
                "'{text}' is a saved drive, not a profile; open it with ssdlab.Drive"
            ))
            .into()),
        }
    }

    /// Its name.
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns what drive it is, in a line.
    fn summary(&self) -> &str {
        self.0.summary()
    }

    /// The text that it was read from, without changes.
    fn toml(&self) -> &str {
        self.0.text()
    }

    /// All parameters in the order to show them, those that the profile does not set as well.
    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.0.parameters();
        all.extend(self.0.parameters_not_set());
        let place = |key| profile::parameter_keys().iter().position(|it| *it == key);
        all.sort_by_key(|it| place(it.key));
        all.into_iter()
            .map(|it| {
                let meaning = profile::parameter_meaning(it.key).unwrap_or_default();
                (it.key, it.value, it.basis.name(), it.source, meaning)
            })
            .collect()
    }

    /// Bytes that can be addressed, bytes of flash, bytes of a mapping unit, mapping units of what is
    /// collected at a time, the spare share of physical, and the write amplification that theory expects.
    fn figures(&self) -> PyResult<(u64, u64, u64, u32, f64, Option<f64>)> {
        let configuration = self
            .0
            .configuration()
            .map_err(|error| Failure::of(ssdlab_drive::ErrorKind::Usage, &error))?;
        let geometry = &configuration.geometry;
        Ok((
            geometry.capacity().bytes(),
            geometry.physical_capacity().bytes(),
            geometry.unit_size().bytes(),
            geometry.units_per_block(),
            geometry.spare_of_physical(),
            configuration.expectation().map(|it| it.write_amplification),
        ))
    }
}

/// The names of the profiles that come along, and the default one.
#[pyfunction]
pub fn profile_names() -> (Vec<&'static str>, &'static str) {
    (profile::embedded().iter().map(|(name, _)| *name).collect(), profile::DEFAULT)
}

/// Parameter of an experiment: name, kind, full and quick value, meaning.
type Setting = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// Every experiment: name, question, source, parameters.
#[pyfunction]
pub fn experiments() -> Vec<(&'static str, &'static str, &'static str, Vec<Setting>)> {
    experiment::all()
        .iter()
        .map(|it| {
            let settings = it.parameters().iter();
            let settings = settings.map(|s| (s.name, kind(s.kind), s.full, s.quick, s.help));
            (it.name(), it.question(), it.source(), settings.collect())
        })
        .collect()
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Length => "length",
        Kind::Duration => "duration",
        Kind::Count => "count",
        Kind::Lengths => "lengths",
        Kind::Factor => "factor",
        Kind::Percent => "percent",
        Kind::Area => "area",
        Kind::File => "file",
        Kind::Pattern => "pattern",
        Kind::Word => "word",
        Kind::Choice(_) => "choice",
    }
}

/// Every kind of stack: name, meaning, members, and its options with default and meaning.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn stacks()
-> Vec<(&'static str, &'static str, &'static str, Vec<(&'static str, &'static str, &'static str)>)>
{
    target::stacks()
        .iter()
        .map(|it| {
            let options = it.options.iter().map(|one| (one.name, one.default, one.help));
            (it.name, it.summary, it.members, options.collect())
        })
        .collect()
}
