//! Status of an attached drive: counters and state, as JSON and as a Prometheus textfile.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use ssdlab_model::attribution::Attribution;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::mapping::cached::InRam;

use crate::completion_lateness::Lateness;
use crate::engine::Statistics;

/// Number of classes by valid share: tenths.
pub const SHARES: usize = 10;

/// Status of a drive at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Version of this record.
    pub schema: &'static str,
    /// Path of the image.
    pub image: String,
    /// Place of the drive: device, file or address.
    pub place: String,
    /// Name of the profile.
    pub profile: String,
    /// Process that has the drive attached.
    pub pid: u32,
    /// Seconds since the drive was attached.
    pub attached_s: f64,
    /// True in real time: requests take as long as on the drive.
    pub real_time: bool,
    /// The drive's clock, in seconds.
    pub clock_s: f64,
    /// Bytes that the host can address.
    pub capacity_bytes: u64,
    /// Bytes in a mapping unit, in which counters count.
    pub unit_bytes: u64,
    /// Counters over the life of the drive.
    pub counters: Counters,
    /// Write amplification; `None` if it is not defined.
    pub write_amplification: Option<f64>,
    /// Erase counts of the blocks.
    pub wear: Wear,
    /// Number of free blocks.
    pub free_blocks: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of closed blocks by their share of valid units: up to a tenth, two tenths, and so on.
    pub blocks_by_valid_share: [u32; SHARES],
    /// Cached part of a map on flash; `None` for other maps. Hits and misses are among the counters.
    pub map_cache: Option<MapCache>,
    /// Requests since the drive was attached.
    pub requests: Statistics,
    /// Time of requests by cause, over the life of the drive.
    pub attribution: Attribution,
    /// Lateness of answers in real time.
    pub lateness: Lateness,
}

/// Maximum number of cells in a picture. On drives with more blocks, neighbours share a cell.
pub(crate) const CELLS_MAX: usize = 2048;

/// Picture of the blocks of a drive at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Number of blocks of the drive.
    pub blocks: u32,
    /// Number of neighbouring blocks in a cell.
    pub blocks_per_cell: u32,
    /// Cells, four bytes each as [`ssdlab_model::ftl::Ssd::fill_cells`] describes them, in base64.
    cells: String,
}

impl Blocks {
    pub(crate) fn new(blocks: u32, blocks_per_cell: u32, cells: &[u8]) -> Blocks {
        Blocks { blocks, blocks_per_cell, cells: STANDARD.encode(cells) }
    }

    /// Returns the cells; `None` if they are damaged.
    pub fn cells(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.cells).ok()
    }

    /// Returns the cells in base64.
    pub fn packed_cells(&self) -> &str {
        &self.cells
    }
}

/// Cached part of a map on flash, in map pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MapCache {
    /// Number of pages in RAM.
    pub pages: u32,
    /// Maximum number of pages in RAM.
    pub capacity: u32,
    /// Number of pages in RAM that differ from the flash.
    pub dirty: u32,
}

impl From<InRam> for MapCache {
    fn from(InRam { pages, capacity, dirty }: InRam) -> MapCache {
        MapCache { pages, capacity, dirty }
    }
}

/// Sums up the numbers of blocks with 0, 1, 2 .. valid units, by share.
pub fn histogram_by_share(blocks: &[u32]) -> [u32; SHARES] {
    let mut shares = [0; SHARES];
    let most = (blocks.len() - 1).max(1);
    for (valid, count) in blocks.iter().enumerate() {
        shares[(valid * SHARES).div_ceil(most).clamp(1, SHARES) - 1] += count;
    }
    shares
}

impl Status {
    /// Returns the status in the text format of Prometheus.
    pub fn prometheus(&self) -> String {
        let labels = format!(
            "image=\"{}\",profile=\"{}\"",
            self.image.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"),
            self.profile
        );
        let mut text = String::new();
        let mut figure = |name: &str, kind: &str, help: &str, more: &str, value: f64| {
            if !help.is_empty() {
                let _ = writeln!(text, "# HELP ssdlab_{name} {help}");
                let _ = writeln!(text, "# TYPE ssdlab_{name} {kind}");
            }
            let _ = writeln!(text, "ssdlab_{name}{{{labels}{more}}} {value}");
        };
        let unit = self.unit_bytes as f64;
        let c = &self.counters;
        let counters = [
            ("host_read_bytes_total", "Bytes the host has read.", c.host_read_units as f64 * unit),
            (
                "host_written_bytes_total",
                "Bytes the host has written, in whole mapping units.",
                c.host_write_units as f64 * unit,
            ),
            (
                "flash_written_bytes_total",
                "Bytes the flash was programmed with.",
                c.flash_write_units() as f64 * unit,
            ),
            ("trimmed_bytes_total", "Bytes the host has trimmed.", c.host_trim_units as f64 * unit),
            ("flushes_total", "Flush commands.", c.flushes as f64),
            ("erases_total", "Collection units erased.", c.erases as f64),
            ("map_hits_total", "Map pages that were in RAM when needed.", c.map_hits as f64),
            ("map_misses_total", "Map pages that were not.", c.map_misses as f64),
            ("unsafe_shutdowns_total", "Times that power was lost.", c.unsafe_shutdowns as f64),
        ];
        for (name, help, value) in counters {
            figure(name, "counter", help, "", value);
        }
        let gauges = [
            (
                "write_amplification",
                "Units programmed for each that the host wrote.",
                self.write_amplification.unwrap_or(f64::NAN),
            ),
            ("free_blocks", "Collection units that are erased.", f64::from(self.free_blocks)),
            ("erases_per_block_max", "Erases of the most worn block.", self.wear.erases_max.into()),
            ("erases_per_block_mean", "Mean erases of a block.", self.wear.erases_mean),
        ];
        for (name, help, value) in gauges {
            figure(name, "gauge", help, "", value);
        }
        let mut help = "Closed blocks by the share of valid units, up to tenths.";
        for (tenth, &count) in (1..).zip(&self.blocks_by_valid_share) {
            let more = format!(",valid_tenths=\"{tenth}\"");
            figure("blocks", "gauge", help, &more, count.into());
            help = "";
        }
        let mut help = "Latency on the drive's clock.";
        let r = &self.requests;
        for (kind, it) in
            [("read", r.reads), ("write", r.writes), ("flush", r.flushes), ("trim", r.trims)]
        {
            for (quantile, ns) in [("0.5", it.p50_ns), ("0.9", it.p90_ns), ("0.99", it.p99_ns)] {
                let more = format!(",kind=\"{kind}\",quantile=\"{quantile}\"");
                figure("latency_seconds", "gauge", help, &more, ns as f64 / 1e9);
                help = "";
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_by_tenths_of_what_is_valid() {
        let mut blocks = vec![0; 101];
        (blocks[0], blocks[10], blocks[11], blocks[100]) = (1, 2, 4, 8);
        let shares = histogram_by_share(&blocks);
        assert_eq!((shares[0], shares[1], shares[9]), (3, 4, 8));
        assert_eq!(shares.iter().sum::<u32>(), 15);
    }
}
