//! Finds programs that have a file mapped shared and writable, so that their stores reach the file.
//!
//! The kernel has no count of such mappings that could be queried, so each process is asked for its own
//! (`PROCMAP_QUERY`, Linux 6.11). A store through a mapping lasts no longer than the mapping, so a
//! process that is seen without one has no earlier store under way.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FsWord, Mode, OFlags, fstatfs, openat, statat};
use rustix::io::Errno;
use ssdlab_blockdev::DeviceNumber;
use ssdlab_blockdev::writers::{INIT_PROCESS, Writer, sees_all_processes};

use crate::system::{self, SharedMap};

/// Magic number that `statfs` returns for overlayfs. `stat` of a file of an overlay shows other device
/// and inode numbers than the file below.
const OVERLAYFS_MAGIC: FsWord = 0x794C_7630;

/// Longest wait of one search for processes that cannot be read. Measured: 13 to 18 ms from a fork of a protected
/// process until it executes its program.
const UNREADABLE_MAX: Duration = Duration::from_millis(200);

/// Pause before an unreadable process is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// Name of the file of mappings in the directory of a process.
const MAPS_FILE: &CStr = c"maps";

/// Looks for programs that have one file mapped. Can be asked repeatedly.
#[derive(Debug)]
pub(crate) struct FileMappings {
    proc: OwnedFd,
    device: DeviceNumber,
    inode: u64,
    sees_all: bool,
}

/// Mappings of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappingState {
    /// No mapping of the file.
    Nothing,
    /// A mapping of the file.
    File,
    /// A mapping of a file of an overlay, which may be backed by the file.
    Overlay,
    /// A process without memory of its own, or one that has ended.
    NoMemory,
    /// A process whose mappings may not be read.
    NotSeen,
}

impl FileMappings {
    /// Prepares the search for mappings of `file`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be looked at, or `/proc` cannot be opened.
    pub(crate) fn of(file: &File) -> io::Result<FileMappings> {
        let found = file.metadata()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(FileMappings {
            proc: rustix::fs::open("/proc", flags, Mode::empty())?,
            device: DeviceNumber::from_raw(found.dev()),
            inode: found.ino(),
            sees_all: sees_all_processes(),
        })
    }

    /// Returns another program that has the file mapped for writing now.
    ///
    /// # Errors
    /// Returns an error if the processes cannot be listed, or this kernel does not answer
    /// `PROCMAP_QUERY`.
    pub(crate) fn find_writer(&self) -> io::Result<Writer> {
        let own = std::process::id();
        let mut sees_all = self.sees_all;
        let mut deadline = None;
        for entry in Dir::read_from(&self.proc)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(id) = name.to_str().ok().and_then(|it| it.parse::<u32>().ok()) else {
                continue;
            };
            if id == own {
                continue;
            }
            let may_wait = self.sees_all && id != INIT_PROCESS;
            let state = || self.state_in_process(id);
            match if may_wait { once_readable(state, &mut deadline) } else { state() }? {
                MappingState::Nothing | MappingState::NoMemory => {}
                MappingState::File => return Ok(program(id, "has it mapped for writing")),
                MappingState::Overlay => {
                    let what = "has a file of an overlay mapped for writing, which may be this one";
                    return Ok(program(id, what));
                }
                // The first process may be hidden from everybody, and has no files of users mapped.
                MappingState::NotSeen if id == INIT_PROCESS => {}
                MappingState::NotSeen => sees_all = false,
            }
        }
        Ok(if sees_all { Writer::Nobody } else { Writer::NotAllVisible })
    }

    fn state_in_process(&self, id: u32) -> io::Result<MappingState> {
        let found = self.state_in_task(&format!("{id}"))?;
        if found != MappingState::NoMemory {
            return Ok(found);
        }
        // The first thread may have ended while others live on. The directory of threads has a link for
        // each of them.
        let tasks = c_string(&format!("{id}/task"));
        let has_others =
            statat(&self.proc, &tasks, AtFlags::empty()).is_ok_and(|it| it.st_nlink > 3);
        if !has_others {
            return Ok(MappingState::NoMemory);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(tasks) = openat(&self.proc, &tasks, flags, Mode::empty()) else {
            return Ok(MappingState::NoMemory);
        };
        for entry in Dir::read_from(&tasks)?.flatten() {
            let Some(thread) = entry.file_name().to_str().ok().filter(|it| !it.starts_with('.'))
            else {
                continue;
            };
            // The directory of a thread in `/proc` itself, which is not listed there, has `map_files`; the one
            // below `task` has not.
            match self.state_in_task(thread)? {
                MappingState::NoMemory => {}
                found => return Ok(found),
            }
        }
        Ok(MappingState::NoMemory)
    }

    /// Returns the mappings of the process or thread that has this directory below `/proc`.
    fn state_in_task(&self, directory: &str) -> io::Result<MappingState> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Held open, so that all that follows concerns this process, and no later one with the same
        // number.
        let process = match openat(&self.proc, c_string(directory), flags, Mode::empty()) {
            Ok(process) => process,
            Err(Errno::NOENT | Errno::SRCH) => return Ok(MappingState::NoMemory),
            Err(error) => return Err(error.into()),
        };
        let maps =
            match openat(&process, MAPS_FILE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                Ok(maps) => maps,
                Err(Errno::NOENT | Errno::SRCH) => return Ok(MappingState::NoMemory),
                Err(_) if has_ended(&process) => return Ok(MappingState::NoMemory),
                Err(Errno::ACCESS | Errno::PERM) => return Ok(MappingState::NotSeen),
                Err(error) => return Err(error.into()),
            };
        let mut from = 0;
        loop {
            match system::shared_map(maps.as_raw_fd(), from) {
                Ok(Some(map)) if self.is_of_file(&map) => return Ok(MappingState::File),
                Ok(Some(map)) if is_overlay(&process, &map) => return Ok(MappingState::Overlay),
                Ok(Some(map)) => from = map.end,
                Ok(None) => return Ok(MappingState::Nothing),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    return Ok(MappingState::NoMemory);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn is_of_file(&self, map: &SharedMap) -> bool {
        let device = DeviceNumber { major: map.major, minor: map.minor };
        (device, map.inode) == (self.device, self.inode)
    }
}

/// Returns true if the mapping `map` of `process` belongs to an overlay, or if that cannot be seen.
fn is_overlay(process: &OwnedFd, map: &SharedMap) -> bool {
    // An overlay has no block device, so its major number is 0.
    if map.major != 0 {
        return false;
    }
    let path = c_string(&format!("map_files/{:x}-{:x}", map.start, map.end));
    match openat(process, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => kind_of(file.as_fd()).is_none_or(|kind| kind == OVERLAYFS_MAGIC),
        // The mapping is gone, or its process has ended.
        Err(Errno::NOENT | Errno::SRCH) => false,
        // The kernel also returns this error for a process that ends meanwhile (`proc_fd_access_allowed`,
        // fs/proc/base.c).
        Err(_) => !has_ended(process),
    }
}

/// Returns true if the process of this directory has ended and was waited for: its directory is empty
/// then.
fn has_ended(process: &OwnedFd) -> bool {
    matches!(statat(process, MAPS_FILE, AtFlags::empty()), Err(Errno::NOENT | Errno::SRCH))
}

fn kind_of(file: BorrowedFd<'_>) -> Option<FsWord> {
    fstatfs(file).ok().map(|it| it.f_type)
}

/// Returns the mappings of a process that `state` looks for. A process that was forked from a protected one, such as the
/// first process of some machines, cannot be read until it executes its own program: it is tried again until `deadline`,
/// which the first such process of a search sets.
fn once_readable(
    mut state: impl FnMut() -> io::Result<MappingState>,
    deadline: &mut Option<Instant>,
) -> io::Result<MappingState> {
    loop {
        let found = state()?;
        let is_late = |deadline: &mut Option<Instant>| {
            Instant::now() >= *deadline.get_or_insert_with(|| Instant::now() + UNREADABLE_MAX)
        };
        if found != MappingState::NotSeen || is_late(deadline) {
            return Ok(found);
        }
        std::thread::sleep(RETRY_AFTER);
    }
}

fn program(id: u32, what: &str) -> Writer {
    let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    Writer::Program(format!("{} (process {id}) {what}", name.trim()))
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("numbers and names hold no zeros")
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::loop_mount::succeeds;

    /// Lock for one test at a time: a mapping of an overlay counts as one of any file.
    static IN_TURN: Mutex<()> = Mutex::new(());

    /// A child process that has a file mapped, until this value is dropped.
    struct Mapping(libc::pid_t);

    impl Mapping {
        fn of(path: &Path, access: libc::c_int) -> Mapping {
            let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
            let (fd, none) = (file.as_raw_fd(), std::ptr::null_mut());
            // SAFETY: a new map, which nobody touches.
            let map = unsafe { libc::mmap(none, 4096, access, libc::MAP_SHARED, fd, 0) };
            assert_ne!(map, libc::MAP_FAILED);
            // SAFETY: the child does nothing but wait to be killed.
            let child = unsafe { libc::fork() };
            if child == 0 {
                loop {
                    // SAFETY: waits.
                    unsafe { libc::pause() };
                }
            }
            // SAFETY: the map from above.
            unsafe { libc::munmap(map, 4096) };
            assert!(child > 0);
            Mapping(child)
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: a child of ours.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }

    /// Returns true if another program has the file mapped for writing; `None` if this kernel cannot be
    /// asked.
    fn is_mapped(path: &Path) -> Option<bool> {
        match FileMappings::of(&File::open(path).unwrap()).unwrap().find_writer() {
            Ok(found) => Some(matches!(found, Writer::Program(_))),
            // Linux 6.11 has the request.
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
                let why = "this kernel cannot be asked for maps";
                let _ = writeln!(std::io::stderr(), "\nSKIPPED: who has a file mapped: {why}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_process_that_cannot_be_read_yet_is_waited_for_and_one_that_never_can_is_not_for_long() {
        let mut deadline = None;
        let mut left = 3;
        let found = once_readable(
            || {
                left -= 1;
                Ok(if left > 0 { MappingState::NotSeen } else { MappingState::Nothing })
            },
            &mut deadline,
        );
        assert_eq!((found.unwrap(), left), (MappingState::Nothing, 0));
        // All such processes of a search have one deadline together.
        let first = deadline.expect("it was set");
        let found = once_readable(|| Ok(MappingState::NotSeen), &mut deadline);
        assert_eq!((found.unwrap(), deadline), (MappingState::NotSeen, Some(first)));
        assert!(Instant::now() >= first);
    }

    #[test]
    fn who_can_store_to_a_file_is_found_and_who_only_reads_it_is_not() {
        let _turn = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("file"), directory.path().join("other"));
        std::fs::write(&path, [7; 4096]).unwrap();
        std::fs::write(&other, [7; 4096]).unwrap();
        let Some(before) = is_mapped(&path) else { return };
        let reader = Mapping::of(&path, libc::PROT_READ);
        let of_other = Mapping::of(&other, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!((before, is_mapped(&path)), (false, Some(false)));
        let writer = Mapping::of(&path, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(is_mapped(&path), Some(true));
        drop(writer);
        assert_eq!(is_mapped(&path), Some(false));
        drop((reader, of_other));
    }

    #[test]
    fn a_process_that_ends_while_it_is_looked_at_has_nothing_mapped() {
        let (length, access) = (4096, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let _turn = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // Shared memory without a file has no block device either.
        // SAFETY: a new map, which nobody touches.
        let shared = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
        assert_ne!(shared, libc::MAP_FAILED);
        let other = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(other.path(), [7; 4096]).unwrap();
        let process = Mapping::of(other.path(), libc::PROT_READ);
        // SAFETY: the map from above.
        unsafe { libc::munmap(shared, length) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = format!("/proc/{}", process.0);
        let directory = rustix::fs::open(path.as_str(), flags, Mode::empty()).unwrap();
        let start = shared as u64;
        let map = SharedMap { start, end: start + length as u64, inode: 1, major: 0, minor: 1 };
        let is_seen = openat(&directory, MAPS_FILE, OFlags::RDONLY, Mode::empty()).is_ok();
        assert!(!is_overlay(&directory, &map) && is_seen && !has_ended(&directory));
        // SAFETY: a child of ours, which nobody has waited for yet.
        unsafe {
            libc::kill(process.0, libc::SIGKILL);
            let mut ended: libc::siginfo_t = std::mem::zeroed();
            let until = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, process.0 as libc::id_t, &raw mut ended, until);
        }
        assert!(!is_overlay(&directory, &map), "it has ended");
        drop(process);
        assert!(has_ended(&directory));
        assert!(!is_overlay(&directory, &map), "it was waited for");
    }

    #[test]
    fn who_has_it_mapped_by_way_of_an_overlay_is_found() {
        let _turn = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let test = "maps by way of an overlay";
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let of = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (lower, upper, work, point) = (of("lower"), of("upper"), of("work"), of("point"));
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let shown = point.to_str().unwrap();
        if !succeeds("mount", &["-t", "overlay", "none", "-o", &options, shown]) {
            let _ = writeln!(std::io::stderr(), "\nSKIPPED: {test}: needs root and overlays");
            return;
        }
        std::fs::write(point.join("file"), [7; 4096]).unwrap();
        let before = is_mapped(&upper.join("file"));
        let writer = Mapping::of(&point.join("file"), libc::PROT_READ | libc::PROT_WRITE);
        let found = is_mapped(&upper.join("file"));
        drop(writer);
        assert!(succeeds("umount", &[shown]));
        if before.is_some() {
            assert_eq!((before, found), (Some(false), Some(true)));
        }
    }
}
