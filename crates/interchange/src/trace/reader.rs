//! Streaming reader of traces, whose memory does not grow with the length of a trace.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use ssdlab_drive::{Operation, Region};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::detect::{detect, iolog_version, is_column_header};
use super::lines::{Line, ParsedRequest, Time, parse_line};
use super::{Event, Format};
use crate::error::InputError;

/// Longest line, in bytes; lines of traces are much shorter.
const MAX_LINE_LENGTH: u64 = 4096;

/// Largest number of volumes in one trace.
const MAX_VOLUMES: usize = 1 << 16;

/// Opens a trace.
///
/// # Errors
/// Returns an error if the file cannot be opened, or those of [`Reader::new`].
pub fn open(path: &Path, format: Option<Format>) -> Result<Reader<BufReader<File>>, InputError> {
    let failed = |error: std::io::Error| InputError::whole(format!("cannot be read: {error}"));
    let file = File::open(path).map_err(failed)?;
    // A trace is read twice: once to check it, once to replay it.
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(InputError::whole(
            "is not a regular file, which is needed because a trace is read twice",
        ));
    }
    Reader::new(BufReader::with_capacity(1 << 16, file), format)
}

/// Reads a trace request by request.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    format: Format,
    number: u64,
    buffer: Vec<u8>,
    /// True if the buffer holds the first line, which was used for detection and is still to be parsed.
    is_first_pending: bool,
    is_over: bool,
    /// Time of the first request in the trace; `last` is the time of the previous one since then.
    origin: Option<u64>,
    last: u64,
    went_back: u64,
    pending: Option<Event>,
    volumes: HashMap<Box<str>, u32>,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader of a trace in `format`, or in the format that its first line shows.
    ///
    /// # Errors
    /// Returns an error if no format fits, or if the file has not the format given.
    pub fn new(source: R, format: Option<Format>) -> Result<Reader<R>, InputError> {
        let mut reader = Reader {
            source,
            format: Format::Mqsim,
            number: 0,
            buffer: Vec::new(),
            is_first_pending: false,
            is_over: false,
            origin: None,
            last: 0,
            went_back: 0,
            pending: None,
            volumes: HashMap::new(),
        };
        if !reader.read_line()? {
            return Err(InputError::whole("is empty"));
        }
        if reader.buffer.starts_with(&[0x1f, 0x8b]) {
            return Err(InputError::whole("is compressed; unpack it first (gunzip)"));
        }
        let first = text_of(&reader.buffer, reader.number)?;
        let found = format.or_else(|| detect(first));
        let Some(format) = found else {
            let names: Vec<&str> = Format::ALL.iter().map(|(_, name)| *name).collect();
            return Err(InputError::at(
                reader.number,
                format!("the format was not recognised; set format to one of {}", names.join(", ")),
            ));
        };
        if format.is_iolog() {
            let version = if format == Format::Iolog2 { Format::Iolog2 } else { Format::Iolog3 };
            if iolog_version(first) != Some(version) {
                let version = if version == Format::Iolog2 { 2 } else { 3 };
                let why = format!("an iolog begins with 'fio version {version} iolog'");
                return Err(InputError::at(reader.number, why));
            }
        } else {
            reader.is_first_pending = !is_column_header(format, first);
        }
        reader.format = format;
        Ok(reader)
    }

    /// Returns the format of the trace.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the number of requests whose time was before that of the previous one; they count as sent at the same
    /// time as that.
    pub fn went_back(&self) -> u64 {
        self.went_back
    }

    /// Returns names and numbers of the volumes read so far.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, u32)> {
        self.volumes.iter().map(|(name, number)| (&**name, *number))
    }

    /// Returns the next request, or `None` at the end.
    ///
    /// # Errors
    /// Returns an error with the line that is not understood.
    pub fn next_event(&mut self) -> Result<Option<Event>, InputError> {
        if let Some(event) = self.pending.take() {
            return Ok(Some(event));
        }
        while !self.is_over {
            if !std::mem::take(&mut self.is_first_pending) && !self.read_line()? {
                break;
            }
            let text = text_of(&self.buffer, self.number)?;
            if text.trim().is_empty() {
                continue;
            }
            let wrong = |why| InputError::at(self.number, why);
            match parse_line(self.format, text).map_err(wrong)? {
                Line::Ignored => {}
                Line::End => self.is_over = true,
                Line::Pause(nanos) => self.last = self.last.saturating_add(nanos),
                Line::Request(request) => {
                    let volume = volume_number(&mut self.volumes, request.volume, self.number)?;
                    return Ok(Some(
                        self.event_of(ParsedRequest { volume: "", ..request }, volume),
                    ));
                }
            }
        }
        self.is_over = true;
        Ok(None)
    }

    fn event_of(&mut self, request: ParsedRequest<'static>, volume: u32) -> Event {
        let at = match request.time {
            Time::SameAsPrevious => self.last,
            Time::At(time) => {
                let origin = *self.origin.get_or_insert(time);
                let since = time.saturating_sub(origin);
                self.went_back += u64::from(time < origin || since < self.last);
                since.max(self.last)
            }
        };
        self.last = at;
        let event = Event {
            line: self.number,
            at: Nanoseconds::new(at),
            operation: request.operation,
            region: request.region,
            volume,
            stage: request.stage,
        };
        if !request.flush_before {
            return event;
        }
        self.pending = Some(event);
        let region = Region::first(ByteLength::ZERO);
        Event { operation: Operation::Flush, region, ..event }
    }

    /// Reads the next line into the buffer; returns false at the end of the file.
    fn read_line(&mut self) -> Result<bool, InputError> {
        self.buffer.clear();
        self.number += 1;
        let read = (&mut self.source).take(MAX_LINE_LENGTH + 1).read_until(b'\n', &mut self.buffer);
        let read =
            read.map_err(|error| InputError::at(self.number, format!("cannot be read: {error}")))?;
        if read as u64 > MAX_LINE_LENGTH {
            return Err(InputError::at(self.number, "is too long for a line of a trace"));
        }
        Ok(read > 0)
    }
}

fn text_of(bytes: &[u8], line: u64) -> Result<&str, InputError> {
    std::str::from_utf8(bytes).map_err(|_| InputError::at(line, "is not text"))
}

fn volume_number(
    volumes: &mut HashMap<Box<str>, u32>,
    name: &str,
    line: u64,
) -> Result<u32, InputError> {
    if let Some(number) = volumes.get(name) {
        return Ok(*number);
    }
    if volumes.len() == MAX_VOLUMES {
        return Err(InputError::at(line, format!("there are more than {MAX_VOLUMES} volumes")));
    }
    let number = volumes.len() as u32;
    volumes.insert(name.into(), number);
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Result<Vec<Event>, InputError> {
        let mut reader = Reader::new(text.as_bytes(), None)?;
        let mut all = Vec::new();
        while let Some(event) = reader.next_event()? {
            all.push(event);
        }
        Ok(all)
    }

    #[test]
    fn times_count_from_the_first_request_and_never_go_back() {
        let text = "5000 0 0 8 0\n7000 1 8 8 1\n6000 0 16 8 0\n";
        let mut reader = Reader::new(text.as_bytes(), None).unwrap();
        let mut times = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            times.push((event.at.nanos(), event.volume, event.line));
        }
        assert_eq!(times, [(0, 0, 1), (2000, 1, 2), (2000, 0, 3)]);
        assert_eq!(reader.went_back(), 1);
        assert_eq!(reader.volumes().count(), 2);

        // The time of a request may also be before the first one.
        let mut reader = Reader::new("5000 0 0 8 0\n4000 0 8 8 1\n".as_bytes(), None).unwrap();
        while reader.next_event().unwrap().is_some() {}
        assert_eq!(reader.went_back(), 1);
    }

    #[test]
    fn waits_of_an_iolog_add_up() {
        let text = "fio version 2 iolog\n/a add\n/a open\n/a read 0 512\n/a wait 100\n/a wait 50\n\
                    /a write 512 512\n/a close\n";
        let times: Vec<u64> = events(text).unwrap().iter().map(|it| it.at.nanos()).collect();
        assert_eq!(times, [0, 150_000]);
    }

    #[test]
    fn a_flush_that_goes_before_a_write_is_a_request_of_its_own() {
        let all = events("8,0 1 1 0.5 7 D FWS 16 + 8 [x]\nCPU0 (8,0):\n nonsense\n").unwrap();
        let kinds: Vec<Operation> = all.iter().map(|it| it.operation).collect();
        assert_eq!(kinds, [Operation::Flush, Operation::Write]);
    }

    #[test]
    fn bad_lines_are_named_by_their_number() {
        let error = events("0 0 0 8 0\n\n1 0 0 8 7\n").unwrap_err();
        assert_eq!(error.line, Some(3));
        let long = format!("0 0 0 8 0\n{}\n", "9".repeat(5000));
        assert_eq!(events(&long).unwrap_err().line, Some(2));
        assert!(events("").unwrap_err().why.contains("empty"));
        assert!(events("what is this\n").unwrap_err().why.contains("format"));
        let packed = Reader::new(&[0x1f, 0x8b, 8, 0][..], None).unwrap_err();
        assert!(packed.why.contains("gunzip"));
        let other = Reader::new(&b"0 0 0 8 0\n"[..], Some(Format::Iolog2)).unwrap_err();
        assert!(other.why.contains("begins with"));
    }
}
