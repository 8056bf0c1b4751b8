//! Arguments of `profile`: profiles of drives that the program does not know.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ssdlab_units::text::{parse_duration, parse_length};
use ssdlab_units::{ByteLength, Nanoseconds};

pub(super) const NEW_EXAMPLES: &str = "\
--random-write is the rate of a drive in use, as data sheets of data center
drives give it. Client drives are rated for their cache: leave it out for them,
and give the cache and the speed that reviews measured beyond it.

Examples:
  ssdlab profile new 'Some NVMe 960' --capacity 960GB --sequential-read 6500 \\
      --sequential-write 1500 --random-read 580k --random-write 70k \\
      --power-loss-protection -o some.toml
  ssdlab run steady sim:./some.toml --quick
          what it does
  ssdlab profile new 'A client drive' --capacity 1TB --sequential-read 7000 \\
      --sequential-write 1500 --random-read 1M --cache 113GB \\
      --cache-write 5000 --tbw 600TB
  ssdlab profile new 'A cheap drive' --capacity 500GB --flash qlc \\
      --sequential-read 2400 --sequential-write 100 --random-read 200k \\
      --dram 0";

/// Actions on profiles.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Make a profile from the figures of a data sheet
    #[command(after_help = NEW_EXAMPLES)]
    New(NewProfileArguments),
}

/// Bits in a cell of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Flash {
    Slc,
    Mlc,
    Tlc,
    Qlc,
}

/// Interface of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Interface {
    Sata,
    Nvme,
}

/// Arguments of `profile new`.
#[derive(Args, Debug)]
pub struct NewProfileArguments {
    /// Name of the drive
    pub name: String,
    /// Capacity that the host can address, such as 960GB
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub capacity: ByteLength,
    /// Capacity of the flash, if that is known
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub flash_size: Option<ByteLength>,
    /// Rated sequential reads, in MB/s
    #[arg(long, value_name = "MB/S")]
    pub sequential_read: f64,
    /// Rated sequential writes, in MB/s; beyond the cache, if there is one
    #[arg(long, value_name = "MB/S")]
    pub sequential_write: f64,
    /// Rated random reads of 4 KiB a second, such as 580k
    #[arg(long, value_name = "IOPS", value_parser = rate)]
    pub random_read: f64,
    /// Rated random writes of 4 KiB a second, of a drive in use
    #[arg(long, value_name = "IOPS", value_parser = rate)]
    pub random_write: Option<f64>,
    /// Rated latency of a random read, such as 80us
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub read_latency: Option<Nanoseconds>,
    /// Rated latency of a write
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub write_latency: Option<Nanoseconds>,
    /// Mapping unit of the drive (its indirection unit), such as 16K or 64K of large QLC drives [default: 4K]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub mapping_unit: Option<ByteLength>,
    /// Bits in a cell of the flash
    #[arg(long, value_enum, default_value_t = Flash::Tlc)]
    pub flash: Flash,
    /// Interface of the drive
    #[arg(long, value_enum, default_value_t = Interface::Nvme)]
    pub interface: Interface,
    /// Power-loss protection: capacitors save the write buffer when power fails
    #[arg(long)]
    pub power_loss_protection: bool,
    /// Capacity of its pseudo-SLC cache, such as 113GB
    #[arg(long, value_name = "LENGTH", value_parser = length, requires = "cache_write")]
    pub cache: Option<ByteLength>,
    /// Speed of writes to that cache, in MB/s
    #[arg(long, value_name = "MB/S", requires = "cache")]
    pub cache_write: Option<f64>,
    /// Rated drive writes per day (DWPD)
    #[arg(long, value_name = "TIMES", conflicts_with = "tbw")]
    pub dwpd: Option<f64>,
    /// Years that the DWPD are rated for
    #[arg(long, value_name = "YEARS", default_value_t = 5, requires = "dwpd", value_parser = clap::value_parser!(u16).range(1..=20))]
    pub warranty: u16,
    /// Rated terabytes written (TBW), such as 600TB
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub tbw: Option<ByteLength>,
    /// Capacity of its DRAM, such as 1GiB; 0 if it has none [default: enough for all of the map]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub dram: Option<ByteLength>,
    /// Host memory buffer (HMB) for a part of the map of a drive without DRAM [default: 64M over
    /// NVMe, none over SATA]
    #[arg(long, value_name = "LENGTH", value_parser = length, requires = "dram")]
    pub host_memory: Option<ByteLength>,
    /// File to write; without it the profile is printed
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn length(text: &str) -> Result<ByteLength, String> {
    parse_length(text).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Nanoseconds, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// Parses requests a second: `70000`, `70k`, `1.2M`.
fn rate(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, times) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    let rate = number.trim().parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.map(|rate| rate * times)
        .ok_or_else(|| format!("'{text}' is no number of requests, such as 70000, 70k or 1.2M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_data_sheets_have_them() {
        for (text, expected) in [("70000", 70e3), ("70k", 70e3), ("580K", 580e3), ("2.7M", 2.7e6)] {
            assert_eq!(rate(text), Ok(expected));
        }
        for text in ["", "k", "-5k", "many", "nan"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
