//! Signatures on a block device, as wipefs or blkid detect them: shown before the device is overwritten.

use std::path::Path;

use super::tool;

/// Describes signatures of file systems, partition tables, RAID members and the like. The error is the
/// reason why the device could not be searched.
pub fn on(device: &Path) -> Result<Vec<String>, String> {
    match by_wipefs(device) {
        Ok(found) => Ok(found),
        Err(why) => by_blkid(device).map_err(|also| format!("{why}; {also}")),
    }
}

fn by_wipefs(device: &Path) -> Result<Vec<String>, String> {
    let arguments = ["--json".as_ref(), "--no-act".as_ref(), device.as_os_str()];
    let output = tool::run("wipefs", &arguments, Some(tool::LOOK))?;
    if !output.status.success() {
        return Err(format!("wipefs failed ({})", output.last_line()));
    }
    // For a device without signatures wipefs prints nothing.
    let Some(data) = output.json() else { return Ok(Vec::new()) };
    let found = data["signatures"].as_array().map(Vec::as_slice).unwrap_or_default();
    let words = found.iter().map(|one| {
        let text = |name: &str| one[name].as_str().map(str::trim).filter(|text| !text.is_empty());
        let kind = text("type").unwrap_or("of an unknown kind");
        let label = text("label").map_or(String::new(), |label| format!(" labelled \"{label}\""));
        format!("{kind}{label}")
    });
    let mut words: Vec<String> = words.collect();
    // Some formats have several signatures, such as both copies of a partition table.
    words.dedup();
    Ok(words)
}

fn by_blkid(device: &Path) -> Result<Vec<String>, String> {
    let arguments = ["-p", "-o", "export"].map(AsRef::as_ref);
    let arguments = [&arguments[..], &[device.as_os_str()]].concat();
    let output = tool::run("blkid", &arguments, Some(tool::LOOK))?;
    let value = |name: &str| output.stdout.lines().find_map(|line| line.strip_prefix(name));
    match (output.status.code(), value("TYPE=").or_else(|| value("PTTYPE="))) {
        (Some(0), Some(kind)) => Ok(vec![kind.to_owned()]),
        // The exit codes of blkid for a device without signatures.
        (Some(0 | 2), None) => Ok(Vec::new()),
        _ => Err(format!("blkid failed ({})", output.last_line())),
    }
}
