//! A file that a report is written to: its place is tried before a run starts, so that a wrong path
//! fails before an hour of work and not after it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};

/// Bytes in which a file shows what it is.
const HEAD: u64 = 4096;

/// Directories made for a file: those of them that stay empty are removed again.
#[derive(Debug, Default)]
pub struct Directories(Vec<PathBuf>);

impl Directories {
    /// Makes `path` a directory, and those above it that are missing.
    pub fn make(path: &Path) -> io::Result<Directories> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        let made = Directories(made);
        if path.exists() && !path.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !path.as_os_str().is_empty() {
            fs::create_dir_all(path)?;
        }
        Ok(made)
    }

    /// Makes the directory that a file at `path` lies in.
    pub fn of_file(path: &Path) -> io::Result<Directories> {
        path.parent().map_or_else(|| Ok(Directories::default()), Directories::make)
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        for directory in &self.0 {
            // Only an empty one goes.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// A file that a page, or something else, will be written to. One that was there stays as it is until then, one that
/// was not is removed again when nothing came of it.
#[derive(Debug)]
pub struct Page {
    file: File,
    /// Goes after the file.
    _directories: Directories,
    path: PathBuf,
    is_new: bool,
    is_written: bool,
}

impl Page {
    /// Opens the file that was named with `option`, and creates it where there is none. `example`
    /// is what it might be called.
    pub fn reserve(path: &Path, option: &str, example: &str) -> Result<Page, Failure> {
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
        let directories = Directories::of_file(path).map_err(failed)?;
        let (file, is_new) = open(path).map_err(failed)?;
        let path = path.to_owned();
        Ok(Page { file, _directories: directories, path, is_new, is_written: false })
    }

    /// Reserves the file of a page. Of what is there a page alone is replaced: anything else is named by mistake, such as
    /// the drive that the page is about.
    pub fn html(path: &Path) -> Result<Page, Failure> {
        refuse_other(path, "--html", "page", |head| head.starts_with(b"<!DOCTYPE html>"))?;
        Page::reserve(path, "--html", "report.html")
    }

    /// Reserves the file of a log of latencies, and replaces such alone.
    pub fn latencies(path: &Path) -> Result<Page, Failure> {
        let is_log = |head: &[u8]| {
            let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first.starts_with(b"#") && first.ends_with(b", by ssdlab")
        };
        refuse_other(path, "--hdr", "log of ssdlab's", is_log)?;
        Page::reserve(path, "--hdr", "latencies.hlog")
    }

    /// Reserves the file of a script or job of `export`, and replaces such alone.
    pub fn script(path: &Path) -> Result<Page, Failure> {
        let is_script = |head: &[u8]| {
            let mut lines = head.split(|byte| *byte == b'\n').take(4);
            lines.any(|line| line[..].windows(18).any(|part| part == b"Written by ssdlab "))
        };
        refuse_other(path, "--output", "script of ssdlab's", is_script)?;
        Page::reserve(path, "--output", "run.sh")
    }

    /// Reserves the file of a history, and replaces such alone.
    pub fn history(path: &Path) -> Result<Page, Failure> {
        let is_history = |head: &[u8]| {
            let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first.starts_with(b"# ") && first.windows(12).any(|part| part == b": power cut ")
        };
        refuse_other(path, "--output", "history of ssdlab's", is_history)?;
        Page::reserve(path, "--output", "history.txt")
    }

    /// Writes it.
    pub fn write(mut self, html: &str) -> Result<(), Failure> {
        self.replace(html).map_err(|source| {
            let what = format!("cannot write {}", self.path.display());
            Failure::system(Exit::Failed, what, source)
        })?;
        self.is_written = true;
        Ok(())
    }

    fn replace(&mut self, html: &str) -> io::Result<()> {
        // What is not a plain file (a pipe, /dev/stdout) has no length to set.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(html.as_bytes())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // An empty page left behind would be a nuisance, but nothing to fail for.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses to replace what holds no figures of ssdlab's for Prometheus.
pub fn refuse_other_than_metrics(path: &Path) -> Result<(), Failure> {
    let is_metrics = |head: &[u8]| head.starts_with(b"# HELP ssdlab_");
    refuse_other(path, "--prometheus", "file of figures of ssdlab's", is_metrics)
}

/// Refuses to replace a plain file that does not begin as a `kind` does, and is not empty.
pub fn refuse_other(
    path: &Path,
    option: &str,
    kind: &str,
    is_kind: impl Fn(&[u8]) -> bool,
) -> Result<(), Failure> {
    // Nothing else is opened: what a pipe holds is for others.
    if !path.metadata().is_ok_and(|it| it.is_file()) {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|it| it.take(HEAD).read_to_end(&mut head));
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

fn open(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Truncated only once there is something to put in its place.
            Ok((OpenOptions::new().write(true).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}
