//! Tables and status of device-mapper devices, as `dmsetup table` and `dmsetup status` print them.

use crate::facts::{Absent, Facts};

/// Target of a device-mapper device, by the first line of its table. Further lines are taken to be the same target on
/// other devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Name of the target: `linear`, `crypt`, `thin-pool`, ...
    pub(crate) kind: String,
    /// Arguments of the target.
    pub(crate) arguments: Vec<String>,
    /// Number of lines of the table.
    pub(crate) lines: usize,
}

impl Target {
    /// Returns the offset of the data on the device below, in bytes: `linear DEVICE OFFSET`, and
    /// `crypt CIPHER KEY IV_OFFSET DEVICE OFFSET` (Documentation/admin-guide/device-mapper).
    pub(crate) fn offset(&self) -> Option<u64> {
        let sectors = match self.kind.as_str() {
            "linear" => self.arguments.get(1)?,
            "crypt" => self.arguments.get(4)?,
            "striped" => self.arguments.get(3)?,
            _ => return None,
        };
        sectors.parse::<u64>().ok()?.checked_mul(512)
    }

    /// Returns true if one of the arguments is `option`.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.arguments.iter().any(|argument| argument == option)
    }
}

/// Returns the table of a device, by its name under `/dev/mapper`.
pub(crate) fn table(facts: &dyn Facts, name: &str) -> Result<Target, Absent> {
    let text = lines_of(facts, &["table"], name)?;
    let target = |line: &&str| {
        let mut words = line.split_whitespace().skip(2).map(str::to_owned);
        Some(Target {
            kind: words.next()?,
            arguments: words.collect(),
            lines: text.lines().count(),
        })
    };
    text.lines().next().as_ref().and_then(target).ok_or(Absent::Missing)
}

/// Returns the status of a device.
pub(crate) fn status(facts: &dyn Facts, name: &str) -> Result<String, Absent> {
    lines_of(facts, &["status"], name)
}

/// Returns the lines that `dmsetup` prints for one device. It is run for all devices, so that a capture contains all.
fn lines_of(facts: &dyn Facts, arguments: &[&str], name: &str) -> Result<String, Absent> {
    let output = facts.run("dmsetup", arguments)?;
    if output.status != Some(0) {
        let denied = output.stderr.contains("denied") || output.stderr.contains("not permitted");
        return Err(match denied || !facts.machine().is_root {
            true => Absent::Denied,
            false => Absent::Failed(output.stderr.trim().to_owned()),
        });
    }
    let prefix = format!("{name}: ");
    let lines: Vec<&str> =
        output.stdout.lines().filter_map(|line| line.strip_prefix(prefix.as_str())).collect();
    match lines.is_empty() {
        true => Err(Absent::Missing),
        false => Ok(lines.join("\n")),
    }
}

/// Returns volume group and logical volume of a device name. LVM doubles the dashes within each.
pub(crate) fn volume_of(name: &str) -> Option<(String, String)> {
    let bytes = name.as_bytes();
    let is_dash = |index: usize| bytes.get(index) == Some(&b'-');
    let mut index = 0;
    while index < bytes.len() {
        if is_dash(index) {
            if !is_dash(index + 1) {
                let plain = |text: &str| text.replace("--", "-");
                return Some((plain(&name[..index]), plain(&name[index + 1..])));
            }
            index += 1;
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Captured, Machine};

    #[test]
    fn the_table_of_one_device_is_found_among_all() {
        let mut facts = Captured::new(Machine {
            system: String::new(),
            release: String::new(),
            architecture: String::new(),
            time: 0,
            is_root: true,
        });
        let tables = "vg-lv: 0 100 linear 8:1 2048\nluks: 0 90 crypt aes-xts-plain64 :64:logon:x \
                      0 8:2 32768 1 allow_discards\nvg-lv: 100 50 linear 8:1 9999\n";
        facts.set_output("dmsetup", &["table"], 0, tables);
        let linear = table(&facts, "vg-lv").unwrap();
        assert_eq!((linear.kind.as_str(), linear.lines), ("linear", 2));
        assert_eq!(linear.offset(), Some(1 << 20));
        let crypt = table(&facts, "luks").unwrap();
        assert_eq!(crypt.offset(), Some(16 << 20));
        assert!(crypt.has("allow_discards"));
        assert_eq!(table(&facts, "other"), Err(Absent::Missing));
    }

    #[test]
    fn dashes_in_names_of_volumes_are_doubled() {
        let of = |name| volume_of(name).map(|(group, volume)| format!("{group}/{volume}"));
        assert_eq!(of("vg-lv").as_deref(), Some("vg/lv"));
        assert_eq!(of("my--vg-a--b").as_deref(), Some("my-vg/a-b"));
        assert_eq!(of("luks"), None);
    }
}
