//! Output streams: stdout carries data, stderr carries messages.

use std::io::{self, ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use ssdlab_lab::output::text;

use crate::cli::{Color, Common};
use crate::failure::{Exit, Failure};

/// Width in columns if it cannot be determined.
const WIDTH_DEFAULT: usize = 80;

/// Capabilities of the output streams, and options for messages.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// Columns of stdout.
    pub width: usize,
    /// True if output to stdout is coloured.
    pub color: bool,
    /// True if only ASCII characters are used.
    pub ascii: bool,
    /// True if notes and progress are left out.
    pub quiet: bool,
}

impl Terminal {
    /// Creates the terminal from the streams, the environment and the options.
    pub fn new(common: &Common) -> Terminal {
        let choice = match common.color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::AlwaysAnsi,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        let stdout = io::stdout();
        Terminal {
            width: width(std::env::var("COLUMNS").ok().as_deref()),
            color: anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
            ascii: !is_unicode(|name| std::env::var(name).ok()),
            quiet: common.quiet,
        }
    }

    /// Returns the layout options of reports on this terminal.
    pub fn text_options(&self) -> text::Options {
        let mut options = text::Options::new(self.width, self.color);
        options.ascii = self.ascii;
        options
    }

    /// Writes data to stdout. A reader that has closed the pipe is not an error.
    pub fn print(&self, data: &str) -> Result<(), Failure> {
        self.print_on(data).map(|_| ())
    }

    /// Writes data to stdout; returns false if the reader has closed the pipe.
    pub fn print_on(&self, data: &str) -> Result<bool, Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(data.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                Err(Failure::system(Exit::Failed, "cannot write to stdout".to_owned(), error))
            }
        }
    }

    /// Prints a message on stderr, unless quiet.
    pub fn note(&self, message: &str) {
        if !self.quiet {
            write_stderr(&format!("{message}\n"));
        }
    }

    /// Prints a warning and the way out on stderr, even when quiet.
    pub fn warn(&self, sentences: &[String], way_out: &str) {
        self.chain("warning", AnsiColor::Yellow, sentences);
        write_stderr(&format!("  way out: {way_out}\n"));
    }

    /// Prints the error that ends the program.
    pub fn error(&self, failure: &Failure) {
        self.chain("error", AnsiColor::Red, &failure.chain());
    }

    fn chain(&self, word: &str, color: AnsiColor, sentences: &[String]) {
        let style = Style::new().bold().fg_color(Some(color.into()));
        let Some((first, causes)) = sentences.split_first() else { return };
        let mut message = format!("{style}{word}:{style:#} {first}\n");
        for cause in causes {
            message.push_str(&format!("  cause: {cause}\n"));
        }
        write_stderr(&message);
    }
}

/// Writes to stderr. Errors are ignored, because there is nowhere to report them; `eprintln!` would panic.
fn write_stderr(message: &str) {
    let _ = anstream::stderr().lock().write_all(message.as_bytes());
}

/// Returns the width: from COLUMNS, from the terminal, or 80.
fn width(columns: Option<&str>) -> usize {
    let by_environment =
        columns.and_then(|text| text.trim().parse().ok()).filter(|&width| width > 0);
    let by_terminal = || {
        let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
        Some(usize::from(width.0)).filter(|&width| width > 0)
    };
    by_environment.or_else(by_terminal).unwrap_or(WIDTH_DEFAULT)
}

/// Returns true if the locale uses UTF-8, by the first of the three variables that is not empty.
fn is_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty())
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_before_the_terminal_and_nonsense_does_not_count() {
        assert_eq!(width(Some("60")), 60);
        assert_eq!(width(Some("0")), width(None));
        assert_eq!(width(Some("wide")), width(None));
    }

    #[test]
    fn the_first_variable_that_says_anything_names_the_locale() {
        let of = |set: &'static [(&str, &str)]| {
            is_unicode(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(of(&[("LANG", "de_DE.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!of(&[]));
    }
}
