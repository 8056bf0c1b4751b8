//! Resolution of the target that a user named: a path, a mount point, or a device.

use std::path::{Path, PathBuf};

use ssdlab_blockdev::Mount;

use super::block::{self, Descent};
use super::{Layer, Stack, file_system};
use crate::error::HostError;
use crate::facts::{Absent, Facts};
use crate::mounts;

/// File systems of images that are never written: packages, installation media.
const IMAGE_FILE_SYSTEMS: [&str; 5] = ["squashfs", "iso9660", "udf", "erofs", "cramfs"];

pub(super) fn stack_of(facts: &dyn Facts, target: &str) -> Result<Stack, HostError> {
    let stack = |top| Stack { target: target.to_owned(), top };
    if target.is_empty() {
        return Err(HostError::Target(unresolved_text(target, &Absent::Missing)));
    }
    if let Some(directory) = device(facts, target) {
        return Ok(stack(on_device(facts, &directory)));
    }
    // The layers below the device's directory say nothing about the device.
    if let Err(why @ Absent::Failed(_)) = facts.device_number(target) {
        return Err(HostError::Target(unresolved_text(target, &why)));
    }
    let path = match facts.resolve(target) {
        Ok(path) => path,
        // The path was not asked for when the machine was captured.
        Err(Absent::NotCaptured) if target.starts_with('/') => target.to_owned(),
        Err(why) => return Err(HostError::Target(unresolved_text(target, &why))),
    };
    let mounted = mounts::mounted(facts);
    let mount = mounts::mount_of(&path, &mounted).ok_or_else(|| {
        HostError::Target(format!("cannot find out what '{target}' is mounted from"))
    })?;
    Ok(stack(file_system::layer(facts, mount, &mounted, &mut Descent::default())))
}

fn unresolved_text(target: &str, why: &Absent) -> String {
    match why {
        Absent::Missing => format!(
            "there is no '{target}': name a directory, a file, a device such as /dev/sda, or \
             nothing for the whole machine"
        ),
        Absent::Denied => format!("'{target}' may only be examined by root"),
        Absent::Failed(why) => format!(
            "'{target}' cannot be examined ({why}): name a directory, a file, or a device such as \
             /dev/sda"
        ),
        Absent::NotCaptured => format!("'{target}' was not captured"),
    }
}

/// Returns the layer of a device, or of the file system that is mounted from it.
fn on_device(facts: &dyn Facts, directory: &str) -> Layer {
    let number = facts.text(&format!("{directory}/dev"));
    let mounted = mounts::mounted(facts);
    let is_on_it = |mount: &&Mount| Some(mount.device.to_string()) == number;
    match mounted.iter().find(is_on_it) {
        Some(mount) => file_system::layer(facts, mount, &mounted, &mut Descent::default()),
        None => block::layer(facts, directory, &mut Descent::default()),
    }
}

/// Returns the sysfs directory of the device that a user named.
fn device(facts: &dyn Facts, target: &str) -> Option<String> {
    if let Some(directory) = Some(target).filter(|it| !it.contains('/')).and_then(|name| {
        let directory = block::directory_of_name(facts, name)?;
        // If the working directory has a file of this name, the file is meant.
        facts.resolve(target).is_err().then_some(directory)
    }) {
        return Some(directory);
    }
    let by_number = |path: &str| {
        let number = facts.device_number(path).ok()?;
        block::directory_of_number(facts, &number.to_string())
    };
    if let Some(directory) = by_number(target) {
        return Some(directory);
    }
    // A captured machine has only the device files that were asked for.
    let name = Path::new(target).strip_prefix("/dev").ok()?;
    let resolved = facts.resolve(target).map(PathBuf::from).unwrap_or_default();
    let resolved = resolved.strip_prefix("/dev").unwrap_or(name).to_string_lossy().into_owned();
    block::directory_of_name(facts, &resolved.replace('/', "!"))
        .or_else(|| block::directory_of_mapping(facts, name.strip_prefix("mapper").ok()?.to_str()?))
}

pub(super) fn all_stacks(facts: &dyn Facts) -> Vec<Stack> {
    let mounted = mounts::mounted(facts);
    let mut stacks: Vec<Stack> = Vec::new();
    let mut seen: Vec<(String, String)> = Vec::new();
    for mount in &mounted {
        let known = (mount.device.to_string(), mount.file_system.clone());
        if seen.contains(&known) || IMAGE_FILE_SYSTEMS.contains(&mount.file_system.as_str()) {
            continue;
        }
        let top = file_system::layer(facts, mount, &mounted, &mut Descent::default());
        let is_overlay = mount.file_system == "overlay";
        if !top.below.is_empty() && !is_overlay {
            seen.push(known);
            stacks.push(Stack { target: top.path.clone(), top });
        }
    }
    for name in facts.list("/sys/block").unwrap_or_default() {
        let reached =
            |stack: &Stack| stack.top.self_and_below().iter().any(|layer| layer.name == name);
        let Some(directory) = block::directory_of_name(facts, &name) else { continue };
        let size = facts.number(&format!("{directory}/size")).unwrap_or(0);
        let is_image = ["loop", "ram", "zram", "sr", "fd"].iter().any(|it| name.starts_with(it));
        if size == 0 || is_image || stacks.iter().any(reached) || has_holders(facts, &directory) {
            continue;
        }
        let top = block::layer(facts, &directory, &mut Descent::default());
        stacks.push(Stack { target: top.path.clone(), top });
    }
    stacks
}

/// Returns true if another device lies on this device: that one is examined by itself.
fn has_holders(facts: &dyn Facts, directory: &str) -> bool {
    facts.list(&format!("{directory}/holders")).is_ok_and(|holders| !holders.is_empty())
}
