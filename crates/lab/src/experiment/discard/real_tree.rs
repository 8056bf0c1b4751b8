//! Unpacking and deleting on a real drive.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ssdlab_blockdev::place::Place;
use ssdlab_drive::{Control, DriveError};
use ssdlab_units::Nanoseconds;

use super::super::phase_runner::PhaseRunner;
use super::super::temporary_directory::{TemporaryDirectory, io_error};
use super::remount::RemountGuard;
use super::{Case, Measured, Pass, Protocol};
use crate::error::LabError;
use crate::experiment::Watcher;

/// Number of entries between two progress reports.
const ENTRIES_PER_REPORT: usize = 64;

/// Interval of progress reports while tar runs.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Protocol {
    pub(super) fn measure_real(
        &self,
        case: &Case,
        directory: &Path,
        place: &Place,
        runner: &mut PhaseRunner,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        runner.begin_step("unpacking and deleting", 1.0);
        let run_directory = TemporaryDirectory::create(directory)?;
        let mounted = RemountGuard::with_discard(place, case.discard, run_directory.path())?;
        let content = content();
        let outcome = (0..self.passes).try_for_each(|pass| {
            let mut progress = PassProgress { watcher: runner.watcher, pass, passes: self.passes };
            run_directory.sync()?;
            let start = Instant::now();
            self.unpack_files(run_directory.path(), &content, &mut progress)?;
            run_directory.sync()?;
            let extract = Nanoseconds::from(start.elapsed());
            measured.passes.push(Pass { extract, delete: None });
            let start = Instant::now();
            delete_all(run_directory.path(), &mut progress)?;
            run_directory.sync()?;
            let last = measured.passes.last_mut().expect("just pushed");
            last.delete = Some(start.elapsed().into());
            runner.tally.requests += 2 * self.tree.count();
            runner.tally.bytes += self.tree.length();
            Ok(())
        });
        // The mount is restored first, because other programs use it.
        let restored = mounted.try_restore();
        let removed = run_directory.remove();
        outcome.and(restored).and(removed)
    }

    fn unpack_files(
        &self,
        to: &Path,
        content: &[u8],
        progress: &mut PassProgress,
    ) -> Result<(), LabError> {
        if let Some(archive) = &self.tarball {
            return extract_archive(archive, to, progress);
        }
        for (index, entry) in self.tree.entries.iter().enumerate() {
            let path = to.join(&entry.path);
            let made = match entry.length {
                None => fs::create_dir(&path),
                Some(length) => write_file(&path, length.bytes(), content, index),
            };
            made.map_err(|error| io_error(format!("cannot make {}", path.display()), error))?;
            if index.is_multiple_of(ENTRIES_PER_REPORT) {
                progress.report(index as f64 / self.tree.entries.len() as f64 / 2.0)?;
            }
        }
        Ok(())
    }
}

/// Returns incompressible bytes (SplitMix64).
fn content() -> Vec<u8> {
    let mut state = 0u64;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    (0..1 << 17).flat_map(|_| draw()).collect()
}

/// Writes a file. Each file begins at another offset of the content, so that no two files are equal.
fn write_file(path: &Path, length: u64, content: &[u8], index: usize) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    let (mut left, mut from) = (length as usize, index * 4099 % content.len());
    while left > 0 {
        let piece = left.min(content.len() - from);
        file.write_all(&content[from..from + piece])?;
        left -= piece;
        from = 0;
    }
    Ok(())
}

/// Unpacks an archive with the system's tar, as the published test did.
fn extract_archive(archive: &Path, to: &Path, progress: &mut PassProgress) -> Result<(), LabError> {
    let what = || format!("cannot unpack {}", archive.display());
    let archive = fs::canonicalize(archive).map_err(|error| io_error(what(), error))?;
    let mut tar = Command::new("tar")
        .args(["--extract", "--no-same-owner", "--file"])
        .arg(&archive)
        .arg("--directory")
        .arg(to)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| io_error(what(), error))?;
    loop {
        match tar.try_wait().map_err(|error| io_error(what(), error))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let error = io::Error::other(format!("tar ended with {status}"));
                return Err(io_error(what(), error));
            }
            None => {}
        }
        if let Err(cancelled) = progress.report(0.25) {
            // No process may write to the directory after the return.
            let _ = tar.kill();
            let _ = tar.wait();
            return Err(cancelled);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Deletes the contents of a directory.
fn delete_all(directory: &Path, progress: &mut PassProgress) -> Result<(), LabError> {
    progress.report(0.5)?;
    let deleted = (|| {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    })();
    deleted.map_err(|error| io_error(format!("cannot empty {}", directory.display()), error))
}

/// Progress of the passes.
struct PassProgress<'w> {
    watcher: &'w mut dyn Watcher,
    pass: u32,
    passes: u32,
}

impl PassProgress<'_> {
    /// Reports that the share `done` of this pass is done.
    fn report(&mut self, done: f64) -> Result<(), LabError> {
        match self.watcher.progress((f64::from(self.pass) + done) / f64::from(self.passes)) {
            Control::Cancel => Err(DriveError::cancelled().into()),
            Control::Continue => Ok(()),
        }
    }
}
