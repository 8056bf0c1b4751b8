//! A drive that somebody uses stays, and nothing that is on it is lost: neither by `detach`, nor by a
//! signal, nor by `--mount`, which makes a file system only where nothing is.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::client::{Client, WRITE};
use crate::support::{Attached, Place, has_devices, has_tools, tool, wait_until};

/// Returns what `detach` says that refuses; nothing is detached.
#[track_caller]
fn refusal(place: &Place) -> String {
    let output = place.run(&["detach", "disk.ssd"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("is in use") && said.contains("stays attached"), "{said}");
    assert!(!place.done(&["status", "disk.ssd", "--json"]).is_empty());
    said
}

#[track_caller]
fn wait_for_words(attached: &Attached<'_>, words: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while !attached.said().contains(words) {
        assert!(Instant::now() < until, "{}", attached.said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_file_system_that_is_busy_stays_until_it_is_not() {
    let test = "a busy file system";
    if !has_devices(test) || !has_tools(test, &["mkfs.ext4"]) {
        return;
    }
    let place = Place::new("sim:,scale=1/512");
    let point = place.path("mounted");
    std::fs::create_dir(&point).unwrap();
    let options = ["--time", "fast", "--mount", point.to_str().unwrap()];
    let mut attached = place.attach(&options);
    let mut file = File::create(point.join("file")).unwrap();
    file.write_all(&vec![7; 8 << 20]).unwrap();
    let said = refusal(&place);
    assert!(said.contains("busy"), "{said}");
    attached.ask_to_end();
    wait_for_words(&attached, "stays attached until nobody uses it");
    // A whole drive is still below it: what is written now is there as well.
    file.write_all(&vec![9; 8 << 20]).unwrap();
    file.sync_all().unwrap();
    assert!(attached.is_running());
    drop(file);
    assert!(attached.wait(), "{}", attached.said());
    assert!(attached.said().contains("everything is in the image"), "{}", attached.said());
    drop(attached);
    assert!(place.done(&["check", "disk.ssd"]).contains("closed in order"));
    let attached = place.attach(&options);
    let found = std::fs::read(point.join("file")).unwrap();
    assert!(found.len() == 16 << 20 && found[..8 << 20].iter().all(|&byte| byte == 7));
    assert!(found[8 << 20..].iter().all(|&byte| byte == 9));
    attached.detach();
}

#[test]
fn a_device_that_something_is_made_of_stays() {
    if !has_devices("a device that something is made of") {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--time", "fast"]);
    // As all do that claim a device: volumes, arrays, swap, mounts in other name spaces.
    let flags = rustix::fs::OFlags::EXCL.bits() as i32;
    let holder = OpenOptions::new().read(true).custom_flags(flags).open(&attached.at).unwrap();
    let said = refusal(&place);
    assert!(said.contains(&attached.at) && said.contains("claimed"), "{said}");
    drop(holder);
    attached.detach();
}

#[test]
fn a_drive_that_a_client_or_a_program_has_stays() {
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    let mut client = Client::connect(&place.path("socket")).unwrap();
    assert!(refusal(&place).contains("a client is connected"));
    assert_eq!(client.ask(WRITE, 0, 4096, &[3; 4096]).unwrap(), 0, "it is served");
    drop(client);
    attached.detach();
    if !has_devices("a file that is open") {
        return;
    }
    std::fs::create_dir(place.path("point")).unwrap();
    let attached = place.attach(&["--file", "point", "--time", "fast"]);
    let file = File::open(place.path(&attached.at)).unwrap();
    assert!(refusal(&place).contains("a program has it open"));
    let mut data = [0; 4096];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(data, [3; 4096]);
    drop(file);
    attached.detach();
}

/// Returns the file that a loop device is on as the kernel calls it.
fn backing_file(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
}

/// Returns a loop device whose file lies in the place's directory of records.
fn loop_device_of(place: &Place) -> Option<String> {
    let run = place.path("run");
    let names = std::fs::read_dir("/sys/block").unwrap().map(|it| it.unwrap().file_name());
    let mut names = names.map(|name| name.to_string_lossy().into_owned());
    names.find(|name| backing_file(name).is_some_and(|file| Path::new(&file).starts_with(&run)))
}

#[test]
fn a_device_that_somebody_has_when_mounting_fails_goes_when_he_lets_go() {
    if !has_devices("a device that is held when mounting fails") {
        return;
    }
    let place = Place::alone("sim:,scale=1/2048");
    std::fs::create_dir(place.path("point")).unwrap();
    // A file system whose tool fails once this test has the device.
    let script = format!(
        "#!/bin/sh\nwhile ! test -e {}; do sleep 0.05; done\necho no luck >&2\nexit 1\n",
        place.path("held").display()
    );
    std::fs::write(place.path("mkfs.luckless"), script).unwrap();
    std::fs::set_permissions(place.path("mkfs.luckless"), Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let attach = place
        .command(&["attach", "disk.ssd", "--time", "fast", "--mount", "point", "--fs", "luckless"])
        .env("PATH", format!("{}:{path}", place.path("").display()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| loop_device_of(&place).is_some());
    let name = loop_device_of(&place).unwrap();
    let device = format!("/dev/{name}");
    let flags = rustix::fs::OFlags::EXCL.bits() as i32;
    let mut holder = None;
    // Others look at a new device, too.
    wait_until(|| {
        holder = OpenOptions::new().read(true).custom_flags(flags).open(&device).ok();
        holder.is_some()
    });
    std::fs::write(place.path("held"), "").unwrap();
    let output = attach.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("no luck"), "{said}");
    // The directory of the file is not mounted any more, so it has another name.
    let held = backing_file(&name);
    assert!(held.is_some());
    drop(holder);
    wait_until(|| backing_file(&name) != held);
}

/// Returns what `attach --mount` says that refuses.
#[track_caller]
fn refused_to_mount(place: &Place) -> String {
    let output = place.run(&["attach", "disk.ssd", "--time", "fast", "--mount", "point"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("mkfs.ext4"), "the way out: {said}");
    said
}

#[test]
fn no_file_system_is_made_over_what_is_there() {
    let test = "mounting what holds something else";
    if !has_devices(test) || !has_tools(test, &["mkfs.ext4", "sfdisk", "blkdiscard"]) {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    std::fs::create_dir(place.path("point")).unwrap();
    let write = |what: &dyn Fn(&str)| {
        let attached = place.attach(&["--time", "fast"]);
        what(&attached.at);
        attached.detach();
    };
    // Data that nobody knows.
    let data = vec![5; 1 << 20];
    write(&|device| {
        let file = OpenOptions::new().write(true).open(device).unwrap();
        file.write_all_at(&data, 8 << 20).unwrap();
        file.sync_all().unwrap();
    });
    assert!(refused_to_mount(&place).contains("no file system that blkid finds"));
    // Partitions, of which a blkid of the whole tells no TYPE.
    write(&|device| {
        let table = place.path("table");
        std::fs::write(&table, "label: dos\nstart=8192, size=8192\n").unwrap();
        let script = format!("sfdisk --no-reread --no-tell-kernel {device} < {}", table.display());
        tool("sh", &["-c", &script]);
    });
    let said = refused_to_mount(&place);
    assert!(said.contains("a partition table (dos)"), "{said}");
    write(&|device| {
        let mut found = vec![0; 1 << 20];
        File::open(device).unwrap().read_exact_at(&mut found, 8 << 20).unwrap();
        assert!(found == data, "what was there is there");
        tool("blkdiscard", &["-f", device]);
    });
    // Where nothing is any more, one is made.
    place.attach(&["--time", "fast", "--mount", "point"]).detach();
}

#[test]
fn a_drive_that_is_attached_comes_before_what_a_killed_program_left() {
    let place = Place::new("sim:,scale=1/2048");
    place.attach(&["--nbd", "unix:socket", "--time", "fast"]).kill();
    let run = place.path("run");
    let mut left = std::fs::read_dir(&run).unwrap().map(|it| it.unwrap().path());
    let record = left.find(|it| it.extension().is_some_and(|it| it == "json")).unwrap();
    // Its number was higher than that of any program now.
    let mut text: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    text["pid"] = 4_194_400.into();
    std::fs::write(run.join("4194400.json"), text.to_string()).unwrap();
    std::fs::remove_file(&record).unwrap();
    let mut attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    assert!(!place.done(&["status", "--json"]).is_empty(), "one is attached, and no name needed");
    place.done(&["detach", "disk.ssd"]);
    assert!(attached.wait(), "{}", attached.said());
    assert!(attached.said().contains("everything is in the image"), "{}", attached.said());
}
