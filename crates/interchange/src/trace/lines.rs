//! Parsers of one line of a trace, for each of the formats.

use ssdlab_drive::{Operation, Region};
use ssdlab_units::ByteLength;

use super::{Format, Stage};
use crate::error::shown;

/// Bytes of a sector, in formats that count sectors.
const SECTOR: u64 = 512;

/// Largest size of a request, in bytes; larger ones are errors in the file, or in the format.
const MAX_REQUEST_SIZE: u64 = 1 << 30;

/// Request as a line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParsedRequest<'a> {
    pub(super) time: Time,
    pub(super) operation: Operation,
    pub(super) region: Region,
    pub(super) volume: &'a str,
    pub(super) stage: Stage,
    /// True if a flush precedes the request.
    pub(super) flush_before: bool,
}

/// Time of a request as a line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Nanoseconds since an origin of the format.
    At(u64),
    /// Time of the line before.
    SameAsPrevious,
}

/// Meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A request.
    Request(ParsedRequest<'a>),
    /// Pause in nanoseconds.
    Pause(u64),
    /// Nothing to replay.
    Ignored,
    /// End of the requests: a summary follows.
    End,
}

/// Parses a line of a trace.
pub(super) fn parse_line(format: Format, text: &str) -> Result<Line<'_>, String> {
    match format {
        Format::Iolog2 => iolog(text, None),
        Format::Iolog3 => iolog(text, Some(1_000)),
        Format::Iolog3Millis => iolog(text, Some(1_000_000)),
        Format::Blkparse => blkparse(text),
        Format::MsrCambridge => msr_cambridge(text),
        Format::Alibaba => alibaba(text),
        Format::Tencent => tencent(text),
        Format::Mqsim => mqsim(text),
    }
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("{what} '{}' is not a whole number", shown(text)))
}

fn checked_product(value: u64, factor: u64, what: &str) -> Result<u64, String> {
    value.checked_mul(factor).ok_or_else(|| format!("{what} {value} is too large"))
}

fn region(offset: u64, length: u64) -> Result<Region, String> {
    if length == 0 || length > MAX_REQUEST_SIZE {
        return Err(format!("a request of {length} bytes; expected 1 byte to 1 GiB"));
    }
    if offset > i64::MAX as u64 {
        return Err(format!("offset {offset} is too large"));
    }
    Ok(Region { offset: ByteLength::new(offset), length: ByteLength::new(length) })
}

fn request_line(time: Time, operation: Operation, region: Region, volume: &str) -> Line<'_> {
    let stage = Stage::Issued;
    Line::Request(ParsedRequest { time, operation, region, volume, stage, flush_before: false })
}

fn split_fields<'a, const N: usize>(
    parts: impl Iterator<Item = &'a str>,
    what: &str,
) -> Result<[&'a str; N], String> {
    let mut fields = [""; N];
    let mut count = 0;
    for part in parts {
        if let Some(slot) = fields.get_mut(count) {
            *slot = part.trim();
        }
        count += 1;
    }
    if count == N { Ok(fields) } else { Err(format!("{count} fields; expected {N}: {what}")) }
}

/// Parses a line of an iolog. `unit` is that of the time before each action, in nanoseconds; lines of version 2 have no
/// time.
fn iolog(text: &str, unit: Option<u64>) -> Result<Line<'_>, String> {
    let mut parts = text.split_ascii_whitespace();
    let time = match unit {
        Some(unit) => {
            Time::At(checked_product(number(parts.next().unwrap_or(""), "time")?, unit, "time")?)
        }
        None => Time::SameAsPrevious,
    };
    let (Some(volume), Some(action)) = (parts.next(), parts.next()) else {
        return Err("expected 'file action offset length'".to_owned());
    };
    let operation = match action {
        "add" | "open" | "close" => return Ok(Line::Ignored),
        "read" => Operation::Read,
        "write" => Operation::Write,
        "trim" => Operation::Trim,
        "sync" | "datasync" => Operation::Flush,
        "wait" if unit.is_none() => {
            let micros = number(parts.next().unwrap_or(""), "wait")?;
            return Ok(Line::Pause(checked_product(micros, 1_000, "wait")?));
        }
        _ => return Err(format!("'{}' is no action of an iolog", shown(action))),
    };
    if operation == Operation::Flush {
        return Ok(request_line(time, operation, Region::first(ByteLength::ZERO), volume));
    }
    let [offset, length] = split_fields(parts, "offset length")?;
    let region = region(number(offset, "offset")?, number(length, "length")?)?;
    Ok(request_line(time, operation, region, volume))
}

/// Parses a line of blkparse: `maj,min cpu seq sec.ns pid action RWBS sector + count [name]`.
fn blkparse(text: &str) -> Result<Line<'_>, String> {
    let is_summary = |word: &str| text.trim_start().starts_with(word);
    if is_summary("CPU") || is_summary("Total (") || is_summary("Throughput (") {
        return Ok(Line::End);
    }
    let mut parts = text.split_ascii_whitespace();
    let mut next = |what: &str| parts.next().ok_or_else(|| format!("{what} is missing"));
    let device = next("the device")?;
    if !device
        .split_once(',')
        .is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
    {
        return Err(format!("'{}' is no device; it is major,minor", shown(device)));
    }
    number(next("the processor")?, "processor")?;
    number(next("the sequence")?, "sequence")?;
    let time = seconds(next("the time")?)?;
    next("the process")?;
    let stage = match next("the action")? {
        "Q" => Stage::Queued,
        "D" => Stage::Issued,
        _ => return Ok(Line::Ignored),
    };
    let kind = next("the kind of request")?;
    let (flush_before, rest) = match kind.strip_prefix('F') {
        Some(rest) => (true, rest),
        None => (false, kind),
    };
    let operation = match rest.bytes().next() {
        Some(b'R') => Operation::Read,
        Some(b'W') => Operation::Write,
        Some(b'D') => Operation::Trim,
        // Neither a transfer nor a flush, but a command of another kind.
        Some(b'N') | None if !flush_before => return Ok(Line::Ignored),
        _ if flush_before => Operation::Flush,
        _ => return Err(format!("'{}' is no kind of request", shown(kind))),
    };
    let nothing = Region::first(ByteLength::ZERO);
    let flush = ParsedRequest {
        time: Time::At(time),
        operation: Operation::Flush,
        region: nothing,
        volume: device,
        stage,
        flush_before: false,
    };
    let Some(sector) = parts.next() else {
        return if flush_before {
            Ok(Line::Request(flush))
        } else {
            Err("the sector is missing".to_owned())
        };
    };
    if operation == Operation::Flush || sector.starts_with('[') {
        return Ok(Line::Request(flush));
    }
    let (plus, count) = (parts.next(), parts.next());
    if plus != Some("+") {
        return Err("expected 'sector + count' after the kind of request".to_owned());
    }
    let count = number(count.unwrap_or(""), "count")?;
    if count == 0 && flush_before {
        return Ok(Line::Request(flush));
    }
    let offset = checked_product(number(sector, "sector")?, SECTOR, "sector")?;
    let region = region(offset, checked_product(count, SECTOR, "count")?)?;
    Ok(Line::Request(ParsedRequest { operation, region, flush_before, ..flush }))
}

/// Reads `12.345678901` as nanoseconds.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("time '{}' is not seconds.nanoseconds", shown(text));
    let (whole, part) = text.split_once('.').ok_or_else(wrong)?;
    if part.len() > 9 || !part.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let part = format!("{part:0<9}").parse::<u64>().map_err(|_| wrong())?;
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(part)).ok_or_else(wrong)
}

fn msr_cambridge(text: &str) -> Result<Line<'_>, String> {
    const WHAT: &str = "Timestamp,Host,Disk,Read|Write,Offset,Size,ResponseTime";
    let [time, host, disk, kind, offset, size, _] = split_fields(text.split(','), WHAT)?;
    let is_plain = |field: &str| !field.contains(|letter: char| letter.is_whitespace());
    if !text.split(',').skip(1).take(2).all(is_plain) {
        return Err("host and disk must not contain spaces".to_owned());
    }
    let time = checked_product(number(time, "timestamp")?, 100, "timestamp")?;
    let operation = match kind {
        _ if kind.eq_ignore_ascii_case("read") => Operation::Read,
        _ if kind.eq_ignore_ascii_case("write") => Operation::Write,
        _ => return Err(format!("'{}' is neither Read nor Write", shown(kind))),
    };
    number(disk, "disk")?;
    let region = region(number(offset, "offset")?, number(size, "size")?)?;
    // The name of the volume is host and disk, which are adjacent in the line.
    let behind_time = text.split_once(',').map_or("", |(_, rest)| rest);
    let volume = &behind_time[..(host.len() + 1 + disk.len()).min(behind_time.len())];
    Ok(request_line(Time::At(time), operation, region, volume))
}

fn alibaba(text: &str) -> Result<Line<'_>, String> {
    let [volume, kind, offset, length, time] =
        split_fields(text.split(','), "device,R|W,offset,length,microseconds")?;
    let operation = match kind {
        "R" => Operation::Read,
        "W" => Operation::Write,
        _ => return Err(format!("'{}' is neither R nor W", shown(kind))),
    };
    number(volume, "device")?;
    let time = checked_product(number(time, "time")?, 1_000, "time")?;
    let region = region(number(offset, "offset")?, number(length, "length")?)?;
    Ok(request_line(Time::At(time), operation, region, volume))
}

fn tencent(text: &str) -> Result<Line<'_>, String> {
    let [time, offset, size, kind, volume] =
        split_fields(text.split(','), "seconds,offset,size,0|1,volume, in sectors")?;
    let operation = match kind {
        "0" => Operation::Read,
        "1" => Operation::Write,
        _ => return Err(format!("'{}' is neither 0 (read) nor 1 (write)", shown(kind))),
    };
    number(volume, "volume")?;
    let time = checked_product(number(time, "time")?, 1_000_000_000, "time")?;
    let offset = checked_product(number(offset, "offset")?, SECTOR, "offset")?;
    let region = region(offset, checked_product(number(size, "size")?, SECTOR, "size")?)?;
    Ok(request_line(Time::At(time), operation, region, volume))
}

fn mqsim(text: &str) -> Result<Line<'_>, String> {
    let [time, volume, sector, count, kind] =
        split_fields(text.split_ascii_whitespace(), "ns device sector count 0|1")?;
    let operation = match kind {
        "0" => Operation::Write,
        "1" => Operation::Read,
        _ => return Err(format!("'{}' is neither 0 (write) nor 1 (read)", shown(kind))),
    };
    number(volume, "device")?;
    let offset = checked_product(number(sector, "sector")?, SECTOR, "sector")?;
    let region = region(offset, checked_product(number(count, "count")?, SECTOR, "count")?)?;
    Ok(request_line(Time::At(number(time, "time")?), operation, region, volume))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_request(format: Format, text: &str) -> ParsedRequest<'_> {
        match parse_line(format, text) {
            Ok(Line::Request(request)) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn error(format: Format, text: &str) -> String {
        parse_line(format, text).unwrap_err()
    }

    #[test]
    fn each_format_says_the_same_in_its_own_way() {
        let lines = [
            (Format::Iolog2, "/dev/sda write 8192 4096", None),
            (Format::Iolog3, "12 /dev/sda write 8192 4096", Some(12_000)),
            (
                Format::Blkparse,
                "  8,0    3       11     0.009507758   697  D   W 16 + 8 [kjournald]",
                Some(9_507_758),
            ),
            (
                Format::MsrCambridge,
                "128166372003061629,hm,1,Write,8192,4096,413",
                Some(12_816_637_200_306_162_900),
            ),
            (Format::Alibaba, "419,W,8192,4096,1577808144360767", Some(1_577_808_144_360_767_000)),
            (Format::Tencent, "1538323200,16,8,1,1063", Some(1_538_323_200_000_000_000)),
            (Format::Mqsim, "2000 0 16 8 0", Some(2000)),
        ];
        for (format, text, time) in lines {
            let request = parse_request(format, text);
            assert_eq!(request.operation, Operation::Write, "{text}");
            assert_eq!(
                (request.region.offset.bytes(), request.region.length.bytes()),
                (8192, 4096)
            );
            assert_eq!(request.time, time.map_or(Time::SameAsPrevious, Time::At));
        }
        assert_eq!(parse_request(Format::MsrCambridge, "1,hm,1,Read,0,512,1").volume, "hm,1");
    }

    #[test]
    fn flushes_trims_and_waits_are_told_apart() {
        let kind = |text| parse_request(Format::Blkparse, text).operation;
        assert_eq!(kind("8,0 1 2 1.5 7 D DS 16 + 8 [x]"), Operation::Trim);
        assert_eq!(kind("8,0 1 2 1.5 7 D FN [x]"), Operation::Flush);
        assert_eq!(kind("8,0 1 2 1.5 7 D RA 16 + 8 [x]"), Operation::Read);
        assert!(parse_request(Format::Blkparse, "8,0 1 2 1.5 7 D FWFS 16 + 8 [x]").flush_before);
        assert_eq!(parse_line(Format::Blkparse, "8,0 1 2 1.5 7 P N [x]"), Ok(Line::Ignored));
        assert_eq!(parse_line(Format::Blkparse, "CPU0 (8,0):"), Ok(Line::End));
        assert_eq!(parse_line(Format::Iolog2, "/dev/sda wait 150"), Ok(Line::Pause(150_000)));
        assert_eq!(parse_request(Format::Iolog2, "/dev/sda sync 0 0").operation, Operation::Flush);
        assert_eq!(parse_line(Format::Iolog3, "0 /dev/sda add"), Ok(Line::Ignored));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (format, text, words) in [
            (Format::Iolog2, "/dev/sda", "file action"),
            (Format::Iolog2, "/dev/sda erase 0 1", "no action"),
            (Format::Iolog2, "/dev/sda read 0", "1 fields; expected 2"),
            (Format::Iolog3, "x /dev/sda read 0 1", "time 'x'"),
            (Format::Blkparse, "8,0 1 2 1.5 7 D W 16", "sector + count"),
            (Format::Blkparse, "sda 1 2 1.5 7 D W 16 + 8", "no device"),
            (Format::Blkparse, "8,0 1 2 15 7 D W 16 + 8", "seconds.nanoseconds"),
            (Format::MsrCambridge, "1,hm,1,Sync,0,1,1", "neither Read nor Write"),
            (Format::Alibaba, "1,R,0,0,1", "a request of 0 bytes"),
            (Format::Tencent, "1,2,3,4,5", "neither 0 (read)"),
            (Format::Mqsim, "1 0 99999999999999999999 1 0", "not a whole number"),
            (Format::Mqsim, "1 0 9999999999999999999 1 0", "too large"),
        ] {
            assert!(error(format, text).contains(words), "{}", error(format, text));
        }
    }
}
