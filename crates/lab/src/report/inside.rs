//! Counters, wear and latency attribution of a simulated drive, as a report holds them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parts below this share of the time of requests are left out of `ReportAttribution::shares`.
const MIN_SHARE: f64 = 0.005;

/// Counters of the inside of a simulated drive over the whole run. Units are mapping units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportCounters {
    /// Units the host wrote, whole or in part.
    pub host_writes: u64,
    /// Of these, units it wrote only in part: the drive reads the rest and programs a whole one.
    #[serde(default)]
    pub part_writes: u64,
    /// Units the host read.
    pub host_reads: u64,
    /// Units programmed, for the host, for collection, as padding or with metadata.
    pub flash_writes: u64,
    /// `flash_writes` / `host_writes`; null before the first write.
    pub write_amplification: Option<f64>,
    /// Of `flash_writes`, those with metadata: the map on flash or its journal, the map saved now and
    /// then, records of trims. What NVMe's own counters do not show.
    #[serde(default)]
    pub metadata_writes: u64,
    /// The rest of `flash_writes` / `host_writes`, which is what theory speaks of; null before the
    /// first write.
    #[serde(default)]
    pub data_write_amplification: Option<f64>,
    /// Bytes the host wrote.
    #[serde(default)]
    pub host_written_bytes: u64,
    /// Bytes the flash was programmed with; by `host_written_bytes` this is the write amplification
    /// that data sheets rate life with, and more than `write_amplification` where the host writes
    /// parts of units.
    #[serde(default)]
    pub flash_written_bytes: u64,
    /// Units that collection moved.
    pub collection_writes: u64,
    /// Units copied to keep the map small or blocks in order: extents condensed into one, merges.
    #[serde(default)]
    pub merge_writes: u64,
    /// Units programmed empty to complete a program unit.
    pub padding_writes: u64,
    /// Flash pages read for the host.
    pub flash_page_reads: u64,
    /// Flash pages read by collection.
    pub collection_page_reads: u64,
    /// Flash pages read to complete units that the host wrote in part.
    #[serde(default)]
    pub merge_page_reads: u64,
    /// Pages of a map on flash that were read.
    #[serde(default)]
    pub map_page_reads: u64,
    /// Collection units erased.
    pub erases: u64,
    /// Erases of the least worn collection unit.
    pub erases_min: u32,
    /// Mean number of erases of a collection unit.
    pub erases_mean: f64,
    /// Erases of the most worn collection unit.
    pub erases_max: u32,
    /// Units the host trimmed.
    pub trims: u64,
    /// Flush commands.
    pub flushes: u64,
}

impl ReportCounters {
    /// Returns the sum of the counters of two drives, or of one drive before and after a purge. Erase counts
    /// are not summed: least and most are the extremes of the two, and the mean is the larger one, because a
    /// purged drive has the same collection units.
    pub(crate) fn and(self, other: ReportCounters) -> ReportCounters {
        let host_writes = self.host_writes + other.host_writes;
        let flash_writes = self.flash_writes + other.flash_writes;
        let metadata_writes = self.metadata_writes + other.metadata_writes;
        let ratio = |units: u64| (host_writes > 0).then(|| units as f64 / host_writes as f64);
        ReportCounters {
            host_writes,
            part_writes: self.part_writes + other.part_writes,
            host_written_bytes: self.host_written_bytes + other.host_written_bytes,
            flash_written_bytes: self.flash_written_bytes + other.flash_written_bytes,
            host_reads: self.host_reads + other.host_reads,
            flash_writes,
            write_amplification: ratio(flash_writes),
            metadata_writes,
            data_write_amplification: ratio(flash_writes - metadata_writes),
            collection_writes: self.collection_writes + other.collection_writes,
            merge_writes: self.merge_writes + other.merge_writes,
            padding_writes: self.padding_writes + other.padding_writes,
            flash_page_reads: self.flash_page_reads + other.flash_page_reads,
            merge_page_reads: self.merge_page_reads + other.merge_page_reads,
            map_page_reads: self.map_page_reads + other.map_page_reads,
            collection_page_reads: self.collection_page_reads + other.collection_page_reads,
            erases: self.erases + other.erases,
            erases_min: self.erases_min.min(other.erases_min),
            erases_mean: self.erases_mean.max(other.erases_mean),
            erases_max: self.erases_max.max(other.erases_max),
            trims: self.trims + other.trims,
            flushes: self.flushes + other.flushes,
        }
    }
}

/// Wear of a drive, by the names of the NVMe SMART / Health information log (log page 02h). Fields
/// of which the model knows nothing (temperatures, power cycles, media errors) are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportHealth {
    /// Bit 0: the spare is below its threshold. Bit 3: the drive has become read-only.
    pub critical_warning: u8,
    /// Percentage of the spare blocks that are left; absent where no block goes bad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_spare: Option<u8>,
    /// Below which of that the drive warns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_spare_threshold: Option<u8>,
    /// Mean erases of a block in percent of the rated cycles, 255 at most; absent where the profile
    /// names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage_used: Option<u8>,
    /// Read by the host, in thousands of 512 bytes, rounded up.
    pub data_units_read: u64,
    /// Written by the host, in the same.
    pub data_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands.
    pub host_write_commands: u64,
    /// Minutes in which at least one request was with the drive.
    pub controller_busy_time: u64,
    /// Hours of the drive's time since it was made, purged or opened.
    pub power_on_hours: u64,
    /// Times that power was lost without warning.
    pub unsafe_shutdowns: u64,
    /// Writes that were refused because the drive had become read-only.
    pub num_err_log_entries: u64,
    /// Not of the log: bytes that the host can still write until the rated cycles are used up, at
    /// the write amplification so far; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_life_bytes: Option<u64>,
}

/// Parts of the time of requests, summed over all requests of a kind. Of a
/// stack of drives, summed over its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportAttribution {
    /// Reads.
    pub reads: Vec<TimePart>,
    /// Writes.
    pub writes: Vec<TimePart>,
    /// Flushes and trims.
    pub others: Vec<TimePart>,
}

/// Time spent on one thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePart {
    /// Reason for which the time was spent, such as `flash read` or `queue`.
    pub name: String,
    /// Seconds of the drive's time, summed over requests.
    pub seconds: f64,
}

impl ReportAttribution {
    /// For each kind of request that occurred, returns its name and the parts of at least `MIN_SHARE`,
    /// the largest first, as shares of the total time.
    pub fn shares(&self) -> Vec<(&'static str, Vec<(&str, f64)>)> {
        let kinds =
            [("reads", &self.reads), ("writes", &self.writes), ("flushes and trims", &self.others)];
        let mut shares = Vec::new();
        for (kind, parts) in kinds {
            let total: f64 = parts.iter().map(|part| part.seconds).sum();
            let share = |part: &TimePart| part.seconds / total;
            let mut named: Vec<(&str, f64)> =
                parts.iter().map(|part| (part.name.as_str(), share(part))).collect();
            named.retain(|(_, share)| *share >= MIN_SHARE);
            named.sort_by(|one, other| other.1.total_cmp(&one.1));
            if !named.is_empty() {
                shares.push((kind, named));
            }
        }
        shares
    }
}
