//! Does each layer begin where the drive likes it?
//!
//! What matters is where data lies on the drive, so the beginnings of all layers are added up on
//! each way down.

use crate::doctor::{Check, Context, Verdict};
use crate::layers::{Layer, LayerKind, Stack};
use crate::words::list;

/// What all common flash pages divide, and partitioning tools align to.
const GOOD: u64 = 1 << 20;
/// The unit that drives map, and pages of memory; what does not begin at a multiple of it makes
/// the drive read and write two units for one.
const NEEDED: u64 = 4096;

struct Beginning {
    words: String,
    /// From the beginning of the drive, or as far down as it is known.
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

/// Returns true if a loop device begins within its file. The blocks of the file lie where its file
/// system wants them, so that only the offset counts.
fn is_loop_with_offset(layer: &Layer) -> bool {
    matches!(layer.kind, LayerKind::Loop { .. }) && layer.offset_bytes.is_some_and(|it| it > 0)
}

fn plural(names: &[String]) -> &'static str {
    if names.len() == 1 { "s" } else { "" }
}

/// Returns where a layer's data begins on the drive, by the first way down.
fn absolute(layer: &Layer) -> Option<u64> {
    let own = match layer.kind {
        // Extents of LVM, in several pieces, are multiples of its extents, 4 MiB unless told.
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

/// The drive of the first partition that is off.
fn partition(top: &Layer) -> Option<&str> {
    let layers = top.all();
    let partition = layers.into_iter().find(|layer| layer.kind == LayerKind::Partition)?;
    Some(partition.below.first()?.path.as_str())
}
