//! Who writes to a block device past its file system, so that no freeze stops them: programs that
//! have it open, and swap.
//!
//! The kernel keeps no list of who has a device open without having claimed it; what is open is seen
//! process by process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use ssdlab_drive::real::{DeviceNumber, place};

/// How often is looked again before somebody counts as having it open: smartctl and udev open devices
/// for a moment.
const LOOKS: u32 = 5;

/// How long is waited between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// The name space of processes that sees all of them (`PROC_PID_INIT_INO`, linux/proc_ns.h).
const ALL_PROCESSES: &str = "pid:[4026531836]";

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Openers {
    /// Nobody has it open for writing.
    Nobody,
    /// This program has, in words.
    Program(String),
    /// Nobody that can be seen, but not everybody can be seen.
    NotSeen,
}

/// Whether another program has one of these block devices open for writing.
///
/// # Errors
/// When there is no list of processes.
pub(crate) fn openers(devices: &[DeviceNumber]) -> io::Result<Openers> {
    let is_it = |kind: FileType, number: DeviceNumber| {
        kind == FileType::BlockDevice && devices.contains(&number)
    };
    for _ in 1..LOOKS {
        match openers_in(Path::new("/proc"), &is_it)? {
            Openers::Program(_) => std::thread::sleep(PAUSE),
            other => return Ok(other),
        }
    }
    openers_in(Path::new("/proc"), &is_it)
}

fn openers_in(proc: &Path, is_it: &dyn Fn(FileType, DeviceNumber) -> bool) -> io::Result<Openers> {
    let own = std::process::id();
    let namespace = fs::read_link(proc.join("self/ns/pid"));
    let mut sees_all = namespace.is_ok_and(|it| it == Path::new(ALL_PROCESSES));
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
                return Ok(Openers::Program(words));
            }
            Ok(None) => {}
            // It has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(_) => sees_all = false,
        }
    }
    Ok(if sees_all { Openers::Nobody } else { Openers::NotSeen })
}

/// The device that a process has open for writing.
fn opens(
    process: &Path,
    is_it: &dyn Fn(FileType, DeviceNumber) -> bool,
) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(process.join("fd"))? {
        let entry = entry?;
        // The server of a file that is elsewhere is not asked: it may not answer.
        let found = statx(CWD, entry.path(), AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        let Ok(found) = found else { continue };
        let number = DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor };
        if !is_it(FileType::from_raw_mode(found.stx_mode.into()), number) {
            continue;
        }
        let about = fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
        if about.map_or(true, |about| is_for_writing(&about)) {
            return Ok(Some(fs::read_link(entry.path()).unwrap_or_else(|_| entry.path())));
        }
    }
    Ok(None)
}

/// Whether what is open was opened for writing, by what `fdinfo` says; where that cannot be told, it was.
fn is_for_writing(about: &str) -> bool {
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|it| i32::from_str_radix(it.trim(), 8).ok());
    flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

fn parent_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Where swapping would be written to past a freeze.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swapped<'a> {
    /// The block device.
    pub(crate) device: DeviceNumber,
    /// The file system on it.
    pub(crate) super_block: DeviceNumber,
    /// The file of it that is meant, by device and inode; all of the device where there is none.
    pub(crate) file: Option<(u64, u64)>,
    /// What is swapped to.
    pub(crate) names: &'a [PathBuf],
}

impl Swapped<'_> {
    /// What of it is swapped to, in words; nothing where nothing is.
    pub(crate) fn found(&self) -> Option<String> {
        self.names.iter().find_map(|name| {
            let shown = name.display();
            let lies_there = self.lies_there(name).unwrap_or_else(|error| {
                Some(format!("{shown} is swapped to and cannot be looked at ({error})"))
            });
            lies_there.map(|what| format!("{what}; swapoff {shown} first"))
        })
    }

    fn lies_there(&self, name: &Path) -> io::Result<Option<String>> {
        let found = fs::metadata(name)?;
        let shown = name.display();
        if found.file_type().is_block_device() {
            let is_it = DeviceNumber::from_raw(found.rdev()) == self.device;
            return Ok(is_it.then(|| format!("{shown} is in use as swap")));
        }
        let is_it = match self.file {
            Some(file) => file == (found.dev(), found.ino()),
            None => {
                let mount = place::mount_of_file(&File::open(name)?);
                let mount = mount.ok_or_else(|| io::Error::other("its mount is not known"))?;
                mount.device == self.super_block
            }
        };
        Ok(is_it.then(|| {
            format!(
                "{shown} lies there and is in use as swap, which is written to past the file system"
            )
        }))
    }
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

    fn look(proc: &Path) -> Openers {
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
        assert_eq!(look(proc), Openers::Nobody);
        process(proc, 103, 1, "/dev/null", "0140002");
        let Openers::Program(words) = look(proc) else { panic!("it is open") };
        assert_eq!(words, "qemu (process 103) has /dev/null");
    }

    #[test]
    fn where_not_all_processes_are_seen_nobody_says_that_nobody_has_it_open() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        assert_eq!(look(proc), Openers::NotSeen);
        fs::create_dir_all(proc.join("self/ns")).unwrap();
        symlink("pid:[4026532200]", proc.join("self/ns/pid")).unwrap();
        assert_eq!(look(proc), Openers::NotSeen);
    }

    #[test]
    fn a_swap_file_on_it_is_found_and_so_is_one_that_cannot_be_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("swapfile");
        let file = File::create(&path).unwrap();
        let about = file.metadata().unwrap();
        let super_block = place::mount_of_file(&file).unwrap().device;
        let other = DeviceNumber { major: 4095, minor: 1 };
        let names = [path.clone()];
        let found = |super_block, file, names: &[PathBuf]| {
            Swapped { device: other, super_block, file, names }.found()
        };
        assert!(found(super_block, None, &names).unwrap().contains("lies there"));
        assert_eq!(found(other, None, &names), None);
        // Of a file only itself counts.
        assert_eq!(found(super_block, Some((about.dev(), 0)), &names), None);
        assert!(found(super_block, Some((about.dev(), about.ino())), &names).is_some());
        let gone = [directory.path().join("gone")];
        assert!(found(other, None, &gone).unwrap().contains("cannot be looked at"));
    }
}
