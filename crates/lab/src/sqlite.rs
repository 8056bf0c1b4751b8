//! SQLite on the simulated file system, in virtual time.
//!
//! SQLite accesses files through a VFS. Ours passes every call to a
//! [`FileSystem`](ssdlab_fs_model::FileSystem), as SQLite's own VFS for Unix does with system calls: data is
//! synced with `fdatasync`, and a directory once after a journal was created in it. (The crate sqlite-plugin
//! supports neither the flags of a sync, nor the sync of a directory, nor the end of a VFS; hence our own.)

mod calls;

use std::cell::RefCell;
use std::ffi::CString;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags, ffi};
use ssdlab_drive::DriveError;
use ssdlab_fs_model::{FileNumber, FileSystem};
use ssdlab_units::Nanoseconds;

use crate::error::LabError;

/// State that the calls of one VFS share. SQLite is used from one thread at a time, and calls do not nest.
struct VfsState<'a, 'd> {
    files: RefCell<&'a mut FileSystem<'d>>,
    /// Shared memory of the connections to a database in WAL mode.
    regions: RefCell<Vec<Box<[u64]>>>,
    /// First error of the file system; SQLite itself keeps only an error code.
    failure: RefCell<Option<DriveError>>,
}

/// A database on a simulated file system.
pub(crate) struct Database<'s> {
    connection: &'s Connection,
    shared: *const VfsState<'s, 's>,
    lifetime: PhantomData<&'s ()>,
}

impl Database<'_> {
    /// Returns the connection to the database.
    pub(crate) fn connection(&self) -> &Connection {
        self.connection
    }

    /// Calls `work` with the file system of the database.
    pub(crate) fn with_files<R>(&self, work: impl FnOnce(&mut FileSystem<'_>) -> R) -> R {
        // SAFETY: `with_database` keeps the shared state alive while it lends this value.
        let shared = unsafe { &*self.shared };
        let mut files = shared.files.borrow_mut();
        work(&mut files)
    }

    /// Lets virtual time pass for work of the host.
    pub(crate) fn advance_time(&self, duration: Nanoseconds) -> Result<(), LabError> {
        Ok(self.with_files(|files| files.spend(duration))?)
    }
}

/// A VFS that is registered with SQLite for the lifetime of this value.
struct RegisteredVfs {
    vfs: Box<ffi::sqlite3_vfs>,
    name: CString,
}

impl RegisteredVfs {
    fn new(shared: &VfsState<'_, '_>) -> RegisteredVfs {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("ssdlab-{number}")).expect("no zero in it");
        let mut vfs = Box::new(calls::vfs());
        vfs.zName = name.as_ptr();
        vfs.pAppData = std::ptr::from_ref(shared).cast_mut().cast();
        // SAFETY: the structure stays at its address in the box until it is unregistered.
        let outcome = unsafe { ffi::sqlite3_vfs_register(&mut *vfs, 0) };
        assert_eq!(outcome, ffi::SQLITE_OK, "SQLite has room for another VFS");
        RegisteredVfs { vfs, name }
    }
}

impl Drop for RegisteredVfs {
    fn drop(&mut self) {
        // SAFETY: the VFS was registered, and every connection through it is closed.
        unsafe { ffi::sqlite3_vfs_unregister(&mut *self.vfs) };
    }
}

/// Opens the database called `name` in the root of `files`, calls `work` with it, and closes it. SQLite gets
/// random numbers from the system, but uses them only to mark its journals, which does not affect timing.
///
/// # Errors
/// Returns the error of `work`, of SQLite, or of the file system.
pub(crate) fn with_database<R>(
    files: &mut FileSystem<'_>,
    name: &str,
    work: impl FnOnce(&Database<'_>) -> Result<R, LabError>,
) -> Result<R, LabError> {
    let shared = VfsState {
        files: RefCell::new(files),
        regions: RefCell::default(),
        failure: RefCell::default(),
    };
    let registered = RegisteredVfs::new(&shared);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let outcome = (|| {
        let connection =
            Connection::open_with_flags_and_vfs(name, flags, registered.name.as_c_str())?;
        let database = Database {
            connection: &connection,
            shared: std::ptr::from_ref(&shared).cast(),
            lifetime: PhantomData,
        };
        let outcome = work(&database)?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(outcome)
    })();
    drop(registered);
    // The error of the file system says more than SQLite's "disk I/O error".
    match (outcome, shared.failure.into_inner()) {
        (Err(LabError::Sqlite(_)), Some(failure)) => Err(failure.into()),
        (outcome, _) => outcome,
    }
}

/// A file that SQLite has open.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    shared: *const VfsState<'static, 'static>,
    file: FileNumber,
    /// True until the first sync of a new journal, which also syncs the directory.
    is_new_journal: bool,
    /// Name of the file if it is to be removed when it is closed.
    remove: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_drive::simulated::SimulatedDrive;
    use ssdlab_fs_model::MountOptions;
    use ssdlab_model::profile::Profile;
    use ssdlab_units::GIB;

    fn on_a_drive<R>(work: impl FnOnce(&mut FileSystem<'_>) -> R) -> R {
        let mut profile = Profile::named("generic-tlc").unwrap();
        profile.set("scale", "1/256").unwrap();
        let mut drive = SimulatedDrive::new("test", profile.configuration().unwrap()).unwrap();
        let mut files = FileSystem::new(&mut drive, GIB, MountOptions::default()).unwrap();
        work(&mut files)
    }

    fn set_up(database: &Database<'_>, mode: &str) {
        let pragma = format!("pragma journal_mode={mode}");
        let answer: String =
            database.connection().query_row(&pragma, [], |row| row.get(0)).unwrap();
        assert_eq!(answer, mode);
        database.connection().execute("create table t(a integer primary key, b text)", []).unwrap();
    }

    #[test]
    fn what_was_inserted_is_there_when_the_database_is_opened_again() {
        for mode in ["delete", "truncate", "persist", "wal"] {
            on_a_drive(|files| {
                with_database(files, "a.db", |database| {
                    set_up(database, mode);
                    for number in 0..300 {
                        let text = "x".repeat(number);
                        database.connection().execute("insert into t(b) values(?)", [&text])?;
                    }
                    Ok(())
                })
                .unwrap();
                with_database(files, "a.db", |database| {
                    let sum = "select count(*), sum(length(b)) from t";
                    let both: (i64, i64) = database
                        .connection()
                        .query_row(sum, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
                    assert_eq!(both, (300, 299 * 150), "{mode}");
                    let check: String =
                        database
                            .connection()
                            .query_row("pragma integrity_check", [], |row| row.get(0))?;
                    assert_eq!(check, "ok");
                    Ok(())
                })
                .unwrap();
            });
        }
    }

    #[test]
    fn two_runs_send_the_same_to_the_drive() {
        let run = || {
            on_a_drive(|files| {
                with_database(files, "a.db", |database| {
                    set_up(database, "wal");
                    for _ in 0..50 {
                        database.connection().execute("insert into t(b) values('x')", [])?;
                        database.advance_time(Nanoseconds::from_millis(1))?;
                    }
                    Ok(())
                })
                .unwrap();
                (files.sent(), files.now())
            })
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn an_error_below_is_told_as_what_it_is() {
        let mut profile = Profile::named("generic-tlc").unwrap();
        profile.set("scale", "1/256").unwrap();
        let mut drive = SimulatedDrive::new("test", profile.configuration().unwrap()).unwrap();
        let size = ssdlab_units::MIB * 64;
        let mut files = FileSystem::new(&mut drive, size, MountOptions::default()).unwrap();
        let error = with_database(&mut files, "a.db", |database| {
            set_up(database, "delete");
            let blob = "insert into t(b) values(zeroblob(70000000))";
            database.connection().execute(blob, [])?;
            Ok(())
        })
        .unwrap_err();
        assert!(error.to_string().contains("is full"), "{error}");
    }
}
