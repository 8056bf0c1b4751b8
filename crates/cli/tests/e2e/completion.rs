//! Completion, by asking as shells do.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::support::{Place, skipped};

/// The answers of the program to a shell that asks about the last of `words`.
fn answers(place: &Place, shell: &str, words: &[&str]) -> Vec<String> {
    let mut command = place.command(&[&["--", "ssdlab"], words].concat());
    command.env("SSDLAB_COMPLETE", shell).env("_CLAP_IFS", "\n");
    command.env("SSDLAB_RUN", place.path("run"));
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let plain = |line: &str| match shell {
        // Behind the word these two have what it means.
        "zsh" => line.replace("\\:", "\u{1}").split(':').next().unwrap().replace('\u{1}', ":"),
        _ => line.split('\t').next().unwrap().to_owned(),
    };
    text.lines().map(plain).collect()
}

#[test]
fn names_that_the_program_knows_are_completed_in_every_shell() {
    let place = Place::new();
    place.run(&["run", "fragmentation", "--quick"]).with_code(0);
    place.file("aged.ssd", "");
    place.file("my.toml", "");
    for shell in ["bash", "zsh", "fish"] {
        let answer = |words: &[&str]| answers(&place, shell, words);
        let is = |words: &[&str], expected: &[&str]| {
            assert_eq!(answer(words), expected, "{shell}: {words:?}");
        };
        is(&["ru"], &["run"]);
        is(&["run", "frag"], &["fragmentation"]);
        is(&["run", "fragmentation", "--allow"], &["--allow-buffered"]);
        is(&["run", "fragmentation", "sim:toshiba-x"], &["sim:toshiba-xg5"]);
        is(&["run", "fragmentation", "sim:ag"], &["sim:aged.ssd"]);
        is(&["run", "fragmentation", "sim:./my"], &["sim:./my.toml"]);
        is(
            &["run", "steady", "sim:toshiba-xg5,spare=7%,flash.page_s"],
            &["sim:toshiba-xg5,spare=7%,flash.page_size="],
        );
        is(&["run", "steady", "raid1(sim:;sim:toshiba-x"], &["raid1(sim:;sim:toshiba-xg5"]);
        is(&["run", "steady", "raid1"], &["raid1(", "raid10("]);
        is(&["run", "steady", "--set", "read_p"], &["read_percent="]);
        is(&["run", "fragmentation", "--set", "read_p"], &[]);
        is(&["precondition", "--set", "flash.page_s"], &["flash.page_size="]);
        is(&["list", "profiles", "toshiba-x"], &["toshiba-xg5"]);
        is(&["list", "experiments", "over"], &["overprovision"]);
        is(&["show", "l"], &["last"]);
        is(&["show", "1"], &["1"]);
        is(&["doctor", "--fix", "sw"], &["swappiness"]);
        assert!(answer(&["run", "job", "sim:"]).is_empty(), "the file comes first");
        assert_eq!(answer(&["run", "job", "x.fio", "sim:toshiba-x"]), ["sim:toshiba-xg5"]);
    }
}

#[test]
fn drives_that_are_attached_are_completed_by_device_and_by_image() {
    let place = Place::new();
    let run = place.directory("run");
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
    let image = place.path("disk.ssd").display().to_string();
    let record = serde_json::json!({"pid": 4_194_400, "image": image, "place": "/dev/loop77",
        "device": "/dev/loop77", "directory": null});
    let file = place.file("run/4194400.json", record.to_string());
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    for command in ["detach", "status", "power-cut"] {
        let answer = |word: &str| answers(&place, "fish", &[command, word]);
        assert_eq!(answer("/dev/lo"), ["/dev/loop77"], "{command}");
        assert_eq!(answer(&image[..image.len() - 4]), [image.as_str()], "{command}");
    }
}

#[test]
fn every_shell_has_a_script_that_asks() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]).with_code(0).stdout;
        assert!(script.contains("SSDLAB_COMPLETE"), "{shell}: {script}");
    }
    place.run(&["completions", "tcsh"]).fails(2, &["bash"]);
}

/// bash parts words at colons and equals signs, and wants only the last part back.
#[test]
fn bash_itself_completes_targets_with_colons_and_commas() {
    let place = Place::new();
    place.file("script", place.run(&["completions", "bash"]).with_code(0).stdout);
    let ask = |words: &str, line: &str, current: &str| {
        let program = assert_cmd::cargo::cargo_bin!("ssdlab").parent().unwrap().to_owned();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let script = format!(
            "source ./script; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _ssdlab ssdlab '{current}' ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script]).current_dir(place.path("")).env("PATH", path);
        let output = bash.stdin(Stdio::null()).output().ok()?;
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(found) = ask("ssdlab run fra", "ssdlab run fra", "fra") else {
        return skipped("bash itself", "bash is missing");
    };
    assert_eq!(found, "fragmentation\n");
    let line = "ssdlab run steady sim:toshiba-x";
    let found = ask("ssdlab run steady sim : toshiba-x", line, "toshiba-x").unwrap();
    assert_eq!(found, "toshiba-xg5\n");
    let line = "ssdlab run steady sim:";
    let profiles = ask("ssdlab run steady sim :", line, "").unwrap();
    assert!(profiles.lines().any(|line| line == "toshiba-xg5"), "{profiles}");
    let line = "ssdlab run steady sim:toshiba-xg5,spare=7%,flash.page_s";
    let found =
        ask("ssdlab run steady sim : toshiba-xg5,spare = 7%,flash.page_s", line, "7%,flash.page_s");
    assert_eq!(found.unwrap(), "7%,flash.page_size=\n");
    let line = "ssdlab run steady --set ";
    assert!(ask("ssdlab run steady --set ''", line, "").unwrap().contains("depth=\n"));
}

#[test]
fn fish_itself_completes_targets_and_settings() {
    let place = Place::new();
    place.file("script", place.run(&["completions", "fish"]).with_code(0).stdout);
    let program = assert_cmd::cargo::cargo_bin!("ssdlab").parent().unwrap().to_owned();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let ask = |line: &str| {
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &format!("source ./script; complete -C '{line}'")]);
        fish.current_dir(place.path("")).env("PATH", &path).env("HOME", place.path(""));
        let output = fish.stdin(Stdio::null()).output().ok()?;
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(found) = ask("ssdlab run fragmentation sim:toshiba-x") else {
        return skipped("fish itself", "fish is missing");
    };
    assert!(found.starts_with("sim:toshiba-xg5\tToshiba"), "{found}");
    let found = ask("ssdlab run steady --set dep").unwrap();
    assert!(found.starts_with("depth=\t"), "{found}");
}
