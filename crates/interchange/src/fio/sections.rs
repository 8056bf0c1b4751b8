//! Syntax of job files: sections, `key=value` or a bare `key`, comments from `;` or `#`.

use crate::error::{InputError, shown};

/// Largest size of a job file, in bytes.
const MAX_JOB_FILE_SIZE: usize = 1 << 20;

/// Option as it is written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FioOption {
    pub(super) line: u64,
    pub(super) key: String,
    /// Value; `None` for a bare key, which means a switch that is on.
    pub(super) value: Option<String>,
}

/// Section of a job file: a job, or `[global]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) line: u64,
    pub(super) name: String,
    pub(super) options: Vec<FioOption>,
}

/// Splits a job file into its sections.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, InputError> {
    if text.len() > MAX_JOB_FILE_SIZE {
        return Err(InputError::whole("a job file is at most 1 MiB long"));
    }
    let mut sections: Vec<Section> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index as u64 + 1;
        let content = without_comment(raw).trim();
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let Some(name) = rest.strip_suffix(']').map(str::trim).filter(|it| !it.is_empty())
            else {
                let why = format!("'{}' is no section; write [name]", shown(content));
                return Err(InputError::at(line, why));
            };
            let name = shown(name);
            sections.push(Section { line, name, options: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            let why = "an option before the first section; jobs begin with [name]";
            return Err(InputError::at(line, why));
        };
        section.options.push(parse_option(line, content)?);
    }
    Ok(sections)
}

/// Returns the line without a comment. In fio `;` and `#` begin a comment at the start of a line, and after whitespace.
fn without_comment(raw: &str) -> &str {
    let begins = |(index, letter): (usize, char)| {
        let before = raw[..index].chars().next_back();
        matches!(letter, ';' | '#') && before.is_none_or(char::is_whitespace)
    };
    let end = raw.char_indices().find(|&at| begins(at)).map_or(raw.len(), |(index, _)| index);
    &raw[..end]
}

fn parse_option(line: u64, content: &str) -> Result<FioOption, InputError> {
    let (key, value) = match content.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
        None => (content, None),
    };
    let is_key = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if key.is_empty() || !key.chars().all(is_key) {
        let why = format!("'{}' is no option; write name=value", shown(content));
        return Err(InputError::at(line, why));
    }
    const VARIABLES: [&str; 6] = ["${", "$pagesize", "$mb_memory", "$ncpus", "$jobnum", "$jobname"];
    let is_variable = |value: &str| VARIABLES.iter().any(|variable| value.contains(variable));
    if value.as_deref().is_some_and(is_variable) {
        let why = format!("{key}: variables ($...) are not supported; write the value itself");
        return Err(InputError::at(line, why));
    }
    Ok(FioOption { line, key: key.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_options_and_comments_are_told_apart() {
        let text = "; first\n[global]\n bs=4k ; four\n\n[a b]\nnorandommap\nname=x;y\n";
        let sections = sections(text).unwrap();
        let names: Vec<&str> = sections.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["global", "a b"]);
        assert_eq!(sections[0].options[0].value.as_deref(), Some("4k"));
        assert_eq!(
            sections[1].options[0],
            FioOption { line: 6, key: "norandommap".into(), value: None }
        );
        assert_eq!(sections[1].options[1].value.as_deref(), Some("x;y"));
    }

    #[test]
    fn what_is_no_job_file_is_refused_by_line() {
        for (text, line, words) in [
            ("bs=4k", 1, "before the first section"),
            ("[a]\n[b", 2, "is no section"),
            ("[a]\n[]", 2, "is no section"),
            ("[a]\n=4k", 2, "is no option"),
            ("[a]\n\nsize=${SIZE}", 3, "variables"),
        ] {
            let error = sections(text).unwrap_err();
            assert_eq!(error.line, Some(line), "{text}");
            assert!(error.why.contains(words), "{error}");
        }
    }
}
