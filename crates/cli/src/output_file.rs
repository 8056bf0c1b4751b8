//! Output file of a report: it is opened before a run starts, so that a wrong path fails before an hour of work and not
//! after it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};

/// Bytes at the beginning of a file that show its type.
const TYPE_LENGTH: u64 = 4096;

/// Directories that were created for a file; those that stay empty are removed again.
#[derive(Debug, Default)]
pub struct CreatedDirectories(Vec<PathBuf>);

impl CreatedDirectories {
    /// Creates the directory `path`, and its missing parents.
    pub fn create(path: &Path) -> io::Result<CreatedDirectories> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        let made = CreatedDirectories(made);
        if path.exists() && !path.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !path.as_os_str().is_empty() {
            fs::create_dir_all(path)?;
        }
        Ok(made)
    }

    /// Creates the directory of a file at `path`.
    pub fn create_parent(path: &Path) -> io::Result<CreatedDirectories> {
        path.parent().map_or_else(|| Ok(CreatedDirectories::default()), CreatedDirectories::create)
    }
}

impl Drop for CreatedDirectories {
    fn drop(&mut self) {
        for directory in &self.0 {
            // This removes the directory only if it is empty.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Output file that will be written later. An existing file is unchanged until then; a new file is removed if it is not
/// written.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// Directories made for the file; they are dropped after the file was removed.
    _directories: CreatedDirectories,
    path: PathBuf,
    is_new: bool,
    is_written: bool,
}

impl OutputFile {
    /// Opens the file that was named with `option`, and creates it if it does not exist. `example` is a possible name
    /// of a file.
    pub fn reserve(path: &Path, option: &str, example: &str) -> Result<OutputFile, Failure> {
        let shown = path.display();
        if path.is_dir() {
            return Err(Failure::usage(format!(
                "{option} {shown}: that is a directory; name a file, such as {}",
                path.join(example).display()
            )));
        }
        let failed = |source| {
            let what = format!("{option} {shown}: it cannot be written there");
            Failure::system(Exit::Usage, what, source)
        };
        let directories = CreatedDirectories::create_parent(path).map_err(failed)?;
        let (file, is_new) = open_or_create(path).map_err(failed)?;
        let path = path.to_owned();
        Ok(OutputFile { file, _directories: directories, path, is_new, is_written: false })
    }

    /// Reserves the file of an HTML page. An existing file is replaced only if it is a page: any other was named by
    /// mistake, such as the drive that the page is about.
    pub fn html(path: &Path) -> Result<OutputFile, Failure> {
        refuse_foreign_file(path, "--html", "page", |head| head.starts_with(b"<!DOCTYPE html>"))?;
        OutputFile::reserve(path, "--html", "report.html")
    }

    /// Reserves the file of a latency log, and replaces no other kind of file.
    pub fn latencies(path: &Path) -> Result<OutputFile, Failure> {
        let is_log = |head: &[u8]| {
            let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first.starts_with(b"#") && first.ends_with(b", by ssdlab")
        };
        refuse_foreign_file(path, "--hdr", "latency log of ssdlab", is_log)?;
        OutputFile::reserve(path, "--hdr", "latencies.hlog")
    }

    /// Reserves the file of a script or job of `export`, and replaces no other kind of file.
    pub fn script(path: &Path) -> Result<OutputFile, Failure> {
        let is_script = |head: &[u8]| {
            let mut lines = head.split(|byte| *byte == b'\n').take(4);
            lines.any(|line| line[..].windows(18).any(|part| part == b"Written by ssdlab "))
        };
        refuse_foreign_file(path, "--output", "script of ssdlab", is_script)?;
        OutputFile::reserve(path, "--output", "run.sh")
    }

    /// Reserves the file of a history, and replaces no other kind of file.
    #[cfg(target_os = "linux")]
    pub fn history(path: &Path) -> Result<OutputFile, Failure> {
        let is_history = |head: &[u8]| {
            let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first.starts_with(b"# ") && first.windows(12).any(|part| part == b": power cut ")
        };
        refuse_foreign_file(path, "--output", "history of ssdlab", is_history)?;
        OutputFile::reserve(path, "--output", "history.txt")
    }

    /// Writes the file.
    pub fn write(mut self, html: &str) -> Result<(), Failure> {
        self.replace(html).map_err(|source| {
            let what = format!("cannot write {}", self.path.display());
            Failure::system(Exit::Failed, what, source)
        })?;
        self.is_written = true;
        Ok(())
    }

    fn replace(&mut self, html: &str) -> io::Result<()> {
        // A file that is not plain (a pipe, /dev/stdout) cannot be truncated.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(html.as_bytes())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // Failing to remove the empty file is not an error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses to replace a file that does not hold ssdlab's metrics for Prometheus.
pub fn refuse_foreign_metrics(path: &Path) -> Result<(), Failure> {
    let is_metrics = |head: &[u8]| head.starts_with(b"# HELP ssdlab_");
    refuse_foreign_file(path, "--prometheus", "metrics file of ssdlab", is_metrics)
}

/// Refuses to replace a plain file that is not empty and does not begin as a `kind` does.
pub fn refuse_foreign_file(
    path: &Path,
    option: &str,
    kind: &str,
    is_kind: impl Fn(&[u8]) -> bool,
) -> Result<(), Failure> {
    // Open plain files only: reading from a pipe would take data from its reader.
    if !path.metadata().is_ok_and(|it| it.is_file()) {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|it| it.take(TYPE_LENGTH).read_to_end(&mut head));
    if read.is_ok() && (head.is_empty() || is_kind(&head)) {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Refused,
        anyhow::anyhow!(
            "{option} {}: that file is no {kind}, and is not replaced; name a new one",
            path.display()
        ),
    ))
}

fn open_or_create(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // The file is truncated only when there is something to write.
            Ok((OpenOptions::new().write(true).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}
