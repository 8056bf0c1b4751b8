//! Single change of a fix: description in words, execution, and undo.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{SystemRoot, read, write};
use crate::error::HostError;

/// Single change of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Enables and starts a systemd unit.
    Enable {
        /// Name of the unit.
        unit: String,
    },
    /// Writes a file.
    Write {
        /// Path of the file, below the root.
        path: String,
        /// Content before the change; `None` if the file did not exist.
        before: Option<String>,
        /// Content after the change.
        after: String,
    },
    /// Writes to a file in sysfs that holds a setting of a device.
    SetFile {
        /// Path of the file, below the root.
        path: String,
        /// Value before the change.
        before: String,
        /// Value after the change.
        after: String,
    },
    /// Changes a setting of the kernel by sysctl.
    Set {
        /// Name of the setting, as sysctl has it.
        name: String,
        /// Value before the change.
        before: String,
        /// Value after the change.
        after: String,
    },
}

impl Change {
    /// Returns a description of the change: commands, or lines that are removed and added.
    pub fn describe(&self) -> String {
        match self {
            Change::Enable { unit } => format!("systemctl enable --now {unit}\n"),
            Change::Set { name, before, after } => {
                format!("sysctl {name}={after}    # it is {before} now\n")
            }
            Change::SetFile { path, before, after } => {
                format!("echo {after} > /{path}    # it is {before} now\n")
            }
            Change::Write { path, before, after } => {
                let mut text = format!("/{path}:\n");
                text += &line_diff(before.as_deref().unwrap_or(""), after);
                if before.is_some() {
                    text += &format!("  (a copy is kept as /{path}.ssdlab-backup)\n");
                }
                text
            }
        }
    }

    /// Returns a description of the change's undo, in the same form.
    pub fn describe_undo(&self) -> String {
        match self {
            Change::Enable { unit } => format!("systemctl disable --now {unit}\n"),
            Change::Set { name, before, after } => {
                format!("sysctl {name}={before}    # it was set to {after}\n")
            }
            Change::SetFile { path, before, after } => {
                format!("echo {before} > /{path}    # it was set to {after}\n")
            }
            Change::Write { path, before: Some(before), after } => {
                format!("/{path}:\n{}", line_diff(after, before))
            }
            Change::Write { path, before: None, .. } => format!("/{path} is removed\n"),
        }
    }
}

/// Returns the lines that are removed from one text to another, and those that are added.
fn line_diff(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("  - {line}\n"));
    let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("  + {line}\n"));
    gone.chain(come).collect()
}

impl Change {
    pub(super) fn apply(&self, system: &SystemRoot) -> Result<(), HostError> {
        match self {
            Change::Enable { unit } => run(system, "systemctl", &["enable", "--now", unit]),
            Change::Set { name, after, .. } => {
                run(system, "sysctl", &["-w", &format!("{name}={after}")])
            }
            Change::SetFile { path, after, .. } => write_setting(system, path, after),
            Change::Write { path, before, after } => {
                let file = system.path(path);
                let Some(before) = before else { return write_world_readable(&file, after) };
                let backup = file.with_added_extension("ssdlab-backup");
                write(&backup, before, Some(&file))?;
                write(&file, after, Some(&file))
            }
        }
    }

    /// Undoes the change. A setting that somebody else has set since, or that cannot be set, is left as it is, and the
    /// text that says so is returned: values in files take effect at the next start.
    pub(super) fn revert(&self, system: &SystemRoot) -> Result<Option<String>, HostError> {
        match self {
            Change::Enable { unit } => run(system, "systemctl", &["disable", "--now", unit])?,
            Change::Set { name, before, after } => {
                let now = read(system, &format!("proc/sys/{}", name.replace('.', "/")))?;
                if let Some(now) = now.as_deref().map(str::trim).filter(|now| now != after) {
                    return Ok(Some(format!("{name} is {now} now, which somebody else has set")));
                }
                let outcome = run(system, "sysctl", &["-w", &format!("{name}={before}")]);
                return Ok(outcome.err().map(|error| {
                    format!("{name} is {before} again only from the next boot on: {error}")
                }));
            }
            Change::SetFile { path, before, after } => {
                // The device may be gone, or may be another one now.
                let Some(now) = read(system, path)?.map(|now| now.trim().to_owned()) else {
                    return Ok(None);
                };
                if now != *after {
                    return Ok(Some(format!("/{path} is {now} now, which somebody else has set")));
                }
                write_setting(system, path, before)?;
            }
            Change::Write { path, before: Some(before), .. } => {
                let file = system.path(path);
                write(&file, before, Some(&file))?;
                let _ = std::fs::remove_file(system.path(&format!("{path}.ssdlab-backup")));
            }
            Change::Write { path, before: None, .. } => {
                let file = system.path(path);
                match std::fs::remove_file(&file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(HostError::io(format!("remove {}", file.display()), error));
                    }
                    _ => {}
                }
            }
        }
        Ok(None)
    }
}

/// Writes a file that all users can read.
fn write_world_readable(path: &Path, text: &str) -> Result<(), HostError> {
    write(path, text, None)?;
    #[cfg(unix)]
    {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(path, all).map_err(|source| {
            HostError::io(format!("change the rights of {}", path.display()), source)
        })?;
    }
    Ok(())
}

/// Writes to an existing file in sysfs.
fn write_setting(system: &SystemRoot, path: &str, text: &str) -> Result<(), HostError> {
    let file = system.path(path);
    let write =
        || OpenOptions::new().write(true).truncate(true).open(&file)?.write_all(text.as_bytes());
    write().map_err(|source| HostError::io(format!("write {text} to {}", file.display()), source))
}

fn run(system: &SystemRoot, program: &str, arguments: &[&str]) -> Result<(), HostError> {
    if !system.runs_programs {
        return Ok(());
    }
    let shown = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|source| HostError::io(format!("run {shown}"), source))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(HostError::io(format!("do '{shown}'"), std::io::Error::other(message)))
        }
    }
}
