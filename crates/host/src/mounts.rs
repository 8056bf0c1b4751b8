//! Mounted file systems, and the lines of /etc/fstab.

use std::path::Path;

use ssdlab_blockdev::{Mount, mounts};

use crate::facts::Facts;

/// Returns all mounts, in the order in which they were made.
pub(crate) fn mounted(facts: &dyn Facts) -> Vec<Mount> {
    let text = facts.read("/proc/self/mountinfo").unwrap_or_default();
    mounts::read(&text)
}

/// Returns the mount that a path lies on.
pub(crate) fn mount_of<'a>(path: &str, mounts: &'a [Mount]) -> Option<&'a Mount> {
    mounts::above(Path::new(path), mounts)
}

/// A line of `/etc/fstab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FstabLine {
    /// Number of the line, counted from 0.
    pub(crate) index: usize,
    /// Source of the mount: a path, `UUID=...`.
    pub(crate) source: String,
    /// Mount point.
    pub(crate) point: String,
    /// Mount options.
    pub(crate) options: Vec<String>,
}

/// Returns the lines of `/etc/fstab` that mount something.
pub(crate) fn fstab(facts: &dyn Facts) -> Vec<FstabLine> {
    let text = facts.read("/etc/fstab").unwrap_or_default();
    fstab_lines(&String::from_utf8_lossy(&text))
}

/// Returns the lines of an fstab's text that mount something.
pub(crate) fn fstab_lines(text: &str) -> Vec<FstabLine> {
    let line = |(index, line): (usize, &str)| {
        let mut fields = line.split_whitespace();
        let source = fields.next().filter(|field| !field.starts_with('#'))?.to_owned();
        let point = fields.next()?.replace("\\040", " ");
        let _kind = fields.next()?;
        let options = fields.next().unwrap_or("defaults").split(',').map(str::to_owned).collect();
        Some(FstabLine { index, source, point, options })
    };
    text.lines().enumerate().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_is_read_as_mount_reads_it() {
        let lines =
            fstab_lines("# UUID=0 / ext4\n\nUUID=1\t/my\\040disk ext4 noatime,discard 0 2\nx y");
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].index, lines[0].point.as_str()), (2, "/my disk"));
        assert_eq!(lines[0].options, ["noatime", "discard"]);
    }
}
