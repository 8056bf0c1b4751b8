//! What is mounted, and what the system was told to mount.

use std::path::Path;

use ssdlab_blockdev::{Mount, mounts};

use crate::facts::Facts;

/// All mounts, in the order they were made.
pub(crate) fn mounted(facts: &dyn Facts) -> Vec<Mount> {
    let text = facts.read("/proc/self/mountinfo").unwrap_or_default();
    mounts::read(&text)
}

/// The mount that a path lies on.
pub(crate) fn mount_of<'a>(path: &str, mounts: &'a [Mount]) -> Option<&'a Mount> {
    mounts::above(Path::new(path), mounts)
}

/// A line of `/etc/fstab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FstabLine {
    /// Which line it is, counted from 0.
    pub(crate) index: usize,
    /// What is to be mounted: a path, `UUID=...`.
    pub(crate) source: String,
    /// Where.
    pub(crate) point: String,
    /// The options.
    pub(crate) options: Vec<String>,
}

/// The lines of `/etc/fstab` that mount something.
pub(crate) fn fstab(facts: &dyn Facts) -> Vec<FstabLine> {
    let text = facts.read("/etc/fstab").unwrap_or_default();
    fstab_lines(&String::from_utf8_lossy(&text))
}

/// The lines of such a text that mount something.
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
