//! Durable inserts of a database: SQLite INSERTs with one transaction each.
//!
//! For a simulated drive, SQLite runs on the simulated file system in virtual time, with and without write
//! barriers. For a real drive it runs on files in a temporary directory, with the barrier setting of the
//! mount.

use ssdlab_blockdev::place::Place;
use ssdlab_drive::{Control, Drive, DriveError};
use ssdlab_fs_model::{FileSystem, MountOptions};
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::super::phase_runner::PhaseRunner;
use super::super::temporary_directory::TemporaryDirectory;
use super::super::trials::Trial;
use crate::error::LabError;
use crate::experiment::{Record, Settings, Watcher};
use crate::report::{Cell, Column, Table};
use crate::sqlite::with_database;

/// Measured journal modes of SQLite.
const JOURNAL_MODES: [&str; 2] = ["delete", "wal"];

/// Measured `synchronous` modes of SQLite: commits are durable; the database stays consistent; neither.
const SYNCHRONOUS: [&str; 3] = ["full", "normal", "off"];

/// Text of the inserted rows, which also have a number.
const TEXT: &str = "A hundred characters, which is about what a line of a log has in it: the user, \
                    the time and what it was.";

/// One way to insert rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) journal_mode: &'static str,
    pub(super) synchronous: &'static str,
    /// True if the file system flushes the drive.
    pub(super) barrier: bool,
}

/// Results of inserting rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) inserts: u64,
    pub(super) elapsed: Nanoseconds,
    /// Flushes sent to the drive; `None` if they cannot be counted.
    pub(super) flushes: Option<u64>,
}

impl Measured {
    pub(super) fn per_second(&self) -> f64 {
        self.inserts as f64 / self.elapsed.seconds()
    }

    pub(super) fn flushes_per_insert(&self) -> Option<f64> {
        Some(self.flushes? as f64 / self.inserts as f64)
    }
}

/// Limits of the inserts in each case.
#[derive(Clone, Debug)]
pub(super) struct Inserts {
    count: u64,
    time: Nanoseconds,
    host: Nanoseconds,
}

impl Inserts {
    pub(super) fn new(settings: &Settings) -> Inserts {
        Inserts {
            count: u64::from(settings.count("inserts")),
            time: settings.duration("time"),
            host: settings.duration("host"),
        }
    }

    /// Returns the maximum number of bytes that all cases write on a real drive: each insert with its
    /// journals.
    pub(super) fn writes(&self) -> ByteLength {
        ByteLength::new(40 * 1024) * (self.count * Inserts::cases() as u64)
    }

    /// Returns the number of cases on a real drive, whose mount keeps its barriers.
    pub(super) fn cases() -> usize {
        JOURNAL_MODES.len() * SYNCHRONOUS.len()
    }

    /// Returns the approximate number of flushes of all cases on a real drive: 4 and 3 an insert with a
    /// rollback journal, 2 with a write-ahead log.
    pub(super) fn flushes(&self) -> u64 {
        self.count * 9
    }

    /// Returns every case with each of `barriers`.
    pub(super) fn trials(barriers: &[bool]) -> Vec<Trial<Case>> {
        let mut trials = Vec::new();
        for journal_mode in JOURNAL_MODES {
            for synchronous in SYNCHRONOUS {
                for &barrier in barriers {
                    let with = if barrier { "with" } else { "without" };
                    trials.push(Trial {
                        name: format!(
                            "SQLite, journal {journal_mode}, synchronous {synchronous}, {with} \
                             barriers"
                        ),
                        weight: 0.5,
                        workload: Case { journal_mode, synchronous, barrier },
                    });
                }
            }
        }
        trials
    }

    /// Inserts rows into a database on the simulated file system.
    pub(super) fn measure_simulated(
        &self,
        case: &Case,
        runner: &mut PhaseRunner,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        runner.begin_step("SQLite", 1.0);
        let PhaseRunner { drive, watcher, tally, .. } = runner;
        let drive = drive.simulated().expect("asked before");
        let capacity = drive.description().capacity;
        let options = MountOptions { barrier: case.barrier, ..MountOptions::default() };
        let mut files = FileSystem::new(drive, capacity, options)?;
        let mut start = (Instant::START, 0);
        let outcome = with_database(&mut files, "inserts.db", |database| {
            set_up(database.connection(), case)?;
            database.with_files(|files| files.sync())?;
            start = database.with_files(|files| (files.now(), files.sent().flushes));
            let mut elapsed = || database.with_files(|files| files.now().since(start.0));
            let connection = database.connection();
            self.insert(connection, *watcher, measured, &mut elapsed, &mut || {
                database.advance_time(self.host)
            })
        });
        // The time includes closing the database, which may have to checkpoint its log.
        let now = files.now();
        measured.elapsed = now.since(start.0.min(now));
        measured.flushes = Some(files.sent().flushes - start.1);
        tally.requests += files.sent().writes;
        tally.bytes += files.sent().written;
        drive.advance_to(now);
        outcome
    }

    /// Inserts rows into a database in `directory`.
    pub(super) fn measure_real(
        &self,
        case: &Case,
        directory: &TemporaryDirectory,
        place: Option<&Place>,
        runner: &mut PhaseRunner,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        runner.begin_step("SQLite", 1.0);
        let name = format!("{}-{}.db", case.journal_mode, case.synchronous);
        let connection = rusqlite::Connection::open(directory.path().join(name))?;
        set_up(&connection, case)?;
        directory.sync()?;
        let flushes = || place.and_then(Place::flushes);
        let flushes_before = flushes();
        let start = std::time::Instant::now();
        let elapsed = || Nanoseconds::from(start.elapsed());
        let outcome =
            self.insert(&connection, runner.watcher, measured, &mut { elapsed }, &mut || Ok(()));
        connection.close().map_err(|(_, error)| error)?;
        measured.elapsed = elapsed();
        measured.flushes = flushes().zip(flushes_before).map(|(after, before)| after - before);
        outcome
    }

    fn insert(
        &self,
        connection: &rusqlite::Connection,
        watcher: &mut dyn Watcher,
        measured: &mut Measured,
        elapsed: &mut dyn FnMut() -> Nanoseconds,
        after_each: &mut dyn FnMut() -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut insert = connection.prepare("insert into rows(text) values(?)")?;
        for index in 0..self.count {
            insert.execute([TEXT])?;
            after_each()?;
            measured.inserts += 1;
            if index % 8 == 0 {
                if watcher.progress(index as f64 / self.count as f64) == Control::Cancel {
                    return Err(DriveError::cancelled().into());
                }
                if elapsed() > self.time {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn set_up(connection: &rusqlite::Connection, case: &Case) -> Result<(), LabError> {
    let pragma = format!("pragma journal_mode={}", case.journal_mode);
    let mode: String = connection.query_row(&pragma, [], |row| row.get(0))?;
    if mode != case.journal_mode {
        let wanted = case.journal_mode;
        return Err(LabError::Unsupported(format!(
            "SQLite cannot use journal mode {wanted} there (it stays with {mode})"
        )));
    }
    connection.execute_batch(&format!(
        "pragma synchronous={}; pragma temp_store=memory; \
         create table rows(number integer primary key, text text)",
        case.synchronous
    ))?;
    Ok(())
}

/// Adds the table of the results.
pub(super) fn tabulate(cases: &[(Case, Measured)], record: &mut Record) {
    let columns = vec![
        Column::new("journal_mode", ""),
        Column::new("synchronous", ""),
        Column::new("barrier", ""),
        Column::new("inserts_per_second", "1/s"),
        Column::new("flushes_per_insert", ""),
    ];
    let measured = cases.iter().filter(|(_, measured)| measured.inserts > 0);
    let rows = measured.map(|(case, measured)| {
        vec![
            Cell::from(case.journal_mode),
            Cell::from(case.synchronous),
            Cell::from(case.barrier),
            Cell::from(measured.per_second()),
            Cell::from(measured.flushes_per_insert()),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        record.tables.push(Table { name: "sqlite".to_owned(), columns, rows });
    }
}
