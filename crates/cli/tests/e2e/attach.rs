//! `create` and `attach`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use crate::support::Place;

/// A program that is ended with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn exit_and_stderr(place: &Place, arguments: &[&str]) -> (Option<i32>, String) {
    let output = place.command(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_image_is_made_attached_and_detached_in_order() {
    let place = Place::new();
    let create = ["create", "sim:,scale=1/1024", "disk.ssd"];
    assert_eq!(exit_and_stderr(&place, &create).0, Some(0));
    let (exit, said) = exit_and_stderr(&place, &create);
    assert_eq!(exit, Some(3));
    assert!(said.contains("--force"), "{said}");
    let (exit, _) = exit_and_stderr(&place, &[&create[..], &["--force"]].concat());
    assert_eq!(exit, Some(0));
    for opened in ["A new drive.", "detached in order"] {
        let mut command =
            place.command(&["attach", "disk.ssd", "--nbd", "unix:socket", "--time", "fast"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut address = String::new();
        BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.starts_with("nbd+unix:///?socket="), "{address}");
        let (exit, said) = exit_and_stderr(&place, &["attach", "disk.ssd", "--nbd", ":0"]);
        assert_eq!(exit, Some(3), "{said}");
        assert!(said.contains("attached already"), "{said}");
        let pid = rustix::process::Pid::from_child(&running.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(running.0.wait().unwrap().success());
        let mut said = String::new();
        running.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains(opened) && said.contains("everything is in the image"), "{said}");
        assert!(!place.path("socket").exists(), "the socket is removed");
    }
}

#[test]
fn what_cannot_be_attached_is_refused_by_its_name() {
    let place = Place::new();
    let log_blocks = "mapping.scheme=log-block,mapping.log_blocks=8";
    let goes_bad = "wear.life=3000,wear.life_shape=8,wear.reserve=4";
    let ages = "retention.retry=70us,retention.free_for=1d,retention.steps=3";
    for (changes, named, instead) in [
        (log_blocks, "mapping.scheme = log-block", "mapping.scheme page"),
        (goes_bad, "wear.life", "leave out wear.life"),
        (ages, "retention.retry", "leave out retention.retry"),
    ] {
        let drive = format!("sim:,scale=1/1024,{changes}");
        let (exit, said) = exit_and_stderr(&place, &["create", &drive, "disk.ssd"]);
        assert_eq!(exit, Some(4), "{said}");
        assert!(said.contains(named) && said.contains(instead), "{said}");
        assert!(!place.path("disk.ssd").exists());
    }
    let wears = "sim:,scale=1/1024,wear.pe_cycles=3000,wear.levelling=dynamic";
    let (exit, said) = exit_and_stderr(&place, &["create", wears, "disk.ssd"]);
    assert_eq!(exit, Some(0), "{said}");
}

#[test]
fn only_an_image_is_replaced_and_only_by_one_that_is_whole() {
    let place = Place::new();
    let create = ["create", "sim:,scale=1/1024", "file", "--force"];
    std::fs::write(place.path("file"), "my thesis").unwrap();
    let (exit, said) = exit_and_stderr(&place, &create);
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("no image"), "{said}");
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"my thesis");
    std::fs::create_dir(place.path("directory")).unwrap();
    let (exit, said) = exit_and_stderr(&place, &["create", "sim:", "directory", "--force"]);
    assert_eq!(exit, Some(2), "{said}");
    // A link stays one, and what it leads to is replaced.
    assert_eq!(exit_and_stderr(&place, &["create", "sim:,scale=1/1024", "disk.ssd"]).0, Some(0));
    let before = std::fs::read(place.path("disk.ssd")).unwrap();
    std::os::unix::fs::symlink(place.path("disk.ssd"), place.path("link")).unwrap();
    let other = ["create", "sim:,scale=1/512", "link", "--force"];
    assert_eq!(exit_and_stderr(&place, &other).0, Some(0));
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert_ne!(std::fs::metadata(place.path("disk.ssd")).unwrap().len(), before.len() as u64);
    let names = std::fs::read_dir(place.path(".")).unwrap();
    let left =
        names.filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().contains("new"));
    assert_eq!(left.count(), 0, "nothing is left beside");
}
