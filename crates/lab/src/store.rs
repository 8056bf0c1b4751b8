//! The run store: a SQLite file with one report in each row.
//!
//! # Safety of the file
//! A file that cannot be read, is not a store or was written by a later version is left exactly as it is:
//! nothing here deletes, truncates or replaces a file, and nothing is written before the file is known to be
//! a store. Damaged stores are not repaired: that is for the user. Only SQLite itself changes a file: it
//! rolls back a transaction of ours that was interrupted.
//!
//! # Layout
//! There is one table, `runs`. Its other columns repeat values of the column `report`, so that runs are
//! listed without parsing all reports. `application_id` marks the file as a store, `user_version` is the
//! version of the layout. The journal is SQLite's default rather than a write-ahead log, which would need two
//! more files beside a store that is only read.
//!
//! Tags and notes ([`Annotation`]) and figures of drives ([`DriveFigures`]) have tables of their own, created
//! when the first is added. Older versions ignore these tables.

mod annotations;
mod drive_figures;
mod selection;

pub use annotations::{Annotation, AnnotationError};
pub use drive_figures::DriveFigures;
pub use selection::Selection;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior};
use serde::Serialize;

use crate::output::json::{self, ReportError, ShapeError};
use crate::report::Report;

/// Application ID in the file's header: "ssdl".
const APPLICATION_ID: i32 = 0x7373_646c;
/// Offset of the application ID in the header (SQLite, Database File Format, 1.3).
const APPLICATION_ID_BYTES: Range<usize> = 68..72;
/// Version of the layout that is written.
const VERSION: i32 = 1;
/// Default time to wait for a lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const SCHEMA_SQL: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started TEXT NOT NULL,
    experiment TEXT NOT NULL,
    target TEXT NOT NULL,
    seed INTEGER NOT NULL,
    shortened INTEGER NOT NULL,
    interrupted INTEGER NOT NULL,
    report TEXT NOT NULL
) STRICT;
";

/// The number of a run. It is never reused, even after the run was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(i64);

impl RunId {
    /// Returns the number as an integer.
    pub fn number(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Summary of a run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// Number of the run.
    pub id: RunId,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// The experiment.
    pub experiment: String,
    /// Target as the user named it.
    pub target: String,
    /// The seed of every random choice.
    pub seed: u64,
    /// True if the protocol was shortened.
    pub shortened: bool,
    /// True if the run was ended before the protocol was through.
    pub interrupted: bool,
    /// The report's first finding.
    pub headline: Option<String>,
    /// Tags and note of the user.
    #[serde(flatten)]
    pub annotation: Annotation,
}

/// Reason why an operation of the store failed. The store is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store does not exist or is empty.
    #[error("no runs are kept in {path} yet")]
    Missing {
        /// The store.
        path: PathBuf,
    },
    /// The file is damaged or is no database.
    #[error(
        "the store {path} is damaged or is no store at all; it was left as it is (move it away to begin a new one)"
    )]
    Damaged {
        /// The store.
        path: PathBuf,
        /// Damage that was found.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is a database, but of another program.
    #[error("{path} is a database of another program, and was left as it is")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The store was written by a later version of ssdlab.
    #[error(
        "the store {path} has layout {found}, and this version of ssdlab knows layouts up to {VERSION}; it was left as it is"
    )]
    Newer {
        /// The store.
        path: PathBuf,
        /// Version of its layout.
        found: i32,
    },
    /// The store can be read, but not written.
    #[error("the store {path} cannot be written: the file or its file system is read-only")]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// The last write was interrupted by a crash and cannot be rolled back, because the file is read-only or
    /// not a store.
    #[error(
        "a write to the store {path} was interrupted, and ssdlab cannot roll it back: the file or its file system is read-only, or it belongs to another program (do not delete {path}-journal, and keep it beside the store)"
    )]
    HalfWritten {
        /// The store.
        path: PathBuf,
    },
    /// The path is that of a directory.
    #[error("{path} is a directory, and a store is a file: name one, such as {}", path.join("runs.sqlite").display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The store cannot be created or opened at this path.
    #[error("cannot open or create the store {path}")]
    Unwritable {
        /// The store.
        path: PathBuf,
        /// Cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another process held the lock longer than the busy timeout.
    #[error("the store {path} is in use by another process; try again when it is done")]
    Locked {
        /// The store.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("there is no space to keep the run in {path}")]
    Full {
        /// The store.
        path: PathBuf,
    },
    /// There is no run of that number.
    #[error("there is no run {wanted} in {path}")]
    NoSuchRun {
        /// The run as the user named it.
        wanted: String,
        /// The store.
        path: PathBuf,
    },
    /// The name of a run is not understood.
    #[error(
        "{text:?} names no run: give its number, such as 12, or last, or last~1 for the one before"
    )]
    BadReference {
        /// Text that the user wrote.
        text: String,
    },
    /// The report of a run cannot be read.
    #[error("run {id} in {path} cannot be read")]
    BadReport {
        /// The run.
        id: RunId,
        /// The store.
        path: PathBuf,
        /// Error of the report.
        source: ReportError,
    },
    /// The report to be added is inconsistent.
    #[error("the report is inconsistent")]
    Misshapen(#[from] ShapeError),
    /// A tag or note cannot be kept.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    /// Any other error of SQLite.
    #[error("the store {path} failed")]
    Other {
        /// The store.
        path: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
}

/// An open run store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    is_read_only: bool,
}

impl Store {
    /// Opens the store to read and write. If it does not exist, creates it and its parent directories.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, StoreError> {
        let path = path.as_ref();
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| StoreError::Unwritable {
                path: path.to_owned(),
                source: source.into(),
            })?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Store::connect(path, flags, false)?;
        // If it cannot write to the file, SQLite opens it read-only without an error.
        if store.run(|connection| connection.is_readonly("main"))? {
            return Err(StoreError::ReadOnly { path: path.to_owned() });
        }
        if !store.is_store()? {
            store.create_schema()?;
        }
        Ok(store)
    }

    /// Opens an existing store read-only. If a write was interrupted by a crash, SQLite rolls it back first.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store, StoreError> {
        let path = path.as_ref();
        let missing = || StoreError::Missing { path: path.to_owned() };
        match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
            _ => {}
        }
        let store = match Store::open_existing(path) {
            Err(StoreError::HalfWritten { .. }) if has_application_id(path) => {
                // With write permission, the first read rolls back the interrupted transaction.
                Store::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, false)?.is_store()?;
                Store::open_existing(path)?
            }
            opened => opened?,
        };
        store.ok_or_else(missing)
    }

    /// Opens a file read-only; `None` if it is empty.
    fn open_existing(path: &Path) -> Result<Option<Store>, StoreError> {
        let store = Store::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, true)?;
        Ok(store.is_store()?.then_some(store))
    }

    fn connect(path: &Path, flags: OpenFlags, is_read_only: bool) -> Result<Store, StoreError> {
        if path.is_dir() {
            return Err(StoreError::Directory { path: path.to_owned() });
        }
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| classify(error, path))?;
        let store = Store { connection, path: path.to_owned(), is_read_only };
        store.set_busy_timeout(BUSY_TIMEOUT)?;
        Ok(store)
    }

    /// Sets the time to wait for a lock of another process; the default is five seconds.
    pub fn set_busy_timeout(&self, timeout: Duration) -> Result<(), StoreError> {
        self.run(|connection| connection.busy_timeout(timeout))
    }

    /// Returns true if the file has our layout, false if it is empty. It is read in one transaction, since
    /// another process may be creating the layout.
    fn is_store(&self) -> Result<bool, StoreError> {
        let file_identity = self.run(|connection| {
            let snapshot = connection.unchecked_transaction()?;
            let file_identity = identify(&snapshot)?;
            snapshot.commit()?;
            Ok(file_identity)
        })?;
        file_identity.is_store(&self.path)
    }

    /// Creates the layout in an empty file. If another process does so at the same time, the second one to
    /// get the lock finds it done.
    fn create_schema(&mut self) -> Result<(), StoreError> {
        let path = &self.path;
        let fail = |error| classify(error, path);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(fail)?;
        if !identify(&transaction).map_err(fail)?.is_store(path)? {
            transaction.execute_batch(SCHEMA_SQL).map_err(fail)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
            transaction.pragma_update(None, "user_version", VERSION).map_err(fail)?;
        }
        transaction.commit().map_err(fail)
    }

    /// Adds a report and returns its number.
    pub fn insert(&mut self, report: &Report) -> Result<RunId, StoreError> {
        json::check(report)?;
        self.check_writable()?;
        let text = json::to_json(report);
        self.run(|connection| {
            connection.execute(
                "INSERT INTO runs
                     (started, experiment, target, seed, shortened, interrupted, report)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                (
                    &report.started,
                    &report.experiment,
                    &report.target.name,
                    // SQLite's integers are signed, so the bits are stored as they are.
                    report.seed.cast_signed(),
                    report.shortened,
                    report.interrupted,
                    &text,
                ),
            )?;
            Ok(RunId(connection.last_insert_rowid()))
        })
    }

    /// Returns all runs, newest first.
    pub fn list(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.select(&Selection::default())
    }

    /// Returns the report of a run.
    pub fn get(&self, id: RunId) -> Result<Report, StoreError> {
        let text = self.get_json(id)?;
        let origin = format!("run {id}");
        json::from_json(&text, &origin).map_err(|source| StoreError::BadReport {
            id,
            path: self.path.clone(),
            source,
        })
    }

    /// Returns the JSON of a run's report, byte for byte as it was added.
    pub fn get_json(&self, id: RunId) -> Result<String, StoreError> {
        let text = self.run(|connection| {
            let query = "SELECT report FROM runs WHERE id = ?1";
            connection.query_row(query, [id.0], |row| row.get(0)).optional()
        })?;
        text.ok_or_else(|| self.no_such_run(&id.to_string()))
    }

    /// Returns the number of the newest run; `None` if the store has no runs.
    pub fn latest(&self) -> Result<Option<RunId>, StoreError> {
        self.nth_latest(0)
    }

    /// Returns the run that the user's `12`, `last` or `last~1` (the one before the last) refers to.
    pub fn resolve(&self, text: &str) -> Result<RunId, StoreError> {
        let bad = || StoreError::BadReference { text: text.to_owned() };
        let found = match text.strip_prefix("last") {
            Some("") => self.nth_latest(0)?,
            Some(back) => {
                let back = back.strip_prefix('~').ok_or_else(bad)?;
                self.nth_latest(digits(back).ok_or_else(bad)?)?
            }
            None => {
                let id = digits(text).ok_or_else(bad)?;
                self.run(|connection| {
                    let query = "SELECT id FROM runs WHERE id = ?1";
                    connection.query_row(query, [id], |row| row.get(0).map(RunId)).optional()
                })?
            }
        };
        found.ok_or_else(|| self.no_such_run(text))
    }

    fn nth_latest(&self, back: i64) -> Result<Option<RunId>, StoreError> {
        self.run(|connection| {
            let query = "SELECT id FROM runs ORDER BY id DESC LIMIT 1 OFFSET ?1";
            connection.query_row(query, [back], |row| row.get(0).map(RunId)).optional()
        })
    }

    fn no_such_run(&self, wanted: &str) -> StoreError {
        StoreError::NoSuchRun { wanted: wanted.to_owned(), path: self.path.clone() }
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        match self.is_read_only {
            true => Err(StoreError::ReadOnly { path: self.path.clone() }),
            false => Ok(()),
        }
    }

    fn has_table(&self, name: &str) -> Result<bool, StoreError> {
        self.run(|connection| connection.table_exists(None, name))
    }

    fn run<T>(
        &self,
        action: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        action(&self.connection).map_err(|error| classify(error, &self.path))
    }
}

/// Parses a non-empty string of digits.
fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Returns true if the header of the file, which may be half written, has our application ID, or if the file
/// is empty.
fn has_application_id(path: &Path) -> bool {
    let mut header = Vec::with_capacity(APPLICATION_ID_BYTES.end);
    let read = File::open(path)
        .and_then(|it| it.take(APPLICATION_ID_BYTES.end as u64).read_to_end(&mut header));
    let mark = header.get(APPLICATION_ID_BYTES).unwrap_or(&[]);
    read.is_ok() && (header.is_empty() || mark == APPLICATION_ID.to_be_bytes())
}

/// Identification of a database file: its header and its schema.
struct FileIdentity {
    application_id: i32,
    version: i32,
    objects: i64,
    has_runs: bool,
}

fn identify(connection: &Connection) -> rusqlite::Result<FileIdentity> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    let catalogue = "SELECT count(*), coalesce(max(name = 'runs' AND type = 'table'), 0)
                     FROM sqlite_schema";
    let (objects, has_runs) =
        connection.query_row(catalogue, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(FileIdentity {
        application_id: pragma("application_id")?,
        version: pragma("user_version")?,
        objects,
        has_runs,
    })
}

impl FileIdentity {
    /// Returns true if the file is a store, false if it is empty.
    fn is_store(&self, path: &Path) -> Result<bool, StoreError> {
        let path = path.to_owned();
        match (self.application_id, self.version) {
            (0, 0) if self.objects == 0 => Ok(false),
            (APPLICATION_ID, found) if found > VERSION => Err(StoreError::Newer { path, found }),
            (APPLICATION_ID, VERSION) if self.has_runs => Ok(true),
            (APPLICATION_ID, _) => {
                Err(StoreError::Damaged { path, source: "the table of runs is missing".into() })
            }
            _ => Err(StoreError::Foreign { path }),
        }
    }
}

/// Converts an error of SQLite.
fn classify(error: rusqlite::Error, path: &Path) -> StoreError {
    let path = path.to_owned();
    let extended = error.sqlite_error().map(|it| it.extended_code);
    if extended == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK) {
        return StoreError::HalfWritten { path };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { path, source: error.into() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::Unwritable { path, source: error.into() }
        }
        _ => StoreError::Other { path, source: error },
    }
}
