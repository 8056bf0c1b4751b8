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
