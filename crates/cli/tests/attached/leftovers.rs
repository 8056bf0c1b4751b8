//! What a killed program has left goes, by `detach` or when the image is attached again, and nothing else
//! does: neither what somebody else has mounted nor what a forged record names.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use crate::support::{Place, has_devices, once_closed, skipped, tool};

/// A file system in memory that is unmounted with the test.
struct Stranger(String);

impl Stranger {
    fn at(point: String) -> Stranger {
        fs::create_dir_all(&point).unwrap();
        tool("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", &point]);
        fs::write(format!("{point}/file"), "a stranger's").unwrap();
        Stranger(point)
    }

    fn is_there(&self) -> bool {
        fs::read_to_string(format!("{}/file", self.0)).is_ok_and(|it| it == "a stranger's")
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = once_closed("umount", &[&self.0]);
    }
}

fn is_mounted(place: &Place, point: &str) -> bool {
    let point = place.path(point).display().to_string();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(&point))
}

fn records(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("run")).unwrap().map(|it| it.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|it| it == "json")).collect()
}

#[test]
fn the_dead_mount_of_a_killed_program_goes_with_detach_and_with_the_next_attach() {
    if !has_devices("the dead mount of a killed program") {
        return;
    }
    let place = Place::alone("sim:,scale=1/2048");
    fs::create_dir(place.path("point")).unwrap();
    let options = ["--file", "point", "--time", "fast"];
    place.attach(&options).kill();
    assert!(is_mounted(&place, "point"), "the kernel keeps it");
    place.done(&["detach", "disk.ssd"]);
    assert!(!is_mounted(&place, "point") && records(&place).is_empty());
    place.attach(&options).kill();
    let attached = place.attach(&options);
    assert!(attached.said().contains("was killed; cleaned up what it left"), "{}", attached.said());
    assert!(fs::metadata(place.path(&attached.at)).unwrap().len() > 0);
    assert_eq!(records(&place).len(), 1);
    attached.kill();
    // Nothing says any more who mounted it, but that it is dead and of this user.
    records(&place).iter().for_each(|record| fs::remove_file(record).unwrap());
    let attached = place.attach(&options);
    assert!(attached.said().contains("Unmounted point"), "{}", attached.said());
    attached.detach();
    assert!(!is_mounted(&place, "point"));
}

#[test]
fn the_loop_device_of_a_killed_program_goes_with_the_next_attach() {
    if !has_devices("the loop device of a killed program") {
        return;
    }
    let place = Place::alone("sim:,scale=1/2048");
    let attached = place.attach(&["--time", "fast"]);
    let name = attached.at.trim_start_matches("/dev/").to_owned();
    let run = place.path("run").display().to_string();
    let lies_in_run = || {
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        file.is_ok_and(|file| file.starts_with(&run))
    };
    assert!(lies_in_run());
    attached.kill();
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    assert!(attached.said().contains("cleaned up what it left"), "{}", attached.said());
    assert!(!lies_in_run());
    attached.detach();
}

/// Puts a record of a process that is none into the place's directory of records.
fn forge(place: &Place, name: &str, mounted: &str) -> PathBuf {
    let path = place.path("run").join(name);
    let record = serde_json::json!({
        "pid": 4_194_400, "image": place.path("other.ssd"), "place": "forged", "device": null,
        "directory": mounted,
    });
    fs::write(&path, record.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn a_record_does_not_make_root_unmount_what_is_not_ours_and_dead() {
    let test = "a forged record";
    if !has_devices(test) {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    let stranger = Stranger::at(place.path("strange").display().to_string());
    // A file of ours that is mounted, and alive.
    fs::create_dir(place.path("point")).unwrap();
    place.done(&["create", "sim:,scale=1/2048", "other.ssd"]);
    let alive = place.attach(&["--file", "point", "--time", "fast"]);
    for named in [stranger.0.clone(), place.path("point").display().to_string()] {
        let path = forge(&place, "4194400.json", &named);
        place.done(&["detach", "forged"]);
        assert!(!path.exists(), "nothing is left that could be cleaned up");
        assert!(stranger.is_there() && fs::metadata(place.path(&alive.at)).is_ok());
    }
    // Of somebody else, or so that others could have written it: nothing is done at all.
    let path = forge(&place, "4194400.json", &stranger.0);
    chown(&path, Some(12345), None).unwrap();
    let refused = |words: &str| {
        for command in [&["detach", "forged"][..], &["attach", "other.ssd", "--nbd", "unix:s"]] {
            let output = place.run(command);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(3), "{said}");
            assert!(said.contains(words) && said.contains("nothing is done"), "{said}");
        }
        assert!(path.exists() && stranger.is_there());
    };
    refused("not a record of user 0");
    chown(&path, Some(0), None).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    refused("written by others");
    fs::rename(&path, place.path("run/17.json")).unwrap();
    fs::set_permissions(place.path("run/17.json"), fs::Permissions::from_mode(0o600)).unwrap();
    let output = place.run(&["detach", "forged"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && said.contains("process 4194400"), "{said}");
    fs::remove_file(place.path("run/17.json")).unwrap();
    alive.detach();
}

#[test]
fn a_directory_of_records_that_others_may_enter_is_refused() {
    let place = Place::new("sim:,scale=1/2048");
    let run = place.path("run");
    for mode in [0o755, 0o770, 0o1777] {
        fs::set_permissions(&run, fs::Permissions::from_mode(mode)).unwrap();
        let output = place.run(&["attach", "disk.ssd", "--nbd", "unix:s"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("chmod 700"), "the way out: {said}");
    }
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    place.attach(&["--nbd", "unix:s", "--time", "fast"]).detach();
    if !rustix::process::geteuid().is_root() {
        return skipped("a directory of somebody else's", "needs root");
    }
    chown(&run, Some(12345), None).unwrap();
    let output = place.run(&["status"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && said.contains("user 12345"), "{said}");
    chown(&run, Some(0), None).unwrap();
}
