//! The calls of SQLite's VFS; each is one operation of the file system.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{Ordering, fence};

use rusqlite::ffi;
use ssdlab_drive::DriveError;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::{OpenFile, VfsState};

/// Methods of a file. Version 2: with shared memory.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(map_shared),
    xShmLock: Some(lock_shared),
    xShmBarrier: Some(barrier_shared),
    xShmUnmap: Some(unmap_shared),
    xFetch: None,
    xUnfetch: None,
};

/// Returns a VFS without its name and its shared state.
pub(super) fn vfs() -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<OpenFile>() as c_int,
        mxPathname: 255,
        pNext: std::ptr::null_mut(),
        zName: std::ptr::null(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: None,
        xCurrentTimeInt64: Some(current_time_millis),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// # Safety
/// `vfs` is one of ours, and registered.
unsafe fn vfs_state_of<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a VfsState<'static, 'static> {
    // SAFETY: `RegisteredVfs::new` has set the pointer, and the shared state outlives the registration.
    unsafe { &*(*vfs).pAppData.cast() }
}

/// # Safety
/// `file` was opened by [`open`] and not closed.
unsafe fn file_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut OpenFile {
    // SAFETY: SQLite passes the structure that `open` has filled.
    unsafe { &mut *file.cast() }
}

impl OpenFile {
    fn shared<'a>(&self) -> &'a VfsState<'static, 'static> {
        // SAFETY: the shared state outlives every connection, and so every file.
        unsafe { &*self.shared }
    }
}

impl VfsState<'_, '_> {
    /// Returns SQLite's code for an outcome, and keeps the first error.
    fn code(&self, outcome: Result<(), DriveError>, otherwise: c_int) -> c_int {
        match outcome {
            Ok(()) => ffi::SQLITE_OK,
            Err(error) => {
                self.failure.borrow_mut().get_or_insert(error);
                otherwise
            }
        }
    }
}

/// # Safety
/// `name` is a string that ends with a zero.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a VFS of ours, memory for a file, and a name or null. A file without methods is
    // not closed.
    unsafe { (*file).pMethods = std::ptr::null() };
    if name.is_null() {
        return ffi::SQLITE_CANTOPEN; // Temporary files are not wanted here.
    }
    // SAFETY: the VFS is ours.
    let shared = unsafe { vfs_state_of(vfs) };
    // SAFETY: the name is one, as SQLite says.
    let Some(name) = (unsafe { text(name) }) else {
        return ffi::SQLITE_CANTOPEN;
    };
    let mut files = shared.files.borrow_mut();
    let root = files.root();
    let number = match files.find(root, name) {
        Some(number) => number,
        None if flags & ffi::SQLITE_OPEN_CREATE == 0 => return ffi::SQLITE_CANTOPEN,
        None => match files.create(root, name) {
            Ok(number) => number,
            Err(error) => return shared.code(Err(error), ffi::SQLITE_CANTOPEN),
        },
    };
    // As in SQLite's VFS for Unix: creating one of these files requires a sync of the directory, too.
    let journals =
        ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;
    let is_new_journal = flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & journals != 0;
    let remove = (flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0).then(|| name.into());
    let shared: *const VfsState<'static, 'static> = shared;
    let base = ffi::sqlite3_file { pMethods: &METHODS };
    // SAFETY: the memory is as large as `szOsFile` says, and aligned for a pointer.
    unsafe {
        file.cast::<OpenFile>().write(OpenFile {
            base,
            shared,
            file: number,
            is_new_journal,
            remove,
        });
        if !flags_out.is_null() {
            *flags_out = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file is open. Its memory belongs to SQLite; its content is dropped here.
    let open = unsafe { file.cast::<OpenFile>().read() };
    // SAFETY: as above.
    unsafe { (*file).pMethods = std::ptr::null() };
    let Some(name) = &open.remove else { return ffi::SQLITE_OK };
    let shared = open.shared();
    let mut files = shared.files.borrow_mut();
    let root = files.root();
    let outcome = files.remove(root, name);
    shared.code(outcome, ffi::SQLITE_IOERR_DELETE)
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and `to` has room for `length` bytes.
    let (open, to) = unsafe {
        (file_of(file), std::slice::from_raw_parts_mut(to.cast::<u8>(), length as usize))
    };
    let count = open.shared().files.borrow().read(open.file, offset as u64, to);
    to[count..].fill(0);
    if count == to.len() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and `from` holds `length` bytes.
    let (open, from) =
        unsafe { (file_of(file), std::slice::from_raw_parts(from.cast::<u8>(), length as usize)) };
    let outcome = open.shared().files.borrow_mut().write(open.file, offset as u64, from);
    open.shared().code(outcome, ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { file_of(file) };
    let size = ByteLength::new(size as u64);
    let outcome = open.shared().files.borrow_mut().truncate(open.file, size);
    open.shared().code(outcome, ffi::SQLITE_IOERR_TRUNCATE)
}

/// Syncs a file as SQLite's VFS for Unix does: with `fdatasync`, whatever the flags, and the directory once
/// after a journal was created.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { file_of(file) };
    let shared = open.shared();
    let mut files = shared.files.borrow_mut();
    let mut outcome = files.fdatasync(open.file);
    if outcome.is_ok() && std::mem::take(&mut open.is_new_journal) {
        let root = files.root();
        outcome = files.fdatasync(root);
    }
    shared.code(outcome, ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and there is room for its size.
    unsafe {
        let open = file_of(file);
        *size = open.shared().files.borrow().size(open.file).bytes() as ffi::sqlite3_int64;
    }
    ffi::SQLITE_OK
}

/// Locks always succeed: no other connection has the database open.
unsafe extern "C" fn lock(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, is: *mut c_int) -> c_int {
    // SAFETY: there is room for the answer.
    unsafe { *is = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// Returns the characteristics that SQLite's VFS for Unix reports for ext4.
unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn map_shared(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { file_of(file) };
    let mut regions = open.shared().regions.borrow_mut();
    let region = region as usize;
    while extend != 0 && regions.len() <= region {
        regions.push(vec![0; (size as usize).div_ceil(8)].into_boxed_slice());
    }
    let found = regions.get_mut(region);
    let start = found.map_or(std::ptr::null_mut(), |region| region.as_mut_ptr().cast());
    // SAFETY: there is room for the address.
    unsafe { *to = start };
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock_shared(_: *mut ffi::sqlite3_file, _: c_int, _: c_int, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn barrier_shared(_: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn unmap_shared(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open; SQLite does not use the regions after this.
    unsafe { file_of(file) }.shared().regions.borrow_mut().clear();
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    // SAFETY: a VFS of ours and a name.
    let (shared, Some(name)) = (unsafe { vfs_state_of(vfs) }, unsafe { text(name) }) else {
        return ffi::SQLITE_IOERR_DELETE;
    };
    let mut files = shared.files.borrow_mut();
    let root = files.root();
    if files.find(root, name).is_none() {
        return ffi::SQLITE_IOERR_DELETE_NOENT;
    }
    let mut outcome = files.remove(root, name);
    if outcome.is_ok() && sync_directory != 0 {
        outcome = files.fsync(root);
    }
    shared.code(outcome, ffi::SQLITE_IOERR_DELETE)
}

/// Tests whether a file exists; as in SQLite's VFS for Unix, an empty file counts as missing.
unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _: c_int,
    is: *mut c_int,
) -> c_int {
    // SAFETY: a VFS of ours, a name, and room for the answer.
    let (shared, Some(name)) = (unsafe { vfs_state_of(vfs) }, unsafe { text(name) }) else {
        return ffi::SQLITE_IOERR_ACCESS;
    };
    let files = shared.files.borrow();
    let found = files.find(files.root(), name);
    let there = found.is_some_and(|file| files.size(file) > ByteLength::ZERO);
    // SAFETY: as above.
    unsafe { *is = c_int::from(there) };
    ffi::SQLITE_OK
}

/// Copies the name: all files are in the root directory.
unsafe extern "C" fn full_path(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    to: *mut c_char,
) -> c_int {
    // SAFETY: a name, and room for a path of `room` bytes.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes_with_nul();
        if name.len() > room as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), to, name.len());
    }
    ffi::SQLITE_OK
}

/// Returns no random bytes: SQLite asks the default VFS for them, which is never this one.
unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}

unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    // SAFETY: a VFS of ours.
    let shared = unsafe { vfs_state_of(vfs) };
    let duration = Nanoseconds::from_micros(micros.max(0) as u64);
    let outcome = shared.files.borrow_mut().spend(duration);
    shared.code(outcome, ffi::SQLITE_IOERR);
    micros
}

/// Start of virtual time as a Julian day, as SQLite counts: 2026-01-01.
const FIRST_DAY: f64 = 2_461_041.5;

/// Milliseconds in a day.
const DAY: f64 = 86_400_000.0;

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, to: *mut f64) -> c_int {
    let mut millis = 0;
    // SAFETY: a VFS of ours, and room for the answer.
    unsafe {
        current_time_millis(vfs, &mut millis);
        *to = millis as f64 / DAY;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time_millis(
    vfs: *mut ffi::sqlite3_vfs,
    to: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: a VFS of ours, and room for the answer.
    unsafe {
        let passed = vfs_state_of(vfs).files.borrow().now().nanos() / 1_000_000;
        *to = (FIRST_DAY * DAY) as i64 + passed as i64;
    }
    ffi::SQLITE_OK
}
