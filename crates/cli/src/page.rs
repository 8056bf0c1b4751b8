//! The HTML page of a report: its place is tried before a run starts, so that a wrong path fails
//! before an hour of work and not after it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};

/// A file that a page will be written to. One that was there stays as it is until then, one that
/// was not is removed again when nothing came of it.
#[derive(Debug)]
pub struct Page {
    file: File,
    path: PathBuf,
    is_new: bool,
    is_written: bool,
}

impl Page {
    /// Opens the file for the page, and creates it where there is none.
    pub fn reserve(path: &Path) -> Result<Page, Failure> {
        if path.is_dir() {
            let shown = path.display();
            return Err(Failure::usage(format!(
                "--html {shown}: that is a directory; name a file, such as {}",
                path.join("report.html").display()
            )));
        }
        let (file, is_new) = open(path).map_err(|source| {
            let what = format!("--html {}: the page cannot be written there", path.display());
            Failure::system(Exit::Usage, what, source)
        })?;
        Ok(Page { file, path: path.to_owned(), is_new, is_written: false })
    }

    /// Writes the page.
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
