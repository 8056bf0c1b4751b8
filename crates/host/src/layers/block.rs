//! Layer of a block device, as sysfs describes it, with the devices below.

use ssdlab_blockdev::Mount;
use ssdlab_blockdev::node::{Node, NodeKind, Sysfs};

use super::{Layer, LayerKind, Limits, file_system, scsi};
use crate::device_mapper::{self, Target};
use crate::facts::Facts;
use crate::mounts;

/// Largest depth of layers, which also ends a file system that lies on itself.
const MAX_DEPTH: usize = 24;
/// Largest number of layers in all.
const MAX_LAYERS: usize = 1024;

/// Path from the top to the layer that is being read.
#[derive(Debug, Default)]
pub(super) struct Descent {
    steps: Vec<String>,
    visited: usize,
}

impl Descent {
    /// Adds a step down and returns true; returns false if it leads in a circle or exceeds a limit.
    pub(super) fn enter(&mut self, step: &str) -> bool {
        let is_open = self.steps.len() < MAX_DEPTH
            && self.visited < MAX_LAYERS
            && !self.steps.iter().any(|taken| taken == step);
        if is_open {
            self.steps.push(step.to_owned());
            self.visited += 1;
        }
        is_open
    }

    pub(super) fn leave(&mut self) {
        self.steps.pop();
    }
}

/// Returns the sysfs directory of the device with this number, such as `8:1`.
pub(super) fn directory_of_number(facts: &dyn Facts, number: &str) -> Option<String> {
    facts.resolve(&format!("/sys/dev/block/{number}")).ok()
}

/// Returns the sysfs directory of the device with this kernel name.
pub(super) fn directory_of_name(facts: &dyn Facts, name: &str) -> Option<String> {
    facts.resolve(&format!("/sys/class/block/{name}")).ok()
}

/// Returns the sysfs directory of the device with this name under `/dev/mapper`.
pub(super) fn directory_of_mapping(facts: &dyn Facts, name: &str) -> Option<String> {
    let names = facts.list("/sys/class/block").ok()?;
    names
        .iter()
        .filter(|it| it.starts_with("dm-"))
        .filter_map(|it| directory_of_name(facts, it))
        .find(|directory| facts.text(&format!("{directory}/dm/name")).as_deref() == Some(name))
}

/// Returns the layer of a device, with all layers below.
pub(super) fn layer(facts: &dyn Facts, directory: &str, descent: &mut Descent) -> Layer {
    let node = Node::at(&SysfsFacts(facts), directory);
    let text = |part: &str| facts.text(&format!("{directory}/{part}"));
    let mut layer = Layer {
        kind: LayerKind::Disk,
        path: node.file.clone(),
        title: None,
        device: node.number.map(|number| number.to_string()),
        size_bytes: text("size").and_then(|it| it.parse::<u64>().ok()?.checked_mul(512)),
        offset_bytes: None,
        is_metadata: false,
        limits: limits(facts, node.disk(), directory),
        mount: None,
        notes: Vec::new(),
        below: Vec::new(),
        directory: directory.to_owned(),
        name: node.name.clone(),
    };
    if !descent.enter(&layer.name) {
        layer
            .notes
            .push("the layers below are not shown: they form a circle, or are too deep".to_owned());
        return layer;
    }
    let below = node.below(&SysfsFacts(facts));
    layer.below = below.iter().map(|it| self::layer(facts, it, descent)).collect();
    match node.kind {
        NodeKind::Partition => {
            layer.kind = LayerKind::Partition;
            layer.offset_bytes =
                text("start").and_then(|it| it.parse::<u64>().ok()?.checked_mul(512));
        }
        NodeKind::Mapper { name, id } => read_mapping(facts, &mut layer, name, &id),
        NodeKind::Raid { level } => read_md_raid(facts, &mut layer, level),
        NodeKind::Loop { file } => read_loop(facts, &mut layer, file, descent),
        NodeKind::Disk => {
            layer.kind = disk_kind(facts, &layer);
            layer.title = model(facts, directory);
        }
    }
    descent.leave();
    layer
}

/// Facts of a machine, as the interface that reads block devices in sysfs.
struct SysfsFacts<'a>(&'a dyn Facts);

impl Sysfs for SysfsFacts<'_> {
    fn text(&self, path: &str) -> Option<String> {
        self.0.text(path)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        self.0.list(directory).unwrap_or_default()
    }

    fn resolve(&self, path: &str) -> Option<String> {
        self.0.resolve(path).ok()
    }
}

fn limits(facts: &dyn Facts, disk: &str, own: &str) -> Limits {
    let text = |part: &str| facts.text(&format!("{disk}/queue/{part}"));
    let number = |part: &str| text(part)?.parse().ok();
    // The scheduler in use is in brackets.
    let scheduler = text("scheduler").map(|text| {
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        chosen.map_or(text.as_str(), |(chosen, _)| chosen).to_owned()
    });
    Limits {
        discard_max_bytes: number("discard_max_bytes"),
        discard_granularity: number("discard_granularity"),
        logical_block: number("logical_block_size"),
        physical_block: number("physical_block_size"),
        minimum_io: number("minimum_io_size"),
        optimal_io: number("optimal_io_size"),
        alignment_offset: facts
            .text(&format!("{own}/alignment_offset"))
            .and_then(|text| text.parse().ok()),
        is_rotational: text("rotational").map(|text| text == "1"),
        scheduler,
        write_cache: text("write_cache"),
    }
}

/// Fills in the type of a device-mapper device. Its table has the target, but only root can read it; the identifier,
/// which all users can read, begins with the subsystem that made the device.
fn read_mapping(facts: &dyn Facts, layer: &mut Layer, name: String, id: &str) {
    let table = device_mapper::table(facts, &name).ok();
    layer.kind = match &table {
        Some(target) => kind_of_target(target),
        None => kind_of_dm_uuid(id, &layer.below, facts),
    };
    layer.offset_bytes = table.as_ref().filter(|it| it.lines == 1).and_then(Target::offset);
    layer.is_metadata =
        name.ends_with("_tmeta") || name.ends_with("_cmeta") || name.contains("_rmeta_");
    if let Some(target) = table.filter(|target| target.kind == "thin-pool") {
        for part in &mut layer.below {
            part.is_metadata |= part.device.as_ref() == target.arguments.first();
        }
    }
    if id.starts_with("CRYPT-LUKS") {
        layer.notes.push(id.split('-').nth(1).unwrap_or("LUKS").to_owned());
    } else if id.starts_with("LVM-") {
        layer.notes.push("LVM".to_owned());
    } else if id.starts_with("DMRAID-") {
        layer.notes.push("a RAID of the firmware's (dmraid)".to_owned());
    }
    layer.title = Some(name);
}

fn kind_of_target(target: &Target) -> LayerKind {
    match target.kind.as_str() {
        "linear" => LayerKind::Linear,
        "striped" => LayerKind::Striped,
        "thin" => LayerKind::Thin,
        "thin-pool" => LayerKind::ThinPool,
        "crypt" => LayerKind::Crypt,
        "raid" | "mirror" => LayerKind::MapperRaid,
        _ => LayerKind::Mapper { target: Some(target.kind.clone()) },
    }
}

fn kind_of_dm_uuid(id: &str, below: &[Layer], facts: &dyn Facts) -> LayerKind {
    let id_of = |layer: &Layer| facts.text(&format!("{}/dm/uuid", layer.directory));
    let name_has =
        |layer: &Layer, part: &str| layer.title.as_ref().is_some_and(|name| name.contains(part));
    if id.starts_with("CRYPT-") {
        LayerKind::Crypt
    } else if !id.starts_with("LVM-") {
        LayerKind::Mapper { target: None }
    } else if id.ends_with("-tpool") {
        LayerKind::ThinPool
    } else if id.ends_with("-vpool") {
        LayerKind::Mapper { target: Some("vdo".to_owned()) }
    } else if below.iter().any(|it| name_has(it, "_corig")) {
        // A cache or a write cache: only the table says which.
        LayerKind::Mapper { target: None }
    } else if below.iter().any(|it| id_of(it).is_some_and(|id| id.ends_with("-tpool"))) {
        LayerKind::Thin
    } else if below.iter().any(|it| name_has(it, "_rimage_")) {
        LayerKind::MapperRaid
    } else {
        LayerKind::Linear
    }
}

fn read_md_raid(facts: &dyn Facts, layer: &mut Layer, level: String) {
    let text = |part: &str| facts.text(&format!("{}/md/{part}", layer.directory));
    let is_firmware = text("metadata_version").is_some_and(|form| form.starts_with("external:"));
    if text("degraded").is_some_and(|missing| missing != "0") {
        layer.notes.push("degraded: a member is missing".to_owned());
    }
    if let Some(action) = text("sync_action").filter(|action| action != "idle") {
        layer.notes.push(format!("now: {action}"));
    }
    // Offset of the data on a member, in sectors; it is normally the same on all members.
    layer.offset_bytes = layer
        .below
        .first()
        .and_then(|member| text(&format!("dev-{}/offset", member.name)))
        .and_then(|sectors| sectors.parse::<u64>().ok()?.checked_mul(512));
    layer.kind = LayerKind::Md { level, is_firmware };
}

fn read_loop(facts: &dyn Facts, layer: &mut Layer, file: String, descent: &mut Descent) {
    let mounted: Vec<Mount> = mounts::mounted(facts);
    let path = facts.resolve(&file).unwrap_or_else(|_| file.clone());
    layer.offset_bytes = facts.number(&format!("{}/loop/offset", layer.directory));
    if file.ends_with(" (deleted)") {
        layer.notes.push("its file was deleted, and goes when it is detached".to_owned());
    }
    if let Some(mount) = mounts::mount_of(&path, &mounted) {
        layer.below.push(file_system::layer(facts, mount, &mounted, descent));
    }
    layer.kind = LayerKind::Loop { file: Some(file) };
}

fn disk_kind(facts: &dyn Facts, layer: &Layer) -> LayerKind {
    let is = |word: &str| {
        layer.name.strip_prefix(word).is_some_and(|rest| {
            rest.starts_with(|letter: char| letter.is_ascii_digit() || letter.is_ascii_lowercase())
        })
    };
    match () {
        () if is("zram") => LayerKind::Zram,
        () if is("loop") => LayerKind::Loop { file: None },
        () if is("nvme") => LayerKind::Nvme,
        () if is("bcache") => LayerKind::Bcache,
        () if is("nbd") || is("drbd") || is("rbd") => LayerKind::Network,
        () if is("mmcblk") => LayerKind::Mmc,
        () if is("vd") || is("xvd") => LayerKind::Virtual,
        () if is("sd") => scsi::kind(facts, &layer.directory),
        () => LayerKind::Disk,
    }
}

fn model(facts: &dyn Facts, directory: &str) -> Option<String> {
    facts.text(&format!("{directory}/device/model")).or_else(|| {
        // SD cards and eMMC have their model here.
        facts.text(&format!("{directory}/device/name"))
    })
}
