//! The parameters of a protocol: what there are, what they are set to, and what was changed.

use ssdlab_model::text::{QuantityError, parse_duration, parse_length};
use ssdlab_model::units::{ByteLength, Nanoseconds};

use super::Experiment;
use crate::error::LabError;
use crate::report::Parameter;

/// What kind of value a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A length, such as `4G`.
    Length,
    /// A duration, such as `10s`; 0 means none at all.
    Duration,
    /// A whole number of at least 1.
    Count,
}

/// One parameter of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct ParameterSpec {
    /// Its name, as given to `--set`.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: Kind,
    /// Its value in the full protocol.
    pub full: &'static str,
    /// Its value with `--quick`.
    pub quick: &'static str,
    /// What it means, in one line.
    pub help: &'static str,
}

/// The values a run uses.
#[derive(Clone, Debug)]
pub struct Settings {
    values: Vec<(&'static ParameterSpec, String)>,
    given: Vec<&'static str>,
}

impl Settings {
    /// The values of the full or the quick protocol, with what the user set.
    pub fn new(
        experiment: &dyn Experiment,
        quick: bool,
        set: &[(String, String)],
    ) -> Result<Settings, LabError> {
        let specs = experiment.parameters();
        let mut settings = Settings {
            values: specs
                .iter()
                .map(|spec| (spec, if quick { spec.quick } else { spec.full }.to_owned()))
                .collect(),
            given: Vec::new(),
        };
        for (name, value) in set {
            let Some(slot) = settings.values.iter_mut().find(|(spec, _)| spec.name == name) else {
                return Err(LabError::UnknownParameter {
                    experiment: experiment.name(),
                    name: name.clone(),
                    known: specs.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", "),
                });
            };
            if settings.given.contains(&slot.0.name) {
                return Err(LabError::Repeated { name: slot.0.name });
            }
            check_value(slot.0, value)?;
            slot.1 = value.trim().to_owned();
            settings.given.push(slot.0.name);
        }
        experiment.check(&mut settings)?;
        Ok(settings)
    }

    /// The value called `name` as it was written.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.values
            .iter()
            .find(|(spec, _)| spec.name == name)
            .map(|(_, value)| value.as_str())
            .expect("an experiment asks for its own parameters")
    }

    /// Whether the user set `name`.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Sets the duration called `name`, because it follows from another parameter.
    ///
    /// # Panics
    /// When the experiment has no such parameter.
    pub(crate) fn derive_duration(&mut self, name: &str, value: Nanoseconds) {
        let slot = self.values.iter_mut().find(|(spec, _)| spec.name == name);
        let (_, text) = slot.expect("an experiment asks for its own parameters");
        *text = match value {
            Nanoseconds::ZERO => "0s".to_owned(),
            _ => humantime::format_duration(value.into()).to_string(),
        };
    }

    /// The length called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no length.
    pub fn length(&self, name: &str) -> ByteLength {
        parse_length(self.text(name)).expect("lengths were checked")
    }

    /// The duration called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no duration.
    pub fn duration(&self, name: &str) -> Nanoseconds {
        parse_duration(self.text(name)).expect("durations were checked")
    }

    /// The count called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no count.
    pub fn count(&self, name: &str) -> u32 {
        self.text(name).parse().expect("counts were checked")
    }

    /// Whether anything differs from the full protocol.
    pub fn shortened(&self) -> bool {
        self.values.iter().any(|(spec, value)| !same(spec, value))
    }

    /// All values, for the report.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.values
            .iter()
            .map(|(spec, value)| Parameter {
                name: spec.name.to_owned(),
                value: value.clone(),
                changed: !same(spec, value),
            })
            .collect()
    }
}

/// Whether a value is the full protocol's, however it is written.
fn same(spec: &ParameterSpec, value: &str) -> bool {
    match spec.kind {
        Kind::Length => parse_length(value) == parse_length(spec.full),
        Kind::Duration => parse_duration(value) == parse_duration(spec.full),
        Kind::Count => value == spec.full,
    }
}

fn check_value(spec: &ParameterSpec, value: &str) -> Result<(), LabError> {
    let outcome = match spec.kind {
        Kind::Length => parse_length(value).map(|_| ()),
        Kind::Duration => parse_duration(value).map(|_| ()),
        Kind::Count => match value.trim().parse::<u32>() {
            Ok(count) if count >= 1 => Ok(()),
            _ => Err(QuantityError {
                text: value.to_owned(),
                expected: "a whole number of at least 1",
            }),
        },
    };
    outcome.map_err(|source| LabError::Value { name: spec.name.to_owned(), source })
}
