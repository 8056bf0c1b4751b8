//! Results of runs as files, one each, named by key.
//!
//! A file appears by a rename when it is whole. So a program that is killed leaves whole results or none,
//! and several programs may fill one directory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::SweepError;
use crate::key::Key;
use crate::measure::Measured;

/// The version of the files.
const SCHEMA: &str = "ssdlab.sweep-run/1";

/// The directory below that of the sweep.
const RUNS: &str = "runs";

/// The directory that a sweep writes.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    schema: String,
    key: Key,
    #[serde(flatten)]
    measured: Measured,
}

impl Results {
    /// Opens the directory at `path`, and creates it where there is none. One that holds runs is refused
    /// unless `resume` is true.
    ///
    /// # Errors
    /// When it cannot be written to, or holds runs that were not asked for.
    pub fn open(path: &Path, resume: bool) -> Result<Results, SweepError> {
        let directory = path.join(RUNS);
        let failed = |what| move |source| SweepError::Files { what, path: path.join(RUNS), source };
        fs::create_dir_all(&directory).map_err(failed("create"))?;
        let mut entries = fs::read_dir(&directory).map_err(failed("read"))?;
        if !resume && entries.next().is_some() {
            return Err(SweepError::Usage(format!(
                "{} holds runs of a sweep already: --resume goes on with them; or name another \
                 directory",
                path.display()
            )));
        }
        let results = Results { directory };
        for place in [path, results.directory.as_path()] {
            remove_left_behind(place).map_err(failed("read"))?;
        }
        // Tried before hours of work, not after them.
        results.write("trial", b"").map_err(failed("write to"))?;
        fs::remove_file(results.directory.join("trial")).map_err(failed("write to"))?;
        Ok(results)
    }

    /// Returns the result called `key`; `None` where there is none, or the file is damaged and the run has to
    /// be made again.
    pub fn load(&self, key: &Key) -> Option<Measured> {
        let text = fs::read(self.path(key)).ok()?;
        let stored: Stored = serde_json::from_slice(&text).ok()?;
        (stored.schema == SCHEMA && stored.key == *key).then_some(stored.measured)
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// When the file system fails, such as for want of space.
    pub fn store(&self, key: &Key, measured: &Measured) -> io::Result<()> {
        let stored =
            Stored { schema: SCHEMA.to_owned(), key: key.clone(), measured: measured.clone() };
        let text = serde_json::to_vec(&stored).map_err(io::Error::other)?;
        self.write(&format!("{key}.json"), &text)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        write_whole(&self.directory, name, text)
    }
}

/// The beginning of the names of files that are being written.
const PARTIAL: &str = ".partial-";

/// Writes a file that appears when it is whole.
pub(crate) fn write_whole(directory: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let mut file = begun(directory)?;
    file.write_all(text)?;
    // Temporary files are readable by their owner alone; results are like other files.
    #[cfg(unix)]
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.persist(directory.join(name)).map(|_| ()).map_err(|error| error.error)
}

/// Returns a file that is locked as long as it is written, where the file system has locks.
fn begun(directory: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = tempfile::Builder::new().prefix(PARTIAL).tempfile_in(directory)?;
        // Who cleans up may have had the lock before.
        if file.as_file().lock().is_err() || file.path().try_exists()? {
            return Ok(file);
        }
    }
}

/// Removes what programs that were killed have left half written: files that nobody holds the lock of.
fn remove_left_behind(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_partial = path
            .file_name()
            .is_some_and(|it| it.as_encoded_bytes().starts_with(PARTIAL.as_bytes()));
        // It may be renamed or removed meanwhile.
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
        // A result under another's name is not its result.
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
        let written = begun(&results.directory).unwrap();
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
        assert!(error.contains("--resume goes on with them"), "{error}");
        assert!(Results::open(place.path(), true).is_ok());
    }
}
