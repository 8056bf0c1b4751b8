//! ATA: SMART attributes, device statistics and logs, as far as drives agree on them.
//!
//! Each maker has its own meanings of attribute numbers, so an attribute counts only under a name that
//! fits: the name that smartmontools' drive database gives it.

use ssdlab_units::ByteLength;

use super::signs::{Counter, ErrorCause, Sign};
use super::smartctl::{AtaError, AtaSelfTest, Attribute, ErrorLog, Report};
use super::units::{self, WriteSide, WriteUnit};
use super::{SelfTest, Smart, Spare, UnitlessWrites, hours_since};

/// Error counters: the attributes that may have them, words in the names of these, and the row of the
/// device statistics with the same count.
const COUNTERS: [(Counter, &[u64], &[&str], &str); 8] = [
    (
        Counter::Replaced,
        &[5],
        &["realloc", "retired", "bad_block", "bad_blk"],
        "Number of Reallocated Logical Sectors",
    ),
    (Counter::Pending, &[197], &["pending"], ""),
    (
        Counter::ReportedUncorrectable,
        &[187, 195, 160],
        &["uncorrect", "uncorr_err"],
        "Number of Reported Uncorrectable Errors",
    ),
    (Counter::OfflineUncorrectable, &[198], &["uncorrect"], ""),
    (Counter::EndToEnd, &[184], &["end-to-end", "end_to_end"], ""),
    (Counter::ProgramFailures, &[171, 181], &["program_fail"], ""),
    (Counter::EraseFailures, &[172, 182], &["erase_fail"], ""),
    (Counter::Link, &[199], &["crc"], "Number of Interface CRC Errors"),
];

/// Attributes that count host writes, the likeliest first.
const HOST_WRITES: [u64; 7] = [241, 246, 225, 235, 233, 199, 175];

/// Returns the state of an ATA drive.
pub(super) fn smart(report: &Report) -> Smart {
    let attributes = Attributes::of(report);
    let hours_on = report.power_on_time.hours.0;
    let mut smart = Smart {
        percentage_used: statistic(report, "Percentage Used Endurance Indicator")
            .or_else(|| attributes.life_left().map(|left| 100 - left))
            .or(report.endurance_used.current_percent.0),
        spare: attributes.spare(),
        written: written(report, &attributes),
        hours_on,
        ..Smart::default()
    };
    if smart.written.is_none() {
        smart.unitless_writes = attributes.unitless_writes();
    }
    smart.flash_written = attributes.flash_written(smart.written);
    for (counter, ids, words, row) in COUNTERS {
        let by_attribute = attributes.find(ids, words).and_then(Attribute::count);
        let by_statistic = statistic(report, row);
        let counted = by_attribute.max(by_statistic);
        if counter == Counter::Replaced {
            smart.media_errors = counted;
        }
        // The default names of drives that are not in the database are not reliable for these.
        let is_doubtful = matches!(counter, Counter::ProgramFailures | Counter::EraseFailures)
            && !attributes.is_described;
        let counted = match counter {
            Counter::Pending => counted.max(report.ata_pending_defects_log.count.0),
            _ => counted.filter(|_| !is_doubtful),
        };
        smart.add_count(counter, counted);
    }
    smart.signs.extend(attributes.rows.iter().filter_map(Attribute::failed));
    let logs = &report.ata_smart_error_log;
    let knows_more = logs.extended.count.0 >= logs.summary.count.0;
    let log = if knows_more { &logs.extended } else { &logs.summary };
    smart.signs.extend(log.sign(hours_on));
    let logs = &report.ata_smart_self_test_log;
    let log = if logs.extended.table.is_empty() { &logs.standard } else { &logs.extended };
    smart.add_self_tests(log.table.iter().filter_map(|test| test.outcome(hours_on)).collect());
    smart
}

/// Returns a row of the device statistics, unless the drive marks it as invalid.
fn statistic(report: &Report, name: &str) -> Option<u64> {
    let mut rows = report.ata_device_statistics.pages.iter().flat_map(|page| page.table.iter());
    let row = rows.find(|row| !name.is_empty() && row.name.0.as_deref() == Some(name))?;
    row.value.0.filter(|_| row.flags.valid.get() != Some(false))
}

fn written(report: &Report, attributes: &Attributes) -> Option<ByteLength> {
    let sectors = statistic(report, "Logical Sectors Written");
    let by_statistic = sectors.and_then(|sectors| sectors.checked_mul(attributes.sector));
    let traffic = &report.host_writes;
    let by_traffic = || traffic.units.0?.checked_mul(traffic.bytes_per_unit.0?);
    let bytes = by_statistic.or_else(by_traffic).map(ByteLength::new);
    bytes.or_else(|| attributes.written(WriteSide::Host))
}

struct Attributes<'a> {
    rows: &'a [Attribute],
    /// Bytes of a logical sector.
    sector: u64,
    /// False if smartctl reports that the drive is not in its database, and uses default names.
    is_described: bool,
}

impl<'a> Attributes<'a> {
    fn of(report: &'a Report) -> Attributes<'a> {
        Attributes {
            rows: &report.ata_smart_attributes.table,
            sector: report.logical_block_size.0.filter(|&size| size > 0).unwrap_or(512),
            is_described: report.in_smartctl_database.get() != Some(false),
        }
    }

    /// Returns the attribute with one of these numbers, the first preferred, whose name contains one of
    /// these words.
    fn find(&self, ids: &[u64], words: &[&str]) -> Option<&'a Attribute> {
        let named = |row: &&Attribute| {
            let name = row.lower_name();
            words.iter().any(|word| name.contains(word))
        };
        ids.iter().find_map(|id| self.rows.iter().filter(|row| row.id.0 == Some(*id)).find(named))
    }

    /// Returns the rated life left, in percent. Normalised values go from 100 down, even if the name says
    /// "used".
    fn life_left(&self) -> Option<u64> {
        const IDS: [u64; 13] = [231, 202, 233, 177, 169, 173, 209, 245, 248, 178, 201, 232, 181];
        let row = IDS.iter().find_map(|id| {
            let mut rows = self.rows.iter().filter(|row| row.id.0 == Some(*id));
            rows.find(|row| is_life(*id, &row.lower_name()))
        })?;
        let left = row.value.0.filter(|left| *left <= 100)?;
        // Controllers of Silicon Motion leave the normalised value at 100 and count in the raw value.
        let raw = row.count().filter(|raw| row.id.0 == Some(169) && (1..=100).contains(raw));
        Some(raw.map_or(left, |raw| raw.min(left)))
    }

    fn spare(&self) -> Option<Spare> {
        let row = self.find(&[232, 170, 202], &["reservd_space", "resrvd_space"])?;
        Spare::new(row.value.0, row.thresh.0).filter(|spare| spare.available <= 100)
    }

    /// Returns the bytes that an attribute counts as written by hosts, or to the flash.
    fn written(&self, side: WriteSide) -> Option<ByteLength> {
        let mut known = self.rows.iter().filter_map(|row| {
            let (found, unit) = units::write_unit(&row.lower_name())?;
            // For a drive that is not in its database, smartctl calls the unit sectors, whatever it is.
            let is_certain = self.is_described || unit != WriteUnit::Sectors;
            let count = row.count().filter(|_| found == side && is_certain)?;
            let bytes = unit.bytes(self.sector)?.checked_mul(count)?;
            Some((row.id.0?, ByteLength::new(bytes)))
        });
        if side == WriteSide::Flash {
            return known.next().map(|(_, bytes)| bytes);
        }
        let place = |id: u64| HOST_WRITES.iter().position(|it| *it == id);
        known.min_by_key(|(id, _)| place(*id).unwrap_or(HOST_WRITES.len())).map(|(_, bytes)| bytes)
    }

    fn flash_written(&self, written: Option<ByteLength>) -> Option<ByteLength> {
        let count = |id, word| self.find(&[id], &[word])?.count();
        // Some drives count writes to SLC and to TLC separately.
        let gigabytes = |id, word| count(id, word)?.checked_mul(1_000_000_000);
        if let (Some(tlc), Some(slc)) =
            (gigabytes(233, "nand_gb_written_tlc"), gigabytes(234, "nand_gb_written_slc"))
        {
            return tlc.checked_add(slc).map(ByteLength::new);
        }
        // Micron counts pages programmed for hosts and by the translation layer.
        let by_host = count(247, "program_page").filter(|&pages| pages > 0);
        let by_layer = count(248, "program_page");
        let by_pages = by_host.zip(by_layer).zip(written).map(|((host, layer), written)| {
            let amplification = 1.0 + layer as f64 / host as f64;
            ByteLength::new((written.bytes() as f64 * amplification) as u64)
        });
        by_pages.or_else(|| self.written(WriteSide::Flash))
    }

    /// Returns a count of host writes whose unit is not known.
    fn unitless_writes(&self) -> Option<UnitlessWrites> {
        HOST_WRITES.iter().find_map(|id| {
            let row = self.rows.iter().find(|row| row.id.0 == Some(*id))?;
            let name = row.name.get()?;
            let is_writes = units::is_host_writes(&row.lower_name());
            let count = row.count().filter(|_| is_writes)?;
            Some(UnitlessWrites { id: *id, name, count })
        })
    }
}

/// Returns true for names of attributes with the rated life left or used.
fn is_life(id: u64, name: &str) -> bool {
    let says_how_much = ["left", "remain", "used"].iter().any(|word| name.contains(word));
    match id {
        177 if name.contains("wear_leveling") => true,
        173 if name.contains("wear_leveling") => true,
        233 if name.contains("wearout") => true,
        _ => (name.contains("life") && says_how_much) || name == "percent_lifetime_remain",
    }
}

impl Attribute {
    fn lower_name(&self) -> String {
        self.name.0.as_deref().unwrap_or_default().to_lowercase()
    }

    /// Returns the raw value. Some drives pack further numbers into it; then smartctl prints the count
    /// first, and the others behind it in parentheses.
    fn count(&self) -> Option<u64> {
        let first = self.raw.string.0.as_deref().and_then(|text| text.split_whitespace().next());
        first.and_then(|first| first.parse().ok()).or(self.raw.value.0)
    }

    fn failed(&self) -> Option<Sign> {
        let when = self.when_failed.get()?.to_lowercase();
        // An empty text or a dash means never.
        let now = match when.as_str() {
            "now" | "failing_now" => true,
            "past" | "in_the_past" => false,
            _ => return None,
        };
        Some(Sign::AttributeFailed {
            id: self.id.0?,
            name: self.name.get().unwrap_or_default(),
            now,
            prefailure: self.flags.prefailure.get().unwrap_or(true),
        })
    }
}

impl ErrorLog {
    fn sign(&self, now: Option<u64>) -> Option<Sign> {
        let count = self.count.0.filter(|&count| count > 0)?;
        Some(Sign::LoggedErrors {
            count,
            hours_ago: hours_since(self.table.first().and_then(|it| it.lifetime_hours.0), now),
            cause: self.table.iter().map(AtaError::cause).max().unwrap_or(ErrorCause::Unknown),
        })
    }
}

impl AtaError {
    /// Returns the cause, by the error register (ACS-4), or by smartctl's description.
    fn cause(&self) -> ErrorCause {
        const ICRC: u64 = 1 << 7;
        const UNC: u64 = 1 << 6;
        const IDNF: u64 = 1 << 4;
        const ABRT: u64 = 1 << 2;
        let words = self.error_description.get().unwrap_or_default();
        let bits = self.completion_registers.error.0.unwrap_or(0);
        let has = |bit: u64, word: &str| bits & bit != 0 || words.contains(word);
        match () {
            () if has(ICRC, "ICRC") => ErrorCause::Link,
            () if has(UNC, "UNC") || has(IDNF, "IDNF") || words.contains("AMNF") => {
                ErrorCause::Media
            }
            () if has(ABRT, "ABRT") => ErrorCause::Refused,
            () => ErrorCause::Unknown,
        }
    }
}

impl AtaSelfTest {
    /// Returns the outcome; `None` if the test was aborted or still runs. The upper four bits of the
    /// status are 0 if it passed, 1 and 2 if it was aborted, 15 while it runs (ACS-4).
    fn outcome(&self, now: Option<u64>) -> Option<SelfTest> {
        let passed = match self.status.value.0? >> 4 {
            0 => true,
            3..=8 => false,
            _ => return None,
        };
        Some(SelfTest {
            passed,
            // Extended, off-line or captive.
            is_extended: self.kind.value.0.is_some_and(|kind| kind & 0x7f == 2),
            said: self.status.string.get().unwrap_or_default(),
            hours_ago: hours_since(self.lifetime_hours.0, now),
        })
    }
}
