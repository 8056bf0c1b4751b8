//! A verdict on each of a list of checks: what was seen, why it matters, and what mends it.
//!
//! Nothing is changed, and nothing is written. What only root may know is said to be unknown.

mod checks;
mod drive;
mod known;
mod prometheus;
mod proof;
mod text;
mod values;

use serde::Serialize;

use crate::error::HostError;
use crate::facts::{Facts, Machine};
use crate::layers::{self, Layer, Stack};

pub(crate) use self::checks::regular_trim::{Regular, Timer};
pub(crate) use self::checks::swappiness::check as swappiness;
pub use self::checks::trim::{Reach, Stop};

/// The checks, with the question that each answers.
pub const CHECKS: [(&str, &str); 18] = checks::ALL;

pub use self::proof::Proof;
pub use self::text::Options;
pub use self::values::Values;

/// How bad something is; in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// Not known.
    Unknown,
    /// Good to know; may be meant so.
    Notice,
    /// Costs speed or life, or will do harm when something else happens.
    Warning,
    /// Does harm now.
    Problem,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Unknown => "unknown",
            Verdict::Notice => "notice",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        }
    }
}

/// Something that mends what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What it does, and what is to be thought of.
    pub words: String,
    /// What to type, as root; nothing where that depends on what is not known here.
    pub command: Option<String>,
}

/// One check's outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub check: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// Why it matters; empty where all is fine.
    pub why: String,
    /// What mends it, the best first.
    pub remedies: Vec<Remedy>,
    /// What more could be known, and by whom.
    pub missing: Option<String>,
    /// Of the check `trim`: how far TRIM gets.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
}

impl Check {
    pub(crate) fn new(check: &'static str, verdict: Verdict, seen: impl Into<String>) -> Check {
        Check {
            check,
            verdict,
            seen: seen.into(),
            why: String::new(),
            remedies: Vec::new(),
            missing: None,
            reach: None,
        }
    }

    pub(crate) fn because(mut self, why: impl Into<String>) -> Check {
        self.why = why.into();
        self
    }

    pub(crate) fn remedy(mut self, words: impl Into<String>, command: Option<String>) -> Check {
        self.remedies.push(Remedy { words: words.into(), command });
        self
    }

    pub(crate) fn lacks(mut self, missing: impl Into<String>) -> Check {
        self.missing = Some(missing.into());
        self
    }
}

/// What was found out about a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriveDiagnosis {
    /// The kernel's name.
    pub drive: String,
    /// The device file.
    pub path: String,
    /// What it is, in words.
    pub what: String,
    /// What was measured of it.
    pub values: Values,
    /// The outcomes.
    pub checks: Vec<Check>,
}

/// What was found out about a file system, or a device that was named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetDiagnosis {
    /// What was asked for.
    pub target: String,
    /// The layers below it.
    pub layers: Layer,
    /// The outcomes.
    pub checks: Vec<Check>,
}

/// All that was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The form of this: `ssdlab.doctor/1`.
    pub schema: &'static str,
    /// The machine, and who looked.
    pub machine: Machine,
    /// The worst of all verdicts; what is unknown is not bad.
    pub worst: Verdict,
    /// What holds for the machine as a whole.
    pub checks: Vec<Check>,
    /// Its drives.
    pub drives: Vec<DriveDiagnosis>,
    /// Its file systems, or what was asked for.
    pub targets: Vec<TargetDiagnosis>,
}

impl Diagnosis {
    /// Every outcome, with what it is about.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Check)> {
        let machine = self.checks.iter().map(|check| ("machine", check));
        let drives = self.drives.iter();
        let drives = drives.flat_map(|it| it.checks.iter().map(|check| (it.drive.as_str(), check)));
        let targets = self.targets.iter();
        let targets =
            targets.flat_map(|it| it.checks.iter().map(|check| (it.target.as_str(), check)));
        machine.chain(drives).chain(targets)
    }

    /// For Prometheus: its text format, as the textfile collector reads it.
    pub fn prometheus(&self) -> String {
        prometheus::text(self)
    }

    /// For people.
    pub fn words(&self, options: &Options) -> String {
        text::words(self, options)
    }
}

/// What checks look at.
pub(crate) struct Context<'a> {
    pub(crate) facts: &'a dyn Facts,
    pub(crate) machine: Machine,
    pub(crate) stacks: &'a [Stack],
}

impl Context<'_> {
    /// Returns what root could find out here; nothing where it was root who looked.
    pub(crate) fn as_root(&self, what: &str) -> String {
        match self.machine.is_root {
            true => format!("{what}: this machine does not tell"),
            false => format!("as root: {what}"),
        }
    }
}

/// Examines a target, or the whole machine.
///
/// # Errors
/// When the target is not there, or the machine does not run Linux.
pub fn examine(facts: &dyn Facts, target: Option<&str>) -> Result<Diagnosis, HostError> {
    let machine = facts.machine();
    if !machine.is_linux() {
        let words = format!(
            "only Linux is examined, and this is {}; --from looks at a machine that 'ssdlab doctor --capture' \
             has captured",
            machine.system
        );
        return Err(HostError::Unsupported(words));
    }
    let stacks = match target {
        Some(target) => vec![layers::of(facts, target)?],
        None => layers::everything(facts),
    };
    let context = Context { facts, machine, stacks: &stacks };
    let targets: Vec<TargetDiagnosis> = stacks
        .iter()
        .map(|stack| TargetDiagnosis {
            target: stack.target.clone(),
            layers: stack.top.clone(),
            checks: checks::of_target(&context, stack),
        })
        .collect();
    let mut diagnosis = Diagnosis {
        schema: "ssdlab.doctor/1",
        machine: context.machine.clone(),
        worst: Verdict::Fine,
        checks: checks::of_machine(&context),
        drives: drive::examine(&context),
        targets,
    };
    let bad = diagnosis.all().map(|(_, check)| check.verdict);
    diagnosis.worst =
        bad.filter(|verdict| *verdict > Verdict::Unknown).max().unwrap_or(Verdict::Fine);
    Ok(diagnosis)
}
