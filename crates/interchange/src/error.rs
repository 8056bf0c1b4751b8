//! What is wrong with a file, and where.

use std::fmt;

/// A file that cannot be used, with the line that is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The line, counted from 1; `None` where the file as a whole is to blame.
    pub line: Option<u64>,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl InputError {
    /// An error in a line.
    pub fn at(line: u64, why: impl Into<String>) -> InputError {
        InputError { line: Some(line), why: why.into() }
    }

    /// An error of the file as a whole.
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

/// Something in a file that was understood and is done in another way, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// The line, counted from 1; 0 for what the file does not say at all.
    pub line: u64,
    /// What is different, in words that follow a colon.
    pub words: String,
}

/// Text of a stranger's, short and without characters that a terminal would obey.
pub(crate) fn shown(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { '?' } else { letter };
    let short: String = text.chars().take(60).map(plain).collect();
    if text.chars().nth(60).is_some() { format!("{short}...") } else { short }
}
