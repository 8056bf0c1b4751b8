//! Colour, wrapping, and removal of control characters from text of others.

/// Layout of text output.
#[derive(Clone, Debug)]
pub struct Options {
    /// Columns of the terminal.
    pub width: usize,
    /// True to use colours.
    pub color: bool,
    /// True to use ASCII characters only.
    pub ascii: bool,
    /// Sentence at the end about ways to see more.
    pub more: Option<String>,
}

/// Minimum width; a smaller one is taken as this.
const WIDTH_MIN: usize = 40;
/// Maximum width of prose, which is hard to read in longer lines.
const PROSE_MAX: usize = 100;

impl Options {
    /// Returns options for a terminal of `width` columns that shows Unicode.
    pub fn new(width: usize, color: bool) -> Self {
        Options { width: width.max(WIDTH_MIN), color, ascii: false, more: None }
    }

    pub(super) fn prose_width(&self) -> usize {
        self.width.clamp(WIDTH_MIN, PROSE_MAX)
    }

    pub(super) fn paint(&self, ink: Ink, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", ink.code())
        } else {
            text.to_owned()
        }
    }
}

/// Colours and styles from the terminal's own palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Heading,
    Faint,
    Info,
    Notice,
    Warning,
    Problem,
    New,
    Added,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Ink::Heading => "1",
            Ink::Faint => "2",
            Ink::Info => "32",
            Ink::Notice => "1;36",
            Ink::Warning => "1;33",
            Ink::Problem => "1;31",
            Ink::New => "36",
            Ink::Added => "33",
        }
    }
}

/// Replaces characters of `text` that a terminal would execute rather than show.
pub(super) fn plain(text: &str) -> String {
    // Direction overrides could disguise a name.
    let obeyed = |letter: char| {
        letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|letter| match letter {
            '\n' | '\t' => ' ',
            _ if obeyed(letter) => '?',
            _ => letter,
        })
        .collect()
}

/// Wraps `text` to lines of at most `width`. The first line begins with `first`, and the others with as many
/// spaces. A word longer than a line is left whole, because a path cut in two would be useless. A percent
/// sign stays with its number.
pub(super) fn wrap(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = first.chars().count();
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_begun = false;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = match words.next_if(|next| next.starts_with('%')) {
            Some(percent) => format!("{word} {percent}"),
            None => word.to_owned(),
        };
        let needed = line.chars().count() + usize::from(is_begun) + word.chars().count();
        if is_begun && needed > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            is_begun = false;
        }
        if is_begun {
            line.push(' ');
        }
        line.push_str(&word);
        is_begun = true;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// Returns `text` in exactly `width` columns, cut with an ellipsis if it is longer.
pub(super) fn fit(text: &str, width: usize, ascii: bool) -> String {
    if text.chars().count() <= width {
        return format!("{text:width$}");
    }
    let mark = if ascii { "~" } else { "\u{2026}" };
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}{mark}")
}
