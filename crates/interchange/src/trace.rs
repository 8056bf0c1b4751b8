//! Block traces: what hosts have asked of their drives, line by line, in the forms in which such
//! recordings are published. Files are read as a stream, so that their length does not matter.

mod detect;
mod forms;
mod reader;
mod survey;

pub use reader::{Reader, open};
pub use survey::{Choice, Survey};

use ssdlab_drive::{Operation, Region};
use ssdlab_units::Nanoseconds;

/// One form of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's `write_iolog`, version 2: `file read 0 4096`, with `wait` lines for the time.
    Iolog2,
    /// fio's `write_iolog`, version 3: the same with a time before, in microseconds as fio 3.33
    /// writes it (a job of 10 requests a second has them 100,000 apart).
    Iolog3,
    /// fio's iolog version 3 with times in milliseconds, as other programs write it; its manual names no unit.
    Iolog3Millis,
    /// The text that blkparse prints of a blktrace, times in seconds, sectors of 512 bytes.
    Blkparse,
    /// SNIA's MSR-Cambridge: `Timestamp,Host,Disk,Type,Offset,Size,ResponseTime`, 100 ns.
    MsrCambridge,
    /// Alibaba's of 2020: `device,R|W,offset,length,us`.
    Alibaba,
    /// Tencent's: `s,offset,size,0|1,volume`, sectors.
    Tencent,
    /// MQSim's: `ns device sector count 0|1`, where 0 is a write.
    Mqsim,
}

impl Format {
    /// Returns true if it is one of fio's, which begin with a line that names the version.
    pub(crate) fn is_iolog(self) -> bool {
        matches!(self, Format::Iolog2 | Format::Iolog3 | Format::Iolog3Millis)
    }

    /// All of them, with their names.
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

    /// The form called `name`.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.iter().find(|(_, known)| *known == name).map(|(format, _)| *format)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Format::ALL.iter().find(|(format, _)| *format == self);
        found.map_or("", |(_, name)| name)
    }
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its line, counted from 1.
    pub line: u64,
    /// When it was sent, since the first one; never before the one in the line before.
    pub at: Nanoseconds,
    /// What it asked for.
    pub operation: Operation,
    /// Where, in bytes as recorded; of no meaning for a flush.
    pub region: Region,
    /// The drive it went to, as a number; see [`Reader::volumes`].
    pub volume: u32,
    /// The stage of the request that the line tells of, for blkparse; `Issued` otherwise.
    pub stage: Stage,
}

/// The stage at which blkparse saw a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The host queued it (Q).
    Queued,
    /// It was issued to the drive (D), perhaps merged with others.
    Issued,
}
