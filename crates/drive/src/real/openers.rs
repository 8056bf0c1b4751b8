//! Which programs have a block device open for writing, though they have not claimed it.
//!
//! The kernel keeps no list of that; what is open is seen process by process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::device::DeviceNumber;

/// How often is looked again before somebody counts as having it open: smartctl and udev open devices
/// for a moment.
const LOOKS: u32 = 5;

/// How long is waited between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Of the flags that a file was opened with: for what, and that it was only to be read.
const ACCESS: u32 = OFlags::RWMODE.bits();
const READING: u32 = OFlags::RDONLY.bits();

/// The system's own, which some systems let nobody look at.
pub const FIRST_PROCESS: u32 = 1;

/// The name space of processes that sees all of them (`PROC_PID_INIT_INO`, linux/proc_ns.h).
const ALL_PROCESSES: &str = "pid:[4026531836]";

/// Who uses something so that they could write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    /// Nobody does.
    Nobody,
    /// This program does, in words.
    Program(String),
    /// Nobody that can be seen, but not everybody can be seen.
    NotSeen,
}

/// Whether another program has one of these block devices open for writing.
///
/// # Errors
/// When there is no list of processes.
pub fn openers(devices: &[DeviceNumber]) -> io::Result<Users> {
    let is_it = |kind: FileType, number: DeviceNumber| {
        kind == FileType::BlockDevice && devices.contains(&number)
    };
    for _ in 1..LOOKS {
        match openers_in(Path::new("/proc"), &is_it)? {
            Users::Program(_) => std::thread::sleep(PAUSE),
            other => return Ok(other),
        }
    }
    openers_in(Path::new("/proc"), &is_it)
}

fn openers_in(proc: &Path, is_it: &dyn Fn(FileType, DeviceNumber) -> bool) -> io::Result<Users> {
    let own = std::process::id();
    let mut sees_all = sees_all_in(proc);
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|it| it.parse::<u32>().ok()) else { continue };
        if id == own {
            continue;
        }
        match opens(&entry.path(), is_it) {
            // Our own child has what we have until it has closed it.
            Ok(Some(_)) if parent_of(&entry.path()) == Some(own) => {}
            Ok(Some(device)) => {
                let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                let words = format!("{} (process {id}) has {}", comm.trim(), device.display());
                return Ok(Users::Program(words));
            }
            Ok(None) => {}
            // It has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            Err(_) if id == FIRST_PROCESS => {}
            Err(_) => sees_all = false,
        }
    }
    Ok(if sees_all { Users::Nobody } else { Users::NotSeen })
}

/// Whether the processes of all the system can be seen from here.
pub fn sees_all_processes() -> bool {
    sees_all_in(Path::new("/proc"))
}

fn sees_all_in(proc: &Path) -> bool {
    let namespace = fs::read_link(proc.join("self/ns/pid"));
    namespace.is_ok_and(|it| it == Path::new(ALL_PROCESSES))
}

/// The device that a process has open for writing.
fn opens(
    process: &Path,
    is_it: &dyn Fn(FileType, DeviceNumber) -> bool,
) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(process.join("fd"))? {
        let entry = entry?;
        match kind_of(&entry.path()) {
            Ok((kind, number)) if is_it(kind, number) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // Another device, or closed meanwhile.
            Ok(_) | Err(_) => continue,
        }
        let about = fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
        if about.map_or(true, |about| is_for_writing(&about)) {
            return Ok(Some(fs::read_link(entry.path()).unwrap_or_else(|_| entry.path())));
        }
    }
    Ok(None)
}

/// What an open file is, and which device. The server of a file that is elsewhere is not asked: it may
/// not answer.
#[cfg(target_os = "linux")]
fn kind_of(path: &Path) -> io::Result<(FileType, DeviceNumber)> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    let number = DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor };
    Ok((FileType::from_raw_mode(found.stx_mode.into()), number))
}

#[cfg(not(target_os = "linux"))]
fn kind_of(_: &Path) -> io::Result<(FileType, DeviceNumber)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether what is open was opened for writing, by what `fdinfo` says; where that cannot be told, it was.
fn is_for_writing(about: &str) -> bool {
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|it| u32::from_str_radix(it.trim(), 8).ok());
    flags.is_none_or(|flags| flags & ACCESS != READING)
}

fn parent_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process with one open file, below `proc`.
    fn process(proc: &Path, id: u32, parent: u32, target: &str, flags: &str) {
        let directory = proc.join(id.to_string());
        fs::create_dir_all(directory.join("fd")).unwrap();
        fs::create_dir_all(directory.join("fdinfo")).unwrap();
        symlink(target, directory.join("fd/7")).unwrap();
        fs::write(directory.join("fdinfo/7"), format!("pos:\t0\nflags:\t{flags}\n")).unwrap();
        fs::write(directory.join("comm"), "qemu\n").unwrap();
        fs::write(directory.join("status"), format!("Name:\tqemu\nPPid:\t{parent}\n")).unwrap();
    }

    fn look(proc: &Path) -> Users {
        // A device that is everywhere stands in for a disk.
        let null = DeviceNumber { major: 1, minor: 3 };
        let is_it = |kind: FileType, number| kind == FileType::CharacterDevice && number == null;
        openers_in(proc, &is_it).unwrap()
    }

    #[test]
    fn who_has_it_open_for_writing_is_named_and_who_only_reads_is_not() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        fs::create_dir_all(proc.join("self/ns")).unwrap();
        symlink(ALL_PROCESSES, proc.join("self/ns/pid")).unwrap();
        process(proc, 100, 1, "/dev/null", "0100000");
        process(proc, 101, 1, "/dev/zero", "0100002");
        process(proc, 102, std::process::id(), "/dev/null", "0100002");
        process(proc, std::process::id(), 1, "/dev/null", "0100002");
        assert_eq!(look(proc), Users::Nobody);
        process(proc, 103, 1, "/dev/null", "0140002");
        let Users::Program(words) = look(proc) else { panic!("it is open") };
        assert_eq!(words, "qemu (process 103) has /dev/null");
    }

    #[test]
    fn where_not_all_processes_are_seen_nobody_says_that_nobody_has_it_open() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        assert_eq!(look(proc), Users::NotSeen);
        fs::create_dir_all(proc.join("self/ns")).unwrap();
        symlink("pid:[4026532200]", proc.join("self/ns/pid")).unwrap();
        assert_eq!(look(proc), Users::NotSeen);
    }
}
