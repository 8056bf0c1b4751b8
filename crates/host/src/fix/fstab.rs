//! Edits `/etc/fstab`: changes only the options of the lines that are meant, and nothing else in them.

use super::{Change, Place, nothing, read};
use crate::error::HostError;
use crate::mounts::fstab_lines;
use crate::words::quoted;

const PATH: &str = "etc/fstab";

/// Options to remove and to add, in the lines of fstab and in the mounts.
pub(super) struct Wish<'a> {
    /// Returns true for options to remove.
    pub(super) goes: fn(&str) -> bool,
    /// Option to add, if any.
    pub(super) comes: Option<&'a str>,
    /// Option for `mount -o remount`, which has the same effect at once.
    pub(super) remount: &'a str,
    /// Mount points whose current options differ from the wish.
    pub(super) mounted_otherwise: Vec<String>,
}

impl Wish<'_> {
    fn remount(&self, point: &str) -> String {
        format!("mount -o remount,{} {}", self.remount, quoted(point))
    }
}

/// Plans the change of the lines of these mount points. Returns the change, and the commands that remain to be given by
/// hand.
pub(super) fn plan(
    place: &Place,
    points: &[String],
    wish: &Wish,
) -> Result<(Change, Vec<String>), HostError> {
    let before = read(place, PATH)?
        .ok_or_else(|| HostError::Unsupported("there is no /etc/fstab to change".to_owned()))?;
    let mut lines: Vec<String> = before.split('\n').map(str::to_owned).collect();
    let (mut changed, mut right) = (Vec::new(), Vec::new());
    for line in fstab_lines(&before) {
        if !points.contains(&line.point) {
            continue;
        }
        let kept = line.options.iter().map(String::as_str).filter(|option| !(wish.goes)(option));
        let mut options: Vec<&str> = kept.collect();
        options.extend(wish.comes);
        if options.is_empty() {
            options.push("defaults");
        }
        let options = options.join(",");
        if options == line.options.join(",") {
            right.push(line.point);
        } else {
            lines[line.index] = with_options(&lines[line.index], &options);
            changed.push(line.point);
        }
    }
    let unchanged: Vec<&String> =
        wish.mounted_otherwise.iter().filter(|point| !changed.contains(point)).collect();
    if changed.is_empty() {
        return Err(nothing_to_change(&unchanged, &right, wish));
    }
    let after = lines.join("\n");
    let commands = changed.iter().chain(unchanged).map(|point| wish.remount(point)).collect();
    Ok((Change::Write { path: PATH.to_owned(), before: Some(before), after }, commands))
}

/// Returns the error if no line changes, with the commands that help instead.
fn nothing_to_change(unchanged: &[&String], right: &[String], wish: &Wish) -> HostError {
    if unchanged.is_empty() {
        return nothing("neither a mount nor its line of /etc/fstab is to be changed");
    }
    let words = unchanged.iter().map(|point| {
        let command = wish.remount(point);
        match right.contains(point) {
            true => format!(
                "the line of /etc/fstab for {point} is right, but it is not mounted as that says; \
                 '{command}' changes the mount"
            ),
            false => format!(
                "no line of /etc/fstab mounts {point}, so its options are set elsewhere (a unit of \
                 systemd, the kernel's command line, or by hand): '{command}' changes them until it \
                 is mounted again"
            ),
        }
    });
    let words: Vec<String> = words.collect();
    nothing(&format!("in /etc/fstab: {}", words.join("; ")))
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
