//! Check of the mount options `noatime` and `relatime`: does every read of a file cause a write?

use crate::doctor::{Check, Verdict};
use crate::format::quoted;
use crate::layers::Stack;

pub(super) fn check(stack: &Stack) -> Option<Check> {
    let layer = stack.file_system().filter(|layer| !layer.below.is_empty())?;
    let mount = layer.mount.as_ref()?;
    if mount.is_read_only() {
        return None;
    }
    Some(match ["noatime", "relatime"].into_iter().find(|option| mount.has(option)) {
        Some("noatime") => Check::new("atime", Verdict::Fine, "noatime: reading causes no writes"),
        Some(_) => {
            Check::new("atime", Verdict::Fine, "relatime: one write a day for a file, at most")
                .with_reason(
                    "noatime saves that, too; programs that ask when a file was read are rare.",
                )
        }
        None => Check::new(
            "atime",
            Verdict::Warning,
            "every read of a file writes its access time to the drive",
        )
        .with_reason("Reading then wears the drive, and makes many small writes.")
        .with_remedy(
            "Write it once a day (relatime); 'ssdlab doctor --fix atime' changes /etc/fstab, and \
             keeps a copy",
            Some(format!("mount -o remount,relatime {}", quoted(&mount.point))),
        ),
    })
}
