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
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("Commands:"));
    place.run(&["shwo"]).fails(2, &["'shwo'", "'show'"]);
}

#[test]
fn completions_know_the_subcommands_in_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]).with_code(0).stdout;
        for word in ["compare", "allow-buffered"] {
            assert!(script.contains(word), "no {word} for {shell}");
        }
    }
    place.run(&["completions", "tcsh"]).fails(2, &["bash"]);
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

#[test]
fn every_command_has_its_manual_page_and_is_completed() {
    let place = Place::new();
    let help = place.run(&["--help"]).with_code(0).stdout;
    let commands = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"export") && names.contains(&"import"), "{names:?}");
    place.run(&["man", "pages", "--quiet"]).with_code(0);
    let pages = names_in(place.path("pages"));
    let script = place.run(&["completions", "bash"]).with_code(0).stdout;
    for name in names {
        let page = format!("ssdlab-{name}.1");
        assert!(pages.contains(&page), "no {page} among {pages:?}");
        assert!(script.contains(&format!("ssdlab,{name})")), "{name}");
    }
}
