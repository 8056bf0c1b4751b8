//! The commands that documents show, taken out of them.

use std::path::{Path, PathBuf};

use super::extract::{Example, commands};

/// The commands of a document: in indented blocks, and behind a prompt.
pub fn in_markdown(text: &str, from: &str) -> Vec<Example> {
    let lines = text.lines().filter_map(|line| {
        line.strip_prefix("    ").or_else(|| line.strip_prefix("$ ")).map(without_remark)
    });
    commands(lines, from)
}

/// Returns the README and all pages below docs/, each with its path.
pub fn documents() -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![top.join("README.md")];
    let mut directories = vec![top.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    let name = |path: &PathBuf| path.strip_prefix(&top).unwrap().display().to_string();
    found.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// The line up to a remark behind it.
fn without_remark(line: &str) -> &str {
    line.find(" # ").map_or(line, |end| &line[..end]).trim_end()
}
