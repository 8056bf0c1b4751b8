//! Does TRIM get from the file system down to the flash, and where does it stop?
//!
//! The kernel says of each block device how long a discard it takes; 0 where it takes none. A
//! device on others takes over what they say when it is set up, so a 0 may have come from below.
//! Where it arose is the lowest device that says 0 on top of devices that do not. Some layers take
//! discards and keep them: a thin pool or a cache (dm-cache) that passes none down, VDO, and a loop
//! device on a file system that does not trim what its files free.
//!
//! A disk that a host of virtual machines or another machine gives takes discards whatever becomes of
//! them there: QEMU offers them by default, and drops them by default.

use serde::Serialize;

use crate::doctor::{Check, Context, Remedy, Verdict};
use crate::facts::Absent;
use crate::layers::{Layer, LayerKind, Stack, provisioning_mode_file};
use crate::mapper;
use crate::words::{list, quoted};

const NAME: &str = "trim";

/// How far TRIM gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// Whether it reaches every drive below; nothing where that is not known.
    pub works: Option<bool>,
    /// The first layer, from the top, that lets none through.
    pub stops_at: Option<String>,
    /// All such layers.
    pub stops: Vec<Stop>,
    /// Drives that TRIM reaches and that another machine gives, or the host of this virtual one: what it
    /// does with it cannot be seen from here.
    pub left_to_host: Vec<String>,
}

/// A layer that lets no TRIM through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// Its name.
    pub layer: String,
    /// Why, in words.
    pub why: String,
    /// What mends it.
    pub remedies: Vec<Remedy>,
    /// Whether flash is what lies behind it, as far as one can tell.
    #[serde(skip)]
    is_spinning: bool,
    /// Whether it only takes a second step to get by.
    #[serde(skip)]
    is_delay: bool,
}

/// File systems whose kernel code knows FITRIM or a discard option (`grep FITRIM fs/` of Linux
/// 6.12, and bcachefs).
const CAN: [&str; 15] = [
    "ext4", "ext3", "xfs", "btrfs", "f2fs", "vfat", "msdos", "exfat", "ntfs3", "jfs", "gfs2",
    "ocfs2", "nilfs2", "bcachefs", "hfsplus",
];
/// File systems that never send discards.
const CANNOT: [&str; 8] = ["ext2", "reiserfs", "minix", "ntfs", "hfs", "ufs", "affs", "udf"];
/// File systems in memory.
const MEMORY: [&str; 4] = ["tmpfs", "ramfs", "rootfs", "hugetlbfs"];
/// File systems on other machines.
const REMOTE: [&str; 9] =
    ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "afs"];

#[derive(Default)]
struct Walk {
    stops: Vec<Stop>,
    /// What is not known, in words.
    unknown: Vec<String>,
    /// Drives that TRIM reaches.
    reached: Vec<String>,
    /// Those of them behind which there is more that cannot be seen.
    left_to_host: Vec<String>,
}

pub(in crate::doctor) fn check(context: &Context, stack: &Stack) -> Check {
    let mut walk = Walk::default();
    walk.down(context, &stack.top, true);
    let stops_at = walk.stops.first().map(|stop| stop.layer.clone());
    let works = match (&stops_at, walk.unknown.is_empty()) {
        (Some(_), _) => Some(false),
        (None, true) => Some(true),
        (None, false) => None,
    };
    let mut check = Check::new(NAME, walk.verdict(), walk.seen());
    if works == Some(false) && check.verdict > Verdict::Notice {
        check = check.because(
            "The drive never learns which of its data is deleted, and keeps copying it about: \
             that costs spare area, speed under writes, and life.",
        );
    }
    for stop in &walk.stops {
        check.remedies.extend(stop.remedies.iter().cloned());
    }
    if works.is_none() {
        check.missing = Some(walk.unknown.join("; "));
    } else if !walk.left_to_host.is_empty() {
        check.missing = Some(format!(
            "what the host does with it: look there (QEMU drops it unless the disk has discard=unmap), or \
             see with --proof whether {} reads differently afterwards",
            list(&walk.left_to_host)
        ));
    }
    let left_to_host = walk.left_to_host;
    check.reach = Some(Reach { works, stops_at, stops: walk.stops, left_to_host });
    check
}

impl Walk {
    fn verdict(&self) -> Verdict {
        let is_slight = |stop: &Stop| stop.is_spinning || stop.is_delay;
        match () {
            () if self.stops.is_empty() && self.unknown.is_empty() => {
                match self.left_to_host.is_empty() {
                    true => Verdict::Fine,
                    false => Verdict::Notice,
                }
            }
            () if self.stops.is_empty() => Verdict::Unknown,
            () if self.stops.iter().all(|stop| stop.is_spinning) => Verdict::Fine,
            () if self.stops.iter().all(is_slight) => Verdict::Notice,
            () if !self.reached.is_empty() => Verdict::Warning,
            () => Verdict::Problem,
        }
    }

    fn seen(&self) -> String {
        if self.stops.is_empty() {
            return match self.unknown.is_empty() {
                true if self.left_to_host.is_empty() => {
                    format!("TRIM reaches {}", list(&self.reached))
                }
                true => format!(
                    "TRIM reaches {}; whether the host that gives {} passes it on is not known",
                    list(&self.reached),
                    list(&self.left_to_host)
                ),
                false => "Whether TRIM reaches the flash is not known".to_owned(),
            };
        }
        let stops: Vec<String> = self
            .stops
            .iter()
            .map(|stop| format!("TRIM stops at {}: {}", stop.layer, stop.why))
            .collect();
        let mut words = stops.join("; ");
        if !self.reached.is_empty() {
            words += &format!("; it does reach {}", list(&self.reached));
        }
        words
    }

    fn stop(&mut self, layer: &Layer, why: impl Into<String>, remedies: Vec<Remedy>) {
        let stop = Stop {
            layer: layer.called().to_owned(),
            why: why.into(),
            remedies,
            is_spinning: is_spinning(layer),
            is_delay: false,
        };
        if !self.stops.iter().any(|known| known.layer == stop.layer) {
            self.stops.push(stop);
        }
    }

    /// Goes down from a layer; `open` says whether what is above lets TRIM through.
    fn down(&mut self, context: &Context, layer: &Layer, open: bool) {
        match &layer.kind {
            _ if layer.is_metadata => {}
            LayerKind::FileSystem { file_system } => {
                let open = self.file_system(layer, file_system) && open;
                for below in &layer.below {
                    self.down(context, below, open);
                }
            }
            _ => self.device(context, layer, open),
        }
    }

    /// Whether a file system lets TRIM through, as far as is known.
    fn file_system(&mut self, layer: &Layer, kind: &str) -> bool {
        let is = |kinds: &[&str]| kinds.contains(&kind);
        if layer.below.is_empty() {
            self.unknown.push(match () {
                () if is(&MEMORY) => format!("{kind} lies in memory: there is nothing to trim"),
                () if is(&REMOTE) => format!("{kind} lies on another machine: look there"),
                () if kind == "zfs" => {
                    "ZFS trims its pools itself: zpool get autotrim, zpool trim".to_owned()
                }
                () => format!("{kind} shows no block device below it"),
            });
        } else if is(&CANNOT) {
            self.stop(layer, format!("{kind} sends no discards"), vec![remedy(
                "Another file system does (ext4, xfs, btrfs, f2fs); or, unmounted, by a tool that \
                 knows which blocks are free",
                None,
            )]);
        } else if !is(&CAN) && kind != "overlay" {
            self.unknown.push(format!("whether {kind} sends discards"));
        }
        !is(&CANNOT)
    }

    fn device(&mut self, context: &Context, layer: &Layer, open: bool) {
        let below: Vec<&Layer> = layer.below.iter().filter(|it| !it.is_metadata).collect();
        let own = refusal(context, layer);
        match layer.limits.takes_discards() {
            None => {
                self.unknown.push(format!("whether {} takes discards", layer.called()));
            }
            Some(true) => {
                let stops_before = self.stops.len();
                match own {
                    // Others that would refuse by their settings of today were set up before.
                    Ok(Some((why, remedies))) if keeps_discards(layer) => {
                        self.stop(layer, why, remedies);
                    }
                    Ok(_) => {}
                    Err(what) => self.unknown.push(what),
                }
                let open = open && self.stops.len() == stops_before;
                if open && layer.is_drive() && !self.reached.contains(&layer.name) {
                    self.reached.push(layer.name.clone());
                    if is_left_to_host(context, layer) {
                        self.left_to_host.push(layer.name.clone());
                    }
                }
                for it in below {
                    match it.is_file_system() {
                        true => self.below_a_file(context, it, open),
                        false => self.down(context, it, open),
                    }
                }
            }
            Some(false) => {
                let refused_below =
                    below.iter().any(|it| it.limits.takes_discards() == Some(false));
                match own {
                    Ok(Some((why, remedies))) => self.stop(layer, why, remedies),
                    _ if refused_below => {}
                    _ => {
                        let (why, remedies) = plain_refusal(context, layer);
                        self.stop(layer, why, remedies);
                    }
                }
                for it in below.into_iter().filter(|it| !it.is_file_system()) {
                    if it.limits.takes_discards() == Some(false) {
                        self.down(context, it, false);
                    }
                }
            }
        }
    }

    /// A loop device makes holes in its file. The space of these is trimmed when the file system
    /// that the file lies on trims what it frees.
    fn below_a_file(&mut self, context: &Context, layer: &Layer, open: bool) {
        let mounted = layer.mount.as_ref();
        let trims = mounted.is_some_and(|mount| {
            mount.options.iter().any(|option| option == "discard" || option.starts_with("discard="))
        });
        if !layer.below.is_empty() && !trims {
            let point = mounted.map_or(layer.path.as_str(), |mount| mount.point.as_str());
            self.stop(
                layer,
                "the loop device makes holes in its file, and their space is trimmed only when \
                 this file system is",
                vec![remedy(
                    "Trim the file system below afterwards",
                    Some(format!("fstrim -v {}", quoted(point))),
                )],
            );
            if let Some(stop) = self.stops.iter_mut().find(|stop| stop.layer == layer.called()) {
                stop.is_delay = true;
            }
        }
        self.down(context, layer, open && trims);
    }
}

fn remedy(words: impl Into<String>, command: Option<String>) -> Remedy {
    Remedy { words: words.into(), command }
}

/// USB bridges, RAID controllers and virtual disks say of everything that it spins.
fn is_spinning(layer: &Layer) -> bool {
    let is_bridge = matches!(
        layer.kind,
        LayerKind::Usb { .. } | LayerKind::HardwareRaid { .. } | LayerKind::Virtual
    );
    layer.is_drive() && !is_bridge && layer.limits.is_rotational == Some(true)
}

/// What emulated disks, and disks of clouds that lie elsewhere, call themselves: QEMU, VirtualBox, VMware,
/// Hyper-V, Amazon EBS, Google's persistent disks.
const EMULATED: [&str; 6] =
    ["QEMU", "VBOX", "VMware", "Msft", "Amazon Elastic Block Store", "nvme_card-pd"];

/// Whether what is behind a drive is another system's, which takes discards whatever it does with them.
fn is_left_to_host(context: &Context, layer: &Layer) -> bool {
    let says = |part: &str| {
        let text = context.facts.text(&format!("{}/device/{part}", layer.directory));
        text.is_some_and(|text| EMULATED.iter().any(|name| text.starts_with(name)))
    };
    matches!(layer.kind, LayerKind::Virtual | LayerKind::Network) || says("vendor") || says("model")
}

/// The kind of a mapping.
fn target_of(layer: &Layer) -> Option<&str> {
    match &layer.kind {
        LayerKind::Mapper { target } => target.as_deref(),
        _ => None,
    }
}

/// Whether a layer that takes discards may do so for itself alone.
fn keeps_discards(layer: &Layer) -> bool {
    layer.kind == LayerKind::ThinPool || matches!(target_of(layer), Some("cache" | "vdo"))
}

type Refusal = (String, Vec<Remedy>);

/// Why a layer lets no discards through whatever lies below it; the error says what is not known.
fn refusal(context: &Context, layer: &Layer) -> Result<Option<Refusal>, String> {
    let name = layer.called();
    match &layer.kind {
        LayerKind::Crypt => {
            let table = mapper::table(context.facts, name);
            Ok(table.ok().filter(|it| !it.has("allow_discards")).map(|_| no_allow_discards(layer)))
        }
        LayerKind::Md { level, .. } if is_parity(level) => {
            let path = "/sys/module/raid456/parameters/devices_handle_discard_safely";
            let is_safe = context.facts.text(path);
            Ok((is_safe.as_deref() == Some("N")).then(|| parity_refuses("raid456")))
        }
        LayerKind::ThinPool => {
            let keeps = passes_none_down(context, name, "the thin pool")?;
            Ok(keeps.then(|| no_passdown(name)))
        }
        LayerKind::Mapper { target: Some(target) } if target == "cache" => {
            let keeps = passes_none_down(context, name, "the cache")?;
            Ok(keeps.then(|| no_passdown_of_cache(name)))
        }
        LayerKind::Mapper { target: Some(target) } if target == "vdo" => Ok(Some(kept_by_vdo())),
        LayerKind::Mapper { target: None } => Err(context.as_root(&format!(
            "what kind of mapping {name} is, and whether it passes discards on"
        ))),
        _ => Ok(None),
    }
}

/// Whether a mapping that takes discards passes none down, by its status.
fn passes_none_down(context: &Context, name: &str, what: &str) -> Result<bool, String> {
    match mapper::status(context.facts, name) {
        Ok(status) => Ok(status.split_whitespace().any(|word| word == "no_discard_passdown")),
        Err(Absent::Denied | Absent::NotCaptured | Absent::Failed(_)) => {
            Err(context.as_root(&format!("whether {what} {name} passes discards down")))
        }
        Err(Absent::Missing) => {
            Err(format!("whether {what} {name} passes discards down (needs dmsetup)"))
        }
    }
}

fn is_parity(level: &str) -> bool {
    matches!(level, "raid4" | "raid5" | "raid6")
}

/// Why a device takes no discards, though what lies below it does or nothing does.
fn plain_refusal(context: &Context, layer: &Layer) -> Refusal {
    match &layer.kind {
        LayerKind::Crypt => no_allow_discards(layer),
        LayerKind::Md { level, .. } if is_parity(level) => parity_refuses("raid456"),
        LayerKind::MapperRaid if has_no_parity(context, layer) => stale(layer),
        LayerKind::MapperRaid => {
            let (why, mut remedies) = parity_refuses("dm_raid");
            remedies.push(set_up_anew(layer));
            (format!("{why}, or it was set up when its members took none"), remedies)
        }
        LayerKind::ThinPool => no_passdown(layer.called()),
        LayerKind::Usb { driver } => usb(context, layer, driver.as_deref()),
        LayerKind::HardwareRaid { driver } => (
            format!("the RAID controller ({driver}) takes no discards for its volumes"),
            vec![remedy(
                "Controllers of this kind pass TRIM only in HBA or JBOD mode, if at all; then a \
                 RAID of the system's (md, btrfs, ZFS) passes it. Moving to that destroys the \
                 volume: back up first. Else leave a part of each drive unused from the start, as \
                 spare area",
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
            "its file is given no holes: the file system below does not know how, the loop device \
             is read-only, or somebody has set its queue/discard_max_bytes to 0"
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
        | LayerKind::Mapper { .. } => stale(layer),
        _ => ("the device takes no discards".to_owned(), Vec::new()),
    }
}

fn stale(layer: &Layer) -> Refusal {
    (
        "it takes none although what lies below does: it was set up when that took none, or its \
         kind cannot pass them on"
            .to_owned(),
        vec![set_up_anew(layer)],
    )
}

/// Whether the table of a RAID volume says that it has no parity.
fn has_no_parity(context: &Context, layer: &Layer) -> bool {
    let name = layer.called();
    mapper::table(context.facts, name).is_ok_and(|table| {
        let level = table.arguments.first().map_or("", String::as_str);
        !["raid4", "raid5", "raid6"].iter().any(|parity| level.starts_with(parity))
    })
}

fn set_up_anew(layer: &Layer) -> Remedy {
    let title = layer.called();
    let command = match (&layer.kind, mapper::volume_of(title)) {
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
    remedy("Set it up anew, so that it asks the layer below again (a restart does, too)", command)
}

fn no_allow_discards(layer: &Layer) -> Refusal {
    let name = layer.called();
    let is_luks2 = layer.notes.iter().any(|note| note == "LUKS2");
    let persistent = if is_luks2 { "--persistent " } else { "" };
    let mut remedies = vec![remedy(
        "Allow discards; who gets at the drive can then see which sectors hold data, and how the \
         file system uses them, but not what they hold. It asks for the passphrase",
        Some(format!("cryptsetup refresh --allow-discards {persistent}{}", quoted(name))),
    )];
    if !is_luks2 {
        remedies.push(remedy(
            "And for the next start: the option 'discard' for it in /etc/crypttab",
            None,
        ));
    }
    remedies.push(remedy(
        "Layers above it that were set up before keep what they asked for then: set them up anew, \
         or restart",
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
             assemble anew. It has lost data with kernels whose md handled small discards wrongly: \
             try it on data that you have twice",
            Some(format!(
                "echo options {module} devices_handle_discard_safely=Y > \
                 /etc/modprobe.d/{module}-discard.conf"
            )),
        )],
    )
}

fn no_passdown(name: &str) -> Refusal {
    // LVM's own device of a pool has a name of its own.
    let volume = name.strip_suffix("-tpool").unwrap_or(name);
    let command = mapper::volume_of(volume).map(|(group, volume)| {
        format!("lvchange --discards passdown {}", quoted(&format!("{group}/{volume}")))
    });
    (
        "the thin pool takes discards, and passes none down (no_discard_passdown)".to_owned(),
        vec![remedy("Let it pass them down; the volumes of the pool must be inactive", command)],
    )
}

fn no_passdown_of_cache(name: &str) -> Refusal {
    let command = mapper::volume_of(name).map(|(group, volume)| {
        format!("lvconvert --uncache {}", quoted(&format!("{group}/{volume}")))
    });
    (
        "the cache takes discards, and passes none down (no_discard_passdown): what lies below took \
         none when it was set up, or it was told not to"
            .to_owned(),
        vec![remedy(
            "Set it up anew on devices that take discards. Without a cache they pass; this writes it \
             back first, and takes it away",
            command,
        )],
    )
}

fn kept_by_vdo() -> Refusal {
    (
        "VDO takes discards to free its own space, and passes none down".to_owned(),
        vec![remedy(
            "Nothing makes it. Leave a part of the drive outside of it, trimmed as a whole before, as \
             spare area",
            None,
        )],
    )
}

fn usb(context: &Context, layer: &Layer, driver: Option<&str>) -> Refusal {
    let mode = provisioning_mode_file(context.facts, &layer.directory);
    let mut why = "the USB bridge does not say that it takes discards".to_owned();
    let mut remedies = Vec::new();
    if let Some((path, mode)) = mode {
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
        "See what the drive says of itself. An SSD without TRIM keeps its speed by spare area \
         alone: leave a part of it unused, from when it is new or erased",
        Some(format!("hdparm -I {} | grep -i -A2 trim", layer.path)),
    ));
    (why, remedies)
}
