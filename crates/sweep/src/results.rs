//! Store of results: one file for each run, named by its key.
//!
//! A file is renamed to its name when it is complete. So a program that is killed leaves complete results or none, and
//! several programs may write to one directory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::SweepError;
use crate::key::Key;
use crate::measure::Measured;

/// Name and version of the file format.
const SCHEMA: &str = "ssdlab.sweep-run/1";

/// Directory for results, below that of the sweep.
const RUNS: &str = "runs";

/// Directory of the results of a sweep.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct StoredRun {
    schema: String,
    key: Key,
    #[serde(flatten)]
    measured: Measured,
}

impl Results {
    /// Opens the directory at `path`, and creates it if it does not exist. A directory that holds runs is refused
    /// unless `resume` is true.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written to, or if it holds runs and `resume` is false.
    pub fn open(path: &Path, resume: bool) -> Result<Results, SweepError> {
        let directory = path.join(RUNS);
        let failed = |what| move |source| SweepError::Files { what, path: path.join(RUNS), source };
        fs::create_dir_all(&directory).map_err(failed("create"))?;
        let mut entries = fs::read_dir(&directory).map_err(failed("read"))?;
        if !resume && entries.next().is_some() {
            return Err(SweepError::Usage(format!(
                "{} already holds runs of a sweep: continue them with --resume, or name another \
                 directory",
                path.display()
            )));
        }
        let results = Results { directory };
        for place in [path, results.directory.as_path()] {
            remove_stale_files(place).map_err(failed("read"))?;
        }
        // Try to write before hours of work, not after them.
        results.write("trial", b"").map_err(failed("write to"))?;
        fs::remove_file(results.directory.join("trial")).map_err(failed("write to"))?;
        Ok(results)
    }

    /// Returns the result of the run `key`; `None` if there is none, or if the file is damaged, so that the run has to
    /// be repeated.
    pub fn load(&self, key: &Key) -> Option<Measured> {
        let text = fs::read(self.path(key)).ok()?;
        let stored: StoredRun = serde_json::from_slice(&text).ok()?;
        (stored.schema == SCHEMA && stored.key == *key).then_some(stored.measured)
    }

    /// Stores a result.
    ///
    /// # Errors
    /// Returns an error if the file system fails, for example for lack of space.
    pub fn store(&self, key: &Key, measured: &Measured) -> io::Result<()> {
        let stored =
            StoredRun { schema: SCHEMA.to_owned(), key: key.clone(), measured: measured.clone() };
        let text = serde_json::to_vec(&stored).map_err(io::Error::other)?;
        self.write(&format!("{key}.json"), &text)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        write_atomically(&self.directory, name, text)
    }
}

/// Prefix of the names of incomplete files.
const PARTIAL_PREFIX: &str = ".partial-";

/// Writes a file that appears under its name when it is complete.
pub(crate) fn write_atomically(directory: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let mut file = create_locked(directory)?;
    file.write_all(text)?;
    // Only the owner can read a temporary file; results get the usual permissions.
    #[cfg(unix)]
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.persist(directory.join(name)).map(|_| ()).map_err(|error| error.error)
}

/// Creates a temporary file, locked while it is written if the file system supports locks.
fn create_locked(directory: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = tempfile::Builder::new().prefix(PARTIAL_PREFIX).tempfile_in(directory)?;
        // Another program may have locked and removed the file before this one locked it.
        if file.as_file().lock().is_err() || file.path().try_exists()? {
            return Ok(file);
        }
    }
}

/// Removes the incomplete files of programs that were killed: those that nobody has locked.
fn remove_stale_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_partial = path
            .file_name()
            .is_some_and(|it| it.as_encoded_bytes().starts_with(PARTIAL_PREFIX.as_bytes()));
        // The file may have been renamed or removed since.
        let Some(file) = is_partial.then(|| fs::File::open(&path).ok()).flatten() else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measure;

    fn key(digit: char) -> Key {
        let text = format!("\"{}\"", digit.to_string().repeat(64));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_result_comes_back_to_the_bit_and_a_damaged_one_is_none() {
        let place = tempfile::tempdir().unwrap();
        let results = Results::open(place.path(), false).unwrap();
        let value = Some(0.1 + 0.2);
        let measure = Measure { name: "a[b].c".to_owned(), unit: "s".to_owned(), value };
        let measured = Measured { measures: vec![measure], findings: Vec::new() };
        assert_eq!(results.load(&key('a')), None);
        results.store(&key('a'), &measured).unwrap();
        assert_eq!(results.load(&key('a')), Some(measured));
        assert_eq!(results.load(&key('b')), None);
        let path = results.path(&key('a'));
        let whole = fs::read(&path).unwrap();
        // A result under another key's name is not accepted.
        fs::write(results.path(&key('b')), &whole).unwrap();
        assert_eq!(results.load(&key('b')), None);
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(results.load(&key('a')), None, "{length}");
        }
        let names: Vec<_> = fs::read_dir(&results.directory).unwrap().collect();
        assert_eq!(names.len(), 2, "nothing is left beside the results: {names:?}");
    }

    #[test]
    fn half_a_file_of_a_program_that_was_killed_goes_and_that_of_another_stays() {
        let place = tempfile::tempdir().unwrap();
        let results = Results::open(place.path(), false).unwrap();
        let left = [place.path().join(".partial-a"), results.directory.join(".partial-b")];
        for path in &left {
            fs::write(path, "{").unwrap();
        }
        let written = create_locked(&results.directory).unwrap();
        Results::open(place.path(), true).unwrap();
        assert!(left.iter().all(|it| !it.exists()));
        assert!(written.path().exists());
    }

    #[test]
    fn a_directory_with_runs_is_taken_up_only_when_told() {
        let place = tempfile::tempdir().unwrap();
        let results = Results::open(place.path(), false).unwrap();
        results.store(&key('a'), &Measured::default()).unwrap();
        let error = Results::open(place.path(), false).unwrap_err().to_string();
        assert!(error.contains("continue them with --resume"), "{error}");
        assert!(Results::open(place.path(), true).is_ok());
    }
}
