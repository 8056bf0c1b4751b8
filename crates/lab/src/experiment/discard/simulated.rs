//! Unpacking and deleting on a simulated drive, in virtual time.

use std::collections::HashMap;

use ssdlab_drive::{Control, Drive, DriveError};
use ssdlab_fs_model::{FileNumber, FileSystem, MountOptions};
use ssdlab_units::Nanoseconds;

use super::super::phase_runner::PhaseRunner;
use super::tree::Entry;
use super::{Case, Measured, Pass, Protocol};
use crate::error::LabError;
use crate::experiment::Watcher;

/// Number of entries between two progress reports.
const ENTRIES_PER_REPORT: usize = 1024;

impl Protocol {
    pub(super) fn measure_simulated(
        &self,
        case: &Case,
        runner: &mut PhaseRunner,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        runner.begin_step("unpacking and deleting", 1.0);
        let PhaseRunner { drive, watcher, tally, .. } = runner;
        let drive = drive.simulated().expect("asked before");
        let capacity = drive.description().capacity;
        let options = MountOptions { discard: case.discard, ..MountOptions::default() };
        let mut files = FileSystem::new(drive, capacity, options)?;
        let outcome = (0..self.passes).try_for_each(|pass| {
            let mut steps = Steps { pass, passes: self.passes, half: 0, watcher: *watcher };
            let before = files.now();
            self.unpack(&mut files, &mut steps)?;
            let extract = files.now().since(before);
            measured.passes.push(Pass { extract, delete: None });
            steps.half = 1;
            let before = files.now();
            self.delete(&mut files, &mut steps)?;
            let last = measured.passes.last_mut().expect("just pushed");
            last.delete = Some(files.now().since(before));
            Ok(())
        });
        let (now, sent) = (files.now(), files.sent());
        measured.trimmed = Some((sent.trims, sent.trimmed));
        tally.requests += sent.writes + sent.trims;
        tally.bytes += sent.written;
        drive.advance_to(now);
        outcome
    }

    fn unpack(&self, files: &mut FileSystem<'_>, steps: &mut Steps) -> Result<(), LabError> {
        let mut directories: HashMap<&str, FileNumber> = HashMap::new();
        for (index, entry) in self.tree.entries.iter().enumerate() {
            let (parent, name) = parent_and_name(entry, &directories, files);
            match entry.length {
                None => {
                    let made = files.create_directory(parent, name)?;
                    directories.insert(&entry.path, made);
                }
                Some(length) => {
                    let file = files.create(parent, name)?;
                    files.append(file, length)?;
                    let nanos = self.unpack.nanos() as f64 * length.bytes() as f64 / 1e6;
                    files.spend(Nanoseconds::new(nanos as u64))?;
                }
            }
            steps.report(index, self.tree.entries.len())?;
        }
        Ok(files.sync()?)
    }

    /// Deletes the tree. The contents of a directory are deleted before it, as `rm -r` does.
    fn delete(&self, files: &mut FileSystem<'_>, steps: &mut Steps) -> Result<(), LabError> {
        let mut directories: HashMap<&str, FileNumber> = HashMap::new();
        for entry in self.tree.entries.iter().filter(|entry| entry.length.is_none()) {
            let (parent, name) = parent_and_name(entry, &directories, files);
            let number = files.find(parent, name).expect("it was unpacked");
            directories.insert(&entry.path, number);
        }
        for (index, entry) in self.tree.entries.iter().rev().enumerate() {
            let (parent, name) = parent_and_name(entry, &directories, files);
            files.remove(parent, name)?;
            files.spend(self.remove)?;
            steps.report(index, self.tree.entries.len())?;
        }
        Ok(files.sync()?)
    }
}

fn parent_and_name<'e>(
    entry: &'e Entry,
    directories: &HashMap<&str, FileNumber>,
    files: &FileSystem<'_>,
) -> (FileNumber, &'e str) {
    match entry.path.rsplit_once('/') {
        // An archive may omit directories; their contents are put into the root then.
        Some((parent, name)) => match directories.get(parent) {
            Some(number) => (*number, name),
            None => (files.root(), &entry.path),
        },
        None => (files.root(), &entry.path),
    }
}

/// Progress of the passes.
struct Steps<'w> {
    pass: u32,
    passes: u32,
    half: u32,
    watcher: &'w mut dyn Watcher,
}

impl Steps<'_> {
    fn report(&mut self, index: usize, count: usize) -> Result<(), LabError> {
        if !index.is_multiple_of(ENTRIES_PER_REPORT) {
            return Ok(());
        }
        let halves = f64::from(2 * self.pass + self.half) + index as f64 / count as f64;
        match self.watcher.progress(halves / f64::from(2 * self.passes)) {
            Control::Cancel => Err(DriveError::cancelled().into()),
            Control::Continue => Ok(()),
        }
    }
}
