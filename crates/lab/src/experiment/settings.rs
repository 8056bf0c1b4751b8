//! Parameters of protocols: their types, their values and the changes by the user.

use std::path::Path;

use ssdlab_drive::Description;
use ssdlab_drive::phase::MAX_DEPTH;
use ssdlab_drive::{DriveKind, Pattern};
use ssdlab_model::profile::{SHORT_KEYS, parameter_keys};
use ssdlab_units::text::{QuantityError, hint, parse_duration, parse_length};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::Experiment;
use crate::error::LabError;
use crate::report::Parameter;

/// Type of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A length, such as `4G`.
    Length,
    /// A duration, such as `10s`; 0 means no time at all.
    Duration,
    /// A whole number of at least 1.
    Count,
    /// A comma-separated list of lengths, such as `4K,64K`; rising, each a multiple of 512.
    Lengths,
    /// A number of at least 0, such as `1.5`.
    Factor,
    /// A whole number from 0 to 100.
    Percent,
    /// Part of the drive: a length, or `all`.
    Area,
    /// Input file of the run; it may be given before the target.
    File,
    /// Order of blocks: `random`, `sequential`, or a distribution such as `zipf:0.99`.
    Pattern,
    /// Any word, or none.
    Word,
    /// One of some words.
    Choice(&'static [&'static str]),
}

/// One parameter of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct ParameterSpec {
    /// Name, as given to `--set`.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Value in the full protocol.
    pub full: &'static str,
    /// Value with `--quick`.
    pub quick: &'static str,
    /// Description in one line.
    pub help: &'static str,
}

/// The parameter values of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    values: Vec<(&'static ParameterSpec, String)>,
    given: Vec<&'static str>,
    /// Full size of the drive divided by the scaled size. Times are shorter by the same factor.
    divisor: u32,
    threads: usize,
}

impl Settings {
    /// Returns the values of the full or the quick protocol, with those that the user set.
    pub fn new(
        experiment: &dyn Experiment,
        quick: bool,
        set: &[(String, String)],
    ) -> Result<Settings, LabError> {
        let value = |spec: &ParameterSpec| if quick { spec.quick } else { spec.full }.to_owned();
        Settings::from_values(experiment, 1, value, set)
    }

    /// Returns the values of the full protocol for a drive scaled down by `divisor`, with those that the user
    /// set. Default times are shorter by the same factor.
    pub fn for_scaled_drive(
        experiment: &dyn Experiment,
        divisor: u32,
        set: &[(String, String)],
    ) -> Result<Settings, LabError> {
        let value = |spec: &ParameterSpec| match spec.kind {
            Kind::Duration => {
                let full = parse_duration(spec.full).expect("protocols are sound");
                duration_text(Nanoseconds::new(full.nanos() / u64::from(divisor)))
            }
            _ => spec.full.to_owned(),
        };
        Settings::from_values(experiment, divisor, value, set)
    }

    /// Returns the values of the full protocol for a small drive that is not scaled, with those that the user
    /// set. Default times are those of the quick protocol.
    pub fn for_small_drive(
        experiment: &dyn Experiment,
        set: &[(String, String)],
    ) -> Result<Settings, LabError> {
        let value = |spec: &ParameterSpec| match spec.kind {
            Kind::Duration => spec.quick.to_owned(),
            _ => spec.full.to_owned(),
        };
        Settings::from_values(experiment, 1, value, set)
    }

    fn from_values(
        experiment: &dyn Experiment,
        divisor: u32,
        value: impl Fn(&ParameterSpec) -> String,
        set: &[(String, String)],
    ) -> Result<Settings, LabError> {
        let specs = experiment.parameters();
        let mut settings = Settings {
            values: specs.iter().map(|spec| (spec, value(spec))).collect(),
            given: Vec::new(),
            divisor,
            threads: std::thread::available_parallelism().map_or(1, |count| count.get()),
        };
        for (name, value) in set {
            let Some(slot) = settings.values.iter_mut().find(|(spec, _)| spec.name == name) else {
                return Err(LabError::UnknownParameter {
                    experiment: experiment.name(),
                    name: name.clone(),
                    hint: drive_key_hint(name, value)
                        .unwrap_or_else(|| hint(name, specs.iter().map(|spec| spec.name))),
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

    /// Returns the value of `name` as the user wrote it.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.values
            .iter()
            .find(|(spec, _)| spec.name == name)
            .map(|(_, value)| value.as_str())
            .expect("an experiment asks for its own parameters")
    }

    /// Returns true if the user set `name`.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Returns all parameters with their values as text, in the protocol's order.
    pub fn values(&self) -> impl Iterator<Item = (&'static ParameterSpec, &str)> {
        self.values.iter().map(|(spec, value)| (*spec, value.as_str()))
    }

    /// Returns the file called `name`.
    ///
    /// # Errors
    /// Returns an error if the file was not given.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter.
    pub fn file(&self, name: &'static str) -> Result<&Path, LabError> {
        match self.text(name) {
            "" => Err(LabError::Range {
                name,
                value: "not given".to_owned(),
                why: "name the file before the target, or with --set".to_owned(),
            }),
            path => Ok(Path::new(path)),
        }
    }

    /// Sets the duration called `name` if it follows from another parameter.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter.
    pub(crate) fn derive_duration(&mut self, name: &str, value: Nanoseconds) {
        let slot = self.values.iter_mut().find(|(spec, _)| spec.name == name);
        let (_, text) = slot.expect("an experiment asks for its own parameters");
        *text = duration_text(value);
    }

    /// Returns the length called `name`.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no length.
    pub fn length(&self, name: &str) -> ByteLength {
        parse_length(self.text(name)).expect("lengths were checked")
    }

    /// Returns the order of blocks called `name`.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no order of blocks.
    pub(crate) fn pattern(&self, name: &str) -> Pattern {
        parse_pattern(self.text(name)).expect("orders of blocks were checked")
    }

    /// Returns the duration called `name`.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no duration.
    pub fn duration(&self, name: &str) -> Nanoseconds {
        parse_duration(self.text(name)).expect("durations were checked")
    }

    /// Returns the count called `name`.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no count.
    pub fn count(&self, name: &str) -> u32 {
        self.text(name).parse().expect("counts were checked")
    }

    /// Returns the lengths called `name`.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no list of lengths.
    pub fn lengths(&self, name: &str) -> Vec<ByteLength> {
        parse_lengths(self.text(name)).expect("lengths were checked")
    }

    /// Returns the number called `name`.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no number.
    pub fn factor(&self, name: &str) -> f64 {
        self.text(name).parse().expect("numbers were checked")
    }

    /// Returns the percentage called `name`.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no percentage.
    pub fn percent(&self, name: &str) -> u8 {
        self.text(name).parse().expect("percentages were checked")
    }

    /// Returns the length of the area called `name` on `drive`, in whole MiB.
    ///
    /// # Panics
    /// Panics if the experiment has no such parameter, or if it is no area.
    pub fn area(&self, name: &'static str, drive: &Description) -> Result<ByteLength, LabError> {
        let text = self.value_on_drive(name, drive);
        let length = match (text, drive.kind) {
            (ALL, DriveKind::File | DriveKind::Directory) => {
                return Err(LabError::Range {
                    name,
                    value: ALL.to_owned(),
                    why: format!("a test file at {} needs a size: --set {name}=8G", drive.name),
                });
            }
            (ALL, _) => drive.capacity,
            _ => parse_length(text).expect("areas were checked"),
        };
        let whole = MIB * length.whole(MIB);
        if whole < MIN_AREA {
            return Err(LabError::Range {
                name,
                value: text.to_owned(),
                why: format!("it must be at least {MIN_AREA}"),
            });
        }
        // An area larger than the drive is an error of the drive, which names its capacity.
        Ok(whole)
    }

    /// Returns the value of `name` on this drive. A default area that is larger than the drive becomes `all`.
    fn value_on_drive(&self, name: &str, drive: &Description) -> &str {
        let (spec, value) = self
            .values
            .iter()
            .find(|(spec, _)| spec.name == name)
            .expect("an experiment asks for its own parameters");
        let is_too_much = matches!(spec.kind, Kind::Area)
            && !self.is_given(name)
            && matches!(drive.kind, DriveKind::Simulated | DriveKind::Device)
            && parse_length(value).is_ok_and(|length| length > drive.capacity);
        if is_too_much { ALL } else { value }
    }

    /// Returns an error if a parameter was set that has no effect on a drive of this kind.
    pub(crate) fn check_kind(
        &self,
        experiment: &dyn Experiment,
        kind: DriveKind,
    ) -> Result<(), LabError> {
        let names = experiment.simulated_only_parameters();
        let Some(name) = names.iter().copied().find(|name| self.is_given(name)) else {
            return Ok(());
        };
        if kind == DriveKind::Simulated {
            return Ok(());
        }
        Err(LabError::Range {
            name,
            value: self.text(name).to_owned(),
            why: "it is the host time of a simulated drive and has no effect on a real drive; \
                  leave it out"
                .to_owned(),
        })
    }

    /// Sets the number of workloads that may run in parallel on copies of a simulated drive; the default is
    /// the number of processors. The results do not depend on it.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    /// Returns the number of workloads that may run in parallel.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the full size of the drive divided by the scaled size; 1 if the drive is not scaled.
    pub fn divisor(&self) -> u32 {
        self.divisor
    }

    /// Returns a time of the full protocol, shortened by the scale of the drive.
    pub(crate) fn scale_time(&self, time: Nanoseconds) -> Nanoseconds {
        Nanoseconds::new(time.nanos() / u64::from(self.divisor))
    }

    /// Returns true if any value differs from the full protocol.
    pub fn shortened(&self) -> bool {
        self.values.iter().any(|(spec, value)| !equals_full(spec, value))
    }

    /// Returns all values on this drive, for the report.
    pub fn parameters(&self, drive: &Description) -> Vec<Parameter> {
        self.values
            .iter()
            .map(|(spec, _)| (spec, self.value_on_drive(spec.name, drive)))
            .map(|(spec, value)| Parameter {
                name: spec.name.to_owned(),
                value: value.to_owned(),
                changed: !equals_full(spec, value),
            })
            .collect()
    }
}

/// Returns the explanation that `name` belongs to the target, if it is a parameter of simulated drives;
/// `None` for any other name.
fn drive_key_hint(name: &str, value: &str) -> Option<String> {
    let is_key = parameter_keys().iter().chain(&SHORT_KEYS).any(|known| *known == name);
    is_key.then(|| {
        format!(
            "it is a setting of simulated drives; give it in the target: sim:PROFILE,{name}={value}"
        )
    })
}

/// Returns a duration in the notation of `--set`.
fn duration_text(value: Nanoseconds) -> String {
    match value {
        Nanoseconds::ZERO => "0s".to_owned(),
        _ => humantime::format_duration(value.into()).to_string(),
    }
}

/// Returns true if a value equals that of the full protocol in any notation.
fn equals_full(spec: &ParameterSpec, value: &str) -> bool {
    match spec.kind {
        Kind::Length => parse_length(value) == parse_length(spec.full),
        Kind::Duration => parse_duration(value) == parse_duration(spec.full),
        Kind::Lengths => parse_lengths(value) == parse_lengths(spec.full),
        Kind::Factor => value.parse::<f64>() == spec.full.parse::<f64>(),
        Kind::Area if value != ALL && spec.full != ALL => {
            parse_length(value) == parse_length(spec.full)
        }
        // The input file does not shorten the protocol.
        Kind::File => true,
        Kind::Pattern => parse_pattern(value) == parse_pattern(spec.full),
        Kind::Word | Kind::Count | Kind::Percent | Kind::Area | Kind::Choice(_) => {
            value == spec.full
        }
    }
}

/// The area that is the whole drive.
const ALL: &str = "all";

/// Name of the parameter for the queue depth, in every experiment that has one.
const DEPTH: &str = "depth";

/// Minimum area: a smaller one says nothing about a drive.
const MIN_AREA: ByteLength = ByteLength::new(16 << 20);

fn parse_lengths(text: &str) -> Result<Vec<ByteLength>, QuantityError> {
    let lengths: Vec<ByteLength> = text.split(',').map(parse_length).collect::<Result<_, _>>()?;
    let sector = ssdlab_blockio::data::SECTOR;
    let are_sectors =
        lengths.iter().all(|&one| one > ByteLength::ZERO && one.is_multiple_of(sector));
    if are_sectors && lengths.is_sorted_by(|a, b| a < b) {
        return Ok(lengths);
    }
    Err(QuantityError {
        text: text.to_owned(),
        expected: "a list of rising sizes, each a multiple of 512 bytes, such as 4K,64K,1M",
    })
}

fn parse_pattern(text: &str) -> Result<Pattern, QuantityError> {
    match text {
        "random" => Ok(Pattern::Random),
        "sequential" => Ok(Pattern::Sequential),
        _ => match text.parse() {
            Ok(skew) => Ok(Pattern::Skewed(skew)),
            Err(error) if text.contains(':') => Err(error),
            Err(_) => Err(QuantityError {
                text: text.to_owned(),
                expected: "random, sequential or a distribution such as zipf:0.99",
            }),
        },
    }
}

fn check_value(spec: &ParameterSpec, value: &str) -> Result<(), LabError> {
    let wrong = |expected| Err(QuantityError { text: value.to_owned(), expected });
    let trimmed = value.trim();
    let outcome = match spec.kind {
        Kind::Length => parse_length(value).map(|_| ()),
        Kind::Duration => parse_duration(value).map(|_| ()),
        Kind::Count => match trimmed.parse::<u32>() {
            Ok(count) if spec.name == DEPTH && count > MAX_DEPTH => {
                return Err(LabError::Range {
                    name: spec.name,
                    value: trimmed.to_owned(),
                    why: format!("it must be from 1 to {MAX_DEPTH}"),
                });
            }
            Ok(count) if count >= 1 => Ok(()),
            _ => wrong("a whole number from 1 to 4294967295"),
        },
        Kind::Lengths => parse_lengths(trimmed).map(|_| ()),
        Kind::Factor => match trimmed.parse::<f64>() {
            Ok(factor) if (0.0..1e6).contains(&factor) => Ok(()),
            _ => wrong("a number from 0 to less than a million, such as 1.5"),
        },
        Kind::Percent => match trimmed.parse::<u8>() {
            Ok(0..=100) => Ok(()),
            _ => wrong("a whole number from 0 to 100"),
        },
        Kind::File if trimmed.is_empty() => wrong("the path of a file"),
        Kind::File | Kind::Word => Ok(()),
        Kind::Area if trimmed == ALL => Ok(()),
        Kind::Area => match parse_length(trimmed) {
            Ok(_) => Ok(()),
            Err(_) => wrong("a size, such as 8G, or 'all' of the drive"),
        },
        Kind::Pattern => parse_pattern(trimmed).map(|_| ()),
        Kind::Choice(words) if words.contains(&trimmed) => Ok(()),
        Kind::Choice(words) => {
            let why = format!("it must be one of {}", words.join(", "));
            let value = trimmed.to_owned();
            return Err(LabError::Range { name: spec.name, value, why });
        }
    };
    outcome.map_err(|source| LabError::Value { name: spec.name.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_told_from_one_that_belongs_elsewhere() {
        let error = |name: &str, value: &str| {
            let set = [(name.to_owned(), value.to_owned())];
            let steady = crate::experiment::named("steady").unwrap();
            Settings::new(steady, true, &set).unwrap_err().to_string()
        };
        assert!(error("Dpeth", "4").ends_with("did you mean depth?"), "{}", error("Dpeth", "4"));
        assert!(error("colour", "red").contains("there are: "), "{}", error("colour", "red"));
        let key = error("flash.page_read", "70us");
        assert!(key.ends_with("sim:PROFILE,flash.page_read=70us"), "{key}");
        assert!(error("spare", "7%").ends_with("sim:PROFILE,spare=7%"));
    }

    #[test]
    fn what_is_out_of_range_is_said_before_anything_begins() {
        let error = |name: &str, value: &str| {
            let set = [(name.to_owned(), value.to_owned())];
            let steady = crate::experiment::named("steady").unwrap();
            let error = Settings::new(steady, true, &set).unwrap_err();
            let source = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error} {}", source.unwrap_or_default())
        };
        let deep = error("depth", "4097");
        assert!(deep.contains("depth is 4097: it must be from 1 to 4096"), "{deep}");
        let many = error("depth", "4294967296");
        assert!(many.contains("from 1 to 4294967295"), "{many}");
        assert!(error("fill", "1e6").contains("less than a million"), "{}", error("fill", "1e6"));
    }
}
