//! Check of /tmp: does it lie in memory or on a drive?

use crate::doctor::{Check, Context, Verdict};
use crate::mounts;

pub(super) fn check(context: &Context) -> Check {
    let mounted = mounts::mounted(context.facts);
    let seen = match mounts::mount_of("/tmp", &mounted) {
        Some(mount) if mount.file_system == "tmpfs" => "/tmp lies in memory",
        Some(_) => "/tmp lies on a drive",
        None => return Check::new("temporary-files", Verdict::Unknown, "nothing is known of /tmp"),
    };
    Check::new("temporary-files", Verdict::Fine, seen).with_reason(
        "In memory it saves writes, and takes memory; either is fine. systemd has tmp.mount for it.",
    )
}
