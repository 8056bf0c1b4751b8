//! Diagnosis (`ssdlab doctor`): a list of checks of drives, file systems and the machine. Each check has a verdict, the
//! observation, the reason why it matters, and remedies.
//!
//! The checks change and write nothing. What only root can read is reported as unknown.

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

pub(crate) use self::checks::periodic_trim::{PeriodicTrim, Timer};
pub(crate) use self::checks::swappiness::check as swappiness;
pub use self::checks::trim::{TrimReach, TrimStop};

/// Names of the checks, with the question that each check answers.
pub const CHECKS: [(&str, &str); 18] = checks::ALL;

pub use self::proof::TrimProof;
pub use self::text::Options;
pub use self::values::Values;

/// Severity of a check's outcome, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The setting is as it should be.
    Fine,
    /// The state could not be determined.
    Unknown,
    /// Worth knowing; may be intended.
    Notice,
    /// Costs speed or endurance, or will do harm when something else happens.
    Warning,
    /// Does harm now.
    Problem,
}

impl Verdict {
    /// Returns the verdict's name, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Unknown => "unknown",
            Verdict::Notice => "notice",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        }
    }
}

/// Remedy for a problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Text that says what the remedy does, and what to mind.
    pub words: String,
    /// Command to type as root; `None` if there is none, or if it depends on what is not known here.
    pub command: Option<String>,
}

/// Outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Name of the check.
    pub check: &'static str,
    /// Severity of the outcome.
    pub verdict: Verdict,
    /// Text that says what was observed.
    pub seen: String,
    /// Text that says why the observation matters; empty if all is fine.
    pub why: String,
    /// Remedies, the best first.
    pub remedies: Vec<Remedy>,
    /// Text that says what more could be found out, and how (as root, for example).
    pub missing: Option<String>,
    /// Set by the check `trim` only: how far TRIM gets.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub reach: Option<TrimReach>,
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

    pub(crate) fn with_reason(mut self, why: impl Into<String>) -> Check {
        self.why = why.into();
        self
    }

    pub(crate) fn with_remedy(
        mut self,
        words: impl Into<String>,
        command: Option<String>,
    ) -> Check {
        self.remedies.push(Remedy { words: words.into(), command });
        self
    }

    pub(crate) fn with_missing(mut self, missing: impl Into<String>) -> Check {
        self.missing = Some(missing.into());
        self
    }
}

/// Diagnosis of one drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriveDiagnosis {
    /// Kernel's name of the drive.
    pub drive: String,
    /// Path of the device file.
    pub path: String,
    /// Description of the drive in words.
    pub what: String,
    /// Measured values of the drive.
    pub values: Values,
    /// Outcomes of the checks of the drive.
    pub checks: Vec<Check>,
}

/// Diagnosis of a file system, or of a device that was named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetDiagnosis {
    /// Target that was asked for.
    pub target: String,
    /// Storage layers from the target down to the drives.
    pub layers: Layer,
    /// Outcomes of the checks of the target.
    pub checks: Vec<Check>,
}

/// Diagnosis of the whole machine, or of one target and its drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Name of this output format: `ssdlab.doctor/1`.
    pub schema: &'static str,
    /// Machine, and whether root examined it.
    pub machine: Machine,
    /// Worst of all verdicts; `Unknown` counts as `Fine`.
    pub worst: Verdict,
    /// Outcomes of the checks of the machine as a whole.
    pub checks: Vec<Check>,
    /// Drives that were examined.
    pub drives: Vec<DriveDiagnosis>,
    /// File systems of the machine, or the target that was asked for.
    pub targets: Vec<TargetDiagnosis>,
}

impl Diagnosis {
    /// Returns every outcome, with the name of what was checked: `machine`, a drive or a target.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Check)> {
        let machine = self.checks.iter().map(|check| ("machine", check));
        let drives = self.drives.iter();
        let drives = drives.flat_map(|it| it.checks.iter().map(|check| (it.drive.as_str(), check)));
        let targets = self.targets.iter();
        let targets =
            targets.flat_map(|it| it.checks.iter().map(|check| (it.target.as_str(), check)));
        machine.chain(drives).chain(targets)
    }

    /// Returns the diagnosis in Prometheus' text format, as the textfile collector reads it.
    pub fn prometheus(&self) -> String {
        prometheus::text(self)
    }

    /// Returns the diagnosis as text for people.
    pub fn to_text(&self, options: &Options) -> String {
        text::render(self, options)
    }
}

/// Input of the checks.
pub(crate) struct Context<'a> {
    pub(crate) facts: &'a dyn Facts,
    pub(crate) machine: Machine,
    pub(crate) stacks: &'a [Stack],
}

impl Context<'_> {
    /// Returns the text for what is missing: that root could find it out, or, if root has examined the machine, that
    /// the machine does not tell.
    pub(crate) fn missing_text(&self, what: &str) -> String {
        match self.machine.is_root {
            true => format!("{what}: this machine does not tell"),
            false => format!("as root: {what}"),
        }
    }
}

/// Examines a target, or the whole machine.
///
/// # Errors
/// Returns an error if the target does not exist, or if the machine does not run Linux.
pub fn examine(facts: &dyn Facts, target: Option<&str>) -> Result<Diagnosis, HostError> {
    let machine = facts.machine();
    if !machine.is_linux() {
        let words = format!(
            "only Linux is examined, and this is {}; --from examines a machine that 'ssdlab doctor \
             --capture' has captured",
            machine.system
        );
        return Err(HostError::Unsupported(words));
    }
    let stacks = match target {
        Some(target) => vec![layers::stack_of(facts, target)?],
        None => layers::all_stacks(facts),
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
