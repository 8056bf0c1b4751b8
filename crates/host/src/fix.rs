//! Mends what can be taken back: a timer, an option in `/etc/fstab`, a setting of the kernel.
//!
//! A fix is planned first ([`plan`]), which changes nothing, so that it can be shown; then carried
//! out ([`Fix::carry_out`]), which notes each change in a state file before it is made. [`undo`]
//! takes the newest one back, unless what it made was changed since: then whoever changed it meant
//! to, and it is left as it is.

mod fstab;
mod state;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::facts::Facts;
use crate::layers::{LayerKind, Mounted, Stack};
use fstab::Wish;

/// The checks that have a fix.
pub const FIXABLE: [&str; 4] = ["automatic-trim", "atime", "barriers", "swappiness"];

/// What swappiness is set to: swapping still works, and cached files go first.
const SWAPPINESS: &str = "# Written by 'ssdlab doctor --fix swappiness'.\nvm.swappiness = 10\n";
const SWAPPINESS_FILE: &str = "etc/sysctl.d/90-ssdlab-swappiness.conf";

/// Where changes are made, and by what: `/` and its programs, or a made-up root in tests.
#[derive(Clone, Debug)]
pub struct Place {
    /// The directory that stands for `/`.
    pub root: PathBuf,
    /// Whether programs are run (systemctl, sysctl).
    pub runs_programs: bool,
}

impl Place {
    /// This machine.
    pub fn here() -> Place {
        Place { root: PathBuf::from("/"), runs_programs: true }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A unit of systemd is switched on.
    Enable {
        /// Its name.
        unit: String,
    },
    /// A file is written; `before` is what it held, if it was there.
    Write {
        /// The file, below the root.
        path: String,
        /// What it held.
        before: Option<String>,
        /// What it holds then.
        after: String,
    },
    /// A setting of the kernel is changed.
    Set {
        /// Its name, as sysctl has it.
        name: String,
        /// What it was.
        before: String,
        /// What it is then.
        after: String,
    },
}

impl Change {
    /// What happens, in words: commands, or lines that go and come.
    pub fn words(&self) -> String {
        match self {
            Change::Enable { unit } => format!("systemctl enable --now {unit}\n"),
            Change::Set { name, before, after } => {
                format!("sysctl {name}={after}    # it is {before} now\n")
            }
            Change::Write { path, before, after } => {
                let mut text = format!("/{path}:\n");
                text += &lines_between(before.as_deref().unwrap_or(""), after);
                if before.is_some() {
                    text += &format!("  (a copy is kept as /{path}.ssdlab-backup)\n");
                }
                text
            }
        }
    }

    /// What happens when it is taken back, in words of the same kind.
    pub fn words_back(&self) -> String {
        match self {
            Change::Enable { unit } => format!("systemctl disable --now {unit}\n"),
            Change::Set { name, before, after } => {
                format!("sysctl {name}={before}    # it was set to {after}\n")
            }
            Change::Write { path, before: Some(before), after } => {
                format!("/{path}:\n{}", lines_between(after, before))
            }
            Change::Write { path, before: None, .. } => format!("/{path} is removed\n"),
        }
    }
}

/// Lines that go and come from one text to another.
fn lines_between(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("  - {line}\n"));
    let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("  + {line}\n"));
    gone.chain(come).collect()
}

/// What mends one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The check.
    pub check: String,
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// What remains to be done by hand.
    pub then: Vec<String>,
}

/// Plans the fix of a check, for the file systems in `stacks`. Nothing is changed yet.
///
/// # Errors
/// When the check has no fix, or there is nothing to mend.
pub fn plan(
    check: &str,
    facts: &dyn Facts,
    stacks: &[Stack],
    place: &Place,
) -> Result<Fix, HostError> {
    let fix = |changes, then| Fix { check: check.to_owned(), changes, then };
    let planned = match check {
        "automatic-trim" => automatic_trim(facts, stacks, place)?,
        "atime" => {
            let wish = Wish {
                goes: |option| {
                    matches!(
                        option,
                        "strictatime" | "atime" | "noatime" | "relatime" | "norelatime"
                    )
                },
                comes: Some("relatime"),
                remount: "relatime",
                mounted_otherwise: wanting_atime(stacks),
            };
            let (change, then) = fstab::plan(place, &wish.mounted_otherwise, &wish)?;
            fix(vec![change], then)
        }
        "barriers" => {
            let wish = Wish {
                goes: is_without_barriers,
                comes: None,
                remount: "barrier",
                mounted_otherwise: points_where(stacks, |mount| {
                    mount.options.iter().any(|option| is_without_barriers(option))
                }),
            };
            let (change, then) = fstab::plan(place, &points_where(stacks, |_| true), &wish)?;
            fix(vec![change], then)
        }
        "swappiness" => {
            let path = SWAPPINESS_FILE.to_owned();
            let before = read(place, &path)?;
            if before.as_deref() == Some(SWAPPINESS) {
                return Err(nothing("swappiness is set already"));
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
                "'{other}' has no fix that could be taken back: only {} have; 'ssdlab doctor' \
                 shows the commands for the rest",
                FIXABLE.join(", ")
            )));
        }
    };
    Ok(planned)
}

fn nothing(what: &str) -> HostError {
    HostError::Target(format!("there is nothing to fix: {what}"))
}

/// Where file systems are mounted so.
fn points_where(stacks: &[Stack], is_so: impl Fn(&Mounted) -> bool) -> Vec<String> {
    let mounts = stacks.iter().filter_map(|stack| stack.file_system()?.mount.as_ref());
    mounts.filter(|mount| is_so(mount)).map(|mount| mount.point.clone()).collect()
}

fn wanting_atime(stacks: &[Stack]) -> Vec<String> {
    points_where(stacks, |mount| !mount.has("noatime") && !mount.has("relatime"))
}

fn is_without_barriers(option: &str) -> bool {
    matches!(option, "nobarrier" | "barrier=0" | "barrier=none" | "fsync_mode=nobarrier")
}

/// The timer where nothing trims; the option out of fstab where both do.
fn automatic_trim(facts: &dyn Facts, stacks: &[Stack], place: &Place) -> Result<Fix, HostError> {
    let regular = crate::doctor::Regular::of(facts);
    let with = |then, changes| Fix { check: "automatic-trim".to_owned(), changes, then };
    if !regular.is_any() {
        return match regular.timer {
            Some(false) => {
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
        // btrfs trims in the background, which is no harm beside a timer.
        layer.is_some_and(|layer| {
            let is_btrfs = matches!(&layer.kind, LayerKind::FileSystem { file_system } if file_system == "btrfs");
            // Without the option, what the other passes by would not be trimmed at all.
            let is_both = |mount: &Mounted| {
                mount.has("discard") && regular.covering(facts, mount).is_any()
            };
            !is_btrfs && layer.mount.as_ref().is_some_and(is_both)
        })
    };
    let twice: Vec<Stack> = stacks.iter().filter(is_twice).cloned().collect();
    if twice.is_empty() {
        return Err(nothing(
            "free space is trimmed by one thing already, or by what cannot be changed so that it could \
             be taken back; 'ssdlab doctor' says which",
        ));
    }
    let wish = Wish {
        goes: |option| option == "discard",
        comes: None,
        remount: "nodiscard",
        mounted_otherwise: points_where(&twice, |_| true),
    };
    let (change, then) = fstab::plan(place, &wish.mounted_otherwise, &wish)?;
    Ok(with(then, vec![change]))
}

/// What a file holds; nothing where there is none.
fn read(place: &Place, path: &str) -> Result<Option<String>, HostError> {
    let path = place.path(path);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HostError::io(format!("read {}", path.display()), error)),
    }
}

/// A file with a new content, under its name when that is whole. Rights and owner are those of `like`, and
/// nobody else's than ours where that is not there: what is written may hold secrets of another file. Where
/// the name is a link, what it leads to is written.
fn write(path: &Path, text: &str, like: Option<&Path>) -> Result<(), HostError> {
    let failed = |source| HostError::io(format!("write {}", path.display()), source);
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let draft = path.with_added_extension("ssdlab-draft");
    let write = || {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        // Of one that was interrupted.
        let _ = std::fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        if let Some(found) = like.and_then(|like| std::fs::metadata(like).ok()) {
            // The owner first: changing it may take rights away.
            std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
            file.set_permissions(found.permissions())?;
            copy_label(like, &file);
        }
        file.sync_all()?;
        std::fs::rename(&draft, path)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&draft);
        failed(error)
    })
}

/// Gives a file the label of SELinux that another has, where there is one.
fn copy_label(from: Option<&Path>, to: &std::fs::File) {
    use rustix::fs::{XattrFlags, fsetxattr, getxattr};
    const NAME: &str = "security.selinux";
    let mut label = [0; 256];
    if let Some(Ok(length)) = from.map(|from| getxattr(from, NAME, &mut label[..])) {
        // Where it cannot be, the policy gives it the one of its directory.
        let _ = fsetxattr(to, NAME, &label[..length], XattrFlags::empty());
    }
}

/// A file of our own that all may read.
fn write_for_all(path: &Path, text: &str) -> Result<(), HostError> {
    write(path, text, None)?;
    let all = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(path, all)
        .map_err(|source| HostError::io(format!("change the rights of {}", path.display()), source))
}

fn run(place: &Place, program: &str, arguments: &[&str]) -> Result<(), HostError> {
    if !place.runs_programs {
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
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(HostError::io(format!("do '{shown}'"), std::io::Error::other(said)))
        }
    }
}

impl Fix {
    /// Makes the changes, each noted before. Where one fails, the notes say what was done until then; of
    /// a fix that did nothing they say nothing.
    ///
    /// # Errors
    /// When one cannot be made; those before it stay, and can be taken back.
    pub fn carry_out(&self, place: &Place) -> Result<(), HostError> {
        // Between showing and doing, somebody else may have edited a file. Nothing is done then.
        for change in &self.changes {
            if let Change::Write { path, before, .. } = change
                && read(place, path)? != *before
            {
                return Err(changed(path));
            }
        }
        let mut state = state::State::open(place)?;
        state.done.push(Fix { changes: Vec::new(), ..self.clone() });
        for change in &self.changes {
            if let Some(fix) = state.done.last_mut() {
                fix.changes.push(change.clone());
            }
            state.save(place)?;
            let Err(error) = change.make(place) else { continue };
            let fix = state.done.last_mut();
            // Switching on may fail half-way: it is taken back all the same.
            if let Some(fix) = fix.filter(|_| !matches!(change, Change::Enable { .. })) {
                fix.changes.pop();
                if fix.changes.is_empty() {
                    state.done.pop();
                }
                state.save(place)?;
            }
            return Err(error);
        }
        Ok(())
    }

    /// Takes the changes back; returns what was left as it is, in words.
    fn take_back(&self, place: &Place) -> Result<Vec<String>, HostError> {
        // All is looked at before anything is changed.
        for change in &self.changes {
            if let Change::Write { path, before, after } = change {
                let now = read(place, path)?;
                if now.as_ref() != Some(after) && now != *before {
                    return Err(changed(path));
                }
            }
        }
        let mut left = Vec::new();
        for change in self.changes.iter().rev() {
            left.extend(change.take_back(place)?);
        }
        Ok(left)
    }
}

impl Change {
    fn make(&self, place: &Place) -> Result<(), HostError> {
        match self {
            Change::Enable { unit } => run(place, "systemctl", &["enable", "--now", unit]),
            Change::Set { name, after, .. } => {
                run(place, "sysctl", &["-w", &format!("{name}={after}")])
            }
            Change::Write { path, before, after } => {
                let file = place.path(path);
                let Some(before) = before else { return write_for_all(&file, after) };
                let backup = file.with_added_extension("ssdlab-backup");
                write(&backup, before, Some(&file))?;
                write(&file, after, Some(&file))
            }
        }
    }

    /// Takes it back; a setting that somebody else chose since, or that cannot be set, is left as it is,
    /// which is returned in words: files count from the next start on.
    fn take_back(&self, place: &Place) -> Result<Option<String>, HostError> {
        match self {
            Change::Enable { unit } => run(place, "systemctl", &["disable", "--now", unit])?,
            Change::Set { name, before, after } => {
                let now = read(place, &format!("proc/sys/{}", name.replace('.', "/")))?;
                if let Some(now) = now.as_deref().map(str::trim).filter(|now| now != after) {
                    return Ok(Some(format!("{name} is {now} now, which somebody else chose")));
                }
                let outcome = run(place, "sysctl", &["-w", &format!("{name}={before}")]);
                return Ok(outcome.err().map(|error| {
                    format!("{name} is {before} again from the next start on: {error}")
                }));
            }
            Change::Write { path, before: Some(before), .. } => {
                let file = place.path(path);
                write(&file, before, Some(&file))?;
                let _ = std::fs::remove_file(place.path(&format!("{path}.ssdlab-backup")));
            }
            Change::Write { path, before: None, .. } => {
                let file = place.path(path);
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

fn changed(path: &str) -> HostError {
    HostError::Refused(format!(
        "/{path} was changed by somebody else meanwhile, and is left as it is: look at it, and at \
         /{path}.ssdlab-backup if that is there"
    ))
}

/// What would be taken back next.
///
/// # Errors
/// When nothing was fixed, or the notes cannot be read.
pub fn last(place: &Place) -> Result<Fix, HostError> {
    state::State::open(place)?
        .done
        .pop()
        .ok_or_else(|| HostError::Target("there is nothing to take back".to_owned()))
}

/// A fix that was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// What it was.
    pub fix: Fix,
    /// What was left as it is, and why, in words.
    pub left: Vec<String>,
}

/// Takes the newest fix back.
///
/// # Errors
/// When nothing was fixed, or what was made was changed since.
pub fn undo(place: &Place) -> Result<Undone, HostError> {
    let fix = last(place)?;
    let left = fix.take_back(place)?;
    let mut state = state::State::open(place)?;
    state.done.pop();
    state.save(place)?;
    Ok(Undone { fix, left })
}
