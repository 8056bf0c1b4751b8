//! Text of the tree of layers, one line for each layer.

use super::{Layer, LayerKind};
use crate::format;

/// Characters that draw the branches of the tree.
struct Branch {
    more: &'static str,
    last: &'static str,
    past: &'static str,
}

const UNICODE: Branch = Branch { more: "├─ ", last: "└─ ", past: "│  " };
const ASCII: Branch = Branch { more: "|- ", last: "`- ", past: "|  " };

pub(super) fn render(top: &Layer, ascii: bool) -> String {
    let mut rows = Vec::new();
    push_rows(top, "", "", if ascii { &ASCII } else { &UNICODE }, &mut rows);
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, description) in rows {
        let pad = width - name.chars().count();
        text += &format!("{name}{:pad$}   {description}\n", "");
    }
    text
}

fn push_rows(
    layer: &Layer,
    lead: &str,
    past: &str,
    branch: &Branch,
    rows: &mut Vec<(String, String)>,
) {
    rows.push((
        format!("{lead}{}", without_control_characters(layer.display_name())),
        without_control_characters(&layer.describe()),
    ));
    for (index, below) in layer.below.iter().enumerate() {
        let is_last = index + 1 == layer.below.len();
        let lead = format!("{past}{}", if is_last { branch.last } else { branch.more });
        let past = format!("{past}{}", if is_last { "   " } else { branch.past });
        push_rows(below, &lead, &past, branch, rows);
    }
}

/// Replaces control characters, which a terminal would interpret: names may come from a stranger's capture.
fn without_control_characters(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

impl Layer {
    /// Returns a description of the layer in words.
    pub fn describe(&self) -> String {
        let mut parts = vec![self.kind_text()];
        parts.extend(self.size().map(format::capacity));
        if let (Some(offset), LayerKind::Partition) = (self.offset_bytes, &self.kind) {
            parts.push(format!("from {}", offset_text(offset)));
        }
        if let Some(mount) = &self.mount {
            parts.push(mount.options.join(","));
        }
        parts.extend(self.notes.iter().cloned());
        parts.extend(self.trim_text());
        parts.join(", ")
    }

    fn trim_text(&self) -> Option<String> {
        self.limits
            .takes_discards()
            .filter(|_| !self.is_metadata)
            .map(|takes| if takes { "TRIM yes" } else { "TRIM NO" }.to_owned())
    }

    fn kind_text(&self) -> String {
        let title = self.title.as_deref();
        let named = |kind: &str| match title {
            Some(title) => format!("{kind} {title}"),
            None => kind.to_owned(),
        };
        match &self.kind {
            LayerKind::FileSystem { file_system } => file_system.clone(),
            LayerKind::Partition => "partition".to_owned(),
            LayerKind::Linear => "volume".to_owned(),
            LayerKind::Striped => "striped volume".to_owned(),
            LayerKind::Thin => "thin volume".to_owned(),
            LayerKind::ThinPool => "thin pool".to_owned(),
            LayerKind::Crypt => "dm-crypt".to_owned(),
            LayerKind::MapperRaid => "RAID volume".to_owned(),
            LayerKind::Mapper { target } => {
                format!("device mapper ({})", target.as_deref().unwrap_or("not known"))
            }
            LayerKind::Md { level, is_firmware: false } => format!("md {level}"),
            LayerKind::Md { level, is_firmware: true } => {
                format!("md {level} with the firmware's metadata")
            }
            LayerKind::Loop { file: Some(file) } => format!("loop device on {file}"),
            LayerKind::Loop { file: None } => "loop device without a file".to_owned(),
            LayerKind::Zram => "compressed memory".to_owned(),
            LayerKind::Bcache => "bcache".to_owned(),
            LayerKind::Network => "disk of another machine".to_owned(),
            LayerKind::Usb { driver } => {
                named(&format!("USB disk ({})", driver.as_deref().unwrap_or("driver not known")))
            }
            LayerKind::Nvme => named("NVMe drive"),
            LayerKind::Sata => named("SATA drive"),
            LayerKind::HardwareRaid { driver } => named(&format!("hardware RAID ({driver})")),
            LayerKind::Scsi => named("SCSI disk"),
            LayerKind::Virtual => named("disk of a virtual machine"),
            LayerKind::Mmc => named("SD card or eMMC"),
            LayerKind::Disk => named("disk"),
        }
    }
}

/// Returns an offset in words: in MiB if it is a multiple of 1 MiB, else as a sector.
fn offset_text(offset: u64) -> String {
    match offset.is_multiple_of(1 << 20) {
        true => format!("{} MiB", offset >> 20),
        false => format!("sector {}", offset / 512),
    }
}
