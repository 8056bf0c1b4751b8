//! Journal of a refresh: one line for the plan and for each window done, so that an interrupted refresh
//! can resume, and a later one knows the speeds that the last one reached.
//!
//! A journal is a file of JSON lines, named after the file or device that it describes. A line that is
//! lost in a power cut costs only the rewrite of one window, so lines are not synced one by one. An
//! incomplete line at the end is ignored.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::strategy::SkipReason;
use crate::survey::{Identity, RewriteMethod};
use crate::window::Span;
use crate::{DriveError, io, refused};

/// Name and version of the format.
pub const SCHEMA: &str = "ssdlab.refresh-journal/1";

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line {
    /// First line: the plan.
    Planned {
        schema: String,
        path: String,
        identity: Identity,
        way: RewriteMethod,
        windows: Vec<Span>,
        fresh: Option<f64>,
        before: Vec<(Span, f64)>,
    },
    /// A window is done.
    Done { span: Span, written: u64, left: Option<SkipReason> },
    /// The refresh has ended; with the speed of windows after the rewrite, in seconds per byte.
    Over { after: Vec<(Span, f64)> },
}

/// Record that an earlier refresh of the same file has left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EarlierRun {
    /// Windows that were to be rewritten.
    pub planned: Vec<Span>,
    /// Windows that were rewritten, or left as they are for a reason.
    pub done: Vec<Span>,
    /// Seconds per byte of fresh data; `None` if not measured.
    pub fresh: Option<f64>,
    /// Seconds per byte of all windows before the rewrite.
    pub before: Vec<(Span, f64)>,
    /// Seconds per byte of rewritten windows afterwards; `None` if the refresh did not come to its end.
    pub after: Option<Vec<(Span, f64)>>,
}

impl EarlierRun {
    /// Returns the windows still to rewrite; none if that refresh came to its end.
    pub fn remaining(&self) -> Vec<Span> {
        if self.after.is_some() {
            return Vec::new();
        }
        let done: HashSet<Span> = self.done.iter().copied().collect();
        self.planned.iter().copied().filter(|it| !done.contains(it)).collect()
    }

    /// Returns the seconds per byte of fresh data: as measured by a baseline, or else the fastest tenth
    /// of the rewritten windows, right after the rewrite.
    pub fn known_fresh(&self) -> Option<f64> {
        let rewritten = || {
            let mut times: Vec<f64> = self.after.iter().flatten().map(|it| it.1).collect();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 10).copied()
        };
        self.fresh.or_else(rewritten)
    }
}

/// The journal of one file or device, locked for this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Content of the journal when it was opened.
    pub earlier: Option<EarlierRun>,
}

/// Unlocks the file explicitly: a process that another thread has just forked also holds the file, until
/// it executes its own program.
impl Drop for Journal {
    fn drop(&mut self) {
        // If unlocking fails, closing the file unlocks it.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Journal {
    /// Returns the path in `directory` of the journal for `identity`.
    pub fn path_in(directory: &Path, identity: &Identity) -> PathBuf {
        let system: String = identity
            .file_system
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        directory.join(format!("{system}-{}.jsonl", identity.inode))
    }

    /// Opens the journal, and creates it if there is none.
    ///
    /// # Errors
    /// Returns an error if another refresh of the same file is running, or if the journal cannot be
    /// opened or read.
    pub fn open(directory: &Path, identity: &Identity) -> Result<Journal, DriveError> {
        let path = Journal::path_in(directory, identity);
        let cannot = |error| io(format!("cannot open the journal {}", path.display()), error);
        fs::create_dir_all(directory).map_err(cannot)?;
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(cannot)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            refused(format!(
                "another refresh of the same file or device is running and has {} open",
                path.display()
            ))
        })?;
        let earlier = read(&fs::read(&path).map_err(cannot)?, identity);
        Ok(Journal { path, file, earlier })
    }

    /// Empties the journal and writes a new plan to it.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be written.
    pub fn begin(
        &mut self,
        path: &Path,
        identity: &Identity,
        way: RewriteMethod,
        found: EarlierRun,
    ) -> Result<(), DriveError> {
        let cannot = |error| io("cannot start the journal", error);
        self.file.set_len(0).map_err(cannot)?;
        self.file.rewind().map_err(cannot)?;
        self.write(&Line::Planned {
            schema: SCHEMA.to_owned(),
            path: path.to_string_lossy().into_owned(),
            identity: identity.clone(),
            way,
            windows: found.planned.clone(),
            fresh: found.fresh,
            before: found.before.clone(),
        })?;
        self.earlier = Some(found);
        self.file.sync_all().map_err(cannot)
    }

    /// Continues the journal after its last complete line.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read or written.
    pub fn resume(&mut self) -> Result<(), DriveError> {
        let cannot = |error| io("cannot continue the journal", error);
        let text = fs::read(&self.path).map_err(cannot)?;
        // An incomplete line at the end would spoil the next one.
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.file.set_len(whole as u64).map_err(cannot)?;
        self.file.seek(std::io::SeekFrom::End(0)).map_err(cannot)?;
        Ok(())
    }

    /// Records that a window is done.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be written.
    pub fn record_window(
        &mut self,
        span: Span,
        written: u64,
        left: Option<SkipReason>,
    ) -> Result<(), DriveError> {
        self.write(&Line::Done { span, written, left })
    }

    /// Records that the refresh has ended, with the seconds per byte of each window since, and syncs the
    /// file.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be written.
    pub fn finish(&mut self, after: Vec<(Span, f64)>) -> Result<(), DriveError> {
        self.write(&Line::Over { after })?;
        self.file.sync_all().map_err(|error| io("cannot sync the journal", error))
    }

    fn write(&mut self, line: &Line) -> Result<(), DriveError> {
        let mut text = serde_json::to_string(line).expect("lines have strings as keys");
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| io(format!("cannot write {}", self.path.display()), error))
    }
}

/// Returns the content of a journal; `None` if it belongs to something else, or has another format. The
/// file may hold anything: somebody may have edited it, and the remains of the last line after a power
/// cut need not be text.
pub fn read(bytes: &[u8], identity: &Identity) -> Option<EarlierRun> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map_while(|line| serde_json::from_str(line).ok());
    let Some(Line::Planned { schema, identity: found, windows, fresh, before, .. }) = lines.next()
    else {
        return None;
    };
    let has_end = |it: &Span| it.offset.checked_add(it.length).is_some();
    if schema != SCHEMA || found != *identity || !windows.iter().all(has_end) {
        return None;
    }
    let mut earlier = EarlierRun { planned: windows, fresh, before, ..EarlierRun::default() };
    for line in lines {
        match line {
            Line::Done { span, .. } => earlier.done.push(span),
            Line::Over { after } => earlier.after = Some(after),
            Line::Planned { .. } => return None,
        }
    }
    Some(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity { file_system: "abc/1".to_owned(), inode: 12 }
    }

    #[test]
    fn an_interrupted_refresh_goes_on_where_it_ended() {
        let directory = tempfile::tempdir().unwrap();
        let windows = vec![Span::new(0, 10), Span::new(10, 10), Span::new(30, 10)];
        let planned =
            EarlierRun { planned: windows.clone(), fresh: Some(2.5), ..EarlierRun::default() };
        let mut journal = Journal::open(directory.path(), &identity()).unwrap();
        assert_eq!(journal.earlier, None);
        journal.begin(Path::new("/x"), &identity(), RewriteMethod::MoveExtents, planned).unwrap();
        journal.record_window(windows[1], 10, None).unwrap();
        let again = Journal::open(directory.path(), &identity()).unwrap_err();
        assert!(again.to_string().contains("another refresh"), "{again}");
        // As in a process that another thread has just forked.
        let _held = journal.file.try_clone().unwrap();
        drop(journal);
        let path = Journal::path_in(directory.path(), &identity());
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"line\":\"done\",\"sp\xff\xc3").unwrap();
        let mut journal = Journal::open(directory.path(), &identity()).unwrap();
        let earlier = journal.earlier.clone().unwrap();
        assert_eq!(earlier.remaining(), [windows[0], windows[2]]);
        assert_eq!(earlier.fresh, Some(2.5));
        journal.resume().unwrap();
        journal.record_window(windows[0], 10, None).unwrap();
        journal.record_window(windows[2], 0, Some(SkipReason::Busy)).unwrap();
        journal.finish(vec![(windows[0], 1.0)]).unwrap();
        drop(journal);
        let journal = Journal::open(directory.path(), &identity()).unwrap();
        let earlier = journal.earlier.clone().unwrap();
        assert!(earlier.remaining().is_empty() && earlier.done.len() == 3);
        assert_eq!(earlier.after, Some(vec![(windows[0], 1.0)]));
    }

    #[test]
    fn what_fresh_data_reads_like_is_known_from_a_baseline_or_from_what_was_rewritten() {
        let mut earlier = EarlierRun::default();
        assert_eq!(earlier.known_fresh(), None);
        let times = [3.0, 1.0, 2.0].into_iter().zip(0..);
        earlier.after = Some(times.map(|(time, at)| (Span::new(at * 10, 10), time)).collect());
        assert_eq!(earlier.known_fresh(), Some(1.0));
        earlier.fresh = Some(0.5);
        assert_eq!(earlier.known_fresh(), Some(0.5));
    }

    #[test]
    fn the_journal_of_something_else_says_nothing() {
        assert_eq!(read(b"", &identity()), None);
        assert_eq!(read(b"nonsense\n", &identity()), None);
        let endless = Line::Planned {
            schema: SCHEMA.to_owned(),
            path: String::new(),
            identity: identity(),
            way: RewriteMethod::Alone,
            windows: vec![Span::new(u64::MAX, 2)],
            fresh: None,
            before: Vec::new(),
        };
        assert_eq!(read(serde_json::to_string(&endless).unwrap().as_bytes(), &identity()), None);
        let other = Identity { file_system: "other".to_owned(), inode: 12 };
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), &other).unwrap();
        journal
            .begin(Path::new("/x"), &other, RewriteMethod::Alone, EarlierRun::default())
            .unwrap();
        let text = fs::read(Journal::path_in(directory.path(), &other)).unwrap();
        assert!(read(&text, &other).is_some());
        assert_eq!(read(&text, &identity()), None);
    }
}
