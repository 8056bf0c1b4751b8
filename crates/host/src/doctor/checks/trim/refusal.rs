//! Reasons why a layer lets no TRIM through, and the remedies.

use super::remedy;
use crate::device_mapper;
use crate::doctor::{Context, Remedy};
use crate::facts::Absent;
use crate::format::quoted;
use crate::layers::{Layer, LayerKind, can_unmap, provisioning_mode_file};

/// Returns the target of a device-mapper layer (`cache`, `vdo`), if it is known.
fn target_of(layer: &Layer) -> Option<&str> {
    match &layer.kind {
        LayerKind::Mapper { target } => target.as_deref(),
        _ => None,
    }
}

/// Returns true if a layer of this kind may take discards and pass none down.
pub(super) fn may_drop_discards(layer: &Layer) -> bool {
    layer.kind == LayerKind::ThinPool || matches!(target_of(layer), Some("cache" | "vdo"))
}

/// Reason in words, and the remedies.
pub(super) type Refusal = (String, Vec<Remedy>);

/// Returns the reason why a layer lets no discards through, whatever lies below it; `None` if there is none.
///
/// # Errors
/// Returns in words what is not known about the layer.
pub(super) fn refusal(context: &Context, layer: &Layer) -> Result<Option<Refusal>, String> {
    let name = layer.display_name();
    match &layer.kind {
        LayerKind::Crypt => {
            let table = device_mapper::table(context.facts, name);
            Ok(table.ok().filter(|it| !it.has("allow_discards")).map(|_| no_allow_discards(layer)))
        }
        LayerKind::Md { level, .. } if is_parity(level) => {
            let path = "/sys/module/raid456/parameters/devices_handle_discard_safely";
            let is_safe = context.facts.text(path);
            Ok((is_safe.as_deref() == Some("N")).then(|| parity_refuses("raid456")))
        }
        LayerKind::ThinPool => {
            let keeps = has_no_passdown(context, name, "the thin pool")?;
            Ok(keeps.then(|| no_passdown(name)))
        }
        LayerKind::Mapper { target: Some(target) } if target == "cache" => {
            let keeps = has_no_passdown(context, name, "the cache")?;
            Ok(keeps.then(|| no_passdown_of_cache(name)))
        }
        LayerKind::Mapper { target: Some(target) } if target == "vdo" => Ok(Some(kept_by_vdo())),
        LayerKind::Mapper { target: None } => Err(context.missing_text(&format!(
            "what kind of mapping {name} is, and whether it passes discards on"
        ))),
        _ => Ok(None),
    }
}

/// Returns true if a mapping that takes discards passes none down, as its status says.
fn has_no_passdown(context: &Context, name: &str, what: &str) -> Result<bool, String> {
    match device_mapper::status(context.facts, name) {
        Ok(status) => Ok(status.split_whitespace().any(|word| word == "no_discard_passdown")),
        Err(Absent::Denied | Absent::NotCaptured | Absent::Failed(_)) => {
            Err(context.missing_text(&format!("whether {what} {name} passes discards down")))
        }
        Err(Absent::Missing) => {
            Err(format!("whether {what} {name} passes discards down (needs dmsetup)"))
        }
    }
}

fn is_parity(level: &str) -> bool {
    matches!(level, "raid4" | "raid5" | "raid6")
}

/// Returns the reason why a device takes no discards, although the devices below it do, or although there are none
/// below.
pub(super) fn refusal_of_device(context: &Context, layer: &Layer) -> Refusal {
    match &layer.kind {
        LayerKind::Crypt => no_allow_discards(layer),
        LayerKind::Md { level, .. } if is_parity(level) => parity_refuses("raid456"),
        LayerKind::MapperRaid if has_no_parity(context, layer) => stale_limits(layer),
        LayerKind::MapperRaid => {
            let (why, mut remedies) = parity_refuses("dm_raid");
            remedies.push(recreate_remedy(layer));
            (format!("{why}, or it was set up when its members took none"), remedies)
        }
        LayerKind::ThinPool => no_passdown(layer.display_name()),
        LayerKind::Usb { driver } => usb(context, layer, driver.as_deref()),
        LayerKind::HardwareRaid { driver } => (
            format!("the RAID controller ({driver}) takes no discards for its volumes"),
            vec![remedy(
                "Controllers of this kind pass TRIM only in HBA or JBOD mode, if at all; then a \
                 software RAID (md, btrfs, ZFS) passes it. Moving to that destroys the volume: \
                 back up first. Else leave a part of each drive unused from the start, as \
                 over-provisioning",
                None,
            )],
        ),
        LayerKind::Virtual => (
            "the host of this virtual machine takes no discards".to_owned(),
            vec![remedy(
                "On the host: discard=unmap for the disk (QEMU: -drive ...,discard=unmap; libvirt: \
                 <driver discard='unmap'/>), on storage that can free space",
                None,
            )],
        ),
        LayerKind::Loop { .. } => (
            "no holes can be punched into its file: the file system below does not support it, the \
             loop device is read-only, or somebody has set its queue/discard_max_bytes to 0"
                .to_owned(),
            Vec::new(),
        ),
        LayerKind::Sata | LayerKind::Scsi => scsi_disk(context, layer),
        LayerKind::Nvme => (
            "the drive does not know Dataset Management, or the kernel was told not to use it"
                .to_owned(),
            vec![remedy(
                "Look at 'oncs' (bit 2) and for newer firmware",
                Some(format!("nvme id-ctrl -H {}", layer.path)),
            )],
        ),
        LayerKind::Linear
        | LayerKind::Striped
        | LayerKind::Thin
        | LayerKind::Md { .. }
        | LayerKind::Bcache
        | LayerKind::Mapper { .. } => stale_limits(layer),
        _ => ("the device takes no discards".to_owned(), Vec::new()),
    }
}

fn stale_limits(layer: &Layer) -> Refusal {
    (
        "it takes no discards although the layer below does: it was set up when that layer took \
         none, or its kind cannot pass them on"
            .to_owned(),
        vec![recreate_remedy(layer)],
    )
}

/// Returns true if the table of a device-mapper RAID names a level without parity.
fn has_no_parity(context: &Context, layer: &Layer) -> bool {
    let name = layer.display_name();
    device_mapper::table(context.facts, name).is_ok_and(|table| {
        let level = table.arguments.first().map_or("", String::as_str);
        !["raid4", "raid5", "raid6"].iter().any(|parity| level.starts_with(parity))
    })
}

fn recreate_remedy(layer: &Layer) -> Remedy {
    let title = layer.display_name();
    let command = match (&layer.kind, device_mapper::volume_of(title)) {
        (LayerKind::Md { .. }, _) => {
            Some(format!("mdadm --stop {0} && mdadm --assemble {0}", layer.path))
        }
        (_, Some((group, volume))) if layer.notes.iter().any(|note| note == "LVM") => {
            Some(format!("lvchange --refresh {}", quoted(&format!("{group}/{volume}"))))
        }
        (LayerKind::Mapper { .. } | LayerKind::Linear | LayerKind::Striped, _) => Some(format!(
            "dmsetup table {0} | dmsetup reload {0} && dmsetup resume {0}",
            quoted(title)
        )),
        _ => None,
    };
    remedy(
        "Set it up again, so that it reads the limits of the layer below (a reboot does that, \
         too)",
        command,
    )
}

fn no_allow_discards(layer: &Layer) -> Refusal {
    let name = layer.display_name();
    let is_luks2 = layer.notes.iter().any(|note| note == "LUKS2");
    let persistent = if is_luks2 { "--persistent " } else { "" };
    let mut remedies = vec![remedy(
        "Allow discards; whoever can read the drive then sees which sectors hold data, and how the \
         file system uses them, but not what they hold. It asks for the passphrase",
        Some(format!("cryptsetup refresh --allow-discards {persistent}{}", quoted(name))),
    )];
    if !is_luks2 {
        remedies.push(remedy(
            "And for the next boot: the option 'discard' for it in /etc/crypttab",
            None,
        ));
    }
    remedies.push(remedy(
        "Layers above it keep the limits that they were set up with: set them up again, or reboot",
        None,
    ));
    ("encryption was not told to pass discards on (no allow_discards)".to_owned(), remedies)
}

fn parity_refuses(module: &str) -> Refusal {
    (
        "a RAID with parity takes no discards, unless it is told that every drive reads zeros \
         after TRIM: parity would no longer fit otherwise"
            .to_owned(),
        vec![remedy(
            "ONLY if every member is known to read zeros after TRIM, always (hdparm -I: \
             'Deterministic read ZEROs after TRIM'; the check trim-reads tells): allow it, and \
             reassemble the array. It has lost data with kernels whose md handled small discards \
             wrongly: try it on data that you have twice",
            Some(format!(
                "echo options {module} devices_handle_discard_safely=Y > \
                 /etc/modprobe.d/{module}-discard.conf"
            )),
        )],
    )
}

fn no_passdown(name: &str) -> Refusal {
    // LVM's own device of a thin pool has a name with the suffix -tpool.
    let volume = name.strip_suffix("-tpool").unwrap_or(name);
    let command = device_mapper::volume_of(volume).map(|(group, volume)| {
        format!("lvchange --discards passdown {}", quoted(&format!("{group}/{volume}")))
    });
    (
        "the thin pool takes discards, and passes none down (no_discard_passdown)".to_owned(),
        vec![remedy("Let it pass them down; the volumes of the pool must be inactive", command)],
    )
}

fn no_passdown_of_cache(name: &str) -> Refusal {
    let command = device_mapper::volume_of(name).map(|(group, volume)| {
        format!("lvconvert --uncache {}", quoted(&format!("{group}/{volume}")))
    });
    (
        "the cache takes discards, and passes none down (no_discard_passdown): what lies below took \
         none when it was set up, or it was told not to"
            .to_owned(),
        vec![remedy(
            "Set it up again on devices that take discards. Without a cache discards pass; this \
             command writes the cache back, and removes it",
            command,
        )],
    )
}

fn kept_by_vdo() -> Refusal {
    (
        "VDO takes discards to free its own space, and passes none down".to_owned(),
        vec![remedy(
            "Nothing changes that. Leave a part of the drive outside of VDO, trimmed as a whole \
             before, as over-provisioning",
            None,
        )],
    )
}

fn usb(context: &Context, layer: &Layer, driver: Option<&str>) -> Refusal {
    let mode = provisioning_mode_file(context.facts, &layer.directory);
    let mut why = "the USB bridge does not say that it takes discards".to_owned();
    let mut remedies = Vec::new();
    let can = can_unmap(context.facts, &layer.directory, &layer.path);
    if can == Some(false) {
        why = "the USB bridge says that it cannot unmap (LBPU is 0)".to_owned();
        remedies.push(remedy("Another bridge, or the drive in the machine itself", None));
    } else if let Some((_, mode)) = mode.as_ref().filter(|_| can == Some(true)) {
        why = format!(
            "the USB bridge can unmap (LBPU is 1), and the kernel does not use it (provisioning_mode \
             is {mode})"
        );
        remedies.push(remedy(
            "Have the kernel use it, now and whenever it is plugged in: this command shows the \
             udev rule and writes it, and --undo reverts that. Some bridges lose data by it: try \
             it on data that you have twice, and see with --proof whether it works",
            Some(format!("ssdlab doctor --fix trim {}", quoted(&layer.path))),
        ));
    } else if let Some((path, mode)) = mode {
        why += &format!(" (provisioning_mode is {mode})");
        remedies.push(remedy(
            "If the bridge knows UNMAP all the same ('sg_vpd --page=lbpv' shows LBPU=1), tell the \
             kernel to use it, then see with --proof whether it does. Some bridges lose data by \
             it: try it on data that you have twice. Reading the partitions anew (partprobe, \
             fdisk) or plugging it in sets it back; a udev rule makes it last",
            Some(format!("echo unmap > {path}")),
        ));
    }
    if driver == Some("usb-storage") {
        remedies.push(remedy("A bridge with UASP (driver uas) mostly passes TRIM by itself", None));
    }
    (why, remedies)
}

fn scsi_disk(context: &Context, layer: &Layer) -> Refusal {
    if layer.limits.is_rotational == Some(true) {
        return ("the drive takes no discards; it says that it spins".to_owned(), Vec::new());
    }
    let mode = provisioning_mode_file(context.facts, &layer.directory);
    let remedies = mode.iter().map(|(path, _)| {
        remedy(
            "If it is known to take UNMAP, tell the kernel so",
            Some(format!("echo unmap > {path}")),
        )
    });
    let why = match &mode {
        Some((_, mode)) => format!("the drive does not say that it takes discards ({mode})"),
        None => "the drive does not say that it takes discards".to_owned(),
    };
    let mut remedies: Vec<Remedy> = remedies.collect();
    remedies.push(remedy(
        "See what the drive reports. An SSD without TRIM keeps its speed by over-provisioning \
         alone: leave a part of it unused, from the time when it is new or erased",
        Some(format!("hdparm -I {} | grep -i -A2 trim", layer.path)),
    ));
    (why, remedies)
}
