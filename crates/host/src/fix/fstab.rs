//! Edits `/etc/fstab`: changes only the options of the lines that are meant, and nothing else in them.

use super::{Change, SystemRoot, nothing_to_fix, read};
use crate::error::HostError;
use crate::format::quoted;
use crate::mounts::fstab_lines;

const PATH: &str = "etc/fstab";

/// Options to remove and to add, in the lines of fstab and in the mounts.
pub(super) struct FstabEdit<'a> {
    /// Returns true for options to remove.
    pub(super) is_removed: fn(&str) -> bool,
    /// Option to add, if any.
    pub(super) added: Option<&'a str>,
    /// Option for `mount -o remount`, which has the same effect at once.
    pub(super) remount: &'a str,
    /// Mount points whose current options differ from the edited ones.
    pub(super) mounts_to_remount: Vec<String>,
}

impl FstabEdit<'_> {
    fn remount(&self, point: &str) -> String {
        format!("mount -o remount,{} {}", self.remount, quoted(point))
    }
}

/// Plans the change of the lines of these mount points. Returns the change, and the commands that remain to be given by
/// hand.
pub(super) fn plan(
    system: &SystemRoot,
    points: &[String],
    edit: &FstabEdit,
) -> Result<(Change, Vec<String>), HostError> {
    let before = read(system, PATH)?
        .ok_or_else(|| HostError::Unsupported("there is no /etc/fstab to change".to_owned()))?;
    let mut lines: Vec<String> = before.split('\n').map(str::to_owned).collect();
    let (mut changed, mut already_right) = (Vec::new(), Vec::new());
    for line in fstab_lines(&before) {
        if !points.contains(&line.point) {
            continue;
        }
        let kept =
            line.options.iter().map(String::as_str).filter(|option| !(edit.is_removed)(option));
        let mut options: Vec<&str> = kept.collect();
        options.extend(edit.added);
        if options.is_empty() {
            options.push("defaults");
        }
        let options = options.join(",");
        if options == line.options.join(",") {
            already_right.push(line.point);
        } else {
            lines[line.index] = with_options(&lines[line.index], &options);
            changed.push(line.point);
        }
    }
    let unchanged: Vec<&String> =
        edit.mounts_to_remount.iter().filter(|point| !changed.contains(point)).collect();
    if changed.is_empty() {
        return Err(nothing_to_change(&unchanged, &already_right, edit));
    }
    let after = lines.join("\n");
    let commands = changed.iter().chain(unchanged).map(|point| edit.remount(point)).collect();
    Ok((Change::Write { path: PATH.to_owned(), before: Some(before), after }, commands))
}

/// Returns the error if no line changes, with the commands that help instead.
fn nothing_to_change(
    unchanged: &[&String],
    already_right: &[String],
    edit: &FstabEdit,
) -> HostError {
    if unchanged.is_empty() {
        return nothing_to_fix("no mount and no line of /etc/fstab needs the change");
    }
    let hints = unchanged.iter().map(|point| {
        let command = edit.remount(point);
        match already_right.contains(point) {
            true => format!(
                "the line of /etc/fstab for {point} is right, but the mount has other options; \
                 '{command}' changes the mount"
            ),
            false => format!(
                "no line of /etc/fstab mounts {point}, so its options are set elsewhere (a unit of \
                 systemd, the kernel's command line, or by hand): '{command}' changes them until it \
                 is mounted again"
            ),
        }
    });
    let hints: Vec<String> = hints.collect();
    nothing_to_fix(&format!("in /etc/fstab: {}", hints.join("; ")))
}

/// Returns the line with other options in its fourth field.
fn with_options(line: &str, options: &str) -> String {
    let mut field = 0;
    let mut was_blank = true;
    let mut range = line.len()..line.len();
    for (index, letter) in line.char_indices() {
        if was_blank && !letter.is_whitespace() {
            field += 1;
            if field == 4 {
                range = index..line.len();
            }
        } else if !was_blank && letter.is_whitespace() && field == 4 && range.end == line.len() {
            range.end = index;
        }
        was_blank = letter.is_whitespace();
    }
    match range.is_empty() {
        // The line has three fields only: the options are the defaults.
        true => format!("{} {options}", line.trim_end()),
        false => format!("{}{options}{}", &line[..range.start], &line[range.end..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_options_change() {
        let line = "UUID=1\t/mnt  ext4   discard,noatime\t0 2  # mine";
        assert_eq!(with_options(line, "noatime"), "UUID=1\t/mnt  ext4   noatime\t0 2  # mine");
        assert_eq!(with_options("/dev/a /b ext4", "relatime"), "/dev/a /b ext4 relatime");
        assert_eq!(with_options("/dev/a /b ext4 x", "y"), "/dev/a /b ext4 y");
    }
}
