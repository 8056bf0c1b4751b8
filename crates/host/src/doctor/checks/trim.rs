//! Check of TRIM: does it get from the file system down to the flash, and where does it stop?
//!
//! The kernel tells the largest discard that each block device takes, and 0 for a device that takes none. A stacked
//! device inherits the value of the devices below when it is set up, so a 0 may come from below: TRIM stops at the
//! lowest device that has 0 and lies on devices that take discards. Some layers take discards and do not pass them
//! down: a thin pool or a cache (dm-cache) without discard passdown, VDO, and a loop device on a file system that does
//! not trim what its files free.
//!
//! A disk of a virtual machine or of the network may take discards whether or not its host uses them: QEMU offers them
//! by default, and drops them by default.

mod refusal;

use serde::Serialize;

use crate::doctor::{Check, Context, Remedy, Verdict};
use crate::format::{list, quoted};
use crate::layers::{Layer, LayerKind, Stack};
use refusal::{may_drop_discards, refusal, refusal_of_device};

const NAME: &str = "trim";

/// Reach of TRIM from a target down to its drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrimReach {
    /// True if TRIM reaches every drive below; `None` if that is not known.
    pub works: Option<bool>,
    /// First layer, from the top, that lets no TRIM through.
    pub stops_at: Option<String>,
    /// All layers that let no TRIM through.
    pub stops: Vec<TrimStop>,
    /// Drives that TRIM reaches and that another machine, or the host of this virtual machine, provides: its use of
    /// TRIM cannot be seen from here.
    pub left_to_host: Vec<String>,
}

/// A layer that lets no TRIM through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrimStop {
    /// Name of the layer.
    pub layer: String,
    /// Text that says why the layer lets no TRIM through.
    pub why: String,
    /// Remedies that let TRIM through.
    pub remedies: Vec<Remedy>,
    /// True if the layer says that it spins, so that TRIM does not matter there.
    #[serde(skip)]
    is_spinning: bool,
    /// True if TRIM is only delayed: a second `fstrim`, of the file system below, trims the space.
    #[serde(skip)]
    is_delay: bool,
}

/// File systems whose kernel code knows FITRIM or a discard option (`grep FITRIM fs/` of Linux
/// 6.12, and bcachefs), and ntfs-3g, which takes FITRIM through FUSE (ntfs-3g(8), fstrim).
const DISCARDING_FILE_SYSTEMS: [&str; 16] = [
    "ntfs-3g", "ext4", "ext3", "xfs", "btrfs", "f2fs", "vfat", "msdos", "exfat", "ntfs3", "jfs",
    "gfs2", "ocfs2", "nilfs2", "bcachefs", "hfsplus",
];
/// File systems that never send discards; ext2 where the driver of ext4 does not serve it.
const NON_DISCARDING_FILE_SYSTEMS: [&str; 8] =
    ["ext2", "reiserfs", "minix", "ntfs", "hfs", "ufs", "affs", "udf"];
/// File systems in memory.
const MEMORY_FILE_SYSTEMS: [&str; 4] = ["tmpfs", "ramfs", "rootfs", "hugetlbfs"];
/// File systems on other machines.
const NETWORK_FILE_SYSTEMS: [&str; 9] =
    ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "afs"];

#[derive(Default)]
struct TrimWalk {
    stops: Vec<TrimStop>,
    /// Text for each thing that is not known.
    unknown: Vec<String>,
    /// Drives that TRIM reaches.
    reached: Vec<String>,
    /// Drives among `reached` whose host's use of TRIM cannot be seen.
    left_to_host: Vec<String>,
}

pub(in crate::doctor) fn check(context: &Context, stack: &Stack) -> Check {
    let mut walk = TrimWalk::default();
    walk.visit(context, &stack.top, true);
    let stops_at = walk.stops.first().map(|stop| stop.layer.clone());
    let works = match (&stops_at, walk.unknown.is_empty()) {
        (Some(_), _) => Some(false),
        (None, true) => Some(true),
        (None, false) => None,
    };
    let mut check = Check::new(NAME, walk.verdict(), walk.seen());
    if works == Some(false) && check.verdict > Verdict::Notice {
        check = check.with_reason(
            "The drive never learns which of its data is deleted, and garbage collection keeps \
             copying it: that costs over-provisioning, speed under writes, and life.",
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
    check.reach = Some(TrimReach { works, stops_at, stops: walk.stops, left_to_host });
    check
}

impl TrimWalk {
    fn verdict(&self) -> Verdict {
        let is_minor = |stop: &TrimStop| stop.is_spinning || stop.is_delay;
        match () {
            () if self.stops.is_empty() && self.unknown.is_empty() => {
                match self.left_to_host.is_empty() {
                    true => Verdict::Fine,
                    false => Verdict::Notice,
                }
            }
            () if self.stops.is_empty() => Verdict::Unknown,
            () if self.stops.iter().all(|stop| stop.is_spinning) => Verdict::Fine,
            () if self.stops.iter().all(is_minor) => Verdict::Notice,
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

    fn add_stop(&mut self, layer: &Layer, why: impl Into<String>, remedies: Vec<Remedy>) {
        let stop = TrimStop {
            layer: layer.display_name().to_owned(),
            why: why.into(),
            remedies,
            is_spinning: layer.is_spinning(),
            is_delay: false,
        };
        if !self.stops.iter().any(|known| known.layer == stop.layer) {
            self.stops.push(stop);
        }
    }

    /// Examines a layer and those below; `passes_trim` is true if all layers above let TRIM through.
    fn visit(&mut self, context: &Context, layer: &Layer, passes_trim: bool) {
        match &layer.kind {
            _ if layer.is_metadata => {}
            LayerKind::FileSystem { file_system } => {
                let kind = driver_of(context, layer, file_system);
                let passes_trim = self.visit_file_system(layer, &kind) && passes_trim;
                for below in &layer.below {
                    self.visit(context, below, passes_trim);
                }
            }
            _ => self.visit_device(context, layer, passes_trim),
        }
    }

    /// Returns true if a file system lets TRIM through, as far as is known.
    fn visit_file_system(&mut self, layer: &Layer, kind: &str) -> bool {
        let is = |kinds: &[&str]| kinds.contains(&kind);
        if layer.below.is_empty() {
            self.unknown.push(match () {
                () if is(&MEMORY_FILE_SYSTEMS) => {
                    format!("{kind} lies in memory: there is nothing to trim")
                }
                () if is(&NETWORK_FILE_SYSTEMS) => {
                    format!("{kind} lies on another machine: look there")
                }
                () if kind == "zfs" => {
                    "ZFS trims its pools itself: zpool get autotrim, zpool trim".to_owned()
                }
                () => format!("{kind} shows no block device below it"),
            });
        } else if is(&NON_DISCARDING_FILE_SYSTEMS) {
            self.add_stop(layer, format!("{kind} sends no discards"), vec![remedy(
                "Use another file system (ext4, xfs, btrfs, f2fs); or trim it unmounted, with a \
                 tool that knows which blocks are free",
                None,
            )]);
        } else if !is(&DISCARDING_FILE_SYSTEMS) && kind != "overlay" {
            self.unknown.push(format!("whether {kind} sends discards"));
        }
        !is(&NON_DISCARDING_FILE_SYSTEMS)
    }

    fn visit_device(&mut self, context: &Context, layer: &Layer, passes_trim: bool) {
        // A loop device without a file, a card reader without a card, a network disk without a server.
        if layer.size_bytes == Some(0) && layer.below.is_empty() {
            let what = if layer.name.starts_with("loop") { "file" } else { "medium" };
            let name = layer.display_name();
            self.unknown.push(format!("{name} has no {what}: there is nothing to trim"));
            return;
        }
        let below: Vec<&Layer> = layer.below.iter().filter(|it| !it.is_metadata).collect();
        let own = refusal(context, layer);
        match layer.limits.takes_discards() {
            None => {
                self.unknown.push(format!("whether {} takes discards", layer.display_name()));
            }
            Some(true) => {
                let stops_before = self.stops.len();
                match own {
                    // Layers of other kinds whose settings now refuse discards were set up before the settings changed.
                    Ok(Some((why, remedies))) if may_drop_discards(layer) => {
                        self.add_stop(layer, why, remedies);
                    }
                    Ok(_) => {}
                    Err(what) => self.unknown.push(what),
                }
                let passes_trim = passes_trim && self.stops.len() == stops_before;
                if passes_trim && layer.is_drive() && !self.reached.contains(&layer.name) {
                    self.reached.push(layer.name.clone());
                    if is_left_to_host(context, layer) {
                        self.left_to_host.push(layer.name.clone());
                    }
                }
                for it in below {
                    match it.is_file_system() {
                        true => self.visit_backing_file_system(context, it, passes_trim),
                        false => self.visit(context, it, passes_trim),
                    }
                }
            }
            Some(false) => {
                let refused_below =
                    below.iter().any(|it| it.limits.takes_discards() == Some(false));
                match own {
                    Ok(Some((why, remedies))) => self.add_stop(layer, why, remedies),
                    _ if refused_below => {}
                    _ => {
                        let (why, remedies) = refusal_of_device(context, layer);
                        self.add_stop(layer, why, remedies);
                    }
                }
                for it in below.into_iter().filter(|it| !it.is_file_system()) {
                    if it.limits.takes_discards() == Some(false) {
                        self.visit(context, it, false);
                    }
                }
            }
        }
    }

    /// Examines the file system below a loop device. The loop device punches holes in its file, and their space is
    /// trimmed only if that file system trims what it frees.
    fn visit_backing_file_system(&mut self, context: &Context, layer: &Layer, passes_trim: bool) {
        let mounted = layer.mount.as_ref();
        let trims = mounted.is_some_and(|mount| {
            mount.options.iter().any(|option| option == "discard" || option.starts_with("discard="))
        });
        if !layer.below.is_empty() && !trims {
            let point = mounted.map_or(layer.path.as_str(), |mount| mount.point.as_str());
            self.add_stop(
                layer,
                "the loop device makes holes in its file, and their space is trimmed only when \
                 this file system is",
                vec![remedy(
                    "Trim the file system below afterwards",
                    Some(format!("fstrim -v {}", quoted(point))),
                )],
            );
            if let Some(stop) =
                self.stops.iter_mut().find(|stop| stop.layer == layer.display_name())
            {
                stop.is_delay = true;
            }
        }
        self.visit(context, layer, passes_trim && trims);
    }
}

fn remedy(words: impl Into<String>, command: Option<String>) -> Remedy {
    Remedy { words: words.into(), command }
}

/// Returns the name of the driver of a mount whose type hides it: ntfs-3g and others are mounted as `fuseblk`, and the
/// driver of ext4 serves ext2 as well (and lists the device in /sys/fs/ext4).
fn driver_of(context: &Context, layer: &Layer, kind: &str) -> String {
    let below = layer.below.first();
    let name = below.map_or("", |it| it.name.as_str());
    if kind == "ext2" && context.facts.list(&format!("/sys/fs/ext4/{name}")).is_ok() {
        return "ext4".to_owned();
    }
    if kind == "fuseblk" {
        let number = below.and_then(|it| it.device.as_deref()).unwrap_or_default();
        let properties =
            context.facts.text(&format!("/run/udev/data/b{number}")).unwrap_or_default();
        let found = properties.lines().find_map(|line| line.strip_prefix("E:ID_FS_TYPE="));
        return match found {
            Some("ntfs") => "ntfs-3g".to_owned(),
            Some(other) => format!("{other} (by FUSE)"),
            None => kind.to_owned(),
        };
    }
    kind.to_owned()
}

/// Vendor or model names of emulated disks and of remote disks of clouds: QEMU, VirtualBox, VMware, Hyper-V, Amazon
/// EBS, Google's persistent disks.
const VIRTUAL_DISK_NAMES: [&str; 6] =
    ["QEMU", "VBOX", "VMware", "Msft", "Amazon Elastic Block Store", "nvme_card-pd"];

/// Returns true if another system provides the drive and takes discards whether or not it uses them.
fn is_left_to_host(context: &Context, layer: &Layer) -> bool {
    let says = |part: &str| {
        let text = context.facts.text(&format!("{}/device/{part}", layer.directory));
        text.is_some_and(|text| VIRTUAL_DISK_NAMES.iter().any(|name| text.starts_with(name)))
    };
    matches!(layer.kind, LayerKind::Virtual | LayerKind::Network) || says("vendor") || says("model")
}
