//! What is made from the definitions of the command line: help, completions, manual pages.

use crate::support::{Place, names_in};

#[test]
fn help_goes_to_stdout_and_shows_examples() {
    let place = Place::new();
    for arguments in [&["--help"][..], &["-h"], &["run", "--help"], &["compare", "-h"]] {
        let done = place.run(arguments).with_code(0);
        assert!(done.stdout.contains("Examples:\n  ssdlab "), "{}", done.stdout);
        let longest = done.stdout.lines().map(str::len).max().unwrap();
        assert!(longest <= 100, "{longest} columns in:\n{}", done.stdout);
    }
    assert!(place.run(&["--version"]).with_code(0).stdout.starts_with("ssdlab 0."));
    let nothing = place.run(&[]).with_code(2);
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("Experiments:"));
    place.run(&["shwo"]).fails(2, &["'shwo'", "'show'"]);
}

#[test]
fn there_is_a_manual_page_for_every_subcommand() {
    let place = Place::new();
    assert!(place.run(&["man"]).with_code(0).stdout.contains(".TH ssdlab 1"));
    place.run(&["man", "deep/pages", "--quiet"]).with_code(0);
    let pages = names_in(place.path("deep/pages"));
    for name in ["ssdlab.1", "ssdlab-run.1", "ssdlab-list-runs.1", "ssdlab-compare.1"] {
        assert!(pages.iter().any(|page| page == name), "no {name} among {pages:?}");
    }
    let file = place.file("file", "");
    place.run(&["man", &file]).fails(1, &["cannot write manual pages"]);
}

/// The commands in a help text, which come before its options.
fn commands(help: &str) -> Vec<&str> {
    let (before, _) = help.split_once("\nOptions:").unwrap();
    let lines = before.lines().filter(|line| line.starts_with("  "));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn every_command_is_shown_in_its_group_and_has_its_manual_page() {
    let place = Place::new();
    let help = place.run(&["-h"]).with_code(0).stdout;
    for group in ["Experiments:", "Simulated drives:", "This machine:", "Reports:"] {
        assert!(help.contains(&format!("\n{group}\n  ")), "no {group} in:\n{help}");
    }
    let (groups, _) = help.split_once("\nOptions:").unwrap();
    let longest = groups.lines().map(str::len).max().unwrap();
    assert!(longest <= 80, "{longest} columns in:\n{help}");
    let names = commands(&help);
    assert!(names.len() >= 20 && names.contains(&"export"), "{names:?}");
    place.run(&["man", "pages", "--quiet"]).with_code(0);
    let pages = names_in(place.path("pages"));
    for name in names.iter().filter(|name| **name != "help") {
        let page = format!("ssdlab-{name}.1");
        assert!(pages.contains(&page), "no {page} among {pages:?}");
    }
}
