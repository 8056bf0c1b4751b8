//! Runs side by side, from the store and from files.

use crate::support::Place;

fn with_two_runs() -> Place {
    let place = Place::new();
    for target in ["sim:generic-tlc", "sim:toshiba-xg5"] {
        place.run(&["run", "fragmentation", target, "--quick"]).with_code(0);
    }
    place
}

#[test]
fn runs_and_files_stand_side_by_side_under_their_targets() {
    let place = with_two_runs();
    let first = place.run(&["show", "1", "--json"]).with_code(0).stdout;
    place.file("first.json", first);
    let text = place.run(&["compare", "1", "last"]).with_code(0).stdout;
    assert!(text.contains("sim:generic-tlc") && text.contains("sim:toshiba-xg5"), "{text}");

    let mixed = place.run(&["compare", "first.json", "2", "--json"]).with_code(0).json();
    assert_eq!(mixed["schema"], "ssdlab.comparison/1");
    assert_eq!(mixed["runs"][0]["label"], "sim:generic-tlc");
    assert_eq!(mixed["runs"][1]["label"], "sim:toshiba-xg5");
    let stored = place.run(&["compare", "1", "2", "--json"]).with_code(0).json();
    assert_eq!(mixed, stored);

    place.run(&["compare", "1", "2", "--html", "page.html"]).with_code(0);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("sim:generic-tlc") && page.contains("sim:toshiba-xg5"));
}

#[test]
fn files_alone_need_no_store() {
    let place = with_two_runs();
    let report = place.run(&["show", "1", "--json"]).with_code(0).stdout;
    place.file("a.json", &report);
    place.file("b", &report);
    std::fs::remove_file(place.path("runs.sqlite")).unwrap();
    place.run(&["compare", "a.json", "b"]).with_code(0);
    place.run(&["compare", "a.json", "last"]).fails(2, &["no runs are kept"]);
}

#[test]
fn what_cannot_be_compared_is_named() {
    let place = with_two_runs();
    place.run(&["compare", "1"]).fails(2, &["RUN|FILE"]);
    place.run(&["compare", "1", "9"]).fails(2, &["there is no run 9"]);
    place.run(&["compare", "1", "gone.json"]).fails(2, &["gone.json", "No such file"]);
    place.file("other.json", "{\"schema\": \"something/1\"}");
    place.run(&["compare", "1", "other.json"]).fails(2, &["other.json"]);
    place.file("broken.json", "{");
    place.run(&["compare", "1", "broken.json"]).fails(2, &["broken.json", "line 1"]);
    let report = place.run(&["show", "1", "--json"]).with_code(0).stdout;
    let wide: Vec<u8> =
        std::iter::once(0xfeff).chain(report.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    place.file("wide.json", wide);
    place.run(&["compare", "1", "wide.json"]).fails(2, &["wide.json", "UTF-16"]);
    place.file("marked.json", format!("\u{feff}{report}"));
    place.run(&["compare", "1", "marked.json"]).with_code(0);
    place.run(&["compare", "1", "2", "--json", "--html", "x"]).fails(2, &["--html"]);
}
