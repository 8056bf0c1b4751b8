//! The parameters of a protocol: what there are, what they are set to, and what was changed.

use std::path::Path;

use ssdlab_drive::Description;
use ssdlab_drive::phase::DEPTH_MOST;
use ssdlab_drive::{DriveKind, Pattern};
use ssdlab_model::profile::{SHORT_KEYS, parameter_keys};
use ssdlab_units::text::{QuantityError, hint, parse_duration, parse_length};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

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
    /// Lengths with commas between them, such as `4K,64K`; rising, each a multiple of 512.
    Lengths,
    /// A number of at least 0, such as `1.5`.
    Factor,
    /// A whole number from 0 to 100.
    Percent,
    /// How much of the drive is used: a length, or `all` of it.
    Area,
    /// A file that the run is about; it may be given before the target.
    File,
    /// The order of blocks: `random`, `sequential`, or a distribution such as `zipf:0.99`.
    Pattern,
    /// Any word, or none.
    Word,
    /// One of some words.
    Choice(&'static [&'static str]),
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
    /// The drive is one in so many of the one that was asked for, and times are as many times shorter.
    divisor: u32,
    threads: usize,
}

impl Settings {
    /// The values of the full or the quick protocol, with what the user set.
    pub fn new(
        experiment: &dyn Experiment,
        quick: bool,
        set: &[(String, String)],
    ) -> Result<Settings, LabError> {
        let value = |spec: &ParameterSpec| if quick { spec.quick } else { spec.full }.to_owned();
        Settings::with(experiment, 1, value, set)
    }

    /// The values of the full protocol on a drive that is one in `divisor` of the one asked for, with
    /// what the user set: times are as many times shorter.
    pub fn at_scale(
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
        Settings::with(experiment, divisor, value, set)
    }

    /// The values of the full protocol on a drive that is small as it is, with what the user set: times
    /// are those of the quick protocol.
    pub fn of_a_small_drive(
        experiment: &dyn Experiment,
        set: &[(String, String)],
    ) -> Result<Settings, LabError> {
        let value = |spec: &ParameterSpec| match spec.kind {
            Kind::Duration => spec.quick.to_owned(),
            _ => spec.full.to_owned(),
        };
        Settings::with(experiment, 1, value, set)
    }

    fn with(
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
                    hint: misplaced(name, value)
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

    /// The value called `name` as it was written.
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

    /// Returns every parameter with its value as it was written, in the protocol's order.
    pub fn values(&self) -> impl Iterator<Item = (&'static ParameterSpec, &str)> {
        self.values.iter().map(|(spec, value)| (*spec, value.as_str()))
    }

    /// The file called `name`.
    ///
    /// # Errors
    /// When none was given.
    ///
    /// # Panics
    /// When the experiment has no such parameter.
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

    /// Sets the duration called `name`, because it follows from another parameter.
    ///
    /// # Panics
    /// When the experiment has no such parameter.
    pub(crate) fn derive_duration(&mut self, name: &str, value: Nanoseconds) {
        let slot = self.values.iter_mut().find(|(spec, _)| spec.name == name);
        let (_, text) = slot.expect("an experiment asks for its own parameters");
        *text = duration_text(value);
    }

    /// The length called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no length.
    pub fn length(&self, name: &str) -> ByteLength {
        parse_length(self.text(name)).expect("lengths were checked")
    }

    /// The order of blocks called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no order of blocks.
    pub(crate) fn pattern(&self, name: &str) -> Pattern {
        parse_pattern(self.text(name)).expect("orders of blocks were checked")
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

    /// The lengths called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no list of lengths.
    pub fn lengths(&self, name: &str) -> Vec<ByteLength> {
        parse_lengths(self.text(name)).expect("lengths were checked")
    }

    /// The number called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no number.
    pub fn factor(&self, name: &str) -> f64 {
        self.text(name).parse().expect("numbers were checked")
    }

    /// The percentage called `name`.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no percentage.
    pub fn percent(&self, name: &str) -> u8 {
        self.text(name).parse().expect("percentages were checked")
    }

    /// Returns how much of `drive` the parameter called `name` means, in whole MiB.
    ///
    /// # Panics
    /// When the experiment has no such parameter, or it is no area.
    pub fn area(&self, name: &'static str, drive: &Description) -> Result<ByteLength, LabError> {
        let text = self.on(name, drive);
        let length = match (text, drive.kind) {
            (ALL, DriveKind::File | DriveKind::Directory) => {
                return Err(LabError::Range {
                    name,
                    value: ALL.to_owned(),
                    why: format!(
                        "{} is a place for a file, and a file has to have a size: --set {name}=8G",
                        drive.name
                    ),
                });
            }
            (ALL, _) => drive.capacity,
            _ => parse_length(text).expect("areas were checked"),
        };
        let whole = MIB * length.whole(MIB);
        if whole < AREA_LEAST {
            return Err(LabError::Range {
                name,
                value: text.to_owned(),
                why: format!("it must be at least {AREA_LEAST}"),
            });
        }
        // What is too much for the drive is its own error, which says how much it holds.
        Ok(whole)
    }

    /// The value called `name` on this drive: an area that nobody asked for is all of a drive that is
    /// smaller.
    fn on(&self, name: &str, drive: &Description) -> &str {
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

    /// Fails where something was set that has no effect on a drive of this kind.
    pub(crate) fn check_kind(
        &self,
        experiment: &dyn Experiment,
        kind: DriveKind,
    ) -> Result<(), LabError> {
        let names = experiment.only_simulated();
        let Some(name) = names.iter().copied().find(|name| self.is_given(name)) else {
            return Ok(());
        };
        if kind == DriveKind::Simulated {
            return Ok(());
        }
        Err(LabError::Range {
            name,
            value: self.text(name).to_owned(),
            why: "it is the time that the host of a simulated drive takes, and has no effect on a \
                  real drive, whose host takes its own; leave it out"
                .to_owned(),
        })
    }

    /// Lets no more than `threads` workloads run side by side, on copies of a simulated drive; as many as
    /// there are processors unless this is called. It changes no figure.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    /// Returns how many workloads may run side by side.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns by how much the drive was made smaller than the one that was asked for: 1 where it was not.
    pub fn divisor(&self) -> u32 {
        self.divisor
    }

    /// Returns a time of the full protocol as long as it is on a drive of this scale.
    pub(crate) fn at_this_scale(&self, time: Nanoseconds) -> Nanoseconds {
        Nanoseconds::new(time.nanos() / u64::from(self.divisor))
    }

    /// Returns true if anything differs from the full protocol.
    pub fn shortened(&self) -> bool {
        self.values.iter().any(|(spec, value)| !same(spec, value))
    }

    /// All values as they are on this drive, for the report.
    pub fn parameters(&self, drive: &Description) -> Vec<Parameter> {
        self.values
            .iter()
            .map(|(spec, _)| (spec, self.on(spec.name, drive)))
            .map(|(spec, value)| Parameter {
                name: spec.name.to_owned(),
                value: value.to_owned(),
                changed: !same(spec, value),
            })
            .collect()
    }
}

/// The place of a parameter of simulated drives, which is no parameter of a protocol; `None` for any other
/// name.
fn misplaced(name: &str, value: &str) -> Option<String> {
    let is_key = parameter_keys().iter().chain(&SHORT_KEYS).any(|known| *known == name);
    is_key.then(|| {
        format!(
            "it is a parameter of simulated drives, which belongs to the target: \
             sim:PROFILE,{name}={value}"
        )
    })
}

/// A duration as it would be given to `--set`.
fn duration_text(value: Nanoseconds) -> String {
    match value {
        Nanoseconds::ZERO => "0s".to_owned(),
        _ => humantime::format_duration(value.into()).to_string(),
    }
}

/// Returns true if a value is the full protocol's, however it is written.
fn same(spec: &ParameterSpec, value: &str) -> bool {
    match spec.kind {
        Kind::Length => parse_length(value) == parse_length(spec.full),
        Kind::Duration => parse_duration(value) == parse_duration(spec.full),
        Kind::Lengths => parse_lengths(value) == parse_lengths(spec.full),
        Kind::Factor => value.parse::<f64>() == spec.full.parse::<f64>(),
        Kind::Area if value != ALL && spec.full != ALL => {
            parse_length(value) == parse_length(spec.full)
        }
        // Which file it is about shortens no protocol.
        Kind::File => true,
        Kind::Pattern => parse_pattern(value) == parse_pattern(spec.full),
        Kind::Word | Kind::Count | Kind::Percent | Kind::Area | Kind::Choice(_) => {
            value == spec.full
        }
    }
}

/// An area that is the whole drive.
const ALL: &str = "all";

/// What the requests in flight are called, in every experiment that asks for them.
const DEPTH: &str = "depth";

/// Less than this says nothing about a drive.
const AREA_LEAST: ByteLength = ByteLength::new(16 << 20);

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
            Ok(count) if spec.name == DEPTH && count > DEPTH_MOST => {
                return Err(LabError::Range {
                    name: spec.name,
                    value: trimmed.to_owned(),
                    why: format!("it must be from 1 to {DEPTH_MOST}"),
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
            let why = format!("it is one of {}", words.join(", "));
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
