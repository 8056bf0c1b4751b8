//! The examples of the commands about attached drives, run on one.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::extract::in_help;
use crate::support::{Place, has_devices, has_tools};

/// The examples of a command, as arguments, with the places of a test in place of a machine's.
fn examples(place: &Place, command: &str, device: &str) -> Vec<Vec<String>> {
    let help = place.done(&[command, "--help"]);
    let path = |name: &str| place.path(name).display().to_string();
    let examples = in_help(&help, command).into_iter().map(|example| {
        let line = example
            .line
            .replace("/dev/loop0", device)
            .replace("/tmp/disk.sock", &path("disk.sock"))
            .replace("/var/lib/node_exporter", &path("run"))
            .replace("/mnt", &path("mnt"));
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    });
    let examples: Vec<Vec<String>> = examples.collect();
    assert!(!examples.is_empty(), "{help}");
    examples
}

fn words(example: &[String]) -> Vec<&str> {
    example.iter().map(String::as_str).collect()
}

/// Runs what shows itself again and again until it has shown something.
fn watch(place: &Place, example: &[String]) {
    let mut command = place.command(&words(example));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "{example:?}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
}

#[test]
fn every_example_about_an_attached_drive_runs() {
    let test = "examples about attached drives";
    if !has_devices(test) || !has_tools(test, &["mkfs.ext4"]) {
        return;
    }
    let place = Place::new("sim:,scale=1/1024");
    for directory in ["mnt", "dir"] {
        std::fs::create_dir(place.path(directory)).unwrap();
    }
    let ways = examples(&place, "attach", "");
    assert!(ways.len() >= 4, "{ways:?}");
    for way in ways {
        let options = [&words(&way)[2..], &["--time", "fast"]].concat();
        let attached = place.attach(&options);
        let at = attached.at.clone();
        for status in examples(&place, "status", &at) {
            if status.iter().any(|word| word == "--watch") {
                watch(&place, &status);
            } else {
                assert!(!place.done(&words(&status)).is_empty(), "{status:?}");
            }
        }
        attached.detach();
        for check in examples(&place, "check", &at) {
            place.done(&words(&check));
        }
    }
    for (index, detach) in examples(&place, "detach", "@").into_iter().enumerate() {
        let mut attached = place.attach(&["--time", "fast"]);
        let detach: Vec<String> =
            detach.iter().map(|word| word.replace('@', &attached.at)).collect();
        place.done(&words(&detach));
        assert!(attached.wait(), "{index}: {}", attached.said());
    }
}
