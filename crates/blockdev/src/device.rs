//! Device users (holders): finds out if a block device, or a part of it, is mounted, swapped to, or held.

mod loop_backing;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::exports::export_of;
use super::inode::{Inode, backing_of};
use super::mounts::{self, Mount};
use super::portable;
use super::writers::{WriteTargets, Writer, find_writer};

/// Major and minor number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Number of the driver; 0 for file systems without a device.
    pub major: u32,
    /// Number of the device among those of that driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// Returns the number of the block device that this metadata belongs to; `None` for other files.
    pub fn of_block_device(facts: &fs::Metadata) -> Option<Self> {
        portable::block_device(facts)
    }

    /// Returns the number from a raw `dev_t` of `stat`.
    #[cfg(unix)]
    pub fn from_raw(raw: u64) -> Self {
        DeviceNumber {
            major: rustix::fs::major(raw as rustix::fs::Dev),
            minor: rustix::fs::minor(raw as rustix::fs::Dev),
        }
    }

    /// Parses the kernel's text form, such as `8:17`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Places where the kernel describes its devices; others in tests.
pub struct System {
    pub(crate) proc: PathBuf,
    pub(crate) sys: PathBuf,
    /// Returns the number of the block device that a path leads to.
    pub(crate) number_of: fn(&Path) -> Option<DeviceNumber>,
    /// Returns true if the kernel reports that the device is claimed.
    pub(crate) claimed: fn(&Path) -> bool,
    /// Returns another program that has one of these open or mapped for writing.
    pub(crate) find_writer: fn(&WriteTargets) -> io::Result<Writer>,
    /// Returns the file behind the loop device of this name.
    pub(crate) backing_of: fn(&str) -> io::Result<Inode>,
}

impl System {
    /// Returns the running system.
    pub fn real() -> Self {
        System {
            proc: "/proc".into(),
            sys: "/sys".into(),
            number_of: |path| DeviceNumber::of_block_device(&fs::metadata(path).ok()?),
            claimed: portable::is_claimed,
            find_writer,
            backing_of: |name| backing_of(&Path::new("/dev").join(name)),
        }
    }

    /// Returns the directory in which the kernel describes a device.
    pub(crate) fn directory_of(&self, number: DeviceNumber) -> PathBuf {
        self.sys.join("dev/block").join(number.to_string())
    }

    /// Returns the number of the block device that a path leads to; `None` if it leads to something else.
    pub fn number_of(&self, path: &Path) -> Option<DeviceNumber> {
        (self.number_of)(path)
    }

    /// Returns the mounts that this process sees.
    ///
    /// # Errors
    /// Returns an error if the list of mounts cannot be read.
    pub fn mounts(&self) -> io::Result<Vec<Mount>> {
        Ok(mounts::read(&fs::read(self.proc.join("self/mountinfo"))?))
    }
}

/// Describes the user of the device; `None` if the device is not in use.
///
/// A check that cannot be carried out is an error, not a `None`.
pub fn user_of(path: &Path, number: DeviceNumber, system: &System) -> io::Result<Option<String>> {
    if let Some(user) = listed_user_of_any(number, system)? {
        return Ok(Some(user));
    }
    if let Some(user) = unclaimed_writer(number, system)? {
        return Ok(Some(user));
    }
    // The kernel is asked last: it knows of mounts in other mount namespaces too.
    Ok((system.claimed)(path).then(|| "it is mounted or claimed in the kernel".to_owned()))
}

/// Describes a user that could write to the device, its disk or a partition of it without having claimed
/// it, as a virtual machine does; `None` if none is seen.
pub fn unclaimed_writer(number: DeviceNumber, system: &System) -> io::Result<Option<String>> {
    unclaimed_writer_of(
        &WriteTargets { devices: related_in(number, system)?, files: Vec::new() },
        system,
    )
}

/// Describes a user that could write to one of these: the kernel, which exports it to others, or a
/// program.
fn unclaimed_writer_of(targets: &WriteTargets, system: &System) -> io::Result<Option<String>> {
    if let Some(how) = export_of(targets, system)? {
        return Ok(Some(how));
    }
    Ok(match (system.find_writer)(targets)? {
        Writer::Program(words) => Some(words),
        Writer::Nobody | Writer::NotAllVisible => None,
    })
}

/// Returns users that could write to a block device without having claimed it: programs that have the
/// device, its disk, a partition of it, or the backing of a loop device open or mapped for writing, and
/// the kernel's exports.
///
/// # Errors
/// Returns an error if that cannot be found out.
pub fn find_writer_of(number: DeviceNumber) -> io::Result<Writer> {
    let system = System::real();
    let mut targets = WriteTargets { devices: related_in(number, &system)?, files: Vec::new() };
    loop_backing::add_backing(&mut targets, number, &system)?;
    match export_of(&targets, &system)? {
        Some(how) => Ok(Writer::Program(format!("it is {how}"))),
        None => find_writer(&targets),
    }
}

/// Describes the use of the device, a partition of it, the disk that it is a partition of, or the backing
/// of a loop device, as the lists of the system show it; `None` if there is none.
pub fn listed_user_of_any(number: DeviceNumber, system: &System) -> io::Result<Option<String>> {
    match listed_user_except(number, None, system)? {
        None => loop_backing::user(number, system),
        listed => Ok(listed),
    }
}

/// Describes the use of the device itself, without the layers beneath. The loop device called `but` does
/// not count.
fn listed_user_except(
    number: DeviceNumber,
    except: Option<&str>,
    system: &System,
) -> io::Result<Option<String>> {
    if let Some(user) = listed_user_of(number, except, system)? {
        return Ok(Some(user));
    }
    for (name, partition) in partitions_of(number, system)? {
        if let Some(user) = listed_user_of(partition, except, system)? {
            return Ok(Some(format!("its partition {name} is {user}")));
        }
    }
    if let Some(disk) = disk_of(number, system)?
        && let Some(user) = listed_user_of(disk, except, system)?
    {
        return Ok(Some(format!("the disk it is a partition of is {user}")));
    }
    Ok(None)
}

/// Returns the loop device that lies on one of these block devices. A loop device claims none of them,
/// and belongs to no program.
///
/// # Errors
/// Returns an error if that cannot be found out.
pub fn loop_above(numbers: &[DeviceNumber]) -> io::Result<Option<String>> {
    let system = System::real();
    for number in numbers {
        if let Some(name) = loop_on(*number, None, &system)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns the block device with this number, its partitions, and the disk that it is a partition of: a
/// write to one of them may be a write to the device.
///
/// # Errors
/// Returns an error if sysfs cannot be read.
pub fn related(number: DeviceNumber) -> io::Result<Vec<DeviceNumber>> {
    related_in(number, &System::real())
}

fn related_in(number: DeviceNumber, system: &System) -> io::Result<Vec<DeviceNumber>> {
    let mut all = vec![number];
    all.extend(disk_of(number, system)?);
    all.extend(partitions_of(number, system)?.into_iter().map(|(_, number)| number));
    Ok(all)
}

/// Returns the disk that a device is a partition of; `None` if it is no partition.
fn disk_of(number: DeviceNumber, system: &System) -> io::Result<Option<DeviceNumber>> {
    let directory = fs::canonicalize(system.directory_of(number))?;
    if !directory.join("partition").exists() {
        return Ok(None);
    }
    let disk = directory.parent().unwrap_or(&directory);
    let text = fs::read_to_string(disk.join("dev"))?;
    let number = DeviceNumber::parse(&text)
        .ok_or_else(|| io::Error::other(format!("{} has no device number", disk.display())))?;
    Ok(Some(number))
}

fn listed_user_of(
    number: DeviceNumber,
    except: Option<&str>,
    system: &System,
) -> io::Result<Option<String>> {
    for mount in system.mounts()? {
        // Some file systems (btrfs) show a device number of their own, but always their source.
        if mount.device == number || (system.number_of)(&mount.source) == Some(number) {
            return Ok(Some(format!("mounted at {}", mount.point.display())));
        }
    }
    if is_swap(number, system)? {
        return Ok(Some("swap space".to_owned()));
    }
    let holders = names_in(&system.directory_of(number).join("holders"))?;
    if !holders.is_empty() {
        return Ok(Some(format!("held by {}", holders.join(", "))));
    }
    Ok(match loop_on(number, except, system)? {
        Some(name) => Some(format!("the backing device of {name}")),
        None => btrfs_on(number, system)?.map(|id| format!("a member of the btrfs {id}")),
    })
}

/// Returns a loop device other than `but` that lies on this device. Loop devices are not listed as
/// holders.
fn loop_on(
    number: DeviceNumber,
    except: Option<&str>,
    system: &System,
) -> io::Result<Option<String>> {
    let blocks = system.sys.join("block");
    for name in names_in(&blocks)?.into_iter().filter(|name| Some(name.as_str()) != except) {
        let backing = loop_backing::read_backing(&blocks.join(&name))?;
        if backing.is_some_and(|path| (system.number_of)(&path) == Some(number)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns the identifier of the mounted btrfs that this device belongs to: with several devices, a mount
/// shows only one.
fn btrfs_on(number: DeviceNumber, system: &System) -> io::Result<Option<String>> {
    let file_systems = system.sys.join("fs/btrfs");
    for id in names_in(&file_systems)? {
        let members = file_systems.join(&id).join("devices");
        for member in names_in(&members).unwrap_or_default() {
            let text = fs::read_to_string(members.join(&member).join("dev"));
            if text.is_ok_and(|text| DeviceNumber::parse(&text) == Some(number)) {
                return Ok(Some(id));
            }
        }
    }
    Ok(None)
}

fn is_swap(number: DeviceNumber, system: &System) -> io::Result<bool> {
    Ok(swaps(system)?.iter().any(|path| (system.number_of)(path) == Some(number)))
}

/// Returns the devices and files that are swapped to.
fn swaps(system: &System) -> io::Result<Vec<PathBuf>> {
    match fs::read(system.proc.join("swaps")) {
        // A kernel without swap has no such file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(mounts::read_swaps(&read?)),
    }
}

/// Returns the partitions of a device, by name.
pub fn partitions_of(
    number: DeviceNumber,
    system: &System,
) -> io::Result<Vec<(String, DeviceNumber)>> {
    let directory = system.directory_of(number);
    let mut partitions = Vec::new();
    for name in names_in(&directory)? {
        let part = directory.join(&name);
        if part.join("partition").exists() {
            let text = fs::read_to_string(part.join("dev"))?;
            let number = DeviceNumber::parse(&text)
                .ok_or_else(|| io::Error::other(format!("{name} has no device number")))?;
            partitions.push((name, number));
        }
    }
    Ok(partitions)
}

/// Returns the names in a directory, sorted; empty if there is no such directory, as with `holders`
/// of a device that cannot be held.
pub(crate) fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const PART: DeviceNumber = DeviceNumber { major: 8, minor: 2 };

    /// Makes a system with one disk of two partitions, as far as this module reads it.
    fn system(root: &Path, mountinfo: &str, swaps: &str) -> System {
        for (minor, name) in [(1, "sda1"), (2, "sda2")] {
            let part = root.join("sys/dev/block/8:0").join(name);
            fs::create_dir_all(&part).unwrap();
            fs::write(part.join("partition"), "1").unwrap();
            fs::write(part.join("dev"), format!("8:{minor}\n")).unwrap();
            fs::create_dir_all(root.join(format!("sys/dev/block/8:{minor}/holders"))).unwrap();
        }
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::write(root.join("proc/self/mountinfo"), mountinfo).unwrap();
        fs::write(root.join("proc/swaps"), swaps).unwrap();
        System {
            proc: root.join("proc"),
            sys: root.join("sys"),
            number_of: |path| match path.to_str()? {
                "/dev/sda" => Some(DISK),
                "/dev/sda2" => Some(PART),
                _ => None,
            },
            claimed: |_| false,
            find_writer: |_| Ok(Writer::Nobody),
            backing_of: |_| Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn user(mountinfo: &str, swaps: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), mountinfo, swaps);
        user_of(Path::new("/dev/sda"), DISK, &system).unwrap()
    }

    #[test]
    fn a_mounted_device_or_partition_is_in_use() {
        let other = "36 35 8:7 / /mnt rw - ext4 /dev/sdz rw\n";
        assert_eq!(user(other, ""), None);
        let own = "36 35 8:0 / /mnt\\040one rw,noatime master:1 - ext4 /dev/sda rw\n";
        assert_eq!(user(own, "").unwrap(), "mounted at /mnt one");
        // A source that leads nowhere, such as the kernel's name of its first root, does not matter.
        let root = "36 35 8:0 / / rw - ext4 /dev/root rw\n";
        assert_eq!(user(root, "").unwrap(), "mounted at /");
        let part = "36 35 8:2 / /home rw - ext4 /dev/sda2 rw\n";
        let message = "its partition sda2 is mounted at /home";
        assert_eq!(user(part, "").unwrap(), message);
        // As with btrfs: the number is not that of the device.
        let by_source = "36 35 0:40 / /home rw - btrfs /dev/sda2 rw\n";
        assert_eq!(user(by_source, "").unwrap(), message);
    }

    #[test]
    fn swap_space_is_in_use() {
        let swaps = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        assert_eq!(user("", swaps).unwrap(), "its partition sda2 is swap space");
    }

    #[test]
    fn what_something_is_built_on_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), "", "");
        fs::write(root.path().join("sys/dev/block/8:2/holders/dm-0"), "").unwrap();
        let message = user_of(Path::new("/dev/sda"), DISK, &system).unwrap().unwrap();
        assert_eq!(message, "its partition sda2 is held by dm-0");
    }

    #[test]
    fn what_a_loop_device_or_a_btrfs_of_several_devices_lies_on_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), "", "");
        let user = || user_of(Path::new("/dev/sda"), DISK, &system).unwrap();
        let backing = root.path().join("sys/block/loop3/loop");
        fs::create_dir_all(&backing).unwrap();
        // A loop device on a file, or on nothing, does not matter.
        fs::create_dir_all(root.path().join("sys/block/loop4")).unwrap();
        fs::write(backing.join("backing_file"), "/some/file\n").unwrap();
        assert_eq!(user(), None);
        fs::write(backing.join("backing_file"), "/dev/sda2\n").unwrap();
        assert_eq!(user().unwrap(), "its partition sda2 is the backing device of loop3");
        fs::write(backing.join("backing_file"), "/some/file\n").unwrap();
        let member = root.path().join("sys/fs/btrfs/f00d/devices/sda");
        fs::create_dir_all(&member).unwrap();
        fs::create_dir_all(root.path().join("sys/fs/btrfs/features")).unwrap();
        fs::write(member.join("dev"), "8:0\n").unwrap();
        assert_eq!(user().unwrap(), "a member of the btrfs f00d");
    }

    #[test]
    fn a_partition_of_a_disk_that_something_lies_on_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), "", "");
        // As in sysfs: the directory of the partition lies within that of its disk.
        let numbers = root.path().join("sys/dev/block");
        fs::write(numbers.join("8:0/dev"), "8:0\n").unwrap();
        fs::remove_dir_all(numbers.join("8:2")).unwrap();
        std::os::unix::fs::symlink("8:0/sda2", numbers.join("8:2")).unwrap();
        let user = || user_of(Path::new("/dev/sda2"), PART, &system).unwrap();
        assert_eq!(user(), None);
        let backing = root.path().join("sys/block/loop3/loop");
        fs::create_dir_all(&backing).unwrap();
        fs::write(backing.join("backing_file"), "/dev/sda\n").unwrap();
        assert_eq!(user().unwrap(), "the disk it is a partition of is the backing device of loop3");
    }

    #[test]
    fn what_a_program_has_open_for_writing_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let mut system = system(root.path(), "", "");
        system.find_writer = |targets| {
            assert_eq!(targets.devices, [DISK, DeviceNumber { major: 8, minor: 1 }, PART]);
            Ok(Writer::Program("qemu (process 7) has /dev/sda2 open for writing".to_owned()))
        };
        let user = user_of(Path::new("/dev/sda"), DISK, &system).unwrap();
        assert_eq!(user.unwrap(), "qemu (process 7) has /dev/sda2 open for writing");
        system.find_writer = |_| Err(io::ErrorKind::NotFound.into());
        assert!(user_of(Path::new("/dev/sda"), DISK, &system).is_err());
    }

    #[test]
    fn what_the_kernel_serves_to_others_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), "", "");
        let namespace = root.path().join("sys/kernel/config/nvmet/subsystems/nqn/namespaces/1");
        fs::create_dir_all(&namespace).unwrap();
        fs::write(namespace.join("enable"), "1\n").unwrap();
        fs::write(namespace.join("device_path"), "/dev/sda2\n").unwrap();
        let user = user_of(Path::new("/dev/sda"), DISK, &system).unwrap();
        let words = "served to others by the kernel (nvmet subsystem nqn, namespace 1)";
        assert_eq!(user.unwrap(), words);
    }

    #[test]
    fn what_the_kernel_claims_is_in_use_whatever_the_lists_say() {
        let root = tempfile::tempdir().unwrap();
        let mut system = system(root.path(), "", "");
        system.claimed = |_| true;
        assert!(user_of(Path::new("/dev/sda"), DISK, &system).unwrap().is_some());
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), "", "");
        fs::remove_file(root.path().join("proc/self/mountinfo")).unwrap();
        assert!(user_of(Path::new("/dev/sda"), DISK, &system).is_err());
    }
}
