//! Block traces: recordings of requests to drives, one request in a line, in the formats in which they are published.
//! Files are read as streams, so their length does not matter.

mod detect;
mod lines;
mod reader;
mod survey;

pub use reader::{Reader, open};
pub use survey::{Choice, Survey};

use ssdlab_drive::{Operation, Region};
use ssdlab_units::Nanoseconds;

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's `write_iolog`, version 2: `file read 0 4096`, with `wait` lines for the time.
    Iolog2,
    /// fio's `write_iolog`, version 3: as version 2, with a time at the beginning of each line, in microseconds as fio
    /// 3.33 writes it (a job of 10 requests a second has them 100,000 apart).
    Iolog3,
    /// fio's iolog version 3 with times in milliseconds, as other programs write it; its manual names no unit.
    Iolog3Millis,
    /// Text that blkparse prints of a blktrace, with times in seconds and sectors of 512 bytes.
    Blkparse,
    /// Format of SNIA's MSR-Cambridge traces: `Timestamp,Host,Disk,Type,Offset,Size,ResponseTime`, with times in units
    /// of 100 ns.
    MsrCambridge,
    /// Format of Alibaba's traces of 2020: `device,R|W,offset,length,us`.
    Alibaba,
    /// Format of Tencent's traces: `s,offset,size,0|1,volume`, with offset and size in sectors.
    Tencent,
    /// Format of MQSim's traces: `ns device sector count 0|1`, where 0 is a write.
    Mqsim,
}

impl Format {
    /// Returns true if the format is one of fio's iologs, which begin with a line that names the version.
    pub(crate) fn is_iolog(self) -> bool {
        matches!(self, Format::Iolog2 | Format::Iolog3 | Format::Iolog3Millis)
    }

    /// All formats, with their names.
    pub const ALL: [(Format, &'static str); 8] = [
        (Format::Iolog2, "iolog2"),
        (Format::Iolog3, "iolog3"),
        (Format::Iolog3Millis, "iolog3-ms"),
        (Format::Blkparse, "blkparse"),
        (Format::MsrCambridge, "msr-cambridge"),
        (Format::Alibaba, "alibaba"),
        (Format::Tencent, "tencent"),
        (Format::Mqsim, "mqsim"),
    ];

    /// Returns the format called `name`.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.iter().find(|(_, known)| *known == name).map(|(format, _)| *format)
    }

    /// Returns the name of the format.
    pub fn name(self) -> &'static str {
        let found = Format::ALL.iter().find(|(format, _)| *format == self);
        found.map_or("", |(_, name)| name)
    }
}

/// Request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Line of the request, counted from 1.
    pub line: u64,
    /// Time of the request, since the first request; never before the time of the line before.
    pub at: Nanoseconds,
    /// Kind of the request.
    pub operation: Operation,
    /// Region in bytes, as recorded; without meaning for a flush.
    pub region: Region,
    /// Number of the drive that the request went to; see [`Reader::volumes`].
    pub volume: u32,
    /// Stage of the request that a line of blkparse reports; `Issued` in other formats.
    pub stage: Stage,
}

/// Stage of a request at which blkparse recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The host queued it (Q).
    Queued,
    /// It was issued to the drive (D), possibly merged with others.
    Issued,
}
