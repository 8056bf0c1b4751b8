//! What a drive tells of itself, asked for once and looked at by several checks.

use serde_json::Value;
use ssdlab_drive::real::smart::{self, Smart};
use ssdlab_model::units::ByteLength;

use super::{Context, DriveDiagnosis, checks};
use crate::facts::{Absent, Facts};
use crate::layers::{Layer, LayerKind};
use crate::words;

/// All that a drive and the kernel tell of it.
pub(super) struct Drive<'a> {
    pub(super) layer: &'a Layer,
    /// What `smartctl --json -x` prints; null where it prints nothing.
    pub(super) smartctl: Value,
    /// What `nvme id-ctrl` prints.
    pub(super) controller: Value,
    /// What `nvme id-ns` prints.
    pub(super) namespace: Value,
    /// What `nvme smart-log` prints.
    pub(super) health_log: Value,
    /// What `hdparm -I` prints.
    pub(super) identify: String,
    /// What of that counts in common.
    pub(super) smart: Smart,
    /// Why it tells nothing of its state.
    pub(super) silent: Option<String>,
    /// Whether disks of its kind have nothing to tell, whoever asks.
    is_mute: bool,
}

impl<'a> Drive<'a> {
    fn of(context: &Context, layer: &'a Layer) -> Drive<'a> {
        let mut drive = Drive {
            layer,
            smartctl: Value::Null,
            controller: Value::Null,
            namespace: Value::Null,
            health_log: Value::Null,
            identify: String::new(),
            smart: Smart::default(),
            silent: None,
            is_mute: false,
        };
        let path = layer.path.as_str();
        let mut why = Vec::new();
        let mut json =
            |program: &str, arguments: &[&str]| match asked(context.facts, program, arguments) {
                Ok(text) => serde_json::from_str(&text).unwrap_or(Value::Null),
                Err(absent) => {
                    why.push(reason(program, &absent));
                    Value::Null
                }
            };
        let is_nvme = layer.kind == LayerKind::Nvme;
        let speaks_scsi = layer.name.starts_with("sd");
        if is_nvme || speaks_scsi {
            drive.smartctl = json("smartctl", &["--json=c", "-x", path]);
            drive.smart = smart::from_smartctl(&drive.smartctl);
        }
        if is_nvme {
            drive.controller = json("nvme", &["id-ctrl", path, "-o", "json"]);
            drive.namespace = json("nvme", &["id-ns", path, "-o", "json"]);
            drive.health_log = json("nvme", &["smart-log", path, "-o", "json"]);
            if drive.smart == Smart::default() {
                drive.smart = smart::from_nvme(&drive.health_log);
            }
        }
        if matches!(layer.kind, LayerKind::Sata | LayerKind::Usb { .. }) {
            drive.identify = asked(context.facts, "hdparm", &["-I", path]).unwrap_or_default();
        }
        drive.is_mute = !is_nvme && !speaks_scsi;
        if drive.smart == Smart::default() {
            drive.silent = Some(match (is_nvme || speaks_scsi, why.is_empty()) {
                (false, _) => "a disk of this kind has no SMART".to_owned(),
                (true, true) => "the drive does not say".to_owned(),
                (true, false) => {
                    why.dedup();
                    words::list(&why)
                }
            });
        }
        drive
    }

    /// The model, as the drive itself says it, not the part that SCSI has room for.
    pub(super) fn model(&self) -> Option<String> {
        let told = [&self.smartctl["model_name"], &self.controller["mn"]];
        let told =
            told.into_iter().find_map(|name| name.as_str().map(|name| name.trim().to_owned()));
        let identify = || {
            let line = self.identify.lines().find_map(|it| it.trim().strip_prefix("Model Number:"));
            line.map(|name| name.trim().to_owned())
        };
        told.or_else(identify).or_else(|| self.layer.title.clone())
    }

    /// Whether it is flash, as far as can be told: what is asked of it directly counts more than
    /// what the kernel has assumed.
    pub(super) fn is_flash(&self) -> Option<bool> {
        if self.layer.kind == LayerKind::Nvme || self.layer.kind == LayerKind::Mmc {
            return Some(true);
        }
        if let Some(rate) = self.smartctl["rotation_rate"].as_u64() {
            return Some(rate == 0);
        }
        if self.identify.contains("Solid State Device") {
            return Some(true);
        }
        match (&self.layer.kind, self.layer.limits.is_rotational) {
            // These say so of everything.
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

    /// What root could find out, or why the drive tells nothing.
    pub(super) fn missing(&self, context: &Context, what: &str) -> String {
        match (&self.silent, context.machine.is_root || self.is_mute) {
            (Some(_), false) => format!("as root: {what}"),
            (Some(why), true) => format!("{what} ({why})"),
            (None, _) => format!("{what} (the drive does not say)"),
        }
    }
}

/// What a program prints, unless it failed to get at the drive.
fn asked(facts: &dyn Facts, program: &str, arguments: &[&str]) -> Result<String, Absent> {
    let output = facts.run(program, arguments)?;
    // smartctl's exit code is a set of flags; the lowest two say that it got nowhere.
    let is_lost = match program {
        "smartctl" => output.status.is_none_or(|status| status & 3 != 0),
        _ => output.status != Some(0),
    };
    if is_lost && !facts.machine().is_root {
        return Err(Absent::Denied);
    }
    if is_lost {
        let last = output.stderr.lines().chain(output.stdout.lines()).last().unwrap_or_default();
        let said = output
            .json()
            .and_then(|json| Some(json["smartctl"]["messages"][0]["string"].as_str()?.to_owned()));
        return Err(Absent::Failed(said.unwrap_or_else(|| last.trim().to_owned())));
    }
    Ok(output.stdout)
}

fn reason(program: &str, absent: &Absent) -> String {
    match absent {
        Absent::Missing => format!("{program} is not installed"),
        Absent::Denied => format!("only root may ask with {program}"),
        Absent::Failed(why) => format!("{program}: {why}"),
        Absent::NotCaptured => "it was not captured".to_owned(),
    }
}

/// Examines the drives under all targets, each once.
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
        if is_ours && !seen.contains(&layer.name.as_str()) {
            seen.push(&layer.name);
            let drive = Drive::of(context, layer);
            found.push(DriveDiagnosis {
                drive: layer.name.clone(),
                path: layer.path.clone(),
                what: layer.words(),
                checks: checks::of_drive(context, &drive),
            });
        }
    }
    found
}
