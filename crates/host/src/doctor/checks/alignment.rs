//! Check of the alignment of partitions and other layers on the drive.
//!
//! The place of the data on the drive is what matters, so the check adds up the offsets of all layers on each way down.

use crate::doctor::{Check, Context, Verdict};
use crate::layers::{Layer, LayerKind, Stack};
use crate::words::list;

/// A multiple of all common flash page sizes, in bytes; partitioning tools align to it.
const GOOD: u64 = 1 << 20;
/// Mapping unit of drives and page size of memory, in bytes. For data that does not begin at a multiple of it the drive
/// reads and writes two units instead of one.
const NEEDED: u64 = 4096;

struct Beginning {
    words: String,
    /// Offset from the beginning of the drive, or from the lowest layer whose offset is known, in bytes.
    offset: u64,
}

pub(super) fn check(context: &Context, stack: &Stack) -> Option<Check> {
    let mut beginnings = Vec::new();
    let mut complaints = Vec::new();
    let mut unknown = Vec::new();
    for layer in stack.top.all() {
        if let Some(off) = layer.limits.alignment_offset.filter(|&off| off != 0) {
            let words = format!("the kernel says that {} is {off} bytes off", layer.called());
            complaints.push(words);
        }
        let can_begin_anywhere = matches!(
            layer.kind,
            LayerKind::Partition | LayerKind::Crypt | LayerKind::Linear | LayerKind::Md { .. }
        ) || is_loop_with_offset(layer);
        if !can_begin_anywhere || layer.is_metadata {
            continue;
        }
        match absolute(layer) {
            Some(offset) => beginnings.push(Beginning { words: layer.called().to_owned(), offset }),
            None => unknown.push(layer.called().to_owned()),
        }
    }
    if beginnings.is_empty() && complaints.is_empty() && unknown.is_empty() {
        return None;
    }
    let at = |wanted: u64| {
        let off = beginnings.iter().filter(|it| !it.offset.is_multiple_of(wanted));
        off.map(|it| format!("{} begins at byte {}", it.words, it.offset)).collect::<Vec<_>>()
    };
    let (bad, odd) = (at(NEEDED), at(GOOD));
    let mut check = if !bad.is_empty() || !complaints.is_empty() {
        let seen = list(&[bad, complaints].concat());
        Check::new("alignment", Verdict::Warning, format!("{seen}, no multiple of 4 KiB"))
            .because(match stack.drives().iter().all(|drive| drive.is_spinning()) {
                true => {
                    "Blocks of the file system lie across two sectors of the drive: each small write \
                     makes it read and write both, which costs a turn."
                }
                false => {
                    "Blocks of the file system lie across two units of the drive: each small write \
                     makes it read, merge and write both, which costs speed and life."
                }
            })
            .remedy(
                match stack.top.all().iter().any(|layer| layer.kind == LayerKind::Partition) {
                    true => {
                        "Back up, make the partition anew at a multiple of 1 MiB (any current tool \
                         does so by itself), restore"
                    }
                    false => "Back up, set it up anew at a multiple of 1 MiB, restore",
                },
                partition(&stack.top).map(|it| format!("parted {it} align-check optimal 1")),
            )
    } else if !odd.is_empty() {
        Check::new(
            "alignment",
            Verdict::Fine,
            format!("{}: a multiple of 4 KiB, not of 1 MiB", list(&odd)),
        )
        .because("Some drives map or erase in larger units, and a multiple of 1 MiB suits all.")
    } else {
        let names: Vec<String> = beginnings.iter().map(|it| it.words.clone()).collect();
        match names.is_empty() {
            true => Check::new("alignment", Verdict::Unknown, "where layers begin is not known"),
            false => Check::new(
                "alignment",
                Verdict::Fine,
                format!("{} begin{} at a multiple of 1 MiB", list(&names), plural(&names)),
            ),
        }
    };
    if !unknown.is_empty() {
        check = check.lacks(context.as_root(&format!("where {} begins", list(&unknown))));
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
fn absolute(layer: &Layer) -> Option<u64> {
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
        Some(below) if !below.is_file_system() => own.checked_add(absolute(below)?),
        _ => Some(own),
    }
}

/// Returns the path of the drive that holds the target's first partition.
fn partition(top: &Layer) -> Option<&str> {
    let layers = top.all();
    let partition = layers.into_iter().find(|layer| layer.kind == LayerKind::Partition)?;
    Some(partition.below.first()?.path.as_str())
}
