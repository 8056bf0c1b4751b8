//! What is shipped beside the program: a timer with its service, and a dashboard of the metrics.

#[path = "stacks/machine.rs"]
#[allow(dead_code)]
mod machine;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use ssdlab_host::doctor;

use crate::machine::MachineBuilder;

fn path(name: &str) -> String {
    format!("{}/../../dist/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(path("grafana-doctor.json")).unwrap()).unwrap()
}

fn metrics() -> String {
    let mut made = MachineBuilder::new();
    made.nvme("nvme0n1");
    made.sata("sda", true);
    made.mount("/", "ext4", "nvme0n1", "rw,relatime");
    let mut facts = made.build();
    let report = serde_json::json!({"model_name": "X", "temperature": {"current": 40},
        "nvme_smart_health_information_log": {"critical_warning": 0, "media_errors": 3,
            "percentage_used": 3, "available_spare": 100, "data_units_written": 7}});
    facts.set_output("smartctl", &["--json=c", "-x", "/dev/nvme0n1"], 0, &report.to_string());
    // With all that an NVMe drive does not count: what went to the flash, and what the maker rates.
    let report = serde_json::json!({"model_name": "CT2050MX300SSD1", "power_on_time": {"hours": 7},
        "smart_status": {"passed": true}, "ata_smart_attributes": {"table": [
            {"id": 241, "name": "Host_Writes_GiB", "value": 100, "raw": {"value": 3}},
            {"id": 249, "name": "NAND_Writes_1GiB", "value": 100, "raw": {"value": 5}}]}});
    facts.set_output("smartctl", &["--json=c", "-x", "/dev/sda"], 0, &report.to_string());
    doctor::examine(&facts, None).unwrap().prometheus()
}

/// Names of metrics with their labels.
fn known(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    names.map(str::to_owned).collect()
}

/// Words of an expression that are names of our metrics.
fn named(expression: &str) -> Vec<&str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = expression.split(|letter| !is_name(letter));
    words.filter(|word| word.starts_with("ssdlab_")).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_there_are_and_all_of_them() {
    let known = known(&metrics());
    let mut shown = BTreeSet::new();
    for panel in dashboard()["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let names = named(expression);
            assert!(!names.is_empty(), "{expression}");
            for name in names {
                assert!(known.contains(name), "{name} of '{}'", panel["title"]);
                shown.insert(name.to_owned());
            }
        }
    }
    let left: Vec<&String> = known.difference(&shown).collect();
    assert_eq!(left, ["ssdlab_doctor_drive_health_passed", "ssdlab_doctor_drive_power_on_seconds"]);
}

/// Fields that Grafana needs of a dashboard of schema version 39.
#[test]
fn the_dashboard_has_the_shape_that_grafana_reads() {
    const KINDS: [&str; 3] = ["stat", "table", "timeseries"];
    let dashboard = dashboard();
    for field in ["uid", "title", "time", "refresh", "tags", "templating", "annotations"] {
        assert!(!dashboard[field].is_null(), "{field}");
    }
    assert!(dashboard["uid"].as_str().unwrap().len() <= 40);
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "instance"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(KINDS.contains(&panel["type"].as_str().unwrap()), "{panel}");
        assert!(!panel["title"].as_str().unwrap().is_empty(), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(!panel["fieldConfig"]["defaults"]["unit"].is_null(), "{panel}");
        let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array().unwrap();
        // The first step has no lower bound, the others rise.
        assert!(steps[0]["value"].is_null(), "{panel}");
        assert!(steps[1..].is_sorted_by_key(|step| step["value"].as_f64().unwrap()), "{panel}");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("w") > 0 && at("h") > 0 && at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "two panels at {x}, {y}");
            }
        }
    }
}

/// Each key of the units with its value, by section.
fn settings(name: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in fs::read_to_string(path(name)).unwrap().lines() {
        if let Some(named) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = named.to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{name}: {line}"));
            found.push((section.clone(), key.to_owned(), value.to_owned()));
        }
    }
    found
}

#[test]
fn the_service_takes_verdicts_for_success_and_may_write_where_it_writes() {
    let service = settings("ssdlab-doctor.service");
    let of = |key: &str| {
        let found = service.iter().find(|(section, name, _)| section == "Service" && name == key);
        found.map(|(_, _, value)| value.clone()).unwrap_or_else(|| panic!("no {key}"))
    };
    assert_eq!(of("SuccessExitStatus"), "10 11 12");
    let command = of("ExecStart");
    let file = command.split(' ').next_back().unwrap();
    let directory = file.rsplit_once('/').unwrap().0;
    assert_eq!(of("ReadWritePaths"), directory);
    assert!(
        command.contains("doctor --quiet --prometheus") && file.ends_with(".prom"),
        "{command}"
    );
    let timer = settings("ssdlab-doctor.timer");
    let has = |section: &str, key: &str| timer.iter().any(|it| it.0 == section && it.1 == key);
    assert!(has("Timer", "OnCalendar") && has("Install", "WantedBy"), "{timer:?}");
}

/// Prometheus' own linter, where it is installed.
#[test]
fn promtool_finds_nothing_to_complain_of() {
    use std::io::Write;
    let mut child = match Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(_) => {
            eprintln!("SKIPPED: promtool is not installed: the metrics are not linted");
            return;
        }
    };
    child.stdin.take().unwrap().write_all(metrics().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}
