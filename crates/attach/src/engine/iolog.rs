//! Recording of the host's requests as an iolog of fio's (version 3).

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use super::Kind;

/// A recording.
#[derive(Debug)]
pub(super) struct Iolog {
    out: BufWriter<std::fs::File>,
    began: Instant,
    failed: Option<io::Error>,
}

/// Name of the drive in the recording.
const NAME: &str = "/ssdlab";

impl Iolog {
    /// Begins a recording in a new file at `path`.
    pub(super) fn begin(path: &Path) -> io::Result<Iolog> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut out = BufWriter::with_capacity(1 << 16, file);
        writeln!(out, "fio version 3 iolog\n0 {NAME} add\n0 {NAME} open")?;
        Ok(Iolog { out, began: Instant::now(), failed: None })
    }

    /// Adds a request that arrives now. Times are in microseconds, as in fio's format.
    pub(super) fn note(&mut self, kind: Kind, offset: u64, length: u64) {
        let at = self.began.elapsed().as_micros();
        let outcome = match kind {
            Kind::Read => writeln!(self.out, "{at} {NAME} read {offset} {length}"),
            Kind::Write => writeln!(self.out, "{at} {NAME} write {offset} {length}"),
            Kind::Trim => writeln!(self.out, "{at} {NAME} trim {offset} {length}"),
            Kind::Flush => writeln!(self.out, "{at} {NAME} datasync 0 0"),
        };
        if let Err(error) = outcome {
            self.failed.get_or_insert(error);
        }
    }

    /// Ends the recording; returns the first error of any write to it.
    pub(super) fn end(mut self) -> io::Result<()> {
        let at = self.began.elapsed().as_micros();
        writeln!(self.out, "{at} {NAME} close")?;
        self.out.flush()?;
        self.failed.map_or(Ok(()), Err)
    }
}
