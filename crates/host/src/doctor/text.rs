//! Text of a diagnosis for people.

use super::{Check, Diagnosis, Verdict};

/// Layout of the text.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Columns of the terminal.
    pub width: usize,
    /// True if only ASCII characters are used.
    pub ascii: bool,
    /// True if checks that are fine are shown in full, too.
    pub all: bool,
}

pub(super) fn render(diagnosis: &Diagnosis, options: &Options) -> String {
    let mut text = String::new();
    let mut section = |head: &str, checks: &[Check]| {
        text.push_str(head.trim_end());
        text.push_str("\n\n");
        for check in checks {
            push_check(check, options, &mut text);
        }
        text.push('\n');
    };
    for target in &diagnosis.targets {
        let tree =
            super::layers::Stack { target: target.target.clone(), top: target.layers.clone() };
        section(&tree.to_text(options.ascii), &target.checks);
    }
    for drive in &diagnosis.drives {
        section(&format!("{}: {}", drive.drive, drive.what), &drive.checks);
    }
    if !diagnosis.checks.is_empty() {
        section(&format!("This machine: {}", diagnosis.machine.system), &diagnosis.checks);
    }
    text.push_str(&summary_line(diagnosis));
    // Names in a capture come from a stranger: control characters must not get to the terminal.
    text.chars().map(|it| if it.is_control() && it != '\n' { '?' } else { it }).collect()
}

fn summary_line(diagnosis: &Diagnosis) -> String {
    let count = |verdict| diagnosis.all().filter(|(_, check)| check.verdict == verdict).count();
    let words = |verdict: Verdict| {
        let number = count(verdict);
        let plural = if number == 1 { "" } else { "s" };
        match verdict {
            Verdict::Fine => format!("{number} fine"),
            Verdict::Unknown => format!("{number} unknown"),
            verdict => format!("{number} {}{plural}", verdict.name()),
        }
    };
    let verdicts =
        [Verdict::Problem, Verdict::Warning, Verdict::Notice, Verdict::Unknown, Verdict::Fine];
    let mut text = format!("{}.\n", verdicts.map(words).join(", "));
    if !diagnosis.machine.is_root && diagnosis.all().any(|(_, check)| check.missing.is_some()) {
        text += "Not run as root, which can find out more.\n";
    }
    text
}

fn push_check(check: &Check, options: &Options, text: &mut String) {
    let word = match check.verdict {
        Verdict::Problem => "PROBLEM",
        verdict => verdict.name(),
    };
    push_paragraph(&format!("{word:<8} {:<15} ", check.check), &check.seen, options, text);
    let is_brief = check.verdict == Verdict::Fine && !options.all;
    if !check.why.is_empty() && !is_brief {
        push_paragraph("", &check.why, options, text);
    }
    if let Some(missing) = &check.missing {
        push_paragraph("", &format!("Not known: {missing}"), options, text);
    }
    if is_brief {
        return;
    }
    for remedy in &check.remedies {
        push_paragraph("", &remedy.words, options, text);
        if let Some(command) = &remedy.command {
            // Commands are not wrapped, so that they can be copied.
            for line in command.lines() {
                text.push_str(&format!("{:INDENT$}  {line}\n", ""));
            }
        }
    }
}

/// Column of the text, behind verdict and name of the check.
const INDENT: usize = 25;

/// Adds wrapped text; `lead` fills the indent of the first line.
fn push_paragraph(lead: &str, words: &str, options: &Options, text: &mut String) {
    let mut line = format!("{lead:<INDENT$}");
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > options.width.max(60) {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(INDENT);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}
