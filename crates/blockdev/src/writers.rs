//! Writers of a device: programs that have a block device or a file open or mapped for writing without
//! having claimed it.
//!
//! The kernel has no list of them, so each process is examined: its descriptors (`/proc/PID/fd`),
//! and its shared mappings (`/proc/PID/maps`), which outlive the descriptor that they were made of.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::device::DeviceNumber;
use super::inode::{Inode, NodeId};

/// Number of checks that must find a writer, or a process that cannot be read, before it counts. smartctl and udev open
/// devices for a moment, and `losetup --find` keeps a loop device that another process was faster to set up open for
/// writing for 200 ms, and longer on a busy machine.
const CHECKS: u32 = 20;

/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Bits of the flags of an open file that give its access, and their value for reading only (`O_ACCMODE`
/// and `O_RDONLY`, asm-generic/fcntl.h).
const O_ACCMODE: u32 = 0o3;
const O_RDONLY: u32 = 0o0;

/// Error of the kernel for a process that has ended (`ESRCH`, asm-generic/errno-base.h).
const ESRCH: i32 = 3;

/// Identifier of the first process (init), which some systems hide from everybody.
pub const INIT_PROCESS: u32 = 1;

/// PID namespace that sees all processes (`PROC_PID_INIT_INO`, linux/proc_ns.h).
const INIT_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Another program that could write to a device or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// No program.
    Nobody,
    /// A program, described in words.
    Program(String),
    /// No program among the processes that can be seen, but not all can be seen.
    NotAllVisible,
}

/// Block devices and files whose writers are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteTargets {
    /// The block devices.
    pub devices: Vec<DeviceNumber>,
    /// The files.
    pub files: Vec<Inode>,
}

impl WriteTargets {
    pub(crate) fn contains(&self, node: NodeId) -> bool {
        match node {
            NodeId::BlockDevice(number) => self.devices.contains(&number),
            NodeId::File(inode) => self.files.contains(&inode),
            NodeId::Other => false,
        }
    }
}

/// Returns another program that has one of these open or mapped for writing.
///
/// # Errors
/// Returns an error if the processes cannot be listed.
pub fn find_writer(targets: &WriteTargets) -> io::Result<Writer> {
    let proc = Path::new("/proc");
    for _ in 1..CHECKS {
        match find_writer_in(proc, targets)? {
            Writer::Nobody => return Ok(Writer::Nobody),
            // Some are hidden for good.
            Writer::NotAllVisible if !sees_all_in(proc) => return Ok(Writer::NotAllVisible),
            // A process that was forked from a protected one cannot be read until it executes its own program.
            Writer::Program(_) | Writer::NotAllVisible => std::thread::sleep(CHECK_INTERVAL),
        }
    }
    find_writer_in(proc, targets)
}

fn find_writer_in(proc: &Path, targets: &WriteTargets) -> io::Result<Writer> {
    let own = std::process::id();
    let mut sees_all = sees_all_in(proc);
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|it| it.parse::<u32>().ok()) else { continue };
        if id == own {
            continue;
        }
        match writable_access(&entry.path(), targets) {
            // A child of this process has the same descriptors until it has closed them.
            Ok(Some(_)) if parent_of(&entry.path()) == Some(own) => {}
            Ok(Some(how)) => {
                let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                return Ok(Writer::Program(format!("{} (process {id}) has {how}", comm.trim())));
            }
            Ok(None) => {}
            // The process has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(ESRCH) => {}
            Err(_) if id == INIT_PROCESS => {}
            Err(_) => sees_all = false,
        }
    }
    Ok(if sees_all { Writer::Nobody } else { Writer::NotAllVisible })
}

/// Returns true if all processes of the system can be seen from here.
pub fn sees_all_processes() -> bool {
    sees_all_in(Path::new("/proc"))
}

fn sees_all_in(proc: &Path) -> bool {
    let namespace = fs::read_link(proc.join("self/ns/pid"));
    namespace.is_ok_and(|it| it == Path::new(INIT_PID_NAMESPACE))
}

/// Describes how a process could write to one of the target devices and files; `None` if it cannot.
fn writable_access(process: &Path, targets: &WriteTargets) -> io::Result<Option<String>> {
    if let Some(path) = opened_for_writing(process, targets)? {
        return Ok(Some(format!("{} open for writing", path.display())));
    }
    let mapped = mapped_for_writing(process, targets)?;
    Ok(mapped.map(|path| format!("{} mapped for writing", path.display())))
}

/// Returns the target file that a process has open for writing.
fn opened_for_writing(process: &Path, targets: &WriteTargets) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(process.join("fd"))? {
        let entry = entry?;
        match NodeId::at(&entry.path()) {
            Ok(node) if targets.contains(node) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // Another file, or one that was closed meanwhile.
            Ok(_) | Err(_) => continue,
        }
        let about = fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
        if about.map_or(true, |about| is_for_writing(&about)) {
            return Ok(Some(fs::read_link(entry.path()).unwrap_or_else(|_| entry.path())));
        }
    }
    Ok(None)
}

/// Returns the target file that a process has mapped shared and writable.
fn mapped_for_writing(process: &Path, targets: &WriteTargets) -> io::Result<Option<PathBuf>> {
    // File names need not be text.
    let maps = fs::read(process.join("maps"))?;
    for line in maps.split(|&byte| byte == b'\n') {
        let Some(map) = SharedMap::parse(&String::from_utf8_lossy(line)) else { continue };
        // The line has the device number of the file system with the device node, not of the device.
        let node = match NodeId::at(&process.join("map_files").join(&map.range)) {
            Ok(node) => node,
            // The mapping is gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Without permission to follow the link, the name of the mapping can still be looked up.
            Err(_) => match NodeId::at(Path::new(&map.name)) {
                Ok(NodeId::BlockDevice(number)) => NodeId::BlockDevice(number),
                _ => NodeId::File(map.inode),
            },
        };
        if targets.contains(node) {
            return Ok(Some(map.name.into()));
        }
    }
    Ok(None)
}

/// A shared, writable mapping of a file, as a line of `/proc/PID/maps` describes it.
#[derive(Debug, PartialEq, Eq)]
struct SharedMap {
    /// Range of addresses, which is the name in `map_files`.
    range: String,
    inode: Inode,
    name: String,
}

impl SharedMap {
    /// Parses a line. Returns `None` for mappings of memory, and for private and read-only ones.
    fn parse(line: &str) -> Option<SharedMap> {
        // proc_pid_maps(5): address, permissions, offset, device, inode, name.
        let mut fields = line.splitn(6, ' ');
        let (range, permissions) = (fields.next()?, fields.next()?.as_bytes());
        if permissions.get(1) != Some(&b'w') || permissions.get(3) != Some(&b's') {
            return None;
        }
        let (device, number) = (fields.nth(1)?, fields.next()?.parse().ok()?);
        if number == 0 {
            return None;
        }
        let (major, minor) = device.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        let file_system = DeviceNumber { major: hex(major)?, minor: hex(minor)? };
        Some(SharedMap {
            range: range.to_owned(),
            inode: Inode { file_system, number },
            name: fields.next().unwrap_or_default().trim_start().to_owned(),
        })
    }
}

/// Returns true if `fdinfo` says that the file was opened for writing, or does not say.
fn is_for_writing(about: &str) -> bool {
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|it| u32::from_str_radix(it.trim(), 8).ok());
    flags.is_none_or(|flags| flags & O_ACCMODE != O_RDONLY)
}

fn parent_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes a process below `proc` with one open file and no mapping.
    fn process(proc: &Path, id: u32, parent: u32, target: &Path, flags: &str) -> PathBuf {
        let directory = proc.join(id.to_string());
        for name in ["fd", "fdinfo", "map_files"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        symlink(target, directory.join("fd/7")).unwrap();
        fs::write(directory.join("fdinfo/7"), format!("pos:\t0\nflags:\t{flags}\n")).unwrap();
        fs::write(directory.join("maps"), "7f00-7f01 rw-p 00000000 00:00 0 [heap]\n").unwrap();
        fs::write(directory.join("comm"), "qemu\n").unwrap();
        fs::write(directory.join("status"), format!("Name:\tqemu\nPPid:\t{parent}\n")).unwrap();
        directory
    }

    /// Makes an empty list of processes, and beside it a file whose writers are looked for.
    fn scene() -> (tempfile::TempDir, PathBuf, PathBuf, WriteTargets) {
        let root = tempfile::tempdir().unwrap();
        let (proc, file) = (root.path().join("proc"), root.path().join("image"));
        fs::create_dir_all(proc.join("self/ns")).unwrap();
        symlink(INIT_PID_NAMESPACE, proc.join("self/ns/pid")).unwrap();
        fs::write(&file, "").unwrap();
        let NodeId::File(inode) = NodeId::at(&file).unwrap() else { panic!("it is a file") };
        (root, proc, file, WriteTargets { devices: Vec::new(), files: vec![inode] })
    }

    fn program(found: Writer) -> String {
        let Writer::Program(words) = found else { panic!("nobody was found: {found:?}") };
        words
    }

    #[test]
    fn who_has_it_open_for_writing_is_named_and_who_only_reads_is_not() {
        let (root, proc, file, targets) = scene();
        let found = || find_writer_in(&proc, &targets).unwrap();
        let other = root.path().join("other");
        fs::write(&other, "").unwrap();
        process(&proc, 100, 1, &file, "0100000");
        process(&proc, 101, 1, &other, "0100002");
        process(&proc, 102, std::process::id(), &file, "0100002");
        process(&proc, std::process::id(), 1, &file, "0100002");
        assert_eq!(found(), Writer::Nobody);
        // By any name of the file.
        let link = root.path().join("link");
        fs::hard_link(&file, &link).unwrap();
        process(&proc, 103, 1, &link, "0140002");
        let expected = format!("qemu (process 103) has {} open for writing", link.display());
        assert_eq!(program(found()), expected);
    }

    #[test]
    fn who_has_it_mapped_for_writing_and_closed_it_is_named() {
        let (_root, proc, file, targets) = scene();
        let found = || find_writer_in(&proc, &targets).unwrap();
        let directory = process(&proc, 100, 1, Path::new("/dev/null"), "0100002");
        let name = file.display();
        let maps = |permissions: &str| {
            let text = format!("7f00-7f01 {permissions} 00000000 fe:00 12 {name}\n");
            fs::write(directory.join("maps"), text).unwrap();
        };
        symlink(&file, directory.join("map_files/7f00-7f01")).unwrap();
        for harmless in ["r--s", "rw-p", "r-xp"] {
            maps(harmless);
            assert_eq!(found(), Writer::Nobody, "{harmless}");
        }
        maps("rw-s");
        assert_eq!(program(found()), format!("qemu (process 100) has {name} mapped for writing"));
    }

    #[test]
    fn lines_of_maps_are_read_with_names_that_hold_blanks() {
        let line = "7f0b-7f0c rw-s 00001000 fd:1a 1234                  /srv/my disk (deleted)";
        let map = SharedMap::parse(line).unwrap();
        let file_system = DeviceNumber { major: 0xFD, minor: 0x1A };
        assert_eq!(map.inode, Inode { file_system, number: 1234 });
        assert_eq!((&*map.range, &*map.name), ("7f0b-7f0c", "/srv/my disk (deleted)"));
        for other in ["", "7f0b-7f0c rw-s 00000000 00:00 0 ", "7f0b-7f0c r--s 0 fd:1a 9 /a"] {
            assert_eq!(SharedMap::parse(other), None, "{other}");
        }
    }

    #[test]
    fn where_not_all_processes_are_seen_nobody_says_that_nobody_has_it_open() {
        let (_root, proc, _, targets) = scene();
        fs::remove_file(proc.join("self/ns/pid")).unwrap();
        let found = || find_writer_in(&proc, &targets).unwrap();
        assert_eq!(found(), Writer::NotAllVisible);
        symlink("pid:[4026532200]", proc.join("self/ns/pid")).unwrap();
        assert_eq!(found(), Writer::NotAllVisible);
    }
}
