//! Fixes that can be undone: a timer, an option in `/etc/fstab`, a setting of the kernel.
//!
//! [`plan`] plans a fix without changing anything, so that it can be shown. [`Fix::apply`] makes the changes, and
//! records each in a state file before it is made. [`undo`] takes the newest fix back, unless its files were changed
//! since: those changes were intended, so the files are left as they are.

mod change;
mod fstab;
mod state;
mod usb;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::change::Change;
use crate::doctor::{self, Context, PeriodicTrim, Timer, Verdict};
use crate::error::HostError;
use crate::facts::Facts;
use crate::layers::{LayerKind, Mounted, Stack};
use fstab::FstabEdit;

/// Names of the checks that have a fix.
pub const FIXABLE: [&str; 5] = ["trim", "automatic-trim", "atime", "barriers", "swappiness"];

/// Content of the sysctl file: with 10 the kernel still swaps, but drops cached files first.
const SWAPPINESS: &str = "# Written by 'ssdlab doctor --fix swappiness'.\nvm.swappiness = 10\n";
const SWAPPINESS_FILE: &str = "etc/sysctl.d/90-ssdlab-swappiness.conf";

/// Root directory for changes, and permission to run programs: `/` on this machine, or a made-up root in tests.
#[derive(Clone, Debug)]
pub struct SystemRoot {
    /// Directory that stands for `/`.
    pub root: PathBuf,
    /// True if programs are run (systemctl, sysctl).
    pub runs_programs: bool,
}

impl SystemRoot {
    /// Returns this machine's own root.
    pub fn of_this_machine() -> SystemRoot {
        SystemRoot { root: PathBuf::from("/"), runs_programs: true }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Fix of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// Name of the check.
    pub check: String,
    /// Changes, in order.
    pub changes: Vec<Change>,
    /// Commands that remain to be given by hand.
    pub then: Vec<String>,
}

/// Plans the fix of a check for the file systems in `stacks`. Changes nothing yet.
///
/// # Errors
/// Returns an error if the check has no fix, or if there is nothing to fix.
pub fn plan(
    check: &str,
    facts: &dyn Facts,
    stacks: &[Stack],
    system: &SystemRoot,
) -> Result<Fix, HostError> {
    let fix = |changes, then| Fix { check: check.to_owned(), changes, then };
    let planned = match check {
        "trim" => usb::plan(facts, stacks, system)?,
        "automatic-trim" => automatic_trim(facts, stacks, system)?,
        "atime" => {
            let edit = FstabEdit {
                is_removed: |option| {
                    matches!(
                        option,
                        "strictatime" | "atime" | "noatime" | "relatime" | "norelatime"
                    )
                },
                added: Some("relatime"),
                remount: "relatime",
                mounts_to_remount: points_without_relatime(stacks),
            };
            let (change, then) = fstab::plan(system, &edit.mounts_to_remount, &edit)?;
            fix(vec![change], then)
        }
        "barriers" => {
            let edit = FstabEdit {
                is_removed: is_without_barriers,
                added: None,
                remount: "barrier",
                mounts_to_remount: points_where(stacks, |mount| {
                    mount.options.iter().any(|option| is_without_barriers(option))
                }),
            };
            let (change, then) = fstab::plan(system, &points_where(stacks, |_| true), &edit)?;
            fix(vec![change], then)
        }
        "swappiness" => {
            let machine = facts.machine();
            let found = doctor::swappiness(&Context { facts, machine, stacks });
            if found.verdict <= Verdict::Unknown {
                return Err(nothing_to_fix(&format!("{}, which is fine", found.seen)));
            }
            let path = SWAPPINESS_FILE.to_owned();
            let before = read(system, &path)?;
            if before.as_deref() == Some(SWAPPINESS) {
                return Err(nothing_to_fix("swappiness is set already"));
            }
            let now = facts.text("/proc/sys/vm/swappiness").unwrap_or_else(|| "60".to_owned());
            fix(
                vec![
                    Change::Write { path, before, after: SWAPPINESS.to_owned() },
                    Change::Set { name: "vm.swappiness".into(), before: now, after: "10".into() },
                ],
                Vec::new(),
            )
        }
        other => {
            return Err(HostError::Target(format!(
                "'{other}' has no fix that can be undone: only {} have; 'ssdlab doctor' shows the \
                 commands for the rest",
                FIXABLE.join(", ")
            )));
        }
    };
    Ok(planned)
}

fn nothing_to_fix(what: &str) -> HostError {
    HostError::Target(format!("there is nothing to fix: {what}"))
}

/// Returns the mount points of the file systems whose mount fulfils the condition.
fn points_where(stacks: &[Stack], predicate: impl Fn(&Mounted) -> bool) -> Vec<String> {
    let mounts = stacks.iter().filter_map(|stack| stack.file_system()?.mount.as_ref());
    mounts.filter(|mount| predicate(mount)).map(|mount| mount.point.clone()).collect()
}

fn points_without_relatime(stacks: &[Stack]) -> Vec<String> {
    points_where(stacks, |mount| !mount.has("noatime") && !mount.has("relatime"))
}

fn is_without_barriers(option: &str) -> bool {
    matches!(option, "nobarrier" | "barrier=0" | "barrier=none" | "fsync_mode=nobarrier")
}

/// Plans the fix of `automatic-trim`: the timer if nothing trims, or removal of `discard` from fstab if both trim.
fn automatic_trim(
    facts: &dyn Facts,
    stacks: &[Stack],
    system: &SystemRoot,
) -> Result<Fix, HostError> {
    let periodic = PeriodicTrim::of(facts);
    let with = |then, changes| Fix { check: "automatic-trim".to_owned(), changes, then };
    if !periodic.is_any() {
        return match periodic.timer() {
            Timer::Masked => Err(HostError::Unsupported(
                "fstrim.timer or its service is masked, so somebody did not want it: 'systemctl \
                 unmask fstrim.timer fstrim.service' unmasks it"
                    .to_owned(),
            )),
            Timer::On => Err(HostError::Unsupported(
                "fstrim.timer is on and trims nothing: 'systemctl cat fstrim.timer fstrim.service' \
                 shows what was changed in it"
                    .to_owned(),
            )),
            Timer::Off => {
                Ok(with(Vec::new(), vec![Change::Enable { unit: "fstrim.timer".to_owned() }]))
            }
            _ => Err(HostError::Unsupported(
                "this machine has no fstrim.timer (util-linux with systemd): use cron; 'ssdlab \
                 doctor' shows how"
                    .to_owned(),
            )),
        };
    }
    let is_twice = |stack: &&Stack| {
        let layer = stack.file_system();
        // Under btrfs, discards in the background do no harm beside a timer.
        layer.is_some_and(|layer| {
            let is_btrfs = matches!(&layer.kind, LayerKind::FileSystem { file_system } if file_system == "btrfs");
            // If no regular job covers the mount, it would not be trimmed at all without the option.
            let is_both = |mount: &Mounted| {
                mount.has("discard") && periodic.coverage(facts, mount).is_any()
            };
            !is_btrfs && layer.mount.as_ref().is_some_and(is_both)
        })
    };
    let twice: Vec<Stack> = stacks.iter().filter(is_twice).cloned().collect();
    if twice.is_empty() {
        return Err(nothing_to_fix(
            "one thing trims free space already, or what trims it cannot be changed in a way that \
             could be undone; 'ssdlab doctor' says which",
        ));
    }
    let edit = FstabEdit {
        is_removed: |option| option == "discard",
        added: None,
        remount: "nodiscard",
        mounts_to_remount: points_where(&twice, |_| true),
    };
    let (change, then) = fstab::plan(system, &edit.mounts_to_remount, &edit)?;
    Ok(with(then, vec![change]))
}

/// Returns the content of a file; `None` if it does not exist.
fn read(system: &SystemRoot, path: &str) -> Result<Option<String>, HostError> {
    let path = system.path(path);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HostError::io(format!("read {}", path.display()), error)),
    }
}

/// Writes a file through a draft that is renamed when it is complete. Permissions and owner are those of `template`; if
/// `template` does not exist, only our user can read the file, because the text may contain secrets of another file. If
/// the path is a symbolic link, the file that it leads to is written.
fn write(path: &Path, text: &str, template: Option<&Path>) -> Result<(), HostError> {
    let failed = |source| HostError::io(format!("write {}", path.display()), source);
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let draft = path.with_added_extension("ssdlab-draft");
    let write = || {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        // Remove the draft of an interrupted run.
        let _ = std::fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create_new(true).open(&draft)?;
        file.write_all(text.as_bytes())?;
        if let Some(found) = template.and_then(|template| std::fs::metadata(template).ok()) {
            // Set the owner first: changing the owner may clear permission bits.
            #[cfg(unix)]
            copy_owner(&found, &file)?;
            file.set_permissions(found.permissions())?;
            #[cfg(target_os = "linux")]
            copy_selinux_label(template, &file);
        }
        file.sync_all()?;
        std::fs::rename(&draft, path)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&draft);
        failed(error)
    })
}

/// Gives a file the owner and group of another.
#[cfg(unix)]
fn copy_owner(found: &std::fs::Metadata, file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    fchown(file, Some(found.uid()), Some(found.gid()))
}

/// Gives a file the SELinux label of another file, if that has one.
#[cfg(target_os = "linux")]
fn copy_selinux_label(from: Option<&Path>, to: &std::fs::File) {
    use rustix::fs::{XattrFlags, fsetxattr, getxattr};
    const NAME: &str = "security.selinux";
    let mut label = [0; 256];
    if let Some(Ok(length)) = from.map(|from| getxattr(from, NAME, &mut label[..])) {
        // If that fails, the policy's label of the directory stays.
        let _ = fsetxattr(to, NAME, &label[..length], XattrFlags::empty());
    }
}

impl Fix {
    /// Makes the changes; each is recorded in the state file before it is made. If one fails, the state file has the
    /// changes that were made until then, or does not have the fix if none was made.
    ///
    /// # Errors
    /// Returns an error if a change fails. The changes before it stay, and can be undone.
    pub fn apply(&self, system: &SystemRoot) -> Result<(), HostError> {
        // If somebody edited a file since the fix was planned, change nothing.
        for change in &self.changes {
            if let Change::Write { path, before, .. } = change
                && read(system, path)? != *before
            {
                return Err(changed_meanwhile(path));
            }
        }
        let mut state = state::State::open(system)?;
        state.done.push(Fix { changes: Vec::new(), ..self.clone() });
        for change in &self.changes {
            if let Some(fix) = state.done.last_mut() {
                fix.changes.push(change.clone());
            }
            state.save(system)?;
            let Err(error) = change.apply(system) else { continue };
            let fix = state.done.last_mut();
            // A unit may be enabled in part although the command failed, so the record stays for undo.
            if let Some(fix) = fix.filter(|_| !matches!(change, Change::Enable { .. })) {
                fix.changes.pop();
                if fix.changes.is_empty() {
                    state.done.pop();
                }
                state.save(system)?;
            }
            return Err(error);
        }
        Ok(())
    }

    /// Undoes the changes; returns in words what was left as it is.
    fn revert(&self, system: &SystemRoot) -> Result<Vec<String>, HostError> {
        // Check all files before anything is changed.
        for change in &self.changes {
            if let Change::Write { path, before, after } = change {
                let now = read(system, path)?;
                if now.as_ref() != Some(after) && now != *before {
                    return Err(changed_meanwhile(path));
                }
            }
        }
        let mut left = Vec::new();
        for change in self.changes.iter().rev() {
            left.extend(change.revert(system)?);
        }
        Ok(left)
    }
}

fn changed_meanwhile(path: &str) -> HostError {
    HostError::Refused(format!(
        "/{path} was changed by somebody else meanwhile, and is left as it is: look at it, and at \
         /{path}.ssdlab-backup if that is there"
    ))
}

/// Returns the fix that [`undo`] would take back.
///
/// # Errors
/// Returns an error if nothing was fixed, or if the state file cannot be read.
pub fn newest_fix(system: &SystemRoot) -> Result<Fix, HostError> {
    state::State::open(system)?
        .done
        .pop()
        .ok_or_else(|| HostError::Target("there is no fix to undo".to_owned()))
}

/// Fix that was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The fix.
    pub fix: Fix,
    /// Settings that were left as they are, with the reason in words.
    pub left: Vec<String>,
}

/// Undoes the newest fix.
///
/// # Errors
/// Returns an error if nothing was fixed, or if a file of the fix was changed since.
pub fn undo(system: &SystemRoot) -> Result<Undone, HostError> {
    let fix = newest_fix(system)?;
    let left = fix.revert(system)?;
    let mut state = state::State::open(system)?;
    state.done.pop();
    state.save(system)?;
    Ok(Undone { fix, left })
}
