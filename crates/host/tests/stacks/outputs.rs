//! A diagnosis for people and for Prometheus, and with what an experiment has shown.

use ssdlab_host::doctor::{self, Diagnosis, Options, TrimProof, Verdict};

use crate::machine::{MachineBuilder, mib};

/// LVM on encryption that was not told to pass discards.
fn diagnosis(told: bool) -> Diagnosis {
    let mut made = MachineBuilder::new();
    made.sata("sda", true);
    made.partition("sda1", "sda", mib(1));
    made.luks("dm-0", "home", "sda1", told);
    made.mount("/mnt", "ext4", "dm-0", "rw,noatime,discard");
    doctor::examine(&made.build(), Some("/mnt")).unwrap()
}

#[test]
fn people_see_the_tree_what_is_wrong_and_commands_that_are_never_broken() {
    let diagnosis = diagnosis(false);
    let options = |all| Options { width: 72, ascii: true, all };
    let text = diagnosis.to_text(&options(false));
    let begin = "/mnt           ext4, rw,noatime,discard\n\
                 `- home        dm-crypt, 480 GiB, LUKS2, TRIM NO\n   \
                    `- sda1     partition, 400 GiB, from 1 MiB, TRIM yes\n      \
                       `- sda   SATA drive Samsung SSD 840, 480 GiB, TRIM yes\n\n\
                 PROBLEM  trim            TRIM stops at home: encryption was not told to\n";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains(
        "\n                           cryptsetup refresh --allow-discards --persistent home\n"
    ));
    for line in text.lines().filter(|line| !line.starts_with("                           ")) {
        assert!(line.len() <= 72, "{line}");
    }
    // Why is said of what is not fine; of all only when asked for.
    let why = "programs that ask when a file was read";
    let swap = "Advice to set it to 1 or 5";
    assert!(!text.contains(swap) && !text.contains(why), "{text}");
    assert!(diagnosis.to_text(&options(true)).contains("Advice to set it to"));
    assert!(text.contains("1 problem, 0 warnings"), "{text}");
}

#[test]
fn metrics_have_a_number_for_each_outcome_and_none_for_what_is_not_known() {
    let text = diagnosis(false).prometheus();
    let has = |line: &str| assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    has("ssdlab_doctor_check{subject=\"/mnt\",check=\"trim\",verdict=\"problem\"} 3");
    has("ssdlab_doctor_check{subject=\"sda\",check=\"wear\",verdict=\"unknown\"} -1");
    has("ssdlab_doctor_trim_reaches_flash{target=\"/mnt\"} 0");
    has("ssdlab_doctor_worst 3");
    let mut made = MachineBuilder::new();
    made.mount("/mnt", "nfs4", "server:/export", "rw,relatime");
    let text = doctor::examine(&made.build(), Some("/mnt")).unwrap().prometheus();
    assert!(!text.contains("reaches_flash{"), "{text}");
}

#[test]
fn metrics_have_the_figures_of_each_drive_in_base_units() {
    let mut made = MachineBuilder::new();
    made.nvme("nvme0n1");
    made.sata("sda", true);
    let mut facts = made.build();
    let report = serde_json::json!({
        "model_name": "Samsung SSD 970 EVO \"500GB\"", "temperature": {"current": 41},
        "smart_status": {"passed": true}, "power_on_time": {"hours": 2},
        "nvme_smart_health_information_log": {"critical_warning": 0, "percentage_used": 103,
            "available_spare": 97, "available_spare_threshold": 10, "data_units_written": 2,
            "media_errors": 5},
    });
    facts.set_output("smartctl", &["--json=c", "-x", "/dev/nvme0n1"], 0, &report.to_string());
    let diagnosis = doctor::examine(&facts, None).unwrap();
    let text = diagnosis.prometheus();
    let has = |line: &str| assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    let figures = [
        ("temperature_celsius", "41.0"),
        ("used_ratio", "1.03"),
        ("spare_ratio", "0.97"),
        ("written_bytes", "1024000.0"),
        ("power_on_seconds", "7200.0"),
        ("health_passed", "1.0"),
    ];
    for (name, value) in figures {
        has(&format!("ssdlab_doctor_drive_{name}{{drive=\"nvme0n1\"}} {value}"));
        has(&format!("# TYPE ssdlab_doctor_drive_{name} gauge"));
    }
    has("ssdlab_doctor_drive_errors{drive=\"nvme0n1\",kind=\"media\"} 5.0");
    let model = "Samsung SSD 970 EVO \\\"500GB\\\"";
    has(&format!("ssdlab_doctor_drive_info{{drive=\"nvme0n1\",model=\"{model}\"}} 1"));
    // What a drive does not tell is left out, not zero.
    assert!(!text.contains("_celsius{drive=\"sda\""), "{text}");
    let values = serde_json::to_value(&diagnosis).unwrap()["drives"][0]["values"].clone();
    assert_eq!(values["used_percent"], 103, "{values}");
    assert_eq!(values["written_bytes"], 1_024_000, "{values}");
}

#[test]
fn metrics_stand_in_the_same_order_in_each_run() {
    let text = diagnosis(false).prometheus();
    let checks = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("ssdlab_doctor_check{"));
        lines.map(str::to_owned).collect()
    };
    let found = checks(&text);
    assert!(found.len() > 10 && found.is_sorted(), "{text}");
    assert!(text.starts_with("# HELP ssdlab_doctor_check ") && text.ends_with("# EOF\n"), "{text}");
    for _ in 0..3 {
        assert_eq!(checks(&diagnosis(false).prometheus()), found);
    }
}

#[test]
fn what_an_experiment_shows_stands_beside_what_the_layers_say() {
    let verdict = |told, proof| {
        let mut diagnosis = diagnosis(told);
        diagnosis.prove("/mnt", proof, "words");
        let check = diagnosis.targets[0].checks.last().unwrap();
        assert_eq!((check.check, check.seen.as_str()), ("trim-proof", "words"));
        (check.verdict, !check.why.is_empty(), diagnosis.worst >= check.verdict)
    };
    assert_eq!(verdict(true, TrimProof::Gone), (Verdict::Fine, false, true));
    assert_eq!(verdict(true, TrimProof::StillThere), (Verdict::Problem, true, true));
    assert_eq!(verdict(false, TrimProof::Gone), (Verdict::Notice, true, true));
    assert_eq!(verdict(false, TrimProof::StillThere), (Verdict::Problem, false, true));
    assert_eq!(verdict(true, TrimProof::Inconclusive).0, Verdict::Unknown);
}
