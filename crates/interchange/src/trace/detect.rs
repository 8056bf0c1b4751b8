//! Detection of a trace's format by its first line.

use super::Format;
use super::lines::{Line, parse_line};

/// Returns the format of a file with this first line, or `None` if no format fits.
pub(super) fn detect(first: &str) -> Option<Format> {
    if let Some(version) = iolog_version(first) {
        return Some(version);
    }
    // Take the format that understands the first line: fields differ so much that no two do.
    Format::ALL
        .iter()
        .map(|(format, _)| *format)
        .filter(|format| !format.is_iolog())
        .find(|&format| is_parsed_by(format, first) || is_column_header(format, first))
}

fn is_parsed_by(format: Format, first: &str) -> bool {
    matches!(parse_line(format, first), Ok(Line::Request(_) | Line::Ignored))
}

/// Returns the version that the first line of an iolog names.
pub(super) fn iolog_version(first: &str) -> Option<Format> {
    match first.trim() {
        "fio version 2 iolog" => Some(Format::Iolog2),
        "fio version 3 iolog" => Some(Format::Iolog3),
        _ => None,
    }
}

/// Returns true if a first line has the names of columns instead of a request.
pub(super) fn is_column_header(format: Format, first: &str) -> bool {
    let lower = first.trim().to_ascii_lowercase();
    match format {
        Format::MsrCambridge => lower.starts_with("timestamp,host"),
        Format::Alibaba => lower.starts_with("device"),
        Format::Tencent => lower.starts_with("timestamp,offset"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_detected_by_the_first_line() {
        for (first, format) in [
            ("fio version 2 iolog", Some(Format::Iolog2)),
            ("fio version 3 iolog\r", Some(Format::Iolog3)),
            (
                "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [x]",
                Some(Format::Blkparse),
            ),
            ("128166372003061629,hm,1,Read,383496192,32768,413", Some(Format::MsrCambridge)),
            (
                "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
                Some(Format::MsrCambridge),
            ),
            ("419,W,8792731648,16384,1577808144360767", Some(Format::Alibaba)),
            ("1538323200,12910952,128,0,1063", Some(Format::Tencent)),
            ("0 0 16 8 1", Some(Format::Mqsim)),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(detect(first), format, "{first}");
        }
    }
}
