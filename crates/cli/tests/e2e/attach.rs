//! `create` and `attach`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
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

/// Attaches `disk.ssd` over NBD at `socket`; returns the program and the address that it prints.
fn attached(place: &Place, socket: &str) -> (Running, String) {
    let at = format!("unix:{socket}");
    let mut command = place.command(&["attach", "disk.ssd", "--nbd", &at, "--time", "fast"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut address = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    (running, address)
}

/// Ends it in order; returns what it said.
fn ended(mut running: Running) -> (Option<i32>, String) {
    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let exit = running.0.wait().unwrap();
    let mut said = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (exit.code(), said)
}

#[test]
fn an_image_whose_name_is_not_utf_8_is_refused_and_left_as_it_is() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    assert_eq!(exit_and_stderr(&place, &["create", "sim:,scale=1/1024", "disk.ssd"]).0, Some(0));
    let name = std::ffi::OsStr::from_bytes(b"disk-\xff.ssd");
    std::fs::rename(place.path("disk.ssd"), place.path("").join(name)).unwrap();
    let mut command = place.command(&["attach"]);
    let output = command.arg(name).args(["--nbd", "unix:socket"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("UTF-8") && said.contains("rename it"), "{said}");
    assert!(!place.path("socket").exists(), "no socket is left");
}

#[test]
fn an_image_that_others_remove_or_cut_is_not_said_to_hold_everything() {
    let place = Place::new();
    let create = ["create", "sim:,scale=1/1024", "disk.ssd", "--force"];
    for (spoil, words) in [
        (|path: &Path| std::fs::remove_file(path).unwrap(), "was removed"),
        (
            |path: &Path| File::options().write(true).open(path).unwrap().set_len(1 << 20).unwrap(),
            "was truncated",
        ),
    ] as [(fn(&Path), &str); 2]
    {
        assert_eq!(exit_and_stderr(&place, &create).0, Some(0));
        let (running, _) = attached(&place, "socket");
        spoil(&place.path("disk.ssd"));
        let (exit, said) = ended(running);
        assert!(exit == Some(1) && !said.contains("everything is in the image"), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn an_address_is_a_uri_whatever_the_socket_is_called() {
    let place = Place::new();
    assert_eq!(exit_and_stderr(&place, &["create", "sim:,scale=1/1024", "disk.ssd"]).0, Some(0));
    let (running, address) = attached(&place, "my&disk %41.sock");
    assert!(address.trim_end().ends_with("/my%26disk%20%2541.sock"), "{address}");
    assert_eq!(ended(running).0, Some(0));
}

#[test]
fn watching_ends_with_its_reader_and_with_a_signal_before_the_interval_is_over() {
    let place = Place::new();
    assert_eq!(exit_and_stderr(&place, &["create", "sim:,scale=1/1024", "disk.ssd"]).0, Some(0));
    let (running, _) = attached(&place, "socket");
    let mut command =
        place.command(&["status", "disk.ssd", "--watch", "--interval", "0.05", "--json"]);
    let mut watching = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(watching.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    // The reader is gone.
    assert_eq!(watching.0.wait().unwrap().code(), Some(0));

    let mut command = place.command(&["status", "disk.ssd", "--watch", "--interval", "86400"]);
    let mut watching = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut stdout = BufReader::new(watching.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&watching.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(watching.0.wait().unwrap().code(), Some(0));
    assert_eq!(ended(running).0, Some(0));
}

#[test]
fn a_killed_drive_is_called_so_and_figures_replace_nothing_else() {
    let place = Place::new();
    assert_eq!(exit_and_stderr(&place, &["create", "sim:,scale=1/1024", "disk.ssd"]).0, Some(0));
    let (running, _) = attached(&place, "socket");
    let figures =
        |file: &str| exit_and_stderr(&place, &["status", "disk.ssd", "--prometheus", file]);
    let note = place.file("note", "mine");
    let (exit, said) = figures(&note);
    assert!(exit == Some(3) && said.contains("--prometheus"), "{said}");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "mine");
    assert_eq!(figures("drive.prom").0, Some(0));
    assert_eq!(figures("drive.prom").0, Some(0), "its own are replaced");
    drop(running);
    let (exit, said) = exit_and_stderr(&place, &["status", "disk.ssd"]);
    assert!(exit != Some(0) && said.contains("ssdlab detach "), "{said}");
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
