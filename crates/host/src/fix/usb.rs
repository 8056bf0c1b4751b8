//! Fix for USB bridges that can unmap although the kernel does not use it: a udev rule, and the setting at once.

use super::{Change, Fix, SystemRoot, nothing_to_fix, read};
use crate::error::HostError;
use crate::facts::Facts;
use crate::layers::{Layer, LayerKind, Stack, can_unmap, provisioning_mode_file, usb_bridge};

/// Plans the udev rule for every bridge below `stacks` that reports that it can unmap.
///
/// # Errors
/// Returns an error if no bridge can unmap, or if the kernel uses unmap with all that can.
pub(super) fn plan(
    facts: &dyn Facts,
    stacks: &[Stack],
    system: &SystemRoot,
) -> Result<Fix, HostError> {
    let drives = stacks.iter().flat_map(Stack::drives);
    let bridges: Vec<&Layer> =
        drives.filter(|layer| matches!(layer.kind, LayerKind::Usb { .. })).collect();
    let mut changes = Vec::new();
    let mut unable = Vec::new();
    for layer in &bridges {
        let Some((path, mode)) = provisioning_mode_file(facts, &layer.directory) else { continue };
        if mode == "unmap" {
            continue;
        }
        match can_unmap(facts, &layer.directory, &layer.path) {
            Some(true) => changes.extend(changes_of(facts, layer, path, mode, system)?),
            Some(false) => unable.push(format!("{} says that it cannot unmap", layer.path)),
            None => unable.push(format!(
                "{} does not say that it can unmap (as root, 'sg_vpd --page=lbpv {0}' of sg3-utils \
                 asks it)",
                layer.path
            )),
        }
    }
    if changes.is_empty() {
        return Err(match (bridges.is_empty(), unable.is_empty()) {
            (true, _) => nothing_to_fix(
                "the fix of trim is for disks behind USB bridges, and none was found",
            ),
            (_, true) => nothing_to_fix("TRIM is sent through every USB bridge already"),
            (_, false) => HostError::Unsupported(format!(
                "no USB bridge can be made to pass TRIM: {}",
                unable.join("; ")
            )),
        });
    }
    changes.dedup();
    Ok(Fix { check: "trim".to_owned(), changes, then: Vec::new() })
}

fn changes_of(
    facts: &dyn Facts,
    layer: &Layer,
    path: String,
    mode: String,
    system: &SystemRoot,
) -> Result<Vec<Change>, HostError> {
    let bridge = usb_bridge(facts, &layer.directory).ok_or_else(|| {
        HostError::Unsupported(format!(
            "the numbers of the USB bridge of {} are not known",
            layer.path
        ))
    })?;
    let serial = bridge.serial.map(|serial| format!(", ATTRS{{serial}}==\"{serial}\""));
    let rule = format!(
        "# Written by 'ssdlab doctor --fix trim'.\nACTION==\"add|change\", SUBSYSTEM==\"scsi_disk\", \
         ATTRS{{idVendor}}==\"{}\", ATTRS{{idProduct}}==\"{}\"{}, \
         ATTR{{provisioning_mode}}=\"unmap\"\n",
        bridge.vendor,
        bridge.product,
        serial.unwrap_or_default()
    );
    let file =
        format!("etc/udev/rules.d/60-ssdlab-trim-{}-{}.rules", bridge.vendor, bridge.product);
    let before = read(system, &file)?;
    let path = path.trim_start_matches('/').to_owned();
    let setting = Change::SetFile { path, before: mode, after: "unmap".to_owned() };
    // Another bridge of the same model may have the rule in this file already.
    let after = match &before {
        Some(before) if before.contains(rule.lines().last().unwrap_or_default()) => {
            return Ok(vec![setting]);
        }
        Some(before) => format!("{}\n{rule}", before.trim_end()),
        None => rule,
    };
    Ok(vec![Change::Write { path: file, before, after }, setting])
}
