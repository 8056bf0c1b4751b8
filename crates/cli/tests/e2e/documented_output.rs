//! The output that documents show is what the program prints.
//!
//! A document shows a session as a block of the language `console`: a command behind `$ `, and what it
//! prints to stdout. A line of three dots stands for any number of lines.

use crate::documents::documents;
use crate::examples::run_by_shell;
use crate::support::Place;

/// A command and the output that a document shows of it.
struct Session<'a> {
    command: &'a str,
    output: Vec<&'a str>,
}

fn sessions(text: &str) -> Vec<Session<'_>> {
    let mut found: Vec<Session<'_>> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside && let Some(command) = line.strip_prefix("$ ") {
            found.push(Session { command, output: Vec::new() });
        } else if is_inside {
            found.last_mut().expect("a session begins with a command").output.push(line);
        }
    }
    found
}

/// Returns the first shown line that is not there, or `None` if all of `shown` is in `printed`, in order.
fn missing<'a>(shown: &[&'a str], printed: &str) -> Option<&'a str> {
    let printed: Vec<&str> = printed.lines().collect();
    let mut at = 0;
    let mut may_skip = false;
    for passage in shown.split(|line| *line == "...") {
        let is_here = |start: usize| {
            printed.get(start..start + passage.len()).is_some_and(|lines| lines == passage)
        };
        let places = if may_skip { at..=printed.len() } else { at..=at };
        match places.into_iter().find(|&start| is_here(start)) {
            Some(start) => at = start + passage.len(),
            None => return passage.first().copied(),
        }
        may_skip = true;
    }
    let is_over = shown.last() == Some(&"...") || at == printed.len();
    if is_over { None } else { shown.last().copied() }
}

#[test]
fn sessions_in_documents_print_what_they_show() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, text) in documents() {
        let place = Place::new();
        for Session { command, output } in sessions(&text) {
            count += 1;
            let done = run_by_shell(&place, command);
            if let Some(line) = missing(&output, &done.stdout) {
                wrong.push(format!("{name}: {command}: no {line:?} in\n{}", done.stdout));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 5, "{count}");
}

#[test]
fn a_passage_has_to_be_there_in_order() {
    let printed = "a\nb\nc\nd\n";
    assert_eq!(missing(&["a", "b", "c", "d"], printed), None);
    assert_eq!(missing(&["a", "...", "c", "..."], printed), None);
    assert_eq!(missing(&["...", "d"], printed), None);
    assert_eq!(missing(&["b", "..."], printed), Some("b"));
    assert_eq!(missing(&["a", "...", "c"], printed), Some("c"));
    assert_eq!(missing(&["...", "c", "...", "b", "..."], printed), Some("b"));
}
