//! Layer of a file system: its mount, and the devices that it lies on.

use ssdlab_blockdev::{DeviceNumber, Mount};

use super::block::{self, Descent};
use super::{Layer, LayerKind, Limits, Mounted};
use crate::facts::Facts;
use crate::mounts;

/// Returns the layer of a mounted file system, with all layers below.
pub(super) fn layer(
    facts: &dyn Facts,
    mount: &Mount,
    all: &[Mount],
    descent: &mut Descent,
) -> Layer {
    let point = mount.point.to_string_lossy().into_owned();
    let source = mount.source.to_string_lossy().into_owned();
    let mut notes = Vec::new();
    let mut below = Vec::new();
    if descent.enter(&format!("mount {}", mount.id)) {
        below = devices(facts, mount, all, &mut notes, descent);
        descent.leave();
    }
    // The options of the mount come first; those of the file system may repeat them.
    let mut options: Vec<String> = Vec::new();
    for option in &mount.options {
        if !option.is_empty() && !options.contains(option) {
            options.push(option.clone());
        }
    }
    let root = mount.root.to_string_lossy().into_owned();
    if root != "/" && mount.file_system != "btrfs" {
        notes.push(format!("shows the directory {root} of it (a bind mount)"));
    }
    Layer {
        name: point.clone(),
        kind: LayerKind::FileSystem { file_system: mount.file_system.clone() },
        path: point.clone(),
        title: None,
        device: (mount.device.major > 0).then(|| mount.device.to_string()),
        size_bytes: None,
        offset_bytes: None,
        is_metadata: false,
        limits: Limits::default(),
        mount: Some(Mounted { point, source, root, options }),
        notes,
        below,
        directory: String::new(),
    }
}

fn devices(
    facts: &dyn Facts,
    mount: &Mount,
    all: &[Mount],
    notes: &mut Vec<String>,
    descent: &mut Descent,
) -> Vec<Layer> {
    let source = mount.source.to_string_lossy();
    match mount.file_system.as_str() {
        "overlay" => return overlay_upper(facts, mount, all, notes, descent),
        "btrfs" => {
            let directories = btrfs_devices(facts, mount, &source);
            if !directories.is_empty() {
                return directories.iter().map(|it| block::layer(facts, it, descent)).collect();
            }
        }
        "zfs" => {
            notes.push("the drives of a ZFS pool are not examined: see zpool status".to_owned())
        }
        _ => {}
    }
    let by_number = |number: DeviceNumber| block::directory_of_number(facts, &number.to_string());
    let by_source = |path: &str| facts.device_number(path).ok().and_then(by_number);
    // bcachefs lists all its devices, separated by colons.
    let mut found: Vec<String> = source.split(':').filter_map(by_source).collect();
    if let Some(own) = by_number(mount.device).filter(|_| mount.device.major > 0) {
        if found.len() <= 1 {
            found = vec![own];
        }
    } else if found.is_empty()
        && let Some(name) = source.strip_prefix("/dev/")
    {
        found.extend(block::directory_of_name(facts, &name.replace('/', "!")));
    }
    found.iter().map(|it| block::layer(facts, it, descent)).collect()
}

/// Returns the layer below an overlay: the file system of the directory that the overlay writes to.
fn overlay_upper(
    facts: &dyn Facts,
    mount: &Mount,
    all: &[Mount],
    notes: &mut Vec<String>,
    descent: &mut Descent,
) -> Vec<Layer> {
    let upper = mount.options.iter().find_map(|option| option.strip_prefix("upperdir="));
    let Some(upper) = upper else {
        notes.push("an overlay without an upper directory".to_owned());
        return Vec::new();
    };
    notes.push(format!("writes go to {upper}"));
    // Mounts of other mount namespaces, such as those of a container's host, are not visible.
    match mounts::mount_of(upper, all).filter(|found| found.id != mount.id) {
        Some(found) => vec![layer(facts, found, all, descent)],
        None => Vec::new(),
    }
}

/// Returns the sysfs directories of the devices of a btrfs: of the file systems that the kernel lists, the one that has
/// the mounted device.
fn btrfs_devices(facts: &dyn Facts, mount: &Mount, source: &str) -> Vec<String> {
    let by_number = facts
        .device_number(source)
        .ok()
        .or(Some(mount.device).filter(|number| number.major > 0))
        .and_then(|number| block::directory_of_number(facts, &number.to_string()));
    let by_name = || {
        let name = source.strip_prefix("/dev/")?.replace('/', "!");
        block::directory_of_name(facts, &name)
            .or_else(|| block::directory_of_mapping(facts, name.strip_prefix("mapper!")?))
    };
    let Some(first) = by_number.or_else(by_name) else { return Vec::new() };
    let name = first.rsplit('/').next().unwrap_or_default().to_owned();
    for id in facts.list("/sys/fs/btrfs").unwrap_or_default() {
        let names = facts.list(&format!("/sys/fs/btrfs/{id}/devices")).unwrap_or_default();
        if names.contains(&name) {
            let directory = |name: &String| block::directory_of_name(facts, name);
            return names.iter().filter_map(directory).collect();
        }
    }
    vec![first]
}
