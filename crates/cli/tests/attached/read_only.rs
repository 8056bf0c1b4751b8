//! A drive whose image cannot be written to can be read, which is said, and nothing in it changes.

use std::fs::{self, File, OpenOptions};
use std::io::Error;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use crate::client::{Client, FLUSH, TRIM, WRITE};
use crate::support::{Place, has_devices, has_tools, once_closed, skipped, tool};

const OPTIONS: [&str; 4] = ["--nbd", "unix:socket", "--time", "fast"];

/// What NBD calls an operation that is not permitted.
const EPERM: u32 = 1;

/// A file system in memory that is unmounted with the test.
struct Tiny(String);

impl Tiny {
    /// The place's image lies on it.
    fn with_image(place: &Place, size: &str) -> Tiny {
        let point = place.path("tiny").display().to_string();
        fs::create_dir(&point).unwrap();
        tool("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", &point]);
        let tiny = Tiny(point);
        place.done(&["create", "sim:,scale=1/2048", "tiny/disk.ssd"]);
        fs::remove_file(place.path("disk.ssd")).unwrap();
        std::os::unix::fs::symlink(place.path("tiny/disk.ssd"), place.path("disk.ssd")).unwrap();
        tiny
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = once_closed("umount", &[&self.0]);
    }
}

fn unit(number: u64) -> Vec<u8> {
    vec![number as u8 + 1; 1 << 16]
}

/// Writes 20 stretches and flushes them; then the program is killed.
fn write_and_kill(place: &Place) {
    let attached = place.attach(&OPTIONS);
    let mut client = Client::connect(&place.path("socket")).unwrap();
    for number in 0..20 {
        assert_eq!(client.ask(WRITE, number << 16, 1 << 16, &unit(number)).unwrap(), 0);
    }
    assert_eq!(client.ask(FLUSH, 0, 0, &[]).unwrap(), 0);
    attached.kill();
}

/// The drive is attached, says that it is only read, because of `why`, and holds what was flushed.
#[track_caller]
fn check_is_read(place: &Place, options: &[&str], why: &str) {
    let attached = place.attach(options);
    assert!(attached.said().contains(why), "{}", attached.said());
    let mut client = Client::connect(&place.path("socket")).unwrap();
    for number in 0..20 {
        let mut data = vec![0; 1 << 16];
        assert_eq!(client.read(number << 16, &mut data).unwrap(), 0);
        assert!(data == unit(number), "{number}");
    }
    assert_eq!(client.ask(WRITE, 0, 1 << 16, &unit(9)).unwrap(), EPERM);
    assert_eq!(client.ask(TRIM, 0, 1 << 16, &[]).unwrap(), EPERM);
    assert_eq!(client.ask(FLUSH, 0, 0, &[]).unwrap(), 0, "there is nothing to flush");
    drop(client);
    place.done(&["detach", "disk.ssd"]);
}

#[test]
fn on_a_full_disk_it_is_read() {
    let test = "an image on a full disk";
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "needs root to mount");
    }
    let place = Place::new("sim:,scale=1/2048");
    let tiny = Tiny::with_image(&place, "24m");
    write_and_kill(&place);
    let ballast = place.path("tiny/ballast");
    assert!(fs::write(&ballast, vec![1; 32 << 20]).is_err(), "the disk is full then");
    check_is_read(&place, &OPTIONS, "lies on a disk that is full");
    fs::remove_file(ballast).unwrap();
    // With room it is what it was.
    let attached = place.attach(&OPTIONS);
    assert!(!attached.said().contains("for reading only"), "{}", attached.said());
    let mut client = Client::connect(&place.path("socket")).unwrap();
    let mut data = vec![0; 1 << 16];
    assert_eq!(client.read(7 << 16, &mut data).unwrap(), 0);
    assert!(data == unit(7));
    assert_eq!(client.ask(WRITE, 0, 1 << 16, &unit(9)).unwrap(), 0);
    drop(client);
    attached.detach();
    drop(tiny);
}

#[test]
fn on_a_medium_that_cannot_be_written_to_it_is_read_and_stays_as_it_is() {
    let test = "an image on a medium that cannot be written to";
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "needs root to mount");
    }
    let place = Place::new("sim:,scale=1/2048");
    let tiny = Tiny::with_image(&place, "64m");
    write_and_kill(&place);
    once_closed("mount", &["-o", "remount,ro", &tiny.0]).unwrap();
    let before = tool("sha256sum", &[&format!("{}/disk.ssd", tiny.0)]);
    check_is_read(&place, &OPTIONS, "cannot be written to");
    let output = place.run(&["check", "disk.ssd", "--repair"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("not be repaired"), "{said}");
    assert!(place.done(&["check", "disk.ssd"]).contains("320 units"), "a check needs no more");
    assert_eq!(tool("sha256sum", &[&format!("{}/disk.ssd", tiny.0)]), before);
    tool("mount", &["-o", "remount,rw", &tiny.0]);
    place.attach(&OPTIONS).detach();
}

#[test]
fn asked_for_it_is_only_read_by_every_way_to_reach_it() {
    let place = Place::new("sim:,scale=1/2048");
    write_and_kill(&place);
    let image = place.path("disk.ssd").display().to_string();
    let before = tool("sha256sum", &[&image]);
    check_is_read(&place, &[&OPTIONS[..], &["--read-only"]].concat(), "");
    let test = "a device that is only read";
    if !has_devices(test) || !has_tools(test, &["blockdev"]) {
        return;
    }
    fs::create_dir(place.path("point")).unwrap();
    let attached = place.attach(&["--file", "point", "--time", "fast", "--read-only"]);
    let path = place.path(&attached.at);
    let error: Error = OpenOptions::new().write(true).open(&path).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    let mut data = vec![0; 1 << 16];
    File::open(&path).unwrap().read_exact_at(&mut data, 3 << 16).unwrap();
    assert!(data == unit(3));
    attached.detach();
    let attached = place.attach(&["--time", "fast", "--read-only"]);
    assert_eq!(tool("blockdev", &["--getro", &attached.at]).trim(), "1");
    File::open(&attached.at).unwrap().read_exact_at(&mut data, 4 << 16).unwrap();
    assert!(data == unit(4));
    attached.detach();
    assert_eq!(tool("sha256sum", &[&image]), before);
}
