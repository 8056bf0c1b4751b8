//! Parser of the text of a stack: members between parentheses, and the options behind them.

use super::StackKind;
use crate::error::LabError;
use crate::target::Target;

/// Byte offset of an error in the target, and its description.
pub(super) type ParseFault = (usize, String);

/// Members, each with its byte offset.
type MemberTexts<'a> = Vec<(usize, &'a str)>;

/// Splits the text between the parentheses, which open at the byte offset `open`, into members. Returns the
/// members with their byte offsets, and the offset behind the closing parenthesis.
pub(super) fn split_members(
    text: &str,
    open: usize,
) -> Result<(MemberTexts<'_>, usize), ParseFault> {
    let (mut depth, mut start) = (0usize, open + 1);
    let mut members = Vec::new();
    for (at, letter) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match letter {
            '(' => depth += 1,
            ')' if depth > 1 => depth -= 1,
            ';' if depth == 1 => {
                members.push((start, &text[start..at]));
                start = at + 1;
            }
            ')' => {
                members.push((start, &text[start..at]));
                return Ok((members, at + 1));
            }
            _ => {}
        }
    }
    Err((open, "this '(' is never closed".to_owned()))
}

/// Parses one member, which begins at the byte offset `at`.
pub(super) fn parse_member(at: usize, text: &str) -> Result<Target, ParseFault> {
    if text.trim().is_empty() {
        return Err((at, "a member is missing; write sim:PROFILE or another stack".to_owned()));
    }
    match Target::parse(text) {
        Ok(Target::Path(_)) => Err((
            at,
            format!("'{text}' is a path; members of a stack are simulated drives or stacks"),
        )),
        Ok(member) => Ok(member),
        Err(error) => Err((at, format!("member '{text}': {}", strip_target(&error, text)))),
    }
}

/// Returns the message of an error without the target, which the caller names.
fn strip_target(error: &LabError, text: &str) -> String {
    let words = error.to_string();
    words.strip_prefix(&format!("target '{text}': ")).unwrap_or(&words).to_owned()
}

/// Returns the value of each option of `kind`: the one given in `text` from the byte offset `at` on, or the
/// default.
pub(super) fn parse_options(
    kind: &StackKind,
    text: &str,
    at: usize,
) -> Result<Vec<String>, ParseFault> {
    let mut given: Vec<Option<String>> = vec![None; kind.options.len()];
    let mut at = at;
    while at < text.len() {
        if !text[at..].starts_with(',') {
            return Err((at, "only options may follow, as ,key=value".to_owned()));
        }
        at += 1;
        let part = text[at..].split(',').next().unwrap_or("");
        let (key, value) = part.split_once('=').ok_or_else(|| {
            (at, format!("'{part}' is not an option of {} as key=value", kind.name))
        })?;
        let (key, value) = (key.trim(), value.trim());
        let Some(place) = kind.options.iter().position(|option| option.name == key) else {
            let known: Vec<&str> = kind.options.iter().map(|option| option.name).collect();
            let known = known.join(", ");
            return Err((at, format!("{} has no option '{key}'; it has: {known}", kind.name)));
        };
        if given[place].replace(value.to_owned()).is_some() {
            return Err((at, format!("{key} is set more than once")));
        }
        at += part.len();
    }
    let defaults = kind.options.iter().map(|option| option.default);
    Ok(given
        .into_iter()
        .zip(defaults)
        .map(|(given, it)| given.unwrap_or_else(|| it.to_owned()))
        .collect())
}
