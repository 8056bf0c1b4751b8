//! Errors and remarks about an input file, with the line that they concern.

use std::fmt;

/// Error in an input file, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// Line, counted from 1; `None` if the error concerns the file as a whole.
    pub line: Option<u64>,
    /// Description of the error, and of what would be right.
    pub why: String,
}

impl InputError {
    /// Creates an error in a line.
    pub fn at(line: u64, why: impl Into<String>) -> InputError {
        InputError { line: Some(line), why: why.into() }
    }

    /// Creates an error of the file as a whole.
    pub fn whole(why: impl Into<String>) -> InputError {
        InputError { line: None, why: why.into() }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for InputError {}

/// Remark on something in a file that is carried out differently, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// Line, counted from 1; 0 for something that the file does not mention.
    pub line: u64,
    /// Description of the difference, in words that follow a colon.
    pub words: String,
}

/// Returns the first 60 characters of a text from a file, with control characters replaced: a terminal would interpret
/// them.
pub(crate) fn shown(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { '?' } else { letter };
    let short: String = text.chars().take(60).map(plain).collect();
    if text.chars().nth(60).is_some() { format!("{short}...") } else { short }
}
