//! Text form of histories, one request per line, for people to read and write:
//!
//! ```text
//! # lines like this one say nothing
//! write units 3 to 5
//! write unit 9 with FUA, at once
//! write unit 9 but for the last sector
//! trim unit 4, 30us later
//! flush
//! rest for 150ms
//! ```
//!
//! A request is sent when all requests before it are answered. With `at once` it is sent right after the one before
//! was sent, with `later` that time after the one before was sent.

use std::fmt;
use std::time::Duration;

use super::history::{LeftOut, Operation, Step, When};
use crate::text::parse_duration;
use crate::units::{LogicalUnit, Nanoseconds};

/// Suffix of a request that is sent directly after the one before; `LATER` follows a time.
const AT_ONCE: &str = "at once";
const LATER: &str = " later";

const WITH_FUA: &str = " with FUA";

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: '{text}' is not {expected}")]
pub struct HistoryError {
    /// Line number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// Description of a valid line.
    pub expected: String,
}

/// Range of units, shown as `unit 3` or `units 3 to 5`.
struct Range(LogicalUnit, u32);

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            1 => write!(f, "unit {}", self.0.0),
            units => write!(f, "units {} to {}", self.0.0, self.0.0 + units - 1),
        }
    }
}

impl LeftOut {
    const ALL: [LeftOut; 3] = [LeftOut::First, LeftOut::Last, LeftOut::Both];

    fn words(self) -> &'static str {
        match self {
            LeftOut::First => " but for the first sector",
            LeftOut::Last => " but for the last sector",
            LeftOut::Both => " but for the first and the last sector",
        }
    }
}

/// Returns a duration in a form that is read back.
fn duration(duration: Nanoseconds) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_nanos(duration.nanos()))
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operation::Write { first, units } => write!(f, "write {}", Range(first, units)),
            Operation::WriteFua { first, units } => {
                write!(f, "write {}{WITH_FUA}", Range(first, units))
            }
            Operation::WritePart { first, units, without, fua } => {
                let fua = if fua { WITH_FUA } else { "" };
                write!(f, "write {}{}{fua}", Range(first, units), without.words())
            }
            Operation::Trim { first, units } => write!(f, "trim {}", Range(first, units)),
            Operation::Read { first, units } => write!(f, "read {}", Range(first, units)),
            Operation::Flush => f.write_str("flush"),
            Operation::Rest(rest) => write!(f, "rest for {}", duration(rest)),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Answered => self.operation.fmt(f),
            When::Later(Nanoseconds::ZERO) => write!(f, "{}, {AT_ONCE}", self.operation),
            When::Later(after) => write!(f, "{}, {}{LATER}", self.operation, duration(after)),
        }
    }
}

/// Reads a history for a drive of `units` units.
///
/// # Errors
/// Returns the first line that is no request, or that names units that the drive does not have.
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
                     FUA', 'write unit 9 but for the last sector', 'trim unit 4', 'read unit 4', \
                     'flush' or 'rest for 150ms', perhaps with ', at once' or ', 30us later' \
                     behind it",
                    units - 1
                ),
            })
        })
        .collect()
}

fn parse_step(line: &str, units: u32) -> Option<Step> {
    let (line, when) = match line.rsplit_once(", ") {
        None => (line, When::Answered),
        Some((line, AT_ONCE)) => (line, When::Later(Nanoseconds::ZERO)),
        Some((line, later)) => {
            (line, When::Later(parse_duration(later.strip_suffix(LATER)?).ok()?))
        }
    };
    let operation = match line.split_once(' ') {
        None if line == "flush" => Operation::Flush,
        Some(("rest", rest)) => Operation::Rest(parse_duration(rest.strip_prefix("for ")?).ok()?),
        Some((verb, range)) => {
            let (range, fua) = match range.strip_suffix(WITH_FUA) {
                Some(range) => (range, true),
                None => (range, false),
            };
            let left_out = |it: LeftOut| Some((range.strip_suffix(it.words())?, it));
            let (range, without) = match LeftOut::ALL.into_iter().find_map(left_out) {
                Some((range, without)) => (range, Some(without)),
                None => (range, None),
            };
            let (first, units) = parse_range(range, units)?;
            match (verb, without, fua) {
                ("write", Some(without), fua) => {
                    Operation::WritePart { first, units, without, fua }
                }
                ("write", None, false) => Operation::Write { first, units },
                ("write", None, true) => Operation::WriteFua { first, units },
                ("trim", None, false) => Operation::Trim { first, units },
                ("read", None, false) => Operation::Read { first, units },
                _ => return None,
            }
        }
        None => return None,
    };
    Some(Step { operation, when })
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
            "trim unit 1 but for the last sector",
            "write unit 1 but for the next sector",
            "write unit 1, later",
            "write unit 1, soon",
            "flush it",
            "rest for ever",
        ] {
            let error = parse_history(&format!("flush\n{wrong}\n"), 300).unwrap_err();
            assert_eq!((error.line, error.text.as_str()), (2, wrong));
            assert!(error.to_string().contains("units 0 to 299"), "{error}");
        }
    }
}
