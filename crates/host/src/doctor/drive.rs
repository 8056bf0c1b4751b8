//! Facts about a drive: read once, and used by several checks.

use ssdlab_blockdev::smart::{self, Controller, Smart};
use ssdlab_units::ByteLength;

use super::values::Values;
use super::{Context, DriveDiagnosis, checks};
use crate::facts::{Absent, CommandOutput, Facts};
use crate::format;
use crate::layers::{Layer, LayerKind};

/// Facts about a drive, by its own reports and by the kernel.
pub(super) struct Drive<'a> {
    pub(super) layer: &'a Layer,
    /// Health of the drive, by smartctl and nvme-cli.
    pub(super) smart: Smart,
    /// Identify controller of an NVMe drive, by nvme-cli.
    pub(super) controller: Controller,
    /// True if deallocated blocks of an NVMe drive read as zeros; `None` if not known or not NVMe.
    pub(super) reads_zeros: Option<bool>,
    /// Output of `hdparm -I`; empty if there is none.
    pub(super) identify: String,
    /// Reason why the drive's health could not be read; `None` if it was.
    pub(super) no_health_reason: Option<String>,
    /// True if drives of this kind have no health report at all.
    has_no_health_report: bool,
}

impl<'a> Drive<'a> {
    fn of(context: &Context, layer: &'a Layer) -> Drive<'a> {
        let path = layer.path.as_str();
        let mut why = Vec::new();
        let mut ask = |program: &str, arguments: &[&str]| {
            let answer = run_on_drive(context.facts, program, arguments);
            answer.map_err(|absent| why.push(absence_text(program, &absent))).ok()
        };
        let is_nvme = layer.kind == LayerKind::Nvme;
        let speaks_scsi = layer.name.starts_with("sd");
        let mut smart = Smart::default();
        let mut controller = Controller::default();
        let mut reads_zeros = None;
        if is_nvme || speaks_scsi {
            let report = ask("smartctl", &["--json=c", "-x", path]).and_then(|it| it.json());
            smart = report.as_ref().map(smart::from_smartctl).unwrap_or_default();
        }
        if is_nvme {
            let text =
                |output: Option<CommandOutput>| output.map(|it| it.stdout).unwrap_or_default();
            controller = Controller::read(&text(ask("nvme", &["id-ctrl", path, "-o", "json"])));
            reads_zeros = smart::reads_zeros(&text(ask("nvme", &["id-ns", path, "-o", "json"])));
            let log = ask("nvme", &["smart-log", path, "-o", "json"]).and_then(|it| it.json());
            let health = log.as_ref().map(smart::from_nvme).unwrap_or_default();
            // Both programs read the same log: fill what smartctl did not print. Signs are taken from one of the two
            // only.
            smart = if smart.passed.is_some() {
                smart.or(Smart { signs: Vec::new(), ..health })
            } else {
                smart.or(health)
            };
        }
        let mut identify = String::new();
        if matches!(layer.kind, LayerKind::Sata | LayerKind::Usb { .. }) {
            let output = run_on_drive(context.facts, "hdparm", &["-I", path]);
            identify = output.map(|it| it.stdout).unwrap_or_default();
        }
        let has_no_health_report = !is_nvme && !speaks_scsi;
        let no_health_reason =
            smart.is_silent().then(|| match (has_no_health_report, why.is_empty()) {
                (true, _) => "a disk of this kind has no SMART".to_owned(),
                (false, true) => "the drive does not say".to_owned(),
                (false, false) => {
                    why.dedup();
                    format::list(&why)
                }
            });
        Drive {
            layer,
            smart,
            controller,
            reads_zeros,
            identify,
            no_health_reason,
            has_no_health_report,
        }
    }

    /// Returns the model by the drive's own report; the name by SCSI may be cut short.
    pub(super) fn model(&self) -> Option<String> {
        let identify = || {
            let line = self.identify.lines().find_map(|it| it.trim().strip_prefix("Model Number:"));
            line.map(|name| name.trim().to_owned())
        };
        let reported = self.smart.model.clone().or_else(|| self.controller.model.clone());
        reported.or_else(identify).or_else(|| self.layer.title.clone())
    }

    /// Returns true if the drive is flash, `None` if that is not known. The drive's own report has precedence over the
    /// kernel's value.
    pub(super) fn is_flash(&self) -> Option<bool> {
        if self.layer.kind == LayerKind::Nvme || self.layer.kind == LayerKind::Mmc {
            return Some(true);
        }
        if let Some(spins) = self.smart.spins {
            return Some(!spins);
        }
        if self.identify.contains("Solid State Device") {
            return Some(true);
        }
        match (&self.layer.kind, self.layer.limits.is_rotational) {
            // Bridges, RAID controllers and virtual disks report every drive as rotational.
            (
                LayerKind::Usb { .. } | LayerKind::HardwareRaid { .. } | LayerKind::Virtual,
                Some(true),
            ) => None,
            (_, rotational) => rotational.map(|it| !it),
        }
    }

    pub(super) fn size(&self) -> ByteLength {
        self.layer.size().unwrap_or(ByteLength::ZERO)
    }

    /// Returns the text for what is missing: that root could find it out, or why the drive does not tell.
    pub(super) fn missing_text(&self, context: &Context, what: &str) -> String {
        match (&self.no_health_reason, context.machine.is_root || self.has_no_health_report) {
            (Some(_), false) => format!("as root: {what}"),
            (Some(why), true) => format!("{what} ({why})"),
            (None, _) => format!("{what} (the drive does not say)"),
        }
    }
}

/// Returns the output of a program, or an error if it could not get at the drive.
fn run_on_drive(
    facts: &dyn Facts,
    program: &str,
    arguments: &[&str],
) -> Result<CommandOutput, Absent> {
    let output = facts.run(program, arguments)?;
    // smartctl's exit code is a bit mask; the lowest two bits mean that it got nothing from the drive.
    let is_failed = match program {
        "smartctl" => output.status.is_none_or(|status| status & 3 != 0),
        _ => output.status != Some(0),
    };
    if is_failed && !facts.machine().is_root {
        return Err(Absent::Denied);
    }
    if is_failed {
        let last = output.stderr.lines().chain(output.stdout.lines()).last().unwrap_or_default();
        let reported = output
            .json()
            .and_then(|json| Some(json["smartctl"]["messages"][0]["string"].as_str()?.to_owned()));
        return Err(Absent::Failed(reported.unwrap_or_else(|| last.trim().to_owned())));
    }
    Ok(output)
}

fn absence_text(program: &str, absent: &Absent) -> String {
    match absent {
        Absent::Missing => format!("{program} is not installed"),
        Absent::Denied => format!("only root may ask with {program}"),
        Absent::Failed(why) => format!("{program}: {why}"),
        Absent::NotCaptured => "it was not captured".to_owned(),
    }
}

/// Examines the drives of all targets, each drive once.
pub(super) fn examine(context: &Context) -> Vec<DriveDiagnosis> {
    let mut seen: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for layer in context.stacks.iter().flat_map(|stack| stack.drives()) {
        let is_ours = !matches!(
            layer.kind,
            LayerKind::Zram
                | LayerKind::Network
                | LayerKind::Loop { .. }
                | LayerKind::Mapper { .. }
        );
        // A card reader without a card, or a network disk that is not connected.
        let is_ours = is_ours && layer.size_bytes != Some(0);
        if is_ours && !seen.contains(&layer.name.as_str()) {
            seen.push(&layer.name);
            let drive = Drive::of(context, layer);
            found.push(DriveDiagnosis {
                drive: layer.name.clone(),
                path: layer.path.clone(),
                what: layer.describe(),
                values: Values::of(context, &drive),
                checks: checks::of_drive(context, &drive),
            });
        }
    }
    found
}
