//! Options in `/etc/fstab`: only the options of the lines that are meant change, to the letter.

use super::{Change, Place, nothing, read};
use crate::error::HostError;
use crate::mounts::fstab_lines;

const PATH: &str = "etc/fstab";

/// Takes the options that `goes` names out of the lines of these mount points, and puts `comes`
/// in. Returns the change, and the mount points whose lines it changes.
pub(super) fn plan(
    place: &Place,
    points: &[String],
    goes: impl Fn(&str) -> bool,
    comes: Option<&str>,
) -> Result<(Change, Vec<String>), HostError> {
    let before = read(place, PATH)?
        .ok_or_else(|| HostError::Unsupported("there is no /etc/fstab to change".to_owned()))?;
    let mut lines: Vec<String> = before.split('\n').map(str::to_owned).collect();
    let mut changed = Vec::new();
    for line in fstab_lines(&before) {
        if !points.contains(&line.point) {
            continue;
        }
        let mut options: Vec<&str> =
            line.options.iter().map(String::as_str).filter(|option| !goes(option)).collect();
        options.extend(comes);
        if options.is_empty() {
            options.push("defaults");
        }
        let options = options.join(",");
        if options != line.options.join(",") {
            lines[line.index] = with_options(&lines[line.index], &options);
            changed.push(line.point);
        }
    }
    if changed.is_empty() {
        return Err(nothing(
            "no line of /etc/fstab for it has such an option (it may be set by a unit of systemd, \
             or by hand)",
        ));
    }
    let after = lines.join("\n");
    Ok((Change::Write { path: PATH.to_owned(), before: Some(before), after }, changed))
}

/// The line with other options in its fourth field.
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
        // Three fields only: the options are the kernel's own.
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
