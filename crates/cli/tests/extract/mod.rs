//! The commands that help texts show, taken out of them.

/// A command, and the place it is shown at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The line as a shell would read it, without what is said about it.
    pub line: String,
    /// The document or help text.
    pub from: String,
}

/// The commands below `Examples:` in a help text.
pub fn in_help(text: &str, from: &str) -> Vec<Example> {
    let Some((_, examples)) = text.split_once("Examples:\n") else { return Vec::new() };
    commands(examples.lines().filter_map(|line| line.strip_prefix("  ")), from)
}

/// The lines that call the program, those joined that a backslash parts.
pub fn commands<'a>(lines: impl Iterator<Item = &'a str>, from: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let line = line.trim_end();
        let (line, has_more) = match line.strip_suffix('\\') {
            Some(line) => (line.trim_end(), true),
            None => (line, false),
        };
        let call = line.strip_prefix("cargo run -- ").map(|rest| format!("ssdlab {rest}"));
        let call = call.or_else(|| line.starts_with("ssdlab ").then(|| line.to_owned()));
        match (call, found.last_mut()) {
            (_, Some(last)) if goes_on => {
                last.line.push(' ');
                last.line.push_str(line.trim_start());
            }
            (Some(line), _) => found.push(Example { line, from: from.to_owned() }),
            (None, _) => continue,
        }
        goes_on = has_more;
    }
    for example in &mut found {
        if let Some(line) = example.line.strip_suffix(" &") {
            example.line = line.to_owned();
        }
    }
    found
}
