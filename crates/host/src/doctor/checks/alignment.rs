//! Check of the alignment of partitions and other layers on the drive.
//!
//! The place of the data on the drive is what matters, so the check adds up the offsets of all layers on each way down.

use crate::doctor::{Check, Context, Verdict};
use crate::format::list;
use crate::layers::{Layer, LayerKind, Stack};

/// A multiple of all common flash page sizes, in bytes; partitioning tools align to it.
const RECOMMENDED_ALIGNMENT: u64 = 1 << 20;
/// Mapping unit of drives and page size of memory, in bytes. For data that does not begin at a multiple of it the drive
/// reads and writes two units instead of one.
const REQUIRED_ALIGNMENT: u64 = 4096;

struct LayerStart {
    name: String,
    /// Offset from the beginning of the drive, or from the lowest layer whose offset is known, in bytes.
    offset: u64,
}

pub(super) fn check(context: &Context, stack: &Stack) -> Option<Check> {
    let mut starts = Vec::new();
    let mut complaints = Vec::new();
    let mut unknown = Vec::new();
    for layer in stack.top.self_and_below() {
        if let Some(off) = layer.limits.alignment_offset.filter(|&off| off != 0) {
            let message =
                format!("the kernel says that {} is {off} bytes off", layer.display_name());
            complaints.push(message);
        }
        let has_own_offset = matches!(
            layer.kind,
            LayerKind::Partition | LayerKind::Crypt | LayerKind::Linear | LayerKind::Md { .. }
        ) || is_loop_with_offset(layer);
        if !has_own_offset || layer.is_metadata {
            continue;
        }
        match offset_on_drive(layer) {
            Some(offset) => {
                starts.push(LayerStart { name: layer.display_name().to_owned(), offset })
            }
            None => unknown.push(layer.display_name().to_owned()),
        }
    }
    if starts.is_empty() && complaints.is_empty() && unknown.is_empty() {
        return None;
    }
    let at = |wanted: u64| {
        let off = starts.iter().filter(|it| !it.offset.is_multiple_of(wanted));
        off.map(|it| format!("{} begins at byte {}", it.name, it.offset)).collect::<Vec<_>>()
    };
    let (bad, odd) = (at(REQUIRED_ALIGNMENT), at(RECOMMENDED_ALIGNMENT));
    let mut check = if !bad.is_empty() || !complaints.is_empty() {
        let seen = list(&[bad, complaints].concat());
        Check::new("alignment", Verdict::Warning, format!("{seen}, no multiple of 4 KiB"))
            .with_reason(match stack.drives().iter().all(|drive| drive.is_spinning()) {
                true => {
                    "Blocks of the file system lie across two sectors of the drive: each small write \
                     makes it read and write both, which costs a turn."
                }
                false => {
                    "Blocks of the file system lie across two units of the drive: each small write \
                     becomes a read-modify-write of both, which costs speed and life."
                }
            })
            .with_remedy(
                match stack.top.self_and_below().iter().any(|layer| layer.kind == LayerKind::Partition) {
                    true => {
                        "Back up, recreate the partition at a multiple of 1 MiB (any current tool \
                         does so by itself), restore"
                    }
                    false => "Back up, recreate it at a multiple of 1 MiB, restore",
                },
                partitioned_drive(&stack.top).map(|it| format!("parted {it} align-check optimal 1")),
            )
    } else if !odd.is_empty() {
        Check::new(
            "alignment",
            Verdict::Fine,
            format!("{}: a multiple of 4 KiB, not of 1 MiB", list(&odd)),
        )
        .with_reason("Some drives map or erase in larger units, and a multiple of 1 MiB suits all.")
    } else {
        let names: Vec<String> = starts.iter().map(|it| it.name.clone()).collect();
        match names.is_empty() {
            true => {
                Check::new("alignment", Verdict::Unknown, "the start of the layers is not known")
            }
            false => Check::new(
                "alignment",
                Verdict::Fine,
                format!("{} begin{} at a multiple of 1 MiB", list(&names), plural(&names)),
            ),
        }
    };
    if !unknown.is_empty() {
        check =
            check.with_missing(context.missing_text(&format!("where {} begins", list(&unknown))));
    }
    Some(check)
}

/// Returns true if a loop device begins at an offset within its file. The file system places the blocks of the file, so
/// only the offset counts.
fn is_loop_with_offset(layer: &Layer) -> bool {
    matches!(layer.kind, LayerKind::Loop { .. }) && layer.offset_bytes.is_some_and(|it| it > 0)
}

fn plural(names: &[String]) -> &'static str {
    if names.len() == 1 { "s" } else { "" }
}

/// Returns the offset of a layer's data on the drive in bytes, along the first way down, or `None` if it is not known.
fn offset_on_drive(layer: &Layer) -> Option<u64> {
    let own = match layer.kind {
        // The extents of an LVM volume in several pieces are multiples of LVM's extent size, 4 MiB by default.
        LayerKind::Partition
        | LayerKind::Crypt
        | LayerKind::Linear
        | LayerKind::Md { .. }
        | LayerKind::Loop { .. } => layer.offset_bytes?,
        _ => 0,
    };
    match layer.below.iter().find(|it| !it.is_metadata) {
        Some(below) if !below.is_file_system() => own.checked_add(offset_on_drive(below)?),
        _ => Some(own),
    }
}

/// Returns the path of the drive that holds the target's first partition.
fn partitioned_drive(top: &Layer) -> Option<&str> {
    let layers = top.self_and_below();
    let partition = layers.into_iter().find(|layer| layer.kind == LayerKind::Partition)?;
    Some(partition.below.first()?.path.as_str())
}
