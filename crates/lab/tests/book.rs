//! The book in docs/: every page is in its summary, every link leads somewhere, and every experiment
//! has a page.

use std::fs;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// All pages, by their path below docs/.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(docs().join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Returns where the links of a text lead, in this repository.
fn links(text: &str) -> Vec<String> {
    let behind = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let own = behind.filter(|link| !link.contains("://") && !link.starts_with('#'));
    own.map(|link| link.split('#').next().unwrap_or(link).to_owned()).collect()
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let listed = links(&fs::read_to_string(docs().join("SUMMARY.md")).unwrap());
    for page in pages() {
        let name = page.to_str().unwrap();
        assert!(name == "SUMMARY.md" || listed.iter().any(|it| it == name), "{name}: not listed");
        let from = docs().join(&page);
        for link in links(&fs::read_to_string(&from).unwrap()) {
            let to = from.parent().unwrap().join(&link);
            assert!(to.exists(), "{name}: {link} leads nowhere");
        }
    }
}

#[test]
fn every_experiment_has_a_page_of_its_own() {
    for experiment in ssdlab_lab::experiment::all() {
        let page = format!("experiments/{}.md", experiment.name());
        let text = fs::read_to_string(docs().join(&page))
            .unwrap_or_else(|error| panic!("docs/{page}: {error}"));
        assert!(text.contains("How to read the result"), "docs/{page}");
    }
}

#[test]
fn links_are_found_where_they_are() {
    let text = "[a](b.md#c) [d](https://e.f) [g](#h) and [i](../j.md)";
    assert_eq!(links(text), ["b.md", "../j.md"]);
}
