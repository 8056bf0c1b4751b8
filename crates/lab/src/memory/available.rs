//! The memory that is available now.
//!
//! Linux overcommits memory, and kills a program that touches more than there is. Therefore the estimated
//! memory of a run is compared before the run with the available memory: the least of `MemAvailable`, the
//! limits of the control groups, and the limit of the address space.

use std::path::{Path, PathBuf};

use ssdlab_units::{ByteLength, KIB};

/// Returns the memory that is available to this process; `None` if the system does not report it.
pub fn available() -> Option<ByteLength> {
    available_below(Path::new("/"))
}

/// Returns the available memory according to the files of a Linux system below `root`; `None` if there are no
/// such files.
fn available_below(root: &Path) -> Option<ByteLength> {
    let bounds = [machine_memory(root), cgroup_memory(root), address_space_left(root)];
    bounds.into_iter().flatten().min()
}

fn machine_memory(root: &Path) -> Option<ByteLength> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    Some(KIB * field(&text, "MemAvailable:")?)
}

/// Returns the number behind `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns the memory left by the tightest of the process's control groups.
fn cgroup_memory(root: &Path) -> Option<ByteLength> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least: Option<ByteLength> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, limit, used) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            names if names.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        let mount = root.join(mount);
        let mut group: PathBuf = mount.join(path.trim_start_matches('/'));
        while group.starts_with(&mount) {
            let left = cgroup_left(&group, limit, used);
            least = [least, left].into_iter().flatten().min();
            if !group.pop() {
                break;
            }
        }
    }
    least
}

/// Returns the memory left in one group: its limit minus its usage, without the page cache that can be
/// reclaimed.
fn cgroup_left(group: &Path, limit: &str, used: &str) -> Option<ByteLength> {
    let number = |name: &str| {
        let text = std::fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let limit = number(limit)?;
    let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cache = field(&stat, "inactive_file").unwrap_or(0);
    let used = number(used).unwrap_or(0).saturating_sub(cache);
    Some(ByteLength::new(limit.saturating_sub(used)))
}

/// Returns the memory left by a limit of the address space (`ulimit -v`).
fn address_space_left(root: &Path) -> Option<ByteLength> {
    let limits = std::fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let limit = field(&limits, "Max address space")?;
    let status = std::fs::read_to_string(root.join("proc/self/status")).ok()?;
    let taken = KIB * field(&status, "VmSize:")?;
    Some(ByteLength::new(limit.saturating_sub(taken.bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_units::{GIB, MIB};

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const MEMORY: (&str, &str) =
        ("proc/meminfo", "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\n");

    #[test]
    fn the_tightest_bound_counts() {
        assert_eq!(available_below(machine(&[]).path()), None);
        assert_eq!(available_below(machine(&[MEMORY]).path()), Some(GIB * 16));
        let group = [
            MEMORY,
            ("proc/self/cgroup", "0::/user.slice/run\n"),
            ("sys/fs/cgroup/user.slice/run/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/user.slice/memory.current", "3221225472\n"),
            ("sys/fs/cgroup/user.slice/memory.stat", "anon 1\ninactive_file 1073741824\n"),
        ];
        assert_eq!(available_below(machine(&group).path()), Some(GIB * 2));
        let first = [
            MEMORY,
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/x\n"),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824"),
            ("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "536870912"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
        ];
        assert_eq!(available_below(machine(&first).path()), Some(MIB * 512));
        let limited = [
            MEMORY,
            ("proc/self/limits", "Max address space         2147483648  unlimited  bytes\n"),
            ("proc/self/status", "Name:\tssdlab\nVmSize:\t 1048576 kB\n"),
        ];
        assert_eq!(available_below(machine(&limited).path()), Some(GIB));
    }
}
