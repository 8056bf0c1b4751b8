//! A diagnosis for people and for Prometheus, and with what an experiment has shown.

use ssdlab_host::doctor::{self, Diagnosis, Options, Proof, Verdict};

use crate::machine::{Made, mib};

/// LVM on encryption that was not told to pass discards.
fn diagnosis(told: bool) -> Diagnosis {
    let mut made = Made::new();
    made.sata("sda", true);
    made.partition("sda1", "sda", mib(1));
    made.luks("dm-0", "home", "sda1", told);
    made.mount("/mnt", "ext4", "dm-0", "rw,noatime,discard");
    doctor::examine(&made.done(), Some("/mnt")).unwrap()
}

#[test]
fn people_see_the_tree_what_is_wrong_and_commands_that_are_never_broken() {
    let diagnosis = diagnosis(false);
    let options = |all| Options { width: 72, ascii: true, all };
    let text = diagnosis.words(&options(false));
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
    assert!(diagnosis.words(&options(true)).contains("Advice to set it to"));
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
    let mut made = Made::new();
    made.mount("/mnt", "nfs4", "server:/export", "rw,relatime");
    let text = doctor::examine(&made.done(), Some("/mnt")).unwrap().prometheus();
    assert!(!text.contains("reaches_flash{"), "{text}");
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
    assert_eq!(verdict(true, Proof::Gone), (Verdict::Fine, false, true));
    assert_eq!(verdict(true, Proof::StillThere), (Verdict::Problem, true, true));
    assert_eq!(verdict(false, Proof::Gone), (Verdict::Notice, true, true));
    assert_eq!(verdict(false, Proof::StillThere), (Verdict::Problem, false, true));
    assert_eq!(verdict(true, Proof::NotTold).0, Verdict::Unknown);
}
