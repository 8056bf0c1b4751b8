//! Pages.

use ssdlab_lab::compare::Comparison;
use ssdlab_lab::output::html::{render, render_compare};
use ssdlab_lab::output::json::from_json;
use ssdlab_lab::report::Report;

use crate::fixture::{PM983, XG5, fragmentation, unknown_experiment};

const HOSTILE: &str = "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(1)>\u{2028}";

/// A report in which every text that comes from elsewhere is an attack.
fn hostile() -> Report {
    let mut report = fragmentation(HOSTILE, &XG5);
    report.experiment = HOSTILE.to_owned();
    report.started = HOSTILE.to_owned();
    report.target.engine = HOSTILE.to_owned();
    report.target.caveats = vec![HOSTILE.to_owned()];
    report.target.facts[0].name = HOSTILE.to_owned();
    report.target.facts[0].value = HOSTILE.to_owned();
    report.parameters[0].name = HOSTILE.to_owned();
    report.parameters[0].value = HOSTILE.to_owned();
    report.findings[0].text = HOSTILE.to_owned();
    report.tables[0].name = HOSTILE.to_owned();
    report.tables[0].columns[3].name = HOSTILE.to_owned();
    report.tables[0].columns[3].unit = HOSTILE.to_owned();
    report.tables[0].rows[0][0] = HOSTILE.into();
    report.series[0].name = HOSTILE.to_owned();
    report.series[0].unit_x = HOSTILE.to_owned();
    report.histograms[0].name = HOSTILE.to_owned();
    report.host.system = HOSTILE.to_owned();
    report
}

fn assert_harmless(page: &str) {
    assert_eq!(page.matches("<script").count(), 2, "the data and our own");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img"));
    assert!(page.contains("&lt;/script&gt;"), "it is shown, as text");
}

#[test]
fn hostile_text_is_shown_and_not_run() {
    assert_harmless(&render(&hostile()));
    let reports = vec![(HOSTILE.to_owned(), hostile()), ("b".to_owned(), hostile())];
    assert_harmless(&render_compare(&Comparison::new(reports).unwrap()));
}

#[test]
fn the_report_can_be_taken_out_of_its_page() {
    let report = hostile();
    let page = render(&report);
    let start = "<script id=\"data\" type=\"application/json\">";
    let (_, rest) = page.split_once(start).expect("the data is in the page");
    let (data, _) = rest.split_once("</script>").expect("it ends");
    let back = from_json(data, "page").expect("it is a report");
    assert_eq!(back.target.name, HOSTILE);
    assert_eq!(back.tables, report.tables);
}

#[test]
fn a_page_loads_nothing() {
    for page in [render(&fragmentation("sim:xg5", &XG5)), render(&unknown_experiment(1.0))] {
        for reference in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(reference), "{reference}");
        }
    }
}

#[test]
fn coordinates_are_numbers() {
    let mut report = unknown_experiment(1.0);
    report.series[0].y.fill(0.0);
    report.series[1].x.truncate(1);
    report.series[1].y.truncate(1);
    report.tables[0].rows.truncate(2);
    for report in [report, fragmentation("sim:xg5", &PM983)] {
        let page = render(&report);
        let (drawn, _) = page.split_once("<script id=").unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf%"));
    }
}

/// Returns what stands behind each `open` in a text, up to the next `close`.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).map(move |rest| rest.split(close).next().unwrap_or(rest))
}

#[test]
fn every_drawing_has_a_name_and_says_what_it_shows() {
    let runs = [("a", unknown_experiment(1.0)), ("b", unknown_experiment(0.8))];
    let runs = runs.map(|(label, report)| (label.to_owned(), report));
    let compared = render_compare(&Comparison::new(runs.to_vec()).unwrap());
    let pages =
        [render(&fragmentation("sim:xg5", &XG5)), render(&unknown_experiment(1.0)), compared];
    for page in pages {
        let mut described = 0;
        for (index, svg) in page.split("<svg").enumerate().skip(1) {
            let (tag, inside) = svg.split_once('>').unwrap();
            if tag.contains("aria-hidden=\"true\"") {
                assert!(tag.contains("stretched"), "only a part of another one is hidden: {tag}");
                continue;
            }
            assert!(tag.contains("role=\"img\""), "{index}: {tag}");
            let name = inside.strip_prefix("<title>").and_then(|rest| rest.split_once("</title>"));
            let (name, rest) = name.unwrap_or_else(|| panic!("no title: {svg}"));
            let words = rest.strip_prefix("<desc>").and_then(|rest| rest.split_once("</desc>"));
            let (words, _) = words.unwrap_or_else(|| panic!("no description: {svg}"));
            assert!(!name.is_empty() && !words.is_empty(), "{svg}");
            described += 1;
        }
        assert!(described >= 2, "{described}");
    }
}

#[test]
fn a_histogram_has_an_axis_of_shares() {
    let page = render(&fragmentation("sim:xg5", &XG5));
    let histograms: Vec<&str> = between(&page, "<div class=\"histogram\">", "</div>").collect();
    assert!(!histograms.is_empty());
    for histogram in histograms {
        let shares: Vec<&str> = between(histogram, "text-anchor=\"end\">", "</text>").collect();
        assert!(shares.len() > 1 && shares[0] == "0\u{a0}%", "{shares:?}");
    }
}

#[test]
fn a_long_page_begins_with_a_list_of_its_sections() {
    let mut report = fragmentation("sim:xg5", &XG5);
    assert!(!render(&report).contains("<nav"));
    report.tables.resize(4, report.tables[0].clone());
    let page = render(&report);
    let links: Vec<&str> = between(&page, "<a href=\"#", "\"").collect();
    assert!(links.len() >= 5, "{links:?}");
    for link in links {
        assert!(page.contains(&format!("<section id=\"{link}\"><h2>")), "{link}");
    }
    let (before, _) = page.split_once("<section id=").unwrap();
    assert!(before.contains("<nav"), "the list stands before the sections");
}

/// Writes the pages that a person should look at: `LOOK=/some/directory cargo test look_at`.
#[test]
fn pages_to_look_at() {
    let Some(directory) = std::env::var_os("LOOK").map(std::path::PathBuf::from) else {
        return;
    };
    let xg5 = || fragmentation("sim:toshiba-xg5-512", &XG5);
    let pm983 = || fragmentation("sim:samsung-pm983", &PM983);
    let mut shortened = xg5();
    shortened.shortened = true;
    shortened.parameters[0].changed = true;
    shortened.parameters[0].value = "1GiB".to_owned();
    let compare = |reports: Vec<(&str, Report)>| {
        let reports = reports.into_iter().map(|(label, report)| (label.to_owned(), report));
        render_compare(&Comparison::new(reports.collect()).unwrap())
    };
    let drives = compare(vec![
        ("Toshiba XG5 512 GB", xg5()),
        ("Samsung PM983 960 GB", pm983()),
        ("the same, shortened", shortened.clone()),
    ]);
    let sizes = compare(vec![("new", unknown_experiment(1.0)), ("used", unknown_experiment(0.8))]);
    for (name, page) in [
        ("report", render(&shortened)),
        ("unknown", render(&unknown_experiment(1.0))),
        ("compare", drives),
        ("compare-unknown", sizes),
    ] {
        std::fs::write(directory.join(name).with_extension("html"), page).unwrap();
    }
}
