//! The pages of the reference that are made from the program itself.
//!
//! `SSDLAB_WRITE_REFERENCE=1 cargo test -p ssdlab --test e2e reference` writes them anew.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::support::Place;

const MADE: &str = "\nThis page is made from the program. A test keeps it so.\n";

fn compare_or_write(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("SSDLAB_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = text.lines().zip(kept.lines()).find(|(ours, kept)| ours != kept);
    assert!(
        kept == text,
        "docs/reference/{name} is not what the program says ({differs:?}): if the program is \
         right, SSDLAB_WRITE_REFERENCE=1 writes it anew"
    );
}

/// Text that a cell of a table can hold.
fn cell(text: &Value) -> String {
    text.as_str().unwrap().replace('|', "\\|").replace('<', "&lt;")
}

/// Appends the help of a command, and of those within it.
fn add_help(place: &Place, command: &str, page: &mut String) {
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--help"]).collect();
    let help = place.run(&words).with_code(0).stdout;
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## {command}\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
    let before = help.iter().take_while(|line| **line != "Options:");
    let names = before.filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        let name = line.split_whitespace().next()?;
        (line.starts_with(|c: char| c.is_ascii_lowercase()) && name != "help").then_some(name)
    });
    for name in names {
        add_help(place, &format!("{command} {name}"), page);
    }
}

#[test]
fn the_page_of_commands_is_their_help() {
    let mut page = format!("# Commands\n{MADE}");
    add_help(&Place::new(), "ssdlab", &mut page);
    compare_or_write("commands.md", &page);
}

#[test]
fn the_page_of_experiments_has_all_of_their_parameters() {
    let all = Place::new().run(&["list", "experiments", "--json"]).with_code(0).json();
    let mut page = format!("# Experiments and their parameters\n{MADE}");
    page.push_str("\nChange a parameter with `--set NAME=VALUE`.\n");
    for experiment in all.as_array().unwrap() {
        let name = experiment["name"].as_str().unwrap();
        let (question, source) = (&experiment["question"], &experiment["source"]);
        let (question, source) = (question.as_str().unwrap(), source.as_str().unwrap());
        write!(page, "\n## [{name}](../experiments/{name}.md)\n\n{question}\n\n").unwrap();
        write!(page, "Source: {source}.\n\n").unwrap();
        page.push_str("| parameter | full | `--quick` | what it is |\n| --- | --- | --- | --- |\n");
        for parameter in experiment["parameters"].as_array().unwrap() {
            let [name, full, quick, help] =
                ["name", "full", "quick", "help"].map(|key| cell(&parameter[key]));
            writeln!(page, "| `{name}` | {full} | {quick} | {help} |").unwrap();
        }
    }
    compare_or_write("experiments.md", &page);
}

#[test]
fn the_page_of_profiles_has_every_drive_and_every_key() {
    let place = Place::new();
    let list = |words: &[&str]| place.run(words).with_code(0).json();
    let mut page = format!("# Profiles and their keys\n{MADE}");
    page.push_str(
        "\n## Drives\n\nThe numbers count parameters by where they come from. `ssdlab list profiles \
         NAME` prints each with\nits source.\n\n| profile | drive | published | fitted | assumed |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for profile in list(&["list", "profiles", "--json"]).as_array().unwrap() {
        let (name, summary) = (cell(&profile["name"]), cell(&profile["summary"]));
        let [published, fitted, assumed] =
            ["published", "fitted", "assumed"].map(|key| profile[key].as_u64().unwrap());
        writeln!(page, "| `{name}` | {summary} | {published} | {fitted} | {assumed} |").unwrap();
    }
    page.push_str(
        "\n## Keys\n\nChange one in the target: `sim:generic-tlc,flash.page_read=60us`. The values are \
         those of `generic-tlc`;\n*absent* means that the mechanism is off there.\n\n\
         | key | what it is | value | |\n| --- | --- | --- | --- |\n",
    );
    for parameter in list(&["list", "profiles", "--keys", "--json"]).as_array().unwrap() {
        let [key, meaning, value, basis] =
            ["key", "meaning", "value", "basis"].map(|name| cell(&parameter[name]));
        assert!(meaning.len() > 8, "{key} has no meaning");
        writeln!(page, "| `{key}` | {meaning} | {value} | {basis} |").unwrap();
    }
    compare_or_write("profiles.md", &page);
}
