//! Units of write counters, by the names that smartmontools gives to attributes.

/// Side of the drive at which writes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteSide {
    /// Writes to the drive, by hosts.
    Host,
    /// Writes to the flash, by hosts and by the drive.
    Flash,
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteUnit {
    /// Logical sectors.
    Sectors,
    /// This many bytes.
    Bytes(u64),
}

impl WriteUnit {
    /// Returns the bytes of the unit, if a sector has `sector` bytes.
    pub(super) fn bytes(self, sector: u64) -> Option<u64> {
        match self {
            WriteUnit::Sectors => Some(sector),
            WriteUnit::Bytes(bytes) => Some(bytes),
        }
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Endings of names with their units; longer endings come before those that are their ends.
const UNITS: [(&str, u64); 9] = [
    ("16gib", 16 * GIB),
    ("32mib", 32 * MIB),
    ("16mib", 16 * MIB),
    ("gib", GIB),
    ("mib", MIB),
    ("tib", TIB),
    ("gb", 1_000_000_000),
    ("mb", 1_000_000),
    ("tb", 1_000_000_000_000),
];

/// Returns the side and the unit of a write counter, by its lower-case name; `None` for everything else,
/// for halves of a number, and if the name has no unit.
pub(super) fn write_unit(name: &str) -> Option<(WriteSide, WriteUnit)> {
    if !is_writes(name) {
        return None;
    }
    let words: Vec<&str> = name.split('_').collect();
    let unit = words.iter().rev().find_map(|word| {
        let ends = UNITS.iter().find(|(unit, _)| word.strip_suffix(unit).is_some_and(is_count));
        ends.map(|(_, bytes)| WriteUnit::Bytes(*bytes))
    });
    let is_sectors =
        || words.iter().any(|word| matches!(*word, "lba" | "lbas" | "sector" | "sectors"));
    let unit = unit.or_else(|| is_sectors().then_some(WriteUnit::Sectors))?;
    Some((side(name), unit))
}

/// Returns true for the name of a counter of host writes, whatever the unit.
pub(super) fn is_host_writes(name: &str) -> bool {
    is_writes(name) && side(name) == WriteSide::Host
}

fn is_count(text: &str) -> bool {
    matches!(text, "" | "1")
}

fn side(name: &str) -> WriteSide {
    const FLASH: [&str; 7] = ["nand", "flash", "flsh", "slc", "tlc", "media_writ", "to_ssd"];
    match FLASH.iter().any(|word| name.contains(word)) {
        true => WriteSide::Flash,
        false => WriteSide::Host,
    }
}

fn is_writes(name: &str) -> bool {
    // Excluded: errors and speeds of writing, numbers of commands and pages, and numbers in two halves.
    const NOT: [&str; 15] = [
        "error", "fail", "prot", "rate", "head", "throttl", "erase", "command", "page", "log_",
        "fly", "amp", "_low", "_high", "_exp",
    ];
    let words =
        ["writes", "written", "write_sector", "sector_write", "_wts_", "nand_prog", "nand_prg"];
    words.iter().any(|word| name.contains(word)) && !NOT.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_off_the_names() {
        let host = |bytes| Some((WriteSide::Host, WriteUnit::Bytes(bytes)));
        let flash = |bytes| Some((WriteSide::Flash, WriteUnit::Bytes(bytes)));
        for (name, expected) in [
            ("Total_LBAs_Written", Some((WriteSide::Host, WriteUnit::Sectors))),
            ("Total_Host_LBA_Written", Some((WriteSide::Host, WriteUnit::Sectors))),
            ("Total_Host_Sector_Write", Some((WriteSide::Host, WriteUnit::Sectors))),
            ("Host_Writes_32MiB", host(32 << 20)),
            ("Host_Writes_MiB", host(1 << 20)),
            ("Host_Writes_GiB", host(1 << 30)),
            ("Lifetime_Writes_GiB", host(1 << 30)),
            ("Total_Writes_GiB", host(1 << 30)),
            ("Total_Writes_GB", host(1_000_000_000)),
            ("Lifetime_Wts_Frm_Hst_GB", host(1_000_000_000)),
            ("NAND_Writes_1GiB", flash(1 << 30)),
            ("Flash_Writes_32MiB", flash(32 << 20)),
            ("Total_NAND_Prog_Ct_GiB", flash(1 << 30)),
            ("NAND_GB_Written_TLC", flash(1_000_000_000)),
            ("Sectors_Written_to_NAND", Some((WriteSide::Flash, WriteUnit::Sectors))),
            ("Sectors_Written_to_SSD", Some((WriteSide::Flash, WriteUnit::Sectors))),
            // Names without a unit, halves of numbers, and names that only look similar.
            ("Host_Writes", None),
            ("NAND_Writes", None),
            ("Total_LBAs_Written_Low", None),
            ("Host_LBA_Write_Exp", None),
            ("Total_LBAs_Read", None),
            ("High_Fly_Writes", None),
            ("Write_Error_Rate", None),
            ("Host_Program_Page_Count", None),
            ("Unsafe_Shutdown_Count", None),
        ] {
            assert_eq!(write_unit(&name.to_lowercase()), expected, "{name}");
        }
        assert!(is_host_writes("host_writes") && !is_host_writes("nand_writes"));
    }
}
