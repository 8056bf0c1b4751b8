//! Stacks of simulated drives as users write them: `raid1(sim:a,spare=7%;sim:b),sync=none`.
//!
//! Members stand between parentheses, separated by `;`, and may be stacks themselves; options of the stack
//! follow the closing parenthesis. Errors name the position in the text.

mod kinds;
mod parser;

pub use kinds::{StackKind, StackOption, stacks};

use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::stack::{
    Array, Composition, Encryption, Level, ReadPolicy, Synchronisation, UsbBridge,
};
use ssdlab_nand::timing::TransferRate;
use ssdlab_units::Nanoseconds;
use ssdlab_units::text::{QuantityError, hint, parse_duration, parse_length, parse_switch};

use super::{Target, simulated};
use crate::error::LabError;
use kinds::STACKS;
use parser::{ParseFault, parse_member, parse_options, split_members};

/// A stack, as the user named it.
#[derive(Clone, Debug)]
pub struct StackTarget {
    name: String,
    kind: &'static StackKind,
    members: Vec<Target>,
    /// The value of each option of the kind.
    values: Vec<String>,
}

impl StackTarget {
    /// Parses a stack; `None` if `text` is no stack.
    pub(super) fn parse(text: &str) -> Result<Option<StackTarget>, LabError> {
        let fail = |(at, why): ParseFault| LabError::Target {
            text: text.to_owned(),
            why: format!("at character {}: {why}", text[..at].chars().count() + 1),
        };
        let word = text.find('(').map_or("", |end| &text[..end]);
        if word.is_empty() || !word.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        let Some(kind) = STACKS.iter().find(|kind| kind.name == word) else {
            if std::path::Path::new(text).symlink_metadata().is_ok() {
                return Ok(None);
            }
            let known = STACKS.iter().map(|kind| kind.name);
            return Err(fail((0, format!("there is no stack '{word}'; {}", hint(word, known)))));
        };
        let (pieces, behind) = split_members(text, word.len()).map_err(fail)?;
        let mut members = Vec::with_capacity(pieces.len());
        for (at, piece) in pieces {
            members.push(parse_member(at, piece).map_err(fail)?);
        }
        if kind.members == "1" && members.len() > 1 {
            return Err(fail((
                word.len() + 1,
                format!("{word} takes one drive, not {}", members.len()),
            )));
        }
        let values = parse_options(kind, text, behind).map_err(fail)?;
        let target = StackTarget { name: text.to_owned(), kind, members, values };
        target.composition()?;
        Ok(Some(target))
    }

    /// Returns the composition of the drives.
    pub(super) fn composition(&self) -> Result<Composition, LabError> {
        let wrong = |why: String| LabError::Target { text: self.name.clone(), why };
        let members: Vec<Composition> =
            self.members.iter().map(Target::composition).collect::<Result<_, _>>()?;
        let mut members = members.into_iter();
        let mut only = || Box::new(members.next().expect("a stack has a member"));
        let composition = match self.kind.name {
            "usb" => Composition::Usb(only(), self.bridge().map_err(wrong)?),
            "crypt" => Composition::Crypt(only(), self.encryption().map_err(wrong)?),
            name => {
                let levels = [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5];
                let level = levels.into_iter().find(|level| level.name() == name);
                let array = level.expect("the others are arrays").array(members.collect());
                Composition::Array(self.array(array).map_err(wrong)?)
            }
        };
        composition.check().map_err(|error| wrong(error.to_string()))?;
        Ok(composition)
    }

    /// Returns the kind of stack, with the options it has.
    pub(super) fn kind(&self) -> &'static StackKind {
        self.kind
    }

    /// Returns the name of the kind of stack.
    pub(super) fn kind_name(&self) -> &'static str {
        self.kind.name
    }

    pub(crate) fn members(&self) -> &[Target] {
        &self.members
    }

    /// Returns the options that differ from their defaults.
    pub(super) fn given_options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let options = self.kind.options.iter().zip(&self.values);
        options
            .filter(|(option, value)| option.default != value.as_str())
            .map(|(option, value)| (option.name, value.as_str()))
    }

    fn value(&self, option: &str) -> Option<&str> {
        let place = self.kind.options.iter().position(|it| it.name == option)?;
        Some(&self.values[place])
    }

    fn array(&self, mut array: Array) -> Result<Array, String> {
        for (option, value) in self.kind.options.iter().zip(&self.values) {
            let wrong = |error: QuantityError| format!("{}: {error}", option.name);
            match option.name {
                "chunk" => array.chunk = parse_length(value).map_err(wrong)?,
                "trim" => array.trim = parse_switch(value).map_err(wrong)?,
                "sync" => {
                    let words = [("full", Synchronisation::Full), ("none", Synchronisation::None)];
                    array.synchronisation = parse_choice("sync", value, &words)?;
                }
                _ => {
                    let words = [
                        ("free-first", ReadPolicy::FreeFirst),
                        ("round-robin", ReadPolicy::RoundRobin),
                        ("first", ReadPolicy::First),
                    ];
                    array.reads = parse_choice("reads", value, &words)?;
                }
            }
        }
        Ok(array)
    }

    fn bridge(&self) -> Result<UsbBridge, String> {
        let value = |option| self.value(option).expect("an option of the bridge");
        let protocol =
            parse_choice("protocol", value("protocol"), &[("uas", false), ("bot", true)])?;
        let per_command = parse_duration(value("per_command"))
            .map_err(|error| format!("per_command: {error}"))?;
        if per_command > Nanoseconds::from_secs(1) {
            return Err(format!("per_command: {per_command} is more than a second"));
        }
        Ok(UsbBridge {
            trim: parse_switch(value("trim")).map_err(|error| format!("trim: {error}"))?,
            flush: parse_choice("flush", value("flush"), &[("pass", true), ("swallow", false)])?,
            link: rate(value("mb_per_second"))?,
            per_command,
            one_at_a_time: protocol,
        })
    }

    fn encryption(&self) -> Result<Encryption, String> {
        let value = |option| self.value(option).expect("an option of encryption");
        let processors = value("processors");
        Ok(Encryption {
            trim: parse_switch(value("trim")).map_err(|error| format!("trim: {error}"))?,
            per_processor: rate(value("mb_per_second"))?,
            processors: processors
                .parse()
                .ok()
                .filter(|processors| (1..=1024).contains(processors))
                .ok_or_else(|| format!("processors: '{processors}' is not within 1 to 1024"))?,
        })
    }

    /// Creates the stack.
    pub(super) fn open(&self) -> Result<SimulatedDrive, LabError> {
        let drive = SimulatedDrive::of(&self.name, self.composition()?).map_err(|error| {
            LabError::Target { text: self.name.clone(), why: error.to_string() }
        })?;
        let mut facts = vec![
            ("stack".to_owned(), format!("{}: {}", self.kind.name, self.kind.summary)),
            ("options".to_owned(), self.options_text()),
            (
                "counters".to_owned(),
                "sums over all members; initial synchronisation included".to_owned(),
            ),
        ];
        self.add_member_facts("", &mut facts)?;
        let mut caveats = Vec::new();
        if self.value("sync") == Some("full") {
            caveats.push(
                "the initial synchronisation has written one copy (of raid5, the last member) \
                 whole, so that its over-provisioning is in use; sync=none leaves it out"
                    .to_owned(),
            );
        }
        let drive = drive.describe(facts, caveats);
        Ok(if self.is_new() { drive.mark_as_new() } else { drive })
    }

    /// Returns true if the stack has no saved drive.
    fn is_new(&self) -> bool {
        self.members.iter().all(|member| match member {
            Target::Stack(stack) => stack.is_new(),
            member => !matches!(member, Target::Saved { .. }),
        })
    }

    fn options_text(&self) -> String {
        let options = self.kind.options.iter().zip(&self.values);
        let words: Vec<String> =
            options.map(|(option, value)| format!("{}={value}", option.name)).collect();
        words.join(", ")
    }

    fn add_member_facts(
        &self,
        above: &str,
        facts: &mut Vec<(String, String)>,
    ) -> Result<(), LabError> {
        for (index, member) in self.members.iter().enumerate() {
            let number = format!("{above}{}", index + 1);
            let words = match member {
                Target::Stack(stack) => format!("{}: {}", stack.name, stack.options_text()),
                Target::Simulated { name, profile } => {
                    let geometry = profile.configuration()?.geometry;
                    let spare = simulated::spare_description(&geometry);
                    let flash = simulated::flash_description(&geometry);
                    format!("{name}: {flash}; over-provisioning {spare}")
                }
                Target::Saved { name, saved } => format!("{name}: {}", saved.history()),
                Target::Path(_) => unreachable!("members are simulated"),
            };
            facts.push((format!("member {number}"), words));
            if let Target::Stack(stack) = member {
                stack.add_member_facts(&format!("{number}."), facts)?;
            }
        }
        Ok(())
    }
}

fn parse_choice<T: Copy>(option: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let known = words.iter().find(|(word, _)| *word == value);
    known.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{option} is '{value}', not {}", words.join(" or "))
    })
}

fn rate(value: &str) -> Result<TransferRate, String> {
    let number = value.parse::<f64>().ok().filter(|rate| (1.0..=100_000.0).contains(rate));
    number
        .map(TransferRate::from_mb_per_second)
        .ok_or_else(|| format!("mb_per_second: '{value}' is not within 1 to 100000"))
}

impl StackTarget {
    /// Seeds each member with a different seed.
    pub(super) fn set_seed(&mut self, seed: u64) {
        for (index, member) in (0..).zip(&mut self.members) {
            member.set_seed(seed.wrapping_add(index));
        }
    }
}

impl Target {
    /// Returns the composition of a simulated target.
    fn composition(&self) -> Result<Composition, LabError> {
        match self {
            Target::Simulated { profile, .. } => {
                Ok(Composition::Ssd(Box::new(profile.configuration()?)))
            }
            Target::Saved { saved, .. } => Ok(Composition::Saved(saved.clone())),
            Target::Stack(stack) => stack.composition(),
            Target::Path(_) => unreachable!("members are simulated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_units::{KIB, MIB};

    fn error(text: &str) -> String {
        Target::parse(text).unwrap_err().to_string()
    }

    fn stack(text: &str) -> Box<StackTarget> {
        let Target::Stack(stack) = Target::parse(text).unwrap() else { panic!("{text}") };
        stack
    }

    #[test]
    fn members_and_options_are_told_apart_at_every_depth() {
        let text = "raid0(raid1(sim:,spare=28%;sim:),sync=none;usb(sim:),flush=swallow),chunk=64K";
        let Composition::Array(outer) = stack(text).composition().unwrap() else { panic!() };
        assert_eq!((outer.level, outer.chunk, outer.trim), (Level::Raid0, KIB * 64, true));
        let Composition::Array(inner) = &outer.members[0] else { panic!() };
        assert_eq!((inner.level, inner.members.len()), (Level::Raid1, 2));
        assert_eq!(inner.synchronisation, Synchronisation::None);
        let Composition::Usb(_, bridge) = &outer.members[1] else { panic!() };
        assert!(!bridge.flush && !bridge.trim && !bridge.one_at_a_time);
    }

    #[test]
    fn every_mistake_is_named_with_its_place() {
        for (text, words) in [
            ("raid1(sim:;sim:b)", "at character 12: member 'sim:b': there is no profile 'b'"),
            ("raid1(sim:;sim:", "at character 6: this '(' is never closed"),
            ("raid1(;sim:)", "at character 7: a member is missing"),
            ("raid1(sim:;/tmp)", "at character 12: '/tmp' is a path"),
            ("raid1(sim:;sim:)x", "at character 17: only options may follow"),
            ("raid1(sim:;sim:),chunk=4K", "at character 18: raid1 has no option 'chunk'"),
            ("raid1(sim:;sim:),sync", "at character 18: 'sync' is not an option"),
            ("raid1(sim:;sim:),sync=some", "sync is 'some', not full or none"),
            ("raid0(sim:;sim:),trim=on,trim=off", "at character 26: trim is set more than once"),
            ("raid0(sim:;sim:),chunk=3K", "not a power of two"),
            ("raid5(sim:;sim:)", "at least 3"),
            ("usb(sim:;sim:)", "at character 5: usb takes one drive, not 2"),
            ("usb(sim:),mb_per_second=0", "not within 1 to 100000"),
            ("crypt(sim:),processors=0", "not within 1 to 1024"),
            ("raid6(sim:)", "there is no stack 'raid6'; did you mean raid0 or raid1 or raid5?"),
            ("raid0(raid1(sim:;sim:,spare=x);sim:)", "at character 12: member 'sim:,spare=x'"),
            ("raid0(sim:;sim:,controller.unit_size=8K)", "units of 4 KiB and of 8 KiB"),
        ] {
            let error = error(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_defaults_that_are_listed_are_those_that_are_used() {
        for kind in stacks() {
            let count = match kind.members {
                "1" => 1,
                _ => 4,
            };
            let members = vec!["sim:"; count].join(";");
            let given: Vec<String> =
                kind.options.iter().map(|it| format!(",{}={}", it.name, it.default)).collect();
            let plain = stack(&format!("{}({members})", kind.name));
            let spelt = stack(&format!("{}({members}){}", kind.name, given.concat()));
            assert_eq!(plain.values, spelt.values, "{}", kind.name);
        }
    }

    #[test]
    fn a_report_names_members_and_options() {
        let members =
            "sim:,capacity.physical=32GiB,spare=30%;sim:,capacity.physical=32GiB,spare=40%";
        let mut drive = stack(&format!("raid1({members}),sync=none")).open().unwrap();
        use ssdlab_drive::Drive;
        let description = drive.description();
        let fact = |name: &str| {
            let found = description.facts.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).unwrap_or_else(|| panic!("no fact {name}"))
        };
        assert_eq!(fact("options"), "reads=free-first, sync=none, trim=on");
        assert!(fact("member 2").contains("spare=40%"));
        assert!(fact("counters").contains("sums over all members"));
        drive.prepare(MIB).unwrap();
    }
}
