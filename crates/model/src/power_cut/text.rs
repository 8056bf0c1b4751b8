//! Histories as text, a request a line, as people read and write them:
//!
//! ```text
//! # lines like this one say nothing
//! write units 3 to 5
//! write unit 9 with FUA, at once
//! trim unit 4
//! flush
//! rest for 150ms
//! ```
//!
//! A request is sent when the one before is answered, or `at once`: right after that was sent.

use std::fmt;
use std::time::Duration;

use super::history::{Operation, Step};
use crate::text::parse_duration;
use crate::units::LogicalUnit;

/// What makes a request not wait for the one before.
const AT_ONCE: &str = ", at once";

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: '{text}' is not {expected}")]
pub struct HistoryError {
    /// Its number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What it should have been.
    pub expected: String,
}

/// How the units of a history are written: a range that a storage engineer reads.
struct Range(LogicalUnit, u32);

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            1 => write!(f, "unit {}", self.0.0),
            units => write!(f, "units {} to {}", self.0.0, self.0.0 + units - 1),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operation::Write { first, units } => write!(f, "write {}", Range(first, units)),
            Operation::WriteFua { first, units } => {
                write!(f, "write {} with FUA", Range(first, units))
            }
            Operation::Trim { first, units } => write!(f, "trim {}", Range(first, units)),
            Operation::Read { first, units } => write!(f, "read {}", Range(first, units)),
            Operation::Flush => f.write_str("flush"),
            Operation::Rest(duration) => {
                let duration = Duration::from_nanos(duration.nanos());
                write!(f, "rest for {}", humantime::format_duration(duration))
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.operation, if self.waits { "" } else { AT_ONCE })
    }
}

/// Reads a history for a drive of `units` units.
///
/// # Errors
/// The first line that is no request, or is about units that the drive does not have.
pub fn parse_history(text: &str, units: u32) -> Result<Vec<Step>, HistoryError> {
    let lines = text.lines().map(str::trim).zip(1..);
    let requests = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    requests
        .map(|(line, number)| {
            parse_step(line, units).ok_or_else(|| HistoryError {
                line: number,
                text: line.to_owned(),
                expected: format!(
                    "a request to units 0 to {}, such as 'write units 3 to 5', 'write unit 9 with \
                     FUA', 'trim unit 4', 'read unit 4', 'flush' or 'rest for 150ms', perhaps with \
                     ', at once' behind it",
                    units - 1
                ),
            })
        })
        .collect()
}

fn parse_step(line: &str, units: u32) -> Option<Step> {
    let (line, waits) = match line.strip_suffix(AT_ONCE) {
        Some(line) => (line, false),
        None => (line, true),
    };
    let operation = match line.split_once(' ') {
        None if line == "flush" => Operation::Flush,
        Some(("rest", rest)) => Operation::Rest(parse_duration(rest.strip_prefix("for ")?).ok()?),
        Some((verb, range)) => {
            let (range, fua) = match range.strip_suffix(" with FUA") {
                Some(range) => (range, true),
                None => (range, false),
            };
            let (first, units) = parse_range(range, units)?;
            match (verb, fua) {
                ("write", false) => Operation::Write { first, units },
                ("write", true) => Operation::WriteFua { first, units },
                ("trim", false) => Operation::Trim { first, units },
                ("read", false) => Operation::Read { first, units },
                _ => return None,
            }
        }
        None => return None,
    };
    Some(Step { operation, waits })
}

fn parse_range(text: &str, units: u32) -> Option<(LogicalUnit, u32)> {
    let (first, last) = match text.strip_prefix("units ") {
        Some(range) => range.split_once(" to ")?,
        None => {
            let unit = text.strip_prefix("unit ")?;
            (unit, unit)
        }
    };
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < units).then(|| (LogicalUnit(first), last - first + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn what_is_written_is_read_back() {
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        let history: Vec<Step> = (0..500).map(|_| Step::random(&mut generator, 300)).collect();
        let text: String = history.iter().map(|step| format!("  {step}\n# and\n\n")).collect();
        assert_eq!(parse_history(&text, 300), Ok(history));
    }

    #[test]
    fn a_line_that_is_no_request_is_named() {
        for wrong in [
            "write",
            "write unit 300",
            "write units 5 to 4",
            "erase unit 4",
            "trim unit 1 with FUA",
            "flush it",
            "rest for ever",
        ] {
            let error = parse_history(&format!("flush\n{wrong}\n"), 300).unwrap_err();
            assert_eq!((error.line, error.text.as_str()), (2, wrong));
            assert!(error.to_string().contains("units 0 to 299"), "{error}");
        }
    }
}
