//! Check of write barriers: does the file system send flushes?

use crate::doctor::{Check, Context, Verdict};
use crate::format::quoted;
use crate::layers::Stack;
use crate::mounts;

/// Mount options that turn flushes off: of ext3, ext4, btrfs and old xfs; of f2fs.
const NO_BARRIER_OPTIONS: [&str; 4] =
    ["nobarrier", "barrier=0", "barrier=none", "fsync_mode=nobarrier"];

pub(super) fn check(context: &Context, stack: &Stack) -> Option<Check> {
    let layer = stack.file_system().filter(|layer| !layer.below.is_empty())?;
    let mount = layer.mount.as_ref()?;
    let option = mount.options.iter().find(|option| NO_BARRIER_OPTIONS.contains(&option.as_str()));
    let Some(option) = option else {
        return Some(Check::new("barriers", Verdict::Fine, "flushes are sent"));
    };
    let seen = format!("mounted with '{option}': no flushes are sent");
    let has_cache = |it: &&crate::Layer| it.limits.write_cache.as_deref() != Some("write through");
    let drives = stack.drives();
    if !drives.is_empty() && !drives.iter().any(has_cache) {
        return Some(
            Check::new("barriers", Verdict::Notice, format!("{seen}, and the drive needs none"))
                .with_reason(
                    "No drive below has a write cache that it could lose, so the option saves \
                     nothing, and does harm when the drive is replaced by one that has.",
                ),
        );
    }
    let in_fstab = mounts::fstab(context.facts).into_iter().any(|line| {
        line.point == mount.point
            && line.options.iter().any(|it| NO_BARRIER_OPTIONS.contains(&it.as_str()))
    });
    let check = Check::new("barriers", Verdict::Problem, seen)
        .with_reason(
            "When power fails, what the drive had in its cache is lost in any order: committed \
             transactions, and the file system's own structure. The speed is real, and so is the \
             loss ('ssdlab run barrier' measures what it is worth).",
        )
        .with_remedy(
            "Switch them on again",
            Some(format!("mount -o remount,barrier {}", quoted(&mount.point))),
        );
    Some(match in_fstab {
        true => check.with_remedy(
            "And remove the option from /etc/fstab; 'ssdlab doctor --fix barriers' does, and keeps \
             a copy",
            None,
        ),
        false => check,
    })
}
