//! Backing of loop devices. A loop device claims neither the file nor the block device that it lies on,
//! so that either may be in use while the loop device itself is free: a write to one is a write to the
//! other.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::inode::{Inode, NodeId};
use super::super::portable::{is_same_file, path_from};
use super::super::writers::WriteTargets;
use super::{
    DeviceNumber, System, disk_of, listed_user_except, names_in, related_in, swaps,
    unclaimed_writer, unclaimed_writer_of,
};

/// Largest depth of loop devices on loop devices.
const DEPTH_MAX: usize = 16;

/// Describes the user of the backing of a loop device, or of the loop device that this is a partition of;
/// `None` if the backing is free, or for other devices.
pub(super) fn user(number: DeviceNumber, system: &System) -> io::Result<Option<String>> {
    let mut number = disk_of(number, system)?.unwrap_or(number);
    for _ in 0..DEPTH_MAX {
        let Some(path) = read_backing(&system.directory_of(number))? else { return Ok(None) };
        let name = name_of(number, system)?;
        let shown = path.display();
        let Some(below) = (system.number_of)(&path) else {
            return Ok(user_of_file(&path, &name, system)?
                .map(|user| format!("its file {shown} is {user}")));
        };
        let in_use = |user| format!("in use: {user}");
        let user = match listed_user_except(below, Some(&name), system)? {
            None => unclaimed_writer(below, system)?.map(in_use),
            listed => listed,
        };
        let is_claimed = || (system.claimed)(&path).then(|| "claimed in the kernel".to_owned());
        if let Some(user) = user.or_else(is_claimed) {
            return Ok(Some(format!("its backing device {shown} is {user}")));
        }
        number = disk_of(below, system)?.unwrap_or(below);
    }
    Err(io::Error::other("too many loop devices are stacked on one another"))
}

/// Adds the backing of a loop device, and in turn the backing of that, as far as they are loop devices.
pub(super) fn add_backing(
    targets: &mut WriteTargets,
    number: DeviceNumber,
    system: &System,
) -> io::Result<()> {
    let mut number = disk_of(number, system)?.unwrap_or(number);
    for _ in 0..DEPTH_MAX {
        let Some(path) = read_backing(&system.directory_of(number))? else { return Ok(()) };
        let Some(below) = (system.number_of)(&path) else {
            targets.files.extend(inode_of(&path, &name_of(number, system)?, system));
            return Ok(());
        };
        targets.devices.extend(related_in(below, system)?);
        number = disk_of(below, system)?.unwrap_or(below);
    }
    Err(io::Error::other("too many loop devices are stacked on one another"))
}

/// Returns the file behind the loop device of this name. If the kernel does not report the inode, the
/// file is the one that the path leads to from here; `None` if that leads nowhere.
fn inode_of(path: &Path, name: &str, system: &System) -> Option<Inode> {
    (system.backing_of)(name).ok().or_else(|| match NodeId::at(path).ok()? {
        NodeId::File(inode) => Some(inode),
        NodeId::BlockDevice(_) | NodeId::Other => None,
    })
}

/// Returns the path of the backing of the loop device described in `directory`; `None` for other devices,
/// and for a loop device that is not set up.
pub(super) fn read_backing(directory: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read(directory.join("loop/backing_file")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => Ok(Some(path_from(read?.trim_ascii_end()))),
    }
}

/// Describes a user of a file other than the loop device called `own`.
fn user_of_file(path: &Path, own: &str, system: &System) -> io::Result<Option<String>> {
    let blocks = system.sys.join("block");
    for name in names_in(&blocks)?.into_iter().filter(|name| name != own) {
        if read_backing(&blocks.join(&name))?.is_some_and(|other| is_same(&other, path)) {
            return Ok(Some(format!("the backing file of {name}, too")));
        }
    }
    if swaps(system)?.iter().any(|swap| is_same(swap, path)) {
        return Ok(Some("swap space".to_owned()));
    }
    let files = inode_of(path, own, system).into_iter().collect();
    let user = unclaimed_writer_of(&WriteTargets { devices: Vec::new(), files }, system)?;
    Ok(user.map(|user| format!("in use: {user}")))
}

/// Returns true if two names belong to the same file. If a file was removed, or lies in another mount
/// namespace, only the names are compared.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(_), Ok(_)) => is_same_file(one, other),
        _ => one == other,
    }
}

/// Returns the kernel name of a device.
fn name_of(number: DeviceNumber, system: &System) -> io::Result<String> {
    let directory = fs::canonicalize(system.directory_of(number))?;
    Ok(directory.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;

    const ONE: DeviceNumber = DeviceNumber { major: 7, minor: 1 };
    const TWO: DeviceNumber = DeviceNumber { major: 7, minor: 2 };

    /// Makes a system with two loop devices on these files.
    fn system(root: &Path, backings: [&Path; 2], mountinfo: &str, swaps: &str) -> System {
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        fs::write(root.join("proc/self/mountinfo"), mountinfo).unwrap();
        fs::write(root.join("proc/swaps"), swaps).unwrap();
        for (index, backing) in backings.iter().enumerate() {
            let minor = index + 1;
            let device = root.join(format!("sys/block/loop{minor}"));
            fs::create_dir_all(device.join("loop")).unwrap();
            fs::write(device.join("loop/backing_file"), format!("{}\n", backing.display()))
                .unwrap();
            let link = root.join(format!("sys/dev/block/7:{minor}"));
            std::os::unix::fs::symlink(device, link).unwrap();
        }
        System {
            proc: root.join("proc"),
            sys: root.join("sys"),
            number_of: |path| (path == Path::new("/dev/loop1")).then_some(ONE),
            claimed: |_| false,
            find_writer: |_| Ok(Writer::Nobody),
            backing_of: |_| Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn user_of_second(backings: [&str; 2], mountinfo: &str, swaps: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for file in ["a", "b"] {
            fs::write(root.path().join(file), "").unwrap();
        }
        fs::hard_link(root.path().join("a"), root.path().join("other-name")).unwrap();
        let paths = backings.map(|backing| root.path().join(backing));
        let swaps = swaps.replace('@', root.path().to_str().unwrap());
        let system = system(root.path(), [&paths[0], &paths[1]], mountinfo, &swaps);
        let user = user(TWO, &system).unwrap();
        user.map(|words| words.replace(root.path().to_str().unwrap(), "@"))
    }

    #[test]
    fn a_file_that_another_loop_device_lies_on_is_in_use_by_any_name() {
        assert_eq!(user_of_second(["a", "b"], "", ""), None);
        let words = "its file @/other-name is the backing file of loop1, too";
        assert_eq!(user_of_second(["a", "other-name"], "", "").unwrap(), words);
        let words = "its file @/gone (deleted) is the backing file of loop1, too";
        assert_eq!(user_of_second(["gone (deleted)"; 2], "", "").unwrap(), words);
        assert_eq!(user_of_second(["gone (deleted)", "b"], "", ""), None);
    }

    #[test]
    fn a_file_that_is_swapped_to_is_in_use() {
        let swaps = "Filename Type Size Used Priority\n@/b file 1 0 -2\n";
        assert_eq!(user_of_second(["a", "b"], "", swaps).unwrap(), "its file @/b is swap space");
        assert_eq!(user_of_second(["b", "a"], "", swaps), None);
    }

    #[test]
    fn a_file_that_a_program_has_open_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a");
        fs::write(&file, "").unwrap();
        let mut system = system(root.path(), [Path::new("/elsewhere"), &file], "", "");
        system.find_writer = |targets| match targets.files[..] {
            [_] => Ok(Writer::Program("qemu-nbd (process 7) has it open for writing".to_owned())),
            _ => Ok(Writer::Nobody),
        };
        let words = user(TWO, &system).unwrap().unwrap();
        let expected = format!(
            "its file {} is in use: qemu-nbd (process 7) has it open for writing",
            file.display()
        );
        assert_eq!(words, expected);
        // The kernel knows the file even if its name leads nowhere.
        fs::remove_file(&file).unwrap();
        assert_eq!(user(TWO, &system).unwrap(), None);
        system.backing_of = |_| Ok(Inode { file_system: ONE, number: 12 });
        assert!(user(TWO, &system).unwrap().is_some());
        let mut targets = WriteTargets::default();
        add_backing(&mut targets, TWO, &system).unwrap();
        assert_eq!(targets.files, [Inode { file_system: ONE, number: 12 }]);
    }

    #[test]
    fn a_loop_device_on_a_device_is_as_free_as_that_one() {
        let mounted = "36 35 7:1 / /mnt rw - ext4 /dev/loop1 rw\n";
        let words = "its backing device /dev/loop1 is mounted at /mnt";
        assert_eq!(user_of_second(["a", "/dev/loop1"], mounted, "").unwrap(), words);
        // The loop device itself does not count.
        assert_eq!(user_of_second(["a", "/dev/loop1"], "", ""), None);
        let swaps = "Filename Type Size Used Priority\n@/a file 1 0 -2\n";
        let words = user_of_second(["a", "/dev/loop1"], "", swaps).unwrap();
        assert_eq!(words, "its file @/a is swap space");
    }
}
